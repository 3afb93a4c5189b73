"""Intervals: of means, and by a bootstrap of what is computed from means, over victims (seeds),
attacks on them, and test images."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

RESAMPLES = 2000
PARTS = 400
DRAWS = RESAMPLES + 2 * PARTS
QUANTILE = 0.975
NORMAL = ndtri(QUANTILE)


class Estimate(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def apart(self, other: "Estimate") -> bool:
        """Whether the intervals do not overlap."""
        return self.low > other.high or other.low > self.high


def means(
    values: np.ndarray, bounds: Sequence[tuple[float, float]] | None = None
) -> list[Estimate]:
    """Means of k tables of values with 95 % intervals.

    The standard error is the bootstrap's of ``resample``, which has a closed form for a mean: with
    s the sample standard deviations of the means of seeds, of the means of images, and of what
    neither explains, its square is s_seeds^2 / seeds + s_images^2 / images +
    s_rest^2 / (seeds images) (Owen, 2007). The interval is that many times Student's quantile to
    both sides, with Satterthwaite's degrees of freedom: one for two seeds that make all the
    difference, many where it is the images that do.

    Args:
        values: (k, seeds, repeats, images).
        bounds: what each mean can be; None for anything.

    >>> [round(value, 3) for value in means(np.full((1, 2, 1, 50), 0.25))[0]]
    [0.25, 0.25, 0.25]
    """
    tables = _by_seed(values)
    _, seeds, images = tables.shape
    mean = tables.mean((1, 2), keepdims=True)
    of_seeds, of_images = (tables.mean(axis, keepdims=True) - mean for axis in (2, 1))
    rest = tables - mean - of_seeds - of_images
    squares = ((part**2).sum((1, 2)) for part in (of_seeds, of_images, rest))
    over = max(seeds * (seeds - 1), 1), max(images * (images - 1), 1)
    by_seed, by_image, by_both = (
        square / n for square, n in zip(squares, (*over, over[0] * over[1]), strict=True)
    )
    quantile = _student([by_seed, by_image], freedom(values.shape[1:]))
    half = quantile * np.sqrt(by_seed + by_image + by_both)
    middle, limits = mean[:, 0, 0], np.array(bounds or [(-np.inf, np.inf)]).T
    ends = (np.clip(middle + side, *limits) for side in (-half, half))
    return [Estimate(*each) for each in np.transpose([middle, *ends]).tolist()]


def _by_seed(values: np.ndarray) -> np.ndarray:
    """Tables (k, seeds, images): repeats follow their seed, or stand for seeds where there is
    one."""
    tables: np.ndarray = values.mean(2) if values.shape[1] > 1 else values[:, 0]
    return tables


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
    images alone: from these ``interval`` learns which of them matter, for anything that is
    computed from means, draw by draw. The same resamples serve every table of a shape:
    what rows share cancels in their differences.
    """
    tables = _by_seed(values)
    of_seeds, of_images = _weights(*tables.shape[1:])
    draws: np.ndarray = ((tables @ of_images) * of_seeds).sum(1)
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
    both, *alone = (part[np.isfinite(part)] for part in _parts(draws))
    if not both.size:
        return Estimate(float(mean), float(mean), float(mean))
    stretch = _student([part.var() if part.size else 0.0 for part in alone], freedom) / NORMAL
    ends = np.quantile(both, [1 - QUANTILE, QUANTILE])
    low, high = np.clip(mean + stretch * (ends - mean), *bounds)
    return Estimate(float(mean), float(low), float(high))


def _parts(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The draws (..., DRAWS) that vary both, seeds alone, images alone."""
    alone = draws[..., RESAMPLES:]
    return draws[..., :RESAMPLES], alone[..., :PARTS], alone[..., PARTS:]


def _student(variances: Sequence[Any], freedom: tuple[int, int]) -> np.ndarray:
    """Student's quantile for the sum of two variances of so many degrees of freedom each, by
    Satterthwaite; the normal one where nothing varies."""
    known = [(variance, n) for variance, n in zip(variances, freedom, strict=True) if n]
    total = np.sum([variance for variance, _ in known], axis=0)
    squares = np.sum([variance**2 / n for variance, n in known], axis=0)
    n = np.divide(total**2, squares, out=np.full_like(total, np.inf), where=squares > 0)
    quantile: np.ndarray = stdtrit(n, QUANTILE)
    return quantile


@lru_cache(maxsize=2)
def _weights(seeds: int, images: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (seeds, DRAWS) and (images, DRAWS); columns sum to 1."""
    rng = np.random.default_rng(0)

    def draw(n: int, varied: int, start: int) -> np.ndarray:
        weights = np.full((DRAWS, n), 1 / n)
        for begin, size in ((0, RESAMPLES), (start, varied)):
            drawn = rng.multinomial(n, np.full(n, 1 / n), size=size) / n
            weights[begin : begin + size] += (n / max(n - 1, 1)) ** 0.5 * (drawn - 1 / n)
        return np.ascontiguousarray(weights.T)

    return draw(seeds, PARTS, RESAMPLES), draw(images, PARTS, RESAMPLES + PARTS)
