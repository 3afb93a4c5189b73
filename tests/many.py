"""A folder of thirty forged defenses in groups, to look at and to measure the page on."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from smashbench.bench.experiment.results import DefenseFacts
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite, Trial
from tests.forge import DIAGNOSTICS, attack_record, attack_trial, victim_record, victim_trial

IMAGES, SIDE = 60, 16
SEEDS = 3
GROUPS = {
    "sparsity": ["dropout", "channel_dropout", "bottleneck", "top_k", "quantised_to_few_levels"],
    "information": ["nopeek", "hsic", "infobottleneck", "club", "mutual_information_estimator"],
    "adversarial": ["adversarial_decoder", "patrol", "ressfl", "arl", "shredder", "disco"],
    "CEM": [
        *("kmeans_cem", "gmm_cem", "full_gmm_cem", "gated_pooling", "slot_attention"),
        *("class_variance", "whitened_cem"),
    ],
    "warning": ["sign_flip", "permutation", "saturation", "crowded", "collapsing"],
}
ATTACKS = ("mean", "gmm", "decoder")


def write_many(folder: Path) -> None:
    """Thirty defenses at three strengths, three seeds, three attacks; the last one collapses."""
    rng = np.random.default_rng(0)
    store = Store(folder)
    rows = [("none", "baseline", None, 0.9, 0.01)]
    rows += [("noise", "noise", s, 0.9 - 0.1 * s, 0.01 + 0.05 * s) for s in (0.1, 0.2, 0.5, 1.0)]
    for group, names in GROUPS.items():
        for name in names:
            gain, cost = rng.normal(0, 0.15), rng.uniform(0, 0.01)
            for s in (0.1, 0.4, 0.8):
                error = (0.01 + 0.05 * s) * (1 + gain)
                rows.append((name, group, s, 0.9 - cost - 0.1 * s, error))
    rows[-1] = (*rows[-1][:3], 0.12, 0.09)
    easy = rng.uniform(0.7, 1.3, IMAGES)
    pictures = _pictures(rng)
    victims: list[Trial] = []
    attacks: list[Trial] = []
    for name, group, strength, accuracy, error in rows:
        for seed in range(SEEDS):
            shift = rng.normal(0, 0.004)
            victim = victim_trial(name, strength, seed)
            victims.append(victim)
            _keep_victim(store, victim, group, accuracy + shift, pictures, rng)
            for number, attack in enumerate(ATTACKS):
                trial = attack_trial(victim, attack)
                attacks.append(trial)
                mse = 0.1 if attack == "mean" else error * (1.2 - 0.1 * number)
                values = (mse * easy * rng.uniform(0.97, 1.03, IMAGES)).clip(0, 1)
                _keep_attack(store, trial, values.astype(np.float32), pictures, mse, rng)
    command = "smashbench run forged"
    save_suite(Suite("forged", "Made by hand", tuple(victims), tuple(attacks), command), folder)


def _pictures(rng: np.random.Generator) -> np.ndarray:
    """(8, 3, SIDE, SIDE) uint8: stripes of many colours."""
    side = np.arange(SIDE)
    across, down = rng.uniform(0.1, 0.5, (2, 8, 3, 1, 1))
    x = side * across + side[:, None] * down
    return (127 + 100 * np.sin(x)).astype(np.uint8)


def _keep_victim(
    store: Store,
    trial: Trial,
    group: str,
    accuracy: float,
    pictures: np.ndarray,
    rng: np.random.Generator,
) -> None:
    correct = (rng.permutation(IMAGES) < round(IMAGES * accuracy)).astype(np.float32)
    roles = {"none": "control", "noise": "baseline"}
    name = trial.victim.defense.name
    facts = DefenseFacts(
        role=roles.get(name, "defense"), group=group, noise=0.1, diagnostics=DIAGNOSTICS
    )
    arrays = {"scores": save({"correct": correct}), "samples": save({"samples": pictures})}
    written = store.write_arrays(trial.key, arrays)
    store.write(victim_record(trial, float(correct.mean()), facts=facts, arrays=written))


def _keep_attack(
    store: Store,
    trial: Trial,
    values: np.ndarray,
    pictures: np.ndarray,
    mse: float,
    rng: np.random.Generator,
) -> None:
    noise = rng.normal(0, 255 * mse**0.5, pictures.shape)
    guess = (pictures + noise).clip(0, 255).astype(np.uint8)
    samples = {"samples": guess, "users": guess[:2], "users_original": pictures[:2]}
    scores = {"mse": values, "ssim": (1 - 8 * values).clip(0, 1).astype(np.float32)}
    written = store.write_arrays(trial.key, {"scores": save(scores), "samples": save(samples)})
    store.write(attack_record(trial, float(values.mean()), arrays=written))
