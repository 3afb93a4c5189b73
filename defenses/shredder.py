"""A learned tensor that is added to all features: a warning."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from smashbench.defenses.base import Defense, Diagnostic, Diagnostics, Step


class Shredder(Defense):
    """A tensor of "noise" that is learned in training and then added to every release (Shredder,
    Mireshghallah et al., ASPLOS 2020). It protects nothing: it is here as a warning.

    z~ = z + t with t of the features' shape, the same for every image; penalty = -weight log Var t,
    which makes t large while the head learns to work with it. What is added is a constant, and an
    attacker with pairs learns to subtract it: closed forms at once, a convolutional decoder with
    more steps, since its biases are the same at every place. (The paper draws from a few such
    tensors and measures mutual information; deviation: one tensor, trained with the network instead
    of after it, and the logarithm, which bounds how fast it grows. Under Adam, whose steps have a
    size that does not depend on the weight, the length of the training decides more than it.)

    Args:
        weight: of the penalty.
        start: standard deviation of the tensor before training (Laplace distributed).
    """

    strength = "weight"
    group = "warning"
    fills = True
    diagnostics = {
        "tensor_spread": Diagnostic("standard deviation of the learned tensor", column=True)
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        weight: Annotated[float, Ge(0)] = 0.01,
        start: Annotated[float, Gt(0)] = 0.1,
    ) -> None:
        super().__init__(shape, classes)
        self.weight = weight
        first, second = (torch.empty(shape).exponential_() for _ in range(2))
        self.tensor = nn.Parameter(start / 2**0.5 * (first - second))

    def transform(self, z: Tensor) -> Tensor:
        return z + self.tensor

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        variance = self.tensor.var(correction=0)
        watched = {"tensor_spread": variance.detach().sqrt()}
        return -self.weight * (variance + 1e-12).log(), watched
