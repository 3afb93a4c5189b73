"""Means with intervals."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000


class Estimate(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float


def bootstrap(values: np.ndarray) -> Estimate:
    """Mean of ``values`` (seeds, images) with a percentile bootstrap over seeds and images.

    Seeds and images are crossed (every seed is scored on the same test images), so they are
    resampled independently of each other (Owen, 2007, "The pigeonhole bootstrap"); resampling
    images anew within each seed, as for nested levels, would count the images S times and make
    intervals too short. Few seeds make the seeds' part of an interval rough; one leaves it out.

    >>> [round(value, 3) for value in bootstrap(np.full((2, 50), 0.25))]
    [0.25, 0.25, 0.25]
    """
    seeds, images = _weights(*values.shape)
    means = np.einsum("rs,rs->r", seeds, images @ values.T)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))


@lru_cache(maxsize=8)
def _weights(seeds: int, images: int) -> tuple[np.ndarray, np.ndarray]:
    """Resampling weights (RESAMPLES, seeds) and (RESAMPLES, images); rows sum to 1. The same for
    every row of a table, so that differences between rows are paired."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> np.ndarray:
        return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n

    return draw(seeds), draw(images)
