"""The learned part of slot attention: slots among the samples of a class, and what they make of
each sample."""

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from smashbench.defenses.groups import Groups


class SlotContext(nn.Module):
    """Slots compete for the samples of a class in rounds of slot attention (Locatello et al.,
    NeurIPS 2020, algorithm 1); a gated cross attention (Alayrac et al., NeurIPS 2022, section 2.2)
    writes them back into every sample: y = q + tanh(alpha) CrossAttention(q, slots);
    y = y + tanh(alpha') FFN(LN(y)).

    Args:
        dimensions: D of the features.
        slots, width, rounds: S slots of ``width`` dimensions, refined ``rounds`` times.
        power: exponent that sharpens the assignments before they are renormalised.
        normalized: bring every context to mean 0 and variance 1 over its dimensions.
    """

    def __init__(
        self, dimensions: int, slots: int, width: int, rounds: int, power: float, normalized: bool
    ) -> None:
        super().__init__()
        self.slots, self.rounds, self.power, self.normalized = slots, rounds, power, normalized
        self.project = nn.Linear(dimensions, 2 * width, bias=False)
        self.slot_mean = nn.Parameter(0.5 * torch.randn(slots, width))
        self.slot_log_std = nn.Parameter(torch.full((slots, width), -2.0))
        self.slot_norm, self.slot_query = nn.LayerNorm(width), nn.Linear(width, width, bias=False)
        self.gru = nn.GRUCell(width, width)
        self.slot_mlp = mlp(width, 2 * width, width)
        self.cross = nn.MultiheadAttention(width, 4, batch_first=True)
        self.ffn = mlp(width, 2 * width, width)
        self.alpha_attention = nn.Parameter(torch.tensor(0.1))
        self.alpha_ffn = nn.Parameter(torch.tensor(0.1))
        self.beta = nn.Parameter(torch.tensor(1.0))

    def forward(self, z: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
        """Contexts (B, width) of features (B, D), and their soft assignments (B, S) to the slots
        of their class, by scaled dot products: a softmax to the power p, renormalised, is the
        softmax of p times the logits."""
        keys, values = self.project(layer_norm(z, z.shape[1:])).chunk(2, dim=1)
        slots = self._slots(keys, values, groups)
        context = self._cross_attend(keys, slots, groups)
        if self.normalized:
            context = layer_norm(context, context.shape[1:])
        own = slots.index_select(0, groups.index)
        similarity = (own @ context[..., None]).squeeze(2)
        similarity = similarity * context.shape[1] ** -0.5
        return context, (self.power * self.beta * similarity).softmax(1)

    def _slots(self, keys: Tensor, values: Tensor, groups: Groups) -> Tensor:
        """Slots (G, S, width) of every group; keys and values are (B, width)."""
        g, width = len(groups.count), keys.shape[1]
        slots = self.slot_mean.expand(g, -1, -1)
        if self.training:
            slots = slots + self.slot_log_std.exp() * torch.randn_like(slots)
        for _ in range(self.rounds):
            query = self.slot_query(self.slot_norm(slots)) * width**-0.25
            own = query.index_select(0, groups.index)
            logits = (own @ (keys * width**-0.25)[..., None]).squeeze(2)
            _, mass, shares_of = shares(logits.softmax(1), groups)
            update = (shares_of @ values).view(g, self.slots, width)
            new = self.gru(update.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = (new + self.slot_mlp(new)).where((mass > 0)[..., None], slots)
        return slots

    def _cross_attend(self, query: Tensor, slots: Tensor, groups: Groups) -> Tensor:
        """Context (B, width): every sample attends to the slots of its class. The weights are those
        of ``nn.MultiheadAttention``, which would project the slots anew for every sample."""
        b, s, width = len(query), self.slots, query.shape[1]
        heads = self.cross.num_heads
        weight, bias = self.cross.in_proj_weight, self.cross.in_proj_bias
        q = linear(query, weight[:width], bias[:width]).view(b, heads, 1, -1)
        kv = linear(slots, weight[width:], bias[width:]).view(-1, s, 2, heads, width // heads)
        k, v = kv.permute(2, 0, 3, 1, 4).index_select(1, groups.index)  # (B, heads, S, width/heads)
        p = ((q * k).sum(3) * (width // heads) ** -0.5).softmax(2)
        attended = self.cross.out_proj((p[..., None] * v).sum(2).flatten(1))
        context = query + self.alpha_attention.tanh() * attended
        return context + self.alpha_ffn.tanh() * self.ffn(context)


def shares(r: Tensor, groups: Groups) -> tuple[Tensor, Tensor, Tensor]:
    """Assignments (B, S) as weights (G, S, B) that sum to 1 over a group's samples, the mass
    (G, S) of every slot, and the weights as a matrix (G S, B)."""
    held = groups.member[:, None] * r.T
    mass = held.sum(2)
    weights = held / mass.clamp_min(1e-12)[..., None]
    return weights, mass, weights.flatten(0, 1)


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """LayerNorm, and two linear layers with a ReLU between."""
    layers = [nn.LayerNorm(inputs), nn.Linear(inputs, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))
