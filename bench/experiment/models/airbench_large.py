"""The network of ``airbench`` with the best accuracy."""

from typing import Annotated, Literal

from annotated_types import Gt

from smashbench.bench.experiment.models.airbench import SIZES, Airbench, Size, Whitening
from smashbench.bench.experiment.models.base import Channels, SplitModel

SIZES["large"] = Size(1, ("64P", "64", "256P", "256", "256"), ("256P", "256"))


class AirbenchLarge(Airbench):
    """``Airbench`` with five blocks before the bottleneck, the last three of 256 channels, where
    most of its work is.

    Deviation from ``reference`` there: the bias of the whitening stays 0, so that nothing before
    the first block needs gradients.

    Args:
        width, channels, whitening, initial: as in ``Airbench``.
    """

    def __init__(
        self,
        *,
        width: Annotated[float, Gt(0)] = 1.0,
        channels: Channels = 8,
        whitening: bool = True,
        initial: Literal["dirac", "torch"] = "dirac",
    ) -> None:
        super().__init__(width=width, channels=channels, whitening=whitening, initial=initial)
        self.size = "large"  # type: ignore[assignment]

    def build(self, image_shape: tuple[int, int, int], classes: int) -> SplitModel:
        split = super().build(image_shape, classes)
        if self.whitening:
            stem = split.encoder[0]
            assert isinstance(stem, Whitening)
            stem.filters.bias.requires_grad_(False)  # type: ignore[union-attr]
        return split
