"""First looks at what the sources of the CEM family ask for: one class per idea; statistics here.

A plug-in for the suite beside it; docs/ablations.md says what came of it.
"""

from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, layer_norm

from smashbench.defenses.base import Diagnostics, Step
from smashbench.defenses.cem import Cem
from smashbench.defenses.class_variance import ClassVariance
from smashbench.defenses.gated_pooling import GatedPooling
from smashbench.defenses.groups import Groups
from smashbench.defenses.kmeans_cem import KMeansCem


class PooledFeatures(ClassVariance):
    """Statistics on features averaged to a p x p grid first."""

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, grid: Annotated[int, Ge(1)] = 2, **cem: Any
    ) -> None:
        super().__init__(shape, classes, **cem)
        self.grid = grid

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        pooled = adaptive_avg_pool2d(z.view(-1, *self.shape), self.grid).flatten(1)
        return super().class_losses(pooled, y, groups)


class Information(Cem):
    """Conditional mutual information I(X; Z~ | Y) as the objective, by ``estimate``: ``gaussian``
    1/2 logdet(I + S_c / s^2) by the Gram matrix, per feature; ``pairwise`` (Kolchinsky and
    Tracey, Entropy 2017) -1/M sum_i log 1/M sum_j exp(-|z_i - z_j|^2 / 2 s^2), over log M."""

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        estimate: Literal["gaussian", "pairwise"] = "gaussian",
        **cem: Any,
    ) -> None:
        super().__init__(shape, classes, **cem)
        self.estimate = estimate

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        s2 = max(self.s**2, 1e-8)
        several = groups.count > 1
        count = groups.count.clamp_min(1)
        same = groups.member.T @ groups.member  # (B, B) 1 where two are of one class
        if self.estimate == "gaussian":
            centred = z - groups.mean(z)[groups.index]
            scale = count[groups.index].sqrt()
            gram = (centred @ centred.T) * same / (scale[:, None] * scale) / s2
            eye = torch.eye(len(z), dtype=z.dtype, device=z.device)
            masks = groups.member[:, :, None] * groups.member[:, None]
            blocks = torch.linalg.cholesky_ex(eye + gram * masks).L
            losses = blocks.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        else:
            squares = (z[:, None] - z).square().sum(-1)
            logs = (-squares / (2 * s2)).masked_fill(same == 0, -torch.inf).logsumexp(1)
            each = (count[groups.index].log() - logs) / count[groups.index].log().clamp_min(0.1)
            return groups.mean(each[:, None]).squeeze(1).where(several, 0), {}
        return (losses / z.shape[1]).where(several, 0), {}


class AdaptiveTau(ClassVariance):
    """tau = an exponential average (``momentum``) of a ``quantile`` of the class variances, never
    below var_threshold s^2."""

    running: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        quantile: float = 0.5,
        momentum: float = 0.99,
        **cem: Any,
    ) -> None:
        super().__init__(shape, classes, **cem)
        self.quantile, self.momentum = quantile, momentum
        self.register_buffer("running", torch.tensor(-1.0))

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        v = self.reduce(groups.mean((z - groups.mean(z)[groups.index]).square()))
        several = groups.count > 1
        with torch.no_grad():
            seen = v.masked_fill(~several[:, None], 0).flatten()
            now = torch.quantile(seen, self.quantile)
            old = torch.where(self.running < 0, now, self.running)
            self.running.copy_(torch.lerp(now, old, self.momentum))
            tau = self.running.clamp_min(self.tau)
        gate = ((v + self.gamma).log() - (tau + self.gamma).log()).clamp_min(0)
        return gate.mean(-1).where(several, 0), self.gated(v, several)[1]


class Clusters(KMeansCem):
    """K-means CEM with refits on a ``share`` of the features, ``outliers`` clipped to (or their
    centre moved when above) ``limit`` times the class median, and ``momentum`` of the centres."""

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        share: float = 1.0,
        outliers: Literal["keep", "clip", "reset"] = "keep",
        limit: float = 3.0,
        momentum: float = 0.0,
        **cem: Any,
    ) -> None:
        super().__init__(shape, classes, **cem)
        self.share, self.outliers, self.limit, self.momentum = share, outliers, limit, momentum

    def fit(self, z: Tensor, y: Tensor) -> None:
        flat, labels = z, y
        if self.share < 1:
            chosen = torch.randperm(len(flat))[: max(1, int(self.share * len(flat)))]
            flat, labels = flat[chosen], labels[chosen]
        old = {name: getattr(self, name).clone() for name in ("centres", "weights")}
        fitted = (old["weights"] > 0).all(1)
        super().fit(flat, labels)
        if self.outliers != "keep":
            self._tame(flat, labels)
        if self.momentum:
            for name, before in old.items():
                now = getattr(self, name)
                mixed = torch.lerp(now, before, self.momentum)
                mask = fitted.view(-1, *[1] * (now.ndim - 1))
                now.copy_(torch.where(mask, mixed, now))

    def _tame(self, flat: Tensor, labels: Tensor) -> None:
        for label in labels.unique().tolist():
            members = flat[labels == label]
            distance = (members[:, None] - self.centres[label]).square().sum(-1)
            distance = distance.masked_fill(self.weights[label] == 0, torch.inf)
            near, owner = distance.min(1)
            count = owner.bincount(minlength=self.clusters).clamp_min(1)
            spread = torch.zeros(self.clusters).index_add(0, owner, near) / count
            limit = self.limit * spread[self.weights[label] > 0].median()
            for k in (spread > limit).nonzero().flatten().tolist():
                if self.outliers == "reset":
                    self.centres[label, k] = members[near.argmax()]
                    near[near.argmax()] = 0
                else:  # its weight falls as if its variance were the limit
                    self.weights[label, k] *= limit / spread[k]


class AttentionCentres(KMeansCem):
    """K-means whose first centres are drawn by k-means++ with probabilities multiplied by the
    attention of a gated pooling that is trained beside it, if ``seeded``."""

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, seeded: bool = True, **cem: Any
    ) -> None:
        super().__init__(shape, classes, **cem)
        self.seeded = seeded
        self.pool = GatedPooling(
            shape, classes, noise=self.noise, warmup_epochs=0, scale=1.0, lam=0.05
        )

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        total, seen = super().penalty(step)
        extra, _ = self.pool.penalty(step)
        return total + extra, seen

    def fit(self, z: Tensor, y: Tensor) -> None:
        flat, labels = z, y
        if self.seeded:
            attention = self.pool.logits(layer_norm(flat, flat.shape[1:]))
            for label in labels.unique().tolist():
                members = flat[labels == label]
                weight = attention[labels == label].softmax(0)
                near = torch.ones(len(members))
                for k in range(min(self.clusters, len(members))):
                    p = (near * weight).clamp_min(1e-12)
                    chosen = int(torch.multinomial(p, 1))
                    self.centres[label, k] = members[chosen]
                    off = (members - members[chosen]).square().sum(1)
                    near = off if k == 0 else torch.minimum(near, off)
                self.weights[label] = 1 / self.clusters  # so that the refit starts from them
        super().fit(z, y)


DEFENSES = {
    "pooled_features": PooledFeatures,
    "information": Information,
    "adaptive_tau": AdaptiveTau,
    "clusters": Clusters,
    "attention_centres": AttentionCentres,
}
