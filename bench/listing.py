"""Every component in a line, for ``smashbench list``."""

from collections.abc import Mapping
from math import prod
from textwrap import fill

import torch

from smashbench.attacks import ATTACKS
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.models import MODELS, Model
from smashbench.bench.report.figures import figures
from smashbench.bench.run.engines import ENGINES
from smashbench.bench.suite import toml
from smashbench.datasets import DATASETS
from smashbench.defenses import DEFENSES

WIDTH = 100
"""Columns."""


def listed() -> str:
    """Every component with the first sentence of its description, and the suites."""
    tables: Mapping[str, Mapping[str, object]] = {
        "defenses": DEFENSES,
        "attacks": ATTACKS,
        "datasets": DATASETS,
        "models": MODELS,
        "engines": ENGINES,
    }
    descriptions = {
        title: {name: (entry.__doc__ or "").split(".\n")[0] for name, entry in table.items()}
        for title, table in tables.items()
    }
    for name, model in MODELS.items():
        descriptions["models"][name] += f": {_described(model)}"
    descriptions["metrics"] = {name: metric.axis for name, metric in METRICS.items()}
    descriptions["figures"] = {each.name: each.caption.split(". ")[0] for each in figures()}
    descriptions["suites"] = toml.names()
    room = 4 + max(len(name) for entries in descriptions.values() for name in entries)
    lines = []
    for title, entries in descriptions.items():
        lines.append(title)
        for name, text in entries.items():
            start, plain = f"  {name}".ljust(room), " ".join(text.split()).rstrip(".")
            lines.append(fill(plain, WIDTH, initial_indent=start, subsequent_indent=" " * room))
    return "\n".join(lines)


def _described(model: type[Model]) -> str:
    """What the client of a model sends, holds and computes, for 32x32 images."""
    try:
        with torch.device("meta"):  # shapes alone
            split = model().build((3, 32, 32), 10)
            shape = split.feature_shape((3, 32, 32))
            operations = split.client_multiply_adds((3, 32, 32))
    except Exception as error:  # of a model of somebody's own
        return f"cannot be built for 32x32 images: {type(error).__name__}: {error}"
    sent = "x".join(map(str, shape))
    held = f"{split.client_parameters:,} client parameters, {operations / 1e6:.1f} M multiply-adds"
    return f"sends {sent} = {prod(shape)} numbers; {held}"
