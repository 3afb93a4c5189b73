"""CEM with a Gaussian mixture per class whose covariances are full, in a subspace."""

from typing import Annotated, Any

import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Diagnostics
from smashbench.defenses.cem import Refitted
from smashbench.defenses.gmm_cem import (
    OCCUPANCY,
    PRIOR,
    alive,
    mixtures,
    responsibilities,
    watched,
)
from smashbench.defenses.groups import Groups
from smashbench.defenses.rounds import Mixtures, Rows, em_step_full

JITTER = 1e-13
"""Added to the diagonal in units of the trace: a covariance of fewer samples than dimensions is
singular, and where the noise is far below it only this keeps it positive."""


class FullGmmCem(Refitted):
    """Mixture CEM with correlations: R_c = sum_k pi_ck 1/2 [logdet(S_ck + s^2 I) - logdet(s^2 I)],
    S_ck the covariance of the batch around component k of an EM mixture in a PCA subspace.

    The capacity of a Gaussian channel, so that it has no gate. ``GmmCem`` says how the mixture is
    used, and how it deviates.

    Args:
        components: K.
        rank: dimensions of the subspace.
        options: those of ``Refitted``.
    """

    diagnostics = Refitted.diagnostics | OCCUPANCY
    weights: Tensor
    means: Tensor
    roots: Tensor
    covariances: Tensor
    log_dets: Tensor
    basis: Tensor
    centre: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        components: Annotated[int, Ge(1)] = 5,
        rank: Annotated[int, Ge(1)] = 16,
        **options: Any,
    ) -> None:
        super().__init__(shape, classes, **options)
        dimensions = torch.Size(shape).numel()
        self.components, self.rank = components, min(rank, dimensions)
        d = self.rank
        self.register_buffer("weights", torch.zeros(classes, components))
        self.register_buffer("means", torch.zeros(classes, components, d))
        self.register_buffer("roots", torch.eye(d).repeat(classes, components, 1, 1))
        self.register_buffer("covariances", torch.eye(d).repeat(classes, components, 1, 1))
        self.register_buffer("log_dets", torch.zeros(classes, components))
        self.register_buffer("basis", torch.eye(dimensions)[:, :d].contiguous())
        self.register_buffer("centre", torch.zeros(dimensions))

    def stand_on(self, noise: float) -> None:
        super().stand_on(noise)
        if not noise:
            raise ValueError("its capacity is relative to noise, and none is added: give noise")

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        centred = ((z - self.centre) @ self.basis)[:, None] - self.means[y]  # (B, K, D)
        with torch.no_grad():
            r = self.responsibilities(centred, y)
            label, mass = groups.labels(y), groups.sum(r)
            prior = PRIOR * groups.count.clamp_min(1)[:, None]
            shares = r / (mass + prior)[groups.index]
            last = self.covariances[label] * (prior / (mass + prior))[..., None, None]
        exact = centred.double()  # rounding would make a covariance indefinite
        weighted = (shares[..., None] * exact)[..., None] * exact[..., None, :]
        s = weighted.new_zeros(len(mass), *weighted.shape[1:])
        s = s.index_add(0, groups.index, weighted) + last
        snr = s / max(self.s**2, 1e-8)
        floor = 1 + JITTER * snr.detach().diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        eye = torch.eye(self.rank, dtype=snr.dtype, device=snr.device)
        root = torch.linalg.cholesky_ex(snr + floor * eye).L
        losses = root.diagonal(dim1=-2, dim2=-1).log().sum(-1).to(z.dtype)
        return (self.weights[label] * losses).sum(1), watched(r, mass, groups)

    def responsibilities(self, centred: Tensor, y: Tensor) -> Tensor:
        """p(k | z, class) (B, K) of samples with these z - mu (B, K, rank); z^T P P^T z is the
        Mahalanobis distance."""
        distance = (centred[:, :, None] @ self.roots[y]).square().sum((2, 3))
        return responsibilities(self.weights[y], self.log_dets[y], distance)

    def fit(self, z: Tensor, y: Tensor) -> None:
        known = alive(self.weights) & (y.bincount(minlength=self.classes) >= self.components)
        last = self._log_p(self._rows(z, y))
        self.centre.copy_(z.mean(0) if len(z) else self.centre)
        q = min(self.rank, len(z))
        self.basis.zero_()
        if q:
            self.basis[:, :q] = torch.pca_lowrank(z, q=q, niter=4)[2]
        self.weights[~known] = 0
        if known.any():
            rows = self._rows(z, y)
            for done in range(self.rounds):
                now = em_step_full(rows, self._log_p(rows) if done else last)
                self._take(known, now)
        new, z = ~known[y], (z - self.centre) @ self.basis
        for label, mixture in mixtures(z[new], y[new], self.components, "full"):
            k = len(mixture.weights_)
            self.weights[label, :k] = torch.as_tensor(mixture.weights_)
            self.means[label, :k] = torch.as_tensor(mixture.means_)
            roots = torch.as_tensor(mixture.precisions_cholesky_)
            self.roots[label, :k] = roots
            self.covariances[label, :k] = torch.as_tensor(mixture.covariances_)
            self.log_dets[label, :k] = 2 * roots.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _rows(self, z: Tensor, y: Tensor) -> Rows:
        """Features in the subspace, in double precision: a component of fewer samples than
        dimensions has a covariance of which rounding would leave no root."""
        return Rows.of(((z - self.centre) @ self.basis).double(), y, self.classes)

    def _log_p(self, rows: Rows) -> Tensor:
        """The logarithm of p(z, k | class) (C, M, K) of features in the subspace, up to a
        constant."""
        centred = rows.features[:, None] - self.means[:, :, None]  # (C, K, M, rank)
        distance = (centred @ self.roots.to(centred)).square().sum(3).mT
        return (self.weights.log() + 0.5 * self.log_dets)[:, None] - 0.5 * distance

    def _take(self, known: Tensor, now: Mixtures) -> None:
        inverse = torch.linalg.inv(torch.linalg.cholesky(now.covariances[known]))
        log_dets = 2 * inverse.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        kept = (self.weights, self.means, self.covariances, self.roots, self.log_dets)
        found = (*(each[known] for each in now), inverse.mT, log_dets)
        for old, new in zip(kept, found, strict=True):
            old[known] = new.to(old)
