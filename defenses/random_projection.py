"""Features under a fixed secret key: a warning."""

from typing import Literal

import torch
from torch import Tensor

from smashbench.defenses.base import Defense, full_precision


class RandomProjection(Defense):
    """Features are mixed by a fixed random key. It protects nothing: it is here as a warning.

    z~ = Q z for a random orthogonal Q (D, D) (``rotation``, as in random projections of records,
    Liu et al., IEEE TKDE 2006), or a random ``permutation`` of the features. The key is drawn once,
    before training, and never changes: nothing is lost, and whoever has pairs learns its inverse
    with the rest. There is nothing to sweep. The head pays for it where it is convolutional, and
    attacks that look at neighbourhoods alone (a decoder without ``hidden``) are fooled where
    ``ridge`` is not.

    Args:
        key: what Q is.
    """

    group = "warning"
    matrix: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        key: Literal["rotation", "permutation"] = "rotation",
    ) -> None:
        super().__init__(shape, classes)
        features = torch.Size(shape).numel()
        self.fills = key == "rotation"  # a permutation leaves as many zeros
        if key == "rotation":
            matrix = torch.linalg.qr(torch.randn(features, features)).Q
        else:
            matrix = torch.eye(features)[torch.randperm(features)]
        self.register_buffer("matrix", matrix)

    def transform(self, z: Tensor) -> Tensor:
        with full_precision(z) as z:
            return (z.flatten(1) @ self.matrix).view_as(z)
