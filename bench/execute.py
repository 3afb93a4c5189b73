"""Running a suite, or a part of it, and saying how far it is."""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.attempt import attempt
from bench.engines import ENGINES, Setting
from bench.errors import BenchError, unknown
from bench.grid import Grid
from bench.plan import Estimates, Standing, choose, group_of, mend, selection, survey
from bench.progress import Progress, duration
from bench.report import write_report
from bench.saved import save_suite
from bench.store import Store
from bench.trials import Suite, Trial
from datasets import DATASETS

SHOWN = 20
"""Most trials that ``status`` names of each kind."""


@dataclass(frozen=True)
class How:
    """Where and how to run.

    Args:
        folder: the results folder.
        data: the data folder.
        engine: name in ``ENGINES``.
        workers: most trials at once; None for the engine's default.
        minutes: time limit of a trial.
        resources: what a trial needs, in the engine's words.
    """

    folder: Path
    data: Path | None
    engine: str
    workers: int | None
    minutes: float
    resources: Mapping[str, str]


def execute(
    suite: Suite,
    how: How,
    *,
    only: Sequence[str] = (),
    failed: bool = False,
    limit: int | None = None,
) -> int:
    """Runs what is not done and reports; ``only``, ``failed``, ``limit`` as in ``plan.choose``.

    What is damaged is named on standard error, set aside and done again. Returns the exit code:
    0, or 1 when trials failed.

    Raises:
        BenchError, DatasetError: something a person must change first; what is finished stays.
    """
    wanted = selection(suite, only)
    dataset = suite.victims[0].config["dataset"]
    DATASETS[dataset["name"]](**dataset["options"]).load(how.data)  # or a clear error, now
    save_suite(suite, how.folder)
    store = Store(how.folder)
    standings, damages = mend(suite, store)
    for damage in damages:
        print(f"{damage.path}: {damage.reason}; set aside, to be redone", file=sys.stderr)
    chosen = choose(suite, standings, only=wanted, failed=failed, limit=limit)
    failures = _run(suite, chosen, how, standings) if chosen else 0
    if failures:
        print(f"{failures} trials failed: python -m bench status {how.folder} says why")
        if not any(store.get(victim.key) for victim in suite.victims):
            return 1  # there is nothing to report
    write_report([how.folder], how.folder)
    return 1 if failures else 0


def _run(suite: Suite, chosen: list[Trial], how: How, standings: Mapping[str, Standing]) -> int:
    work = partial(attempt, folder=how.folder, data=how.data, minutes=how.minutes)
    setting = Setting(work, how.folder, how.workers, how.minutes, how.resources)
    engine = ENGINES[how.engine](setting)
    estimates = Estimates(suite.trials, standings)
    done = sum(standing.state == "done" for standing in standings.values())
    try:
        with Progress(done + len(chosen), done, engine.workers) as progress:
            grid = Grid(chosen, Store(how.folder), engine, estimates)
            grid.run(progress)
    finally:
        engine.close()
    return grid.failed


def run_single(
    suite: Suite, keys: Sequence[str], folder: Path, data: Path | None, minutes: float
) -> int:
    """Attempts the trials with these keys, victims first; waits where another process is at one.

    Returns the exit code: 0, or 1 when trials failed.

    Raises:
        BenchError, DatasetError: an unknown key, or something a person must change first.
    """
    check_keys(suite, keys)
    failures = 0
    for trial in (trial for trial in suite.trials if trial.key in keys):
        while (
            outcome := attempt(trial, folder=folder, data=data, minutes=minutes)
        ).state == "busy":
            time.sleep(1)
        if outcome.state == "stop":
            raise BenchError(outcome.text)
        print(f"{outcome.state}: {trial.label}", *outcome.text.splitlines()[-1:], sep="  ")
        failures += outcome.state == "failed"
    return 1 if failures else 0


def check_keys(suite: Suite, keys: Sequence[str]) -> None:
    """Raises BenchError for a key that is no trial of the suite."""
    known = {trial.key for trial in suite.trials}
    for key in keys:
        if key not in known:
            raise BenchError(unknown("trial", key, known))


def listing(suite: Suite, how: How, *, only: Sequence[str] = (), limit: int | None = None) -> str:
    """What ``execute`` would run, a line per trial, and how long it may take; changes nothing."""
    standings = survey(suite, Store(how.folder), deep=True)
    chosen = choose(suite, standings, only=selection(suite, only), limit=limit)
    estimates = Estimates(suite.trials, standings)
    lines = []
    for trial in chosen:
        seconds = estimates.of(group_of(trial))
        about = "" if seconds is None else f"about {duration(seconds)}"
        lines.append(f"{trial.key}  {standings[trial.key].state:<8}  {about:<16}  {trial.label}")
    done = sum(standing.state == "done" for standing in standings.values())
    lines.append(f"{len(suite.trials)} trials, {done} done, {len(chosen)} to run")
    left = estimates.total(Counter(map(group_of, chosen)), 1)
    if chosen:
        known = "not known yet" if left is None else f"about {duration(left)} on one worker"
        lines[-1] += f": {known}"
    return "\n".join(lines)


def status(suite: Suite, folder: Path) -> str:
    """Counts of what is done, failed, missing, outdated, damaged and running, and the causes.

    Records and scores are verified; of sample images only that they are there (a run verifies
    them).
    """
    store = Store(folder)
    standings = survey(suite, store, deep=True, pictures=False)
    groups: dict[str, list[Trial]] = {}
    for trial in suite.trials:
        state = standings[trial.key].state
        if state != "done" and store.claimed(trial.key):
            state = "running"
        groups.setdefault(state, []).append(trial)
    order = ("done", "running", "failed", "damaged", "outdated", "missing")
    counts = ", ".join(f"{len(groups[state])} {state}" for state in order if state in groups)
    lines = [f"{suite.name}: {len(suite.trials)} trials: {counts}"]
    for state in order[1:]:
        trials = groups.get(state, [])
        lines += [f"\n{state}:"] if trials else []
        for trial in trials[:SHOWN]:
            lines.append(f"  {trial.key}  {trial.label}{_why(standings[trial.key])}")
        if len(trials) > SHOWN:
            lines.append(f"  and {len(trials) - SHOWN} more")
    if "failed" in groups:
        lines.append(f"\nlogs: {folder / 'logs'}/KEY.log")
        lines.append(f"the failed ones again: python -m bench rerun {folder} --failed")
    if len(groups.get("done", [])) < len(suite.trials):
        lines.append(f"all that is left:      python -m bench rerun {folder}")
    return "\n".join(lines)


def _why(standing: Standing) -> str:
    if standing.damage:
        return f": {standing.damage.path}: {standing.damage.reason}"
    return f": {standing.cause.splitlines()[-1]}" if standing.cause else ""
