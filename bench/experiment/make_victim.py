"""One victim: trained, and measured before anyone attacks it."""

import time
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from smashbench.bench.experiment.bounds import lower_bound
from smashbench.bench.experiment.measure import (
    chosen_images,
    correct_share,
    floors_of,
    optimum_of,
    pixels,
)
from smashbench.bench.experiment.results import (
    DefenseFacts,
    DiagnosticFacts,
    VictimMetrics,
    VictimResults,
)
from smashbench.bench.experiment.seeds import seed_for
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.watch import WATCHED
from smashbench.datasets import Split
from smashbench.defenses import Defense

FEW = 64
"""Test images whose releases say how many bits are sent for one."""


class Made(NamedTuple):
    """What became of a victim."""

    results: VictimResults
    correct: Tensor
    """Share (N,) of the releases of each test image that the head classifies rightly."""
    samples: dict[str, Tensor]
    """The test images that are kept to be seen, uint8."""
    seconds: float
    """Of the training."""


def make_victim(victim: Victim, split: Split, training: Training, seed: int) -> Made:
    """Trains ``victim`` in place and measures it. Its weights were drawn after
    ``start(seed)``."""
    started = time.perf_counter()
    history = train(victim, split, training)
    seconds = time.perf_counter() - started
    z = victim.encode(split.test.x)
    correct = correct_share(victim, z, split.test.y, seed)
    frequency = split.test.y.bincount(minlength=split.classes)
    results = VictimResults(
        facts=facts_of(victim.defense),
        metrics=VictimMetrics(
            accuracy=float(correct.mean()), chance=float(frequency.max() / len(correct))
        ),
        floors=floors_of(split),
        bound=lower_bound(victim, split),
        optimum=optimum_of(victim, split, z, seed),
        randomized=victim.defense.randomized,
        payload=victim.defense.payload(victim.protect(z[:FEW])),
        client_parameters=victim.split.client_parameters,
        client_multiply_adds=victim.split.client_multiply_adds(split.shape),
        history=[_finite(epoch) for epoch in history],
    )
    samples = {"samples": pixels(split.test.x[chosen_images(split)])}
    return Made(results, correct.cpu(), samples, seconds)


def start(seed: int) -> None:
    """Seeds everything random about the victim of this seed: weights, batches, noise."""
    torch.manual_seed(seed_for("victim", seed))


def facts_of(defense: Defense) -> DefenseFacts:
    """What a defense declares, and what is watched in every training."""
    declared = {**WATCHED, **defense.diagnostics}
    return DefenseFacts(
        role=defense.role,
        noise=float(defense.noise),
        diagnostics={name: DiagnosticFacts(**each._asdict()) for name, each in declared.items()},
    )


def _finite(row: dict[str, float]) -> dict[str, float | None]:
    """JSON has no NaN: a diverged training is recorded, not refused."""
    return {name: value if isfinite(value) else None for name, value in row.items()}
