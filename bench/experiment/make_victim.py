"""One victim: trained, and measured before anyone attacks it."""

from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from smashbench.bench.experiment.kept_images import samples_of_images
from smashbench.bench.experiment.measure import measure_victim
from smashbench.bench.experiment.progress import NOWHERE, Keeper
from smashbench.bench.experiment.results import Epoch, VictimResults
from smashbench.bench.experiment.seeds import seed_for
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.datasets import Split


class Made(NamedTuple):
    """What became of a victim."""

    results: VictimResults
    scores: dict[str, Tensor]
    """Of every test image, see ``measure.Measured``."""
    samples: dict[str, Tensor]
    """The test images that are kept to be seen, uint8."""
    seconds: float
    """Of the training."""


def make_victim(
    victim: Victim, split: Split, training: Training, seed: int, keeper: Keeper = NOWHERE
) -> Made:
    """Trains ``victim`` in place and measures it. Its weights were drawn after
    ``start(seed)``; how far the training is is kept by ``keeper``."""
    history, seconds = train(victim, split, training, keeper)
    results, scores = measure_victim(victim, split, seed, [_finite(epoch) for epoch in history])
    return Made(results, scores, samples_of_images(split), seconds)


def start(seed: int) -> None:
    """Seeds everything random about the victim of this seed: weights, batches, noise."""
    torch.manual_seed(seed_for("victim", seed))


def _finite(row: dict[str, float]) -> Epoch:
    """JSON has no NaN: a diverged training is recorded, not refused."""
    return {name: value if isfinite(value) else None for name, value in row.items()}
