"""Conditional flow matching: samples of the images that a release may stem from."""

from collections.abc import Sequence
from math import inf, isfinite
from typing import Annotated, ClassVar, Self

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn
from torch.nn.functional import interpolate, mse_loss, pixel_shuffle, pixel_unshuffle, silu

from smashbench.attacks.base import Attack, Knowledge, releases
from smashbench.attacks.descent import descend, doubled
from smashbench.attacks.network import Network, Pairs, as_map, spread

FREQUENCIES = 8
"""Sines and as many cosines that tell the network the time."""


class Flow(Attack):
    """Conditional flow matching (Lipman et al., ICLR 2023; with straight paths, Liu et al., ICLR
    2023): draws images from the posterior that it has learned, where a decoder gives its mean.

    With x_0 the best linear reconstruction in closed form, rho its error and r = (x - x_0) / rho, a
    network v learns

        E |v((1 - t) e + t r, t, x_0, z~) - (r - e)|^2,   e ~ N(0, 1),  t ~ U(0, 1),

    and a sample is x_0 + rho r(1), where r follows dr/dt = v from noise r(0) in steps of Euler.
    The start is linear, because a decoder errs too little on the images that it was fitted to. A
    single sample shows what the attacker could take for the truth, and errs about twice as much as
    the mean of many, which is comparable with a ``Decoder``. Training goes in cycles that double,
    as that of ``Decoder``, and is judged by the loss above on the attacker's validation images.

    Args:
        samples: drawn for every release and averaged; 1 shows a sample.
        euler: steps from noise to image.
        width, blocks: size of the network.
        batch_size: images of a step.
        lr, adam_lr: highest learning rates of Muon and of Adam.
        cycle: steps of the first cycle.
        max_steps: budget over all cycles.
        min_gain: relative gain of doubling the training below which a fit has converged.
        val_share: share of the attacker's images that watch the fit.
    """

    kind: ClassVar = "trained"

    def __init__(
        self,
        *,
        samples: Annotated[int, Ge(1)] = 16,
        euler: Annotated[int, Ge(1)] = 12,
        width: Annotated[int, Ge(8)] = 64,
        blocks: Annotated[int, Ge(1)] = 3,
        batch_size: Annotated[int, Ge(1)] = 64,
        lr: Annotated[float, Gt(0)] = 0.02,
        adam_lr: Annotated[float, Gt(0)] = 0.004,
        cycle: Annotated[int, Ge(1)] = 200,
        max_steps: Annotated[int, Ge(1)] = 6_200,
        min_gain: Annotated[float, Ge(0), Lt(1)] = 0.02,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.samples, self.euler, self.width, self.blocks = samples, euler, width, blocks
        self.batch_size, self.lr, self.adam_lr = batch_size, lr, adam_lr
        self.cycle, self.max_steps, self.min_gain = cycle, max_steps, min_gain
        self.val_share = val_share

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        pairs, held_out = releases(knowledge, fit, 2), releases(knowledge, val, 2)
        start = Network(pairs, held_out, 8, 1, 0.0).to(pairs[1].device)
        self.start_ = start.requires_grad_(False).eval()
        rho = float(mse_loss(self.start_(held_out[0]), held_out[1])) ** 0.5
        self.rho_ = max(rho, 1e-4)
        velocity = _Velocity(pairs, self.width, self.blocks).to(pairs[1].device)
        e, t = torch.randn_like(held_out[1]), torch.rand_like(held_out[1][:, :1, :1, :1])

        @torch.no_grad()
        def validate(velocity: _Velocity) -> float:
            error = float(self._loss(velocity, held_out, e, t))
            return error if isfinite(error) else inf  # it has diverged

        def train(velocity: _Velocity, steps: int) -> _Velocity:
            losses = (self._drawn_loss(velocity, knowledge, fit) for _ in range(steps))
            descend(velocity, losses, steps, lr=self.lr, adam_lr=self.adam_lr)
            return velocity

        cycles = {"cycle": self.cycle, "max_steps": self.max_steps}
        done = doubled(velocity, train, validate, **cycles, min_gain=self.min_gain)
        self.velocity_ = done.net.requires_grad_(False).eval()
        self.history_, self.converged_ = done.history, done.converged
        return self

    def _drawn_loss(self, velocity: "_Velocity", known: Knowledge, fit: Tensor) -> Tensor:
        """On a batch of the images ``fit``, at times and with noise drawn anew."""
        index = fit[torch.randint(len(fit), (self.batch_size,)).to(fit.device)]
        x = known.images[index]
        e, t = torch.randn_like(x), torch.rand_like(x[:, :1, :1, :1])
        return self._loss(velocity, (known.draw(index), x), e, t)

    def _loss(self, velocity: "_Velocity", pairs: Pairs, e: Tensor, t: Tensor) -> Tensor:
        z, x = pairs
        start = self.start_(z)
        r = (x - start) / self.rho_
        return mse_loss(velocity((1 - t) * e + t * r, t, start, z), r - e)

    @torch.no_grad()
    def reconstruct(self, z: Tensor) -> Tensor:
        return torch.cat([self._mean(part) for part in z.split(500)]).clamp(0, 1)

    def _mean(self, z: Tensor) -> Tensor:
        start = self.start_(z)
        return torch.stack([self._sample(start, z) for _ in range(self.samples)]).mean(0)

    def _sample(self, start: Tensor, z: Tensor) -> Tensor:
        r = torch.randn_like(start)
        for step in range(self.euler):
            t = torch.full_like(r[:, :1, :1, :1], step / self.euler)
            r = r + self.velocity_(r, t, start, z) / self.euler
        return (start + self.rho_ * r).clamp(0, 1)


class _Velocity(nn.Module):
    """v: images r and x_0 (B, C, H, W), times t (B, 1, 1, 1) and releases z to a velocity of the
    shape of r. It works at a quarter of the resolution, or at half or all of it where that is no
    whole number, and starts at zero."""

    mean: Tensor
    std: Tensor

    def __init__(self, pairs: Pairs, width: int, blocks: int) -> None:
        super().__init__()
        x = pairs[1]
        channels, *self.size = x.shape[1:]
        z = as_map(pairs[0], self.size)
        self.factor = next(f for f in (4, 2, 1) if all(n % f == 0 for n in self.size))
        self.fold = _fold(z.shape[2:], [n // self.factor for n in self.size])
        self.register_buffer("mean", z.mean((0, 2, 3), keepdim=True))
        self.register_buffer("std", spread(z))
        pixels = channels * self.factor**2
        self.stem = nn.Conv2d(2 * pixels + z.shape[1] * self.fold**2, width, 3, padding=1)
        self.first = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(blocks))
        self.time = nn.ModuleList(nn.Linear(2 * FREQUENCIES, width) for _ in range(blocks))
        self.second = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(blocks))
        self.out = nn.Conv2d(width, pixels, 3, padding=1)
        for parameter in self.out.parameters():
            nn.init.zeros_(parameter)

    def forward(self, r: Tensor, t: Tensor, start: Tensor, z: Tensor) -> Tensor:
        seen = pixel_unshuffle(torch.cat([r, start - 0.5], 1), self.factor)
        sent = pixel_unshuffle((as_map(z, self.size) - self.mean) / self.std, self.fold)
        if sent.shape[2:] != seen.shape[2:]:
            sent = interpolate(sent, seen.shape[2:])
        angles = torch.pi * t.flatten(1) * torch.arange(1, FREQUENCIES + 1, device=t.device)
        when = torch.cat([angles.sin(), angles.cos()], 1)
        low = self.stem(torch.cat([seen, sent], 1))
        for first, time, second in zip(self.first, self.time, self.second, strict=True):
            inner = first(silu(low)) + time(when)[:, :, None, None]
            low = low + second(silu(inner))
        return pixel_shuffle(self.out(silu(low)), self.factor)


def _fold(places: Sequence[int], wanted: Sequence[int]) -> int:
    """How many rows, and columns, of features belong to one of the places that are ``wanted``; 1
    where they are no finer, or no whole number.

    >>> [_fold(places, (4, 4)) for places in ((4, 4), (16, 16), (8, 16), (2, 2))]
    [1, 4, 1, 1]
    """
    (rows, no_rows), (columns, no_columns) = map(divmod, places, wanted)
    return rows if rows == columns and rows and not (no_rows or no_columns) else 1
