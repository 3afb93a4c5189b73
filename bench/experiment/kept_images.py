"""Which test images and reconstructions are kept to be seen. The data alone decide it."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from smashbench.bench.experiment.results import USERS
from smashbench.datasets import Split

SAMPLES = 8
"""Test images of which every attack's reconstructions are kept."""
COARSE, FINE = 2, 8
"""Sides of two thumbnails: what the second shows and the first does not is seen at a glance."""
FIRST, STEP = 0.9, 0.1
"""Quantile of that contrast within its class at which the first image of a class stands, and how
far below it the next one of the same class does."""
FLAT = 1e-4
"""Variance of the pixels of an image below which it shows nothing."""


def chosen_images(split: Split) -> Tensor:
    """Indices (SAMPLES,) of test images that show something, the clearest first.

    Of classes evenly spread over the labels each one image, by its contrast, the variance within
    its 8x8 thumbnail less that within its 2x2 thumbnail, mean over the channels: the one at the
    90 % quantile of its class. Where there are fewer classes than images, the next ones of a class
    stand at 80 %, 70 % and so on. So they depend on the test images alone, and nobody picks them.
    """
    x, y = split.test.x, split.test.y
    small = [adaptive_avg_pool2d(x, side).flatten(2) for side in (FINE, COARSE)]
    fine, coarse = (each.var(2, correction=0).mean(1) for each in small)
    contrast = fine - coarse
    present = y.unique()
    chosen = []
    for n in range(SAMPLES):
        again, place = divmod(n, len(present))
        if len(present) > SAMPLES:
            again, place = 0, n * len(present) // SAMPLES
        members = (y == present[place]).nonzero()[:, 0]
        order = members[contrast[members].argsort(stable=True)]
        quantile = max(FIRST - STEP * again, 0.0)
        chosen.append(order[round(quantile * (len(order) - 1))])
    indices = torch.stack(chosen)
    return indices[contrast[indices].argsort(descending=True, stable=True)]


def samples_of_images(split: Split) -> dict[str, Tensor]:
    """The test images that are kept, uint8."""
    return {"samples": pixels(split.test.x[chosen_images(split)])}


def samples_of(split: Split, guess: Tensor, errors: np.ndarray) -> dict[str, Tensor]:
    """Reconstructions of the chosen images, and of the users who fare badly and as usual, uint8.

    Args:
        split: the images.
        guess: reconstructions (N, C, H, W) of the test images.
        errors: (N,) mean squared errors.
    """
    x = split.test.x
    contrast = x.flatten(1).var(1).clamp_min(FLAT)
    order = (torch.from_numpy(errors).to(x.device) / contrast).argsort()
    users = order[[round(q * (len(guess) - 1)) for q in USERS]]
    kept = {"samples": guess[chosen_images(split)], "users": guess[users]}
    return {name: pixels(images) for name, images in (kept | {"users_original": x[users]}).items()}


def pixels(images: Tensor) -> Tensor:
    """Images in [0, 1] as uint8."""
    return (images * 255).round().to(torch.uint8).cpu().contiguous()
