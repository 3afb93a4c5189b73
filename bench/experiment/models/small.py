"""A network of about 100,000 parameters that a CPU trains in seconds."""

from torch import nn

from smashbench.bench.experiment.models.base import Normalize, SplitModel, block, bottleneck


def small(image_shape: tuple[int, int, int], classes: int) -> SplitModel:
    """Two convolution blocks and an 8-channel bottleneck: 8x8x8 features for 32x32 images."""
    encoder = nn.Sequential(
        Normalize(),
        *block(image_shape[0], 16, pool=True),
        *block(16, 32, pool=True),
        *bottleneck(32, 8),
    )
    head = nn.Sequential(
        *block(8, 64, pool=True),
        *block(64, 128),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, classes),
    )
    return SplitModel(encoder, head)
