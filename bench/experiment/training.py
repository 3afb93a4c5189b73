"""How victims are trained; the same for every defense."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from smashbench.bench.frozen import Frozen


class Training(Frozen):
    """The ``[training]`` table of a suite.

    The learning rate follows one cycle (Smith and Topin, 2019) or, with ``milestones``, starts at
    ``lr`` and is multiplied by ``decay`` at each of these epochs. ``momentum`` and ``nesterov`` are
    SGD with momentum 0.9. Augmentation is a random flip, a shift by up to ``shift`` pixels into a
    ``border``, and a turn by up to ``rotation`` degrees. The last epoch's weights are
    kept: choosing the epoch with the best validation accuracy would choose the least defended one.
    """

    epochs: PositiveInt
    batch_size: Annotated[int, Gt(1)] = 128
    optimiser: Literal["adamw", "momentum", "nesterov"] = "adamw"
    lr: PositiveFloat = 0.01
    weight_decay: NonNegativeFloat = 5e-4
    shift: Annotated[int, Gt(-1)] = 2
    precision: Literal["bf16", "fp32"] = "bf16"
    milestones: tuple[PositiveInt, ...] = ()
    decay: PositiveFloat = 0.2
    border: Literal["reflect", "black"] = "reflect"
    rotation: Annotated[float, Ge(0), Le(180)] = 0.0
