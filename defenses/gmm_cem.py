"""CEM with a Gaussian mixture per class."""

import warnings
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Diagnostic, Diagnostics
from smashbench.defenses.cem import Cem, Count
from smashbench.defenses.groups import Groups, by_class


class GmmCem(Cem):
    """Mixture CEM: an EM mixture per class says which variance each sample adds to.

    With responsibilities r_ik of the current mixture (no gradient), v_ckd = sum_i r_ik
    (z_id - mu_ckd)^2 / sum_i r_ik and R_c = sum_k pi_ck mean_d gate(v_ckd). With ``full``
    covariances, in a PCA subspace, R_c = sum_k pi_ck 1/2 [logdet(S_ck + s^2 I) - logdet(s^2 I)],
    whatever ``gate`` and ``variance`` say. The CEM paper (Xia et al., CVPR 2025) argues with a
    mixture; its code never fitted one.

    Args:
        components: K.
        covariance: ``diag`` in the feature space or ``full`` in a PCA subspace.
        rank: dimensions of that subspace.
        refresh_every: epochs between EM fits.
        cem: the options of ``Cem``.
    """

    diagnostics = Cem.diagnostics | {
        "occupancy": Diagnostic("clusters in use, share"),
        "components_per_sample": Diagnostic("effective components per sample"),
    }
    weights: Tensor
    means: Tensor
    precisions: Tensor
    log_dets: Tensor
    basis: Tensor
    centre: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        components: Annotated[int, Ge(1)] = 5,
        covariance: Literal["diag", "full"] = "diag",
        rank: Annotated[int, Ge(1)] = 16,
        refresh_every: Annotated[int, Ge(1)] = 1,
        warmup_epochs: Count = 1,
        **cem: Any,
    ) -> None:
        super().__init__(shape, classes, warmup_epochs=warmup_epochs, **cem)
        dimensions = torch.Size(shape).numel()
        self.components, self.covariance = components, covariance
        self.rank, self.refresh_every = min(rank, dimensions), refresh_every
        d = self.rank if covariance == "full" else dimensions
        self.register_buffer("weights", torch.zeros(classes, components))
        self.register_buffer("means", torch.zeros(classes, components, d))
        self.register_buffer("log_dets", torch.zeros(classes, components))
        if covariance == "full":  # precisions are Cholesky factors, as in scikit-learn
            self.register_buffer("precisions", torch.eye(d).repeat(classes, components, 1, 1))
            self.register_buffer("basis", torch.eye(dimensions)[:, :d].contiguous())
            self.register_buffer("centre", torch.zeros(dimensions))
        else:
            self.register_buffer("precisions", torch.ones(classes, components, d))

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        if self.covariance == "full":
            z = (z - self.centre) @ self.basis
        centred = z[:, None] - self.means[y]  # (B, K, D)
        squares = centred.square()
        shape = (len(groups.count), self.components)
        with torch.no_grad():
            r = self._responsibilities(centred, squares, y)
            mass = z.new_zeros(shape).index_add(0, groups.index, r)
            shares = r / mass[groups.index].clamp_min(1e-12)
            used = mass > 1e-6
            # Group by group, the class whose weights apply; any class for an empty group.
            label = torch.zeros_like(groups.count, dtype=y.dtype).scatter(0, groups.index, y)
        diagnostics: Diagnostics = {}
        if self.covariance == "full":
            losses = self._capacity(centred, shares, groups)
        else:
            reduced = shares[..., None] * self.reduce(squares)
            v = reduced.new_zeros(*shape, reduced.shape[2]).index_add(0, groups.index, reduced)
            losses, diagnostics = self.gated(v, used)
        with torch.no_grad():
            present = (groups.count > 0).sum() * self.components
            diagnostics["occupancy"] = used.sum().to(z.dtype) / present
            effective = 1 / r.square().sum(1).clamp_min(1e-12)
            diagnostics["components_per_sample"] = effective.mean()
        return (self.weights[label] * losses.where(used, 0)).sum(1), diagnostics

    def _responsibilities(self, centred: Tensor, squares: Tensor, y: Tensor) -> Tensor:
        """p(k | z, class) (B, K) under the mixture of each sample's own class, from z - mu_ck and
        its squares (B, K, D)."""
        if self.covariance == "full":  # z^T P P^T z is the Mahalanobis distance
            distance = (centred[:, :, None] @ self.precisions[y]).square().sum((2, 3))
        else:
            distance = (squares * self.precisions[y]).sum(2)
        weights = self.weights[y]
        log_p = weights.log() + 0.5 * (self.log_dets[y] - distance)
        return log_p.masked_fill(weights == 0, -torch.inf).softmax(1).nan_to_num(0)

    def _capacity(self, centred: Tensor, shares: Tensor, groups: Groups) -> Tensor:
        """1/2 [logdet(S + s^2 I) - logdet(s^2 I)] of every component's covariance, (G, K)."""
        weighted = (shares[..., None] * centred)[..., None] * centred[..., None, :]
        s = weighted.new_zeros(len(groups.count), *weighted.shape[1:])
        s = s.index_add(0, groups.index, weighted)
        eye = torch.eye(self.rank, dtype=s.dtype, device=s.device)
        root = torch.linalg.cholesky_ex(eye + s / max(self.noise**2, 1e-8)).L
        return root.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

        if self.covariance == "full":
            flat = features.flatten(1)
            self.centre.copy_(flat.mean(0))
            q = min(self.rank, len(flat))
            self.basis.zero_()[:, :q] = torch.pca_lowrank(flat, q=q, niter=4)[2]
            features = (flat - self.centre) @ self.basis
        starts = self._starts()
        self.weights.zero_()
        for label, members in by_class(features, labels):
            k = min(self.components, len(members))
            if len(members) == 1:  # EM asks for two samples; one is its own component
                members = members.repeat(2, 0)
            seed = int(torch.randint(2**31, ()))
            start = starts.get(label, {}) if k == self.components else {}
            fit = GaussianMixture(k, covariance_type=self.covariance, random_state=seed, **start)
            with warnings.catch_warnings():  # equal samples, or EM at its last iteration
                warnings.simplefilter("ignore", ConvergenceWarning)
                fit.fit(members)
            self.weights[label, :k] = torch.as_tensor(fit.weights_)
            self.means[label, :k] = torch.as_tensor(fit.means_)
            roots = torch.as_tensor(fit.precisions_cholesky_)
            diagonal = roots.diagonal(dim1=-2, dim2=-1) if self.covariance == "full" else roots
            self.log_dets[label, :k] = 2 * diagonal.log().sum(-1)
            self.precisions[label, :k] = roots if self.covariance == "full" else roots.square()

    def _starts(self) -> dict[int, dict[str, np.ndarray]]:
        """The last mixtures, for EM to start from, of the classes where every component is alive;
        none for ``full``, whose subspace moves."""
        if self.covariance == "full":
            return {}
        alive = (self.weights > 1e-4).all(1).nonzero().flatten().tolist()
        return {
            label: {
                "weights_init": (self.weights[label] / self.weights[label].sum()).cpu().numpy(),
                "means_init": self.means[label].cpu().numpy().copy(),
                "precisions_init": self.precisions[label].cpu().numpy(),
            }
            for label in alive
        }
