"""Reconstruction metrics on [0, 1] images: per image, then averaged by the caller."""

import torch
from torch import Tensor

WINDOW, SIGMA = 11, 1.5


def mse(x: Tensor, guess: Tensor) -> Tensor:
    """Mean squared error (N,) over all pixels and channels of (N, C, H, W) images in [0, 1].

    >>> float(mse(torch.zeros(1, 3, 4, 4), torch.full((1, 3, 4, 4), 0.5)))
    0.25
    """
    _check(x, guess)
    return (x - guess).square().flatten(1).mean(1)


def psnr(x: Tensor, guess: Tensor) -> Tensor:
    """Peak signal-to-noise ratio (N,) in dB, 10 log10(1 / MSE); capped at 100 dB.

    >>> float(psnr(torch.zeros(1, 3, 4, 4), torch.full((1, 3, 4, 4), 0.1)))
    20.0
    """
    return psnr_of(mse(x, guess))


def psnr_of(error: Tensor) -> Tensor:
    """PSNR in dB of mean squared errors on [0, 1]; capped at 100 dB."""
    return -10 * error.clamp_min(1e-10).log10()


def ssim(x: Tensor, guess: Tensor) -> Tensor:
    """Structural similarity (N,) of Wang et al. (2004), in [-1, 1].

    Equal to scikit-image's ``structural_similarity`` with gaussian_weights=True, sigma=1.5,
    use_sample_covariance=False, data_range=1, averaged over channels: Gaussian windows of 11x11
    that lie wholly inside the image. The separable window is two small matrix products.

    Raises:
        ValueError: images smaller than the window.
    """
    _check(x, guess)
    height, width = x.shape[2:]
    if min(height, width) < WINDOW:
        raise ValueError(f"SSIM needs images of at least {WINDOW} pixels, not {height}x{width}")
    rows, columns = _band(height, x), _band(width, x).T

    def blur(image: Tensor) -> Tensor:
        return rows @ image @ columns

    mx, my = blur(x), blur(guess)
    vx, vy = blur(x * x) - mx * mx, blur(guess * guess) - my * my
    cov = blur(x * guess) - mx * my
    c1, c2 = 0.01**2, 0.03**2
    similarity = (2 * mx * my + c1) * (2 * cov + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2))
    return similarity.flatten(1).mean(1)


def _band(n: int, like: Tensor) -> Tensor:
    """(n - 10, n): each row holds the Gaussian window at one valid position."""
    offsets = torch.arange(n)[None] - torch.arange(n - WINDOW + 1)[:, None] - WINDOW // 2
    weights = torch.exp(-0.5 * (offsets.double() / SIGMA) ** 2)
    weights = weights.masked_fill(offsets.abs() > WINDOW // 2, 0)
    return (weights / weights.sum(1, keepdim=True)).to(like)


def _check(x: Tensor, guess: Tensor) -> None:
    if x.shape != guess.shape or x.ndim != 4:
        raise ValueError(f"expected two (N, C, H, W) batches, got {x.shape} and {guess.shape}")
    for name, images in (("original", x), ("reconstruction", guess)):
        low, high = images.min(), images.max()
        if not (low >= 0 and high <= 1):  # NaN fails too
            raise ValueError(f"{name} pixels span [{low:.3g}, {high:.3g}]; clamp them to [0, 1]")
