"""The images of a submission: are they here, and may they be loaded?

A submission names a data set and its options. What it names is not loaded blindly: it could be more
than a machine holds, or a folder that is none of the submission's business.
"""

from pathlib import Path
from typing import Literal, get_origin

import torch
from pydantic import ValidationError

from smashbench.bench.errors import BenchError
from smashbench.bench.frozen import explain
from smashbench.bench.run.perform import load_data
from smashbench.bench.submitting.finding import Finding
from smashbench.bench.suite import toml
from smashbench.bench.suite.config import Component
from smashbench.bench.suite.options import options_of, resolve
from smashbench.bench.suite.trial import Suite
from smashbench.datasets import DATASETS, DatasetError, Split

LARGEST = 60_000
"""Most that an option may ask for, images of a part above all, where nobody here uses as many."""
SHOWN = 100
"""Most characters of an option that a sentence repeats."""
UNSCORED = "nothing was scored again"


def images_of(dataset: Component, data: Path | None, board: Suite | None) -> Split | Finding:
    """The images of a submission, or why they are not loaded.

    Loaded is what the board has; without a board what a built-in suite has, and what differs from
    the defaults in no more than a seed, a choice among words, or numbers up to ``LARGEST``.

    Args:
        dataset: as the submission describes it.
        data: the data folder.
        board: the suite beside whose rows it is to stand.
    """
    name, options = dataset.name, dataset.options
    if name not in DATASETS:
        return Finding("note", f"{UNSCORED}: no data set {name!r}; give its --plugin")
    try:
        same = resolve(DATASETS[name], options) == options
    except ValidationError as error:
        why = "; ".join(explain(error, name, options_of(DATASETS[name]))[:3])
        return Finding("PROBLEM", f"no suite could have its data set: {why}")
    if not same:
        return Finding("PROBLEM", f"its data set {name!r} lacks options that it has here")
    if board:
        if dataset not in [trial.victim.dataset for trial in board.victims]:
            return Finding("note", f"{UNSCORED}: its data set is not the board's")
    elif places := [v for v in options.values() if isinstance(v, str) and Path(v).is_absolute()]:
        return Finding(
            "PROBLEM",
            f"its images are in {places[0]}, a place on its author's machine: put them below the "
            "data folder, and say where from there",
        )
    elif dataset not in toml.datasets() and (unusual := _unusual(dataset)):
        return Finding("note", f"{UNSCORED}: {unusual}; give the --board that has it")
    return _loaded(dataset, data)


def _unusual(dataset: Component) -> str:
    """The first option that could ask for anything; empty where there is none."""
    component = DATASETS[dataset.name]
    usual = resolve(component, {})
    for name, field in options_of(component).model_fields.items():
        value = dataset.options[name]
        chosen = isinstance(value, bool) or get_origin(field.annotation) is Literal
        small = isinstance(value, int | float) and value <= LARGEST
        if not (value == usual[name] or chosen or small or name == "seed"):
            shown = repr(value)
            short = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
            return f"no built-in suite has a data set with {name} = {short}"
    return ""


def _loaded(dataset: Component, data: Path | None) -> Split | Finding:
    try:
        return load_data(dataset, data, torch.device("cpu"))
    except (BenchError, DatasetError) as error:
        return Finding("note", f"{UNSCORED}, the images are not here: {error}")
    except Exception as error:  # more than there is memory for, or a set of somebody's own
        why = f"{type(error).__name__}: {error}"
        return Finding("PROBLEM", f"its images cannot be loaded: {why}")
