"""Intervals: of means, and by a bootstrap of what is computed from means, over victims (seeds),
attacks on them, and test images or the groups that these come in."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from smashbench.bench.report.quantiles import (
    NORMAL,
    QUANTILE,
    Freedom,
    behrens_fisher,
    without_exception,
)

RESAMPLES = 2000
PARTS = 400
ROLES = ("control", "baseline", "defense")
"""What rows are on a board: those of each have trainings of their own."""
DRAWS = RESAMPLES + (len(ROLES) + 1) * PARTS
Compared = tuple[float, np.ndarray, Freedom]
"""A measured value, its draws and their degrees of freedom."""
Key = TypeVar("Key")


class Estimate(NamedTuple):
    """A mean and its 95 % interval; NaN where nothing was measured."""

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

    With s the sample standard deviations of the means of seeds, of the means of images, and of
    what neither explains, the square of the standard error is s_seeds^2 / seeds + s_images^2 /
    images - s_rest^2 / (seeds images) (two-way random effects; Owen, 2007, section 3), and at least
    each of the first two. The interval is that many times the quantile of Behrens and Fisher to
    both sides (see ``behrens_fisher``): wide where two seeds make all the difference. Where all
    values are the most, or the least, that a mean can be, it ends where as many images (or groups)
    would still be so in one of forty samples (``without_exception``).

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
    variance = _variance(by_seed, by_image, by_both)
    half = behrens_fisher(by_seed, variance, freedom(values.shape[1:])) * np.sqrt(variance)
    middle, limits = mean[:, 0, 0], np.array(bounds or [(-np.inf, np.inf)]).T
    low, high = (np.clip(middle + side, *limits) for side in (-half, half))
    if bounds:
        low, high = without_exception(middle, low, high, limits, images)
    return [Estimate(*each) for each in np.transpose([middle, low, high]).tolist()]


def _variance(by_seed: Any, by_image: Any, by_both: Any) -> Any:
    """Of a mean. The contributions of seeds and of images both have that of the rest in them; it
    counts once."""
    return np.maximum(by_seed + by_image - by_both, np.maximum(by_seed, by_image))


def _by_seed(values: np.ndarray) -> np.ndarray:
    """Tables (k, seeds, images): repeats follow their seed, or stand for seeds where there is
    one."""
    return values.mean(2) if values.shape[1] > 1 else values[:, 0]


def columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """``name``, ``name_low`` and ``name_high`` for a table."""
    return {name: estimate.mean if estimate else None, **ends(name, estimate)}


def ends(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """``name_low`` and ``name_high`` for a table."""
    _, low, high = estimate or (None, None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def freedom(shape: tuple[int, ...]) -> Freedom:
    """Degrees of freedom of seeds (or of repeats, where there is one seed) and of images, for
    values of shape (seeds, repeats, images)."""
    seeds, repeats, images = shape
    return (seeds if seeds > 1 else repeats) - 1, images - 1


def resample(values: np.ndarray, role: str = "defense") -> np.ndarray:
    """Bootstrap means (k, DRAWS) of k tables of values (k, seeds, repeats, images).

    Seeds and images (or their groups, see ``by_group``) are crossed: every victim is scored on the
    same test images, so both are resampled independently of each other (Owen, 2007, "The pigeonhole
    bootstrap"); images drawn anew within each seed would count as many times as there are seeds.
    Repeats (attacks with other seeds on one victim) are nested within seeds: they follow the seed
    that is drawn, and are drawn themselves only where there is one seed (Davison and Hinkley, 1997,
    section 3.8: of nested levels only the highest with replacement). One seed with one repeat
    contributes nothing. A sample of n is too narrow by sqrt((n - 1) / n), which is made up for.

    The resamples of images serve every table: what rows share cancels in their differences. Those
    of seeds serve the rows of one role: strengths and variants of a defense may begin with the same
    weights. Defenses, noise and undefended models have trainings of their own, and resamples.

    The first RESAMPLES draws vary seeds and images, the next PARTS the seeds of each of ``ROLES``
    in turn, the last PARTS images alone: from these ``interval`` learns which of them matter, for
    anything that is computed from means, draw by draw.
    """
    tables = _by_seed(values)
    _, seeds, images = tables.shape
    drawn = tables @ _of_images(images)
    plain = np.repeat(tables.mean(2, keepdims=True), len(ROLES) * PARTS, 2)
    means_of_seeds = np.concatenate([drawn[..., :RESAMPLES], plain, drawn[..., RESAMPLES:]], 2)
    return (means_of_seeds * _of_seeds(seeds, role)).sum(1)


def interval(
    mean: float,
    draws: np.ndarray,
    freedom: Freedom,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """The 95 % interval of anything computed from means, from its draws.

    From the mean to the ends of the central 95 % of the draws; of these the variance of what
    neither seeds nor images explain is taken out twice, since seeds alone and images alone have it,
    too; and stretched by the quantile of Behrens and Fisher over the normal one, for few seeds.
    Where the seeds of several roles matter, as those of a defense and of noise in their difference,
    their degrees of freedom are Satterthwaite's (1946; Welch, 1947).

    Args:
        mean: the measured value.
        draws: (DRAWS,), computed from those of ``resample``; NaN ones do not count.
        freedom: see ``freedom``; of the seeds of one row.
        bounds: what the value can be; the interval ends there.
    """
    return _bounded(mean, *_sides(mean, draws, freedom), bounds)


def _bounded(
    mean: float, sides: np.ndarray, stretch: float, bounds: tuple[float, float]
) -> Estimate:
    low, high = np.clip(mean + stretch * sides, *bounds)
    return Estimate(float(mean), min(float(low), float(mean)), max(float(high), float(mean)))


def _sides(
    mean: float, draws: np.ndarray, freedom: Freedom, level: float = QUANTILE
) -> tuple[np.ndarray, float]:
    """From the mean to the ends of the central 95 % of the draws, of the right variance; and the
    quantile at a level over the normal one of ``QUANTILE``."""
    both, of_roles, of_images = _parts(draws)
    both = both[np.isfinite(both)]
    if not both.size:
        return np.zeros(2), 1.0
    *by_role, by_image = _variances(np.vstack([of_roles, of_images]))
    by_seed, whole = sum(by_role), both.var()
    variance = _variance(by_seed, by_image, whole - by_seed - by_image)
    ends = np.quantile(both, [1 - QUANTILE, QUANTILE])
    scale = (variance / whole) ** 0.5 if whole else 1.0
    roles = by_seed**2 / sum(each**2 for each in by_role) if by_seed else 1.0
    free = roles * freedom[0], freedom[1]
    quantile = float(behrens_fisher(np.array(by_seed), np.array(variance), free, level))
    return scale * (ends - mean), quantile / NORMAL


def _variances(parts: np.ndarray) -> np.ndarray:
    """Of the draws (k, PARTS) that have a value; 0 where none has."""
    known = (part[np.isfinite(part)] for part in parts)
    return np.array([part.var() if part.size else 0.0 for part in known])


def jointly(
    compared: Mapping[Key, Compared], bounds: tuple[float, float] = (-np.inf, np.inf)
) -> dict[Key, Estimate]:
    """Intervals of several values that all hold at once with 95 % (min-P, Westfall and Young,
    1993; balanced, Beran, 1988).

    Values of several rows move together as far as images move them, which all rows share. What
    seeds do to them is independent: each row has trainings of its own, and two or three seeds could
    not tell otherwise. A draw of all values is their draw of images alone, each with a normal draw
    of its own for seeds. Each has a share of that value's draws that are as far
    out; the smallest share among all values of a draw is below some level in 5 % of the draws.
    Intervals are those of ``interval`` with quantiles at that level: at 5 % where all values move
    together, at least at 5 % over their number.

    Args:
        compared: each with its draws (DRAWS,) as ``interval`` takes them.
        bounds: what the values can be.
    """
    if not compared:
        return {}
    outside, rng = 2 * (1 - QUANTILE), np.random.default_rng(0)
    smallest = np.ones(RESAMPLES)
    for _, draws, _ in compared.values():
        _, of_roles, of_images = _parts(draws)
        own = _variances(of_roles).sum() ** 0.5 * rng.normal(size=RESAMPLES)
        drawn = np.resize(of_images, RESAMPLES) + own
        known = np.isfinite(drawn)
        order = np.sort(drawn[known])
        ranks = [np.searchsorted(order, drawn[known], side) for side in ("left", "right")]
        below = np.mean(ranks, axis=0) / max(len(order), 1)
        smallest[known] = np.minimum(smallest[known], 2 * np.minimum(below, 1 - below))
    level = 1 - max(float(np.quantile(smallest, outside)), outside / len(compared)) / 2
    return {
        key: _bounded(mean, *_sides(mean, draws, free, level), bounds)
        for key, (mean, draws, free) in compared.items()
    }


def _parts(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The draws (DRAWS,) that vary both, the seeds of each role alone (roles, PARTS), and images
    alone."""
    alone = draws[RESAMPLES:].reshape(-1, PARTS)
    return draws[:RESAMPLES], alone[:-1], alone[-1]


@lru_cache(maxsize=2)
def _of_images(images: int) -> np.ndarray:
    """Weights (images, RESAMPLES + PARTS); columns sum to 1."""
    return _weights(np.random.default_rng(0).normal(size=(RESAMPLES + PARTS, images)))


@lru_cache(maxsize=16)
def _of_seeds(seeds: int, role: str) -> np.ndarray:
    """Weights (seeds, DRAWS) for the rows of a role; columns sum to 1. They vary where all do and
    where those of the role do, with exactly the variance that they are drawn from: seeds are few,
    and matter most."""
    number = ROLES.index(role)
    rng = np.random.default_rng(1 + number)
    weights = np.full((seeds, DRAWS), 1 / seeds)
    for start, count in ((0, RESAMPLES), (RESAMPLES + number * PARTS, PARTS)):
        drawn = rng.normal(size=(count, seeds))
        left, _, right = np.linalg.svd(drawn - drawn.mean(0), full_matrices=False)
        weights[:, start : start + count] = _weights(count**0.5 * left @ right)
    return weights


def _weights(drawn: np.ndarray) -> np.ndarray:
    """Weights (n, columns) around 1 / n, from normal draws (columns, n); columns sum to 1."""
    n = drawn.shape[1]
    away = (drawn - drawn.mean(1, keepdims=True)) / n
    return np.ascontiguousarray((1 / n + (n / max(n - 1, 1)) ** 0.5 * away).T)
