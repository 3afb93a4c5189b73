"""Features in a few bits each."""

from math import ceil
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from smashbench.defenses.base import Defense

SHARE = 0.001
"""Of the training features below the lowest level, and above the highest."""
SAMPLED = 2**20
"""Most features, of images evenly spread, that the levels are taken of: sorting is dear."""


class Quantise(Defense):
    """Every feature is sent as one of 2^bits levels, spread evenly between the .1 % and the 99.9 %
    quantile of the training features.

    With lowest level l and spacing q, z~ = l + q round((z - l) / q), clipped to the levels;
    dithered, z~ = l + q floor((z - l) / q + u) with u uniform in [0, 1), drawn anew for every
    feature and release, so that E z~ = z between the levels. Training sends gradients straight
    through (Bengio et al., arXiv:1308.3432), none where a feature is clipped. The quantiles are
    those of the epoch before (at first those of the untrained network in evaluation mode, whose
    features spread less than in training: most are clipped in the first epoch) and part of what is
    stored: test features meet the same levels.

    Args:
        bits: of each feature that is sent.
        dithered: rounds at random instead of to the nearest level.
    """

    strength = "bits"
    group = "sparsity"
    refit = "epoch"
    levels: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        bits: Annotated[int, Ge(1), Le(16)] = 4,
        dithered: bool = False,
    ) -> None:
        super().__init__(shape, classes)
        self.bits, self.dithered = bits, dithered
        self.transform_is = "random" if dithered else "rough"
        self.register_buffer("levels", torch.tensor([0.0, 1.0]))

    def transform(self, z: Tensor) -> Tensor:
        low, high = self.levels.to(z.dtype)
        clipped = z.clamp(low, high)
        most = 2**self.bits - 1
        spacing = ((high - low) / most).clamp_min(1e-12)
        place = (clipped - low) / spacing
        place = (place + torch.rand_like(place)).floor() if self.dithered else place.round()
        sent = low + spacing * place.clamp_max(most)
        return sent.detach() + (clipped - clipped.detach())  # a level, to the last bit

    def payload(self, released: Tensor) -> int:
        return self.bits * released[0].numel()

    @property
    def wants_refresh(self) -> bool:
        return True

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        images = features[:: ceil(features.numel() / SAMPLED)]
        values = images.flatten().float().sort().values
        at = [round(share * (len(values) - 1)) for share in (SHARE, 1 - SHARE)]
        self.levels.copy_(values[at])
