"""Measuring what a finished trial made again: after a metric has changed or been added."""

from collections.abc import Mapping
from typing import Any

import torch

from smashbench.bench.experiment.kept_images import samples_of, samples_of_images
from smashbench.bench.experiment.measure import measure_victim
from smashbench.bench.experiment.results import AttackResults, VictimResults
from smashbench.bench.experiment.scoring import rescore
from smashbench.bench.run.victims import restored, trained, write_arrays
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.record import AttackRecord, VictimRecord
from smashbench.bench.store.store import RECONSTRUCTIONS, Store
from smashbench.bench.suite.source import scoring_of
from smashbench.bench.suite.trial import Trial
from smashbench.datasets import Split

Files = dict[str, Mapping[str, Any]]
"""Arrays by name, by the name of their file."""


def measure_again(trial: Trial, store: Store, split: Split) -> None:
    """Measures a victim anew from its weights, or scores an attack anew from its reconstructions;
    what was not measured by other code than the present one stays as it is.

    Raises:
        BenchError: the images are others, or something it needs is damaged.
    """
    record, wanted = store.finished(trial.key), scoring_of(trial)
    assert record
    results: VictimResults | AttackResults
    if isinstance(record, VictimRecord):
        results, files = _victim(trained(store, trial.key, split), store, split)
    else:
        results, files = _attack(record, wanted, store, split)
    written = write_arrays(store, trial.key, files, beside=True)
    changes = dict(results) | {"arrays": record.arrays | written, "scoring": wanted}
    measured = type(record).model_validate({**dict(record), **changes})
    store.write(measured)
    for name in files:
        store.arrays(measured, name)  # which puts them in their place


def _victim(record: VictimRecord, store: Store, split: Split) -> tuple[VictimResults, Files]:
    victim = restored(store, record.key, record.checkpoint_sha256, split)
    results, scores = measure_victim(victim, split, record.config.seed, record.history)
    return results, {"scores": scores, "samples": samples_of_images(split)}


def _attack(
    record: AttackRecord, wanted: dict[str, str], store: Store, split: Split
) -> tuple[AttackResults, Files]:
    floor = trained(store, record.parent, split).floors["mean_image"]
    stale = {name for name, code in wanted.items() if record.scoring.get(name) != code}
    try:
        scores = store.arrays(record, "scores")
    except DamagedError:  # and set aside
        scores, stale = {}, set(wanted)
    pixels = torch.from_numpy(store.arrays(record, RECONSTRUCTIONS)[RECONSTRUCTIONS])
    guess = pixels.to(split.test.x.device, torch.float32) / 255
    results, scores = rescore(record, scores, stale, guess, split.test.x, floor)
    return results, {"scores": scores, "samples": samples_of(split, guess, scores["mse"])}
