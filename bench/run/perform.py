"""Performing one trial: what it needs is loaded, it is done, and its record is written, last."""

import json
import platform
import time
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from smashbench.attacks import ATTACKS
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.attack_victim import Target, attack_victim
from smashbench.bench.experiment.make_victim import make_victim, start
from smashbench.bench.experiment.metrics import VERSION
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.results import AttackSeconds, VictimSeconds
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.store.record import AttackRecord, VictimRecord
from smashbench.bench.store.store import Store
from smashbench.bench.suite.config import AttackConfig, Component, VictimConfig
from smashbench.bench.suite.source import source_of
from smashbench.bench.suite.trial import Trial
from smashbench.datasets import DATASETS, Split
from smashbench.defenses import DEFENSES

PACKAGES = ("torch", "torchvision", "numpy", "scikit-learn", "scikit-image")
"""What numbers depend on."""


def perform(trial: Trial, folder: Path, data: Path | None) -> None:
    """Performs one trial and writes its record, last.

    Args:
        trial: what to do.
        folder: the results folder; an attack finds its victim there.
        data: the data folder.

    Raises:
        BenchError, DatasetError, AttackError: something a person must change.
    """
    device = accelerator()
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(device.type == "cuda", warn_only=True)
    store = Store(folder)
    if isinstance(trial.config, VictimConfig):
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
    return split.to(device)


def build_victim(config: VictimConfig, split: Split) -> Victim:
    """An untrained victim, on the split's device."""
    model = MODELS[config.model.name](**config.model.options)
    defense = partial(DEFENSES[config.defense.name], **config.defense.options)
    victim = Victim(model, defense, split.shape, split.classes)
    return victim.to(split.test.x.device)


def _train(
    trial: Trial, config: VictimConfig, store: Store, data: Path | None, device: torch.device
) -> None:
    started = time.perf_counter()
    split = load_data(config.dataset, data, device)
    start(config.seed)
    victim = build_victim(config, split)
    made = make_victim(victim, split, config.training, config.seed)
    weights = store.write_weights(trial.key, victim.weights())
    scores = save({"correct": made.correct})
    record = VictimRecord(
        key=trial.key,
        config=config,
        source=str(source_of(trial)),
        data_hash=split.hash,
        metric_version=VERSION,
        machine=_machine(device),
        arrays=store.write_arrays(trial.key, {"scores": scores, "samples": save(made.samples)}),
        checkpoint_sha256=weights,
        seconds=VictimSeconds(train=round(made.seconds, 3), total=_since(started)),
        **dict(made.results),
    )
    store.write(record)


def _attack(
    trial: Trial, config: AttackConfig, store: Store, data: Path | None, device: torch.device
) -> None:
    started = time.perf_counter()
    split = load_data(config.victim.dataset, data, device)
    parent = str(trial.parent)
    victim = store.victim(parent)
    if victim is None:
        raise BenchError(f"{trial.label}: victim {parent} must be trained before")
    if victim.data_hash != split.hash:
        raise BenchError(
            "the images are not those that the victim was trained with; they would be dealt "
            "otherwise: put back what was changed, or start anew with another --out"
        )
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
    )
    arrays: dict[str, dict[str, Tensor]] = {"scores": done.scores, "samples": done.samples}
    record = AttackRecord(
        key=trial.key,
        config=config,
        parent=parent,
        source=str(source_of(trial)),
        data_hash=split.hash,
        metric_version=VERSION,
        machine=_machine(device),
        arrays=store.write_arrays(trial.key, {name: save(each) for name, each in arrays.items()}),
        victim_sha256=victim.checkpoint_sha256,
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
    store = Store(folder)
    record = store.victim(key)
    assert record
    victim = build_victim(record.config, split)
    victim.restore(store.weights(key, checkpoint))
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
