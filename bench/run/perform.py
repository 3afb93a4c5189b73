"""Performing one trial: what it needs is loaded, it is done, and its record is written, last."""

import json
import platform
import time
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from smashbench.attacks import ATTACKS
from smashbench.bench.experiment.attack_victim import Target, attack_victim
from smashbench.bench.experiment.idle import idle
from smashbench.bench.experiment.make_victim import make_victim, start
from smashbench.bench.experiment.parts import mistakes_in, too_few
from smashbench.bench.experiment.results import AttackSeconds, VictimSeconds
from smashbench.bench.run.checkpoint import forget, keeper_of
from smashbench.bench.run.measure_again import measure_again
from smashbench.bench.run.victims import begin_with, build_victim, restored, trained, write_arrays
from smashbench.bench.store.record import AttackRecord, VictimRecord
from smashbench.bench.store.store import RECONSTRUCTIONS, Store
from smashbench.bench.suite.config import AttackConfig, Component, VictimConfig
from smashbench.bench.suite.source import scoring_of, source_of
from smashbench.bench.suite.trial import Trial
from smashbench.datasets import DATASETS, DatasetError, Split

PACKAGES = ("torch", "torchvision", "numpy", "scikit-learn", "scikit-image")
"""What numbers depend on."""


def perform(trial: Trial, folder: Path, data: Path | None, *, again: bool) -> None:
    """Performs one trial and writes its record, last.

    Args:
        trial: what to do.
        folder: the results folder; an attack finds its victim there.
        data: the data folder.
        again: it is finished, and what it made is to be measured again.

    Raises:
        BenchError, DatasetError: something a person must change before anything else can run.
        AttackError, CrashedError, OversizedError: why this trial fails or is left out.
        ValueError: its defense would do nothing on these images.
        LostError: the attack's own process was lost.
    """
    device = accelerator()
    torch.backends.cudnn.deterministic = True
    # what `use_deterministic_algorithms` does, without importing the compiler: seconds of a worker
    torch.set_deterministic_debug_mode("warn" if device.type == "cuda" else "default")
    # it would fill what no operation reads: 175 launches in a step of vgg11 on a GPU
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    store = Store(folder)
    if again:
        measure_again(trial, store, load_data(trial.victim.dataset, data, device))
    elif isinstance(trial.config, VictimConfig):
        _train(trial, trial.config, store, data, device)
    else:
        _attack(trial, trial.config, store, data, device)


def accelerator() -> torch.device:
    """Where trials run."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_data(dataset: Component, data: Path | None, device: torch.device) -> Split:
    """The split of a resolved data set, on ``device``; the last one is kept."""
    return _load(dataset.model_dump_json(), data, device)


@lru_cache(maxsize=1)
def _load(dataset: str, data: Path | None, device: torch.device) -> Split:
    config = json.loads(dataset)
    split: Split = DATASETS[config["name"]](**config["options"]).load(data)
    if wrong := [*mistakes_in(split)] or [*too_few(split)]:
        raise DatasetError("; ".join(wrong))
    return split.to(device)


def _train(
    trial: Trial, config: VictimConfig, store: Store, data: Path | None, device: torch.device
) -> None:
    started = time.perf_counter()
    split = load_data(config.dataset, data, device)
    start(config.seed)
    victim = build_victim(config, split)
    if nothing := [*idle(victim.defense, split, config.training)]:
        raise ValueError("; ".join(nothing))
    first = begin_with(victim, trial.parent, store, split) if trial.parent else None
    keeper = keeper_of(trial, store, split.hash, first)
    made = make_victim(victim, split, config.training, config.seed, keeper)
    weights = store.write_weights(trial.key, victim.weights())
    arrays = {"scores": made.scores, "samples": made.samples}
    record = VictimRecord(
        key=trial.key,
        config=config,
        source=str(source_of(trial)),
        scoring=scoring_of(trial),
        data_hash=split.hash,
        machine=_machine(device),
        arrays=write_arrays(store, trial.key, arrays),
        parent=trial.parent,
        checkpoint_sha256=weights,
        start_sha256=first,
        seconds=VictimSeconds(train=round(made.seconds, 3), total=_since(started)),
        **dict(made.results),
    )
    store.write(record)
    forget(trial, store)


def _attack(
    trial: Trial, config: AttackConfig, store: Store, data: Path | None, device: torch.device
) -> None:
    started = time.perf_counter()
    split = load_data(config.victim.dataset, data, device)
    parent = str(trial.parent)
    victim = trained(store, parent, split)
    chosen = config.attack
    # without a second number for the first attack seed: its draws are those of the victim's seed
    seeds = [config.victim.seed, *([config.seed] if config.seed else [])]
    done = attack_victim(
        _target(parent, victim.checkpoint_sha256, store.folder, split),
        ATTACKS[chosen.name](**chosen.options),
        chosen.label,
        split,
        victim.floors["mean_image"],
        seeds,
        chosen.pairs,
    )
    arrays: dict[str, dict[str, Any]] = {
        "scores": done.scores,
        "samples": done.samples,
        RECONSTRUCTIONS: {RECONSTRUCTIONS: done.reconstructions},
    }
    record = AttackRecord(
        key=trial.key,
        config=config,
        parent=parent,
        source=str(source_of(trial)),
        scoring=scoring_of(trial),
        data_hash=split.hash,
        machine=_machine(device),
        arrays=write_arrays(store, trial.key, arrays),
        victim_sha256=victim.checkpoint_sha256,
        victim_source=victim.source,
        seconds=AttackSeconds(
            fit=round(done.fit_seconds, 3),
            reconstruct=round(done.reconstruct_seconds, 3),
            total=_since(started),
        ),
        **dict(done.results),
    )
    store.write(record)


@lru_cache(maxsize=1)
def _target(key: str, checkpoint: str, folder: Path, split: Split) -> Target:
    """A trained victim, ready to be attacked; the last one is kept, for its other attacks."""
    victim = restored(Store(folder), key, checkpoint, split)
    victim.requires_grad_(False)
    return Target(victim, victim.encode(split.aux.x), victim.encode(split.test.x))


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _machine(device: torch.device) -> dict[str, str]:
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
    return {
        "device": f"{device.type} {name}",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }
