"""Which samples make a batch."""

import torch
from torch import Tensor


def batches_of(y: Tensor, size: int, balanced: int) -> list[Tensor]:
    """The batches of one epoch, indices (size,) into labels ``y`` (N,); N // size of them, since a
    short one would upset the statistics.

    Args:
        y: labels, on any device; the indices are there, too.
        size: of a batch.
        balanced: 0 shuffles all samples. Otherwise samples come in runs of at least this many of
            one class, which only the end of a batch cuts: where there are many classes, a batch
            drawn from all has for most samples no second one of their class, and a penalty on
            classes nothing to say. Every sample comes once in an epoch, in both.
    """
    order = torch.randperm(len(y))
    if balanced:
        order = _in_runs(y.cpu(), order, balanced)
    batches = order.to(y.device).split(size)
    return list(batches[: len(y) // size])


def _in_runs(y: Tensor, order: Tensor, length: int) -> Tensor:
    """The shuffled samples as runs of ``length`` of one class, the last of a class up to twice as
    long, in random order."""
    by_class = order[y[order].argsort(stable=True)]
    _, counts = y[by_class].unique_consecutive(return_counts=True)
    place = torch.arange(len(y)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    runs = (counts // length).clamp_min(1)
    run = torch.minimum(place // length, (runs - 1).repeat_interleave(counts))
    number = run + (runs.cumsum(0) - runs).repeat_interleave(counts)
    return by_class[torch.randperm(int(runs.sum()))[number].argsort(stable=True)]
