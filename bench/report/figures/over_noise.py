"""Which defenses beat noise over their sweeps?"""

from collections.abc import Sequence
from math import ceil

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from smashbench.bench.report.board import Board
from smashbench.bench.report.figures.base import Figure, inches, write_title
from smashbench.bench.report.style import SOFT, TEXT, Mark
from smashbench.bench.report.text import number
from smashbench.bench.report.verdict import over_sweeps

FEWEST = 3
"""Defenses to compare: of fewer, the table says as much."""
LINE, AROUND = 0.21, 1.5
"""Inches of a defense, and of all that stands around them."""
WIDEST = 5
"""Entries in a line of the legend, at most."""
BETTER, WORSE, NOT_SHOWN = "better than noise", "worse than noise", "not shown to differ"
OPEN = "above it, attack not converged or lacking"
INTERVALS = ("fvu_over_noise_joint", "fvu_over_noise")
"""Columns of the table of defenses: of the thin and of the thick line."""
COLOURS = {
    BETTER: Mark(2).ink.figure,
    OPEN: Mark(2).ink.figure,
    WORSE: Mark(4).ink.figure,
    NOT_SHOWN: SOFT,
}


def _draw(board: Board) -> Canvas:
    """A line per defense: the mean over its sweep, its own interval (thick) and that which holds
    for all of them at once (thin)."""
    table = over_sweeps(board).sort_values("fvu_over_noise", ascending=False, kind="stable")
    which = [table.better, table.open, table.worse]
    shown = np.select(which, [BETTER, OPEN, WORSE], NOT_SHOWN)
    canvas = Canvas(figsize=inches(7.5, AROUND + LINE * len(table)), layout="constrained")
    axes = canvas.subplots()
    for place, (line, found) in enumerate(zip(table.to_dict("records"), shown, strict=True)):
        joint, own = ([line[f"{start}_{end}"] for end in ("low", "high")] for start in INTERVALS)
        axes.plot(joint, [place] * 2, color=COLOURS[found], lw=1)
        axes.plot(own, [place] * 2, color=COLOURS[found], lw=3, solid_capstyle="butt")
        axes.add_line(_dot(found, [line["fvu_over_noise"]], [place]))
        accuracies = [number(line[end], 2) for end in ("from_accuracy", "to_accuracy")]
        group = board.by_defense[line["defense"]][0].group
        _write_beside(axes, place, group, " to ".join(accuracies))
    _write_beside(axes, -1, "group", "at accuracies")
    axes.axvline(0, color=TEXT, lw=0.8, zorder=1)
    axes.set_yticks(range(len(table)), list(table.defense))
    axes.tick_params("y", length=0)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("FVU over noise at equal accuracy, mean over the sweep")
    handles = [
        *(_dot(each, label=each) for each in COLOURS if each in shown),
        Line2D([], [], color=SOFT, lw=3, label="95 % interval alone"),
        Line2D([], [], color=SOFT, lw=1, label="for all at once"),
    ]
    columns = ceil(len(handles) / ceil(len(handles) / WIDEST))
    canvas.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize="small")
    write_title(canvas, _message(board, table))
    return canvas


def _dot(found: str, x: Sequence[float] = (), y: Sequence[float] = (), label: str = "") -> Line2D:
    inside = "white" if found in (OPEN, NOT_SHOWN) else COLOURS[found]
    return Line2D(x, y, color=COLOURS[found], mfc=inside, marker="o", ms=5, lw=0, label=label)


def _write_beside(axes: Axes, place: int, group: str, accuracies: str) -> None:
    """The group of a defense, and where it was compared, at the right edge."""
    for text, letters in ((group, 1), (accuracies, 9)):
        axes.annotate(
            text,
            (1, place),
            (letters * mpl.rcParams["font.size"], 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            va="center",
            color=SOFT,
            fontsize="small",
        )


def _message(board: Board, table: pd.DataFrame) -> str:
    better, worse = table.better.sum(), table.worse.sum()
    counts = f"{better or 'none'} of {len(table)} swept defenses"
    verb = "is" if better < 2 else "are"
    less = f", {worse} to be worse" if worse else ""
    return f"{board.suite.name}: {counts} {verb} shown to beat noise{less} (FVU)"


OVER_NOISE = Figure(
    name="over_noise",
    caption="Worst-case FVU of every defense over that of noise at equal accuracy, as the mean "
    "over the accuracies that both were swept over (at the right): the mean, its own 95 % interval "
    "(thick), and the interval that holds for all defenses at once (thin). To the right of zero a "
    "defense protects better than noise, if attacks on it had converged and none is lacking.",
    applies=lambda board: len(over_sweeps(board)) >= FEWEST,
    draw=_draw,
)
