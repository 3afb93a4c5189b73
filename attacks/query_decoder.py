"""A decoder that makes up its own training images."""

import torch
from torch import Tensor

from smashbench.attacks.base import Knowledge
from smashbench.attacks.decoder import Decoder


class QueryDecoder(Decoder):
    """A ``Decoder`` for an attacker who may query the client: half of the images of every batch
    are mirrored and released anew, so few images teach more."""

    needs = frozenset({"pairs", "query"})

    def pairs(self, knowledge: Knowledge, index: Tensor) -> tuple[Tensor, Tensor]:
        x = knowledge.images[index]
        mirrored = torch.rand(len(x), 1, 1, 1).to(x.device) < 0.5
        x = torch.where(mirrored, x.flip(3), x)
        return knowledge.query(x), x
