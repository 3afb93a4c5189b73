"""NoPeek: features that correlate little with the images."""

from typing import Annotated

from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Defense, Diagnostic, Diagnostics, Step, full_precision

TINY = 1e-7
"""Inside every root, whose slope is infinite at zero: two equal images are no rarity."""


class NoPeek(Defense):
    """NoPeek (Vepakomma et al., ICDM Workshops 2020): a penalty on the distance correlation of
    images and clean features.

    Penalty = weight * dCor(x, z), see ``distance_correlation``. Released is z itself.

    Args:
        weight: of the penalty (alpha).
    """

    strength = "weight"
    group = "information"
    diagnostics = {"distance_correlation": Diagnostic("distance correlation", column=True)}

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, weight: Annotated[float, Ge(0)] = 1.0
    ) -> None:
        super().__init__(shape, classes)
        self.weight = weight

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        with full_precision(step.features) as z:
            value = distance_correlation(step.images, z)
        return self.weight * value, {"distance_correlation": value.detach()}


def distance_correlation(x: Tensor, z: Tensor) -> Tensor:
    """Sample distance correlation of x (B, ...) and z (B, ...), from 0 to 1 (Szekely et al.,
    Annals of Statistics 2007): sqrt(mean(A B)) / sqrt(sqrt(mean(A A)) sqrt(mean(B B))), with the
    doubly centred matrices A and B of Euclidean distances (not squared ones, for which 0 would
    not mean independence). Of few rows it is far above 0 without any dependence: .97 of 128
    independent rows of 512 uniform values each."""
    a, b = _centred(x.flatten(1).float()), _centred(z.flatten(1).float())
    shared, own_a, own_b = (
        (product.mean().clamp_min(0) + TINY).sqrt() for product in (a * b, a * a, b * b)
    )
    return shared / (own_a * own_b + TINY).sqrt()


def _centred(values: Tensor) -> Tensor:
    """Distances (B, B) of rows, minus the means of rows and columns, plus the mean of all."""
    values = values - values.detach().mean(0)  # else small distances cancel in float32
    squares = values.square().sum(1)
    distances = (squares[:, None] + squares - 2 * values @ values.T).clamp_min(0)
    roots = (distances + TINY).sqrt()
    return roots - roots.mean(0) - roots.mean(1, keepdim=True) + roots.mean()
