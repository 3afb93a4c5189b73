"""Split networks: one per file, listed in ``MODELS``."""

from collections.abc import Callable
from functools import partial

from bench.models.base import SplitModel
from bench.models.linear import linear
from bench.models.resnet import resnet18, resnet20
from bench.models.small import small
from bench.models.vgg11 import vgg11

Model = Callable[[tuple[int, int, int], int], SplitModel]
"""Makes a network from (C, H, W) of an image and the number of classes."""

MODELS: dict[str, Model] = {
    "linear": linear,
    "small": small,
    "vgg11": vgg11,
    "vgg11_cut2": partial(vgg11, cut=2),
    "vgg11_cut3": partial(vgg11, cut=3),
    "vgg11_cut5": partial(vgg11, cut=5),
    "resnet18": resnet18,
    "resnet20": resnet20,
}

__all__ = ["MODELS", "Model", "SplitModel"]
