"""What a model is, and the layers that several models share."""

from abc import ABC, abstractmethod
from typing import Annotated, NamedTuple

import torch
from annotated_types import Ge
from torch import Tensor, nn


class SplitModel(NamedTuple):
    """``encoder``: images (B, C, H, W) in [0, 1] to features (B, ...) in (0, 1), run by the client.
    ``head``: releases of that shape to logits (B, classes), run by the server."""

    encoder: nn.Sequential
    head: nn.Sequential

    def feature_shape(self, image_shape: tuple[int, int, int]) -> tuple[int, ...]:
        """Shape of the features of one image of ``image_shape``; the networks' training mode and
        statistics are left alone."""
        training = self.encoder.training
        with torch.no_grad():
            shape = self.encoder.eval()(torch.zeros(1, *image_shape)).shape[1:]
        self.encoder.train(training)
        return tuple(shape)

    @property
    def client_parameters(self) -> int:
        """Parameters of the encoder; what the client holds of a defense is not counted."""
        return sum(p.numel() for p in self.encoder.parameters())

    def client_multiply_adds(self, image_shape: tuple[int, int, int]) -> int:
        """Multiply-adds of the encoder's convolutions and matrix products for one image; those of a
        defense are not counted."""
        from torch.utils.flop_counter import FlopCounterMode  # here: it imports Triton

        training = self.encoder.training
        like = next(self.encoder.parameters(), torch.zeros(()))
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            self.encoder.eval()(torch.zeros(1, *image_shape, device=like.device))
        self.encoder.train(training)
        return counter.get_total_flops() // 2


Channels = Annotated[int, Ge(1)]


class Model(ABC):
    """A network cut in two. The constructor stores its keyword-only options and computes
    nothing."""

    @abstractmethod
    def build(self, image_shape: tuple[int, int, int], classes: int) -> SplitModel:
        """An untrained network for images of ``image_shape`` (C, H, W)."""


class Prepared(nn.Module):
    """A layer that looks at training images before the first step."""

    def prepare(self, x: Tensor) -> None:
        """Takes what it needs from the training images ``x`` (N, C, H, W) in [0, 1]."""


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
