"""VGG11-BN, the field's reference network, cut at one of four places."""

from collections.abc import Sequence
from typing import Annotated, Literal

from annotated_types import Ge, Le
from torch import nn

from smashbench.bench.experiment.models.base import (
    Channels,
    Model,
    Normalize,
    SplitModel,
    block,
    bottleneck,
)

CONFIGURATION = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")
"""Channels of the convolutions, and 2x2 max pooling (Simonyan and Zisserman, 2015)."""


class Vgg11(Model):
    """VGG11-BN with a bottleneck after entry ``cut`` of its configuration.

    Cut 4 with 8 channels is the field's reference (Xia et al., CVPR 2025): 8x8x8 features at 32x32.
    Deviation: the map is averaged to 1x1 before the classifier, so that images other than 32x32
    work; at 32x32 the map is 1x1 already and nothing changes.

    Args:
        cut: entries of the configuration that the client runs.
        channels: of the bottleneck.
        decoding: the server's first convolution, out of the bottleneck, is a ``block`` with batch
            normalisation and ReLU as all others are; or ``plain``, as in the code of Xia et al.
        initial: weights of the client before training: ``torch``'s own, or ``xavier``, uniform with
            gain 1 (Glorot and Bengio, 2010) and biases of 0, as in the code of Xia et al.
    """

    def __init__(
        self,
        *,
        cut: Annotated[int, Ge(2), Le(5)] = 4,
        channels: Channels = 8,
        decoding: Literal["block", "plain"] = "block",
        initial: Literal["torch", "xavier"] = "torch",
    ) -> None:
        self.cut, self.channels = cut, channels
        self.decoding, self.initial = decoding, initial

    def build(self, image_shape: tuple[int, int, int], classes: int) -> SplitModel:
        client, width = _layers(CONFIGURATION[: self.cut], image_shape[0])
        server, _ = _layers(CONFIGURATION[self.cut :], width)
        encoder = nn.Sequential(Normalize(), *client, *bottleneck(width, self.channels))
        if self.initial == "xavier":
            encoder.apply(_xavier)
        decoding = block(self.channels, width)
        head = nn.Sequential(
            *(decoding[:1] if self.decoding == "plain" else decoding),
            *server,
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


def _xavier(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _layers(entries: Sequence[int | str], inputs: int) -> tuple[list[nn.Module], int]:
    """The layers of part of the configuration, and the channels that leave them."""
    layers: list[nn.Module] = []
    for entry in entries:
        if isinstance(entry, int):
            layers += block(inputs, entry)
            inputs = entry
        else:
            layers.append(nn.MaxPool2d(2))
    return layers, inputs
