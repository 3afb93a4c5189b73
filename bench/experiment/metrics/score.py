"""Scoring reconstructions: every metric, per image, after one check of what all of them need."""

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from smashbench.bench.experiment.metrics.base import Metric
from smashbench.bench.experiment.results import QUANTILES, SLACK, Summary


def scores_of(x: Tensor, guess: Tensor, metrics: Mapping[str, Metric]) -> dict[str, Tensor]:
    """Every metric (N,) that is scored, of reconstructions ``guess`` of images x (N, C, H, W) in
    [0, 1].

    Raises:
        ValueError: shapes differ, or pixels lie outside [0, 1]; a metric does not give a finite
            value in its bounds for each image.
    """
    check(x, guess)
    found = {}
    for name, metric in metrics.items():
        if metric.score:
            values = metric.score(x.clone(), guess.clone())  # some work in place
            found[name] = _sound(metric, values, len(x))
    return found


def _sound(metric: Metric, values: Tensor, images: int) -> Tensor:
    if not isinstance(values, Tensor) or values.shape != (images,):
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"metric {metric.name!r} gives {shape} instead of ({images},) values")
    low, high = metric.bounds
    if not (values.min() >= low - SLACK and values.max() <= high + SLACK):  # NaN fails too
        span = f"[{values.min():.3g}, {values.max():.3g}]"
        raise ValueError(f"metric {metric.name!r} gives values {span} outside [{low:g}, {high:g}]")
    return values


def check(x: Tensor, guess: Tensor) -> None:
    """Refuses what is no pair of image batches.

    Raises:
        ValueError: shapes differ or are not (N, C, H, W), or pixels lie outside [0, 1].
    """
    if x.shape != guess.shape or x.ndim != 4:
        raise ValueError(f"expected two (N, C, H, W) batches, got {x.shape} and {guess.shape}")
    for name, images in (("original", x), ("reconstruction", guess)):
        low, high = images.min(), images.max()
        if not (low >= 0 and high <= 1):  # NaN fails too
            raise ValueError(f"{name} pixels span [{low:.3g}, {high:.3g}]; clamp them to [0, 1]")


def summary_of(values: np.ndarray) -> Summary:
    """Of values (N,), one per image."""
    values = values.astype(np.float64)
    found = np.quantile(values, QUANTILES)
    named = {f"q{round(100 * q):02d}": float(v) for q, v in zip(QUANTILES, found, strict=True)}
    return Summary(mean=float(values.mean()), std=float(values.std()), **named)
