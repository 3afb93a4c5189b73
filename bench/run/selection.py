"""Which trials a person asked for, and which of them are to be run."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.run.survey import SETTLED, Standing
from smashbench.bench.suite.kinds import KINDS
from smashbench.bench.suite.trial import Suite, Trial


def choose(
    suite: Suite,
    standings: Mapping[str, Standing],
    *,
    only: Mapping[str, set[str]] | None = None,
    failed: bool = False,
    limit: int | None = None,
) -> list[Trial]:
    """The trials to run: those that are not done, and with an attack the victim it needs.

    Args:
        suite: all trials.
        standings: of every trial.
        only: see ``selection``; None for all.
        failed: only trials that failed before, or were left out.
        limit: at most so many trials.
    """
    wanted = only or {}
    chosen: dict[str, Trial] = {}
    victims = {victim.key: victim for victim in (*suite.starts, *suite.victims)}
    for trial in suite.trials:
        state = standings[trial.key].state
        asked = state in ("failed", "left_out") if failed else state not in SETTLED
        if not asked or not _matches(trial, wanted):
            continue
        parts = [trial]
        while state != "unscored" and (first := parts[0].parent):
            if standings[first].state in SETTLED:
                break
            parts.insert(0, victims[first])
        for part in parts:  # the victim first: with a limit of one, it alone
            if limit is None or len(chosen) < limit:
                chosen.setdefault(part.key, part)
    return list(chosen.values())


def selection(suite: Suite, only: Sequence[str]) -> dict[str, set[str]]:
    """Fields (defense, strength, attack, seed) and their wanted values from ``field=value`` texts:
    values of one field are alternatives, fields restrict each other.

    Raises:
        BenchError: the suite has no such field or value.
    """
    known: defaultdict[str, set[str]] = defaultdict(set)
    for trial in suite.trials:
        for name, value in _fields(trial).items():
            known[name].add(value)
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for text in only:
        name, sign, value = text.partition("=")
        if not sign:
            raise BenchError(f"--only {text!r}: write field=value, e.g. --only defense=noise")
        if name not in known:
            raise BenchError(f"--only {text!r}: {unknown('field', name, known)}")
        with suppress(ValueError):  # 0.30 is 0.3
            value = _shown(float(value)) if name == "strength" else value
        if value not in known[name]:
            raise BenchError(
                f"--only {text!r}: {unknown(name, value, known[name])}" + _add(name, value)
            )
        wanted[name].add(value)
    return wanted


def _add(field: str, value: str) -> str:
    """How to add a component that exists, and that the suite has not."""
    for title in ("DEFENSES", "ATTACKS"):
        if KINDS[title].word == field and value in KINDS[title].names:
            return f"; this suite has it not: add --set '{title.lower()}.{value}={{}}'"
    return ""


def _fields(trial: Trial) -> dict[str, str]:
    strength = trial.victim.defense.strength
    fields = {"defense": trial.defense_label, "seed": str(trial.victim.seed)}
    if strength is not None:
        fields["strength"] = _shown(strength)
    return fields | ({"attack": trial.attack.label} if trial.attack else {})


def _shown(strength: float) -> str:
    return f"{strength:.12g}"


def _matches(trial: Trial, wanted: Mapping[str, set[str]]) -> bool:
    fields = _fields(trial)
    return all(fields.get(name) in values for name, values in wanted.items())
