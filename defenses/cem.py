"""What the defenses of the conditional entropy maximization (CEM) family share."""

from abc import abstractmethod
from math import log
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from smashbench.defenses.base import Diagnostic, Diagnostics, Role, Step
from smashbench.defenses.groups import Groups
from smashbench.defenses.noise import Noise

Gate = Literal["log", "linear", "capacity"]
Variance = Literal["per_dim", "mean", "trace"]
NonNegative = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
Count = Annotated[int, Ge(0)]


class Cem(Noise):
    """Noise, and a penalty that shrinks the variance of the features within each class.

    Conditional entropy maximization (Xia et al., CVPR 2025) raises H(x | z~), and does it by
    lowering H(z | y) relative to the noise. Why: I(x; z~) <= H(y) + I(x; z~ | y), and for
    Gaussian noise of standard deviation s the last term is at most 1/2 sum_d log(1 + v_d / s^2)
    with v_d the within-class variance. Penalty = lam * scale * sum_c beta_c R_c; a subclass
    supplies R_c (``class_losses``).

    Args:
        noise: standard deviation s of the noise (Xia et al., CVPR 2025: 0.025).
        lam: weight of the penalty (lambda).
        gate: R as a function of a variance v, with tau = max(var_threshold * s^2, 1e-8).
            ``log``: max(0, log(v + gamma) - log(tau + gamma)), Xia et al.; ``linear``: v;
            ``capacity``: 1/2 log(1 + v / s^2), nats per feature, ours.
        variance: ``per_dim`` gates every dimension and averages; ``mean`` and ``trace`` average
            or sum the variance over the dimensions first.
        var_threshold: tau in units of s^2; variances below it cost nothing (``log``).
        gamma: smoothing of the logarithm.
        class_weight: beta_c = M_c / B (``frequency``) or one share per class that is present
            (``uniform``).
        warmup_epochs: epochs without penalty.
        scale: factor on the penalty after the warm-up.
        scale_end: with ``ramp_epochs``, the factor after a linear ramp; None keeps ``scale``.
        ramp_epochs: length of that ramp.
        lam_steps: pairs (epoch, factor): from that epoch on lam is multiplied by the factor, as a
            table in place of the reference code's coupling of lam to the learning rate.
        clip: largest norm of the penalty's gradient with respect to the batch's features; 0 does
            not clip.
    """

    strength = "lam"
    role: ClassVar[Role] = "defense"
    diagnostics = {
        "surrogate": Diagnostic("surrogate (unweighted penalty)", logarithmic=True, column=True),
        "active_gates": Diagnostic("share of active gates", column=True),
        "nonfinite": Diagnostic("non-finite samples per step"),
    }

    refresh_every: int = 0
    """Epochs between refits of statistics, after the warm-up; 0 where there are none."""

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        noise: NonNegative = 0.025,
        lam: NonNegative = 1.0,
        gate: Gate = "log",
        variance: Variance = "per_dim",
        var_threshold: NonNegative = 0.125,
        gamma: Positive = 0.01,
        class_weight: Literal["frequency", "uniform"] = "frequency",
        warmup_epochs: Count = 0,
        scale: NonNegative = 1.0,
        scale_end: NonNegative | None = None,
        ramp_epochs: Count = 0,
        lam_steps: tuple[tuple[Count, NonNegative], ...] = (),
        clip: NonNegative = 0.0,
    ) -> None:
        super().__init__(shape, classes, noise=noise)
        self.lam, self.gate_kind, self.variance = lam, gate, variance
        self.var_threshold, self.gamma, self.class_weight = var_threshold, gamma, class_weight
        self.warmup_epochs, self.scale, self.clip = warmup_epochs, scale, clip
        self.scale_end, self.ramp_epochs, self.lam_steps = scale_end, ramp_epochs, lam_steps

    @abstractmethod
    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        """R_c of every group.

        Args:
            z: finite features (B, D).
            y: labels (B,).
            groups: the batch grouped by label, G groups.

        Returns:
            (G,) losses, finite for empty groups too, and diagnostics.
        """

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        if self.epoch < self.warmup_epochs:
            return super().penalty(step)
        z, y = step.features, step.labels
        if self.clip and z.requires_grad:
            z = z.view_as(z)
            z.register_hook(lambda g: g * (self.clip / g.norm().clamp_min(self.clip)))
        flat = z.flatten(1)
        bad = ~flat.isfinite().all(1)
        groups = Groups.of(y, self.classes, flat.dtype)
        losses, diagnostics = self.class_losses(flat.masked_fill(bad[:, None], 0), y, groups)
        spoiled = (groups.member @ bad.to(flat.dtype)) > 0
        beta = groups.count / len(y)
        if self.class_weight == "uniform":
            present = (groups.count > 0).to(flat.dtype)
            beta = present / present.sum()
        loss = (beta * losses.masked_fill(spoiled, 0)).sum()
        diagnostics |= {"surrogate": loss.detach(), "nonfinite": bad.sum().to(flat.dtype)}
        return self.lam * self.current_scale * loss, diagnostics

    @property
    def wants_refresh(self) -> bool:
        since = self.epoch - self.warmup_epochs
        return self.refresh_every > 0 and since >= 0 and since % self.refresh_every == 0

    @property
    def current_scale(self) -> float:
        """The factor on lam at this epoch: ``scale`` or a point on its ramp, times the last of
        ``lam_steps`` that has begun."""
        scale = self.scale
        if self.scale_end is not None:
            done = min(1.0, (self.epoch - self.warmup_epochs) / max(1, self.ramp_epochs))
            scale += done * (self.scale_end - self.scale)
        begun = [factor for epoch, factor in sorted(self.lam_steps) if epoch <= self.epoch]
        return scale * begun[-1] if begun else scale

    @property
    def tau(self) -> float:
        """The variance below which the log gate is closed."""
        return max(self.var_threshold * self.noise**2, 1e-8)

    def gate(self, v: Tensor) -> Tensor:
        """Gate of variances ``v``, elementwise."""
        if self.gate_kind == "linear":
            return v
        if self.gate_kind == "capacity":
            return 0.5 * torch.log1p(v / max(self.noise**2, 1e-8))
        return ((v + self.gamma).log() - log(self.tau + self.gamma)).clamp_min(0)

    def reduce(self, squares: Tensor) -> Tensor:
        """Puts the dimensions of ``squares`` (..., D) together as ``variance`` asks: (..., D) for
        ``per_dim``, else (..., 1)."""
        if self.variance == "per_dim":
            return squares
        if self.variance == "mean":
            return squares.mean(-1, keepdim=True)
        return squares.sum(-1, keepdim=True)

    def gated(self, v: Tensor, used: Tensor) -> tuple[Tensor, Diagnostics]:
        """Gates reduced variances ``v`` (..., D or 1) and averages over the last axis; the share
        of active gates is taken where ``used`` (...)."""
        active = (v.detach() > self.tau).to(v.dtype).mean(-1)
        share = active.where(used, 0).sum() / used.sum().clamp_min(1)
        return self.gate(v).mean(-1), {"active_gates": share}
