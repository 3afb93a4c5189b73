"""Gaussian noise that is shaped by what the features of a class have in common."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Defense, full_precision

SMALLEST = 1e-10
"""Least variance of a direction."""


class MatchedNoise(Defense):
    """Water-filled noise: as much as ``noise`` in all, and more of it in directions in which the
    features of one class differ and the classes do not.

    z~ = z + U S^(1/2) n, n ~ N(0, I), with U the eigenvectors of the covariance W within classes, w
    its eigenvalues, b = diag(U' B U) for the covariance B between classes, and the diagonal S that
    minimises

        1/2 sum_d log(1 + w_d / S_d) + mu / 2 sum_d p_d S_d,    p_d = (w_d + b_d) / w_d,

    that is S_d = (sqrt(w_d^2 + 4 w_d / (mu p_d)) - w_d) / 2, with mu such that mean S = noise^2.
    The first term bounds I(x; z~ | y). The price p is 1 where classes do not differ: with B = 0 it
    is the classical allocation of a jammer to parallel Gaussian channels, which no other noise of
    that power beats if features are Gaussian. Ours: the natural baseline of methods that learn
    their noise. Refitted before every epoch on the features of the one before.

    Args:
        noise: standard deviation, root mean square over the features.
    """

    strength = "noise"
    group = "noise"
    gaussian = False  # it is not independent
    refit = "epoch"
    root: Tensor

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, noise: Annotated[float, Ge(0)] = 0.1
    ) -> None:
        super().__init__(shape, classes)
        self.noise = noise
        self.register_buffer("root", noise * torch.eye(torch.Size(shape).numel()))

    def perturb(self, z: Tensor) -> Tensor:
        if not self.noise:
            return z
        with full_precision(z) as z:
            return z + (torch.randn_like(z).flatten(1) @ self.root).view_as(z)

    @property
    def wants_refresh(self) -> bool:
        return self.noise > 0

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        z = features.flatten(1).double()
        finite = z.isfinite().all(1)
        z, labels = z[finite], labels[finite]
        if len(z) < 2:
            return
        z = z - z.mean(0)
        member = (torch.arange(self.classes, device=z.device)[:, None] == labels).to(z.dtype)
        count = member.sum(1, keepdim=True)
        means = (member @ z) / count.clamp_min(1)
        within = z - means[labels]
        w, u = torch.linalg.eigh(within.T @ within / len(z))
        w = w.clamp_min(SMALLEST)
        b = ((means @ u).square() * count / len(z)).sum(0)
        shape = water_filled(w, b, self.noise**2)
        self.root.copy_((u * shape.sqrt()) @ u.T)


def water_filled(w: Tensor, b: Tensor, power: float) -> Tensor:
    """The variances S (D,) of the noise, of mean ``power``, for variances within (D,), positive,
    and between classes (D,). float64."""
    price = (w + b) / w
    low, high = w.new_full((), -60.0), w.new_full((), 60.0)  # of log 1/mu
    for _ in range(100):
        level = (low + high) / 2
        above = _at(w, price, level).mean() > power
        low, high = torch.where(above, low, level), torch.where(above, level, high)
    s = _at(w, price, level)
    return s * (power / s.mean())


def _at(w: Tensor, price: Tensor, level: Tensor) -> Tensor:
    grown = 4 * level.exp() / price
    return w * grown / (2 * ((w.square() + w * grown).sqrt() + w))  # the difference would cancel
