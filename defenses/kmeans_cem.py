"""CEM with K-means clusters per class."""

import warnings
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Diagnostic, Diagnostics
from smashbench.defenses.cem import NonNegative, Refitted
from smashbench.defenses.gates import Gated, Variance
from smashbench.defenses.groups import Groups, by_class
from smashbench.defenses.rounds import Rows, lloyd


class KMeansCem(Refitted, Gated):
    """K-means CEM (Xia et al., CVPR 2025): shrinks the variance around the centres of K clusters
    per class.

    Every sample is given to the nearest centre of its class; vhat_ck is the mean squared distance
    of the batch members of cluster (c, k) to its centre, 0 when there is none; R_c =
    gate(sum_k pi_ck vhat_ck). Centres and weights pi are refitted by K-means on the training
    features (``Refitted``), first from k-means++ and then from the last centres, and carry no
    gradient. A class that has lost a cluster begins again.

    The authors' code differs from their text, and the last three options select what it does:
    ``variance`` mean, ``pooling`` cluster and ``blend`` 10, with ``class_weight`` uniform.

    Args:
        clusters: K.
        variance: the text's scalar is ``trace``; ``mean`` puts tau in units of the noise.
        pooling: gate the variance of the ``class``, or of each ``cluster``: sum_k pi_ck gate(v_ck).
        blend: b > 0 mixes the batch's variance of a cluster, with share min(0.99, b n_ck / N_ck)
            for n_ck of its N_ck training samples, and the last refit's with the rest.
        options: those of ``Refitted`` and ``Gated``.
    """

    diagnostics = {
        **Refitted.diagnostics,
        **Gated.diagnostics,
        "occupancy": Diagnostic("clusters in use, share"),
    }
    centres: Tensor
    weights: Tensor
    spreads: Tensor
    sizes: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        clusters: Annotated[int, Ge(1)] = 5,
        variance: Variance = "trace",
        pooling: Literal["class", "cluster"] = "class",
        blend: NonNegative = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(shape, classes, variance=variance, **options)
        self.clusters = clusters
        self.pooling, self.blend = pooling, blend
        dimensions = torch.Size(shape).numel()
        self.register_buffer("centres", torch.zeros(classes, clusters, dimensions))
        self.register_buffer("weights", torch.zeros(classes, clusters))
        self.register_buffer("sizes", torch.zeros(classes, clusters))
        if blend:
            self.register_buffer("spreads", torch.zeros(classes, clusters, dimensions))

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        g, k = len(groups.count), self.clusters
        with torch.no_grad():
            label = groups.labels(y)
            offsets = self.centres.index_select(0, label)  # (G, K, D)
            origin = offsets.mean(1)  # the products of large features would cancel
            offsets -= origin[:, None]
            product = groups.products(z - origin.index_select(0, groups.index), offsets)
            distance = offsets.square().sum(2)[groups.index] - 2 * product
            nearest = distance.masked_fill(self.weights[y] == 0, torch.inf).argmin(1)
            centre = self.centres.flatten(0, 1).index_select(0, y * k + nearest)
            cluster = groups.index * k + nearest
            members = z.new_zeros(g * k).index_add(0, cluster, torch.ones_like(z[:, 0]))
            weights = self.weights[label][..., None]
        reduced = self.reduce((z - centre).square()) / members[cluster][:, None]
        v = reduced.new_zeros(g * k, reduced.shape[1]).index_add(0, cluster, reduced).view(g, k, -1)
        if self.blend:
            own = members.view(g, k)
            share = (self.blend * own / self.sizes[label].clamp_min(1)).clamp_max(0.99)[..., None]
            mixed = torch.lerp(self.reduce(self.spreads[label]), v, share)
            v = mixed.where(own[..., None] > 0, 0)
        present = groups.count > 0
        if self.pooling == "cluster":
            each, diagnostics = self.gated(v, (members > 0).view(g, k))
            losses = (weights.squeeze(2) * each).sum(1)
        else:
            losses, diagnostics = self.gated((weights * v).sum(1), present)
        occupancy = (members > 0).sum().to(z.dtype) / (present.sum() * k)
        return losses, diagnostics | {"occupancy": occupancy}

    def fit(self, z: Tensor, y: Tensor) -> None:
        known = (self.weights > 0).all(1) & (y.bincount(minlength=self.classes) >= self.clusters)
        for each in (self.centres, self.weights, self.sizes):
            each[~known] = 0
        if known.any():
            self._go_on(z, y, known)
        new = ~known[y]
        self._begin(z[new], y[new])

    def _go_on(self, z: Tensor, y: Tensor, known: Tensor) -> None:
        """Refits classes from their last centres."""
        rows = Rows.of(z, y, self.classes)
        centres, nearest = lloyd(rows, self.centres, self.rounds)
        counts = nearest.sum(1)
        self.centres[known] = centres[known]
        self.sizes[known] = counts[known]
        self.weights[known] = (counts / counts.sum(1, keepdim=True))[known]
        if self.blend:
            squares = (rows.features - nearest @ centres).square()
            spreads = (nearest.mT @ squares) / counts.clamp_min(1)[..., None]
            self.spreads[known] = spreads[known]

    def _begin(self, z: Tensor, y: Tensor) -> None:
        """Fits classes from k-means++."""
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        for label, members in by_class(z, y):
            k = min(self.clusters, len(members))
            seed = int(torch.randint(2**31, ()))
            with warnings.catch_warnings():  # fewer distinct samples than clusters is ordinary
                warnings.simplefilter("ignore", ConvergenceWarning)
                fit = KMeans(k, n_init=1, random_state=seed).fit(members)
            counts = np.bincount(fit.labels_, minlength=k)
            self.centres[label, :k] = torch.as_tensor(fit.cluster_centers_)
            self.weights[label, :k] = torch.as_tensor(counts / len(members))
            self.sizes[label, :k] = torch.as_tensor(counts)
            if self.blend:
                squares = (members - fit.cluster_centers_[fit.labels_]) ** 2
                sums = np.stack([squares[fit.labels_ == i].sum(0) for i in range(k)])
                spreads = sums / np.maximum(counts, 1)[:, None]
                self.spreads[label, :k] = torch.as_tensor(spreads.astype("float32"))
