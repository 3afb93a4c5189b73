"""Options that name an epoch which a training never comes to."""

from collections.abc import Iterator

from smashbench.bench.experiment.training import Training
from smashbench.bench.suite.config import Component
from smashbench.defenses import DEFENSES
from smashbench.defenses.cem import Cem


def of_training(training: Training) -> Iterator[str]:
    """A line for every such option of the training itself."""
    epochs = training.epochs
    if late := [each for each in training.milestones if each >= epochs]:
        yield f"milestones = {list(training.milestones)}: {_never(late[0], epochs)}"
    if training.idle_epochs >= epochs:
        yield f"idle_epochs = {training.idle_epochs}: nothing is learned in {epochs} epochs"


def of_defense(part: Component, epochs: int) -> Iterator[str]:
    """A line for every such option of a penalty with a warm-up, which would be trained without it,
    or without a step of it, under its own name."""
    if part.name not in DEFENSES or not issubclass(DEFENSES[part.name], Cem):
        return
    options, more = part.options, "set a lower one, or a higher training.epochs"
    warmup, ramp = options["warmup_epochs"], options["ramp_epochs"]
    if warmup >= epochs:
        yield f"warmup_epochs = {warmup}: its penalty never begins in {epochs} epochs; {more}"
    elif options["scale_end"] is not None and warmup + ramp >= epochs:
        yield (
            f"ramp_epochs = {ramp}: {epochs} epochs, of which {warmup} are warm-up, end before "
            f"scale_end; {more}"
        )
    if late := [epoch for epoch, _ in options["lam_steps"] if epoch >= epochs]:
        yield f"lam_steps = {options['lam_steps']}: {_never(late[0], epochs)}"


def _never(epoch: int, epochs: int) -> str:
    return f"epoch {epoch} never comes, since the last of {epochs} is epoch {epochs - 1}"
