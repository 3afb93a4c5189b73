"""Convolutions between images, at a part of their resolution."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, pixel_shuffle, pixel_unshuffle, silu

SHIFT = 4
"""Most pixels by which images are shifted."""


class Convolutions(nn.Module):
    """Maps (B, ``inputs``, H, W) to (B, ``outputs``, H, W): three convolutions and one that is zero
    at the start, at half the resolution where that is even.

    Args:
        inputs, outputs: channels.
        size: H and W.
        width: channels between.
    """

    def __init__(self, inputs: int, outputs: int, size: Sequence[int], width: int) -> None:
        super().__init__()
        self.factor = 1 if any(pixels % 2 for pixels in size) else 2
        sizes = (inputs * self.factor**2, width, width, width)
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(sizes))
        self.out = nn.Conv2d(width, outputs * self.factor**2, 3, padding=1)
        for parameter in self.out.parameters():
            nn.init.zeros_(parameter)

    def forward(self, seen: Tensor) -> Tensor:
        low = pixel_unshuffle(seen, self.factor)
        for layer in self.layers:
            low = silu(layer(low))
        return pixel_shuffle(self.out(low), self.factor)


def shifted(x: Tensor) -> Tensor:
    """Images x (B, C, H, W) shifted by up to ``SHIFT`` pixels, and mirrored or not, all alike."""
    down, right = torch.randint(2 * SHIFT + 1, (2,)).tolist()
    mirrored = bool(torch.rand(()) < 0.5)
    wide = pad(x.flip(3) if mirrored else x, (SHIFT,) * 4, mode="reflect")
    return wide[:, :, down : down + x.shape[2], right : right + x.shape[3]]
