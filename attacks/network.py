"""The network of the trained attacks: works at the resolution of the features."""

from collections.abc import Sequence
from math import isqrt, prod

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, interpolate, pixel_unshuffle, silu, unfold

from smashbench.attacks.base import require_memory

UNFOLDED = 2**29
"""Most bytes of neighbourhoods that are unfolded at once."""
NEIGHBOURHOODS, INPUTS = (5, 3, 1), 2000
"""Sizes of the neighbourhoods of the linear map: the first with at most so many features."""


def as_map(z: Tensor) -> Tensor:
    """Features as maps (N, C', H', W'): maps as they are, T = n^2 tokens (N, T, D) on a square of
    n x n places, T = n^2 + 1 tokens so that the first, of no place, is at each of them, too; and
    anything else as one place."""
    if z.ndim == 4:
        return z
    side = isqrt(z.shape[1]) if z.ndim == 3 else 0
    if z.ndim == 3 and side**2 == z.shape[1]:
        return z.mT.reshape(len(z), z.shape[2], side, side)
    if z.ndim == 3 and side**2 + 1 == z.shape[1]:
        everywhere = z[:, 0, :, None, None].expand(-1, -1, side, side)
        return torch.cat([as_map(z[:, 1:]), everywhere], 1)
    return z.flatten(1)[:, :, None, None]


class Network(nn.Module):
    """The mean image, a linear map of 5x5 neighbourhoods (smaller ones where there are many
    channels), and a residual correction that is zero at the start. Where features do not tile the
    image, it makes a larger one, which is resized bilinearly.

    Args:
        z: releases (N, ...) to standardise by, see ``as_map``.
        x: their images (N, C, H, W).
        width, blocks: size of the residual trunk.
        hidden: units of a fully connected path beside the trunk's first layer, for what a
            neighbourhood does not show; 0 leaves it out.
        dropped: share of the trunk's inner activations that dropout drops.
    """

    mean: Tensor
    std: Tensor
    image: Tensor

    def __init__(
        self, z: Tensor, x: Tensor, width: int, blocks: int, hidden: int, dropped: float
    ) -> None:
        super().__init__()
        z = as_map(z)
        channels, factor = z.shape[1], max(map(_covering, x.shape[2:], z.shape[2:]))
        made = (z.shape[2] * factor, z.shape[3] * factor)
        pixels = x.shape[1] * factor**2
        self.register_buffer("mean", z.mean((0, 2, 3), keepdim=True))
        self.register_buffer("std", z.std((0, 2, 3), keepdim=True).clamp_min(1e-6))
        self.register_buffer("image", x.mean(0))
        self.linear = _neighbourhood_map(
            (z - self.mean) / self.std, pixel_unshuffle(_resized(x - self.image, made), factor)
        )
        self.stem = nn.Conv2d(channels, width, 3, padding=1)
        self.context = nn.Linear(width, width)
        self.wide = _Wide(z[0].numel(), hidden, (width, *z.shape[2:])) if hidden else None
        self.trunk = nn.Sequential(*(_Residual(width, dropped) for _ in range(blocks)))
        self.out = nn.Conv2d(width, pixels, 3, padding=1)
        self.shuffle = nn.PixelShuffle(factor)
        for parameter in (*self.context.parameters(), *self.out.parameters()):
            nn.init.zeros_(parameter)

    def forward(self, z: Tensor) -> Tensor:
        z = ((as_map(z) - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        low = self.stem(z)
        low = low + self.context(low.mean((2, 3)))[:, :, None, None]
        if self.wide:
            low = low + self.wide(z)
        correction = self.out(silu(self.trunk(low)))
        image: Tensor = self.image + _resized(
            self.shuffle(self.linear(z) + correction), self.image.shape[1:]
        )
        return image


def _covering(pixels: int, places: int) -> int:
    """The least whole number of pixels a place at which places reach over all pixels."""
    return -(-pixels // places)


def _resized(x: Tensor, size: Sequence[int]) -> Tensor:
    """Images x as they are, or resized bilinearly where they have another size."""
    if x.shape[2:] == tuple(size):
        return x
    return interpolate(x, tuple(size), mode="bilinear", antialias=True)


class _Wide(nn.Module):
    """Every feature to every place, through one hidden layer; zero at the start."""

    def __init__(self, features: int, hidden: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.second = nn.Linear(hidden, prod(shape))
        self.unflatten = nn.Unflatten(1, shape)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)

    def forward(self, z: Tensor) -> Tensor:
        placed: Tensor = self.unflatten(self.second(silu(self.first(z.flatten(1)))))
        return placed


class _Residual(nn.Module):
    def __init__(self, width: int, dropped: float) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.dropped = dropped

    def forward(self, x: Tensor) -> Tensor:
        inner = dropout(silu(self.first(silu(x))), self.dropped, self.training)
        return x + self.second(inner)


def _neighbourhood_map(z: Tensor, low: Tensor) -> nn.Conv2d:
    """The convolution of standardised z (N, C', H', W') that predicts ``low`` (N, P, H', W') with
    the least squared error, slightly ridged; in closed form. A single place has no neighbours.

    Raises:
        OversizedError: the moments do not fit in memory.
    """
    fitting = [size for size in NEIGHBOURHOODS if z.shape[1] * size**2 <= INPUTS]
    size = fitting[0] if fitting and max(z.shape[2:]) > 1 else 1
    inputs, places = z.shape[1] * size**2 + 1, z.shape[2] * z.shape[3]
    require_memory(
        8 * inputs * (4 * inputs + 2 * low.shape[1]),
        f"a linear map of neighbourhoods of {inputs} features in closed form",
    )
    moments = cross = torch.zeros((), dtype=torch.float64, device=z.device)
    at_once = max(1, UNFOLDED // (4 * inputs * places))
    for part, part_low in zip(z.split(at_once), low.split(at_once), strict=True):
        patches = unfold(part, size, padding=size // 2).mT.flatten(0, 1)
        patches = torch.cat([patches, torch.ones_like(patches[:, :1])], 1)
        targets = part_low.flatten(2).mT.flatten(0, 1)
        moments = moments + (patches.T @ patches / (len(z) * places)).double()
        cross = cross + (patches.T @ targets / (len(z) * places)).double()
    ridge = 1e-3 * torch.eye(len(moments), dtype=moments.dtype, device=z.device)
    weight = torch.linalg.solve(moments + ridge, cross).float().T
    convolution = nn.Conv2d(z.shape[1], low.shape[1], size, padding=size // 2)
    shape = convolution.weight.shape
    convolution.load_state_dict({"weight": weight[:, :-1].view(shape), "bias": weight[:, -1]})
    return convolution
