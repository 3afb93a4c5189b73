"""Peak signal-to-noise ratio."""

import numpy as np

from smashbench.bench.experiment.metrics.base import Metric


def psnr(error: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """10 log10(1 / MSE) in dB of mean squared errors on [0, 1]; at most 100 dB.

    >>> psnr(np.array([0.01, 0.0])).tolist()
    [20.0, 100.0]
    """
    found: np.ndarray = -10 * np.log10(np.maximum(error, 1e-10))
    return found


PSNR = Metric(
    name="psnr",
    label="PSNR",
    unit="dB",
    better="lower",
    bounds=(-float("inf"), float("inf")),
    digits=1,
    of="mse",
    derive=psnr,
    brief=False,
)
