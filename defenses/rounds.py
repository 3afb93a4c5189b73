"""Refits from the last fit: a few rounds of Lloyd's algorithm or of EM, all classes at once."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

REGULARISED = 1e-6
"""Added to variances, and to the diagonals of covariances; scikit-learn's ``reg_covar``."""


@dataclass(frozen=True)
class Rows:
    """Features sorted into a block per class, C of them with M rows each, padded with zeros."""

    features: Tensor
    """(C, M, D)."""
    member: Tensor
    """(C, M) 1 for a sample, 0 for padding."""

    @classmethod
    def of(cls, z: Tensor, y: Tensor, classes: int) -> "Rows":
        """Blocks of features ``z`` (N, D) with labels ``y`` (N,) in 0..classes-1."""
        order, counts = y.argsort(stable=True), y.bincount(minlength=classes)
        label = y[order]
        row = torch.arange(len(y), device=y.device) - torch.searchsorted(label, label)
        most = int(counts.max()) if len(y) else 0
        features = z.new_zeros(classes, most, z.shape[1])
        features[label, row] = z[order]
        member = (torch.arange(most, device=y.device) < counts[:, None]).to(z.dtype)
        return cls(features, member)


class Clusters(NamedTuple):
    """What K-means finds."""

    centres: Tensor
    """(C, K, D)."""
    nearest: Tensor
    """(C, M, K) 1 where a sample belongs to a cluster."""


def lloyd(rows: Rows, centres: Tensor, rounds: int) -> Clusters:
    """``rounds`` rounds of Lloyd's algorithm from ``centres`` (C, K, D). A cluster that loses all
    its samples keeps its centre."""
    origin = centres.mean(1, keepdim=True)  # the products of large means would cancel
    z, centres = rows.features - origin, centres - origin
    for _ in range(rounds):
        nearest = _nearest(z, centres) * rows.member[..., None]
        count = nearest.sum(1)[..., None]
        centres = torch.where(count > 0, (nearest.mT @ z) / count.clamp_min(1), centres)
    return Clusters(centres + origin, _nearest(z, centres) * rows.member[..., None])


def _nearest(z: Tensor, centres: Tensor) -> Tensor:
    distance = torch.baddbmm(centres.square().sum(2)[:, None], z, centres.mT, alpha=-2)
    return torch.zeros_like(distance).scatter_(2, distance.argmin(2, keepdim=True), 1)


class Mixtures(NamedTuple):
    """A Gaussian mixture per class."""

    weights: Tensor
    """(C, K)."""
    means: Tensor
    """(C, K, D)."""
    covariances: Tensor
    """(C, K, D) variances, or (C, K, D, D)."""


def em_diagonal(rows: Rows, mixtures: Mixtures, rounds: int) -> Mixtures:
    """``rounds`` rounds of EM with diagonal covariances, as scikit-learn does them."""
    origin = mixtures.means.mean(1, keepdim=True)
    z = rows.features - origin
    squares = z.square()
    weights, means, variances = mixtures
    means = means - origin
    for _ in range(rounds):
        precisions = 1 / variances
        constant = (means.square() * precisions - precisions.log()).sum(2) - 2 * weights.log()
        distance = torch.baddbmm(constant[:, None], z, (means * precisions).mT, alpha=-2)
        distance = torch.baddbmm(distance, squares, precisions.mT)
        weights, shares = _shares(-0.5 * distance, rows)
        means = shares @ z
        variances = (shares @ squares - means.square()).clamp_min(0) + REGULARISED
    return Mixtures(weights, means + origin, variances)


def em_step_full(rows: Rows, expected: Tensor) -> Mixtures:
    """The mixtures with full covariances of samples whose log-probabilities of the components, up
    to a constant, are ``expected`` (C, M, K)."""
    weights, shares = _shares(expected, rows)
    means = shares @ rows.features
    centred = rows.features[:, None] - means[:, :, None]  # (C, K, M, D)
    covariances = (shares[..., None] * centred).mT @ centred
    eye = torch.eye(means.shape[2], dtype=means.dtype, device=means.device)
    return Mixtures(weights, means, covariances + REGULARISED * eye)


def _shares(log_p: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Weights (C, K) of components, and responsibilities (C, K, M) that sum to 1 over the samples
    of each."""
    r = log_p.softmax(2) * rows.member[..., None]
    mass = r.sum(1)
    weights = mass / mass.sum(1, keepdim=True).clamp_min(1)
    return weights, (r / mass.clamp_min(1e-12)[:, None]).mT
