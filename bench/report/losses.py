"""What defenses leave at small losses of accuracy, and which of them are shown to beat noise."""

from typing import NamedTuple

import numpy as np

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.frontier import privacy_at, privacy_within
from smashbench.bench.report.points import (
    DIFFERENCE,
    PRIVACY,
    enough_draws,
    frontier,
    points,
)
from smashbench.bench.report.quantiles import QUANTILE
from smashbench.bench.report.settled import all_settled, settled
from smashbench.bench.report.statistics import RESAMPLES, Compared, Estimate, interval, jointly

TRAININGS = 2
"""Fewest victims of a row that can be shown to be better: of one, nothing says how much another
training would differ."""
DROPS = (0.01, 0.02, 0.05)
"""Losses of accuracy against the undefended model at which defenses are compared."""
ROUNDING = 1e-9
"""Of a difference of accuracies: a row that loses exactly so much is among those compared."""


class AtLoss(NamedTuple):
    """One defense at a loss of accuracy of at most so much."""

    defense: str
    role: str
    fvu: Estimate
    """The highest worst-case FVU on the frontier of its strengths, by itself."""
    over_noise: Estimate | None
    """That less the same of plain noise; the interval holds for all defenses and losses at once.
    None where noise covers this accuracy in less than ``KNOWN`` of the draws, or where the sweep of
    the defense ends before it and does not suffice to show that it is better."""
    reached: float
    """Share of the resamples in which one of its strengths is accurate enough."""
    least: float
    """The accuracy that it was swept to."""
    trainings: int
    """Of each of its rows."""
    settled: bool
    """Whether all its rows are, see ``settled``."""

    @property
    def beats_noise(self) -> bool:
        """Whether it is shown to: it is accurate enough, and leaves more, in several trainings, to
        attacks that had converged, and were no fewer than those on noise."""
        better = self.over_noise is not None and self.over_noise.low > 0
        known = self.trainings >= TRAININGS and self.reached >= QUANTILE and self.settled
        return self.role == "defense" and better and known


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
    the loss, draw by draw of the bootstrap. In draws in which none of its strengths is that
    accurate its most accurate one is compared, at its own accuracy: intervals of the other draws
    alone would be of the worlds in which it fares well. Of noise the accuracy must lie within its
    sweep, in the measured points and in ``KNOWN`` of the draws. Where the sweep of a defense ends
    at a higher accuracy, all that is known is that it leaves at least as much at this one: its
    difference is given only if it is above 0 even so. Collapsed rows are left out: between one of
    them and a row that works, no straight line says what a strength would do. The differences of
    all defenses and losses are one family, whose intervals hold at once.
    """
    if not board.controls:
        return []
    control = points(board.controls[:1], "accuracy")[0]
    found: dict[float, list[AtLoss]] = {drop: [] for drop in DROPS}
    family: dict[tuple[float, str], Compared] = {}
    for name in board.by_defense:
        for drop in DROPS:
            at, over = _at_loss(board, name, control - drop - ROUNDING)
            if at:
                found[drop].append(at)
            if over:
                family[drop, name] = over
    joint = jointly(family, DIFFERENCE)
    losses = []
    for drop, each in found.items():
        accuracy, at_this_loss = float(control[0]) - drop, []
        for at in each:
            difference = joint.get((drop, at.defense), at.over_noise)
            short = at.least > accuracy + ROUNDING
            if difference and short and not difference.low > 0:
                difference = None
            at_this_loss.append(at._replace(over_noise=difference))
        at_this_loss.sort(key=lambda at: -at.fvu.mean)
        losses.append(Loss(drop, accuracy, at_this_loss))
    return losses


def _at_loss(
    board: Board, name: str, accuracies: np.ndarray
) -> tuple[AtLoss | None, Compared | None]:
    """A defense at these accuracies, one for each draw, and its difference from noise there, which
    is yet to be corrected; None where there is none."""
    first, own_rows = board.by_defense[name][0], board.swept(name)
    others = board.noise_beside(first)
    if first.role == "baseline" and others:
        own_rows = others
    if not own_rows:
        return None, None
    own_points = frontier(own_rows)
    most = own_points[0].max(0)
    if most[0] < accuracies[0]:
        return None, None
    reached = float((most >= accuracies)[1 : 1 + RESAMPLES].mean())
    at_most = np.minimum(accuracies, most)
    own = privacy_at(*own_points, at_most)
    fvu = interval(own[0], own[1:], first.freedom, PRIVACY)
    least = min(row.accuracy.mean for row in own_rows)
    trainings, sure = len(first.seeds), all_settled(board, name)
    at = AtLoss(name, first.role, fvu, None, reached, least, trainings, sure)
    if not others or first.role == "control":
        return at, None
    noise = privacy_within(*frontier(others), at_most)
    if not enough_draws(noise):
        return at, None
    if first.role == "baseline":
        return at._replace(over_noise=Estimate(0.0, 0.0, 0.0)), None
    over = own - noise
    return at, (over[0], over[1:], first.freedom)


def within(board: Board, drop: float) -> dict[str, Row]:
    """Of each defense, the row that protects most while it loses at most ``drop`` of the
    undefended accuracy; without an undefended row none."""
    found: dict[str, Row] = {}
    for row in accurate(board, drop):
        best = found.get(row.defense)
        if best is None or row.worst("fvu").mean > best.worst("fvu").mean:
            found[row.defense] = row
    return found


def to_take(board: Board, drop: float) -> Row | None:
    """Of all rows of noise and of defenses that lose at most ``drop`` of the undefended accuracy,
    the settled one that protects most; None if there is none."""
    near = [row for row in accurate(board, drop) if row.role != "control"]
    known = [row for row in near if settled(board, row)]
    return max(known, key=lambda row: row.worst("fvu").mean, default=None)


def of_other_seeds(board: Board, row: Row) -> bool:
    """Whether there is plain noise, and none of it with the seeds of a row."""
    there = any(other.role == "baseline" and not other.collapsed for other in board.complete)
    return there and not board.noise_beside(row)


def accurate(board: Board, drop: float) -> list[Row]:
    """The complete rows that lose at most ``drop`` of the undefended accuracy."""
    if not board.controls:
        return []
    least = board.controls[0].accuracy.mean - drop - ROUNDING
    return [row for row in board.complete if row.accuracy.mean >= least]
