"""What of a suite is done."""

from typing import Literal, NamedTuple

from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite, Trial, victim_trial

State = Literal["done", "failed", "missing", "outdated", "unverified", "damaged"]


FINISHED = ("done", "unverified")
"""What needs no run."""


class Standing(NamedTuple):
    """How far a trial is.

    ``outdated``: made with other source, or on another training of its victim. ``unverified``:
    finished, by a defense or an attack that this checkout lacks.
    """

    state: State
    seconds: float | None = None
    """What it took."""
    cause: str = ""
    damage: DamagedError | None = None


def survey(suite: Suite, store: Store, *, deep: bool = False) -> dict[str, Standing]:
    """The standing of every trial by its key.

    Args:
        suite: the trials.
        store: their records.
        deep: verify the arrays beside the records, too, and the checkpoints that attacks need.
    """
    found = {trial.key: _examine(trial, store, deep) for trial in suite.trials}
    standings = {key: standing for key, (standing, _) in found.items()}
    for trial in suite.attacks:
        ours, victims = found[trial.key][1], found.get(str(trial.parent), (None, None))[1]
        if standings[trial.key].state == "done" and ours != victims:
            standings[trial.key] = Standing("outdated")
    needed = {trial.parent for trial in suite.attacks if standings[trial.key].state != "done"}
    for trial in suite.victims if deep else ():
        weights = found[trial.key][1]
        if weights and trial.key in needed and standings[trial.key].state == "done":
            try:
                store.weights(trial.key, weights)
            except DamagedError as damage:
                standings[trial.key] = Standing("damaged", damage=damage)
    return standings


def is_done(trial: Trial, store: Store) -> bool:
    """Whether a trial needs no run."""
    standing, weights = _examine(trial, store, deep=True)
    if trial.parent is None or standing.state != "done":
        return standing.state == "done"
    return weights == _examine(victim_of(trial), store, deep=False)[1]


def victim_of(attack: Trial) -> Trial:
    """The trial that trains what an attack is about."""
    return victim_trial(attack.victim)


def _examine(trial: Trial, store: Store, deep: bool) -> tuple[Standing, str | None]:
    """The standing of a trial by itself, and the SHA-256 of the weights that it made or attacked
    if it was a success of the present source."""
    from smashbench.bench.suite.source import source_of  # imports PyTorch

    try:
        record = store.read(trial.key)
        if record is None:
            return Standing("missing"), None
        if record.status == "failed":
            return Standing("failed", cause=record.cause), None
        source = source_of(trial)
        if source and record.source != source:
            return Standing("outdated"), None
        if deep:
            store.check_arrays(record)
        state: State = "done" if source else "unverified"
        return Standing(state, record.seconds.total), record.victim_sha256
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
