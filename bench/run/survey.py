"""What of a suite is done."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from smashbench.bench.store.failures import success_before, take_back
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.record import FinishedRecord, VictimRecord
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite, Trial, victim_trial

State = Literal[
    "done",
    "failed",
    "left_out",
    "missing",
    "outdated",
    "kept",
    "unscored",
    "unverified",
    "damaged",
]


COUNTS = ("done", "kept")
"""What has a record that counts."""
SETTLED = (*COUNTS, "unverified", "left_out")
"""What needs no run."""
MADE = (*SETTLED, "unscored")
"""What needs no weights any more."""
CHANGED = "the metrics have changed, and what it made is not there any more"


class Standing(NamedTuple):
    """How far a trial is.

    ``left_out``: it could not fit in memory. ``outdated``: made by other code, on another training
    of its victim or on releases by other code, or measured by metrics that cannot be computed
    again. ``kept``: the same, but for its victim, where records of other code are to count.
    ``unscored``: its metrics have changed, or a victim's scores are damaged, and what it made is
    there to be measured again. ``unverified``: finished, by a component that this checkout lacks.
    """

    state: State
    seconds: float | None = None
    """How long it took."""
    cause: str = ""
    damage: DamagedError | None = None
    weights: str | None = None
    """SHA-256 of the weights that it made, if it is a success that counts."""
    parent_weights: str | None = None
    """SHA-256 of the weights that it attacked, or began with."""
    source: str | None = None
    """Hash of the code that made it."""
    parent_source: str | None = None
    """Hash of the code of the victim that it attacked, if that is known."""
    lacking: bool = False
    """Whether it is done, but lacks a present metric, and what it made is not there."""

    def is_of(self, victim: "Standing") -> bool:
        """Whether it attacked, or began with, this very victim: these weights, run by this code."""
        known = self.parent_source is not None
        return self.parent_weights == victim.weights and (
            not known or self.parent_source == victim.source
        )


def survey(
    suite: Suite, store: Store, *, keep: bool = False, deep: bool = False
) -> dict[str, Standing]:
    """The standing of every trial by its key.

    Args:
        suite: the trials.
        store: their records.
        keep: treat records of other code as done.
        deep: verify the arrays beside the records, too, and the checkpoints that attacks need.
    """
    standings = {trial.key: _examine(trial, store, keep, deep) for trial in suite.trials}
    for trial in suite.trials:  # each comes behind the one that it needs
        if trial.parent:
            standings[trial.key] = _on_victim(standings[trial.key], standings.get(trial.parent))
    for some in (suite.victims, suite.starts) if deep else ():  # a victim may need its start again
        needed = {trial.parent for trial in suite.trials if standings[trial.key].state not in MADE}
        for trial in some:
            if trial.key in needed:
                standings[trial.key] = _with_weights(trial, standings[trial.key], store)
    return standings


def standing_of(trial: Trial, store: Store, *, keep: bool = False) -> Standing:
    """The standing of one trial that is to run or has run, with what it made verified. A victim is
    not done without its weights, which a pack of records lacks: who asks has attacks that need
    them.
    """
    standing = _examine(trial, store, keep, deep=True)
    if trial.parent is not None:
        standing = _on_victim(standing, _examine(parent_of(trial), store, keep, deep=False))
    return standing if trial.attack else _with_weights(trial, standing, store)


def left_behind(
    suite: Suite, before: Mapping[str, Standing], store: Store, *, keep: bool = False
) -> list[Trial]:
    """What was finished ``before`` a run that has trained its victim again, to other weights, as
    another processor does."""
    now = survey(suite, store, keep=keep)
    return [
        trial
        for trial in suite.trials
        if before[trial.key].state in MADE and now[trial.key].state == "outdated"
    ]


def counts(trial: Trial, store: Store, *, keep: bool = False) -> bool:
    """Whether there is a record that counts, and of a victim its weights, too."""
    return standing_of(trial, store, keep=keep).state in COUNTS


def parent_of(trial: Trial) -> Trial:
    """The trial that trains the victim which an attack attacks, or a victim begins with."""
    if trial.attack:
        return victim_trial(trial.victim)
    assert trial.victim.undefended
    return replace(victim_trial(trial.victim.undefended), starts=True)


def _on_victim(standing: Standing, victim: Standing | None) -> Standing:
    """The standing of what was made with a victim, given that victim's: if its weights, or the
    code that runs them, are others by now, what was made is outdated."""
    if standing.parent_weights is None or standing.state == "unverified":
        return standing
    return standing if victim and standing.is_of(victim) else Standing("outdated")


def _with_weights(trial: Trial, standing: Standing, store: Store) -> Standing:
    """The standing of a victim whose weights somebody needs: missing without them, as it is where
    it came in a pack of records alone."""
    if standing.weights and standing.state in SETTLED:
        try:
            if not store.has(store.victim_name(trial.key)):
                return standing._replace(state="missing")
            store.weights(trial.key, standing.weights)
        except DamagedError as damage:
            return Standing("damaged", damage=damage)
    return standing


def _examine(trial: Trial, store: Store, keep: bool, deep: bool) -> Standing:
    """The standing of a trial by itself."""
    from smashbench.bench.suite.source import scoring_of, source_of  # imports PyTorch

    try:
        record = store.read(trial.key)
    except DamagedError as altered:
        return Standing("damaged", damage=altered)
    if record is None:
        return Standing("missing")
    if record.status == "failed":
        return Standing("left_out" if record.left_out else "failed", cause=record.cause)
    damage = _damage(record, store) if deep else None
    made = partial(_made, record)
    source = source_of(trial)
    if source is None:
        return Standing("damaged", damage=damage) if damage else made("unverified")
    if record.source != source:
        return Standing("damaged", damage=damage) if damage else _of_other_code(made, keep)
    metrics = _metrics(record, scoring_of(trial))
    exact = isinstance(record, VictimRecord)  # an attack's scores were of floats, not of 8 bits
    again = metrics != "current" or (exact and damage is not None)
    if again and store.can_rescore(record, deep=deep):
        return made("unscored", damage=damage)
    if damage:
        return Standing("damaged", damage=damage)
    if metrics == "changed":
        return _of_other_code(made, keep, CHANGED)
    return made("done", lacking=metrics == "lacking")


def _made(record: FinishedRecord, state: State = "done", **more: Any) -> Standing:
    return Standing(
        state,
        seconds=record.seconds.total,
        weights=record.own_weights,
        parent_weights=record.parent_weights,
        source=record.source,
        parent_source=record.parent_source,
        **more,
    )


def _of_other_code(made: Callable[..., Standing], keep: bool, cause: str = "") -> Standing:
    """The standing of a record of other code. Outdated it has no weights, so that what was made
    with them is outdated, too."""
    return made("kept", cause=cause) if keep else Standing("outdated", cause=cause)


def _metrics(
    record: FinishedRecord, wanted: Mapping[str, str]
) -> Literal["current", "lacking", "changed"]:
    """Whether a record was measured by the present metrics, by some of them, or by others."""
    if any(record.scoring.get(name, code) != code for name, code in wanted.items()):
        return "changed"
    return "current" if wanted.keys() <= record.scoring.keys() else "lacking"


def _damage(record: FinishedRecord, store: Store) -> DamagedError | None:
    try:
        store.check_arrays(record)
    except DamagedError as damage:
        return damage
    return None


def _take_back(suite: Suite, store: Store) -> None:
    """Puts successes in the place of the failures that came after them, where they would count."""
    from smashbench.bench.suite.source import source_of

    for trial in suite.trials:
        success = success_before(store, trial.key)
        if success is None or success.source != source_of(trial) or _damage(success, store):
            continue
        with store.claim(trial.key) as ours, suppress(DamagedError):
            record = store.read(trial.key) if ours else None
            if record and record.status == "failed" and _of_its_victim(trial, success, store):
                take_back(store, success)


def _of_its_victim(trial: Trial, record: FinishedRecord, store: Store) -> bool:
    """Whether a record is of the victim that is there."""
    if trial.parent is None:
        return True
    victim = store.finished(trial.parent)
    return victim is not None and _made(record).is_of(_made(victim))


def mend(
    suite: Suite, store: Store, *, keep: bool = False
) -> tuple[dict[str, Standing], list[DamagedError]]:
    """A deep ``survey`` that sets every damaged file aside, to have its trial run again. What
    failed under other code, and had been finished under the present one, is finished again.

    Returns the standings and what was damaged.
    """
    store.sweep()
    _take_back(suite, store)
    standings = survey(suite, store, keep=keep, deep=True)
    damages = []
    for trial in suite.trials:
        if not standings[trial.key].damage:
            continue
        with store.claim(trial.key) as ours:
            if not ours:  # another run is about to write it
                continue
            now = standing_of(trial, store, keep=keep)  # another run may just have written it
            if now.damage:
                damages.append(now.damage)
                store.set_aside(now.damage.path)
            else:
                standings[trial.key] = now
    return standings, damages
