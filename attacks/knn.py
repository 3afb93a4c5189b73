"""Nearest neighbours, weighted by the likelihood of the release."""

from math import inf
from typing import Annotated, Self

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from smashbench.attacks.base import Attack, Knowledge, releases, resolution

WIDENINGS = (1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0)
"""Candidates for the bandwidth: times the noise, and the typical distance of a nearest neighbour
over them."""
WIDEST = (2.0, 4.0, 8.0, inf)
"""More candidates: times that distance, for features whose noise spans few directions or that say
little. An infinite one makes the mean image."""
QUIET = 0.01
"""Least noise that a feature is measured in, as a share of its spread."""


class Knn(Attack):
    """The attacker's images, averaged with the likelihood of the release (Nadaraya-Watson).

    E[x | z~] under weights exp(-|(z~ - f(x_i)) / s|^2 / 2 h^2), which is the posterior mean under
    the empirical prior when the noise of feature d has the standard deviation h s_d.

    f(x_i) is the mean of several releases and the noise is measured between them, so pairs are
    enough. The attacker's own validation images choose the units s, features as they are, their
    spread or their noise, and the bandwidth h: the noise widened by a factor, or the typical
    distance of a nearest neighbour narrowed or widened by one. With an infinite one every
    reconstruction is the mean image.

    Args:
        draws: releases per image that are averaged.
        val_share: share of the attacker's images that choose s and h; they join the others
            afterwards.
    """

    kind = "closed_form"
    unit_: Tensor
    bandwidth_: float

    def __init__(
        self,
        *,
        draws: Annotated[int, Ge(2)] = 8,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.draws, self.val_share = draws, val_share

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        everyone = torch.cat([fit, val])
        z = releases(knowledge, everyone, self.draws)[0]
        z = z.reshape(-1, len(everyone), z[0].numel())
        features, images = z.mean(0), knowledge.images[everyone].flatten(1)
        z_val, x_val = (each.flatten(1) for each in releases(knowledge, val, 1))
        best = inf
        for unit in _units(z):
            squares = _squares(z_val / unit, features[: len(fit)] / unit)
            for bandwidth in _bandwidths(z / unit, squares):
                guess = _mean(squares, images[: len(fit)], bandwidth)
                error = float((guess - x_val).square().mean())
                if error < best:
                    best, self.unit_, self.bandwidth_ = error, unit, bandwidth
        self.features_, self.images_ = features / self.unit_, images
        self.image_shape_ = knowledge.images.shape[1:]
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        squares = _squares(z.flatten(1) / self.unit_, self.features_)
        return _mean(squares, self.images_, self.bandwidth_).view(-1, *self.image_shape_)


def _units(z: Tensor) -> list[Tensor]:
    """Candidates for the units of features, each () or (D,), given releases z (draws, N, D). An
    infinite one leaves a constant feature out. Noise below a hundredth of the spread counts as
    that: neighbours are further away."""
    spread = z.mean(0).std(0)
    varies = spread > resolution(z)
    units = [torch.ones((), device=z.device), spread.where(varies, inf)]
    if len(z) > 1:
        units.append(z.var(0).mean(0).sqrt().maximum(QUIET * spread).where(varies, inf))
    return units


def _bandwidths(z: Tensor, squares: Tensor) -> list[float]:
    """Candidates, given releases z (draws, N, D) and squared distances of validation releases to
    their means."""
    nearest = float(squares.amin(1).median().sqrt().maximum(resolution(z)))
    widenings = torch.tensor(WIDENINGS)
    candidates = nearest * torch.cat([1 / widenings, torch.tensor(WIDEST)])
    if len(z) > 1:
        noise = float(z.var(0).mean().sqrt())
        candidates = torch.cat([candidates, noise * widenings])
    found: list[float] = candidates.tolist()
    return found


def _squares(z: Tensor, features: Tensor) -> Tensor:
    """Squared distances (B, N) between releases (B, D) and features (N, D); centred, because
    they are differences of squares."""
    centre = features.mean(0)
    return torch.cdist(z - centre, features - centre).square()


def _mean(squares: Tensor, images: Tensor, bandwidth: float) -> Tensor:
    """Images (N, P) averaged with Gaussian weights of squared distances (B, N)."""
    return ((squares / (-2 * bandwidth**2)).softmax(1) @ images).clamp(0, 1)
