"""Gaussian-mixture regression: the "GMM MIA"."""

import warnings
from typing import Annotated, NamedTuple, Self

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt, MinLen
from torch import Tensor

from attacks.base import Attack, Knowledge
from attacks.ridge import Ridge, releases

SHRINKAGES = (0.1, 0.3, 0.6, 0.9)


class Gmm(Attack):
    """MMSE estimate under a joint Gaussian mixture of pairs (z~, x): E[x | z~] = sum_k r_k(z~)
    [mu_xk + S_xz,k S_zz,k^-1 (z~ - mu_zk)].

    Responsibilities come from EM on principal components of z~ and x; the regressions are at full
    rank, with every component's covariances shrunk towards the pooled ones and the penalty of
    ``Ridge`` added to S_zz, so that one component is exactly ``Ridge``. The number of components
    and the shrinkage are chosen on the attacker's own validation images; one component is always
    among the candidates.

    Args:
        components: numbers of components to try.
        rank: principal components of z~ and of x that the responsibilities see.
        draws: releases per image that the moments are averaged over.
        val_share: share of the attacker's images that make the choices.
    """

    kind = "closed_form"

    def __init__(
        self,
        *,
        components: Annotated[tuple[Annotated[int, Ge(2)], ...], MinLen(1)] = (2, 4, 8),
        rank: Annotated[int, Ge(1)] = 16,
        draws: Annotated[int, Ge(1)] = 2,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.components, self.rank = components, rank
        self.draws, self.val_share = draws, val_share

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        z, x = releases(knowledge, fit, self.draws)
        z_val, x_val = releases(knowledge, val, self.draws)
        self.ridge_ = Ridge().fit_pairs(z, x, z_val, x_val)
        self.mixture_: _Mixture | None = None
        self.n_components_, self.shrinkage_, best = 1, 1.0, self.ridge_.error_
        z, x, z_val, x_val = (values.flatten(1) for values in (z, x, z_val, x_val))
        scores = _scores(z, x, self.rank)
        for k in self.components:
            if len(fit) < 10 * k:
                continue
            statistics = _expectation_maximisation(z, x, scores, k)
            if statistics is None:
                continue
            for shrinkage in SHRINKAGES:
                mixture = statistics.shrunk(shrinkage, self.ridge_.penalty_)
                error = float((mixture.predict(z_val) - x_val).square().mean())
                if error < best:
                    best, self.mixture_ = error, mixture
                    self.n_components_, self.shrinkage_ = k, shrinkage
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        if self.mixture_ is None:
            return self.ridge_.reconstruct(z)
        return self.mixture_.predict(z.flatten(1)).view(-1, *self.ridge_.image_shape_)


class _Mixture(NamedTuple):
    """A fitted mixture, ready to predict: responsibilities in a subspace, K regressions."""

    basis: Tensor  # (D, p), z - centre to the subspace
    centre: Tensor  # (D,)
    log_weight: Tensor  # (K,)
    location: Tensor  # (K, p)
    root: Tensor  # (K, p, p) Cholesky factors of the subspace covariances
    mean_z: Tensor  # (K, D)
    mean_x: Tensor  # (K, P)
    root_zz: Tensor  # (K, D, D) Cholesky factors
    cross: Tensor  # (K, D, P)

    def responsibilities(self, z: Tensor) -> Tensor:
        """p(k | z) (B, K) of releases z (B, D)."""
        low = (z - self.centre) @ self.basis
        white = torch.linalg.solve_triangular(
            self.root, (low - self.location[:, None]).mT, upper=False
        )
        log_det = self.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        log_p = self.log_weight[:, None] - log_det[:, None] - 0.5 * white.square().sum(1)
        return log_p.softmax(0).T

    def predict(self, z: Tensor) -> Tensor:
        """E[x | z] (B, P), clamped to [0, 1]."""
        guess = z.new_zeros(len(z), self.mean_x.shape[1])
        r = self.responsibilities(z)
        for k, (mean_x, cross) in enumerate(zip(self.mean_x, self.cross, strict=True)):
            part = torch.cholesky_solve((z - self.mean_z[k]).T, self.root_zz[k]).T @ cross
            guess += r[:, k, None] * (mean_x + part)
        return guess.clamp(0, 1)


class _Statistics(NamedTuple):
    """Moments of K components at full rank, before shrinkage."""

    mixture: _Mixture  # root_zz and cross are still empty
    weight: Tensor  # (K,)
    s_zz: Tensor  # (K, D, D)
    s_zx: Tensor  # (K, D, P)

    def shrunk(self, shrinkage: float, penalty: float) -> _Mixture:
        """Moves each component's covariances by ``shrinkage`` towards the pooled ones."""

        def towards_pooled(s: Tensor) -> Tensor:
            return torch.lerp(s, torch.einsum("k,kij->ij", self.weight, s).expand_as(s), shrinkage)

        ridge = penalty * torch.eye(self.s_zz.shape[1], device=self.s_zz.device)
        root = torch.linalg.cholesky((towards_pooled(self.s_zz) + ridge).double())
        return self.mixture._replace(root_zz=root.float(), cross=towards_pooled(self.s_zx))


class _Scores(NamedTuple):
    """Principal components of the pairs, scaled to a variance of 1 in all: (N, p) and (N, q)."""

    z: Tensor
    x: Tensor
    basis: Tensor
    centre: Tensor


def _scores(z: Tensor, x: Tensor, rank: int) -> _Scores:
    def principal(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        centre = values.mean(0)
        q = min(rank, *values.shape)
        _, spread, vectors = torch.pca_lowrank(values - centre, q=q, center=False, niter=4)
        kept = spread > 1e-6 * spread[0].clamp_min(1e-12)
        basis = vectors[:, kept] * (len(values) ** 0.5 / spread[0].clamp_min(1e-12))
        return (values - centre) @ basis, basis, centre

    low_z, basis, centre = principal(z)
    return _Scores(low_z, principal(x)[0], basis, centre)


def _expectation_maximisation(z: Tensor, x: Tensor, scores: _Scores, k: int) -> _Statistics | None:
    """EM on the joint scores, then the moments of every component at full rank; None when a
    component died."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    joint = torch.cat([scores.z, scores.x], 1).cpu().numpy().astype(np.float64)
    seed = int(torch.randint(2**31, ()))
    fit = GaussianMixture(k, reg_covar=1e-4, random_state=seed, max_iter=50, tol=1e-2)
    with warnings.catch_warnings():  # a mixture that EM would still polish serves as well
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit.fit(joint)
    p = scores.z.shape[1]
    r = torch.as_tensor(fit.predict_proba(joint), dtype=z.dtype, device=z.device)
    weight = r.mean(0)
    if weight.min() <= 1e-6:
        return None
    moments = [_moments(z, x, r[:, i]) for i in range(k)]
    mean_z, mean_x, s_zz, s_zx = (torch.stack(m) for m in zip(*moments, strict=True))

    def tensor(values: np.ndarray) -> Tensor:
        return torch.as_tensor(values, dtype=z.dtype, device=z.device)

    mixture = _Mixture(
        basis=scores.basis,
        centre=scores.centre,
        log_weight=tensor(np.log(fit.weights_)),
        location=tensor(fit.means_[:, :p]),
        root=tensor(np.linalg.cholesky(fit.covariances_[:, :p, :p])),
        mean_z=mean_z,
        mean_x=mean_x,
        root_zz=s_zz.new_empty(0),
        cross=s_zx.new_empty(0),
    )
    return _Statistics(mixture, weight, s_zz, s_zx)


def _moments(z: Tensor, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weighted means (D,), (P,) and covariances (D, D), (D, P) under responsibilities r (N,);
    samples of negligible weight are left out."""
    rows = r > 1e-4
    z, x, r = z[rows], x[rows], r[rows, None] / r[rows].sum()
    mean_z, mean_x = (r * z).sum(0), (r * x).sum(0)
    weighted = (r * (z - mean_z)).T
    return mean_z, mean_x, weighted @ (z - mean_z), weighted @ (x - mean_x)
