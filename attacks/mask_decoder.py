"""A decoder that sees which features were sent."""

from dataclasses import replace
from typing import Self

from torch import Tensor

from smashbench.attacks.base import Knowledge
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.gaps import Gaps


class MaskDecoder(Decoder):
    """A ``Decoder`` for releases with gaps: zeros are shown as gaps beside the features.

    Dropout, top-k and pruning tell by which features are zero, too, and a zero is no small feature.
    Where nothing is ever zero it is a ``Decoder`` with inputs that say nothing.

    Args:
        options: those of ``Decoder``.
    """

    def fit(self, knowledge: Knowledge) -> Self:
        self.gaps_ = gaps = Gaps(knowledge)

        def draw(index: Tensor) -> Tensor:
            return gaps.shown(knowledge.draw(index))

        return super().fit(replace(knowledge, services={**knowledge.services, "draw": draw}))

    def reconstruct(self, z: Tensor) -> Tensor:
        return super().reconstruct(self.gaps_.shown(z))
