"""How victims are trained; the same for every defense."""

from typing import Annotated, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from smashbench.bench.frozen import Frozen

ADAM_LR, MOMENTUM, DECAY = 0.005, 0.9, 0.2


class Training(Frozen):
    """The ``[training]`` table of a suite.

    Learning rates follow one cycle (Smith and Topin, 2019), with ``adamw`` against one of its first
    moment's decay, between .95 and .85; or, with ``schedule = "linear"``, rise
    in the first ``warmup`` share of the steps and fall linearly to 0; or, with ``milestones``,
    start at ``lr`` and are multiplied by ``decay`` at each of these epochs. The first
    ``idle_epochs`` of such a schedule are at rate 0, where batch normalisation alone learns (a slip
    of the code of Xia et al., CVPR 2025, kept for comparisons). The last epoch's weights are kept:
    choosing the epoch with the best validation accuracy would choose the least defended one.

    Args:
        epochs: passes over the training images.
        batch_size: images of a step.
        optimiser: ``momentum`` and ``nesterov`` are SGD. ``muon`` updates the filters of encoder
            and head (``smashbench.attacks.muon``) and leaves all else to Adam at ``adam_lr``.
        lr: highest learning rate.
        adam_lr: see ``optimiser``.
        momentum: of SGD and Muon.
        weight_decay: decoupled with ``adamw`` and ``muon``, in the gradient with SGD.
        schedule, warmup, milestones, decay, idle_epochs: see above.
        label_smoothing: share of the target that is spread over all classes.
        flip: mirrors a ``random`` half of every batch; ``alternating`` a half of the training
            images that is drawn once, in even epochs, and the other half in odd ones (Jordan, 2024,
            arXiv:2404.00498); or ``none``.
        shift: largest shift in pixels, into a ``border`` of the reflected image or of black.
        rotation: largest turn in degrees.
        balanced: samples come in runs of so many of one class; 0 draws them from all.
        average: weights that are averaged along the training, see ``average.Average``.
        recalibrate: the statistics of batch normalisation, which trail the weights, are computed
            anew for the last ones, before anything is released.
        precision: of the networks, their derivatives (``jacobian``) and the products of Muon; all
            else of penalties is in float32.
    """

    epochs: PositiveInt
    batch_size: Annotated[int, Gt(1)] = 128
    optimiser: Literal["adamw", "momentum", "nesterov", "muon"] = "adamw"
    lr: PositiveFloat = 0.01
    adam_lr: PositiveFloat = ADAM_LR
    momentum: Annotated[float, Ge(0), Lt(1)] = MOMENTUM
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
    decay: PositiveFloat = DECAY
    idle_epochs: Annotated[int, Ge(0)] = 0
    balanced: Annotated[int, Ge(0)] = 0
    border: Literal["reflect", "black"] = "reflect"
    rotation: Annotated[float, Ge(0), Le(180)] = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.idle_epochs and not self.milestones:
            raise ValueError("idle_epochs does nothing without milestones: delete it")
        if self.milestones and self.schedule != "one_cycle":
            raise ValueError("milestones are a schedule of their own: delete schedule")
        if self.warmup and (self.milestones or self.schedule != "linear"):
            raise ValueError('warmup does nothing without schedule = "linear": delete it')
        if self.optimiser != "muon" and self.adam_lr != ADAM_LR:
            raise ValueError('adam_lr does nothing without optimiser = "muon": delete it')
        if self.optimiser == "adamw" and self.momentum != MOMENTUM:
            raise ValueError("momentum is not an option of adamw: delete it")
        if not self.milestones and self.decay != DECAY:
            raise ValueError("decay does nothing without milestones: delete it")
        if not self.shift and self.border != "reflect":
            raise ValueError("border does nothing without shift: delete it")
        if self.average != "none" and not self.recalibrate:
            raise ValueError(
                f'average = "{self.average}" needs recalibrate = true: statistics of batch '
                "normalisation are those of other weights"
            )
        if self.balanced > self.batch_size // 2:
            raise ValueError(
                f"balanced = {self.balanced} of {self.batch_size} leaves a batch with one class: "
                "at most half of batch_size"
            )
        return self
