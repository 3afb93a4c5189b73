"""Additive Laplace noise."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Defense


class Laplace(Defense):
    """Laplace noise on every feature, z~ = z + b (E - E') with E and E' ~ Exp(1) and b =
    noise / sqrt(2), in training and at inference.

    As in differential privacy (Dwork et al., TCC 2006), but with nothing that bounds the
    sensitivity: it promises nothing. ``local_dp`` does.

    Args:
        noise: standard deviation (not the scale b), so that it compares with Gaussian noise.
    """

    strength = "noise"
    group = "noise"
    gaussian = False

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, noise: Annotated[float, Ge(0)] = 0.1
    ) -> None:
        super().__init__(shape, classes)
        self.noise = noise

    def perturb(self, z: Tensor) -> Tensor:
        return z + laplace_like(z, self.noise) if self.noise else z


def laplace_like(z: Tensor, std: float) -> Tensor:
    """Independent Laplace numbers of mean 0 in the shape of ``z``. A difference of two exponential
    ones is never infinite, as the logarithm of a uniform one may be."""
    first, second = (torch.empty_like(z).exponential_() for _ in range(2))
    return (first - second) * (std / 2**0.5)
