"""The linear attack in closed form."""

from typing import Annotated, Self

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from smashbench.attacks.base import Attack, Knowledge, releases, require_memory, resolution

PENALTIES = torch.logspace(-6, 4, 21)
"""Candidates for the ridge penalty, in units of a feature's typical variance; with the largest the
estimate is the mean image, which few noisy pairs do not improve upon."""
WIDE = 512
"""Features above which, if there are fewer pairs than features, the dual form is solved."""
BLOCK = 1024
"""Features of a block of the inner products."""


class Ridge(Attack):
    """Linear MMSE estimate x = mu_x + S_xz (S_zz + lambda I)^-1 (z~ - mu_z), Hoerl and Kennard
    (1970); lambda is chosen on the attacker's own validation images.

    With many features and fewer pairs the same estimate comes from its dual form, in the inner
    products of the releases: n x n numbers instead of D x D (Saunders, Gammerman and Vovk, 1998).

    Args:
        draws: releases per image that the moments are averaged over (1 if nothing is random).
        val_share: share of the attacker's images that choose lambda.
    """

    kind = "closed_form"
    basis_: Tensor | None
    weight_: Tensor
    mean_z_: Tensor
    mean_x_: Tensor
    penalty_: float
    error_: float

    def __init__(
        self,
        *,
        draws: Annotated[int, Ge(1)] = 4,
        val_share: Annotated[float, Gt(0), Lt(1)] = 0.15,
    ) -> None:
        self.draws, self.val_share = draws, val_share

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        z, x = releases(knowledge, fit, self.draws)
        return self.fit_pairs(z, x, *releases(knowledge, val, self.draws))

    def fit_pairs(self, z: Tensor, x: Tensor, z_val: Tensor, x_val: Tensor) -> Self:
        """Fits on releases z (N, ...) and images x (N, C, H, W); chooses lambda on the
        ``val`` pairs. Sets ``weight_`` (D, P), ``mean_z_`` (D,) and ``mean_x_`` (P,) for
        D values in a release and P = C H W, ``penalty_`` and the validation MSE ``error_``. In the
        dual form ``basis_`` (N, D) is what releases are multiplied by before ``weight_`` (N, P), in
        float64.

        Raises:
            OversizedError: the moments do not fit in memory.
        """
        self.image_shape_ = x.shape[1:]
        z, x, z_val, x_val = (values.flatten(1) for values in (z, x, z_val, x_val))
        n, d, p = len(z) + len(z_val), z.shape[1], x.shape[1]
        dual = len(z) < d and d > WIDE
        size = len(z) if dual else d
        require_memory(
            8 * (3 * size * size + 3 * size * p) + 4 * n * (2 * d + p),
            f"a linear map of {d} features to {p} pixels in closed form",
        )
        mean_z, mean_x = z.mean(0), x.mean(0)
        centred = z - mean_z
        self.basis_ = centred if dual else None
        moments = (_products(centred, centred) if dual else centred.T @ centred) / len(z)
        values, vectors = torch.linalg.eigh(moments.double())
        cross = vectors.T @ ((x - mean_x if dual else centred.T @ (x - mean_x)) / len(z)).double()
        penalties = PENALTIES.to(values) * _typical(centred, resolution(z).square())
        scores = _products(z_val - mean_z, centred) if dual else (z_val - mean_z).double()
        scores = (scores @ vectors).float()
        errors = []
        for penalty in penalties:
            scaled = cross / (values.clamp_min(0) + penalty)[:, None]
            guess = (scores @ scaled.float() + mean_x).clamp(0, 1)
            errors.append((guess - x_val).square().mean())
        best = int(torch.stack(errors).argmin())
        self.penalty_, self.error_ = float(penalties[best]), float(errors[best])
        scale = (values.clamp_min(0) + penalties[best])[:, None]
        weight = vectors @ (cross / scale)
        self.weight_ = weight if dual else weight.to(x.dtype)
        self.mean_z_, self.mean_x_ = mean_z, mean_x
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        seen = z.flatten(1) - self.mean_z_
        if self.basis_ is not None:
            seen = _products(seen, self.basis_)
        guess = (seen @ self.weight_).to(self.mean_x_) + self.mean_x_
        return guess.clamp(0, 1).view(-1, *self.image_shape_)


def _typical(centred: Tensor, least: Tensor) -> Tensor:
    """The median variance (float64) of the features that vary by more than ``least``; a few of
    large values, or many that are never sent, do not move it."""
    variances = centred.square().mean(0).double()
    varying = variances[variances > least]
    return varying.median() if len(varying) else least.double()


def _products(a: Tensor, b: Tensor) -> Tensor:
    """Inner products (A, B) of releases (A, D) and (B, D) in float64: one feature of large values
    must not round away what the others say. In blocks, so that no copies of all are made."""
    total = torch.zeros(len(a), len(b), dtype=torch.float64, device=a.device)
    for part, other in zip(a.split(BLOCK, 1), b.split(BLOCK, 1), strict=True):
        total.addmm_(part.double(), other.double().T)
    return total
