"""The worst case by what the attacker may know."""

from typing import NamedTuple

import pandas as pd

from smashbench.bench.report.board import AttackSummary, Board, Row
from smashbench.bench.report.statistics import Estimate, columns

RELEASES = {"unpaired", "architecture", "logits"}
PAIRS = RELEASES | {"pairs"}
LEVELS: dict[str, set[str]] = {
    "releases": RELEASES,
    "pairs": PAIRS,
    "queries": PAIRS | {"query"},
    "white box": PAIRS | {"query", "client"},
    "repeats": PAIRS | {"repeats"},
}
"""Level to the grants that it has. Each but the last has those of the level before."""


class Level(NamedTuple):
    """The strongest attack of those who know so much.

    Args:
        name: one of ``LEVELS``.
        attack: its label.
        fvu, mse: what it leaves.
    """

    name: str
    attack: str
    fvu: Estimate
    mse: Estimate


def levels_apart(board: Board) -> list[str]:
    """Names of the levels that allow an attack which no level with fewer grants allows; none where
    that is one level alone."""
    found: list[str] = []
    attacks = [a for row in board.complete for a in row.attacks.values() if a.kind != "floor"]
    for name, grants in LEVELS.items():
        weaker = [LEVELS[other] for other in found if LEVELS[other] < grants]
        if any(_can(a, grants) and not any(_can(a, less) for less in weaker) for a in attacks):
            found.append(name)
    return found if len(found) > 1 else []


def by_level(row: Row, names: list[str]) -> list[Level]:
    """The worst case of a row at these levels; none at a level without an attack."""
    found = []
    for name in names:
        able = {
            label: attack.estimates
            for label, attack in row.attacks.items()
            if _can(attack, LEVELS[name]) and {"mse", "fvu"} <= attack.estimates.keys()
        }
        if able:
            best = min(able, key=lambda label: able[label]["mse"].mean)
            found.append(Level(name, best, able[best]["fvu"], able[best]["mse"]))
    return found


def levels(board: Board) -> pd.DataFrame:
    """A line for each row and level; none where all attacks know alike."""
    names = levels_apart(board)
    lines = [
        {
            "defense": row.defense,
            "strength": row.strength,
            "level": each.name,
            "attack": each.attack,
            **columns("mse", each.mse),
            **columns("fvu", each.fvu),
        }
        for row in board.complete
        for each in by_level(row, names)
    ]
    return pd.DataFrame(lines)


def _can(attack: AttackSummary, grants: set[str]) -> bool:
    """Whether it is granted no more than these."""
    return set(attack.threat.grants) <= grants
