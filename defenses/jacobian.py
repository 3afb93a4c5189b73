"""Features that move little when the image does."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from smashbench.defenses.base import Defense, Diagnostic, Diagnostics, Step


class Jacobian(Defense):
    """A penalty on the Jacobian of the encoder.

    Penalty = weight * E |J' v|^2 / P, v ~ N(0, I) drawn anew for every image and step, with J
    (D, P) the derivative of the clean features in the pixels; E over v and the batch. Its
    expectation is tr(J'J) / P, which is s^2 times the diagonal Fisher information leakage under
    noise of standard deviation s (dFIL, Maeng et al., arXiv:2209.10119; NeurIPS 2023,
    arXiv:2305.04146). It wants noise beside it: without, what is small can be measured as well as
    what is large. One more backward pass, through batch normalisation as it is in training.
    Released is z itself.

    Args:
        weight: of the penalty.
    """

    strength = "weight"
    group = "information"
    differentiates_images = True
    diagnostics = {
        "jacobian": Diagnostic("squared Jacobian, per pixel", logarithmic=True, column=True)
    }

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, weight: Annotated[float, Ge(0)] = 1.0
    ) -> None:
        super().__init__(shape, classes)
        self.weight = weight

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        """Raises ValueError where the images require no gradient."""
        if not step.images.requires_grad:
            raise ValueError("the images of the step require no gradient: see Step")
        seen = (step.features * torch.randn_like(step.features)).sum()
        (moved,) = torch.autograd.grad(
            seen, step.images, create_graph=True, allow_unused=True, materialize_grads=True
        )
        value = moved.float().square().flatten(1).mean(1).mean()
        return self.weight * value, {"jacobian": value.detach()}
