"""Leaked bits: what a reconstruction tells of an image, counted axis by axis."""

from math import log
from typing import TYPE_CHECKING

from smashbench.bench.experiment.metrics.bands import spectrum
from smashbench.bench.experiment.metrics.collective import Collective

if TYPE_CHECKING:
    from torch import Tensor

ROUNDING = 1 / (12 * 255**2)
"""Error variance of a pixel in 8 bits: less is no further bit."""


def leaked_bits(x: "Tensor", guess: "Tensor") -> "Tensor":
    """Bits (N,) that reconstructions of images (N, C, H, W) tell, whose mean is

        sum over axes k of max(0, -1/2 log2(error_k / variance_k)),

    the information that a Gaussian variable with independent axes must give away for such errors
    (Cover and Thomas, 2006, theorem 10.3.3). The value of one image is the sum's linear part, so
    that intervals are those of the sum: on each axis that counts the bits, and (its share of the
    variance - its share of the error) / (2 ln 2). It may be negative.

    Axes are those of the discrete cosine transform, over channels, too, instead of principal ones,
    which would change with the images; correlations that it leaves are counted twice. Errors are
    at least those of 8 bits.
    """
    import torch  # here: reports need no PyTorch

    error, variance = (spectrum(each).square().flatten(1) for each in (guess - x, x - x.mean(0)))
    errors, variances = error.mean(0).clamp_min(ROUNDING), variance.mean(0)
    counts = variances > errors
    error, variance = error[:, counts], variance[:, counts]
    errors, variances = errors[counts], variances[counts]
    shares = (variance / variances).sum(1) - (error / errors).sum(1)
    floored = (errors - error.mean(0)).div(errors).sum()  # of axes without an error there is none
    told = 0.5 * torch.log2(variances / errors).sum()
    values: Tensor = told + (shares - floored) / (2 * log(2))
    return values


LEAKED_BITS = Collective(
    name="leaked_bits",
    label="leaked bits",
    unit="per image",
    better="lower",
    bounds=(-float("inf"), float("inf")),
    digits=0,
    score=leaked_bits,
    brief=False,
)
