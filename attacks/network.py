"""The network of the trained attacks: works at the resolution of the features."""

from collections.abc import Sequence
from copy import deepcopy
from math import inf, isqrt, prod
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, interpolate, mse_loss, pixel_unshuffle, silu, unfold

from smashbench.attacks.base import CONSTANT, require_memory

UNFOLDED = 2**29
"""Most bytes of neighbourhoods that are unfolded at once."""
NEIGHBOURHOODS, INPUTS = (5, 3, 1), 2000
"""Sizes of the neighbourhoods of the linear map: the first with at most so many features."""
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""What may be added to the moments of standardised features."""
PATH = 2**23
"""Most weights of a fully connected path."""

Pairs = tuple[Tensor, Tensor]
"""Releases (N, ...) and their images (N, C, H, W)."""


def as_map(z: Tensor, size: Sequence[int]) -> Tensor:
    """Features as maps (N, C', H', W').

    Args:
        z: maps, which stay as they are; tokens (N, T, D), which lie on a grid of places (see
            ``_grid``), or all but the first do, which is then at each of them, too; anything else
            is at one place.
        size: (H, W) of the images.
    """
    if z.ndim == 4:
        return z
    if z.ndim == 3 and (grid := _grid(z.shape[1], size)):
        return z.mT.unflatten(2, grid)
    if z.ndim == 3 and (grid := _grid(z.shape[1] - 1, size)):
        everywhere = z[:, 0, :, None, None].expand(-1, -1, *grid)
        return torch.cat([as_map(z[:, 1:], size), everywhere], 1)
    return z.flatten(1)[:, :, None, None]


def _grid(tokens: int, size: Sequence[int]) -> tuple[int, int] | None:
    """Rows and columns of so many tokens of images of (H, W) pixels: those at which the pixels of a
    token are a square, or else a square of tokens, as of images that a client resizes; None where
    there is neither.

    >>> _grid(16, (32, 32)), _grid(16, (16, 64)), _grid(16, (48, 64)), _grid(15, (32, 32))
    ((4, 4), (2, 8), (4, 4), None)
    """
    height, width = size
    rows = isqrt(max(tokens, 0) * height // width)
    if rows and tokens % rows == 0 and rows * width == tokens // rows * height:
        return rows, tokens // rows
    side = isqrt(max(tokens, 0))
    return (side, side) if side and side**2 == tokens else None


def spread(z: Tensor) -> Tensor:
    """Standard deviations (1, C', 1, 1) of the channels of maps z (N, C', H', W'). Infinite, so
    that it is shown as 0, where a channel is constant: varies by less than a millionth of its root
    mean square. A small unit of what is sent hides nothing."""
    places = (0, 2, 3)
    std = z.std(places, keepdim=True)
    return std.where(std > CONSTANT * z.square().mean(places, keepdim=True).sqrt(), inf)


class Network(nn.Module):
    """The mean image, a linear map of 5x5 neighbourhoods (smaller ones where there are many
    channels), and a residual correction that is zero at the start. Where features do not tile the
    image, it makes a larger one, which is resized bilinearly.

    Args:
        pairs: releases z (N, ...) to standardise by, see ``as_map``, and their images
            x (N, C, H, W).
        held_out: releases and images that decide how much the linear map is ridged.
        width, blocks: size of the residual trunk.
        dropped: share of the trunk's inner activations that dropout drops.
    """

    mean: Tensor
    std: Tensor
    image: Tensor

    def __init__(
        self, pairs: Pairs, held_out: Pairs, width: int, blocks: int, dropped: float
    ) -> None:
        super().__init__()
        x = pairs[1]
        z = as_map(pairs[0], x.shape[2:])
        channels, factor = z.shape[1], max(map(_covering, x.shape[2:], z.shape[2:]))
        made = (z.shape[2] * factor, z.shape[3] * factor)
        pixels = x.shape[1] * factor**2
        self.register_buffer("mean", z.mean((0, 2, 3), keepdim=True))
        self.register_buffer("std", spread(z))
        self.register_buffer("image", x.mean(0))

        def low(x: Tensor) -> Tensor:
            return pixel_unshuffle(_resized(x - self.image, made), factor)

        z_held, x_held = held_out
        self.linear = _neighbourhood_map(
            (self._standardised(z), low(x)),
            (self._standardised(as_map(z_held, x.shape[2:])), low(x_held)),
        )
        self.stem = nn.Conv2d(channels, width, 3, padding=1)
        self.context = nn.Linear(width, width)
        self.wide: _Wide | None = None
        self.trunk = nn.Sequential(*(_Residual(width, dropped) for _ in range(blocks)))
        self.out = nn.Conv2d(width, pixels, 3, padding=1)
        self.shuffle = nn.PixelShuffle(factor)
        for parameter in (*self.context.parameters(), *self.out.parameters()):
            nn.init.zeros_(parameter)

    def with_path(self, hidden: int, features: torch.Size) -> Self | None:
        """A copy with a fully connected path beside the trunk's first layer, for what a
        neighbourhood does not show; None where that would have too many weights.

        Args:
            hidden: its units; 0 for none.
            features: the shape of a release.
        """
        release = torch.empty(1, *features, device="meta")
        channels, *places = as_map(release, self.image.shape[1:]).shape[1:]
        made = self.stem.out_channels * prod(places)
        if hidden * (channels * prod(places) + made) > PATH:
            return None
        copy = deepcopy(self)
        if hidden:
            copy.wide = _Wide(channels * prod(places), hidden, (self.stem.out_channels, *places))
        return copy.to(self.image.device)

    def _standardised(self, z: Tensor) -> Tensor:
        return (z - self.mean) / self.std

    def forward(self, z: Tensor) -> Tensor:
        z = self._standardised(as_map(z, self.image.shape[1:])).contiguous(
            memory_format=torch.channels_last
        )
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


def _neighbourhood_map(pairs: Pairs, held_out: Pairs) -> nn.Conv2d:
    """The convolution of standardised z (N, C', H', W') that predicts low (N, P, H', W') with the
    least squared error, in closed form, with the ridge that is best on pairs that were held out.
    A single place has no neighbours.

    Raises:
        OversizedError: the moments do not fit in memory.
    """
    z, low = pairs
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
    convolution = nn.Conv2d(z.shape[1], low.shape[1], size, padding=size // 2).to(z.device)
    held = [each.split(at_once) for each in held_out]

    @torch.no_grad()
    def error(weight: Tensor) -> float:
        """On the held-out pairs, of the convolution with this weight, which is left in place."""
        convolution.weight.copy_(weight[:, :-1].view_as(convolution.weight))
        convolution.bias.copy_(weight[:, -1])  # type: ignore[union-attr]
        wrong = [mse_loss(convolution(z), low) for z, low in zip(*held, strict=True)]
        return float(torch.stack(wrong).mean())

    weights = []
    for ridge in RIDGES:
        ridged = moments.clone()
        ridged.diagonal().add_(ridge)
        weights.append(torch.linalg.solve(ridged, cross).float().T)
    error(min(weights, key=error))
    return convolution
