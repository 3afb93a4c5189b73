"""A decoder that also sees where each feature lies among those of its channel."""

from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from smashbench.attacks.base import Knowledge, finite
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.network import as_map

KNOTS = 257
"""Quantiles of a channel between which a feature is interpolated."""
SEEN, LARGEST = 2000, 2**24
"""Images whose releases say what is usual, spread over all, and how many features these have at
most."""


class QuantileDecoder(Decoder):
    """A ``Decoder`` for features of very different scales: beside each feature it sees its quantile
    among the attacker's own releases of that channel, as the value of a standard normal.

    What a sigmoid has squeezed, or a penalty has shrunk to differences that a few large values hide
    from a network with standardised inputs, is spread out again. Marginal Gaussianization (Chen and
    Gopinath, NeurIPS 2000): it is the same for any strictly increasing function of a channel.
    Beyond what the attacker has seen it is constant; the feature itself is shown, too.

    Args:
        options: those of ``Decoder``.
    """

    def fit(self, knowledge: Knowledge) -> Self:
        n, device = len(knowledge.images), knowledge.images.device
        self.size_ = knowledge.images.shape[2:]
        features = knowledge.draw(torch.zeros(1, dtype=torch.long, device=device)).numel()
        seen = min(n, SEEN, max(2, LARGEST // features))
        index = torch.linspace(0, n - 1, seen, device=device).round().long()
        usual = _by_channel(as_map(finite(knowledge.draw(index)), self.size_)).sort(1).values
        levels = torch.linspace(0, 1, KNOTS, dtype=torch.float64, device=device)
        place = (levels * (usual.shape[1] - 1)).round()
        self.knots_ = usual[:, place.long()]
        self.normal_ = torch.special.ndtri((place + 0.5) / usual.shape[1]).to(usual.dtype)

        def draw(index: Tensor) -> Tensor:
            return self.shown(knowledge.draw(index))

        return super().fit(replace(knowledge, services={**knowledge.services, "draw": draw}))

    def shown(self, z: Tensor) -> Tensor:
        """Releases (B, ...) as maps (B, 2C', H', W'): features, and their quantiles."""
        z = as_map(z, self.size_)
        flat = _by_channel(z)
        above = torch.searchsorted(self.knots_, flat).clamp(1, KNOTS - 1)
        low, high = self.knots_.gather(1, above - 1), self.knots_.gather(1, above)
        step = high - low
        share = ((flat - low) / step.where(step > 0, 1)).clamp(0, 1)
        normal = torch.lerp(self.normal_[above - 1], self.normal_[above], share)
        return torch.cat([z, normal.unflatten(1, (len(z), *z.shape[2:])).transpose(0, 1)], 1)

    def reconstruct(self, z: Tensor) -> Tensor:
        return super().reconstruct(self.shown(z))


def _by_channel(z: Tensor) -> Tensor:
    """Maps (B, C', H', W') as (C', B H' W')."""
    return z.transpose(0, 1).flatten(1).contiguous()
