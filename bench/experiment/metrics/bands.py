"""Fraction of variance unexplained by frequency: what of an image is seen, outlines or details."""

from math import pi, sqrt
from typing import TYPE_CHECKING

from smashbench.bench.experiment.metrics.collective import Collective

if TYPE_CHECKING:
    from torch import Tensor

COARSE, FINE = 1 / 8, 1 / 4
"""Ends of the bands, as shares of the highest frequency: 4x4 and 8x8 pixels hold what is lower."""


def spectrum(x: "Tensor") -> "Tensor":
    """Coefficients (N, C, H, W) of images in the orthonormal basis of the discrete cosine
    transform II (Ahmed et al., 1974), over rows, columns and channels; frequencies rise with the
    index. Its axes are close to the principal ones of natural images, and need no data.

    >>> import torch
    >>> spectrum(torch.full((1, 1, 2, 2), 0.5)).abs().round(decimals=3).flatten().tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    for axis in (1, 2, 3):
        basis = _cosines(x.shape[axis]).to(x)
        x = (x.movedim(axis, -1) @ basis.mT).movedim(-1, axis)
    return x


def _cosines(n: int) -> "Tensor":
    """The orthonormal basis (n, n), a frequency in each row."""
    import torch  # here: reports need no PyTorch

    place, frequency = torch.arange(n).double() + 0.5, torch.arange(n).double()
    rows = torch.cos(pi / n * frequency[:, None] * place) * sqrt(2 / n)
    rows[0] /= sqrt(2)
    return rows


def fvu_between(x: "Tensor", guess: "Tensor", band: tuple[float, float]) -> "Tensor":
    """Values (N,) whose mean is the FVU of a band of frequencies: the squared error of
    reconstructions of images (N, C, H, W) in it, over the variance of the images in it about their
    own mean image. 1 for that, 0 in a band without variance.

    The value of an image is the ratio's linear part, FVU + (error_i - FVU variance_i) / variance
    (Cochran, 1977, section 2.11), so that intervals are those of the ratio; it may be negative.

    Args:
        x: images.
        guess: reconstructions.
        band: its ends, as shares of the highest frequency: the greater one of the indices over the
            image's size, the lower end included and the upper one not.
    """
    import torch

    index = [torch.arange(n, device=x.device) / n for n in x.shape[2:]]
    frequency = torch.maximum(index[0][:, None], index[1])
    inside = (frequency >= band[0]) & (frequency < band[1])
    error, variance = (
        spectrum(each)[..., inside].square().flatten(1).sum(1)
        for each in (guess - x, x - x.mean(0))
    )
    mean = variance.mean()
    fvu = error.mean() / mean
    return torch.where(mean > 0, fvu + (error - fvu * variance) / mean, 0)


def _of(name: str, label: str, band: tuple[float, float]) -> Collective:
    def score(x: "Tensor", guess: "Tensor") -> "Tensor":
        return fvu_between(x, guess, band)

    return Collective(
        name=f"fvu_{name}",
        label=f"FVU, {label}",
        better="higher",
        bounds=(-float("inf"), float("inf")),
        digits=2,
        score=score,
        brief=False,
    )


COARSE_FVU = _of("coarse", "coarse", (0.0, COARSE))
"""Of what 4x4 pixels of 32x32 hold."""
MIDDLE_FVU = _of("middle", "middle", (COARSE, FINE))
"""Of what 8x8 pixels hold beyond that."""
FINE_FVU = _of("fine", "fine", (FINE, 1.0))
"""Of the rest: edges and texture."""
