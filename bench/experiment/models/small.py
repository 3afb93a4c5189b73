"""A network of about 100,000 parameters that a CPU trains in seconds."""

from torch import nn

from smashbench.bench.experiment.models.base import (
    Channels,
    Model,
    Normalize,
    SplitModel,
    block,
    bottleneck,
)


class Small(Model):
    """Two convolution blocks and a bottleneck: 8x8x8 features for 32x32 images.

    Args:
        channels: of the bottleneck.
    """

    def __init__(self, *, channels: Channels = 8) -> None:
        self.channels = channels

    def build(self, image_shape: tuple[int, int, int], classes: int) -> SplitModel:
        encoder = nn.Sequential(
            Normalize(),
            *block(image_shape[0], 16, pool=True),
            *block(16, 32, pool=True),
            *bottleneck(32, self.channels),
        )
        head = nn.Sequential(
            *block(self.channels, 64, pool=True),
            *block(64, 128),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(128, classes),
        )
        return SplitModel(encoder, head)
