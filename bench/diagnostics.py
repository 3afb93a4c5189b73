"""Do the surrogates tell the truth? Their course in training, and what they compress."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from bench.board import Board, Row
from bench.figures import STYLE, line_style, save

PANELS = {
    "val_accuracy": "validation accuracy",
    "class_variance": "true within-class variance",
    "capacity_nats": "capacity bound, nats per image",
    "surrogate": "surrogate (unweighted penalty)",
    "active_gates": "share of active gates",
    "effective_samples": "effective samples per class",
    "occupancy": "clusters in use, share",
    "dimension_gate": "mean dimension gate",
    "snr_gate": "mean SNR gate",
    "slot_mass_entropy": "slot mass entropy, nats",
    "nonfinite": "non-finite samples per step",
}
LOGARITHMIC = ("class_variance", "capacity_nats", "surrogate")


def over_training(board: Board, folder: Path) -> list[Path]:
    """Every diagnostic over the epochs, a line per row, stronger defenses darker;
    ``diagnostics.png`` and ``.svg``."""
    rows = [row for row in board.rows if row.history]
    panels = [
        name
        for name in PANELS
        if any(_measured(row, name) and np.nan_to_num(row.history[name]).any() for row in rows)
    ]
    columns = 3
    lines = -(-len(panels) // columns)
    with mpl.rc_context(STYLE | {"font.size": 8}):
        figure = Figure(figsize=(9.5, 2.3 * lines), layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False).flatten()
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for name, axes in zip(panels, grid, strict=False):
            for number, group in enumerate(_by_defense(rows).values()):
                for place, row in enumerate(group):
                    if _measured(row, name):
                        _line(axes, row, name, number, (place + 1) / len(group))
            axes.set_title(PANELS[name], loc="left", fontsize=8)
            if name in LOGARITHMIC:
                _logarithmic(axes, "y")
            else:
                axes.set_ylim(bottom=0)
        for axes in grid[: len(panels)]:
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        for axes in grid[max(0, len(panels) - columns) : len(panels)]:
            axes.set_xlabel("epoch")
        found = {
            text: line
            for axes in grid
            for line, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(found.values(), found.keys(), loc="outside right upper")
        return save(figure, folder / "diagnostics")


def surrogates(board: Board, folder: Path) -> list[Path]:
    """What a surrogate says against the true variance, and that variance against the worst case;
    a curve per defense over its strengths; ``surrogates.png`` and ``.svg``."""
    rows = [row for row in board.complete if _measured(row, "surrogate")]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for number, (name, group) in enumerate(_by_defense(board.complete).items()):
            variance = [row.history["class_variance"][-1] for row in group]
            worst = [row.worst("mse").mean for row in group]
            if group[0] in rows:
                said = [row.history["surrogate"][-1] for row in group]
                left.plot(said, variance, **line_style(number))
            right.plot(variance, worst, label=name, **line_style(number))
        left.set_xlabel("surrogate at the end of training (its own units)")
        left.set_ylabel("true within-class variance")
        right.set_xlabel("true within-class variance")
        right.set_ylabel("worst-case MSE")
        _logarithmic(left, "x", "y")
        _logarithmic(right, "x")
        figure.legend(loc="outside right upper")
        return save(figure, folder / "surrogates")


def _logarithmic(axes: Axes, *names: str) -> None:
    """Logarithmic axes with plain numbers, few enough to read."""
    for name in names:
        axis = axes.xaxis if name == "x" else axes.yaxis
        axes.set(**{f"{name}scale": "log"})
        low, high = axis.get_view_interval()
        steps = (1, 2, 5) if high < 100 * low else (1,)
        axis.set_major_locator(LogLocator(subs=steps, numticks=5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def _by_defense(rows: list[Row]) -> dict[str, list[Row]]:
    names = dict.fromkeys(row.defense for row in rows)
    return {name: [row for row in rows if row.defense == name] for name in names}


def _measured(row: Row, name: str) -> bool:
    return name in row.history and bool(np.isfinite(row.history[name]).any())


def _line(axes: Axes, row: Row, name: str, number: int, weight: float) -> None:
    style = line_style(number) | {"marker": ""}
    label = row.defense if weight == 1 else None
    epochs = np.arange(1, len(row.history[name]) + 1)
    axes.plot(epochs, row.history[name], label=label, alpha=0.25 + 0.75 * weight, lw=1.2, **style)
