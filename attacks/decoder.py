"""Decoder inversion: a residual network trained to a plateau."""

from copy import deepcopy
from typing import Annotated, Self

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn
from torch.nn.functional import mse_loss, pixel_unshuffle, silu, unfold

from attacks.base import Attack, AttackError, Knowledge
from attacks.ridge import releases


class Decoder(Attack):
    """Residual decoder trained on fresh releases until its own validation error stops improving
    (He et al., ACSAC 2019, with a stronger network).

    The network works at the resolution of the features, on standardised releases; a pixel shuffle
    makes the image. It starts as the best linear map of 5x5 neighbourhoods in closed form and
    learns a correction. (Starting from the full-rank ``Ridge`` instead is a trap: with few images
    its training residuals are too small and the correction learns little.)

    Noise-aware: every batch is released anew. The weights that count are an exponential moving
    average; when their validation MSE has not improved by ``min_gain`` within ``patience`` epochs
    the learning rate falls by 4, and after ``decays`` falls the fit has converged.

    Args:
        width, blocks: size of the trunk.
        batch_size, lr: Adam's batch size and first learning rate.
        max_steps: budget; a fit that reaches it has not converged.
        min_gain, patience, decays: see above.
        val_share: share of the attacker's images that watch the fit.
    """

    kind = "trained"

    def __init__(
        self,
        *,
        width: Annotated[int, Ge(8)] = 64,
        blocks: Annotated[int, Ge(1)] = 3,
        batch_size: Annotated[int, Ge(1)] = 32,
        lr: Annotated[float, Gt(0)] = 3e-3,
        max_steps: Annotated[int, Ge(1)] = 20_000,
        min_gain: Annotated[float, Ge(0), Lt(1)] = 0.01,
        patience: Annotated[int, Ge(1)] = 3,
        decays: Annotated[int, Ge(0)] = 2,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.width, self.blocks, self.batch_size, self.lr = width, blocks, batch_size, lr
        self.max_steps, self.min_gain = max_steps, min_gain
        self.patience, self.decays, self.val_share = patience, decays, val_share

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        z_val, x_val = releases(knowledge, val, 2)
        net = _Network(*releases(knowledge, fit, 2), self.width, self.blocks)
        net.to(x_val.device).to(memory_format=torch.channels_last)
        average = deepcopy(net).eval()
        best = mark = float(mse_loss(_predict(average, z_val), x_val))
        self.net_, self.history_, self.converged_ = deepcopy(average), [best], False
        marked_at = steps = falls = 0
        optimiser = torch.optim.Adam(net.parameters(), self.lr, betas=(0.9, 0.99), fused=True)
        while steps < self.max_steps and not self.converged_:
            for batch in fit[torch.randperm(len(fit)).to(fit.device)].split(self.batch_size):
                loss = mse_loss(net(knowledge.draw(batch)), knowledge.images[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                steps += 1
                _follow(average, net, min(0.99, steps / (steps + 10)))
            error = float(mse_loss(_predict(average, z_val), x_val))
            self.history_.append(error)
            if error < best:
                best, self.net_ = error, deepcopy(average)
            if error < mark * (1 - self.min_gain):
                mark, marked_at = error, len(self.history_)
            if len(self.history_) - marked_at >= self.patience:
                mark, marked_at, falls = best, len(self.history_), falls + 1
                self.converged_ = falls > self.decays
                for group in optimiser.param_groups:
                    group["lr"] /= 4
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        return _predict(self.net_, z)


class _Network(nn.Module):
    """A linear map of 5x5 neighbourhoods and a residual correction that is zero at the start.

    Args:
        z: releases (N, C', H', W') to standardise by.
        x: their images (N, C, H, W); H and W are multiples of H' and W'.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, z: Tensor, x: Tensor, width: int, blocks: int) -> None:
        super().__init__()
        channels, factor = z.shape[1], x.shape[2] // z.shape[2]
        if not factor or x.shape[2:] != (z.shape[2] * factor, z.shape[3] * factor):
            raise AttackError(
                f"decoder: images of {tuple(x.shape[2:])} pixels are no whole multiple of "
                f"features of {tuple(z.shape[2:])}"
            )
        pixels = x.shape[1] * factor**2
        self.register_buffer("mean", z.mean((0, 2, 3), keepdim=True))
        self.register_buffer("std", z.std((0, 2, 3), keepdim=True).clamp_min(1e-6))
        self.linear = _neighbourhood_map((z - self.mean) / self.std, pixel_unshuffle(x, factor))
        self.stem = nn.Conv2d(channels, width, 3, padding=1)
        self.context = nn.Linear(width, width)
        self.trunk = nn.Sequential(*(_Residual(width) for _ in range(blocks)))
        self.out = nn.Conv2d(width, pixels, 3, padding=1)
        self.shuffle = nn.PixelShuffle(factor)
        for parameter in (*self.context.parameters(), *self.out.parameters()):
            nn.init.zeros_(parameter)

    def forward(self, z: Tensor) -> Tensor:
        z = ((z - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        with torch.autocast(z.device.type, torch.bfloat16, enabled=self.training):
            low = self.stem(z)
            low = low + self.context(low.mean((2, 3)))[:, :, None, None]
            low = self.out(silu(self.trunk(low))) + self.linear(z)
        image: Tensor = self.shuffle(low.float())
        return image


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(silu(self.first(silu(x))))


def _neighbourhood_map(z: Tensor, low: Tensor, size: int = 5) -> nn.Conv2d:
    """The convolution of standardised z (N, C', H', W') that predicts ``low`` (N, P, H', W') with
    the least squared error, slightly ridged; in closed form."""
    patches = unfold(z, size, padding=size // 2).mT.flatten(0, 1)
    patches = torch.cat([patches, torch.ones_like(patches[:, :1])], 1)
    targets = low.flatten(2).mT.flatten(0, 1)
    moments = (patches.T @ patches / len(patches)).double()
    ridge = 1e-3 * torch.eye(len(moments), dtype=moments.dtype, device=z.device)
    cross = (patches.T @ targets / len(patches)).double()
    weight = torch.linalg.solve(moments + ridge, cross).float().T
    convolution = nn.Conv2d(z.shape[1], low.shape[1], size, padding=size // 2)
    shape = convolution.weight.shape
    convolution.load_state_dict({"weight": weight[:, :-1].view(shape), "bias": weight[:, -1]})
    return convolution


def _follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Moves the running average towards the network's parameters."""
    with torch.no_grad():
        torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1 - decay)


@torch.no_grad()
def _predict(net: nn.Module, z: Tensor) -> Tensor:
    return torch.cat([net(part) for part in z.split(500)]).clamp(0, 1)
