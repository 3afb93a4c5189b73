"""A client whose features bend, for worlds that are solved by numerical integration."""

from typing import Annotated

from annotated_types import Gt
from torch import Tensor, nn

from smashbench.bench.experiment.models.base import Model, Normalize, SplitModel


class Bent(Model):
    """Means of 2x2 pixels through a steep sigmoid, and a linear classifier; the client has no
    parameters.

    Args:
        gain: slope of what enters the sigmoid, per unit of a pixel; at 30, a tenth above or below
            1/2 gives .95 or .05.
    """

    def __init__(self, *, gain: Annotated[float, Gt(0)] = 30.0) -> None:
        self.gain = gain

    def build(self, image_shape: tuple[int, int, int], classes: int) -> SplitModel:
        c, h, w = image_shape
        head = nn.Sequential(Normalize(), nn.Flatten(), nn.Linear(c * (h // 2) * (w // 2), classes))
        return SplitModel(nn.Sequential(nn.AvgPool2d(2), _Steep(self.gain)), head)


class _Steep(nn.Module):
    def __init__(self, gain: float) -> None:
        super().__init__()
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        return (self.gain * (x - 0.5)).sigmoid()
