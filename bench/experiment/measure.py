"""What is measured of a trained victim before anyone attacks it."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from smashbench.attacks.base import OversizedError
from smashbench.bench.experiment.bounds import lower_bound, optimum
from smashbench.bench.experiment.inferred import inferred
from smashbench.bench.experiment.metrics import METRICS, Metric
from smashbench.bench.experiment.metrics.score import scores_of
from smashbench.bench.experiment.results import (
    DefenseFacts,
    DiagnosticFacts,
    Epoch,
    Floors,
    Values,
    VictimMetrics,
    VictimResults,
)
from smashbench.bench.experiment.seeds import release_seed, seed_for
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.watch import WATCHED
from smashbench.datasets import Split
from smashbench.defenses import Defense

ACCURACY_DRAWS = 5
"""Releases per test image that the accuracy is averaged over, when they are random."""
FEW = 64
"""Test images whose releases say how many bits are sent for one."""


class Measured(NamedTuple):
    """What is known of a victim."""

    results: VictimResults
    scores: dict[str, Tensor]
    """Of every test image: ``correct`` (N,), the share of its releases that the head classifies
    rightly, and where some are of no class ``judged`` (N,), 1 for the others; where images have
    attributes ``attribute_from_release`` and ``attribute_from_prediction`` (N,), see
    ``inferred.Inferred``, and where some have none ``attributed`` (N,), 1 for the others; and where
    they come in groups ``group`` (N,)."""


def measure_victim(victim: Victim, split: Split, seed: int, history: list[Epoch]) -> Measured:
    """Measures a victim that was trained, by what ``history`` tells."""
    z = victim.encode(split.test.x)
    left_out: dict[str, str] = {}
    bound = best = None
    try:
        bound, best = lower_bound(victim, split), optimum_of(victim, split, z, seed)
    except OversizedError as error:
        left_out["bound"] = str(error)
    correct, judged = correct_share(victim, z, split.test.y, seed), split.test.y >= 0
    frequency = split.test.y[judged].bincount(minlength=split.classes)
    results = VictimResults(
        facts=facts_of(victim.defense),
        metrics=VictimMetrics(
            accuracy=float(correct[judged].mean()), chance=float(frequency.max() / judged.sum())
        ),
        floors=floors_of(split),
        bound=bound,
        optimum=best,
        left_out=left_out,
        randomized=victim.defense.randomized,
        payload=victim.defense.payload(victim.protect(z[:FEW])),
        client_parameters=victim.split.client_parameters,
        client_multiply_adds=victim.split.client_multiply_adds(split.shape),
        history=history,
    )
    scores = {"correct": correct.cpu()}
    if not judged.all():
        scores["judged"] = judged.float().cpu()
    if told := inferred(victim, split, z, seed):
        scores |= {f"attribute_{name}": each.cpu() for name, each in told.shares.items()}
        if not told.attributed.all():
            scores["attributed"] = told.attributed.float().cpu()
    if split.test.groups is not None:
        scores["group"] = split.test.groups.cpu()
    return Measured(results, scores)


def facts_of(defense: Defense) -> DefenseFacts:
    """What a defense declares, and what is watched in every training."""
    declared = {**WATCHED, **defense.diagnostics}
    return DefenseFacts(
        role=defense.role,
        group=defense.group,
        noise=float(defense.noise),
        diagnostics={name: DiagnosticFacts(**each._asdict()) for name, each in declared.items()},
    )


def _means(x: Tensor, guess: Tensor) -> Values:
    return {name: float(values.mean()) for name, values in scores_of(x, guess, METRICS).items()}


def correct_share(victim: Victim, z: Tensor, y: Tensor, seed: int) -> Tensor:
    """Share of the releases (N,) of each image's features z that the head classifies rightly."""
    torch.manual_seed(seed_for("accuracy", seed))
    draws = ACCURACY_DRAWS if victim.defense.randomized else 1
    hits = [victim.predict(victim.protect(z)) == y for _ in range(draws)]
    return torch.stack(hits).float().mean(0)


_MEASURED: list[tuple[Split, dict[str, Metric], Floors]] = []
"""The floors of the images that were measured last: those of every victim of them."""


def floors_of(split: Split) -> Floors:
    """Metrics of what needs no attack: the train mean, the true class's train mean, and
    thumbnails of the test images themselves."""
    for images, metrics, floors in _MEASURED:
        if images is split and metrics == METRICS:
            return floors
    _MEASURED[:] = [(split, dict(METRICS), floors := _floors(split))]
    return floors


def _floors(split: Split) -> Floors:
    x, train_x, train_y = split.test.x, split.train.x, split.train.y
    mean = train_x.mean(0)
    label = torch.arange(split.classes, device=x.device)
    member = (label[:, None] == train_y).float()
    count = member.sum(1, keepdim=True)
    by_class = ((member @ train_x.flatten(1)) / count.clamp_min(1)).where(count > 0, mean.flatten())
    by_class = torch.cat([by_class, mean.flatten()[None]])  # the last one is that of no class, -1
    guesses = {
        "mean_image": mean.expand_as(x),
        "class_mean": by_class[split.test.y].view_as(x),
    }
    for size in (2, 4):
        small = adaptive_avg_pool2d(x, size)
        guesses[f"thumbnail_{size}x{size}"] = interpolate(small, x.shape[2:], mode="nearest")
    return {name: _means(x, guess) for name, guess in guesses.items()}


def optimum_of(victim: Victim, split: Split, z: Tensor, seed: int) -> Values | None:
    """Metrics of the best possible reconstruction from the releases that the first fit of every
    attack gets; None where it is not known."""
    torch.manual_seed(release_seed(split, seed))
    guess = optimum(victim, split, victim.protect(z))
    return None if guess is None else _means(split.test.x, guess.clamp(0, 1))
