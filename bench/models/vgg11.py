"""VGG11-BN cut after its second convolution block, the field's reference network."""

from torch import nn

from bench.models.base import Normalize, SplitModel, block, bottleneck


def vgg11(image_shape: tuple[int, int, int], classes: int) -> SplitModel:
    """VGG11-BN with an 8-channel bottleneck (Xia et al., CVPR 2025): 85k client parameters.

    Deviation: the map is averaged to 1x1 before the classifier, so that images other than 32x32
    work; at 32x32 the map is 1x1 already and nothing changes.
    """
    encoder = nn.Sequential(
        Normalize(),
        *block(image_shape[0], 64, pool=True),
        *block(64, 128, pool=True),
        *bottleneck(128, 8),
    )
    head = nn.Sequential(
        *block(8, 128),
        *block(128, 256),
        *block(256, 256, pool=True),
        *block(256, 512),
        *block(512, 512, pool=True),
        *block(512, 512),
        *block(512, 512, pool=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )
    return SplitModel(encoder, head)
