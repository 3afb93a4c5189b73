"""Contracts: what every component of a kind promises, checked by tests and `smashbench check`."""

from smashbench.bench.contracts.attack import ATTACK
from smashbench.bench.contracts.base import Check, Subject, UncheckedError, failure_of
from smashbench.bench.contracts.dataset import DATASET
from smashbench.bench.contracts.defense import DEFENSE
from smashbench.bench.contracts.metric import METRIC
from smashbench.bench.contracts.model import MODEL
from smashbench.bench.contracts.options import OPTIONS

CONTRACTS: dict[str, tuple[Check, ...]] = {
    "DEFENSES": (*OPTIONS, *DEFENSE),
    "ATTACKS": (*OPTIONS, *ATTACK),
    "DATASETS": (*OPTIONS, *DATASET),
    "MODELS": (*OPTIONS, *MODEL),
    "METRICS": METRIC,
}
"""By the tables of a plug-in."""

__all__ = ["CONTRACTS", "Check", "Subject", "UncheckedError", "failure_of"]
