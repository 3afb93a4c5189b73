"""From the configuration of a defense to the defense."""

from collections.abc import Callable

import torch

from smashbench.bench.suite.config import DefenseConfig, StackConfig
from smashbench.bench.suite.kinds import columns_of
from smashbench.bench.suite.options import place_in
from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.stack import Stack

SHAPES: tuple[tuple[int, ...], ...] = ((8, 4, 4), (64, 8, 8), (64,), (16, 64))
"""Maps, few and many features, vectors and tokens of trial pieces: what is refused for all of them
does not hang on the shape."""
CLASSES = 5


def maker(config: DefenseConfig | StackConfig) -> Callable[[tuple[int, ...], int], Defense]:
    """Makes the defense for features of a shape and a number of classes."""

    def make(shape: tuple[int, ...], classes: int) -> Defense:
        parts = {
            part.name: DEFENSES[part.name](shape, classes, **part.options) for part in config.parts
        }
        return Stack(parts) if len(parts) > 1 else parts[config.parts[0].name]

    return make


def trial_piece(config: DefenseConfig | StackConfig) -> Defense:
    """The defense for the first of ``SHAPES`` that it can be made for.

    Raises:
        Exception: the error for the first shape, where it can be made for none.
    """
    first: BaseException | None = None
    with torch.random.fork_rng([]):
        for shape in SHAPES:
            try:
                made = maker(config)(shape, CLASSES)
                made.stand_on(made.noise)
                return made
            except (Exception, SystemExit) as error:  # of a defense of somebody's own
                first = first or error
    assert first
    raise first


def refusal(config: DefenseConfig | StackConfig) -> str:
    """Why options that are each valid do not go together, or the defense cannot be made at all;
    empty where it can. What only features of some shapes are too few for, the trial says."""
    try:
        trial_piece(config)
    except ValueError as error:
        return str(error) or f"cannot be made: {type(error).__name__}"
    except (Exception, SystemExit) as error:
        where = [place_in(DEFENSES[part.name], error) for part in config.parts]
        return f"cannot be made: {type(error).__name__}: {error}{''.join(dict.fromkeys(where))}"
    return ""


def shown_by(config: DefenseConfig | StackConfig) -> list[str]:
    """The diagnostics of a defense that are columns of the tables."""
    return [
        f"{part.name}_{name}" if len(config.parts) > 1 else name
        for part in config.parts
        for name in columns_of(DEFENSES[part.name])
    ]
