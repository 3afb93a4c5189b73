"""The largest features alone."""

from math import ceil, log2
from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from smashbench.defenses.base import FLOAT, Defense


class TopK(Defense):
    """Of every image the k features with the largest absolute values are sent, the rest is 0.

    k = (1 - rate) D, rounded, and at least 1; each image by itself, in training, at inference and
    under attack alike (sparsification of the cut layer as in Zheng et al., IJCAI 2023, without
    their random part). What is sent are the values and their places, as indices or as a bit for
    each feature, whichever is shorter.

    Args:
        rate: share of the features of an image that are dropped.
    """

    strength = "rate"
    group = "sparsity"

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, rate: Annotated[float, Ge(0), Lt(1)] = 0.5
    ) -> None:
        super().__init__(shape, classes)
        self.rate = rate
        self.transform_is = "rough" if rate else "smooth"

    def transform(self, z: Tensor) -> Tensor:
        flat = z.flatten(1)
        kept = flat.detach().abs().topk(self._k(flat.shape[1]), sorted=False).indices
        return (flat * torch.zeros_like(flat).scatter_(1, kept, 1)).view_as(z)

    def payload(self, released: Tensor) -> int:
        features = released[0].numel()
        k = self._k(features)
        places = min(features, k * ceil(log2(features))) if features > 1 else 0
        return min(FLOAT * features, FLOAT * k + places)

    def _k(self, features: int) -> int:
        return max(1, round((1 - self.rate) * features))
