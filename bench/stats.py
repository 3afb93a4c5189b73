"""Means with intervals: a bootstrap over victims, attacks on them, and test images."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, t

RESAMPLES = 2000
LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def apart(self, other: "Estimate") -> bool:
        """Whether the intervals do not overlap."""
        return self.low > other.high or other.low > self.high


def bootstrap(values: np.ndarray) -> Estimate:
    """Mean of ``values`` with a 95 % interval, see ``resample``.

    Args:
        values: (seeds, images) or (seeds, repeats, images).

    >>> [round(value, 3) for value in bootstrap(np.full((2, 50), 0.25))]
    [0.25, 0.25, 0.25]
    """
    if values.ndim == 2:
        values = values[:, None]
    return interval(values.mean(), resample(values[None])[0])


def columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """``name``, ``name_low`` and ``name_high`` for a table."""
    mean, low, high = estimate or (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def interval(mean: float, draws: np.ndarray) -> Estimate:
    """The mean with the central 95 % of ``draws`` (RESAMPLES,)."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(mean), float(low), float(high))


def resample(values: np.ndarray) -> np.ndarray:
    """Bootstrap means (k, RESAMPLES) of k tables of values (k, seeds, repeats, images).

    Seeds and images are crossed: every victim is scored on the same test images, so both are
    resampled independently of each other (Owen, 2007, "The pigeonhole bootstrap"); images drawn
    anew within each seed would count as many times as there are seeds. Repeats (attacks with
    other seeds on one victim) are nested within seeds: they follow the seed that is drawn, and
    are drawn themselves only where there is one seed (Davison and Hinkley, 1997, section 3.8:
    of nested levels only the highest with replacement). One seed with one repeat contributes
    nothing.

    Few seeds make such a bootstrap too narrow: by sqrt((n - 1) / n), and because the quantiles
    should be Student's (Hesterberg, 2015, "What teachers should know about the bootstrap"). Both
    are made up for, the second with Satterthwaite's degrees of freedom: one for two seeds that
    make all the difference, many where it is the images that do. No mean leaves the range of the
    values. The same resamples serve every table of a shape: differences between rows are paired.
    """
    tables = values.mean(2) if values.shape[1] > 1 else values[:, 0]
    k, seeds, images = tables.shape
    of_seeds, of_images = _weights(seeds, images)
    means = (of_images @ tables.reshape(k * seeds, images).T).reshape(RESAMPLES, k, seeds)
    draws: np.ndarray = np.einsum("bs,bks->kb", of_seeds, means)
    centre = tables.mean((1, 2))[:, None]
    draws = centre + _expansion(tables)[:, None] * (draws - centre)
    return draws.clip(tables.min((1, 2))[:, None], tables.max((1, 2))[:, None])


def _expansion(tables: np.ndarray) -> np.ndarray:
    """Student's 97.5 % quantile over the normal one (k,), for the mean of tables (k, seeds,
    images) with crossed levels."""
    _, seeds, images = tables.shape
    total = squares = np.zeros(len(tables))
    for n, means in ((seeds, tables.mean(2)), (images, tables.mean(1))):
        if n > 1:
            variance = means.var(1, ddof=1) / n
            total, squares = total + variance, squares + variance**2 / (n - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = np.where(squares > 0, total**2 / squares, np.inf)
    quantile = (1 + LEVEL) / 2
    expansion: np.ndarray = t.ppf(quantile, freedom) / norm.ppf(quantile)
    return expansion


@lru_cache(maxsize=8)
def _weights(seeds: int, images: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (RESAMPLES, seeds) and (RESAMPLES, images); rows sum to 1."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> np.ndarray:
        weights = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
        return 1 / n + (n / max(n - 1, 1)) ** 0.5 * (weights - 1 / n)

    return draw(seeds), draw(images)
