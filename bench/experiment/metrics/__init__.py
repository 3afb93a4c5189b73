"""The metrics: one per file, listed in ``METRICS``. None of it imports PyTorch."""

from smashbench.bench.experiment.metrics.base import Metric
from smashbench.bench.experiment.metrics.fvu import FVU
from smashbench.bench.experiment.metrics.mse import MSE
from smashbench.bench.experiment.metrics.psnr import PSNR
from smashbench.bench.experiment.metrics.ssim import SSIM

METRICS: dict[str, Metric] = {metric.name: metric for metric in (MSE, SSIM, PSNR, FVU)}

ACCURACY = Metric(
    name="accuracy", label="test accuracy", better="higher", bounds=(0.0, 1.0), digits=3
)
"""Of victims, not of reconstructions: what a defense costs."""


__all__ = ["ACCURACY", "METRICS", "Metric"]
