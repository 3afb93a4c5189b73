"""CEM with slot attention and gated cross attention."""

from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, MultipleOf
from torch import Tensor
from torch.nn.functional import softplus

from smashbench.defenses.base import Diagnostic, Diagnostics
from smashbench.defenses.cem import Count, NonNegative, Positive
from smashbench.defenses.gates import Thresholded
from smashbench.defenses.groups import Groups
from smashbench.defenses.own_parameters import OwnParameters
from smashbench.defenses.slot_context import SlotContext, mlp, shares


class SlotAttention(OwnParameters, Thresholded):
    """SlotCrossAttentionCEM: slots find modes among the samples of a class; the variance around
    each slot, gated in six ways, is the penalty.

    The samples of a class are the tokens (``SlotContext``). On their contexts y (or on the
    features), soft assignments r to the slots give geometric means mu_s and variances v_s:
    measured, never predicted. With mean over dimensions and sum over slots, R_c = class gate *
    sum_s w_s mean_d [dimension gate * SNR gate * margin(v_sd)].

    Gates: dimension sigmoid(MLP(LN(log v))); SNR sigmoid(kappa (v / (mu^2 + eps) - tau_snr));
    margin 1/b log(1 + exp(b (log v - log tau - m))); slot mass w_s ~ (mass_s / M)^rho; class
    sigmoid(a (M / B - b)).

    Known traps: with the features as they are, the penalty can fall by three routes. The dimension
    gate closes (``dimension_gate``). The contexts of a class become equal (``measured_variance``
    falls by orders while the true class variance stays, and ``effective_samples`` says nothing).
    Or, with ``measure`` features, every slot looks at one sample (``effective_samples`` falls, and
    ``slot_variance`` against ``measured_variance``). ``dimensions`` open takes the first route
    away, ``measure`` features the second, ``attention`` detached or adversarial all of them;
    normalized contexts become equal all the same.

    Deviation: the source shuts the penalty off while the mean dimension or SNR gate is below .001
    or above .999. Gates that are open would stay so for good, since nothing compresses features
    any more (seen on features without class structure); here only closed gates shut it off.

    Args:
        slots, width, rounds: S slots of ``width`` dimensions, refined ``rounds`` times.
        measure: variance of the ``context`` y or of the ``features`` z.
        attention: ``joint`` trains all that is learned to lower the penalty, as the source does;
            ``adversarial`` trains it to raise the penalty; ``detached`` keeps it as it was drawn.
        dimensions: ``gated`` by the dimension gate; ``open`` leaves it out.
        contexts: with the ``learned`` scale of their projection, or ``normalized`` without.
        slot_power: exponent that sharpens the assignments before they are renormalised.
        snr_threshold, snr_sharpness: tau_snr, kappa.
        margin, margin_sharpness: m, b of the margin.
        mass_power: rho.
        class_threshold, class_sharpness: b, a of the class gate.
        shutoff_steps: the penalty is 0 in this many first calls after the warm-up.
        gate_floor: the penalty is 0 while the mean dimension or SNR gate is below it.
        warmup_epochs: as in ``Cem``, but 3 unless told.
        scale: as in ``Cem``, but 0.25 unless told.
        options: the other ones of ``OwnParameters`` and ``Thresholded``.
    """

    diagnostics = Thresholded.diagnostics | {
        "effective_samples": Diagnostic("effective samples per class", column=True),
        "dimension_gate": Diagnostic("mean dimension gate"),
        "snr_gate": Diagnostic("mean SNR gate"),
        "class_gate": Diagnostic("mean class gate"),
        "slot_mass_entropy": Diagnostic("slot mass entropy, nats"),
        "slot_variance": Diagnostic("variance within slots, as penalised", logarithmic=True),
        "measured_variance": Diagnostic(
            "variance within classes of what slots measure", logarithmic=True
        ),
        "shut_off": Diagnostic("share of steps shut off"),
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        slots: Annotated[int, Ge(1)] = 8,
        width: Annotated[int, Ge(4), MultipleOf(4)] = 64,
        rounds: Annotated[int, Ge(1)] = 3,
        measure: Literal["context", "features"] = "context",
        attention: Literal["joint", "detached", "adversarial"] = "joint",
        dimensions: Literal["gated", "open"] = "gated",
        contexts: Literal["learned", "normalized"] = "learned",
        slot_power: Positive = 1.0,
        snr_threshold: float = 0.3,
        snr_sharpness: NonNegative = 10.0,
        margin: float = 0.1,
        margin_sharpness: Positive = 1.0,
        mass_power: NonNegative = 2.0,
        class_threshold: float = 0.05,
        class_sharpness: NonNegative = 10.0,
        shutoff_steps: Count = 100,
        gate_floor: NonNegative = 0.001,
        warmup_epochs: Count = 3,
        scale: NonNegative = 0.25,
        **options: Any,
    ) -> None:
        super().__init__(shape, classes, warmup_epochs=warmup_epochs, scale=scale, **options)
        self.slots, self.measure, self.attention = slots, measure, attention
        self.snr_threshold, self.snr_sharpness = snr_threshold, snr_sharpness
        self.margin, self.margin_sharpness = margin, margin_sharpness
        self.mass_power, self.gate_floor = mass_power, gate_floor
        self.class_threshold, self.class_sharpness = class_threshold, class_sharpness
        self.shutoff_steps, self.calls = shutoff_steps, 0
        size = torch.Size(shape).numel()
        normalized = contexts == "normalized"
        self.context = SlotContext(size, slots, width, rounds, slot_power, normalized)
        measured = width if measure == "context" else size
        self.dimension_gate = mlp(measured, 64, measured) if dimensions == "gated" else None

    def progress(self) -> dict[str, Any]:
        return {"calls": self.calls}

    def resume(self, progress: dict[str, Any]) -> None:
        self.calls = progress["calls"]

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        self.calls += 1
        if self.calls <= self.shutoff_steps:
            return 0 * (groups.member @ z).sum(1), {"shut_off": z.new_ones(())}
        context, r = self.learned(self.context, z, groups)
        return self._gated_variance(context if self.measure == "context" else z, r, groups)

    def _gated_variance(self, x: Tensor, r: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        """R_c (G,) from samples x (B, D) and their assignments r (B, S)."""
        weights, mass, matrix = shares(r, groups)
        origin = groups.mean(x).detach()
        centred = x - origin.index_select(0, groups.index)
        mean = matrix @ centred
        v = (matrix @ centred.square() - mean.square()).clamp_min(0) + 1e-8
        mean = mean + origin.repeat_interleave(self.slots, 0)
        dimension = torch.ones_like(v)
        if self.dimension_gate:
            dimension = self.learned(self.dimension_gate, v.log()).sigmoid()
        snr = (self.snr_sharpness * (v / (mean.square() + 1e-6) - self.snr_threshold)).sigmoid()
        excess = self.margin_sharpness * (v / self.tau).log().sub(self.margin)
        margin = softplus(excess) / self.margin_sharpness
        per_slot = (dimension * snr * margin).mean(1).view_as(mass)
        share = mass / groups.count.clamp_min(1)[:, None]
        w = share.clamp_min(1e-12).pow(self.mass_power)
        w = w / w.sum(1, keepdim=True).clamp_min(1e-12)
        frequency = groups.count / len(x)
        class_gate = (self.class_sharpness * (frequency - self.class_threshold)).sigmoid()
        losses = class_gate * (w * per_slot).sum(1)
        several = groups.count > 1

        def per_class(values: Tensor) -> Tensor:
            """Mean of values (G S, D) over dimensions, slots and classes."""
            return _mean(values.mean(1).view_as(mass).mean(1), several)

        with torch.no_grad():
            means = torch.stack([per_class(dimension), per_class(snr)])
            healthy = (means >= self.gate_floor).all()
            entropy = -(share * share.clamp_min(1e-12).log()).sum(1)
            effective = share / weights.square().sum(2).clamp_min(1e-12)
            diagnostics = {
                "dimension_gate": means[0],
                "snr_gate": means[1],
                "class_gate": _mean(class_gate, several),
                "slot_mass_entropy": _mean(entropy, several),
                "effective_samples": _mean(effective.sum(1), several),
                "slot_variance": _mean((w * v.mean(1).view_as(mass)).sum(1), several),
                "measured_variance": _mean(groups.mean(centred.square()).mean(1), several),
                "active_gates": per_class((v > self.tau).to(v.dtype)),
                "shut_off": (~healthy).to(x.dtype),
            }
        return losses.where(several & healthy, 0), diagnostics


def _mean(values: Tensor, where: Tensor) -> Tensor:
    """Mean of ``values`` (G,) over the groups in ``where``; 0 if there are none."""
    return values.where(where, 0).sum() / where.sum().clamp_min(1)
