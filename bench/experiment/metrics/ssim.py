"""Structural similarity."""

from typing import TYPE_CHECKING

from smashbench.bench.experiment.metrics.base import Metric

if TYPE_CHECKING:
    from torch import Tensor


def ssim(x: "Tensor", guess: "Tensor") -> "Tensor":
    """Structural similarity (N,), see ``smashbench.attacks.similarity.ssim``."""
    from smashbench.attacks import similarity  # here: reports need no PyTorch

    return similarity.ssim(x, guess)


SSIM = Metric(name="ssim", label="SSIM", better="lower", bounds=(-1.0, 1.0), digits=2, score=ssim)
