"""A network cut in two, and the layers that several networks share."""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class SplitModel(NamedTuple):
    """``encoder``: images (B, C, H, W) in [0, 1] to features (B, C', H', W') in (0, 1), run by
    the client. ``head``: releases of that shape to logits (B, classes), run by the server."""

    encoder: nn.Sequential
    head: nn.Sequential

    def feature_shape(self, image_shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """(C', H', W') of the features of one image of ``image_shape``; the networks' training
        mode and statistics are left alone."""
        training = self.encoder.training
        with torch.no_grad():
            c, h, w = self.encoder.eval()(torch.zeros(1, *image_shape)).shape[1:]
        self.encoder.train(training)
        return c, h, w


class Normalize(nn.Module):
    """[0, 1] to about zero mean and unit spread; inside the encoder, so attacks see [0, 1]."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 0.5) * 4


def block(inputs: int, outputs: int, *, pool: bool = False) -> list[nn.Module]:
    """3x3 convolution, batch normalisation, ReLU and, with ``pool``, 2x2 max pooling."""
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return [*layers, nn.MaxPool2d(2)] if pool else layers


def bottleneck(inputs: int, channels: int, *, stride: int = 1) -> list[nn.Module]:
    """3x3 convolution to few channels and a sigmoid: bounded features give noise a meaning."""
    return [nn.Conv2d(inputs, channels, 3, stride, padding=1), nn.Sigmoid()]
