"""Plug-ins that leave no trace: what was loaded is unloaded."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from smashbench.bench.plugged import plug
from smashbench.bench.suite import source
from smashbench.bench.suite.kinds import KINDS
from smashbench.bench.suite.plugins import LOADED, PREFIX

METRIC = """
from smashbench.bench.experiment.metrics import Metric


def mae(x, guess):
    return (x - guess).abs().flatten(1).mean(1)


MAE = Metric(name="mae", label="MAE", better="higher", bounds=(0.0, 1.0), digits=3, score=mae)
METRICS = {"mae": MAE}
"""
DEFENSE = '''
from smashbench.defenses.base import Defense


class Shift(Defense):
    """Shifts the features.

    Args:
        by: how far.
    """

    strength = "by"

    def __init__(self, shape, classes, *, by: float = 0.5) -> None:
        super().__init__(shape, classes)
        self.by = by

    def transform(self, z):
        return z + self.by


DEFENSES = {"shift": Shift}
'''
ATTACK = '''
from smashbench.attacks.base import Attack


class First(Attack):
    """The first image."""

    kind = "closed_form"

    def fit(self, knowledge):
        self.images_ = knowledge.images
        return self

    def reconstruct(self, z):
        return self.images_[:1].expand(len(z), -1, -1, -1)


ATTACKS = {"first": First}
'''


@contextmanager
def unplugged() -> Iterator[None]:
    """Afterwards the tables are as they were."""
    plug([])  # so that all kinds are known
    tables = {title: kind.table() for title, kind in KINDS.items()}
    before = {title: table.copy() for title, table in tables.items()}
    loaded = LOADED.copy()
    _forget()
    try:
        yield
    finally:
        for title, table in tables.items():
            table.clear()
            KINDS[title].add(before[title])
        LOADED.clear()
        LOADED.update(loaded)
        for name in [name for name in sys.modules if name.startswith(PREFIX)]:
            del sys.modules[name]
        _forget()


def _forget() -> None:
    cached = (source._hash_of, source._tree_of, source._text_of, source._is_worked_on)
    for function in cached:
        function.cache_clear()
