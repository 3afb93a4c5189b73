"""How far a run is, in words."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from smashbench.bench.run.estimates import Estimates, group_of
from smashbench.bench.run.progress import duration
from smashbench.bench.run.selection import choose, selection
from smashbench.bench.run.survey import SETTLED, Standing, survey
from smashbench.bench.store.store import Store
from smashbench.bench.suite.plugins import plugin_options
from smashbench.bench.suite.trial import Suite, Trial

SHOWN = 20
"""Most trials that ``status`` names of each kind."""
MEANINGS = {
    "done": "",
    "kept": "made by code that has changed since, and kept",
    "unverified": "finished, by a component that is not here; perhaps a plug-in's: --plugin FILE",
    "running": "",
    "failed": "",
    "left_out": "could not fit in memory, and was not begun; `rerun --failed` tries again",
    "damaged": "",
    "unscored": "the metrics have changed, or scores are damaged; smashbench rescore mends both",
    "outdated": "made by code that has changed since, or on another training of the victim",
    "missing": "",
}
"""In the order in which they are listed."""


def listing(
    suite: Suite,
    folder: Path,
    *,
    keep: bool = False,
    only: Sequence[str] = (),
    limit: int | None = None,
) -> str:
    """What a run would do, a line per trial, and how long it may take; changes nothing."""
    standings = survey(suite, Store(folder), keep=keep, deep=True)
    chosen = choose(suite, standings, only=selection(suite, only), limit=limit)
    estimates = Estimates(suite.trials, standings, suite.core_minutes)
    lines = []
    for trial in chosen:
        seconds = estimates.of(group_of(trial))
        about = "" if seconds is None else f"about {duration(seconds)}"
        lines.append(f"{trial.key}  {standings[trial.key].state:<8}  {about:<16}  {trial.label}")
    settled = sum(standing.state in SETTLED for standing in standings.values())
    lines.append(f"{len(suite.trials)} trials, {settled} need no run, {len(chosen)} to run")
    left = estimates.total(Counter(map(group_of, chosen)), 1)
    if chosen:
        known = "not known yet" if left is None else f"about {duration(left)} on one worker"
        lines[-1] += f": {known}"
    return "\n".join(lines)


def status(suite: Suite, folder: Path) -> str:
    """Counts of what is done, failed, missing, outdated, damaged and running, and the causes."""
    store, plugins = Store(folder), plugin_options(suite, folder)
    standings = survey(suite, store, keep=bool(suite.kept), deep=True)
    groups: dict[str, list[Trial]] = {}
    for trial in suite.trials:
        state: str = standings[trial.key].state
        if state == "kept" and trial.key not in suite.kept:  # nobody has said so of this one
            state = "outdated"
        if state not in SETTLED and store.claimed(trial.key):
            state = "running"
        groups.setdefault(state, []).append(trial)
    everything = {trial.row for trial in suite.trials}
    idle = everything - {
        trial.row for state in groups if state != "missing" for trial in groups[state]
    }
    counts = ", ".join(f"{len(groups[state])} {state}" for state in MEANINGS if state in groups)
    lines = [f"{suite.name}: {len(suite.trials)} trials: {counts}"]
    for state, meaning in list(MEANINGS.items())[1:]:
        trials = groups.get(state, [])
        lines += [f"\n{state} ({meaning}):" if meaning else f"\n{state}:"] if trials else []
        waiting = [trial for trial in trials if trial.row in idle]
        if waiting:
            trials = [trial for trial in trials if trial.row not in idle]
            names = list(dict.fromkeys(trial.row for trial in waiting))
            named = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
            lines.append(f"  {len(waiting)} trials of rows that have not been begun: {named}")
        for trial in trials[:SHOWN]:
            lines.append(f"  {trial.key}  {trial.label}{_why(standings[trial.key])}")
        if len(trials) > SHOWN:
            lines.append(f"  and {len(trials) - SHOWN} more")
    if "failed" in groups:
        lines.append(f"\nlogs: {folder / 'logs'}/KEY.log")
        lines.append(f"the failed ones again: smashbench rerun {folder} --failed{plugins}")
    if sum(len(groups.get(state, [])) for state in SETTLED) < len(suite.trials):
        lines.append(f"all that is left:      smashbench rerun {folder}{plugins}")
    return "\n".join(lines)


def _why(standing: Standing) -> str:
    if standing.damage:
        return f": {standing.damage.path}: {standing.damage.reason}"
    return f": {standing.cause}" if standing.cause else ""
