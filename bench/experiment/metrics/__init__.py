"""The metrics: one per file, listed in ``METRICS``. None of it imports PyTorch."""

from smashbench.bench.experiment.metrics.bands import COARSE_FVU, FINE_FVU, MIDDLE_FVU
from smashbench.bench.experiment.metrics.base import Metric
from smashbench.bench.experiment.metrics.collective import Collective
from smashbench.bench.experiment.metrics.fvu import FVU
from smashbench.bench.experiment.metrics.leaked_bits import LEAKED_BITS
from smashbench.bench.experiment.metrics.least_protected import LEAST_PROTECTED
from smashbench.bench.experiment.metrics.mse import MSE
from smashbench.bench.experiment.metrics.psnr import PSNR
from smashbench.bench.experiment.metrics.recognised import RANK_1_FEATURES, RANK_5_FEATURES
from smashbench.bench.experiment.metrics.reidentified import RANK_1, RANK_5
from smashbench.bench.experiment.metrics.ssim import SSIM

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *(MSE, SSIM, PSNR, FVU),
        *(LEAST_PROTECTED, COARSE_FVU, MIDDLE_FVU, FINE_FVU),
        *(RANK_1, RANK_5, RANK_1_FEATURES, RANK_5_FEATURES, LEAKED_BITS),
    )
}

ACCURACY = Metric(
    name="accuracy", label="test accuracy", better="higher", bounds=(0.0, 1.0), digits=3
)
"""Of victims, not of reconstructions: what a defense costs."""


__all__ = ["ACCURACY", "METRICS", "Collective", "Metric"]
