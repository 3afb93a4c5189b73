"""Reconstruction metrics on [0, 1] images: per image, then averaged by the caller."""

from torch import Tensor

from attacks import similarity

VERSION = 1
"""Raised when a metric changes: scores of different versions are not comparable."""


def mse(x: Tensor, guess: Tensor) -> Tensor:
    """Mean squared error (N,) over all pixels and channels of (N, C, H, W) images in [0, 1].

    >>> import torch
    >>> float(mse(torch.zeros(1, 3, 4, 4), torch.full((1, 3, 4, 4), 0.5)))
    0.25
    """
    _check(x, guess)
    return (x - guess).square().flatten(1).mean(1)


def psnr(x: Tensor, guess: Tensor) -> Tensor:
    """Peak signal-to-noise ratio (N,) in dB, 10 log10(1 / MSE); capped at 100 dB.

    >>> import torch
    >>> float(psnr(torch.zeros(1, 3, 4, 4), torch.full((1, 3, 4, 4), 0.1)))
    20.0
    """
    return psnr_of(mse(x, guess))


def psnr_of(error: Tensor) -> Tensor:
    """PSNR in dB of mean squared errors on [0, 1]; capped at 100 dB."""
    return -10 * error.clamp_min(1e-10).log10()


def ssim(x: Tensor, guess: Tensor) -> Tensor:
    """Structural similarity (N,), see ``attacks.similarity.ssim``.

    Raises:
        ValueError: pixels outside [0, 1], or images smaller than the window of 11 pixels.
    """
    _check(x, guess)
    return similarity.ssim(x, guess)


def _check(x: Tensor, guess: Tensor) -> None:
    if x.shape != guess.shape or x.ndim != 4:
        raise ValueError(f"expected two (N, C, H, W) batches, got {x.shape} and {guess.shape}")
    for name, images in (("original", x), ("reconstruction", guess)):
        low, high = images.min(), images.max()
        if not (low >= 0 and high <= 1):  # NaN fails too
            raise ValueError(f"{name} pixels span [{low:.3g}, {high:.3g}]; clamp them to [0, 1]")
