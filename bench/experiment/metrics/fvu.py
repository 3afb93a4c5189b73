"""Fraction of variance unexplained."""

import numpy as np

from smashbench.bench.experiment.metrics.base import Metric


def fvu(error: np.ndarray, floor: float) -> np.ndarray:
    """Errors over that of the mean image of the training set: 0 is a perfect reconstruction, 1 is
    nothing."""
    return error / floor


FVU = Metric(
    name="fvu",
    label="FVU",
    better="higher",
    bounds=(0.0, float("inf")),
    digits=2,
    of="mse",
    derive=fvu,
    linear=True,
)
