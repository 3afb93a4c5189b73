"""Softer or harder targets."""

from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor
from torch.nn.functional import one_hot

from smashbench.defenses.base import Defense


class LabelSmoothing(Defense):
    """The cross entropy is taken with (1 - e) onehot + e / C in place of the labels.

    With e > 0 features of a class draw together (their mean-square radius falls, arXiv:2506.15412),
    which helps who inverts a class; with e < 0 they spread, and that inversion gets harder
    (Struppek et al., ICLR 2024, arXiv:2310.06549). Neither says what it does to the inversion of a
    single release. With e < 0 the loss has no lower bound. In place of what ``label_smoothing`` of
    the training would do, and not on top of it. Released is z itself.

    Args:
        smoothing: e; 0 is hard labels, also where the training would smooth them; 1 would leave no
            label.
    """

    strength = "smoothing"
    group = "information"

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        smoothing: Annotated[float, Ge(-1), Lt(1)] = 0.1,
    ) -> None:
        super().__init__(shape, classes)
        self.smoothing = smoothing

    def targets(self, labels: Tensor) -> Tensor:
        hard = one_hot(labels, self.classes).to(torch.float32)
        return (1 - self.smoothing) * hard + self.smoothing / self.classes
