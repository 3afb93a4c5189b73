"""What a defense offers over its strengths: a frontier of accuracy and privacy.

Privacy is the worst-case FVU: the share of the images' variance that the strongest attack leaves
unexplained, at most 1. All functions take points (points, draws): each column is one world, the
measured one or one of the bootstrap's.
"""

from collections.abc import Sequence

import numpy as np

from smashbench.bench.report.statistics import Estimate


def hypervolume(accuracy: np.ndarray, privacy: np.ndarray, chance: float) -> np.ndarray:
    """The share (draws,) of the square between chance and 1 (accuracy), 0 and 1 (privacy) that
    some point reaches or exceeds in both.

    >>> hypervolume(np.array([[0.9], [0.5]]), np.array([[0.2], [0.6]]), 0.0).round(3)
    array([0.38])
    """
    order = np.argsort(-accuracy, axis=0)
    accuracy = np.take_along_axis(accuracy, order, 0).clip(chance, 1)
    privacy = np.take_along_axis(privacy, order, 0).clip(0, 1)
    best = np.maximum.accumulate(privacy, axis=0)
    ends = np.concatenate([accuracy[1:], np.full_like(accuracy[:1], chance)])
    area: np.ndarray = ((accuracy - ends) * best).sum(0) / (1 - chance)
    return area


def privacy_at(
    accuracy: np.ndarray, privacy: np.ndarray, target: np.ndarray, *, within: bool = False
) -> np.ndarray:
    """The most privacy (draws,) at an accuracy of at least ``target`` (draws,).

    Linear between neighbouring points of the frontier; NaN where no point is accurate enough.
    Beyond the least accurate point there is no more privacy than it has; or, with ``within``, it is
    not known what there is: NaN.

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
    known = np.isfinite(value) & ((target >= accuracy.min(0)) | (not within))
    return np.where(known, found, np.nan)


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
