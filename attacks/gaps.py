"""What a release with gaps shows: which features were sent, and what the sent ones were."""

import torch
from torch import Tensor

from smashbench.attacks.base import Knowledge, finite
from smashbench.attacks.network import as_map

SEEN = 2000
"""Images whose releases say what is usual, spread over all, which may be stored class by class."""
RARE = 0.001
"""Share of the releases of a channel below which gaps, or features that were sent, are no news."""


class Gaps:
    """Shows releases whose zeros are gaps, as of dropout and pruning, to a network.

    A feature that was not sent says nothing about its value; its place is filled with the mean of
    those that were. That it was not sent says something where it depends on the image, and is
    shown beside it. Features are clipped to the range in which their channel was seen: a level that
    no training release had, of features that are quantised or hardly ever sent, would be
    standardised by a spread of nothing. For the same reason a channel that is nearly always sent is
    taken as sent always: of a hundred million noisy features one is zero by rounding, and no gap.
    One that is hardly ever sent is shown as never sent.

    Args:
        knowledge: releases of its images say what is usual.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        n, device = len(knowledge.images), knowledge.images.device
        index = torch.linspace(0, n - 1, min(SEEN, n), device=device).round().long()
        self.size = knowledge.images.shape[2:]
        z = as_map(finite(knowledge.draw(index)), self.size)
        sent = z != 0
        share = sent.float().mean((0, 2, 3))[:, None, None]
        self.always, self.never = share > 1 - RARE, share < RARE
        self.mean = (z.sum((0, 2, 3)) / sent.sum((0, 2, 3)).clamp_min(1))[:, None, None]
        self.low = z.where(sent, self.mean).amin((0, 2, 3))[:, None, None]
        self.high = z.where(sent, self.mean).amax((0, 2, 3))[:, None, None]

    def shown(self, z: Tensor) -> Tensor:
        """Releases (B, ...) as maps (B, 2C', H', W'): features, and 1 where they were sent."""
        z = as_map(z, self.size)
        sent = self._sent(z)
        shown = sent & ~self.never
        return torch.cat([self._clipped(z.where(sent, self.mean)), shown.to(z.dtype)], 1)

    def united(self, z: Tensor) -> Tensor:
        """Several releases (B, n, ...) of each image as maps (B, 3C', H', W'): the mean of every
        feature over the releases that sent it, the spread among these, and how often it was sent,
        from 0 to 1. The order of the releases does not matter."""
        n = z.shape[1]
        maps = as_map(z.flatten(0, 1), self.size).unflatten(0, (-1, n))
        sent = self._sent(maps).to(z.dtype)
        count = sent.sum(1)
        mean = torch.where(count > 0, maps.sum(1) / count.clamp_min(1), self.mean)
        squares = ((maps - mean[:, None]).square() * sent).sum(1)
        spread = (squares / (count - 1).clamp_min(1)).sqrt()
        often = (count / n).where(~self.never, 0)
        return torch.cat([self._clipped(mean), spread.where(~self.never, 0), often], 1)

    def _sent(self, z: Tensor) -> Tensor:
        return (z != 0) | self.always

    def _clipped(self, z: Tensor) -> Tensor:
        return z.clamp(self.low, self.high)
