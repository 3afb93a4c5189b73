"""What defenses leave at small losses of accuracy, and which of them are shown to beat noise."""

from typing import NamedTuple

import numpy as np

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.frontier import privacy_at
from smashbench.bench.report.points import DIFFERENCE, PRIVACY, estimated, frontier, points
from smashbench.bench.report.statistics import QUANTILE, RESAMPLES, Compared, Estimate, jointly

DROPS = (0.01, 0.02, 0.05)
"""Losses of accuracy against the undefended model at which defenses are compared."""


class AtLoss(NamedTuple):
    """One defense at a loss of accuracy of at most so much."""

    defense: str
    role: str
    fvu: Estimate
    """The highest worst-case FVU on the frontier of its strengths, by itself."""
    over_noise: Estimate | None
    """That less the same of plain noise; the interval holds for all defenses and losses at once.
    None where noise was not swept to this accuracy."""
    reached: float
    """Share of the resamples in which one of its strengths is accurate enough."""

    @property
    def beats_noise(self) -> bool:
        """Whether it is shown to: it is accurate enough, and leaves more."""
        better = self.over_noise is not None and self.over_noise.low > 0
        return self.role == "defense" and better and self.reached >= QUANTILE


class Loss(NamedTuple):
    """All defenses at one loss of accuracy, the undefended model too, the highest FVU first."""

    drop: float
    accuracy: float
    """Of the undefended model, less the loss."""
    defenses: list[AtLoss]

    @property
    def best(self) -> AtLoss | None:
        """The highest FVU of a defense, noise among them."""
        return next((each for each in self.defenses if each.role != "control"), None)

    @property
    def noise(self) -> AtLoss | None:
        """Plain noise, if one of its strengths is accurate enough."""
        return next((each for each in self.defenses if each.role == "baseline"), None)

    @property
    def winners(self) -> list[AtLoss]:
        """The defenses that are shown to beat noise."""
        return [each for each in self.defenses if each.beats_noise]

    def not_told_apart(self, one: AtLoss) -> list[str]:
        """The defenses whose joint intervals overlap that of ``one``; plain noise has exactly 0."""
        if one.over_noise is None:
            return []
        return [
            each.defense
            for each in self.defenses
            if each.defense != one.defense
            and each.over_noise
            and not each.over_noise.apart(one.over_noise)
        ]


def at_losses(board: Board) -> list[Loss]:
    """The defenses at each of ``DROPS``; empty without an undefended row to measure losses from.

    Every defense has the most privacy on its frontier at the accuracy of the undefended model less
    the loss, draw by draw of the bootstrap; of noise it must lie within its sweep. The differences
    of all defenses and losses are one family, whose intervals hold at once.
    """
    if not board.controls:
        return []
    control = points(board.controls[:1], "accuracy")[0]
    found: dict[float, list[AtLoss]] = {drop: [] for drop in DROPS}
    family: dict[tuple[float, str], Compared] = {}
    for name, rows in board.by_defense.items():
        first, others = rows[0], board.noise_beside(rows[0])
        for drop in DROPS:
            own = privacy_at(*frontier(rows), control - drop)
            if (fvu := estimated(own, first, PRIVACY)) is None:
                continue
            reached = float(np.isfinite(own[1 : 1 + RESAMPLES]).mean())
            at = AtLoss(name, first.role, fvu, None, reached)
            if others and first.role != "control":
                noise = privacy_at(*frontier(others), control - drop, within=True)
                if first.role == "baseline" and np.isfinite(noise[0]):
                    at = at._replace(over_noise=Estimate(0.0, 0.0, 0.0))
                elif np.isfinite(noise[0]):
                    over = own - noise
                    family[drop, name] = over[0], over[1:], first.freedom
            found[drop].append(at)
    joint = jointly(family, DIFFERENCE)
    losses = []
    for drop, each in found.items():
        told = [at._replace(over_noise=joint.get((drop, at.defense), at.over_noise)) for at in each]
        told.sort(key=lambda at: -at.fvu.mean)
        losses.append(Loss(drop, float(control[0]) - drop, told))
    return losses


def within(board: Board, drop: float) -> dict[str, Row]:
    """Of each defense, the row that protects most while it loses at most ``drop`` of the
    undefended accuracy; without an undefended row none."""
    found: dict[str, Row] = {}
    for row in board.complete if board.controls else ():
        if row.accuracy.mean >= board.controls[0].accuracy.mean - drop:
            best = found.get(row.defense)
            if best is None or row.worst("fvu").mean > best.worst("fvu").mean:
                found[row.defense] = row
    return found
