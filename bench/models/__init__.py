"""Split networks: one per file, listed in ``MODELS``."""

from collections.abc import Callable

from bench.models.base import SplitModel
from bench.models.linear import linear
from bench.models.small import small
from bench.models.vgg11 import vgg11

MODELS: dict[str, Callable[[tuple[int, int, int], int], SplitModel]] = {
    "linear": linear,
    "small": small,
    "vgg11": vgg11,
}

__all__ = ["MODELS", "SplitModel"]
