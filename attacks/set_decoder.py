"""Repeated releases: their union, then decode."""

from dataclasses import replace
from typing import Annotated, Any, Self

from annotated_types import Ge
from torch import Tensor

from smashbench.attacks.base import Knowledge
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.gaps import Gaps


class SetDecoder(Decoder):
    """A ``Decoder`` for several releases of the same image, as a set.

    What one release left out another has sent: it sees the mean of every feature over the releases
    that sent it, where ``Averaging`` counts what was dropped as zero; how often it was sent; and
    its spread, which tells of noise that depends on the image. All three are the same in any order
    of the releases. They are fixed, not learned.

    Args:
        releases: releases of each image, in training as under attack.
        options: those of ``Decoder``.
    """

    needs = frozenset({"pairs", "repeats"})

    def __init__(self, *, releases: Annotated[int, Ge(1)] = 16, **options: Any) -> None:
        super().__init__(**options)
        self.releases = releases

    def fit(self, knowledge: Knowledge) -> Self:
        self.gaps_ = gaps = Gaps(knowledge)

        def draw(index: Tensor) -> Tensor:
            repeated = knowledge.draw(index.repeat_interleave(self.releases))
            return gaps.united(repeated.unflatten(0, (len(index), self.releases)))

        return super().fit(replace(knowledge, services={**knowledge.services, "draw": draw}))

    def reconstruct(self, z: Tensor) -> Tensor:
        return super().reconstruct(self.gaps_.united(z if self.releases > 1 else z[:, None]))
