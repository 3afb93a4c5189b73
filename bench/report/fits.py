"""Which of the runs of an attack count: as many on every victim, and of these the best one."""

from collections import Counter, defaultdict

from smashbench.bench.store.record import AttackRecord, Record, was_left_out
from smashbench.bench.suite.trial import Suite

Runs = dict[str, list[AttackRecord]]
"""Of an attack: the key of a victim to the records of the runs on it."""


def fits_everywhere(suite: Suite, records: dict[str, Record | None]) -> dict[str, int]:
    """Attack to how often it was run on each victim where it was run the least, of victims with no
    trial missing: the strongest of two fits is no match for the strongest of three."""
    runs: defaultdict[str, Counter[str]] = defaultdict(Counter)
    partial = set()
    for trial in suite.attacks:
        record = records[trial.key]
        if was_left_out(record):
            continue
        runs[str(trial.parent)][trial.attack.label if trial.attack else ""] += 1
        if not isinstance(record, AttackRecord):
            partial.add(str(trial.parent))
    least: dict[str, int] = {}
    for key, counts in runs.items():
        for name, n in counts.items() if key not in partial else ():
            least[name] = min(n, least.get(name, n))
    return least


def balanced(runs: Runs, victims: int, fits: int | None) -> Runs:
    """The runs of an attack, as many on every victim and at most ``fits``; none where a victim was
    not attacked: then the attack does not count."""
    if len(runs) < victims:
        return {}
    least = min([*map(len, runs.values()), *([fits] if fits else [])])
    return {victim: each[:least] for victim, each in runs.items()}


def chosen_fits(runs: Runs) -> list[AttackRecord]:
    """Of the runs of an attack on each victim the one with the lowest error on the attacker's own
    validation images; all of them where it has none."""
    if any(run.own_error is None for each in runs.values() for run in each):
        return [run for each in runs.values() for run in each]
    return [min(each, key=lambda run: (run.own_error, run.config.seed)) for each in runs.values()]
