"""Features that depend little on the images and much on the labels."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Defense, Diagnostic, Diagnostics, Step, full_precision

NonNegative = Annotated[float, Ge(0)]


class Hsic(Defense):
    """Bilateral dependency optimisation (BiDO, Peng et al., KDD 2022): a penalty on the
    Hilbert-Schmidt independence criterion of images and features, less that of features and labels.

    Penalty = weight * HSIC(x, z) - label_weight * HSIC(z, y), with
    HSIC(a, b) = tr(K H L H) / (B - 1)^2 (Gretton et al., ALT 2005), H = I - 1/B, and Gaussian
    kernels exp(-d^2 / 2 w^2) whose width w is the median distance of two samples of the batch (no
    gradient goes through it; of one-hot labels w^2 = 2). Deviations: BiDO penalises every layer,
    here there is the one that is sent; and it has a fixed width, so that its weights are in other
    units. Released is z itself.

    Args:
        weight: of the dependence on images (lambda_x).
        label_weight: of the dependence on labels (lambda_y).
    """

    strength = "weight"
    group = "information"
    diagnostics = {
        "hsic_images": Diagnostic("HSIC of images and features", logarithmic=True, column=True),
        "hsic_labels": Diagnostic("HSIC of features and labels", logarithmic=True),
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        weight: NonNegative = 1.0,
        label_weight: NonNegative = 1.0,
    ) -> None:
        super().__init__(shape, classes)
        self.weight, self.label_weight = weight, label_weight

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        with full_precision(step.features) as z:
            images = kernel(_squares(step.images.flatten(1).to(z.dtype)))
            features = kernel(_squares(z.flatten(1)))
            apart = 2.0 * (step.labels[:, None] != step.labels).to(z.dtype)
            with_images = hsic(images, features)
            with_labels = hsic(features, (apart / -4).exp())
            value = self.weight * with_images - self.label_weight * with_labels
        found = {"hsic_images": with_images.detach(), "hsic_labels": with_labels.detach()}
        return value, found


def hsic(k: Tensor, other: Tensor) -> Tensor:
    """tr(K H L H) / (B - 1)^2 of two symmetric kernel matrices (B, B)."""
    centred = k - k.mean(0) - k.mean(1, keepdim=True) + k.mean()
    return (centred * other).sum() / max(len(k) - 1, 1) ** 2


def kernel(squares: Tensor) -> Tensor:
    """exp(-d^2 / 2 w^2) of squared distances (B, B); w^2 is the median of those of two samples."""
    n = len(squares)
    first, second = torch.triu_indices(n, n, 1, device=squares.device)
    pairs = squares.detach()[first, second]
    width = pairs.median().clamp_min(1e-12) if len(pairs) else 1.0
    return (squares / (-2 * width)).exp()


def _squares(values: Tensor) -> Tensor:
    centred = values - values.detach().mean(0)
    squares = centred.square().sum(1)
    return (squares[:, None] + squares - 2 * centred @ centred.T).clamp_min(0)
