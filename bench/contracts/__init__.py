"""Contracts: what every component of a kind promises, checked by tests and `smashbench check`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from smashbench.bench.contracts.attack import ATTACK
from smashbench.bench.contracts.base import Check, Subject, UncheckedError, failure_of
from smashbench.bench.contracts.dataset import DATASET
from smashbench.bench.contracts.defense import DEFENSE
from smashbench.bench.contracts.engine import ENGINE
from smashbench.bench.contracts.metric import METRIC
from smashbench.bench.contracts.model import MODEL
from smashbench.bench.contracts.options import OPTIONS
from smashbench.bench.suite.kinds import KINDS

CONTRACTS: dict[str, tuple[Check, ...]] = {
    "DEFENSES": (*OPTIONS, *DEFENSE),
    "ATTACKS": (*OPTIONS, *ATTACK),
    "DATASETS": (*OPTIONS, *DATASET),
    "MODELS": (*OPTIONS, *MODEL),
    "METRICS": METRIC,
    "ENGINES": ENGINE,
}
"""By the tables of a plug-in."""


def outcomes(
    title: str, name: str, data: Path | None
) -> Iterator[tuple[str, Literal["ok", "FAILED", "-"], str]]:
    """What becomes of every promise of a component: its words, whether it is kept (``-`` where that
    cannot be checked here), and why not, once; nothing of a kind without a contract.

    Args:
        title: the table of the component.
        name: its name in it.
        data: the data folder, for data sets that need one.
    """
    if title not in CONTRACTS:
        return
    subject = Subject(name, KINDS[title].table()[name], data)
    said: dict[str, str] = {}
    for promise in CONTRACTS[title]:
        try:
            why = failure_of(promise, subject)
        except UncheckedError as error:
            yield promise.title, "-", str(error)
        else:
            if why is None:
                yield promise.title, "ok", ""
            else:
                first = said.setdefault(why, promise.title)
                again = f"for the same reason as {first!r}"
                yield promise.title, "FAILED", why if first == promise.title else again


__all__ = ["CONTRACTS", "Check", "Subject", "UncheckedError", "failure_of", "outcomes"]
