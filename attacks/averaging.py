"""Repeated releases: average them, then decode."""

from dataclasses import replace
from typing import Annotated, Any, Self

from annotated_types import Ge
from torch import Tensor

from smashbench.attacks.base import Knowledge
from smashbench.attacks.decoder import Decoder


class Averaging(Decoder):
    """A ``Decoder`` for the average of several releases of the same image.

    What noise hides once it hides less when it is drawn again and again.

    Args:
        releases: releases of each image, in training as under attack.
        options: those of ``Decoder``.
    """

    needs = frozenset({"pairs", "repeats"})

    def __init__(self, *, releases: Annotated[int, Ge(1)] = 16, **options: Any) -> None:
        super().__init__(**options)
        self.releases = releases

    def fit(self, knowledge: Knowledge) -> Self:
        def draw(index: Tensor) -> Tensor:
            repeated = knowledge.draw(index.repeat(self.releases))
            return repeated.view(self.releases, len(index), *repeated.shape[1:]).mean(0)

        return super().fit(replace(knowledge, services={**knowledge.services, "draw": draw}))

    def reconstruct(self, z: Tensor) -> Tensor:
        return super().reconstruct(z if self.releases == 1 else z.mean(1))
