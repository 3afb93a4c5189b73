"""CEM with a diagonal Gaussian mixture per class."""

import warnings
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Diagnostic, Diagnostics
from smashbench.defenses.cem import Refitted
from smashbench.defenses.gates import Gated
from smashbench.defenses.groups import Groups, by_class
from smashbench.defenses.rounds import Mixtures, Rows, em_diagonal

PRIOR = 1e-4
"""What the last fit's variance of a component counts for beside the batch, in samples per sample of
the class in the batch."""
OCCUPANCY = {
    "occupancy": Diagnostic("clusters in use, share"),
    "components_per_sample": Diagnostic("effective components per sample"),
}


class GmmCem(Refitted, Gated):
    """Mixture CEM: an EM mixture per class says which variance each sample adds to.

    With responsibilities r_ik of the current mixture (no gradient), v_ckd = sum_i r_ik
    (z_id - mu_ckd)^2 / sum_i r_ik and R_c = sum_k pi_ck mean_d gate(v_ckd). The CEM paper (Xia et
    al., CVPR 2025) argues with a mixture; its code never fitted one.

    Deviation: sums over the batch start from a few samples (``PRIOR``) with the variance of the
    last fit. A component that no sample of the batch belongs to would otherwise count with the
    squared distance of the nearest one, however far, or not at all.

    Args:
        components: K.
        options: those of ``Refitted`` and ``Gated``.
    """

    diagnostics = {**Refitted.diagnostics, **Gated.diagnostics, **OCCUPANCY}
    weights: Tensor
    means: Tensor
    precisions: Tensor
    log_dets: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        components: Annotated[int, Ge(1)] = 5,
        **options: Any,
    ) -> None:
        super().__init__(shape, classes, **options)
        dimensions = torch.Size(shape).numel()
        self.components = components
        self.register_buffer("weights", torch.zeros(classes, components))
        self.register_buffer("means", torch.zeros(classes, components, dimensions))
        self.register_buffer("precisions", torch.ones(classes, components, dimensions))
        self.register_buffer("log_dets", torch.zeros(classes, components))

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        with torch.no_grad():
            label = groups.labels(y)
            means = self.means.index_select(0, label)  # (G, K, D)
            origin = means.mean(1)  # the squares of large features would cancel
            means -= origin[:, None]
        centred = z - origin.index_select(0, groups.index)
        squares = centred.square()
        with torch.no_grad():
            r = self.responsibilities(centred, squares, y, groups)
            mass = groups.sum(r)
            prior = PRIOR * groups.count.clamp_min(1)[:, None]
            total = mass + prior
            shares = groups.member[:, None] * r.T / total[..., None]  # (G, K, B)
            matrix = shares.flatten(0, 1)
            last = (prior / total)[..., None] / self.precisions.index_select(0, label)
            constant = last + (mass / total)[..., None] * means.square()
        around = (matrix @ squares).view_as(means) - 2 * means * (matrix @ centred).view_as(means)
        v = (around + constant).clamp_min(0)  # sum_i r_ik (z_i - mu_k)^2, and the prior
        weights = self.weights[label]
        present = (groups.count > 0)[:, None] & (weights > 0)
        losses, diagnostics = self.gated(self.reduce(v), present)
        return (weights * losses).sum(1), diagnostics | watched(r, mass, groups)

    def responsibilities(
        self, centred: Tensor, squares: Tensor, y: Tensor, groups: Groups
    ) -> Tensor:
        """p(k | z, class) (B, K) of samples (B, D) from which the mean of the means of their class
        has been subtracted, and their squares."""
        label = groups.labels(y)
        means, precisions = (
            self.means.index_select(0, label),
            self.precisions.index_select(0, label),
        )
        means -= means.mean(1, keepdim=True)
        scaled = means * precisions
        distance = groups.products(squares, precisions) - 2 * groups.products(centred, scaled)
        distance += (means * scaled).sum(2)[groups.index]
        return responsibilities(self.weights[y], self.log_dets[y], distance)

    def fit(self, z: Tensor, y: Tensor) -> None:
        known = alive(self.weights) & (y.bincount(minlength=self.classes) >= self.components)
        self.weights[~known] = 0
        if known.any():
            last = Mixtures(self.weights, self.means, 1 / self.precisions)
            now = em_diagonal(Rows.of(z, y, self.classes), last, self.rounds)
            self.weights[known] = now.weights[known]
            self.means[known] = now.means[known]
            self.precisions[known] = 1 / now.covariances[known]
            self.log_dets[known] = -now.covariances.log().sum(2)[known]
        new = ~known[y]
        for label, mixture in mixtures(z[new], y[new], self.components, "diag"):
            k = len(mixture.weights_)
            self.weights[label, :k] = torch.as_tensor(mixture.weights_)
            self.means[label, :k] = torch.as_tensor(mixture.means_)
            roots = torch.as_tensor(mixture.precisions_cholesky_)
            self.log_dets[label, :k] = 2 * roots.log().sum(-1)
            self.precisions[label, :k] = roots.square()


def alive(weights: Tensor) -> Tensor:
    """The classes (C,) of which no component is about to vanish, given the weights (C, K)."""
    return (weights > 1e-4).all(1)


def responsibilities(weights: Tensor, log_dets: Tensor, distance: Tensor) -> Tensor:
    """p(k | z) (B, K) from the weights, log determinants of the precisions and Mahalanobis
    distances (B, K) of each sample's own mixture; 0 where there is none."""
    log_p = weights.log() + 0.5 * (log_dets - distance)
    return log_p.masked_fill(weights == 0, -torch.inf).softmax(1).nan_to_num(0)


def watched(r: Tensor, mass: Tensor, groups: Groups) -> Diagnostics:
    """``OCCUPANCY`` of responsibilities r (B, K) whose sums over groups are mass (G, K)."""
    with torch.no_grad():
        used = (mass > 1e-6).sum().to(r.dtype)
        effective = 1 / r.square().sum(1).clamp_min(1e-12)
        return {
            "occupancy": used / ((groups.count > 0).sum() * r.shape[1]),
            "components_per_sample": effective.mean(),
        }


def mixtures(z: Tensor, y: Tensor, components: int, covariance: str) -> Any:
    """The labels that occur, and scikit-learn's mixture of at most ``components`` fitted to the
    features (N, D) of each, in float64: in float32 the variance of features that hardly vary may
    come out below zero, which scikit-learn refuses."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    for label, members in by_class(z, y):
        k = min(components, len(members))
        if len(members) == 1:  # EM asks for two samples; one is its own component
            members = members.repeat(2, 0)
        seed = int(torch.randint(2**31, ()))
        members = members.astype(np.float64)
        mixture = GaussianMixture(k, covariance_type=covariance, random_state=seed)
        with warnings.catch_warnings():  # equal samples, or EM at its last iteration
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield label, mixture.fit(members)
