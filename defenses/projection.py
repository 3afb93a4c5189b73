"""Features on a few fixed directions."""

from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import FLOAT, Defense, full_precision


class Projection(Defense):
    """Features are projected onto a few directions of the training features: z~ = V V'(z - m) + m,
    V'V = I, m the mean.

    ``pca``: the columns of V are the eigenvectors of the covariance with the largest eigenvalues.
    ``lda``: those of the covariance between classes, sum_c p_c (m_c - m)(m_c - m)', of which there
    are at most classes - 1; where more directions are asked for, the next ones are the principal
    directions of what is left, so that the sweep reaches the undefended features. (Between classes
    alone, without whitening within them, so that V V' is an orthogonal projection.) Both are
    refitted before every epoch on the features of the one before, and stored: test features live in
    the basis that the head was trained with, not in one of their own batch. What is sent are
    V'(z - m).

    Args:
        directions: k, how many there are; from the number of features on nothing is lost.
        kind: of the directions.
    """

    strength = "directions"
    group = "information"
    refit = "epoch"
    basis: Tensor
    centre: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        directions: Annotated[int, Ge(1)] = 64,
        kind: Literal["pca", "lda"] = "pca",
    ) -> None:
        super().__init__(shape, classes)
        self.kind = kind
        features = torch.Size(shape).numel()
        self.directions = min(directions, features)
        self.register_buffer("basis", torch.eye(features)[:, : self.directions])
        self.register_buffer("centre", torch.full((features,), 0.5))

    def transform(self, z: Tensor) -> Tensor:
        with full_precision(z) as z:
            coordinates = (z.flatten(1) - self.centre) @ self.basis
            return (coordinates @ self.basis.T + self.centre).view_as(z)

    def payload(self, released: Tensor) -> int:
        return FLOAT * self.directions

    @property
    def wants_refresh(self) -> bool:
        return True

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        z = features.flatten(1).double()
        finite = z.isfinite().all(1)
        z, labels = z[finite], labels[finite]
        if self.directions == z.shape[1] or len(z) < 2:
            return
        centre = z.mean(0)
        z = z - centre
        basis = z.new_zeros(z.shape[1], 0)
        if self.kind == "lda":
            member = (torch.arange(self.classes, device=z.device)[:, None] == labels).to(z.dtype)
            count = member.sum(1, keepdim=True)
            between = (member @ z) / count.clamp_min(1) * (count / len(z)).sqrt()
            apart = max(int((count > 0).sum()) - 1, 0)
            basis = _principal(between, min(self.directions, apart))
            z = z - z @ basis @ basis.T
        rest = _principal(z, self.directions - basis.shape[1])
        self.basis.copy_(torch.linalg.qr(torch.cat([basis, rest], 1)).Q)
        self.centre.copy_(centre)


def _principal(rows: Tensor, k: int) -> Tensor:
    """The ``k`` eigenvectors (D, k) of rows' rows (D, D) with the largest eigenvalues."""
    vectors = torch.linalg.eigh(rows.T @ rows).eigenvectors
    return vectors.flip(1)[:, :k]
