"""What the defenses of the conditional entropy maximization (CEM) family share."""

from abc import abstractmethod
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from smashbench.defenses.base import Defense, Diagnostic, Diagnostics, Step, full_precision
from smashbench.defenses.groups import Groups

NonNegative = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
Count = Annotated[int, Ge(0)]
LARGEST = 1e6
"""Features beyond it count as not finite: sums of their squares over s^2 would overflow."""


class Cem(Defense):
    """A penalty that shrinks the variance of the features within each class, over noise.

    Conditional entropy maximization (Xia et al., CVPR 2025) raises H(x | z~), and does it by
    lowering H(z | y) relative to the noise. Why: I(x; z~) <= H(y) + I(x; z~ | y), and for
    Gaussian noise of standard deviation s the last term is at most 1/2 sum_d log(1 + v_d / s^2)
    with v_d the within-class variance. Penalty = lam * scale * sum_c beta_c R_c; a subclass
    supplies R_c (``class_losses``). It is computed in float32 whatever autocast says. In a stack, s
    is that of all the noise in it.

    Args:
        noise: standard deviation of the noise that it stands on (Xia et al., CVPR 2025: 0.025). In
            a stack the default is 0: other parts add it.
        lam: weight of the penalty (lambda).
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
    group = "CEM"
    stacked = {"noise": 0.0}
    diagnostics = {
        "surrogate": Diagnostic("surrogate (unweighted penalty)", logarithmic=True, column=True),
        "nonfinite": Diagnostic("samples left out per step"),
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        noise: NonNegative = 0.025,
        lam: NonNegative = 1.0,
        class_weight: Literal["frequency", "uniform"] = "frequency",
        warmup_epochs: Count = 0,
        scale: NonNegative = 1.0,
        scale_end: NonNegative | None = None,
        ramp_epochs: Count = 0,
        lam_steps: tuple[tuple[Count, NonNegative], ...] = (),
        clip: NonNegative = 0.0,
    ) -> None:
        super().__init__(shape, classes)
        if ramp_epochs and scale_end is None:
            raise ValueError(f"ramp_epochs = {ramp_epochs} does nothing without scale_end")
        self.noise = self.s = noise
        self.lam, self.class_weight, self.clip = lam, class_weight, clip
        self.warmup_epochs, self.scale = warmup_epochs, scale
        self.scale_end, self.ramp_epochs, self.lam_steps = scale_end, ramp_epochs, lam_steps

    def stand_on(self, noise: float) -> None:
        self.s = noise

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
        with full_precision(step.features) as z:
            if self.clip and z.requires_grad:
                z = z.view_as(z)
                z.register_hook(lambda g: g * (self.clip / g.norm().clamp_min(self.clip)))
            loss, diagnostics = self._surrogate(z.flatten(1), step.labels)
        return self.lam * self.current_scale * loss, diagnostics

    def _surrogate(self, z: Tensor, y: Tensor) -> tuple[Tensor, Diagnostics]:
        """sum_c beta_c R_c of features (B, D). A class with a sample that is not finite costs
        nothing in this step."""
        bad = left_out(z)
        groups = Groups.of(y, self.classes, z.dtype)
        losses, diagnostics = self.class_losses(z.masked_fill(bad[:, None], 0), y, groups)
        spoiled = (groups.member @ bad.to(z.dtype)) > 0
        beta = groups.count / len(y)
        if self.class_weight == "uniform":
            present = (groups.count > 0).to(z.dtype)
            beta = present / present.sum()
        loss = (beta * losses.masked_fill(spoiled, 0)).sum()
        seen = {"surrogate": loss.detach(), "nonfinite": bad.sum().to(z.dtype)}
        return loss, diagnostics | seen

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


class Refitted(Cem):
    """Penalties whose statistics are refitted between epochs.

    The first refit of a class is scikit-learn's. Later ones go on from the last for a few rounds,
    all classes at once and on the device (``defenses.rounds``): docs/ablations.md says what that
    does to centres and results.

    Args:
        refresh_every: epochs between refits, after the warm-up.
        refit: what refits see: ``epoch``, the features of the epoch before, augmented; ``clean``,
            those of an evaluation pass over the training images, which costs a second pass of the
            encoder. (Deviation: the code of Xia et al. makes such a pass over augmented images.)
        rounds: of Lloyd's algorithm or of EM, in a refit that goes on from the last.
        refit_share: share of these features that a refit sees, drawn anew for each.
        warmup_epochs: as in ``Cem``, but 1 unless told.
        cem: the other options of ``Cem``.
    """

    diagnostics = Cem.diagnostics | {
        "refit_left_out": Diagnostic("samples left out of the last refit"),
    }
    refit_left_out: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        refresh_every: Annotated[int, Ge(1)] = 1,
        refit: Literal["clean", "epoch"] = "epoch",
        rounds: Annotated[int, Ge(1)] = 1,
        refit_share: Annotated[float, Gt(0), Le(1)] = 1.0,
        warmup_epochs: Count = 1,
        **cem: Any,
    ) -> None:
        super().__init__(shape, classes, warmup_epochs=warmup_epochs, **cem)
        self.refresh_every, self.refit, self.refit_share = refresh_every, refit, refit_share
        self.rounds = rounds
        self.register_buffer("refit_left_out", torch.zeros(()))

    @property
    def wants_refresh(self) -> bool:
        since = self.epoch - self.warmup_epochs
        return since >= 0 and since % self.refresh_every == 0

    @abstractmethod
    def fit(self, z: Tensor, y: Tensor) -> None:
        """Refits on features (N, D), all finite, and labels (N,)."""

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        flat = features.flatten(1)
        if self.refit_share < 1:
            size = max(1, round(self.refit_share * len(flat)))
            chosen = torch.randperm(len(flat))[:size].to(flat.device)
            flat, labels = flat[chosen], labels[chosen]
        bad = left_out(flat)
        self.refit_left_out.copy_(bad.sum())
        self.fit(flat[~bad], labels[~bad])

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        value, diagnostics = super().penalty(step)
        if diagnostics:
            diagnostics["refit_left_out"] = self.refit_left_out.clone()
        return value, diagnostics


def left_out(z: Tensor) -> Tensor:
    """Which samples (B,) of features (B, D) are not finite, or too large to be squared."""
    return ~(z.abs().amax(1) <= LARGEST)  # of NaN, too
