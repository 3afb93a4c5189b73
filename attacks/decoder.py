"""Decoder inversion: a residual network trained until more training hardly helps."""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf, isfinite, prod
from typing import Annotated, Literal, Self

import torch
from annotated_types import Ge, Gt, Lt, MinLen
from torch import Tensor, nn
from torch.nn.functional import l1_loss, mse_loss

from smashbench.attacks.base import Attack, Knowledge, OversizedError, releases
from smashbench.attacks.descent import descend, doubled
from smashbench.attacks.network import PATH, Network
from smashbench.attacks.similarity import ssim

CLEAR, PER_FEATURE = 0.2, 20
"""Share by which a fully connected path must lower the loss, and images per feature from which on
one is tried: with few images it learns faster and fits less well in the end."""


class Decoder(Attack):
    """Residual decoder trained on fresh releases until doubling its training hardly helps (He et
    al., ACSAC 2019, with a stronger network and a stronger optimiser).

    The network works at the resolution of the features, on standardised releases; a pixel shuffle
    makes the image. It starts as the best linear map of 5x5 neighbourhoods in closed form and
    learns a correction. (Starting from the full-rank ``Ridge`` instead is a trap: with few images
    its training residuals are too small and the correction learns little.)

    Noise-aware: every batch is released anew. Muon updates the filters, Adam the rest. Training
    goes in cycles, in each of which the learning rates rise and then fall linearly to 0; a cycle
    is twice as long as the one before, so that each more than doubles what was spent. When a cycle
    lowers the loss on the attacker's own validation images by less than ``min_gain``, the fit has
    converged. When the next cycle would exceed ``max_steps``, the fit ends and has not converged.
    The weights with the lowest validation loss at the end of a cycle are kept. With several
    ``members`` the fit is repeated from other starting points and the reconstructions are averaged.

    Args:
        loss: ``mse``, or ``ssim_l1``: 1 - SSIM plus the mean absolute error.
        width, blocks: size of the trunk.
        hidden: units of a fully connected path beside the trunk, for maps that are not local, 0 for
            none. Of several, all have the first cycle, and the first one goes on unless a later one
            has a validation loss that is lower by a fifth (a path that led by a tenth was overtaken
            later on); a path is tried with 20 or more images per feature. One of more than
            8,388,608 weights is left out.
        dropout: share of the trunk's inner activations that are dropped in training.
        members: networks that are averaged.
        batch_size: images of a step.
        lr, adam_lr: highest learning rates of Muon and of Adam.
        cycle: steps of the first cycle.
        max_steps: budget of a member, over all cycles of the network that goes on.
        min_gain: relative gain of doubling the training below which a fit has converged.
        val_share: share of the attacker's images that watch the fit.
    """

    kind = "trained"

    def __init__(
        self,
        *,
        loss: Literal["mse", "ssim_l1"] = "mse",
        width: Annotated[int, Ge(8)] = 64,
        blocks: Annotated[int, Ge(1)] = 3,
        hidden: Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1)] = (0, 256),
        dropout: Annotated[float, Ge(0), Lt(1)] = 0.0,
        members: Annotated[int, Ge(1)] = 1,
        batch_size: Annotated[int, Ge(1)] = 64,
        lr: Annotated[float, Gt(0)] = 0.02,
        adam_lr: Annotated[float, Gt(0)] = 0.004,
        cycle: Annotated[int, Ge(1)] = 200,
        max_steps: Annotated[int, Ge(1)] = 20_000,
        min_gain: Annotated[float, Ge(0), Lt(1)] = 0.02,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.loss, self.width, self.blocks, self.hidden = loss, width, blocks, hidden
        self.dropout, self.members = dropout, members
        self.batch_size, self.lr, self.adam_lr = batch_size, lr, adam_lr
        self.cycle, self.max_steps, self.min_gain = cycle, max_steps, min_gain
        self.val_share = val_share

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
        held_out = releases(knowledge, val, 2)

        def validate(net: Network) -> float:
            error = float(loss_of(predict([net.eval()], held_out[0]), held_out[1]))
            return error if isfinite(error) else inf  # it has diverged

        pairs = releases(knowledge, fit, 2)
        start = Network(pairs, held_out, self.width, self.blocks, self.dropout)
        start.to(held_out[1].device).to(memory_format=torch.channels_last)
        features = pairs[0].shape[1:]
        enough = len(self.hidden) == 1 or len(fit) >= PER_FEATURE * prod(features)
        sizes = [size for size in self.hidden if enough or size == min(self.hidden)]
        candidates = [net for size in sizes if (net := start.with_path(size, features))]
        if not candidates:
            raise OversizedError(
                f"a fully connected path of {min(self.hidden)} units would have more than {PATH:,} "
                "weights; hidden = [0] leaves it out"
            )

        def train(net: Network, steps: int) -> Network:
            for each in (going := candidates if net is start else [net]):
                each.train()
                pairs = (self.pairs(knowledge, i) for i in islice(self._batches(fit), steps))
                losses = (loss_of(each(z), x) for z, x in pairs)
                descend(each, losses, steps, lr=self.lr, adam_lr=self.adam_lr)
            best, *others = going
            if others:
                error = validate(best)
                for other in others:
                    if (found := validate(other)) < (1 - CLEAR) * error:
                        error, best = found, other
            return best

        cycles = {"cycle": self.cycle, "max_steps": self.max_steps}
        done = doubled(start, train, validate, **cycles, min_gain=self.min_gain)
        self.nets_.append(done.net.eval())
        self.history_ += done.history
        self.converged_ &= done.converged

    def _batches(self, fit: Tensor) -> Iterator[Tensor]:
        """Batches of the images ``fit``, shuffled again and again."""
        while True:
            yield from fit[torch.randperm(len(fit)).to(fit.device)].split(self.batch_size)

    def pairs(self, knowledge: Knowledge, index: Tensor) -> tuple[Tensor, Tensor]:
        """Releases (n, ...) and images (n, C, H, W) of one step on images ``index``."""
        return knowledge.draw(index), knowledge.images[index]

    def reconstruct(self, z: Tensor) -> Tensor:
        return predict(self.nets_, z)


def _ssim_l1(guess: Tensor, x: Tensor) -> Tensor:
    return (1 - ssim(x, guess)).mean() + l1_loss(guess, x)


@torch.no_grad()
def predict(nets: Sequence[nn.Module], z: Tensor) -> Tensor:
    """Images (B, C, H, W) in [0, 1]: the mean of what ``nets`` make of releases z."""
    parts = [sum(net(part) for net in nets) / len(nets) for part in z.split(500)]
    return torch.cat(parts).clamp(0, 1)
