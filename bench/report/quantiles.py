"""Quantiles that intervals are made of: of means over seeds and images, and of bounded values that
are all alike."""

from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri, stdtr, stdtrit

QUANTILE = 0.975
NORMAL = ndtri(QUANTILE)
Freedom = tuple[float, float]
"""Degrees of freedom of seeds and of images."""


def behrens_fisher(
    by_seed: np.ndarray, variance: np.ndarray, freedom: Freedom, level: float = QUANTILE
) -> np.ndarray:
    """Quantile at a level of the sum of two Student variables over its standard deviation: one
    with the degrees of freedom of seeds and their variance, the other with those of images and the
    rest of the variance (Fisher, 1935; it holds the truth at least as often as it says, Robinson,
    1976). Student's where only one of them varies; the normal one where none can."""
    seeds, images = freedom
    if not (seeds and images):
        return np.full_like(variance, stdtrit(seeds or images or np.inf, level))
    angles = np.arctan2(np.sqrt(np.maximum(variance - by_seed, 0)), np.sqrt(by_seed))
    if level != QUANTILE or seeds % 1 or images % 1:
        return _solved(np.atleast_1d(angles), freedom, level).reshape(angles.shape)
    return np.interp(angles, ANGLES, _table(freedom))


@lru_cache(maxsize=64)
def _table(freedom: Freedom) -> np.ndarray:
    found = _solved(ANGLES, freedom, QUANTILE)
    found[[0, -1]] = stdtrit(freedom, QUANTILE)
    return found


def _solved(angles: np.ndarray, freedom: Freedom, level: float) -> np.ndarray:
    """The quantile of cos a t(seeds) + sin a t(images), for angles a (n,), by bisection and then
    regula falsi; over the second it is integrated as over a function of a normal variable."""
    cos, sin = np.maximum(np.cos(angles), 1e-9), np.sin(angles)
    seeds, images = freedom
    other = np.multiply.outer(sin, stdtrit(images, ndtr(NODES)))
    low, high = np.zeros_like(cos), np.full_like(cos, 2 * stdtrit(min(freedom), level))
    under, over = np.full_like(cos, 0.5 - level), np.full_like(cos, 1 - level)
    for straight in 14 * [False] + 4 * [True]:
        share = under / (under - over) if straight else 0.5
        middle = low + share * (high - low)
        excess = stdtr(seeds, (middle[:, None] - other) / cos[:, None]) @ WEIGHTS - level
        low, under = np.where(excess > 0, [low, under], [middle, excess])
        high, over = np.where(excess > 0, [middle, excess], [high, over])
    return middle


ANGLES = np.linspace(0, np.pi / 2, 65)
NODES = np.linspace(-7, 7, 501)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


def share_ends(mean: float, n: float) -> tuple[float, float]:
    """The exact ends for a share of n independent things (Clopper and Pearson, 1934).

    >>> [round(end, 3) for end in share_ends(0.1, 10)], round(share_ends(1.0, 50)[0], 3)
    ([0.003, 0.445], 0.929)
    """
    k = mean * n
    low = betaincinv(k, n - k + 1, 1 - QUANTILE) if k > 0 else 0.0
    high = betaincinv(k + 1, n - k, QUANTILE) if k < n else 1.0
    return float(low), float(high)


def without_exception(
    mean: np.ndarray, low: np.ndarray, high: np.ndarray, limits: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of intervals of means of n values, wider where all values are at a limit.

    They have no variance, and yet say no more than that exceptions are rare: with a mean that is a
    share p of the way from the other limit all of n independent values are at this one with a
    probability of at most p^n, which is 2.5 % at the end (Clopper and Pearson, 1934).

    Args:
        mean: (k,).
        low: (k,) their lower ends, from variances.
        high: (k,) their upper ends.
        limits: (2, k), what each mean can be; where one is infinite, nothing is known.
        n: images, or the groups that they come in.

    >>> ends = without_exception(*np.array([[1.0], [1.0], [1.0]]), np.array([[0.0], [1.0]]), 50)
    >>> [float(end[0].round(3)) for end in ends]
    [0.929, 1.0]
    """
    least, most = limits
    bounded = np.isfinite(most - least)
    reach = share_ends(1.0, n)[0] * np.where(bounded, most - least, 0.0)
    low = np.where(bounded & (mean >= most), np.minimum(low, least + reach), low)
    return low, np.where(bounded & (mean <= least), np.maximum(high, most - reach), high)
