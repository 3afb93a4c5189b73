"""Gaussian-mixture regression: the "GMM MIA"."""

import warnings
from typing import Annotated, NamedTuple, Self

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt, MinLen
from torch import Tensor

from smashbench.attacks.base import MEMORY, Attack, Knowledge, releases, require_memory
from smashbench.attacks.ridge import Ridge

SHRINKAGES = (0.0, 0.03, 0.1, 0.3, 0.6, 0.9)


class Gmm(Attack):
    """MMSE estimate under a joint Gaussian mixture of pairs (z~, x): E[x | z~] = sum_k r_k(z~)
    [mu_xk + S_xz,k S_zz,k^-1 (z~ - mu_zk)].

    Responsibilities come from EM on principal components of z~ and x; the regressions are at full
    rank, with every component's covariances shrunk towards the pooled ones and the penalty of
    ``Ridge`` added to S_zz, so that one component is exactly ``Ridge``. The number of components
    and the shrinkage are chosen on the attacker's own validation images; one component is always
    among the candidates.

    With ``by_class`` every class that the head predicts has a mixture of its own, a
    responsibility of zero outside that class, and the same pooled covariances to shrink to.

    Args:
        components: numbers of components to try (with ``by_class``: in each class, and one); those
            that do not fit in memory are left out.
        by_class: one mixture per predicted class.
        rank: principal components of z~ and of x that the responsibilities see.
        draws: releases per image that the moments are averaged over.
        val_share: share of the attacker's images that make the choices.
    """

    kind = "closed_form"

    def __init__(
        self,
        *,
        components: Annotated[tuple[Annotated[int, Ge(2)], ...], MinLen(1)] = (2, 4, 8),
        by_class: bool = False,
        rank: Annotated[int, Ge(1)] = 16,
        draws: Annotated[int, Ge(1)] = 2,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.components, self.by_class, self.rank = components, by_class, rank
        if by_class:
            self.needs = frozenset({"pairs", "logits"})
        self.draws, self.val_share = draws, val_share

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        self.predict_ = knowledge.predict if self.by_class else _one_class
        z, x = releases(knowledge, fit, self.draws)
        z_val, x_val = releases(knowledge, val, self.draws)
        self.ridge_ = Ridge().fit_pairs(z, x, z_val, x_val)
        self.mixture_: _Mixture | None = None
        self.n_components_, self.shrinkage_, best = 1, 1.0, self.ridge_.error_
        label, label_val = self.predict_(z), self.predict_(z_val)
        z, x, z_val, x_val = (values.flatten(1) for values in (z, x, z_val, x_val))
        scores = _scores(z, x, self.rank)
        if not scores.z.shape[1]:  # nothing is sent: the mean image is all there is
            return self
        for k in self._numbers(len(label.unique()), z.shape[1], x.shape[1]):
            statistics = _statistics(z, x, scores, label, k, len(fit) / len(z))
            if statistics is None:
                continue
            for shrinkage in SHRINKAGES:
                mixture = statistics.shrunk(shrinkage, self.ridge_.penalty_)
                error = float((mixture.predict(z_val, label_val) - x_val).square().mean())
                if error < best:
                    best, self.mixture_ = error, mixture
                    self.n_components_, self.shrinkage_ = len(statistics.weight), shrinkage
        return self

    def _numbers(self, classes: int, features: int, pixels: int) -> list[int]:
        """Numbers of components to try that fit in memory.

        Raises:
            OversizedError: the smallest does not.
        """
        wanted = sorted({1, *self.components} if self.by_class else {*self.components})
        needed = [_bytes(k * classes, features, pixels) for k in wanted]
        least = f"{wanted[0] * classes} regressions on {features} features"
        require_memory(needed[0], least)
        return [k for k, size in zip(wanted, needed, strict=True) if size <= MEMORY]

    def reconstruct(self, z: Tensor) -> Tensor:
        if self.mixture_ is None:
            return self.ridge_.reconstruct(z)
        guess = self.mixture_.predict(z.flatten(1), self.predict_(z))
        return guess.view(-1, *self.ridge_.image_shape_)


def _bytes(components: int, features: int, pixels: int) -> float:
    """What a mixture needs: four times its covariances in double precision, and regressions."""
    return components * features * (32.0 * features + 16.0 * pixels)


def _one_class(z: Tensor) -> Tensor:
    return torch.zeros(len(z), dtype=torch.long, device=z.device)


class _Mixture(NamedTuple):
    """A fitted mixture, ready to predict: responsibilities in a subspace, K regressions."""

    basis: Tensor  # (D, p), z - centre to the subspace
    centre: Tensor  # (D,)
    owner: Tensor  # (K,) the class a component belongs to
    log_weight: Tensor  # (K,)
    location: Tensor  # (K, p)
    root: Tensor  # (K, p, p) Cholesky factors of the subspace covariances
    mean_z: Tensor  # (K, D)
    mean_x: Tensor  # (K, P)
    root_zz: Tensor  # (K, D, D) Cholesky factors
    cross: Tensor  # (K, D, P)

    def responsibilities(self, z: Tensor, label: Tensor) -> Tensor:
        """p(k | z, class) (B, K) of releases z (B, D) of predicted classes (B,); those of a class
        without components are spread over all."""
        low = (z - self.centre) @ self.basis
        white = torch.linalg.solve_triangular(
            self.root, (low - self.location[:, None]).mT, upper=False
        )
        log_det = self.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        log_p = self.log_weight[:, None] - log_det[:, None] - 0.5 * white.square().sum(1)
        foreign = self.owner[:, None] != label
        return (log_p - 1e6 * foreign).softmax(0).T

    def predict(self, z: Tensor, label: Tensor) -> Tensor:
        """E[x | z] (B, P), clamped to [0, 1]."""
        guess = z.new_zeros(len(z), self.mean_x.shape[1])
        r = self.responsibilities(z, label)
        for k, (mean_x, cross) in enumerate(zip(self.mean_x, self.cross, strict=True)):
            rows = (r[:, k] > 1e-6).nonzero()[:, 0]
            part = torch.cholesky_solve((z[rows] - self.mean_z[k]).T, self.root_zz[k]).T @ cross
            guess.index_add_(0, rows, r[rows, k, None] * (mean_x + part))
        return guess.clamp(0, 1)


class _Statistics(NamedTuple):
    """Moments of K components at full rank, before shrinkage."""

    mixture: _Mixture  # root_zz and cross are still empty
    weight: Tensor  # (K,)
    s_zz: Tensor  # (K, D, D) in float64
    s_zx: Tensor  # (K, D, P)

    def shrunk(self, shrinkage: float, penalty: float) -> _Mixture:
        """Moves each component's covariances by ``shrinkage`` towards the pooled ones."""

        def towards_pooled(s: Tensor) -> Tensor:
            pooled = torch.einsum("k,kij->ij", self.weight.to(s), s)
            return torch.lerp(s, pooled.expand_as(s), shrinkage)

        ridge = penalty * torch.eye(self.s_zz.shape[1]).to(self.s_zz)
        root = torch.linalg.cholesky(towards_pooled(self.s_zz) + ridge)
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


class _Component(NamedTuple):
    """One component: who it belongs to, where it lies in the subspace, and whose it is."""

    owner: int
    log_weight: float
    location: np.ndarray  # (p,)
    root: np.ndarray  # (p, p)
    r: Tensor  # (N,) its share of every sample


def _statistics(
    z: Tensor, x: Tensor, scores: _Scores, label: Tensor, k: int, share: float
) -> _Statistics | None:
    """The moments of ``k`` components in every class of ``label`` (N,); one where a class has
    fewer than 10 k independent samples (a ``share`` of its rows), none where it has one row. None
    when there is one component in all: that is ``Ridge``."""
    joint = torch.cat([scores.z, scores.x], 1).cpu().numpy().astype(np.float64)
    components: list[_Component] = []
    for owner in label.unique().tolist():
        rows = (label == owner).nonzero()[:, 0]
        fitting = k if len(rows) * share >= 10 * k else 1
        components += _expectation_maximisation(
            joint, rows.cpu().numpy(), fitting, scores.z.shape[1], owner, label
        )
    if len(components) < 2:
        return None
    moments = [_moments(z, x, component.r) for component in components]
    mean_z, mean_x, s_zz, s_zx = (torch.stack(m) for m in zip(*moments, strict=True))

    def tensor(values: list[np.ndarray] | list[float]) -> Tensor:
        return torch.as_tensor(np.stack(values), dtype=z.dtype, device=z.device)

    mixture = _Mixture(
        basis=scores.basis,
        centre=scores.centre,
        owner=torch.tensor([c.owner for c in components], device=z.device),
        log_weight=tensor([c.log_weight for c in components]),
        location=tensor([c.location for c in components]),
        root=tensor([c.root for c in components]),
        mean_z=mean_z,
        mean_x=mean_x,
        root_zz=s_zz.new_empty(0),
        cross=s_zx.new_empty(0),
    )
    weight = torch.stack([component.r.mean() for component in components])
    return _Statistics(mixture, weight, s_zz, s_zx)


def _expectation_maximisation(
    joint: np.ndarray, rows: np.ndarray, k: int, p: int, owner: int, label: Tensor
) -> list[_Component]:
    """EM on the ``rows`` of one class of the joint scores, whose first p columns are those of z.
    A component that keeps no sample is left out."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    if len(rows) < 2:
        return []
    seed = int(torch.randint(2**31, ()))
    fit = GaussianMixture(k, reg_covar=1e-4, random_state=seed, max_iter=50, tol=1e-2)
    with warnings.catch_warnings():  # a mixture that EM would still polish serves as well
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit.fit(joint[rows])
    shares = fit.predict_proba(joint[rows])
    found = []
    for i in np.flatnonzero(shares.sum(0) >= 1):
        r = torch.zeros(len(label), device=label.device)
        r[torch.as_tensor(rows, device=label.device)] = torch.as_tensor(
            shares[:, i], dtype=r.dtype, device=label.device
        )
        root = np.linalg.cholesky(fit.covariances_[i, :p, :p])
        found.append(_Component(owner, float(np.log(fit.weights_[i])), fit.means_[i, :p], root, r))
    return found


def _moments(z: Tensor, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weighted means (D,), (P,) and covariances (D, D), (D, P) under responsibilities r (N,);
    samples of negligible weight are left out. The first covariance is in float64: that of features
    in a subspace has eigenvalues of 0, which rounding makes negative."""
    rows = r > 1e-4
    z, x, r = z[rows], x[rows], r[rows, None] / r[rows].sum()
    mean_z, mean_x = (r * z).sum(0), (r * x).sum(0)
    centred = z - mean_z
    scaled = r.double().sqrt() * centred
    return mean_z, mean_x, scaled.T @ scaled, (r * centred).T @ (x - mean_x)
