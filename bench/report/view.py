"""What a plot of accuracy against privacy shows: shared by the figures and the page."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smashbench.bench.experiment.metrics import Metric
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.published import published_points
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.report.style import ALONE
from smashbench.bench.report.text import number

FLOORS = {
    "mean_image": "mean image",
    "class_mean": "class mean",
    "thumbnail_2x2": "2x2 thumbnail",
    "thumbnail_4x4": "4x4 thumbnail",
}
"""Predictors that need no attack, in words."""
EXPLAINED = {
    "mean_image": "guessing the mean of all training images",
    "class_mean": "guessing the mean of the true class",
    "thumbnail_2x2": "knowing the image in 2x2 pixels",
    "thumbnail_4x4": "knowing the image in 4x4 pixels",
}
"""What an attacker would do who reached exactly that."""

PART = 0.3
"""Least share of the whole range of accuracies that one panel of several spans."""
NOISE_ALONE = 0.25
"""Largest share of the accuracies that rows of plain noise have to themselves, below all others."""


class Panel(NamedTuple):
    """A part of a plot: some defenses in colour, all others in grey."""

    title: str
    """Empty where it is the only one."""
    defenses: list[str]


class View(NamedTuple):
    """The ranges of the axes, and what lies beyond them."""

    x: tuple[float, float]
    y: tuple[float, float]
    drawn: list[Row]
    """Those that lines go through."""
    beyond: list[Row]
    """Rows less accurate than the axis reaches: collapsed ones, and plain noise far below all
    other rows, to which its line leads."""
    floors: dict[str, float]
    """Predictors within the axis."""
    higher: dict[str, float]
    """Predictors beyond its more private end."""
    doubted: list[Row]
    """Drawn hollow: those with a doubt that not all rows share."""

    @property
    def marked(self) -> list[Row]:
        """Those of the drawn rows whose accuracy is on the axis: they have a mark."""
        return [row for row in self.drawn if self.x[0] <= row.accuracy.mean <= self.x[1]]

    def line(self, rows: list[Row]) -> list[Row]:
        """Those of a defense's rows that its line goes through. That of plain noise begins at the
        undefended row, as it does in comparisons."""
        drawn = [row for row in rows if row in self.drawn]
        if drawn and drawn[0].role == "baseline":
            return [row for row in self.drawn if row.role == "control"] + drawn
        return drawn

    def within(self, panel: Panel) -> "View":
        """The same for one panel of several: its axis of accuracy spans what its own defenses and
        the undefended rows do, and at least ``PART`` of the whole. Plain noise, which often spans
        far more, is cut off there."""
        own = [row for row in self.drawn if row.defense in panel.defenses]
        own = [row for row in own if row.role != "baseline"]
        if not panel.title or len(own) < 2:
            return self
        least, most = _shown([row.accuracy for row in own], [])
        return self._replace(x=(min(least, most - PART * (self.x[1] - self.x[0])), most))

    def notes(self, metric: Metric) -> list[str]:
        """The predictors beyond the axis, with their values."""
        digits = min(metric.digits, 3)
        return [f"{FLOORS.get(n, n)} {number(value, digits)}" for n, value in self.higher.items()]


def shared_doubts(board: Board) -> list[str]:
    """The doubts that every complete row has: they tell none from another."""
    rows = board.complete
    return [doubt for doubt in rows[0].doubts if all(doubt in row.doubts for row in rows)]


def panels(board: Board) -> list[Panel]:
    """One panel of all defenses; where there are many, one for each group, in the suite's order;
    undefended rows and plain noise are in each of them."""
    shown = board.by_defense
    if len(shown) <= ALONE or all(rows[0].role != "defense" for rows in shown.values()):
        return [Panel("", list(shown))]
    common = [name for name, rows in shown.items() if rows[0].role != "defense"]
    groups: dict[str, list[str]] = {}
    for name, rows in shown.items():
        if rows[0].role == "defense":
            groups.setdefault(rows[0].group, []).append(name)
    found = []
    for title, names in groups.items():
        parts = -(-len(names) // (ALONE - 1))
        size = -(-len(names) // parts)
        for part in range(parts):
            number = f" ({part + 1} of {parts})" if parts > 1 else ""
            own = names[part * size : (part + 1) * size]
            found.append(Panel(f"{title}{number}", [*common, *own]))
    return found


def view(board: Board, metric: Metric) -> View:
    """What to show: points, and intervals as far as they are no wider than a sixth of what the
    points span; a row whose seeds differ wildly would otherwise leave no room for the others.
    Collapsed rows stay beyond the axis, and so do rows of plain noise that would take more than
    ``NOISE_ALONE`` of it, and floors above everything that was reached."""
    rows = board.complete
    drawn = [row for row in rows if not row.collapsed]
    if len(drawn) < 2:
        drawn = rows
    least = min(row.accuracy.mean for row in drawn)
    beyond = [row for row in rows if row not in drawn and row.accuracy.mean < least]
    drawn = [row for row in rows if row not in beyond]
    published = published_points(board.suite, metric.name)
    kept = _without_far_noise(drawn)
    x = _shown([row.accuracy for row in kept], [p.accuracy for p, _ in published])
    beyond += [row for row in drawn if row not in kept and row.accuracy.mean < x[0]]
    seen = [row.worst(metric.name) for row in drawn if row not in beyond]
    y = _shown(seen, [value for _, value in published])
    floors = floors_in(board, metric)
    if metric.better == "higher":
        inside = {name: value for name, value in floors.items() if value <= y[1]}
        y = min([y[0], *inside.values()]), y[1]
    else:
        inside = {name: value for name, value in floors.items() if value >= y[0]}
        y = y[0], max([y[1], *inside.values()])
    higher = {name: value for name, value in floors.items() if name not in inside}
    shared = shared_doubts(board)
    doubted = [row for row in drawn if set(row.doubts) - set(shared)]
    return View(x, y, drawn, beyond, inside, higher, doubted)


def _without_far_noise(rows: list[Row]) -> list[Row]:
    """The rows, without those of plain noise that are less accurate than all others where these
    would have more than ``NOISE_ALONE`` of the range of accuracies to themselves."""
    others = [row.accuracy.mean for row in rows if row.role != "baseline"]
    if all(row.role != "defense" for row in rows):
        return rows
    least, most = min(row.accuracy.mean for row in rows), max(others)
    if min(others) - least <= NOISE_ALONE * (most - least):
        return rows
    return [row for row in rows if row.accuracy.mean >= min(others)]


def names(rows: list[Row], metric: Metric) -> list[tuple[Row, str, bool]]:
    """What stands at the rows of one defense, and whether it is the most private of them: there
    its label, and at the others their strengths, if they have some."""
    sign = 1 if metric.better == "higher" else -1
    end = max(rows, key=lambda row: sign * row.worst(metric.name).mean, default=None)
    shown = [row for row in rows if row is end or row.strength is not None]
    return [(row, row.label if row is end else f"{row.strength:g}", row is end) for row in shown]


def _shown(estimates: Sequence[Estimate], others: Sequence[float]) -> tuple[float, float]:
    means = [estimate.mean for estimate in estimates] + list(others)
    least, most = min(means), max(means)
    room = (most - least or abs(most) or 1.0) / 6
    ends = [end for estimate in estimates for end in estimate[1:]]
    return max(min([least, *ends]), least - room), min(max([most, *ends]), most + room)


def floors_in(board: Board, metric: Metric) -> dict[str, float]:
    """What needs no attack, by predictor; not for a derived metric whose mean does not follow from
    the mean of the other."""
    if not board.floors or not (metric.score or metric.linear):
        return {}
    least = board.floors["mean_image"]
    return {
        name: float(metric.values({metric.judge: np.array(values[metric.judge])}, least))
        for name, values in board.floors.items()
        if metric.judge in values
    }
