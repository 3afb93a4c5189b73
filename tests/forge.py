"""Trials and records made by hand, for tests that need no training."""

import numpy as np
from safetensors.numpy import save

from smashbench.bench.experiment.results import (
    AttackSeconds,
    DefenseFacts,
    DiagnosticFacts,
    ThreatModel,
    VictimMetrics,
    VictimSeconds,
)
from smashbench.bench.experiment.scoring import summarise
from smashbench.bench.experiment.training import Training
from smashbench.bench.report.board import AttackSummary
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.store.record import AttackRecord, VictimRecord
from smashbench.bench.store.store import Store
from smashbench.bench.suite.config import (
    PROTOCOL,
    AttackChoice,
    AttackConfig,
    Component,
    DefenseConfig,
    VictimConfig,
    key_of,
)
from smashbench.bench.suite.source import scoring_of, source_of
from smashbench.bench.suite.trial import Trial

FLOORS = {"mean_image": {"mse": 0.1, "ssim": 0.1}, "class_mean": {"mse": 0.08, "ssim": 0.2}}
KINDS = {"mean": "floor", "gmm": "closed_form", "decoder": "trained", "averaging": "trained"}
ROLES = {"none": "control", "noise": "baseline"}
DIAGNOSTICS = {
    "class_variance": DiagnosticFacts(label="true variance", logarithmic=True, column=True),
    "surrogate": DiagnosticFacts(label="surrogate", column=True),
    "effective_samples": DiagnosticFacts(label="effective samples", column=True),
}
HASH, SHA256 = "0123456789abcdef", 64 * "0"
IMAGES = 10


def victim_trial(
    defense: str = "noise", strength: float | None = 1.0, seed: int = 0, label: str | None = None
) -> Trial:
    """A trial that would train a victim with this defense."""
    config = VictimConfig(
        protocol=PROTOCOL,
        dataset=Component(name="photos", options={}),
        model=Component(name="small", options={"channels": 8}),
        training=Training(epochs=2),
        defense=DefenseConfig(label=label or defense, strength=strength, name=defense, options={}),
        seed=seed,
    )
    return Trial(key_of(config), config)


def attack_trial(victim: Trial, name: str = "mean", seed: int = 0, label: str = "") -> Trial:
    """A trial that would attack this victim."""
    attack = AttackChoice(label=label or name, name=name, options={})
    config = AttackConfig(victim=victim.victim, attack=attack, seed=seed)
    return Trial(key_of(config), config, victim.key)


def victim_record(trial: Trial, accuracy: float = 0.9, **changes) -> VictimRecord:
    """What a run would say of a victim, with changed fields."""
    name = trial.victim.defense.name
    facts = DefenseFacts(role=ROLES.get(name, "defense"), noise=0.0, diagnostics=DIAGNOSTICS)
    fields = {
        "key": trial.key,
        "config": trial.config,
        "source": source_of(trial) or HASH,
        "data_hash": HASH,
        "scoring": scoring_of(trial),
        "machine": {"device": "cpu", "torch": "2"},
        "arrays": {},
        "facts": facts,
        "metrics": VictimMetrics(accuracy=accuracy, chance=0.1),
        "floors": FLOORS,
        "bound": None,
        "optimum": None,
        "randomized": name != "none",
        "payload": 8,
        "client_parameters": 3,
        "client_multiply_adds": 5,
        "history": [{"class_variance": 0.5}, {"class_variance": 0.25, "surrogate": 2.0}],
        "checkpoint_sha256": SHA256,
        "seconds": VictimSeconds(train=1.5, total=2.0),
    }
    return VictimRecord(**(fields | changes))


def attack_record(trial: Trial, mse: float = 0.02, ssim: float = 0.5, **changes) -> AttackRecord:
    """What a run would say of an attack, with changed fields."""
    assert trial.attack
    name = trial.attack.name
    values = {"mse": np.array([mse]), "ssim": np.array([ssim])}
    failed = mse / FLOORS["mean_image"]["mse"] > 0.95
    fields = {
        "key": trial.key,
        "config": trial.config,
        "parent": trial.parent,
        "source": source_of(trial) or HASH,
        "data_hash": HASH,
        "scoring": scoring_of(trial),
        "machine": {"device": "cpu", "torch": "2"},
        "arrays": {},
        **summarise(values, FLOORS["mean_image"]),
        "kind": KINDS.get(name, "closed_form"),
        "converged": True,
        "curve": [],
        "flags": ["attack_failed"] if failed else [],
        "threat_model": ThreatModel(
            grants=["pairs"],
            aux_images=100,
            aux_overlap=0,
            noise_aware=True,
            releases_per_image=4 if name == "averaging" else 1,
        ),
        "victim_sha256": SHA256,
        "seconds": AttackSeconds(fit=2.0, reconstruct=0.5, total=3.0),
    }
    return AttackRecord(**(fields | changes))


def attack_summary(values: dict[str, float], name: str = "gmm") -> AttackSummary:
    """What a row holds of an attack whose metrics are these, exactly."""
    record = attack_record(attack_trial(victim_trial(), name))
    return AttackSummary(
        estimates={metric: Estimate(value, value, value) for metric, value in values.items()},
        kind=record.kind,
        threat=record.threat_model,
        converged=True,
        failed=False,
        seconds=2.5,
        record=record,
    )


def keep_victim(
    store: Store,
    trial: Trial,
    accuracy: float = 0.9,
    *,
    groups: list[int] | None = None,
    **changes,
) -> VictimRecord:
    """Writes such a record and its arrays, with the groups of the images if they have any."""
    scores = {"correct": (np.arange(IMAGES) < round(IMAGES * accuracy)).astype(np.float32)}
    if groups is not None:
        scores["group"] = np.array(groups)
    arrays = _write(store, trial, scores)
    record = victim_record(trial, accuracy, arrays=arrays, **changes)
    store.write(record)
    return record


def keep_attack(
    store: Store, trial: Trial, mse: float | list[float] = 0.02, ssim: float = 0.5, **changes
) -> AttackRecord:
    """Writes such a record and its arrays; one error is that of every image."""
    values = {"mse": mse, "ssim": ssim}
    scores = {name: np.full(IMAGES, value, np.float32) for name, value in values.items()}
    arrays = _write(store, trial, scores)
    record = attack_record(trial, float(np.mean(mse)), ssim, arrays=arrays, **changes)
    store.write(record)
    return record


def _write(store: Store, trial: Trial, scores: dict[str, np.ndarray]) -> dict[str, str]:
    images = np.zeros((2, 3, 4, 4), np.uint8)
    samples = {"samples": images, "users": images, "users_original": images}
    return store.write_arrays(trial.key, {"scores": save(scores), "samples": save(samples)})
