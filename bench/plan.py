"""What of a suite is done, what is to do, in which order, and how long it will take."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import ceil, log2
from typing import NamedTuple

from bench.errors import BenchError, unknown
from bench.files import DamagedError, read_checked
from bench.parallel import Crew
from bench.store import Store
from bench.trials import Suite, Trial

PRIOR = {"victim": 3, "trained": 3, "closed_form": 2, "floor": 1}
"""Order of the kinds of work, longest first, as long as nothing has been timed."""
BRIEF = 2.0
"""Seconds under which it is not worth ordering trials by their length."""


class Standing(NamedTuple):
    """How far a trial is: ``done``, ``failed``, ``missing``, ``outdated`` (made with other source
    or on another training of its victim) or ``damaged``."""

    state: str
    seconds: float | None = None
    """What it took."""
    cause: str = ""
    damage: DamagedError | None = None


def survey(
    suite: Suite, store: Store, *, deep: bool = False, pictures: bool = True
) -> dict[str, Standing]:
    """The standing of every trial by its key.

    Args:
        suite: the trials.
        store: their records.
        deep: verify the arrays beside the records, too, and the checkpoints that attacks need.
        pictures: of the arrays, read the sample images, too, which are most of a folder.
    """
    trials = [(trial.key, trial.source) for trial in suite.trials]
    with Crew() as crew:
        crew.hire(len(trials))
        found = crew.shares(partial(_examine_all, store, deep, pictures), trials)
    standings = {key: standing for (key, _), (standing, _) in zip(trials, found, strict=True)}
    victims = {key: victim for (key, _), (_, victim) in zip(trials, found, strict=True) if victim}
    checkpoints = {trial.key: victims[trial.key] for trial in suite.victims if trial.key in victims}
    for trial in suite.attacks:
        if standings[trial.key].state == "done" and (
            victims[trial.key] != checkpoints.get(str(trial.parent))
        ):
            standings[trial.key] = Standing("outdated")
    needed = {trial.parent for trial in suite.attacks if standings[trial.key].state != "done"}
    for key in checkpoints.keys() & needed if deep else ():
        try:
            read_checked(store.victim_path(key), checkpoints[key])
        except DamagedError as damage:
            standings[key] = Standing("damaged", damage=damage)
    return standings


def is_done(trial: Trial, store: Store) -> bool:
    """Whether a trial needs no run."""
    standing, victim = _examine(trial.key, trial.source, store, deep=True)
    if trial.parent is None or standing.state != "done":
        return standing.state == "done"
    parent = victim_of(trial)
    return victim == _examine(parent.key, parent.source, store, deep=False)[1]


def victim_of(attack: Trial) -> Trial:
    """The trial that trains what an attack is about."""
    return Trial(str(attack.parent), attack.config["victim"], None)


def _examine_all(
    store: Store, deep: bool, pictures: bool, trials: Sequence[tuple[str, str]]
) -> list[tuple[Standing, str | None]]:
    return [_examine(key, source, store, deep, pictures) for key, source in trials]


def _examine(
    key: str, source: str, store: Store, deep: bool, pictures: bool = True
) -> tuple[Standing, str | None]:
    """The standing by itself of the trial of this key and source, and the SHA-256 of the victim
    that it trained or attacked if it was a success of the present source."""
    try:
        record = store.read(key)
        if record is None:
            return Standing("missing"), None
        if record["status"] != "ok":
            return Standing("failed", cause=record["error"]), None
        if record["source"] != source:
            return Standing("outdated"), None
        if deep:
            store.check_arrays(record, pictures=pictures)
        victim = record.get("victim_sha256") or record["checkpoint_sha256"]
        return Standing("done", record["seconds"]["total"]), victim
    except DamagedError as damage:
        return Standing("damaged", damage=damage), None


def mend(suite: Suite, store: Store) -> tuple[dict[str, Standing], list[DamagedError]]:
    """A deep ``survey`` that sets every damaged file aside, to have its trial run again.

    Returns the standings and what was damaged.
    """
    store.sweep()
    standings = survey(suite, store, deep=True)
    damages = []
    for key, standing in standings.items():
        if standing.damage and not store.claimed(key):  # else another run is about to write it
            damages.append(standing.damage)
            store.set_aside(standing.damage.path)
            if standing.damage.path == store.victim_path(key):
                store.set_aside(store.record_path(key))
    return standings, damages


Group = tuple[str, ...]


class Estimates:
    """Seconds that trials take, learned from those that are done."""

    def __init__(self, trials: Iterable[Trial], standings: Mapping[str, Standing]) -> None:
        self._seen: Counter[Group] = Counter()
        self._seconds: Counter[Group] = Counter()
        for trial in trials:
            if (seconds := standings[trial.key].seconds) is not None:
                self.observe(trial, seconds)

    def observe(self, trial: Trial, seconds: float) -> None:
        group = group_of(trial)
        for known in (group, group[:1]):
            self._seen[known] += 1
            self._seconds[known] += seconds  # type: ignore[assignment]

    def of(self, group: Group) -> float | None:
        """The mean over a ``group_of`` trials, else over all defenses or all attacks; None
        before one was timed."""
        for known in (group, group[:1]):
            if seen := self._seen[known]:
                return self._seconds[known] / seen
        return None

    def total(self, groups: Mapping[Group, int], workers: int) -> float | None:
        """Seconds that ``workers`` need for so many trials of each group; None where there is
        nothing to go by."""
        each = {group: self.of(group) for group, count in groups.items() if count}
        known = {group: seconds for group, seconds in each.items() if seconds is not None}
        if len(known) < len(each):
            return None
        work = sum(seconds * groups[group] for group, seconds in known.items())
        return max([work / workers, *known.values()])

    def rank(self, trial: Trial) -> float:
        """Sorts trials by their length, longest first, in steps of a factor of two; brief ones
        are alike."""
        seconds = self.of(group_of(trial))
        if seconds is None:
            from attacks import ATTACKS

            kind = ATTACKS[trial.config["attack"]["name"]].kind if trial.parent else "victim"
            return -1000 * PRIOR[kind]
        return -ceil(log2(max(seconds, BRIEF)))


def group_of(trial: Trial) -> Group:
    """Trials that take alike: those of one defense, or of one attack."""
    what = "attack" if trial.parent else "defense"
    return (what, trial.config[what]["label"])


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
        failed: only trials that failed before.
        limit: at most so many trials.
    """
    wanted = only or {}
    chosen: dict[str, Trial] = {}
    victims = {victim.key: victim for victim in suite.victims}
    for trial in suite.trials:
        state = standings[trial.key].state
        if state == "done" or (failed and state != "failed") or not _matches(trial, wanted):
            continue
        parts = [trial]
        if trial.parent and standings[trial.parent].state != "done":
            parts = [victims[trial.parent], trial]
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
        if value not in known[name]:
            raise BenchError(f"--only {text!r}: {unknown(name, value, known[name])}")
        wanted[name].add(value)
    return wanted


def _fields(trial: Trial) -> dict[str, str]:
    victim = trial.config["victim"] if trial.parent else trial.config
    defense = victim["defense"]
    fields = {"defense": defense["label"], "seed": str(victim["seed"])}
    if defense["strength"] is not None:
        fields["strength"] = f"{defense['strength']:.12g}"
    return fields | ({"attack": trial.config["attack"]["label"]} if trial.parent else {})


def _matches(trial: Trial, wanted: Mapping[str, set[str]]) -> bool:
    fields = _fields(trial)
    return all(fields.get(name) in values for name, values in wanted.items())
