"""A packed run: is it whole, of this version, and like the board that it is to stand on?"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.results import Summary
from smashbench.bench.experiment.scoring import Summaries, flags_of, summarise
from smashbench.bench.report.flags import FLAGS
from smashbench.bench.report.rows import board_of
from smashbench.bench.report.verdict import ATTACK_SEEDS, SEEDS, listed
from smashbench.bench.run.survey import Standing, State, survey
from smashbench.bench.store.merge import check_comparable
from smashbench.bench.store.record import Arrays, AttackRecord, VictimRecord, was_left_out
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store
from smashbench.bench.submitting.claims import check_claims
from smashbench.bench.submitting.finding import Finding
from smashbench.bench.submitting.scores import check_scores
from smashbench.bench.suite.alike import SHARED, differences
from smashbench.bench.suite.config import canonical
from smashbench.bench.suite.trial import Suite, Trial

WRONG = ("bound_violated",)
"""Flags with which no row can stand; others are for a reader to judge."""
FROM_BOARD = ("no_control", "beyond_noise", "other_seeds")
"""Flags for want of rows that the board has: undefended ones, and noise."""
TELL: dict[State, str] = {
    "missing": "have not been run: `smashbench rerun DIR`",
    "failed": "failed: `smashbench status DIR` says why",
    "outdated": "were made by other code than this version's: `smashbench rerun DIR` makes them "
    "anew",
    "unscored": "were measured by other metrics: `smashbench rescore DIR`",
    "damaged": "are damaged: `smashbench rerun DIR` makes them anew",
    "unverified": "need a plug-in that is not loaded: read it (plugins/ in the pack), and give "
    "--plugin FILE",
}
"""What keeps a submission from a board, and what its author does."""


def check_suite(folder: Path, board: Path | None, data: Path | None) -> Iterator[Finding]:
    """Checks the folder of a run.

    Raises:
        BenchError: it is none, one of another protocol, or damaged; or ``board`` is.
    """
    whole, store = read_suite(folder), Store(folder)
    theirs = read_suite(board) if board else None
    standings = _standings_of(whole, store)
    suite, left = _begun(whole, standings)
    if left:
        yield Finding("note", f"rows of the suite that were not run: {listed(left)}")
    yield from _standings(suite, standings)
    yield from _summaries(suite, store)
    done = [trial for trial in suite.trials if standings[trial.key].state == "done"]
    yield from check_claims(done, store)
    yield from check_scores(suite, store, data, theirs)
    yield from _rows(suite, store, of_board=FROM_BOARD if board else ())
    if board and theirs:
        yield from _beside(suite, folder, theirs, board)


def _standings_of(suite: Suite, store: Store) -> dict[str, Standing]:
    """How far every trial is, with its arrays verified. A victim that lacks nothing but its
    weights, as in a pack, is not missing: nobody attacks it here."""
    deep, shallow = survey(suite, store, deep=True), survey(suite, store)
    return {key: shallow[key] if deep[key].state == "missing" else deep[key] for key in deep}


def _begun(suite: Suite, standings: dict[str, Standing]) -> tuple[Suite, list[str]]:
    """The rows of which anything was run, and the names of the others: an author runs those of a
    defense with `--only`. All rows where nothing was."""
    mine = (*suite.victims, *suite.attacks)
    rows = {_row(trial) for trial in mine if standings[trial.key].state != "missing"}
    left = list(dict.fromkeys(trial.row for trial in suite.victims if _row(trial) not in rows))
    if not rows:
        return suite, []
    victims = tuple(trial for trial in suite.victims if _row(trial) in rows)
    attacks = tuple(trial for trial in suite.attacks if _row(trial) in rows)
    return replace(suite, victims=victims, attacks=attacks), left


def _row(trial: Trial) -> tuple[str, float | None]:
    """The row that a trial is of; its name shows six digits of a strength alone."""
    return trial.victim.defense.label, trial.victim.defense.strength


def _standings(suite: Suite, standings: dict[str, Standing]) -> Iterator[Finding]:
    """Whether every trial is finished, by the present code."""
    labels: defaultdict[State, list[str]] = defaultdict(list)
    for trial in suite.trials:
        labels[standings[trial.key].state].append(trial.label)
    wrong = [state for state in TELL if labels[state]]
    for state in wrong:
        some = labels[state]
        yield Finding(
            "PROBLEM", f"{len(some)} of {len(suite.trials)} trials {TELL[state]}: {listed(some)}"
        )
    left = labels["left_out"]
    if not wrong:
        number = f"the other {len(suite.trials) - len(left)}" if left else len(suite.trials)
        yield Finding("ok", f"all {number} trials are finished, by this version's code")
    if left:
        yield Finding("note", f"{len(left)} attacks did not fit in memory: {listed(left)}")


def _summaries(suite: Suite, store: Store) -> Iterator[Finding]:
    """Whether what records say follows from the scores beside them."""
    wrong, unknown = [], set()
    for trial in suite.trials:
        if record := store.finished(trial.key):
            scores = store.arrays(record, "scores")
            if isinstance(record, VictimRecord):
                weights = scores.get("judged")
                pairs = [(record.metrics.accuracy, np.average(scores["correct"], weights=weights))]
            elif victim := store.victim(trial.parent or ""):
                floor = victim.floors["mean_image"]
                others = _elsewhere(record, scores)
                unknown |= others
                pairs = _pairs(record, summarise(scores, floor), others)
                alike = record.flags == flags_of(record.metrics, floor, record.converged)
                pairs += [] if alike else [(np.inf, -np.inf)]
            else:
                continue  # it is missing, which is said elsewhere
            if not all(np.isclose(said, is_, rtol=1e-4, atol=1e-6) for said, is_ in pairs):
                wrong.append(trial.label)
    if wrong:
        yield Finding(
            "PROBLEM",
            f"{len(wrong)} records say other means, quantiles or flags than those of their scores: "
            f"{listed(wrong)}",
        )
    else:
        yield Finding("ok", "every mean is that of the scores of the single images")
    if unknown:
        names = listed(sorted(unknown))
        yield Finding("note", f"not known here, and not looked at: the metrics {names}; --plugin")


def _elsewhere(record: AttackRecord, scores: Arrays) -> set[str]:
    """The metrics of an attack that are unknown here and were scored with code of their own."""
    scored = {*scores, *record.scoring} - METRICS.keys()
    return scored & {*record.metrics, *record.means}


def _pairs(
    record: AttackRecord, again: Summaries, others: Collection[str]
) -> list[tuple[float, float]]:
    """What a record says, but of these other metrics, and what it should, of those that it was
    measured with; infinite where one of them says nothing."""
    metrics = {name: each for name, each in record.metrics.items() if name not in others}
    means = {name: each for name, each in record.means.items() if name not in others}
    said = _flat(metrics) | means
    found = _flat({name: each for name, each in again["metrics"].items() if name in record.scoring})
    found |= {name: each for name, each in again["means"].items() if name in record.scoring}
    names = said.keys() | found.keys()
    return [(said.get(name, np.inf), found.get(name, -np.inf)) for name in names]


def _flat(metrics: Mapping[str, Summary]) -> dict[str, float]:
    """Every number of these summaries."""
    return {
        f"{name} {what}": value
        for name, each in metrics.items()
        for what, value in each.model_dump().items()
    }


def _rows(suite: Suite, store: Store, of_board: Collection[str]) -> Iterator[Finding]:
    """What a reader will see beside its rows, but for what depends on those of the board."""
    rows = [row for row in board_of(suite, store).rows if row.seeds]
    for flag in FLAGS:
        if (
            flag.doubt
            and flag.name not in of_board
            and (some := [row.label for row in rows if flag.name in row.flags])
        ):
            yield Finding(
                "PROBLEM" if flag.name in WRONG else "note",
                f"{flag.name}: {listed(some)}. {flag.text}",
            )
    seeds = min((len(row.seeds) for row in rows), default=0)
    repeats = min((row.attack_seeds for row in rows), default=0)
    if seeds < SEEDS or repeats < ATTACK_SEEDS:
        yield Finding(
            "note",
            f"rows have {seeds} trainings and {repeats} fits of their strongest attack at "
            f"least; a conclusion needs {SEEDS} and {ATTACK_SEEDS}",
        )


def _beside(suite: Suite, folder: Path, theirs: Suite, board: Path) -> Iterator[Finding]:
    """Whether its rows went through what those of the board did."""
    try:
        check_comparable([board, folder])
    except BenchError as error:
        yield Finding("PROBLEM", str(error))
        return
    wrong = list(_otherwise(_run_of(suite, folder), _run_of(theirs, board)))
    yield from wrong
    if not wrong:
        yield Finding(
            "ok",
            f"its rows can stand beside those of {theirs.name}: the same images, "
            "model, training, seeds and attacks",
        )


def _run_of(suite: Suite, folder: Path) -> Suite:
    """A suite without the attacks that did not fit in memory."""
    store = Store(folder)
    attacks = tuple(t for t in suite.attacks if not was_left_out(store.read(t.key)))
    return replace(suite, attacks=attacks)


def _otherwise(suite: Suite, theirs: Suite) -> Iterator[Finding]:
    """How it differs from a board in what all rows must share."""
    known = [trial.victim for trial in theirs.victims]
    others = {trial.label: differences(trial.victim, known) for trial in suite.victims}
    for what in SHARED:
        if some := [label for label, differs in others.items() if what in differs]:
            yield Finding("PROBLEM", f"another {what} than the board's: {listed(some)}")
    seeds = {trial.config.seed for trial in theirs.victims}
    wanted = {choice: label for each in _attacks(theirs).values() for choice, label in each.items()}
    attacks = _attacks(suite)
    lacking: defaultdict[str, list[str]] = defaultdict(list)
    for row, mine in _rows_of(suite).items():
        own = {trial.config.seed for trial in mine}
        if few := seeds - own:
            missing = ", ".join(map(str, sorted(few)))
            lacking[f"the board has victims of seed {missing}, too"].append(mine[0].row)
        if more := own - seeds:
            added = ", ".join(map(str, sorted(more)))
            lacking[
                f"the board has no victims of seed {added}, so that rows with them would not be "
                "compared with its noise; give the seeds of the board"
            ].append(mine[0].row)
        if less := [label for choice, label in wanted.items() if choice not in attacks[row]]:
            lacking[
                "the board's rows were attacked in more ways, so that their worst cases are not "
                f"alike ({listed(less)})"
            ].append(mine[0].row)
    for text, rows in lacking.items():
        yield Finding("PROBLEM", f"{text}: {listed(rows)}")


def _rows_of(suite: Suite) -> dict[tuple[str, float | None], list[Trial]]:
    """The victims of every row."""
    rows: defaultdict[tuple[str, float | None], list[Trial]] = defaultdict(list)
    for trial in suite.victims:
        rows[_row(trial)].append(trial)
    return rows


def _attacks(suite: Suite) -> dict[tuple[str, float | None], dict[tuple[str, int], str]]:
    """Of every row every attack and its seed, to how it is called there."""
    found: defaultdict[Any, dict[tuple[str, int], str]] = defaultdict(dict)
    for trial in suite.attacks:
        if trial.attack:
            same = trial.attack.model_copy(update={"label": "any"})
            label = f"{trial.attack.label}, attack seed {trial.config.seed}"
            found[_row(trial)][canonical(same), trial.config.seed] = label
    return found
