"""Mean squared error."""

from typing import TYPE_CHECKING

from smashbench.bench.experiment.metrics.base import Metric

if TYPE_CHECKING:
    from torch import Tensor


def mse(x: "Tensor", guess: "Tensor") -> "Tensor":
    """Mean squared error (N,) over all pixels and channels of (N, C, H, W) images in [0, 1].

    >>> import torch
    >>> float(mse(torch.zeros(1, 3, 4, 4), torch.full((1, 3, 4, 4), 0.5)))
    0.25
    """
    return (x - guess).square().flatten(1).mean(1)


MSE = Metric(
    name="mse", label="MSE", better="higher", bounds=(0.0, float("inf")), digits=4, score=mse
)
