"""Augmentation of training images, a batch at once."""

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

from smashbench.bench.experiment.training import Training


def augment(x: Tensor, training: Training, flips: Tensor | None = None) -> Tensor:
    """Flips images (N, C, H, W), moves and turns each by its own draw.

    Args:
        x: images.
        training: how.
        flips: which (N,) to flip, where that is not drawn here.
    """
    n = len(x)
    if training.flip == "random":
        flips = torch.rand(n, 1, 1, 1, device=x.device) < 0.5
    if flips is not None:
        x = torch.where(flips.view(n, 1, 1, 1), x.flip(3), x)
    if training.shift:
        x = _shifted(x, training)
    if training.rotation:
        x = rotate(x, (2 * torch.rand(n, device=x.device) - 1) * training.rotation)
    return x


def _shifted(x: Tensor, training: Training) -> Tensor:
    n, _, h, w = x.shape
    shift, mode = training.shift, "reflect" if training.border == "reflect" else "constant"
    x = pad(x, [shift] * 4, mode=mode).permute(0, 2, 3, 1)
    top, left = torch.randint(2 * shift + 1, (2, n, 1), device=x.device)
    rows = top + torch.arange(h, device=x.device)
    columns = left + torch.arange(w, device=x.device)
    image = torch.arange(n, device=x.device)[:, None, None]
    return x[image, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)


def rotate(x: Tensor, degrees: Tensor) -> Tensor:
    """Images (N, C, H, W) turned counterclockwise around their centres by ``degrees`` (N,):
    nearest pixels, black beyond the border, like torchvision's ``rotate``."""
    _, _, h, w = x.shape
    cos, sin = degrees.deg2rad().cos(), degrees.deg2rad().sin()
    zero = torch.zeros_like(cos)
    rows = torch.stack([cos, -sin * h / w, zero, sin * w / h, cos, zero], 1)
    grid = affine_grid(rows.view(-1, 2, 3), list(x.shape), align_corners=False)
    return grid_sample(x, grid, mode="nearest", align_corners=False)
