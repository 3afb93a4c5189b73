"""Split networks: one per file, listed in ``MODELS``."""

from collections.abc import Callable
from functools import partial

from smashbench.bench.experiment.models.base import SplitModel
from smashbench.bench.experiment.models.linear import linear
from smashbench.bench.experiment.models.resnet import resnet18, resnet20
from smashbench.bench.experiment.models.small import small
from smashbench.bench.experiment.models.vgg11 import vgg11

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
