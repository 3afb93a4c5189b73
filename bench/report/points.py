"""Rows as points of a frontier, with the bootstrap's draws: what all comparisons start from."""

import numpy as np

from smashbench.bench.report.board import Row
from smashbench.bench.report.frontier import Points
from smashbench.bench.report.statistics import RESAMPLES, Estimate, interval

PRIVACY = (0.0, 1.0)
"""What a worst-case FVU can be: an attacker may always answer the mean image."""
DIFFERENCE = (-1.0, 1.0)
"""What two of them, two accuracies or two mean squared errors can differ by."""


def points(rows: list[Row], metric: str) -> np.ndarray:
    """(rows, 1 + DRAWS): the measured values first, then the bootstrap's; an FVU is at most 1."""
    measured = [row.accuracy if metric == "accuracy" else row.worst(metric) for row in rows]
    pairs = zip(measured, rows, strict=True)
    found = np.stack([np.concatenate([[each.mean], row.draws[metric]]) for each, row in pairs])
    return np.minimum(found, PRIVACY[1]) if metric == "fvu" else found


def frontier(rows: list[Row]) -> Points:
    """Accuracy and worst-case FVU of one defense's rows."""
    return points(rows, "accuracy"), points(rows, "fvu")


KNOWN = 0.9
"""Share of the draws in which what a row is compared with must exist. The others say nothing of it,
and those that are left would be of the worlds where it reaches far."""


def enough_draws(values: np.ndarray) -> bool:
    """Whether a measured value, and enough of its draws, exist."""
    both = values[1 : 1 + RESAMPLES]
    return bool(np.isfinite(values[0]) and np.isfinite(both).mean() >= KNOWN)


def estimated(values: np.ndarray, row: Row) -> Estimate | None:
    """A difference, from its measured value and draws, with the freedom of ``row``; None where it
    lacks the one or too many of the others. Where a few draws lack a value (noise that was not
    swept to an accuracy), the interval is that of the others."""
    if not enough_draws(values):
        return None
    return interval(values[0], values[1:], row.freedom, DIFFERENCE)
