"""A client whose features are linear in the image, for worlds that are solved exactly."""

from torch import nn

from smashbench.bench.experiment.models.base import Model, Normalize, SplitModel


class Linear(Model):
    """Means of 2x2 pixels, and a linear classifier of them; the client has no parameters.

    Features of [0, 1] images lie in [0, 1] without a sigmoid, which would not be linear.
    """

    def build(self, image_shape: tuple[int, int, int], classes: int) -> SplitModel:
        c, h, w = image_shape
        head = nn.Sequential(Normalize(), nn.Flatten(), nn.Linear(c * (h // 2) * (w // 2), classes))
        return SplitModel(nn.Sequential(nn.AvgPool2d(2)), head)
