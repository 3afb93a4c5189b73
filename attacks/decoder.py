"""Decoder inversion: a residual network trained to a plateau."""

from collections.abc import Sequence
from copy import deepcopy
from math import isfinite
from typing import Annotated, Literal, Self

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn
from torch.nn.functional import l1_loss, mse_loss

from smashbench.attacks.base import Attack, Knowledge, releases
from smashbench.attacks.network import Network
from smashbench.attacks.similarity import ssim

CLIP = 2.0
"""Largest norm of a gradient, of the loss in units of its value before training: rare batches
would otherwise throw a fit back by hundreds of steps."""
BETWEEN = 100
"""Steps between validations, at least: the horizon of the moving average."""


class Decoder(Attack):
    """Residual decoder trained on fresh releases until its own validation loss stops improving
    (He et al., ACSAC 2019, with a stronger network).

    The network works at the resolution of the features, on standardised releases; a pixel shuffle
    makes the image. It starts as the best linear map of 5x5 neighbourhoods in closed form and
    learns a correction. (Starting from the full-rank ``Ridge`` instead is a trap: with few images
    its training residuals are too small and the correction learns little.)

    Noise-aware: every batch is released anew. The weights that count are an exponential moving
    average, validated at the end of an epoch when at least 100 steps have passed. When their loss
    has not improved by ``min_gain`` within ``patience`` validations the learning rate falls by 4,
    and after ``decays`` falls the fit has converged. A fit that comes to the last quarter of its
    budget spends it on a linear descent of the learning rate to zero. One that diverges keeps the
    best weights it had and has not converged. With several ``members``
    the fit is repeated from other starting points and the reconstructions are averaged.

    Args:
        loss: ``mse``, or ``ssim_l1``: 1 - SSIM plus the mean absolute error.
        width, blocks: size of the trunk.
        hidden: units of a fully connected path beside the trunk, for maps that are not local; it
            wants many images. 0 leaves it out.
        dropout: share of the trunk's inner activations that are dropped in training.
        members: networks that are averaged.
        batch_size, lr: Adam's batch size and first learning rate.
        max_steps: budget per member; a fit that reaches it has not converged.
        min_gain, patience, decays: see above.
        val_share: share of the attacker's images that watch the fit.
    """

    kind = "trained"

    def __init__(
        self,
        *,
        loss: Literal["mse", "ssim_l1"] = "mse",
        width: Annotated[int, Ge(8)] = 64,
        blocks: Annotated[int, Ge(1)] = 3,
        hidden: Annotated[int, Ge(0)] = 0,
        dropout: Annotated[float, Ge(0), Lt(1)] = 0.0,
        members: Annotated[int, Ge(1)] = 1,
        batch_size: Annotated[int, Ge(1)] = 32,
        lr: Annotated[float, Gt(0)] = 1.5e-3,
        max_steps: Annotated[int, Ge(1)] = 20_000,
        min_gain: Annotated[float, Ge(0), Lt(1)] = 0.01,
        patience: Annotated[int, Ge(1)] = 3,
        decays: Annotated[int, Ge(0)] = 2,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.loss, self.width, self.blocks, self.hidden = loss, width, blocks, hidden
        self.dropout, self.members = dropout, members
        self.batch_size, self.lr = batch_size, lr
        self.max_steps, self.min_gain = max_steps, min_gain
        self.patience, self.decays, self.val_share = patience, decays, val_share

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        return self.fit_parts(knowledge, fit, val)

    def fit_parts(self, knowledge: Knowledge, fit: Tensor, val: Tensor) -> Self:
        """``fit`` where the attacker has dealt its images, by index, itself."""
        self.nets_: list[Network] = []
        self.history_: list[float] = []
        self.converged_ = True
        for _ in range(self.members):
            self._fit_member(knowledge, fit, val)
        return self

    def _fit_member(self, knowledge: Knowledge, fit: Tensor, val: Tensor) -> None:
        loss_of = _ssim_l1 if self.loss == "ssim_l1" else mse_loss
        z_val, x_val = releases(knowledge, val, 2)
        pairs = releases(knowledge, fit, 2)
        net = Network(*pairs, self.width, self.blocks, self.hidden, self.dropout)
        net.to(x_val.device).to(memory_format=torch.channels_last)
        average = deepcopy(net).eval()

        def validate() -> float:
            return float(loss_of(predict([average], z_val), x_val))

        best = mark = validate()
        unit = max(best, 1e-12)
        kept, history = deepcopy(average), [best]
        marked_at = validated_at = steps = falls = 0
        optimiser = torch.optim.Adam(net.parameters(), self.lr, betas=(0.9, 0.99), fused=True)
        while steps < self.max_steps and falls <= self.decays:
            for batch in fit[torch.randperm(len(fit)).to(fit.device)].split(self.batch_size):
                z, x = self.pairs(knowledge, batch)
                loss = loss_of(net(z), x) / unit
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), CLIP, foreach=True)
                left = 4 * (1 - steps / self.max_steps)
                optimiser.param_groups[0]["lr"] = self.lr * min(1.0, left) / 4**falls
                optimiser.step()
                steps += 1
                _follow(average, net, min(0.99, steps / (steps + 10)))
                if steps == self.max_steps:
                    break
            if steps - validated_at < BETWEEN and steps < self.max_steps:
                continue
            error, validated_at = validate(), steps
            if not isfinite(error):
                break
            history.append(error)
            if error < best:
                best, kept = error, deepcopy(average)
            if error < mark * (1 - self.min_gain):
                mark, marked_at = error, len(history)
            if len(history) - marked_at >= self.patience:
                mark, marked_at, falls = best, len(history), falls + 1
        self.nets_.append(kept)
        self.history_ += history
        self.converged_ &= falls > self.decays

    def pairs(self, knowledge: Knowledge, index: Tensor) -> tuple[Tensor, Tensor]:
        """Releases (n, C', H', W') and images (n, C, H, W) of one step on images ``index``."""
        return knowledge.draw(index), knowledge.images[index]

    def reconstruct(self, z: Tensor) -> Tensor:
        return predict(self.nets_, z)


def _ssim_l1(guess: Tensor, x: Tensor) -> Tensor:
    return (1 - ssim(x, guess)).mean() + l1_loss(guess, x)


def _follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Moves the running average towards the network's parameters."""
    with torch.no_grad():
        torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1 - decay)


@torch.no_grad()
def predict(nets: Sequence[nn.Module], z: Tensor) -> Tensor:
    """Images (B, C, H, W) in [0, 1]: the mean of what ``nets`` make of releases z."""
    parts = [sum(net(part) for net in nets) / len(nets) for part in z.split(500)]
    return torch.cat(parts).clamp(0, 1)
