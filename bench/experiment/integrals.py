"""The best possible reconstruction where images have one or two dimensions and the encoder bends:
by numerical integration."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from smashbench.attacks.base import require_memory
from smashbench.datasets import Prior

REACH, STEPS = 5.0, 201
"""Standard deviations to each side that a grid reaches, and points along a dimension."""
TOLERANCE = 2e-3
"""Relative root mean square by which half as many points may move the guesses."""
CHUNK = 100
"""Releases at once."""


def integrated_mean(
    prior: Prior, release: Callable[[Tensor], Tensor], noise: float, z: Tensor
) -> Tensor | None:
    """E[x | z] (N, P), float64, for x from a mixture of Gaussians of one or two dimensions each and
    z = f(x) + N(0, noise^2).

    The posterior is summed over a grid of every component, and over every second point of it. If
    the two differ, the grid is too coarse for so little noise.

    Args:
        prior: of the images, flattened.
        release: f, of images (n, P).
        noise: above 0.
        z: releases (N, D).

    Returns:
        None where images have more dimensions, or the grid is too coarse.

    Raises:
        OversizedError: the grid does not fit in memory.
    """
    grids = [_grid(*component) for component in zip(*prior, strict=True)]
    if any(grid is None for grid in grids):
        return None
    points = [grid for grid in grids if grid is not None]
    x, weight, every_second = (torch.cat(each).to(z.device) for each in zip(*points, strict=True))
    log_prior = weight.log()
    require_memory(8 * len(x) * (x.shape[1] + z.shape[1] + 3 * CHUNK), f"a grid of {len(x)} images")
    features = torch.cat([release(part.float()).double() for part in x.split(10_000)])
    fine, coarse = [], []
    for part in _likelihoods(z.double(), features, noise):
        posterior = part + log_prior
        fine.append(posterior.softmax(1) @ x)
        coarse.append(posterior[:, every_second].softmax(1) @ x[every_second])
    guess = torch.cat(fine)
    moved = (torch.cat(coarse) - guess).square().mean().sqrt()
    spread = (guess - guess.mean(0)).square().mean().sqrt()
    return guess if moved <= TOLERANCE * spread else None


def _likelihoods(z: Tensor, features: Tensor, noise: float) -> Iterator[Tensor]:
    """Logarithms (n, grid) of the density of chunks of releases, up to a constant."""
    centre = features.mean(0)
    for part in z.split(CHUNK):
        yield torch.cdist(part - centre, features - centre).square() / (-2 * noise**2)


def _grid(weight: Tensor, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Images (n, P), their share of the prior (n,), and which are every second point along each
    dimension (n,); None where there are more than two dimensions."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > 1e-9 * values[-1]
    if not 1 <= int(kept.sum()) <= 2:
        return None
    line = torch.linspace(-REACH, REACH, STEPS, dtype=torch.float64)
    code = torch.cartesian_prod(*[line] * int(kept.sum())).view(STEPS ** int(kept.sum()), -1)
    density = (-code.square().sum(1) / 2).softmax(0)
    number = torch.arange(STEPS) % 2 == 0
    second = torch.cartesian_prod(*[number] * code.shape[1]).view(len(code), -1).all(1)
    images = mean + (code * values[kept].sqrt()) @ vectors[:, kept].T
    return images, weight * density, second
