"""The floor: the mean image."""

from typing import Self

from torch import Tensor

from smashbench.attacks.base import Attack, Knowledge


class Mean(Attack):
    """Floor: the mean of the attacker's images, whatever was sent."""

    needs = frozenset()
    kind = "floor"
    noise_aware = False
    image_: Tensor

    def fit(self, knowledge: Knowledge) -> Self:
        self.image_ = knowledge.images.mean(0)
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        return self.image_.expand(len(z), -1, -1, -1)
