"""The images that are protected least."""

import numpy as np

from smashbench.bench.experiment.metrics.collective import Collective

SHARE = 0.05


def least_protected(error: np.ndarray, floor: float) -> np.ndarray:
    """The FVU of the 5 % of the images with the lowest error: values (..., N) whose mean it is,
    from errors (..., N), as q - max(q - error, 0) / .05 over the floor, with their 5 % quantile q
    (Rockafellar and Uryasev, 2000). That is linear in the images, so intervals hold.

    >>> errors = np.arange(1.0, 101.0)
    >>> float(least_protected(errors, 1.0).mean().round(3))  # of 1, 2, 3, 4, 5
    3.0
    """
    quantile = np.quantile(error, SHARE, axis=-1, keepdims=True, method="inverted_cdf")
    values: np.ndarray = quantile - np.maximum(quantile - error, 0) / SHARE
    return values / floor


LEAST_PROTECTED = Collective(
    name="fvu_worst_5",
    label="FVU, worst 5 %",
    better="higher",
    bounds=(-float("inf"), float("inf")),
    digits=2,
    of="mse",
    derive=least_protected,
    brief=False,
)
