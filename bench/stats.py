"""Means with intervals: a bootstrap over victims, attacks on them, and test images."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

RESAMPLES = 2000
PARTS = 400
DRAWS = RESAMPLES + 2 * PARTS
INFINITE = float("inf")
BOUNDS = {
    "accuracy": (0.0, 1.0),
    "mse": (0.0, INFINITE),
    "ssim": (-1.0, 1.0),
    "psnr": (-INFINITE, INFINITE),
    "fvu": (0.0, INFINITE),
}
"""What the metrics can be."""
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
    """Mean of ``values`` with a 95 % interval, see ``resample`` and ``interval``.

    Args:
        values: (seeds, images) or (seeds, repeats, images).

    >>> [round(value, 3) for value in bootstrap(np.full((2, 50), 0.25))]
    [0.25, 0.25, 0.25]
    """
    if values.ndim == 2:
        values = values[:, None]
    draws = resample(values[None])[0]
    return interval(values.mean(), draws, freedom(values.shape))


def columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """``name``, ``name_low`` and ``name_high`` for a table."""
    mean, low, high = estimate or (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def freedom(shape: tuple[int, ...]) -> tuple[int, int]:
    """Degrees of freedom of seeds (or of repeats, where there is one seed) and of images, for
    values of shape (seeds, repeats, images)."""
    seeds, repeats, images = shape
    return (seeds if seeds > 1 else repeats) - 1, images - 1


def resample(values: np.ndarray) -> np.ndarray:
    """Bootstrap means (k, DRAWS) of k tables of values (k, seeds, repeats, images).

    Seeds and images are crossed: every victim is scored on the same test images, so both are
    resampled independently of each other (Owen, 2007, "The pigeonhole bootstrap"); images drawn
    anew within each seed would count as many times as there are seeds. Repeats (attacks with
    other seeds on one victim) are nested within seeds: they follow the seed that is drawn, and
    are drawn themselves only where there is one seed (Davison and Hinkley, 1997, section 3.8:
    of nested levels only the highest with replacement). One seed with one repeat contributes
    nothing. A sample of n is too narrow by sqrt((n - 1) / n), which is made up for.

    The first RESAMPLES draws vary seeds and images, the next PARTS seeds alone, the last PARTS
    images alone: from these ``interval`` learns which of them matter, for a mean as for anything
    that is computed from means, draw by draw. The same resamples serve every table of a shape:
    what rows share cancels in their differences.
    """
    tables = values.mean(2) if values.shape[1] > 1 else values[:, 0]
    k, seeds, images = tables.shape
    of_seeds, of_images = _weights(seeds, images)
    by_image = tables.transpose(2, 1, 0).reshape(images, seeds * k)
    draws = np.empty((k, DRAWS))
    for start in range(0, DRAWS, PARTS):  # in blocks that stay in the processor's cache
        block = slice(start, start + PARTS)
        means = (of_images[block] @ by_image).reshape(PARTS, seeds, k)
        draws[:, block] = (of_seeds[block, None] @ means)[:, 0].T
    return draws


def interval(
    mean: float,
    draws: np.ndarray,
    freedom: tuple[int, int],
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """The 95 % interval of anything computed from means, from its draws.

    The central 95 % of the draws, stretched by Student's quantile over the normal one (Hesterberg,
    2015, "What teachers should know about the bootstrap") with Satterthwaite's degrees of freedom:
    one for two seeds that make all the difference, many where it is the images that do.

    Args:
        mean: the measured value.
        draws: (DRAWS,), computed from those of ``resample``; NaN ones do not count.
        freedom: see ``freedom``.
        bounds: what the value can be.
    """
    known = [part[np.isfinite(part)][None] for part in _parts(draws)]
    if not known[0].size:
        return Estimate(float(mean), float(mean), float(mean))
    return _stretched(np.array([mean]), known, freedom, [bounds])[0]


def intervals(
    means: np.ndarray,
    draws: np.ndarray,
    freedom: tuple[int, int],
    bounds: Sequence[tuple[float, float]],
) -> list[Estimate]:
    """``interval`` of k means (k,) from draws (k, DRAWS) without NaN, at once."""
    return _stretched(means, _parts(draws), freedom, bounds)


def _parts(draws: np.ndarray) -> list[np.ndarray]:
    """The draws (..., DRAWS) that vary both, seeds alone, images alone."""
    return np.split(draws, [RESAMPLES, RESAMPLES + PARTS], axis=-1)


def _stretched(
    means: np.ndarray,
    parts: Sequence[np.ndarray],
    freedom: tuple[int, int],
    bounds: Sequence[tuple[float, float]],
) -> list[Estimate]:
    both, *alone = parts
    known = [(part.var(1), n) for part, n in zip(alone, freedom, strict=True) if n and part.size]
    total = np.zeros(len(means)) + sum(variance for variance, _ in known)
    squares = np.zeros(len(means)) + sum(variance**2 / n for variance, n in known)
    varied = squares > 0
    n = np.divide(total**2, squares, out=np.ones(len(means)), where=varied)
    quantile = (1 + LEVEL) / 2
    stretch = np.where(varied, stdtrit(n, quantile) / ndtri(quantile), 1.0)
    ends = np.quantile(both, [1 - quantile, quantile], axis=1)
    low, high = np.clip(means + stretch * (ends - means), *np.transpose(bounds)[:, None])
    return [Estimate(*each) for each in np.transpose([means, low, high]).tolist()]


@lru_cache(maxsize=2)
def _weights(seeds: int, images: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (DRAWS, seeds) and (DRAWS, images); rows sum to 1."""
    rng = np.random.default_rng(0)

    def draw(n: int, varied: int, start: int) -> np.ndarray:
        weights = np.full((DRAWS, n), 1 / n)
        for begin, size in ((0, RESAMPLES), (start, varied)):
            drawn = rng.multinomial(n, np.full(n, 1 / n), size=size) / n
            weights[begin : begin + size] += (n / max(n - 1, 1)) ** 0.5 * (drawn - 1 / n)
        return weights

    return draw(seeds, PARTS, RESAMPLES), draw(images, PARTS, RESAMPLES + PARTS)
