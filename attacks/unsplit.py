"""Images and a copy of the client, sought together from releases alone."""

from copy import deepcopy
from typing import Annotated, ClassVar, Self

import torch
from annotated_types import Ge, Gt
from torch import Tensor
from torch.nn.functional import mse_loss

from smashbench.attacks.base import Attack, AttackError, Knowledge, finite


class UnSplit(Attack):
    """The attacker that has nothing but the architecture of the client and the releases it attacks
    (UnSplit: Erdogan et al., WPES 2022, algorithm 1).

    Images and a copy of the client with other weights are changed in turns, so that the copy makes
    the releases of the images: ``steps`` of Adam on the images, with total variation (anisotropic,
    squared, as published), then as many on the copy. Deviations: one copy serves all
    releases of a call (the harness sends 500 at once), where the original fits a copy for each;
    ``rounds`` is a hundredth of the published 1,000 by default; Adam is without AMSGrad, there is
    no penalty on the size of pixels, and they are kept in [0, 1] instead.
    Nothing says when it has converged, so it never has.

    Args:
        rounds: turns of images and copy.
        steps: of Adam in each turn of either.
        rate: of Adam, for both.
        tv: weight of the total variation.
    """

    needs = frozenset({"architecture"})
    kind: ClassVar = "trained"
    converged_ = False

    def __init__(
        self,
        *,
        rounds: Annotated[int, Ge(1)] = 10,
        steps: Annotated[int, Ge(1)] = 100,
        rate: Annotated[float, Gt(0)] = 1e-3,
        tv: Annotated[float, Ge(0)] = 0.1,
    ) -> None:
        self.rounds, self.steps, self.rate, self.tv = rounds, steps, rate, tv

    def fit(self, knowledge: Knowledge) -> Self:
        self.architecture_ = knowledge.architecture
        self.shape_ = knowledge.images.shape[1:]
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        z = finite(z)
        copy = deepcopy(self.architecture_).eval()
        x = torch.full((len(z), *self.shape_), 0.5, device=z.device, requires_grad=True)
        if (made := copy(x[:1]).shape[1:]) != z.shape[1:]:
            raise AttackError(
                f"releases have the shape {tuple(z.shape[1:])}, and the features that the "
                f"architecture makes the shape {tuple(made)}"
            )
        images = torch.optim.Adam([x], self.rate)
        weights = [p for p in copy.parameters() if p.requires_grad]
        copies = torch.optim.Adam(weights, self.rate) if weights else None
        for _ in range(self.rounds):
            for _ in range(self.steps):
                missed = mse_loss(copy(x), z) * len(z) + self.tv * _variation(x)
                (x.grad,) = torch.autograd.grad(missed, x)
                images.step()
                with torch.no_grad():
                    x.clamp_(0, 1)
            if copies is None:  # nothing to learn: the layers have no weights
                continue
            for _ in range(self.steps):
                missed = mse_loss(copy(x.detach()), z)
                copies.zero_grad()
                missed.backward()
                copies.step()
        return x.detach()


def _variation(x: Tensor) -> Tensor:
    """Sum over images (B, C, H, W) of the mean squared difference of neighbouring pixels."""
    down, right = x.diff(dim=2).square(), x.diff(dim=3).square()
    return down.flatten(1).mean(1).sum() + right.flatten(1).mean(1).sum()
