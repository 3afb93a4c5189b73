"""Options that name an epoch which a training never comes to."""

from collections.abc import Mapping
from typing import Any

from smashbench.bench.experiment.training import Training


def of_training(training: Training) -> list[str]:
    """A line for every such option of the training itself."""
    epochs = training.epochs
    lines = []
    if late := [each for each in training.milestones if each >= epochs]:
        lines.append(f"milestones = {list(training.milestones)}: {_never(late[0], epochs)}")
    if training.idle_epochs >= epochs:
        lines.append(f"idle_epochs = {training.idle_epochs}: nothing is learned in {epochs} epochs")
    return lines


def of_defense(options: Mapping[str, Any], epochs: int) -> list[str]:
    """A line for every such option of a defense, which would be trained without its penalty, or
    without a step of it, under its own name."""
    lines = []
    warmup = options.get("warmup_epochs")
    if isinstance(warmup, int) and warmup >= epochs:
        lines.append(
            f"warmup_epochs = {warmup}: its penalty never begins in {epochs} epochs; set a lower "
            "one, or a higher training.epochs"
        )
    steps = options.get("lam_steps") or ()
    if late := [epoch for epoch, _ in steps if epoch >= epochs]:
        lines.append(f"lam_steps = {[list(step) for step in steps]}: {_never(late[0], epochs)}")
    return lines


def _never(epoch: int, epochs: int) -> str:
    return f"epoch {epoch} never comes, since the last of {epochs} is epoch {epochs - 1}"
