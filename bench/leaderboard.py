"""Records to rows: one row per defense and strength, with the worst case and its flags."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from bench.board import Board, Row
from bench.errors import BenchError
from bench.lines import line_of
from bench.merge import merge
from bench.parallel import Crew
from bench.saved import trials_in
from bench.stats import BOUNDS, Estimate, freedom, means, resample
from bench.store import Record, Store
from bench.trials import Suite, Trial

CONTROL_FAILED = 0.5
"""FVU above which the undefended victim counts as not broken."""
SCORES = ("mse", "ssim", "psnr")
Found = tuple[Row, dict[str, dict[str, float]]]
"""A row, and the floors of its first victim."""


def read(folders: Sequence[Path], crew: Crew | None = None) -> tuple[Board, Store]:
    """The board of results folders, and the store of their records.

    Args:
        folders: one, or several that are read as one.
        crew: reads along; more of it is hired if there are many records.

    Raises:
        BenchError: see ``merge``; a damaged record.
    """
    _work.cache_clear()
    place = tuple(folders)
    with Crew() if crew is None else nullcontext(crew) as crew:
        crew.hire(sum(map(trials_in, folders)), partial(_share, place, ()))
        work = _work(place)
        found = crew.shares(partial(_share, place), range(len(work.groups)))
    return board_of(work.suite, found), work.store


class Work:
    """What there is to read of a suite."""

    def __init__(self, suite: Suite, store: Store) -> None:
        self.suite, self.store = suite, store
        groups: defaultdict[tuple[str, float | None], list[Trial]] = defaultdict(list)
        for victim in suite.victims:
            defense = victim.config["defense"]
            groups[defense["label"], defense["strength"]].append(victim)
        self.groups = list(groups.values())
        """The victims of each row."""
        self.attacks_of: defaultdict[str, list[Trial]] = defaultdict(list)
        for trial in suite.attacks:
            self.attacks_of[str(trial.parent)].append(trial)

    def rows(self, numbers: Sequence[int]) -> list[Found]:
        """The rows of these numbers; what is missing or failed is counted, never averaged."""
        with threadpool_limits(1):  # small products: twice as fast, and the same on every machine
            return [_row(self.groups[number], self.attacks_of, self.store) for number in numbers]


@lru_cache(maxsize=1)
def _work(folders: tuple[Path, ...]) -> Work:
    """Every process finds out for itself: that takes less time than to be told."""
    return Work(*merge(folders))


def _share(folders: tuple[Path, ...], numbers: Sequence[int]) -> list[Found]:
    return _work(folders).rows(numbers)


def board_of(suite: Suite, found: list[Found]) -> Board:
    """The board of a suite's rows.

    Raises:
        BenchError: they are about different images.
    """
    rows = [row for row, _ in found]
    if len(data := set().union(*(row.data for row in rows))) > 1:
        raise BenchError(
            f"the records were made from different images ({', '.join(sorted(data))}): files were "
            "changed between their trials; start anew with another --out"
        )
    _flag_controls(rows)
    _flag_fewer(rows)
    return Board(suite, rows, next((floors for _, floors in found if floors), {}))


def _row(victims: list[Trial], attacks_of: dict[str, list[Trial]], store: Store) -> Found:
    defense = victims[0].config["defense"]
    row = Row(defense["label"], defense["strength"], defense["name"])
    trained: list[Record] = []
    attacked: defaultdict[str, list[Record]] = defaultdict(list)
    for victim in victims:
        if not (record := _finished(victim, row, store)):
            row.missing += 1 + len(attacks_of[victim.key])
            for trial in attacks_of[victim.key]:  # for their lines
                _finished(trial, row, store)
            continue
        trained.append(record)
        for trial in attacks_of[victim.key]:
            if run := _finished(trial, row, store):
                attacked[trial.config["attack"]["label"]].append(run)
            else:
                row.missing += 1
    if not trained:
        return row, {}
    _describe(row, victims[0], trained, store)
    floors: dict[str, dict[str, float]] = trained[0]["floors"]
    complete = {name: _balanced(runs, len(trained)) for name, runs in attacked.items()}
    complete = {name: runs for name, runs in complete.items() if runs}
    tables = _estimate(row, store, complete, floors["mean_image"]["mse"])
    for attack, runs in complete.items():
        row.samples[attack] = _place(runs[0])
        row.kinds[attack] = runs[0]["kind"]
        row.threats[attack] = runs[0]["threat_model"]
        times = [run["seconds"]["fit"] + run["seconds"]["reconstruct"] for run in runs]
        row.seconds[attack] = float(np.mean(times))
        if runs[0]["threat_model"]["releases_per_image"] > 1:
            row.repeats.add(attack)
    judged = [attack for attack in row.attacks if attack not in row.repeats]
    if judged:
        row.worst_attack = min(judged, key=lambda a: row.attacks[a]["mse"].mean)
        row.worst_ssim_attack = max(judged, key=lambda a: row.attacks[a]["ssim"].mean)
        row.draws["mse"] = resample(tables[row.worst_attack][:1])[0]
        row.draws["fvu"] = row.draws["mse"] / floors["mean_image"]["mse"]
        row.flags = list(_flags(row, trained, {a: attacked[a] for a in judged}))
    if row.component == "none":
        row.broken = _broken(trained, attacked)
    return row, floors


def _finished(trial: Trial, row: Row, store: Store) -> Record | None:
    """The record of a trial if that is a success; notes its line of ``records.csv``."""
    record = store.read(trial.key)
    row.lines[trial.key] = line_of(trial, record or {})
    if record is None or record["status"] != "ok":
        return None
    row.data.add(record["data_hash"])
    return record


def _describe(row: Row, victim: Trial, records: list[Record], store: Store) -> None:
    """Sets what needs no attack."""
    row.seeds = [record["config"]["seed"] for record in records]
    correct = np.stack([store.arrays(record, "scores")["correct"] for record in records])
    table = correct[None, :, None].astype(np.float64)
    row.accuracy = means(table, [BOUNDS["accuracy"]])[0]
    row.draws["accuracy"] = resample(table)[0]
    row.freedom = freedom(table.shape[1:])
    row.originals = _place(records[0])
    row.payload, row.client_parameters = records[0]["payload"], records[0]["client_parameters"]
    row.chance = records[0]["metrics"]["chance"]
    row.noise = victim.config["defense"]["options"].get("noise")
    row.train_seconds = float(np.mean([record["seconds"]["train"] for record in records]))
    row.history = _history([record["history"] for record in records])
    row.bound = _mean_of([(record["bound"] or {}).get("mse") for record in records])
    row.optimum = _mean_of([(record["optimum"] or {}).get("mse") for record in records])


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
) -> dict[str, np.ndarray]:
    """Sets every metric of every attack, over seeds, attack seeds and images; FVU is MSE over the
    floor's. Returns the values of MSE, SSIM and PSNR (3, seeds, attack seeds, images) by attack.
    Attacks with as many runs are computed at once."""
    found = {}
    limits = [BOUNDS[metric] for metric in SCORES]
    for count in {len(runs) for runs in attacked.values()}:
        alike = [name for name, runs in attacked.items() if len(runs) == count]
        scores = [[store.arrays(run, "scores") for run in attacked[name]] for name in alike]
        error, similarity = (
            np.array([[run[metric] for run in runs] for runs in scores], np.float64)
            for metric in ("mse", "ssim")
        )
        values = np.stack([error, similarity, -10 * np.log10(np.maximum(error, 1e-10))], 1)
        tables = values.reshape(len(alike), len(SCORES), len(row.seeds), -1, values.shape[-1])
        estimates = means(tables.reshape(-1, *tables.shape[2:]), limits * len(alike))
        for number, name in enumerate(alike):
            mine = estimates[len(SCORES) * number :][: len(SCORES)]
            known = dict(zip(SCORES, mine, strict=True))
            known["fvu"] = Estimate(*(value / floor for value in known["mse"]))
            row.attacks[name] = known
            found[name] = tables[number]
    row.attacks = {name: row.attacks[name] for name in attacked}
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
    least = min(victim["metrics"]["accuracy"] for victim in victims)
    if least < row.chance + 0.2 * (1 - row.chance):
        yield "utility_collapse"
    if victims[0]["randomized"]:
        yield "randomized"


def _broken(victims: list[Record], attacks: dict[str, list[Record]]) -> dict[int, float]:
    """Seed to the lowest FVU of any attack on the undefended victim that was trained with it."""
    found = {}
    for victim in victims:
        errors = [
            run["metrics"]["mse"]["mean"]
            for runs in attacks.values()
            for run in runs
            if run["parent"] == victim["key"] and run["threat_model"]["releases_per_image"] == 1
        ]
        if errors:
            fvu = min(errors) / victim["floors"]["mean_image"]["mse"]
            found[victim["config"]["seed"]] = fvu
    return found


def _flag_fewer(rows: list[Row]) -> None:
    """``fewer_attacks``: another row was also attacked in ways that this one was not, so that
    their worst cases are not alike; it happens where results of several folders meet."""
    judged = {attack for row in rows for attack in row.attacks if attack not in row.repeats}
    for row in rows:
        if row.worst_attack and not row.missing and judged - set(row.attacks):
            row.flags.append("fewer_attacks")


def _flag_controls(rows: list[Row]) -> None:
    """``control_failed``: for a seed of the row, the suite's attacks leave more than half of the
    undefended images' variance unexplained, so the row says nothing about privacy.
    ``no_control``: for a seed of the row nothing undefended was attacked."""
    controls: dict[int, float] = {}
    for row in rows:
        for seed, fvu in row.broken.items():
            controls[seed] = max(fvu, controls.get(seed, 0.0))
    for row in rows:
        if any(controls.get(seed, 0) > CONTROL_FAILED for seed in row.seeds):
            row.flags.append("control_failed")
        if any(seed not in controls for seed in row.seeds):
            row.flags.append("no_control")
