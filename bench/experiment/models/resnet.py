"""Residual networks for small images, cut after their second stage."""

from itertools import chain, pairwise
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import relu

from smashbench.bench.experiment.models.base import (
    Channels,
    Model,
    Normalize,
    SplitModel,
    block,
    bottleneck,
)


class Residual(nn.Module):
    """Basic block of two 3x3 convolutions (He et al., 2016), features (B, C, H, W); a projection
    where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, z: Tensor) -> Tensor:
        return relu(self.body(z) + self.shortcut(z))


class ResNet20(Model):
    """ResNet-20: three stages of 16, 32 and 64 channels (He et al., 2016, section 4.2).

    The client runs stem and two stages and sends 8x8x8 features for 32x32 images. Deviation:
    shortcuts are projections where the shape changes.

    Args:
        channels: of the bottleneck.
    """

    widths: ClassVar[tuple[int, ...]] = (16, 32, 64)
    blocks: ClassVar[int] = 3

    def __init__(self, *, channels: Channels = 8) -> None:
        self.channels = channels

    def build(self, image_shape: tuple[int, int, int], classes: int) -> SplitModel:
        widths, blocks = self.widths, self.blocks
        encoder = nn.Sequential(
            Normalize(),
            *block(image_shape[0], widths[0]),
            *_stage(widths[0], widths[0], blocks, stride=1),
            *_stage(widths[0], widths[1], blocks, stride=2),
            *bottleneck(widths[1], self.channels, stride=2),
        )
        rest = [_stage(a, b, blocks, stride=2) for a, b in pairwise(widths[2:])]
        head = nn.Sequential(
            *block(self.channels, widths[1]),
            *_stage(widths[1], widths[2], blocks, stride=1),  # the bottleneck has halved the map
            *chain.from_iterable(rest),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(widths[-1], classes),
        )
        return SplitModel(encoder, head)


class ResNet18(ResNet20):
    """ResNet-18 for small images: a 3x3 stem without pooling, stages of 64 to 512 channels.

    The client runs stem and two stages and sends 8x8x8 features for 32x32 images.
    """

    widths = (64, 128, 256, 512)
    blocks = 2


def _stage(inputs: int, outputs: int, blocks: int, *, stride: int) -> list[nn.Module]:
    rest = [Residual(outputs, outputs, 1) for _ in range(blocks - 1)]
    return [Residual(inputs, outputs, stride), *rest]
