"""How the trained attacks are trained: learning rates that rise and fall, in cycles that double."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from math import inf
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from smashbench.attacks.muon import Muon, groups_of, triangle

WARMUP = 0.02
"""Share of a cycle in which the learning rates rise."""

Net = TypeVar("Net", bound=nn.Module)


def descend(
    net: nn.Module, losses: Iterable[Tensor], steps: int, *, lr: float, adam_lr: float
) -> None:
    """Trains in place: Muon updates the filters, Adam the rest.

    Args:
        net: what is trained.
        losses: one a step, each computed when it is asked for.
        steps: how many there are.
        lr: highest learning rate of Muon; it rises, and falls linearly to 0.
        adam_lr: the same of Adam.
    """
    optimiser = Muon(groups_of([net], lr=lr, adam_lr=adam_lr))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, triangle(steps, WARMUP))
    for loss in losses:
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()


class Cycles(NamedTuple, Generic[Net]):
    """What came of training in cycles."""

    net: Net
    """With the weights of the lowest validation loss at the end of a cycle, or of the start."""
    history: list[float]
    """The validation loss of the start, and at the end of every cycle."""
    converged: bool


def doubled(
    net: Net,
    train: Callable[[Net, int], Net],
    validate: Callable[[Net], float],
    *,
    cycle: int,
    max_steps: int,
    min_gain: float,
) -> Cycles[Net]:
    """Trains in cycles, each twice as long as the one before, so that each more than doubles what
    was spent. When one lowers the validation loss by less than ``min_gain``, the fit has converged;
    when the next one would exceed ``max_steps``, or the loss is not finite, the fit ends and has
    not.

    Args:
        net: the start.
        train: trains a network for so many steps; it may go on with another one.
        validate: the validation loss of a network; infinite where it has diverged.
        cycle: steps of the first cycle, if the budget has so many.
        max_steps: budget.
        min_gain: relative gain of doubling the training below which a fit has converged.
    """
    history, kept, gain = [validate(net)], deepcopy(net), 1.0
    steps = spent = min(cycle, max_steps)
    net = train(net, steps)
    while (error := validate(net)) < inf:
        best = min(history)
        if len(history) > 1:  # the first cycle doubles nothing
            gain = (best - error) / max(best, 1e-12)
        if error < best:
            kept = deepcopy(net)
        history.append(error)
        steps *= 2
        if gain < min_gain or spent + steps > max_steps:
            break
        net = train(net, steps)
        spent += steps
    return Cycles(kept, history, gain < min_gain)
