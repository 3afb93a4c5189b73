"""Weights that are averages along a training, and statistics that fit the weights."""

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim

EVERY = 5
"""Steps between two moves of the average."""
DECAY = 0.95**EVERY
"""Weight of the average in such a move; with ``lookahead``, that at the end of the training."""


class Average:
    """The running average of a victim's weights, which ``settle`` puts in their place.

    ``ema`` only follows. ``lookahead`` (Zhang et al., 2019; the schedule is that of Jordan, 2024)
    also sets the weights back to the average at each move; its decay grows with the cube of the
    time.

    Args:
        victim: whose encoder and head are averaged.
        training: says how.
        steps: of the whole training.
    """

    def __init__(self, victim: Victim, training: Training, steps: int) -> None:
        self.kind, self.steps = training.average, steps
        parts = (victim.encoder, victim.head)
        self.fast: list[Tensor] = [
            p for part in parts for p in part.parameters() if p.requires_grad
        ]
        self.slow: list[Tensor] = []

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """To be called after every step, with its number from 1."""
        if self.kind == "none" or step % EVERY:
            return
        if not self.slow:
            self.slow = [p.clone() for p in self.fast]
        decay = DECAY * ((step / self.steps) ** 3 if self.kind == "lookahead" else 1.0)
        torch._foreach_lerp_(self.slow, self.fast, 1 - decay)
        if self.kind == "lookahead":
            self.settle()

    @torch.no_grad()
    def settle(self) -> None:
        """The averages become the victim's weights."""
        if self.slow:
            torch._foreach_copy_(self.fast, self.slow)


@torch.no_grad()
def recalibrate(victim: Victim, x: Tensor, batch_size: int) -> None:
    """Replaces the running statistics of batch normalisation, which trail the weights, by means
    over batches of the training images ``x`` as they are, of the final weights, and of releases.
    Batches are drawn at random, by the seed of the training and without moving its stream: the
    variance within batches of one class, in which many sets are stored, is not that of training."""
    layers = [m for m in victim.modules() if isinstance(m, _BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain mean
        layer.train()
    stream = torch.Generator().manual_seed(torch.initial_seed())
    order = torch.randperm(len(x), generator=stream).to(x.device)
    for part in order.split(batch_size):
        if len(part) == batch_size:
            victim.head(victim.defense(victim.encoder(x[part])))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
        layer.eval()
