"""What a defense offers over its strengths: a frontier of accuracy and privacy.

Privacy is the worst-case FVU: the share of the images' variance that the strongest attack leaves
unexplained, at most 1. All functions take points (points, draws): each column is one world, the
measured one or one of the bootstrap's.
"""

from collections.abc import Sequence

import numpy as np

from smashbench.bench.report.statistics import Estimate

Points = tuple[np.ndarray, np.ndarray]
"""Accuracy and privacy, both (points, draws)."""
STEPS = 16
"""Accuracies at which frontiers are compared, evenly spread over a range."""


def advantage(own: Points, other: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How much more privacy one frontier offers than another at equal accuracy.

    Args:
        own: accuracy and privacy of one.
        other: of the other.

    Returns:
        The mean difference (draws,) over the accuracies that both were swept over, and the ends of
        that range. So a longer sweep of the same frontier is worth nothing. NaN where one lies
        wholly below the other's least accuracy, and everywhere where the measured world, the first,
        has no such range. In a draw in which all of ``own`` is more accurate than ``other``, the
        most accurate point of ``other`` counts, as in ``privacy_within``.

    >>> near, far = (np.array([[0.9], [a]]) for a in (0.8, 0.6))
    >>> mean, low, high = advantage((near, 1 - near + 0.1), (far, 1 - far))
    >>> [float(value[0].round(3)) for value in (mean, low, high)]
    [0.1, 0.8, 0.9]
    """
    most = other[0].max(0)
    low = np.minimum(np.maximum(own[0].min(0), other[0].min(0)), most)
    high = np.minimum(own[0].max(0), most)
    known = (high >= low) & (own[0].min(0)[0] <= most[0])
    low, high = (np.where(known, end, np.nan) for end in (low, high))
    total = np.zeros_like(low)
    for share in (np.arange(STEPS) + 0.5) / STEPS:
        at = low + share * (high - low)
        total += privacy_at(*own, at) - privacy_at(*other, at)
    return total / STEPS, low, high


def privacy_at(accuracy: np.ndarray, privacy: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The most privacy (draws,) at an accuracy of at least ``target`` (draws,).

    Linear between neighbouring points of the frontier; NaN where no point is accurate enough.
    Beyond the least accurate point there is no more privacy than it has.

    >>> points = np.array([[0.9], [0.8]]), np.array([[0.2], [0.6]])
    >>> [float(privacy_at(*points, np.array([a]))[0].round(3)) for a in (0.95, 0.9, 0.85, 0.7)]
    [nan, 0.2, 0.4, 0.6]
    """
    enough = accuracy >= target
    value, ahead = _best(privacy, accuracy, enough)
    behind, more = _best(accuracy, privacy, ~enough & (privacy > value))
    with np.errstate(invalid="ignore"):
        between = value + (more - value) * (ahead - target) / (ahead - behind)
    found = np.where(np.isfinite(behind), between, value)
    return np.where(np.isfinite(value), found, np.nan)


def privacy_within(accuracy: np.ndarray, privacy: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The same within the sweep of the points: NaN in worlds where ``target`` (draws,) lies below
    the least accurate point, since further strengths might have more privacy, and everywhere where
    the measured world, the first, has it outside.

    In a draw of the bootstrap whose ``target`` lies above the most accurate point, that point
    counts: what is compared with it is more accurate and would be worth more. Left out, such draws
    took the upper end of every interval near the accurate end of a sweep with them: without any
    difference, 10 to 18 % of the intervals there lay below 0.

    >>> points = np.array([[0.9, 0.9], [0.8, 0.8]]), np.array([[0.2, 0.2], [0.6, 0.6]])
    >>> targets = [(0.85, 0.95), (0.85, 0.7), (0.95, 0.85)]
    >>> [privacy_within(*points, np.array(each)).round(3).tolist() for each in targets]
    [[0.4, 0.2], [0.4, nan], [nan, nan]]
    """
    most = accuracy.max(0)
    found = privacy_at(accuracy, privacy, np.minimum(target, most))
    swept = (target >= accuracy.min(0)) & (target[0] <= most[0])
    return np.where(swept, found, np.nan)


def _best(first: np.ndarray, second: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, ...]:
    """The highest ``first`` (draws,) of the allowed points, and the highest ``second`` of those
    that have it; -inf where none is allowed."""
    highest = np.where(allowed, first, -np.inf).max(0)
    return highest, np.where(allowed & (first == highest), second, -np.inf).max(0)


def ranks(estimates: Sequence[Estimate]) -> list[tuple[int, int]]:
    """The best and the worst rank (1 is the highest mean) that each could have: estimates whose
    intervals overlap tie.

    >>> ranks([Estimate(3, 2.5, 3.5), Estimate(2.7, 2.2, 3.2), Estimate(1, 0.5, 1.5)])
    [(1, 2), (1, 2), (3, 3)]
    """
    found = []
    for own in estimates:
        above = sum(other.low > own.high for other in estimates)
        below = sum(other.high < own.low for other in estimates)
        found.append((1 + above, len(estimates) - below))
    return found
