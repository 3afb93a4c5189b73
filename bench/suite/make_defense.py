"""From the configuration of a defense to the defense."""

from collections.abc import Callable

import torch

from smashbench.bench.suite.config import DefenseConfig, StackConfig
from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.stack import Stack

SHAPE, CLASSES = (8, 4, 4), 5
"""Of a trial piece."""


def maker(config: DefenseConfig | StackConfig) -> Callable[[tuple[int, ...], int], Defense]:
    """Makes the defense for features of a shape and a number of classes."""

    def make(shape: tuple[int, ...], classes: int) -> Defense:
        parts = {
            part.name: DEFENSES[part.name](shape, classes, **part.options) for part in config.parts
        }
        return Stack(parts) if len(parts) > 1 else parts[config.parts[0].name]

    return make


def refusal(config: DefenseConfig | StackConfig) -> str:
    """Why options that are each valid do not go together; empty where they do."""
    with torch.random.fork_rng([]):
        try:
            made = maker(config)(SHAPE, CLASSES)
            made.stand_on(made.noise)
        except ValueError as error:
            return str(error)
    return ""
