"""Records to rows: one row per defense and strength, with the worst case and its flags."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.flags import QUALIFIERS
from bench.stats import BOUNDS, Estimate, freedom, interval, resample
from bench.store import Record, Store
from bench.suite import Suite, Trial

METRICS = ("mse", "ssim", "psnr", "fvu")
CONTROL_FAILED = 0.5
"""FVU above which the undefended victim counts as not broken."""
LAST = ("class_variance", "capacity_nats", "surrogate", "active_gates", "effective_samples")
"""Diagnostics of the last epoch that are columns of the leaderboard."""


@dataclass
class Row:
    """One defense at one strength, over the seeds that finished."""

    defense: str
    strength: float | None
    component: str = ""
    """Name of the defense in ``DEFENSES``; ``defense`` is its label in the suite."""
    seeds: list[int] = field(default_factory=list)
    missing: int = 0
    """Trials of this row that failed or have not run."""
    accuracy: Estimate | None = None
    attacks: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    """Attack to ``floor``, ``closed_form`` or ``trained``."""
    threats: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Attack to its threat model."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Attack to the seconds of fit and reconstruction, mean over the seeds."""
    repeats: set[str] = field(default_factory=set)
    """Attacks that see several releases of an image: another threat, never the worst case."""
    bound: float | None = None
    """A lower bound on the MSE of any attack that sees one release, see ``bench.bounds``."""
    optimum: float | None = None
    """The MSE of the best possible reconstruction from one release, where it is known."""
    worst_attack: str = ""
    """The attack with the lowest mean MSE."""
    worst_ssim_attack: str = ""
    """The attack with the highest mean SSIM."""
    flags: list[str] = field(default_factory=list)
    payload: int = 0
    client_parameters: int = 0
    noise: float | None = None
    """Standard deviation of the noise that the defense adds, of those that add any."""
    chance: float = 0.0
    """Accuracy of the most frequent class."""
    draws: dict[str, np.ndarray] = field(default_factory=dict)
    """The bootstrap's means (DRAWS,) of the accuracy and of the worst case by metric, paired
    between the rows of a board."""
    freedom: tuple[int, int] = (0, 0)
    """Degrees of freedom of seeds and of images."""
    train_seconds: float = float("nan")
    history: dict[str, np.ndarray] = field(default_factory=dict)
    """Losses, accuracies and diagnostics by epoch, mean over the seeds; NaN where not measured."""
    originals: Record | None = None
    """Where the sample images are, with the first seed: key and hashes of a record."""
    samples: dict[str, Record] = field(default_factory=dict)
    """Attack to where its reconstructions of them are."""

    @property
    def levels(self) -> dict[str, str]:
        """Attack to the knowledge it was granted."""
        return {attack: threat["knowledge"] for attack, threat in self.threats.items()}

    @property
    def doubts(self) -> list[str]:
        """The flags that say why not to trust the row."""
        return [flag for flag in self.flags if flag not in QUALIFIERS]

    @property
    def label(self) -> str:
        return self.defense if self.strength is None else f"{self.defense} {self.strength:g}"

    def worst(self, metric: str) -> Estimate:
        """The worst case over the attacks: highest for SSIM, else that of the lowest MSE."""
        attack = self.worst_ssim_attack if metric == "ssim" else self.worst_attack
        return self.attacks[attack][metric]


@dataclass
class Board:
    """The rows of a suite and what they are compared with."""

    suite: Suite
    rows: list[Row]
    floors: dict[str, dict[str, float]]
    """Predictor to MSE and SSIM; empty as long as no victim has finished."""

    @property
    def complete(self) -> list[Row]:
        """The rows that can be judged: without a missing trial, which may be the strongest."""
        return [row for row in self.rows if row.worst_attack and not row.missing]

    @property
    def controls(self) -> list[Row]:
        """The undefended rows among them."""
        return [row for row in self.complete if row.component == "none"]


def build(suite: Suite, store: Store) -> Board:
    """Reads the suite's records; those that are missing or failed are counted, never averaged."""
    attacks_of: defaultdict[str, list[Trial]] = defaultdict(list)
    for trial in suite.attacks:
        attacks_of[str(trial.parent)].append(trial)
    groups: defaultdict[tuple[str, float | None], list[Trial]] = defaultdict(list)
    for victim in suite.victims:
        defense = victim.config["defense"]
        groups[defense["label"], defense["strength"]].append(victim)
    found = [_row(*name, victims, attacks_of, store) for name, victims in groups.items()]
    rows = [row for row, _ in found]
    floors = next((floors for _, floors in found if floors), {})
    _flag_controls(rows, _controls(suite, attacks_of, store))
    _flag_fewer(rows)
    return Board(suite, rows, floors)


def _row(
    defense: str,
    strength: float | None,
    victims: list[Trial],
    attacks_of: dict[str, list[Trial]],
    store: Store,
) -> tuple[Row, dict[str, dict[str, float]]]:
    row = Row(defense, strength, victims[0].config["defense"]["name"])
    trained = [(v, record) for v in victims if (record := store.get(v.key))]
    trials = len(victims) + sum(len(attacks_of[v.key]) for v in victims)
    attacked: defaultdict[str, list[Record]] = defaultdict(list)
    for victim, _ in trained:
        for trial in attacks_of[victim.key]:
            if record := store.get(trial.key):
                attacked[trial.config["attack"]["label"]].append(record)
    row.missing = trials - len(trained) - sum(map(len, attacked.values()))
    if not trained:
        return row, {}
    records = [record for _, record in trained]
    floors: dict[str, dict[str, float]] = records[0]["floors"]
    row.seeds = [record["config"]["seed"] for record in records]
    correct = np.stack([store.arrays(record, "scores")["correct"] for record in records])
    row.draws["accuracy"] = resample(correct[None, :, None].astype(np.float64))[0]
    row.freedom = freedom((len(correct), 1, correct.shape[1]))
    row.accuracy = interval(correct.mean(), row.draws["accuracy"], row.freedom, BOUNDS["accuracy"])
    row.originals = _place(records[0])
    row.payload, row.client_parameters = records[0]["payload"], records[0]["client_parameters"]
    row.chance = records[0]["metrics"]["chance"]
    row.noise = victims[0].config["defense"]["options"].get("noise")
    row.train_seconds = float(np.mean([record["seconds"]["train"] for record in records]))
    row.history = _history([record["history"] for record in records])
    complete = {name: _balanced(runs, len(trained)) for name, runs in attacked.items()}
    complete = {name: runs for name, runs in complete.items() if runs}
    draws = _estimate(row, store, complete, floors["mean_image"]["mse"])
    for attack, runs in complete.items():
        row.samples[attack] = _place(runs[0])
        row.kinds[attack] = runs[0]["kind"]
        row.threats[attack] = runs[0]["threat_model"]
        times = [run["seconds"]["fit"] + run["seconds"]["reconstruct"] for run in runs]
        row.seconds[attack] = float(np.mean(times))
        if runs[0]["threat_model"]["releases_per_image"] > 1:
            row.repeats.add(attack)
    row.bound = _mean_of([(record["bound"] or {}).get("mse") for record in records])
    row.optimum = _mean_of([(record["optimum"] or {}).get("mse") for record in records])
    judged = [attack for attack in row.attacks if attack not in row.repeats]
    if judged:
        row.worst_attack = min(judged, key=lambda a: row.attacks[a]["mse"].mean)
        row.worst_ssim_attack = max(judged, key=lambda a: row.attacks[a]["ssim"].mean)
        row.draws |= draws[row.worst_attack] | {"ssim": draws[row.worst_ssim_attack]["ssim"]}
        row.flags = list(_flags(row, records, {a: attacked[a] for a in judged}))
    return row, floors


def _mean_of(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _history(runs: list[list[dict[str, float]]]) -> dict[str, np.ndarray]:
    names = dict.fromkeys(name for epochs in runs for epoch in epochs for name in epoch)
    return {
        name: np.array([[epoch.get(name) for epoch in epochs] for epochs in runs], float).mean(0)
        for name in names
    }


def _balanced(runs: list[Record], victims: int) -> list[Record]:
    """The runs of an attack, as many on every victim, victim by victim; none where a victim was
    not attacked: then the attack does not count."""
    by_victim: defaultdict[str, list[Record]] = defaultdict(list)
    for run in runs:
        by_victim[run["parent"]].append(run)
    if len(by_victim) < victims:
        return []
    least = min(map(len, by_victim.values()))
    return [run for group in by_victim.values() for run in group[:least]]


def _place(record: Record) -> Record:
    """What it takes to find a record's arrays."""
    return {name: record[name] for name in ("key", "arrays")}


def _estimate(
    row: Row, store: Store, attacked: dict[str, list[Record]], floor: float
) -> dict[str, dict[str, np.ndarray]]:
    """Sets every metric of every attack, over seeds, attack seeds and images; FVU is MSE over the
    floor's. Returns the bootstrap's draws."""
    found = {}
    for attack, runs in attacked.items():
        scores = [store.arrays(record, "scores") for record in runs]
        error = np.stack([each["mse"] for each in scores]).astype(np.float64)
        similarity = np.stack([each["ssim"] for each in scores]).astype(np.float64)
        values = np.stack([error, similarity, -10 * np.log10(np.maximum(error, 1e-10))])
        tables = values.reshape(3, len(row.seeds), -1, values.shape[-1])
        draws = dict(zip(("mse", "ssim", "psnr"), resample(tables), strict=True))
        means = dict(zip(draws, values.mean((1, 2)), strict=True))
        draws["fvu"], means["fvu"] = draws["mse"] / floor, means["mse"] / floor
        free = freedom(tables.shape[1:])
        row.attacks[attack] = {
            name: interval(means[name], draws[name], free, BOUNDS[name]) for name in METRICS
        }
        found[attack] = draws
    return found


def _flags(row: Row, victims: list[Record], attacks: dict[str, list[Record]]) -> Iterable[str]:
    """Reasons to distrust or to qualify a row."""
    if row.missing:
        yield "incomplete"
    trained = [name for name in attacks if row.kinds[name] == "trained"]
    if trained:
        strongest = min(trained, key=lambda name: row.attacks[name]["mse"].mean)
        if not all(run["converged"] for run in attacks[strongest]):
            yield "not_converged"
    if all("attack_failed" in run["flags"] for runs in attacks.values() for run in runs):
        yield "attack_failed"
    if row.worst("mse").high < max(row.bound or 0, row.optimum or 0) * (1 - 1e-6):
        yield "bound_violated"
    best: dict[str, float] = {}
    for name in attacks:
        kind, error = row.kinds[name], row.attacks[name]["mse"].mean
        best[kind] = min(error, best.get(kind, error))
    if "trained" in best and best.get("closed_form", 1.0) < best["trained"]:
        yield "simple_beats_strong"
    if row.accuracy and row.accuracy.mean < row.chance + 0.2 * (1 - row.chance):
        yield "utility_collapse"
    if victims[0]["randomized"]:
        yield "randomized"


def _controls(suite: Suite, attacks_of: dict[str, list[Trial]], store: Store) -> dict[int, float]:
    """Seed to the worst-case FVU of the undefended victim trained with it."""
    found: dict[int, float] = {}
    for victim in suite.victims:
        if victim.config["defense"]["name"] != "none" or not (trained := store.get(victim.key)):
            continue
        runs = [record for t in attacks_of[victim.key] if (record := store.get(t.key))]
        errors = [
            run["metrics"]["mse"]["mean"]
            for run in runs
            if run["threat_model"]["releases_per_image"] == 1
        ]
        if errors:
            fvu = min(errors) / trained["floors"]["mean_image"]["mse"]
            found[victim.config["seed"]] = max(fvu, found.get(victim.config["seed"], 0.0))
    return found


def _flag_fewer(rows: list[Row]) -> None:
    """``fewer_attacks``: another row was also attacked in ways that this one was not, so that
    their worst cases are not alike; it happens where results of several folders meet."""
    judged = {attack for row in rows for attack in row.attacks if attack not in row.repeats}
    for row in rows:
        if row.worst_attack and not row.missing and judged - set(row.attacks):
            row.flags.append("fewer_attacks")


def _flag_controls(rows: list[Row], controls: dict[int, float]) -> None:
    """``control_failed``: for a seed of the row, the suite's attacks leave more than half of the
    undefended images' variance unexplained, so the row says nothing about privacy.
    ``no_control``: for a seed of the row nothing undefended was attacked."""
    for row in rows:
        if any(controls.get(seed, 0) > CONTROL_FAILED for seed in row.seeds):
            row.flags.append("control_failed")
        if any(seed not in controls for seed in row.seeds):
            row.flags.append("no_control")
