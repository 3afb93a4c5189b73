"""DISCO: channels are pruned by what an adversary needs."""

from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from smashbench.defenses.adversary import Adversarial, mean_image_error
from smashbench.defenses.base import FLOAT, Diagnostics, Step, full_precision

HIDDEN = 32
"""Units of the pruner."""


class Disco(Adversarial):
    """DISCO (Singh et al., CVPR 2021): a pruner decides for each image which channels are sent, and
    learns it against an adversary.

    z~_c = z_c m_c; m keeps the k channels with the highest scores, k = (1 - rate) C, rounded, and
    at least 1. Scores are a small network's of the mean of every channel. Gradients pass m as those
    of sigma((score - threshold) / temperature), the threshold half way between the last score that
    is kept and the next. The encoder learns from the cross entropy alone; the pruner also from
    weight * max(0, 1 - MSE(D(z~), x) / V), see ``Arl``, whose gradient ends at the features. (In a
    stack, so do other parts that have parameters of their own.) Scores are not bounded: once they
    lie many temperatures apart, the same channels are dropped of every image.
    Deviations: the mask is hard in training as under attack (the published sigma is never 0, and
    what it leaves of a channel is scaled back by any decoder), and the hinge. Channels of tokens
    (T, D) are their D features, those of a vector its features. What is sent are the channels that
    are left and a bit for each.

    Args:
        rate: share of the channels that are dropped.
        temperature: of the gradients.
        adversary: the options of ``Adversarial``.
    """

    strength = "rate"
    transform_is = "rough"

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        rate: Annotated[float, Ge(0), Lt(1)] = 0.5,
        temperature: Annotated[float, Gt(0)] = 1 / 30,
        **adversary: Any,
    ) -> None:
        super().__init__(shape, classes, **adversary)
        self.temperature = temperature
        self.channels = shape[1] if len(shape) == 2 else shape[0]
        self.kept = max(1, round((1 - rate) * self.channels))
        self.pruner = nn.Sequential(
            nn.Linear(self.channels, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, self.channels)
        )

    def transform(self, z: Tensor) -> Tensor:
        if self.kept == self.channels:
            return z
        with full_precision(z) as z:
            mask = self._mask(z)
        return z * (mask[:, None] if z.ndim == 3 else mask.view(*mask.shape, *[1] * (z.ndim - 2)))

    def _mask(self, z: Tensor) -> Tensor:
        """1 and 0 for every image and channel (B, C)."""
        means = z.mean(1) if z.ndim == 3 else z.flatten(2).mean(2) if z.ndim == 4 else z
        scores: Tensor = self.pruner(means)
        ranked = scores.detach().topk(self.kept + 1, 1)
        threshold = ranked.values[:, -2:].mean(1, keepdim=True)
        soft = torch.sigmoid((scores - threshold) / self.temperature)
        hard = torch.zeros_like(soft).scatter_(1, ranked.indices[:, :-1], 1)
        return hard + (soft - soft.detach())

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        own = self.learn(step)
        released = step.release(step.features.detach())  # the encoder does not learn from this
        error = mse_loss(self.guess(released), step.images.detach().float())
        left = torch.relu(1 - error / mean_image_error(step.images))
        return self.weight * left, {"adversary_mse": own}

    def payload(self, released: Tensor) -> int:
        features = released[0].numel()
        left = FLOAT * features * self.kept // self.channels
        return left + (self.channels if self.kept < self.channels else 0)
