"""The variational information bottleneck."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn.functional import softplus

from smashbench.defenses.base import Defense, Diagnostic, Diagnostics, Step, full_precision

START = -3.0
"""The noise before training is softplus(START) = .05."""


class Vib(Defense):
    """Deep variational information bottleneck (Alemi et al., ICLR 2017): features plus noise whose
    level each image sets for each feature, under a price on what they tell.

    z~ = z + sigma(z) n, n ~ N(0, I), sigma(z) = softplus(a z + b) with a and b learned for every
    feature; drawn anew for every release, at inference too. Penalty = weight * mean over the batch
    of KL(N(z, sigma^2) to N(0, I)) = 1/2 sum_d (z_d^2 + sigma_d^2 - 1 - log sigma_d^2), an upper
    bound of I(x; z~). Deviations: the means are the features themselves, in (0, 1), and sigma is a
    function of the feature alone in place of a second head of the encoder, which this defense does
    not have.

    Args:
        weight: of the penalty (beta).
        pace: learning rate of a and b, as a multiple of the victim's: they have far to go, and
            steps of Adam do not grow with the weight.
    """

    strength = "weight"
    group = "information"
    fills = True
    transform_is = "random"
    diagnostics = {
        "vib_nats": Diagnostic("KL to the prior, nats per image", logarithmic=True, column=True),
        "vib_noise": Diagnostic("mean learned noise", logarithmic=True, column=True),
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        weight: Annotated[float, Ge(0)] = 1e-3,
        pace: Annotated[float, Gt(0)] = 10.0,
    ) -> None:
        super().__init__(shape, classes)
        self.weight, self.pace = weight, pace
        self.slope = nn.Parameter(torch.zeros(shape))
        self.offset = nn.Parameter(torch.full(shape, START))

    def sigma(self, z: Tensor) -> Tensor:
        """Standard deviations (B, ...) of the noise on features z (B, ...)."""
        return softplus(self.slope * z + self.offset)

    def transform(self, z: Tensor) -> Tensor:
        return z + self.sigma(z) * torch.randn_like(z)

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        with full_precision(step.features) as z:
            sigma = self.sigma(z)
            variance = sigma.square()
            nats = (z.square() + variance - 1 - variance.clamp_min(1e-12).log()).flatten(1) / 2
            value = nats.sum(1).mean()
        watched = {"vib_nats": value.detach(), "vib_noise": sigma.detach().mean()}
        return self.weight * value, watched
