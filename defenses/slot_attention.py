"""CEM with slot attention and gated cross attention."""

from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, MultipleOf
from torch import Tensor, nn
from torch.nn.functional import layer_norm, softplus

from smashbench.defenses.base import Diagnostic, Diagnostics
from smashbench.defenses.cem import Cem, Count, NonNegative, Positive
from smashbench.defenses.groups import Groups


class SlotAttention(Cem):
    """SlotCrossAttentionCEM: slots find modes among the samples of a class; the variance around
    each slot, gated in six ways, is the penalty.

    The samples of a class are the tokens. Slots compete for them in ``rounds`` of slot attention
    (Locatello et al., NeurIPS 2020, algorithm 1), and a gated cross attention (Alayrac et al.,
    NeurIPS 2022, section 2.2) writes the slots back into every sample: y = q + tanh(alpha)
    CrossAttention(q, slots); y = y + tanh(alpha') FFN(LN(y)). On y (or on the features), soft
    assignments r to the slots give geometric means mu_s and variances v_s: measured, never
    predicted. With mean over dimensions and sum over slots, R_c = class gate * sum_s w_s
    mean_d [dimension gate * SNR gate * margin(v_sd)].

    Gates: dimension sigmoid(MLP(LN(log v))); SNR sigmoid(kappa (v / (mu^2 + eps) - tau_snr));
    margin 1/b log(1 + exp(b (log v - log tau - m))); slot mass w_s ~ (mass_s / M)^rho; class
    sigmoid(a (M / B - b)).

    Args:
        slots, width, rounds: S slots of ``width`` dimensions, refined ``rounds`` times.
        measure: variance of the ``context`` y or of the ``features`` z.
        slot_power: exponent that sharpens the assignments before they are renormalised.
        snr_threshold, snr_sharpness: tau_snr, kappa.
        margin, margin_sharpness: m, b of the margin.
        mass_power: rho.
        class_threshold, class_sharpness: b, a of the class gate.
        shutoff_steps: the penalty is 0 in this many first calls after the warm-up.
        gate_range: the penalty is 0 while the mean dimension or SNR gate is outside this range.
        cem: the options of ``Cem``; ``gate`` and ``variance`` do not apply here.
    """

    diagnostics = Cem.diagnostics | {
        "effective_samples": Diagnostic("effective samples per class", column=True),
        "dimension_gate": Diagnostic("mean dimension gate"),
        "snr_gate": Diagnostic("mean SNR gate"),
        "class_gate": Diagnostic("mean class gate"),
        "slot_mass_entropy": Diagnostic("slot mass entropy, nats"),
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
        slot_power: Positive = 1.0,
        snr_threshold: float = 0.3,
        snr_sharpness: NonNegative = 10.0,
        margin: float = 0.1,
        margin_sharpness: Positive = 1.0,
        mass_power: NonNegative = 2.0,
        class_threshold: float = 0.05,
        class_sharpness: NonNegative = 10.0,
        shutoff_steps: Count = 100,
        gate_range: tuple[float, float] = (0.001, 0.999),
        warmup_epochs: Count = 3,
        scale: NonNegative = 0.25,
        **cem: Any,
    ) -> None:
        super().__init__(shape, classes, warmup_epochs=warmup_epochs, scale=scale, **cem)
        self.slots, self.rounds, self.measure, self.slot_power = slots, rounds, measure, slot_power
        self.snr_threshold, self.snr_sharpness = snr_threshold, snr_sharpness
        self.margin, self.margin_sharpness = margin, margin_sharpness
        self.mass_power, self.gate_range = mass_power, gate_range
        self.class_threshold, self.class_sharpness = class_threshold, class_sharpness
        self.shutoff_steps, self.calls = shutoff_steps, 0
        dimensions = torch.Size(shape).numel()
        self.project = nn.Linear(dimensions, 2 * width, bias=False)
        self.slot_mean = nn.Parameter(0.5 * torch.randn(slots, width))
        self.slot_log_std = nn.Parameter(torch.full((slots, width), -2.0))
        self.slot_norm, self.slot_query = nn.LayerNorm(width), nn.Linear(width, width, bias=False)
        self.gru = nn.GRUCell(width, width)
        self.slot_mlp = _mlp(width, 2 * width, width)
        self.cross = nn.MultiheadAttention(width, 4, batch_first=True)
        self.ffn = _mlp(width, 2 * width, width)
        self.alpha_attention = nn.Parameter(torch.tensor(0.1))
        self.alpha_ffn = nn.Parameter(torch.tensor(0.1))
        self.beta = nn.Parameter(torch.tensor(1.0))
        measured = width if measure == "context" else dimensions
        self.dimension_gate = _mlp(measured, 64, measured)

    def progress(self) -> dict[str, Any]:
        return {"calls": self.calls}

    def resume(self, progress: dict[str, Any]) -> None:
        self.calls = progress["calls"]

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        self.calls += 1
        if self.calls <= self.shutoff_steps:
            return 0 * (groups.member @ z).sum(1), {}
        keys, values = self.project(layer_norm(z, z.shape[1:])).chunk(2, dim=1)
        slots = self._slots(keys, values, groups)
        context = self._cross_attend(keys, slots, groups)
        r = self._assign(context, slots, groups)
        measured = context if self.measure == "context" else z
        return self._gated_variance(measured, r, groups)

    def _slots(self, keys: Tensor, values: Tensor, groups: Groups) -> Tensor:
        """Slots (G, S, width) of every group; keys and values are (B, width)."""
        g, width = len(groups.count), keys.shape[1]
        slots = self.slot_mean.expand(g, -1, -1)
        if self.training:
            slots = slots + self.slot_log_std.exp() * torch.randn_like(slots)
        for _ in range(self.rounds):
            query = self.slot_query(self.slot_norm(slots)) * width**-0.25
            logits = torch.einsum("bd,bsd->bs", keys * width**-0.25, query[groups.index])
            _, mass, shares = _shares(logits.softmax(1), groups)
            update = (shares @ values).view(g, self.slots, width)
            new = self.gru(update.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = (new + self.slot_mlp(new)).where((mass > 0)[..., None], slots)
        return slots

    def _cross_attend(self, query: Tensor, slots: Tensor, groups: Groups) -> Tensor:
        """Context (B, width): every sample attends to the slots of its class."""
        own = slots[groups.index]
        attended = self.cross(query[:, None], own, own, need_weights=False)[0].squeeze(1)
        context = query + self.alpha_attention.tanh() * attended
        return context + self.alpha_ffn.tanh() * self.ffn(context)

    def _assign(self, context: Tensor, slots: Tensor, groups: Groups) -> Tensor:
        """Soft assignments (B, S) to the slots of each sample's class, by scaled dot products; a
        softmax to the power p, renormalised, is the softmax of p times the logits."""
        similarity = torch.einsum("bd,bsd->bs", context, slots[groups.index])
        similarity = similarity * context.shape[1] ** -0.5
        return (self.slot_power * self.beta * similarity).softmax(1)

    def _gated_variance(self, x: Tensor, r: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        """R_c (G,) from samples x (B, D) and their assignments r (B, S)."""
        weights, mass, shares = _shares(r, groups)
        origin = groups.mean(x).detach()
        centred = x - origin[groups.index]
        mean = shares @ centred
        v = (shares @ centred.square() - mean.square()).clamp_min(0) + 1e-8
        mean = mean + origin.repeat_interleave(self.slots, 0)
        dimension = self.dimension_gate(v.log()).sigmoid()
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
            low, high = self.gate_range
            healthy = ((means >= low) & (means <= high)).all()
            entropy = -(share * share.clamp_min(1e-12).log()).sum(1)
            effective = share / weights.square().sum(2).clamp_min(1e-12)
            diagnostics = {
                "dimension_gate": means[0],
                "snr_gate": means[1],
                "class_gate": _mean(class_gate, several),
                "slot_mass_entropy": _mean(entropy, several),
                "effective_samples": _mean(effective.sum(1), several),
                "active_gates": per_class((v > self.tau).to(v.dtype)),
                "shut_off": (~healthy).to(x.dtype),
            }
        return losses.where(several & healthy, 0), diagnostics


def _shares(r: Tensor, groups: Groups) -> tuple[Tensor, Tensor, Tensor]:
    """Assignments (B, S) as weights (G, S, B) that sum to 1 over a group's samples, the mass
    (G, S) of every slot, and the weights as a matrix (G S, B)."""
    held = groups.member[:, None] * r.T
    mass = held.sum(2)
    weights = held / mass.clamp_min(1e-12)[..., None]
    return weights, mass, weights.flatten(0, 1)


def _mean(values: Tensor, where: Tensor) -> Tensor:
    """Mean of ``values`` (G,) over the groups in ``where``; 0 if there are none."""
    return values.where(where, 0).sum() / where.sum().clamp_min(1)


def _mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    layers = [nn.LayerNorm(inputs), nn.Linear(inputs, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))
