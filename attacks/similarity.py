"""Structural similarity, as a metric and as a loss."""

import torch
from torch import Tensor

WINDOW, SIGMA = 11, 1.5


def ssim(x: Tensor, guess: Tensor) -> Tensor:
    """Structural similarity (N,) of Wang et al. (2004), in [-1, 1]; differentiable.

    Equal to scikit-image's ``structural_similarity`` with gaussian_weights=True, sigma=1.5,
    use_sample_covariance=False, data_range=1, averaged over channels: Gaussian windows of 11x11
    that lie wholly inside the image. The separable window is two small matrix products.

    Args:
        x: images (N, C, H, W); less precise ones than float32 are widened to it.
        guess: their reconstructions.

    Raises:
        ValueError: images smaller than the window.
    """
    height, width = x.shape[2:]
    if min(height, width) < WINDOW:
        raise ValueError(f"SSIM needs images of at least {WINDOW} pixels, not {height}x{width}")
    wide = torch.promote_types(torch.promote_types(x.dtype, guess.dtype), torch.float32)
    x, guess = x.to(wide), guess.to(wide)
    rows, columns = _band(height, x), _band(width, x).T

    def blur(image: Tensor) -> Tensor:
        return rows @ image @ columns

    with torch.autocast(x.device.type, enabled=False):  # variances are small differences
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
