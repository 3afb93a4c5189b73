"""How victims are trained; the same for every defense."""

from typing import Annotated, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from smashbench.bench.frozen import Frozen


class Training(Frozen):
    """The ``[training]`` table of a suite.

    The learning rate follows one cycle (Smith and Topin, 2019) or, with ``milestones``, starts at
    ``lr`` and is multiplied by ``decay`` at each of these epochs; the first ``idle_epochs`` of such
    a schedule are at rate 0, where batch normalisation alone learns (a slip of the code of Xia et
    al., CVPR 2025, kept for comparisons). ``momentum`` and ``nesterov`` are SGD with momentum 0.9.
    Samples come in runs of ``balanced`` of one class, or are drawn from all (0). Augmentation
    is a random flip, a shift by up to ``shift`` pixels into a ``border``, and a turn by up to
    ``rotation`` degrees. The last epoch's weights are
    kept: choosing the epoch with the best validation accuracy would choose the least defended one.
    """

    epochs: PositiveInt
    batch_size: Annotated[int, Gt(1)] = 128
    optimiser: Literal["adamw", "momentum", "nesterov", "muon"] = "adamw"
    lr: PositiveFloat = 0.01
    adam_lr: PositiveFloat = 0.005
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.9
    weight_decay: NonNegativeFloat = 5e-4
    schedule: Literal["one_cycle", "linear"] = "one_cycle"
    warmup: Annotated[float, Ge(0), Lt(1)] = 0.0
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    flip: Literal["random", "alternating", "none"] = "random"
    average: Literal["none", "lookahead", "ema"] = "none"
    recalibrate: bool = False
    shift: Annotated[int, Gt(-1)] = 2
    precision: Literal["bf16", "fp32"] = "bf16"
    milestones: tuple[PositiveInt, ...] = ()
    decay: PositiveFloat = 0.2
    idle_epochs: Annotated[int, Ge(0)] = 0
    balanced: Annotated[int, Ge(0)] = 0
    border: Literal["reflect", "black"] = "reflect"
    rotation: Annotated[float, Ge(0), Le(180)] = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.idle_epochs and not self.milestones:
            raise ValueError("idle_epochs does nothing without milestones: delete it")
        if self.balanced > self.batch_size // 2:
            raise ValueError(
                f"balanced = {self.balanced} of {self.batch_size} leaves a batch with one class: "
                "at most half of batch_size"
            )
        return self
