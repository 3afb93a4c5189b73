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
    return bootstrap_all(values[None])[0]


def bootstrap_all(values: np.ndarray) -> list[Estimate]:
    """``bootstrap`` of each of ``values`` (k, seeds, images), with the same resamples."""
    k, seeds, images = values.shape
    of_seeds, of_images = _weights(seeds, images)
    means = (of_images @ values.reshape(k * seeds, images).T).reshape(RESAMPLES, k, seeds)
    low, high = np.quantile(np.einsum("rs,rks->kr", of_seeds, means), [0.025, 0.975], axis=1)
    found = zip(values.mean((1, 2)), low, high, strict=True)
    return [Estimate(*map(float, each)) for each in found]


@lru_cache(maxsize=8)
def _weights(seeds: int, images: int) -> tuple[np.ndarray, np.ndarray]:
    """Resampling weights (RESAMPLES, seeds) and (RESAMPLES, images); rows sum to 1. The same for
    every row of a table, so that differences between rows are paired."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> np.ndarray:
        return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n

    return draw(seeds), draw(images)
