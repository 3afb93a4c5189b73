"""Additive Gaussian noise."""

from typing import Annotated, ClassVar

from annotated_types import Ge

from smashbench.defenses.base import Defense, Role


class Noise(Defense):
    """Gaussian noise on every feature: z~ = z + N(0, noise^2), in training and at inference.

    Args:
        noise: standard deviation; features lie in (0, 1).
    """

    strength = "noise"
    role: ClassVar[Role] = "baseline"
    group = "noise"

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, noise: Annotated[float, Ge(0)] = 0.1
    ) -> None:
        super().__init__(shape, classes)
        self.noise = noise
