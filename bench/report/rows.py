"""Records to rows: one row per defense and strength, over its seeds and attacks."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from smashbench.bench.experiment.metrics import ACCURACY, METRICS
from smashbench.bench.experiment.results import VICTIM
from smashbench.bench.report.attributes import attribute_estimates
from smashbench.bench.report.board import AttackSummary, Board, Row, RowKey
from smashbench.bench.report.fits import Runs, balanced, chosen_fits, fits_everywhere
from smashbench.bench.report.flags import raise_flags
from smashbench.bench.report.images import Images, by_group, of_some, spread
from smashbench.bench.report.record_table import record_line
from smashbench.bench.report.statistics import Estimate, freedom, means, resample
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.merge import merge
from smashbench.bench.store.record import (
    AttackRecord,
    FinishedRecord,
    Record,
    VictimRecord,
    agreed,
    was_left_out,
)
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite, Trial


def read(*folders: Path | str, newer: bool = False) -> Board:
    """The board of a results folder, or of several that are read as one, where ``newer`` is that of
    ``merge``.

    Raises:
        BenchError: no results folders, or none that can be compared; a damaged record.
    """
    return board_of(*merge([Path(folder) for folder in folders], newer=newer))


def board_of(suite: Suite, store: Store) -> Board:
    """The board of a suite, from the records in a store.

    Raises:
        BenchError: they are about different images; a damaged record.
    """
    records = {trial.key: store.read(trial.key) for trial in suite.trials}
    finished = [record for record in records.values() if record and record.status == "ok"]
    agreed(finished, "the records")
    groups: defaultdict[RowKey, list[Trial]] = defaultdict(list)
    for trial in suite.victims:
        groups[trial.victim.defense.label, trial.victim.defense.strength].append(trial)
    attacks: defaultdict[str, list[Trial]] = defaultdict(list)
    for trial in suite.attacks:
        attacks[str(trial.parent)].append(trial)
    with threadpool_limits(1):  # small products: twice as fast, and the same on every machine
        fits_of = fits_everywhere(suite, records)
        rows = [_row(key, group, attacks, fits_of, records, store) for key, group in groups.items()]
    begun, waiting = [], []
    for row, group in zip(rows, groups.values(), strict=True):
        keys = {trial.key for victim in group for trial in (victim, *attacks[victim.key])}
        row.of_other_code = len(keys & suite.of_other_code)
        row.otherwise = not keys.isdisjoint(suite.otherwise)
        if any(records[key] for key in keys):
            begun.append(row)
        else:  # nobody may have asked for it
            waiting.append(row.label)
    floors = next((row.record.floors for row in rows if row.record), {})
    lines = [record_line(trial, records[trial.key]) for trial in suite.trials]
    board = Board(suite, begun, floors, store, pd.DataFrame(lines), waiting)
    raise_flags(board)
    return board


def _row(
    key: RowKey,
    victims: list[Trial],
    attacks_on: dict[str, list[Trial]],
    fits_of: dict[str, int],
    records: dict[str, Record | None],
    store: Store,
) -> Row:
    """The row of these victims; what is missing or failed is counted, never averaged."""
    row = Row(*key)
    trained, attacked, row.missing = _finished(victims, attacks_on, records)
    if not trained:
        return row
    images, right = _describe(row, trained, store)
    equal = {n: balanced(runs, len(trained), fits_of.get(n)) for n, runs in attacked.items()}
    complete = {name: runs for name, runs in equal.items() if runs}
    chosen = {name: chosen_fits(runs) for name, runs in complete.items()}
    tables = {name: _values(runs, trained[0], images, store) for name, runs in chosen.items()}
    estimates = _estimates(tables)
    row.attacks = {
        name: _summary(chosen[name], runs, estimates[name]) for name, runs in complete.items()
    }
    row.versions |= {
        f"attack {name}": {run.source for run in runs} for name, runs in chosen.items()
    }
    fits = max((table["mse"].shape[1] for table in tables.values()), default=1)
    right = _alike(right, fits)
    row.draws["accuracy"], row.freedom = resample(right[None], row.role)[0], freedom(right.shape)
    if worst := row.worst_attack():
        for metric in ("mse", "fvu"):
            row.draws[metric] = resample(_alike(tables[worst][metric], fits)[None], row.role)[0]
        row.attack_seeds = min(map(len, complete[worst].values()))
    if row.role == "control":
        row.broken = _broken(trained, list(attacked.values()))
    return row


def _finished(
    victims: list[Trial],
    attacks_on: dict[str, list[Trial]],
    records: dict[str, Record | None],
) -> tuple[list[VictimRecord], dict[str, Runs], int]:
    """The trained victims by their seeds, the runs of every attack on them, and how many trials are
    missing."""
    trained: list[VictimRecord] = []
    attacked: defaultdict[str, Runs] = defaultdict(dict)
    missing = 0
    for victim in sorted(victims, key=lambda trial: trial.victim.seed):
        record = records[victim.key]
        if not isinstance(record, VictimRecord):
            missing += 1 + len(attacks_on[victim.key])
            continue
        trained.append(record)
        for trial in attacks_on[victim.key]:
            run = records[trial.key]
            if was_left_out(run):
                continue
            if (
                isinstance(run, AttackRecord)
                and trial.attack
                and run.victim_sha256 == record.checkpoint_sha256
            ):
                attacked[trial.attack.label].setdefault(victim.key, []).append(run)
            else:  # or of other weights than the accuracy is of
                missing += 1
    return trained, attacked, missing


def _alike(table: np.ndarray, fits: int) -> np.ndarray:
    """Values (seeds, repeats, images). Where there is one seed, fits stand for seeds: a table of
    one fit is repeated, so that its draws pair with those of the others."""
    seeds, repeats, images = table.shape
    return np.broadcast_to(table, (1, fits, images)) if seeds == repeats == 1 else table


def _describe(row: Row, records: list[VictimRecord], store: Store) -> tuple[Images, np.ndarray]:
    """Sets what needs no attack; returns the test images, and whether the head is right about each:
    (seeds, 1, images or their groups)."""
    first = records[0]
    row.seeds = [record.config.seed for record in records]
    scores = _stacked(records, store)
    images = Images(scores["correct"].shape[1], scores["group"][0] if "group" in scores else None)
    correct, judged = scores["correct"].astype(np.float64)[None, :, None], scores.get("judged")
    row.accuracy = means(of_some(correct, images.groups, judged), [ACCURACY.bounds])[0]
    row.inferred = attribute_estimates(scores, images.groups)
    row.least_accuracy = min(record.metrics.accuracy for record in records)
    row.versions[VICTIM] = {record.scoring.get(VICTIM, "") for record in records}
    row.record, row.randomized, row.chance = first, first.randomized, first.metrics.chance
    row.role, row.group, row.noise = first.facts.role, first.facts.group, first.facts.noise
    row.diagnostics = first.facts.diagnostics
    row.train_seconds = float(np.mean([record.seconds.train for record in records]))
    row.history = _history([record.history for record in records])
    row.bound = _mean_of([record.bound.mse if record.bound else None for record in records])
    row.optimum = _mean_of([(record.optimum or {}).get("mse") for record in records])
    return images, by_group(spread(correct, judged), images.groups)[0]


def _stacked(records: Sequence[FinishedRecord], store: Store) -> dict[str, np.ndarray]:
    """The scores that all records have, stacked (records, images).

    Raises:
        DamagedError: a record has scores of more or fewer images than the first.
    """
    arrays = [store.arrays(record, "scores") for record in records]
    wanted = len(next(iter(arrays[0].values())))
    for found, record in zip(arrays, records, strict=True):
        _same_images(len(next(iter(found.values()))), wanted, record, store)
    names = [name for name in arrays[0] if all(name in found for found in arrays)]
    return {name: np.stack([found[name] for found in arrays]) for name in names}


def _values(
    runs: list[AttackRecord], victim: VictimRecord, images: Images, store: Store
) -> dict[str, np.ndarray]:
    """Values (seeds, attack seeds, images or their groups) by metric, of runs that are sorted by
    victim."""
    scores = _stacked(runs, store)
    _same_images(scores["mse"].shape[1], images.number, runs[0], store)
    floor = victim.floors["mean_image"]
    shape = (1, len({run.parent for run in runs}), -1, images.number)
    return {
        name: by_group(metric.values(scores, floor).reshape(shape), images.groups)[0]
        for name, metric in METRICS.items()
        if metric.judge in scores
    }


def _same_images(found: int, wanted: int, record: FinishedRecord, store: Store) -> None:
    if found != wanted:
        path = store.arrays_path(record.key, "scores")
        raise DamagedError(path, f"has scores of {found} images where others have {wanted}")


def _estimates(tables: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, Estimate]]:
    """Means with intervals, by attack and metric; tables of one shape are computed at once."""
    found: dict[str, dict[str, Estimate]] = {name: {} for name in tables}
    each = [(name, metric, t) for name, known in tables.items() for metric, t in known.items()]
    for shape in {table.shape for *_, table in each}:
        alike = [entry for entry in each if entry[2].shape == shape]
        bounds = [METRICS[metric].bounds for _, metric, _ in alike]
        values = means(np.stack([table for *_, table in alike]), bounds)
        for (name, metric, _), value in zip(alike, values, strict=True):
            found[name][metric] = value
    return found


def _summary(
    runs: list[AttackRecord], everywhere: Runs, estimates: dict[str, Estimate]
) -> AttackSummary:
    """Of the chosen runs; all of them took their time."""
    took = [run.seconds for each in everywhere.values() for run in each]
    return AttackSummary(
        estimates=estimates,
        kind=runs[0].kind,
        threat=runs[0].threat_model,
        converged=all(run.converged for run in runs),
        failed=all("attack_failed" in run.flags for run in runs),
        seconds=float(np.mean([each.fit + each.reconstruct for each in took])),
        record=runs[0],
    )


def _mean_of(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _history(runs: list[list[dict[str, float | None]]]) -> dict[str, np.ndarray]:
    """Every diagnostic by epoch, mean over the runs; NaN where one lacks it."""
    together = list(zip_longest(*runs, fillvalue={}))
    names = dict.fromkeys(name for epochs in runs for epoch in epochs for name in epoch)
    values = {name: [[one.get(name) for one in epoch] for epoch in together] for name in names}
    return {name: np.array(each, float).mean(1) for name, each in values.items()}


def _broken(victims: list[VictimRecord], attacks: list[Runs]) -> dict[int, float]:
    """Seed to the lowest FVU of any attack on the undefended victim that was trained with it."""
    found = {}
    for victim in victims:
        errors = [
            run.metrics["mse"].mean
            for runs in attacks
            for run in runs.get(victim.key, [])
            if run.threat_model.one_release
        ]
        if errors:
            found[victim.config.seed] = min(errors) / victim.floors["mean_image"]["mse"]
    return found
