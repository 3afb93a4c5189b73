"""Leakage by what the attacker has: pairs of its own, and releases of an image."""

from typing import NamedTuple

import pandas as pd

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.statistics import Estimate, columns


class ByKnowledge(NamedTuple):
    """The strongest attack on a row with so much.

    Args:
        pairs: the attacker's images with a release of each.
        releases: of every image that is attacked.
        attack: its label.
        fvu: what it leaves.
    """

    pairs: int
    releases: int
    attack: str
    fvu: Estimate


def by_knowledge(row: Row) -> list[ByKnowledge]:
    """What a row leaves to the strongest attack on pairs, floors aside, with each number of pairs
    and of releases that was tried, the least first."""
    best: dict[tuple[int, int], ByKnowledge] = {}
    for name, attack in row.attacks.items():
        if attack.kind == "floor" or "pairs" not in attack.threat.grants:
            continue
        if "fvu" not in attack.estimates:
            continue
        at = attack.threat.aux_images, attack.threat.releases_per_image
        found = ByKnowledge(*at, name, attack.estimates["fvu"])
        if at not in best or found.fvu.mean < best[at].fvu.mean:
            best[at] = found
    return [best[at] for at in sorted(best)]


def by_pairs(row: Row) -> list[ByKnowledge]:
    """Those from one release of an image."""
    return [each for each in by_knowledge(row) if each.releases == 1]


def by_releases(row: Row) -> list[ByKnowledge]:
    """Those with the most pairs."""
    found = by_knowledge(row)
    most = max((each.pairs for each in found), default=0)
    return [each for each in found if each.pairs == most]


def varied(board: Board) -> bool:
    """Whether some row was attacked with several numbers of pairs, or of releases."""
    return any(len(found(row)) > 1 for row in board.complete for found in (by_pairs, by_releases))


def knowledge(board: Board) -> pd.DataFrame:
    """A line for each row, number of pairs and number of releases of an image; none where nothing
    was varied."""
    lines = [
        {
            "defense": row.defense,
            "strength": row.strength,
            "aux_images": each.pairs,
            "releases_per_image": each.releases,
            "attack": each.attack,
            **columns("fvu", each.fvu),
        }
        for row in (board.complete if varied(board) else ())
        for each in by_knowledge(row)
    ]
    return pd.DataFrame(lines)
