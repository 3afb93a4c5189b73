"""The defenses' formulas as slow float64 loops over classes, straight from the papers."""

import math

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, softplus

from smashbench.defenses.cem import Cem
from smashbench.defenses.full_gmm_cem import FullGmmCem
from smashbench.defenses.gated_pooling import GatedPooling
from smashbench.defenses.gates import Gated, Thresholded
from smashbench.defenses.gmm_cem import PRIOR, GmmCem
from smashbench.defenses.kmeans_cem import KMeansCem
from smashbench.defenses.slot_attention import SlotAttention


def tau(d: Thresholded) -> float:
    return d.absolute_tau or max(d.var_threshold * d.noise**2, 1e-8)


def gate(v: Tensor, d: Gated) -> Tensor:
    if d.gate_kind == "linear":
        return v
    if d.gate_kind == "capacity":
        return 0.5 * (1 + v / max(d.noise**2, 1e-8)).log()
    return ((v + d.gamma).log() - math.log(tau(d) + d.gamma)).clamp_min(0)


def gated(v: Tensor, d: Gated) -> Tensor:
    """Gate of per-dimension variances v (D,), as ``variance`` says."""
    if d.variance == "mean":
        return gate(v.mean(), d)
    if d.variance == "trace":
        return gate(v.sum(), d)
    return gate(v, d).mean()


def penalty(z: Tensor, y: Tensor, d: Cem) -> Tensor:
    z = z.flatten(1)
    classes = y.unique().tolist()
    total = 0 * z.sum()
    for c in classes:
        x = z[y == c]
        share = len(x) / len(z) if d.class_weight == "frequency" else 1 / len(classes)
        total = total + share * class_loss(x, c, len(z), d)
    return d.lam * d.current_scale * total


def class_loss(x: Tensor, c: int, batch: int, d: Cem) -> Tensor:
    if isinstance(d, KMeansCem):
        return kmeans(x, c, d)
    if isinstance(d, GmmCem | FullGmmCem):
        return gmm(x, c, d)
    if len(x) < 2:
        return 0 * x.sum()
    if isinstance(d, GatedPooling):
        return gated_pooling(x, d)
    assert isinstance(d, SlotAttention)
    return slot_attention(x, batch, d)


def kmeans(x: Tensor, c: int, d: KMeansCem) -> Tensor:
    used = [k for k in range(d.clusters) if d.weights[c, k] > 0]
    distance = torch.stack([(x.detach() - d.centres[c, k]).square().sum(1) for k in used])
    owner = distance.argmin(0)
    v, loss = torch.zeros_like(x[0]), 0 * x.sum()
    for place, k in enumerate(used):
        members = x[owner == place]
        if not len(members):
            continue
        own = (members - d.centres[c, k]).square().mean(0)
        if d.blend:
            share = min(0.99, d.blend * len(members) / float(d.sizes[c, k]))
            own = share * own + (1 - share) * d.spreads[c, k]
        v = v + d.weights[c, k] * own
        loss = loss + d.weights[c, k] * gated(own, d)
    return loss if d.pooling == "cluster" else gated(v, d)


def gmm(x: Tensor, c: int, d: GmmCem | FullGmmCem) -> Tensor:
    full = isinstance(d, FullGmmCem)
    if full:
        x = (x - d.centre) @ d.basis
    used = [k for k in range(d.components) if d.weights[c, k] > 0]
    logs = []
    for k in used:
        off = x.detach() - d.means[c, k]
        if full:
            precision = d.roots[c, k] @ d.roots[c, k].T
            log_det, distance = precision.logdet(), ((off @ precision) * off).sum(1)
        else:
            log_det = d.precisions[c, k].log().sum()
            distance = (off**2 * d.precisions[c, k]).sum(1)
        logs.append(d.weights[c, k].log() + 0.5 * log_det - 0.5 * distance)
    r = torch.stack(logs, 1).softmax(1)
    loss = 0 * x.sum()
    s2 = max(d.noise**2, 1e-8)
    for place, k in enumerate(used):
        own, off = r[:, place], x - d.means[c, k]
        prior = PRIOR * len(x)
        total = own.sum() + prior
        if full:
            s = ((own[:, None] * off).T @ off + prior * d.covariances[c, k]) / total
            eye = torch.eye(x.shape[1], dtype=x.dtype)
            each = 0.5 * (torch.logdet(s + s2 * eye) - torch.logdet(s2 * eye))
        else:
            last = prior / d.precisions[c, k]
            each = gated(((own[:, None] * off**2).sum(0) + last) / total, d)
        loss = loss + d.weights[c, k] * each
    return loss


def gated_pooling(x: Tensor, d: GatedPooling) -> Tensor:
    normal = layer_norm(x, x.shape[1:])
    if d.attention == "uniform":
        a = torch.full((len(x),), 1 / len(x), dtype=x.dtype)
    else:
        v, u = d.logits.vu(normal).chunk(2, dim=1)
        a = d.logits.w(torch.tanh(v) * torch.sigmoid(u)).squeeze(1).softmax(0)
        a = a.detach() if d.attention == "detached" else a
    values = normal if d.features == "normalized" else x
    mean = (a[:, None] * values).sum(0)
    v = (a[:, None] * (values - mean) ** 2).sum(0)
    return gated(v, d)


def slot_attention(x: Tensor, batch: int, d: SlotAttention) -> Tensor:
    """In evaluation mode: the slots start at their mean."""
    own_part = d.context
    m, width = len(x), own_part.slot_mean.shape[1]
    keys, values = own_part.project(layer_norm(x, x.shape[1:])).chunk(2, dim=1)
    slots = own_part.slot_mean
    for _ in range(own_part.rounds):
        query = own_part.slot_query(own_part.slot_norm(slots))
        r = (keys @ query.T / width**0.5).softmax(1)
        update = (r / r.sum(0)).T @ values
        slots = own_part.gru(update, slots)
        slots = slots + own_part.slot_mlp(slots)
    own = slots.expand(m, -1, -1)
    y = own_part.cross(keys[:, None], own, own)[0].squeeze(1)
    y = keys + own_part.alpha_attention.tanh() * y
    y = y + own_part.alpha_ffn.tanh() * own_part.ffn(y)
    if own_part.normalized:
        y = layer_norm(y, y.shape[1:])
    r = (own_part.beta * (y @ slots.T) / width**0.5).softmax(1) ** own_part.power
    r = r / r.sum(1, keepdim=True)
    values = y if d.measure == "context" else x
    losses, masses = [], []
    for s in range(d.slots):
        a = r[:, s] / r[:, s].sum()
        mean = (a[:, None] * values).sum(0)
        v = (a[:, None] * (values - mean) ** 2).sum(0) + 1e-8
        dimension = d.dimension_gate(v.log()).sigmoid() if d.dimension_gate else 1
        snr = (d.snr_sharpness * (v / (mean**2 + 1e-6) - d.snr_threshold)).sigmoid()
        b = d.margin_sharpness
        margin = softplus(b * (v.log() - math.log(tau(d)) - d.margin)) / b
        losses.append((dimension * snr * margin).mean())
        masses.append((r[:, s].sum() / m) ** d.mass_power)
    w = torch.stack(masses) / sum(masses)
    class_gate = 1 / (1 + math.exp(-d.class_sharpness * (m / batch - d.class_threshold)))
    return class_gate * (w * torch.stack(losses)).sum()
