"""Features of a class together, those of others apart."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Defense, Diagnostic, Diagnostics, Step, full_precision

TINY = 1e-7
"""Inside the root, whose slope is infinite at zero."""


class Siamese(Defense):
    """A contrastive penalty on pairs of the batch (Osia et al., IEEE IoT Journal 2020; Hadsell et
    al., CVPR 2006).

    Penalty = weight * mean over pairs i < j of (1 - m) d + m max(0, margin - d), with d the
    Euclidean distance of their clean features and m = 1 where the labels differ, else 0. Distances
    are not squared (Hadsell et al. square both terms). Released is z itself.

    Args:
        weight: of the penalty.
        margin: distance from which on features of two classes cost nothing.
    """

    strength = "weight"
    group = "information"
    diagnostics = {"contrastive": Diagnostic("contrastive loss", column=True)}

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        weight: Annotated[float, Ge(0)] = 0.005,
        margin: Annotated[float, Ge(0)] = 2.0,
    ) -> None:
        super().__init__(shape, classes)
        self.weight, self.margin = weight, margin

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        with full_precision(step.features) as z:
            value = contrastive(z.flatten(1), step.labels, self.margin)
        return self.weight * value, {"contrastive": value.detach()}


def contrastive(z: Tensor, y: Tensor, margin: float) -> Tensor:
    """The mean over pairs of features (B, D) with labels (B,); 0 of a single one."""
    centred = z - z.detach().mean(0)  # the products of large means would cancel
    squares = centred.square().sum(1)
    distances = (squares[:, None] + squares - 2 * centred @ centred.T).clamp_min(0)
    d = (distances + TINY).sqrt()
    differ = y[:, None] != y
    costs = torch.where(differ, (margin - d).clamp_min(0), d)
    pairs = len(z) * (len(z) - 1) / 2
    return costs.triu(1).sum() / max(pairs, 1)
