"""Additive Gaussian noise."""

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Defense, Role


class Noise(Defense):
    """Gaussian noise on every feature: z~ = z + N(0, noise^2), in training and at inference.

    Args:
        noise: standard deviation; features lie in (0, 1).
    """

    strength = "noise"
    role: ClassVar[Role] = "baseline"

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, noise: Annotated[float, Ge(0)] = 0.1
    ) -> None:
        super().__init__(shape, classes)
        self.noise = noise

    def forward(self, z: Tensor) -> Tensor:
        return z + self.noise * torch.randn_like(z) if self.noise else z

    @property
    def randomized(self) -> bool:
        return self.noise > 0
