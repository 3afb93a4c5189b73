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


class Knn(Attack):
    """The attacker's images, averaged with the likelihood of the release (Nadaraya-Watson).

    E[x | z~] under weights exp(-|z~ - f(x_i)|^2 / 2 h^2), which is the posterior mean under the
    empirical prior when h is the noise's standard deviation.

    f(x_i) is the mean of several releases and the noise is measured between them, so pairs are
    enough. The bandwidth h is chosen on the attacker's own validation images: the noise widened
    by a factor, or the typical distance of a nearest neighbour narrowed or widened by one. With an
    infinite one every reconstruction is the mean image.

    Args:
        draws: releases per image that are averaged.
        val_share: share of the attacker's images that choose h; they join the others afterwards.
    """

    kind = "closed_form"
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
        squares = _squares(releases(knowledge, val, 1)[0].flatten(1), features[: len(fit)])
        nearest = float(squares.amin(1).median().sqrt().maximum(resolution(features)))
        widenings = torch.tensor(WIDENINGS)
        candidates = nearest * torch.cat([1 / widenings, torch.tensor(WIDEST)])
        if len(z) > 1:
            noise = float(z.var(0).mean().sqrt())
            candidates = torch.cat([candidates, noise * widenings])
        errors = []
        for bandwidth in candidates.tolist():
            guess = _mean(squares, images[: len(fit)], bandwidth)
            errors.append((guess - knowledge.images[val].flatten(1)).square().mean())
        self.bandwidth_ = float(candidates[int(torch.stack(errors).argmin())])
        self.features_, self.images_ = features, images
        self.image_shape_ = knowledge.images.shape[1:]
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        squares = _squares(z.flatten(1), self.features_)
        return _mean(squares, self.images_, self.bandwidth_).view(-1, *self.image_shape_)


def _squares(z: Tensor, features: Tensor) -> Tensor:
    """Squared distances (B, N) between releases (B, D) and features (N, D); centred, because
    they are differences of squares."""
    centre = features.mean(0)
    return torch.cdist(z - centre, features - centre).square()


def _mean(squares: Tensor, images: Tensor, bandwidth: float) -> Tensor:
    """Images (N, P) averaged with Gaussian weights of squared distances (B, N)."""
    return ((squares / (-2 * bandwidth**2)).softmax(1) @ images).clamp(0, 1)
