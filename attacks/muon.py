"""Muon, the optimiser that networks here converge fastest with."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of a Newton-Schulz step: singular values below 1 go to about 1 in few steps."""
BETAS, EPS = (0.9, 0.99), 1e-8
"""Of Adam, for what is no matrix."""


class Muon(torch.optim.Optimizer):
    """SGD with Nesterov momentum whose updates of matrices are orthogonalised (Jordan et al., 2024,
    "Muon: an optimizer for hidden layers in neural networks"), and Adam for everything else.

    A filter (C_out, C_in, h, w) is a matrix (C_out, C_in h w). Matrices of one shape are
    orthogonalised as one batch.

    Args:
        groups: parameter groups. One with ``matrices = True`` has parameters of two dimensions or
            more, which Muon updates; the others are Adam's. ``normalised = True`` first rescales
            every filter matrix to the norm sqrt(C_out), which changes nothing before a
            normalisation layer but keeps the steps from shrinking as weights grow (Jordan, 2024,
            arXiv:2404.00498).
        lr: learning rate of groups that have none.
        momentum: of Muon's groups.
        steps: of Newton and Schulz.
        weight_decay: decoupled, of all groups that are not normalised.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        lr: float = 0.02,
        momentum: float = 0.95,
        steps: int = 5,
        weight_decay: float = 0.0,
    ) -> None:
        shared = {"lr": lr, "momentum": momentum, "steps": steps, "weight_decay": weight_decay}
        super().__init__(list(groups), shared | {"matrices": False, "normalised": False})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            if group["weight_decay"] and not group["normalised"]:
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
            grads = [p.grad for p in params if p.grad is not None]
            if group["matrices"]:
                self._matrices(group, params, grads)
            else:
                self._adam(group, params, grads)

    def _matrices(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        buffers = [self._kept(p, "momentum") for p in params]
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, grads)
        updates = torch._foreach_add(grads, buffers, alpha=group["momentum"])
        if group["normalised"]:
            norms = torch._foreach_norm(params)
            torch._foreach_mul_(params, [len(p) ** 0.5 for p in params])
            torch._foreach_div_(params, [norm.clamp_min(EPS) for norm in norms])
        by_shape: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for i, p in enumerate(params):
            by_shape[len(p), p[0].numel()].append(i)
        for (rows, columns), members in by_shape.items():
            together = torch.stack([updates[i].flatten(1) for i in members])
            directions = orthogonalised(together, group["steps"])
            length = group["lr"] * max(1.0, rows / columns) ** 0.5
            for i, direction in zip(members, directions, strict=True):
                params[i].add_(direction.view(params[i].shape), alpha=-length)

    def _adam(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        means = [self._kept(p, "mean") for p in params]
        squares = [self._kept(p, "square") for p in params]
        group["taken"] = taken = group.get("taken", 0) + 1
        torch._foreach_lerp_(means, grads, 1 - BETAS[0])
        torch._foreach_mul_(squares, BETAS[1])
        torch._foreach_addcmul_(squares, grads, grads, 1 - BETAS[1])
        spreads = torch._foreach_sqrt(torch._foreach_div(squares, 1 - BETAS[1] ** taken))
        torch._foreach_add_(spreads, EPS)
        length = group["lr"] / (1 - BETAS[0] ** taken)
        torch._foreach_addcdiv_(params, means, spreads, -length)

    def _kept(self, parameter: Tensor, name: str) -> Tensor:
        kept: dict[str, Tensor] = self.state[parameter]
        if name not in kept:
            kept[name] = torch.zeros_like(parameter)
        return kept[name]


def orthogonalised(matrices: Tensor, steps: int = 5) -> Tensor:
    """About the nearest matrices (N, m, n) with orthonormal rows or columns: singular values come
    to between .7 and 1.2 in five steps of Newton and Schulz."""
    a, b, c = QUINTIC
    wide = matrices.shape[-2] <= matrices.shape[-1]
    x = matrices if wide else matrices.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + EPS)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x if wide else x.mT


def groups_of(modules: Iterable[nn.Module], *, lr: float, adam_lr: float) -> list[dict[str, Any]]:
    """Parameter groups of networks: the filters of convolutions are Muon's, and all else is Adam's.
    Filters without a bias have a normalisation layer after them and are normalised."""
    normalised: list[Tensor] = []
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for module in modules:
        for part in module.modules():
            for name, p in part.named_parameters(recurse=False):
                if not p.requires_grad:
                    continue
                if isinstance(part, nn.Conv2d) and name == "weight":
                    (normalised if part.bias is None else matrices).append(p)
                else:
                    others.append(p)
    return [
        {"params": normalised, "lr": lr, "matrices": True, "normalised": True},
        {"params": matrices, "lr": lr, "matrices": True},
        {"params": others, "lr": adam_lr},
    ]


def triangle(steps: float, warmup: float) -> Callable[[int], float]:
    """The factor of learning rates by step, from 0: it rises linearly to about 1 in the first
    ``warmup`` share of ``steps`` and then falls to 0 at their end."""
    rising = warmup * steps
    return lambda step: min((step + 1) / (rising + 1), (steps - step) / (steps - rising))
