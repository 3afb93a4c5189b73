"""Decoder inversion: a residual network trained to a plateau."""

from copy import deepcopy
from typing import Annotated, Self

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn
from torch.nn.functional import mse_loss, pixel_unshuffle

from attacks.base import Attack, AttackError, Knowledge
from attacks.ridge import Ridge, releases


class Decoder(Attack):
    """Residual decoder on top of the linear attack, trained on fresh releases until its own
    validation error stops improving (He et al., ACSAC 2019, with a stronger network).

    The network works at the resolution of the features: the release and the pixel-unshuffled
    ``Ridge`` reconstruction go through residual blocks, and a pixel shuffle adds the correction
    to the ridge image. It starts as ``Ridge`` and never ends worse on the validation images.
    Noise-aware: every epoch draws new releases. The weights that count are an exponential moving
    average; when their validation MSE has not improved by ``min_gain`` for ``patience`` epochs the
    learning rate falls by 4, and after ``decays`` falls the fit has converged.

    Args:
        width, blocks: size of the trunk.
        batch_size, lr: Adam's batch size and first learning rate.
        max_steps: budget; a fit that reaches it has not converged.
        min_gain: relative improvement that counts.
        patience, decays: see above.
        val_share: share of the attacker's images that watch the fit.
    """

    kind = "trained"

    def __init__(
        self,
        *,
        width: Annotated[int, Ge(8)] = 64,
        blocks: Annotated[int, Ge(1)] = 3,
        batch_size: Annotated[int, Ge(1)] = 32,
        lr: Annotated[float, Gt(0)] = 2e-3,
        max_steps: Annotated[int, Ge(1)] = 20_000,
        min_gain: Annotated[float, Ge(0), Lt(1)] = 0.005,
        patience: Annotated[int, Ge(1)] = 2,
        decays: Annotated[int, Ge(0)] = 2,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.width, self.blocks, self.batch_size, self.lr = width, blocks, batch_size, lr
        self.max_steps, self.min_gain = max_steps, min_gain
        self.patience, self.decays, self.val_share = patience, decays, val_share

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        z_val, x_val = releases(knowledge, val, 2)
        ridge = Ridge().fit_pairs(*releases(knowledge, fit, 2), z_val, x_val)
        z_val = z_val.view(-1, *knowledge.draw(val[:1]).shape[1:])
        net = _Network(ridge, z_val.shape[1:], self.width, self.blocks).to(x_val.device)
        average = deepcopy(net).eval()
        self.net_, self.history_, self.converged_ = deepcopy(average), [ridge.error_], False
        best = mark = ridge.error_
        marked_at = steps = falls = 0
        optimiser = torch.optim.Adam(net.parameters(), self.lr, fused=True)
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
    """Correction of the ridge image; zero at the start."""

    def __init__(self, ridge: Ridge, z_shape: torch.Size, width: int, blocks: int) -> None:
        super().__init__()
        c, h, w = ridge.image_shape_
        self.factor = max(1, h // z_shape[1])
        if (h, w) != (z_shape[1] * self.factor, z_shape[2] * self.factor):
            raise AttackError(f"decoder: {h}x{w} images are no multiple of {z_shape} features")
        self.image_shape = (c, h, w)
        self.register_buffer("weight", ridge.weight_)
        self.register_buffer("bias", ridge.bias_)
        pixels = c * self.factor**2
        self.stem = nn.Conv2d(z_shape[0] + pixels, width, 3, padding=1)
        self.trunk = nn.Sequential(*(_Residual(width) for _ in range(blocks)))
        self.out = nn.Sequential(
            nn.ReLU(), nn.Conv2d(width, pixels, 3, padding=1), nn.PixelShuffle(self.factor)
        )
        nn.init.zeros_(self.out[1].weight)
        nn.init.zeros_(self.out[1].bias)

    def forward(self, z: Tensor) -> Tensor:
        linear = (z.flatten(1) @ self.weight + self.bias).view(-1, *self.image_shape)
        low = torch.cat([z, pixel_unshuffle(linear, self.factor)], 1)
        low = low.contiguous(memory_format=torch.channels_last)
        with torch.autocast(z.device.type, torch.bfloat16, enabled=self.training):
            correction = self.out(self.trunk(self.stem(low)))
        return linear + correction


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def _follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Moves the running average towards the network's parameters."""
    with torch.no_grad():
        torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1 - decay)


@torch.no_grad()
def _predict(net: nn.Module, z: Tensor) -> Tensor:
    return torch.cat([net(part) for part in z.split(500)]).clamp(0, 1)
