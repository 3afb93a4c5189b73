"""Re-identification: whether the reconstruction tells which image it was."""

from typing import TYPE_CHECKING

from smashbench.bench.experiment.metrics.collective import Collective

if TYPE_CHECKING:
    from torch import Tensor

AT_ONCE = 1000
"""Reconstructions that are compared with all images at once: of 10,000, 40 MB."""


def rank_1(x: "Tensor", guess: "Tensor") -> "Tensor":
    """Whether (N,), 0 or 1, the true one of N images x (N, C, H, W) is the nearest to its
    reconstruction, by the distance of pixels. Chance is 1 / N; equal images count as one, so that
    of k of them each has a chance of k / N.

    >>> import torch
    >>> x = torch.tensor([0.0, 0.5, 1.0]).view(3, 1, 1, 1)
    >>> rank_1(x, x.flip(0)).tolist()
    [0.0, 1.0, 0.0]
    """
    return (_nearer(x, guess) < 1).float()


def rank_5(x: "Tensor", guess: "Tensor") -> "Tensor":
    """Whether (N,), 0 or 1, the true image is among the five nearest: cumulative match at rank 5
    (Phillips et al., 2000). Chance is 5 / N."""
    return (_nearer(x, guess) < 5).float()


def _nearer(x: "Tensor", guess: "Tensor") -> "Tensor":
    """How many (N,) of the images x are nearer to each reconstruction than the true one."""
    import torch  # here: reports need no PyTorch

    centre = x.mean(0)
    images, made = (x - centre).flatten(1), (guess - centre).flatten(1)
    found = []
    for start in range(0, len(x), AT_ONCE):
        away = torch.cdist(made[start : start + AT_ONCE], images)
        true = away[:, start:].diagonal()
        found.append((away < true[:, None]).sum(1))
    return torch.cat(found)


RANK_1 = Collective(
    name="rank_1",
    label="rank-1",
    better="lower",
    bounds=(0.0, 1.0),
    digits=2,
    score=rank_1,
)
RANK_5 = Collective(
    name="rank_5",
    label="rank-5",
    better="lower",
    bounds=(0.0, 1.0),
    digits=2,
    score=rank_5,
    brief=False,
)
