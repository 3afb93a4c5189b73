"""First looks at what the sources of the CEM family ask for: one class per idea; attention here.

A plug-in for the suite beside it; docs/ablations.md says what came of it.
"""

from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn.functional import layer_norm, relu

from smashbench.defenses.base import Diagnostics
from smashbench.defenses.gated_pooling import GatedPooling
from smashbench.defenses.groups import Groups
from smashbench.defenses.slot_attention import SlotAttention


class Weights(GatedPooling):
    """Gated pooling with another ``kind`` of weights: ``signed`` (Cog attention); ``affine``
    (generalised probabilistic attention), a share ``negative`` of a second softmax subtracted;
    ``cosine`` (cosFormer, by the rank of the distance to the class mean); ``repulsive``, several
    ``heads`` and a ``repulsion`` between them. ``width`` is that of the attention."""

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        kind: Literal["softmax", "signed", "affine", "cosine", "repulsive"] = "softmax",
        negative: float = 0.5,
        heads: Annotated[int, Ge(1)] = 4,
        repulsion: float = 1.0,
        width: Annotated[int, Ge(0)] = 0,
        **cem: Any,
    ) -> None:
        super().__init__(shape, classes, **cem)
        self.kind, self.negative, self.heads, self.repulsion = kind, negative, heads, repulsion
        dimensions = torch.Size(shape).numel()
        width = width or min(512, max(64, dimensions // 4))
        outputs = {"affine": 2, "repulsive": heads}.get(kind, 1)
        self.vu = nn.Linear(dimensions, 2 * width, bias=False)
        self.w = nn.Linear(width, outputs, bias=False)

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        x = layer_norm(z, z.shape[1:])
        v, u = self.vu(x).chunk(2, dim=1)
        logits = self.w(v.tanh() * u.sigmoid())
        values = x if self.features == "normalized" else z
        several = groups.count > 1
        heads = {
            "softmax": lambda: [groups.softmax(logits[:, 0])],
            "signed": lambda: [self._signed(logits[:, 0], groups)],
            "affine": lambda: [
                (1 + self.negative) * groups.softmax(logits[:, 0])
                - self.negative * groups.softmax(logits[:, 1])
            ],
            "cosine": lambda: [self._cosine(logits[:, 0], values, groups)],
            "repulsive": lambda: [groups.softmax(logits[:, h]) for h in range(self.heads)],
        }[self.kind]()
        total, effective = 0, 0
        for a in heads:
            weights = groups.member * a
            magnitude = weights.abs() if self.kind == "signed" else weights
            share = weights.abs().sum(1, keepdim=True).clamp_min(1e-12)
            mean = weights @ values / (share if self.kind == "signed" else 1)
            off = (values - mean[groups.index]).square()
            variance = (magnitude / (share if self.kind == "signed" else 1)) @ off
            losses, diagnostics = self.gated(self.reduce(variance.clamp_min(0)), several)
            total = total + losses / len(heads)
            with torch.no_grad():
                norm = weights.abs() / share
                each = (1 / norm.square().sum(1).clamp_min(1e-12)).where(several, 0).sum()
                effective = effective + each / several.sum().clamp_min(1) / len(heads)
        if self.kind == "repulsive":
            stack = torch.stack([(groups.member * a).sum(0) for a in heads])
            off = (stack[:, None] - stack).square().sum(-1)
            m = off[off > 0].detach().median().clamp_min(1e-6)
            pairs = torch.triu(torch.exp(-off / (2 * m)), 1).sum()
            total = total + self.repulsion * pairs / (self.heads * (self.heads - 1) / 2)
        with torch.no_grad():
            samples = groups.count.where(several, 0).sum() / several.sum().clamp_min(1)
        diagnostics |= {"effective_samples": effective, "samples_per_class": samples}
        return total.where(several, 0), diagnostics

    def _signed(self, logits: Tensor, groups: Groups) -> Tensor:
        top = logits.new_full((len(groups.count),), -torch.inf).scatter_reduce(
            0, groups.index, logits.detach().abs(), "amax"
        )
        a = logits.sign() * (logits.abs() - top[groups.index]).exp()
        return a / (groups.member @ a.abs())[groups.index]

    def _cosine(self, logits: Tensor, values: Tensor, groups: Groups) -> Tensor:
        off = (values - groups.mean(values)[groups.index]).square().sum(1).detach()
        same = groups.member.T @ groups.member
        rank = ((off[None] < off[:, None]) * same).sum(1)
        count = groups.count[groups.index]
        a = relu(logits) * torch.cos(torch.pi * rank / (2 * count))
        total = (groups.member @ a)[groups.index]
        return torch.where(total > 1e-12, a / total.clamp_min(1e-12), 1 / count)


class PreNorm(SlotAttention):
    """Slots whose class samples are, after LayerNorm, the queries of a pre-norm cross attention
    that adds to the tokens as they were projected from the raw features."""

    def __init__(self, shape: tuple[int, ...], classes: int, **options: Any) -> None:
        super().__init__(shape, classes, **options)
        width = self.context.slot_mean.shape[1]
        self.raw = nn.Linear(torch.Size(shape).numel(), width, bias=False)
        self.query_norm, self.slots_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        self.calls += 1
        if self.calls <= self.shutoff_steps:
            return 0 * (groups.member @ z).sum(1), {"shut_off": z.new_ones(())}
        learned = self.context
        keys, values = learned.project(layer_norm(z, z.shape[1:])).chunk(2, dim=1)
        slots = learned._slots(keys, values, groups)
        tokens = self.raw(z)
        own = self.slots_norm(slots)[groups.index]
        attended = learned.cross(self.query_norm(tokens)[:, None], own, own, need_weights=False)[0]
        context = tokens + learned.alpha_attention.tanh() * attended.squeeze(1)
        context = context + learned.alpha_ffn.tanh() * learned.ffn(context)
        similarity = torch.einsum("bd,bsd->bs", context, slots[groups.index])
        similarity = similarity * context.shape[1] ** -0.5
        r = (learned.power * learned.beta * similarity).softmax(1)
        return self._gated_variance(context if self.measure == "context" else z, r, groups)


DEFENSES = {"weights": Weights, "pre_norm": PreNorm}
