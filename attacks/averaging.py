"""Repeated releases: average them, then decode."""

from dataclasses import replace
from typing import Annotated, Any, Self

from annotated_types import Ge
from torch import Tensor

from attacks.base import Knowledge
from attacks.decoder import Decoder


class Averaging(Decoder):
    """The client sends the same image several times and the attacker averages the releases: what
    noise hides once, it hides less often. Then a ``Decoder`` for such averages.

    Args:
        releases: releases of each image, in training as under attack.
    """

    def __init__(self, *, releases: Annotated[int, Ge(1)] = 16, **options: Any) -> None:
        super().__init__(**options)
        self.releases = releases

    def fit(self, knowledge: Knowledge) -> Self:
        def draw(index: Tensor) -> Tensor:
            repeated = knowledge.draw(index.repeat(self.releases))
            return repeated.view(self.releases, len(index), *repeated.shape[1:]).mean(0)

        return super().fit(replace(knowledge, draw=draw))

    def reconstruct(self, z: Tensor) -> Tensor:
        return super().reconstruct(z if self.releases == 1 else z.mean(1))
