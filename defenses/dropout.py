"""Dropout that stays at inference."""

from math import ceil
from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from smashbench.defenses.base import FLOAT, Defense


class Dropout(Defense):
    """Every feature is zero with probability ``rate``, drawn anew for every release.

    z~ = z m with m ~ Bernoulli(1 - rate), in training, at inference and under attack alike, and
    without rescaling (He et al., IEEE IoT Journal 2021, drop at inference; as in the comparisons of
    Xia et al., CVPR 2025). What is sent are the features that are left and a bit for each place.

    Args:
        rate: share of the features that are dropped, on average.
    """

    strength = "rate"
    group = "sparsity"

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, rate: Annotated[float, Ge(0), Lt(1)] = 0.3
    ) -> None:
        super().__init__(shape, classes)
        self.rate = rate
        self.transform_is = "random" if rate else "smooth"

    def transform(self, z: Tensor) -> Tensor:
        return z * (torch.rand_like(self._droppable(z)) >= self.rate) if self.rate else z

    def _droppable(self, z: Tensor) -> Tensor:
        """What of features is kept or dropped as one has one entry here."""
        return z

    def payload(self, released: Tensor) -> int:
        features = released[0].numel()
        left = ceil(FLOAT * features * (1 - self.rate))
        return min(FLOAT * features, left + self._droppable(released)[0].numel())
