"""A narrower network: fewer features leave the client."""

from typing import Annotated

from annotated_types import Ge, Le

from smashbench.defenses.base import Defense


class Bottleneck(Defense):
    """The network's bottleneck has so few channels, and the features leave as they are: the plain
    way to send less (BottleNet, Eshratifar et al., ISLPED 2019). The row "bottleneck" of Xia et al.
    (CVPR 2025) is one of 8 channels with a little noise.

    The option is handed to the model, whose option of that name it replaces in its row alone; the
    undefended network keeps its own.

    Args:
        channels: of the bottleneck.
    """

    strength = "channels"
    group = "information"
    of_model = {"channels": "channels"}

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        channels: Annotated[int, Ge(1), Le(4096)] = 4,
    ) -> None:
        super().__init__(shape, classes)
        self.channels = channels
