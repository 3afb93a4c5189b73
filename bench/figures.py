"""The pictures of a run: privacy-utility curves and reconstructions."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.board import Board, Row
from bench.files import write_whole
from bench.published import points
from bench.stats import Estimate

# Okabe and Ito's colours differ in lightness too; markers and dashes carry the rest in grey.
COLOURS = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
MARKERS = ("*", "o", "s", "D", "^", "v", "P", "X", "<", ">")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)))
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "smashbench",
    "svg.fonttype": "none",
}
READABLE = 200
"""Most rows of which a picture can show every one: more have no strengths beside their points, and
no pictures of every attack, every course of training and every reconstruction."""
LONGEST = 24
"""Most lines in a column of a legend."""
WORDS = {
    "mse": "MSE (higher is more private)",
    "fvu": "FVU (higher is more private)",
    "ssim": "SSIM (lower is more private)",
    "psnr": "PSNR, dB (lower is more private)",
}
FLOORS = {
    "mean_image": "mean image",
    "class_mean": "class mean",
    "thumbnail_2x2": "2x2 thumbnail",
    "thumbnail_4x4": "4x4 thumbnail",
}


def tradeoff(board: Board, metric: str, folder: Path) -> list[Path]:
    """Accuracy against the worst case of ``metric`` (mse, fvu, ssim, psnr): a curve per defense
    over its strengths, 95 % intervals, floors as lines; ``tradeoff_METRIC.png`` and ``.svg``."""
    with mpl.rc_context(STYLE):
        names = list(dict.fromkeys(row.defense for row in board.rows))
        handles = _symbols(board, metric)
        columns = max(1, -(-len(handles) // LONGEST))
        figure = Figure(figsize=(6.5 + 1.5 * columns, 5), layout="constrained")
        axes = figure.subplots()
        colours = {name: line_style(number)["color"] for number, name in enumerate(names)}
        _intervals(axes, board, metric, colours)
        for number, name in enumerate(names):
            rows = [row for row in board.complete if row.defense == name]
            _curve(axes, number, rows, metric, len(board.complete) <= READABLE)
        _floor_lines(axes, board, metric)
        _published(axes, board, metric)
        axes.set_xlabel("test accuracy")
        axes.set_ylabel(f"worst-case {WORDS[metric]}")
        x, y = shown_values(board, metric)
        axes.set(xlim=_padded(x), ylim=_padded(y))
        _private_upwards(axes, metric)
        title = f"{board.suite.name}: the better defense lies up and to the right"
        axes.set_title(title, loc="left", fontsize=10)
        figure.legend(
            handles=handles,
            loc="outside right upper",
            title="defense, strength",
            alignment="left",
            ncols=columns,
        )
        return save(figure, folder / f"tradeoff_{metric}")


def shown_values(board: Board, metric: str) -> tuple[list[float], list[float]]:
    """What the two axes of a trade-off must reach: points, floors, and intervals as far as they
    are no wider than a sixth of what the points span; a row whose seeds differ wildly would
    otherwise leave no room for the others."""
    rows = [row for row in board.complete if row.accuracy]
    published = points(board.suite, metric)
    x = _shown(
        [row.accuracy for row in rows if row.accuracy], [row.accuracy for row, _ in published]
    )
    more = [*floors_of(board, metric).values(), *(value for _, value in published)]
    return x, _shown([row.worst(metric) for row in rows], more)


def _shown(estimates: Sequence[Estimate], others: Sequence[float]) -> list[float]:
    means = [estimate.mean for estimate in estimates] + list(others)
    least, most = min(means), max(means)
    room = (most - least or abs(most) or 1.0) / 6
    ends = [end for estimate in estimates for end in estimate[1:]]
    return [max(min([least, *ends]), least - room), min(max([most, *ends]), most + room)]


def _padded(ends: Sequence[float]) -> tuple[float, float]:
    low, high = ends
    margin = 0.04 * (high - low or 1.0)
    return low - margin, high + margin


def _intervals(axes: Axes, board: Board, metric: str, colours: Mapping[str, str]) -> None:
    """Bars for the intervals of all points: two artists, for there may be a thousand points."""
    rows = [row for row in board.complete if row.accuracy]
    x = np.reshape([row.accuracy for row in rows if row.accuracy], (-1, 3)).T
    y = np.reshape([row.worst(metric) for row in rows], (-1, 3)).T
    style: Any = {
        "colors": [(*mpl.colors.to_rgb(colours[row.defense]), 0.45) for row in rows],
        "linewidth": 0.7,
    }
    axes.hlines(y[0], x[1], x[2], **style)
    axes.vlines(x[0], y[1], y[2], **style)


def _curve(axes: Axes, number: int, rows: list[Row], metric: str, labelled: bool) -> None:
    rows = [row for row in rows if row.accuracy]
    x = np.array([row.accuracy.mean for row in rows if row.accuracy])
    y = np.array([row.worst(metric).mean for row in rows])
    style = line_style(number) | {"markersize": 9 if len(rows) == 1 else 6}
    axes.plot(x, y, **style)
    doubtful = [bool(row.doubts) for row in rows]
    if any(doubtful):
        hollow = {**style, "linestyle": "", "markerfacecolor": "white", "zorder": 3}
        axes.plot(x[doubtful], y[doubtful], **hollow)
    for row, accuracy, worst in zip(rows, x, y, strict=True):
        if labelled and row.strength is not None:
            axes.annotate(
                f"{row.strength:g}",
                (accuracy, worst),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=7,
                color=style["color"],
            )


def _published(axes: Axes, board: Board, metric: str) -> None:
    """Published rows as hollow grey rings, named."""
    for row, value in points(board.suite, metric):
        axes.plot(row.accuracy, value, "o", color="#777777", markerfacecolor="none", markersize=7)
        place: Any = {"xytext": (6, -3), "textcoords": "offset points"}
        axes.annotate(row.name, (row.accuracy, value), fontsize=6, color="#555555", **place)


def _symbols(board: Board, metric: str) -> list[Line2D]:
    """The legend: every defense, and what hollow marks and grey rings are."""
    handles = [
        Line2D([], [], label=name, **line_style(number))
        for number, name in enumerate(dict.fromkeys(row.defense for row in board.rows))
        if any(row.defense == name for row in board.complete)
    ]
    ring: Any = {"linestyle": "", "marker": "o", "markerfacecolor": "white"}
    if any(row.doubts for row in board.complete):
        handles.append(Line2D([], [], color="black", label="hollow: flagged", **ring))
    if found := points(board.suite, metric):
        source = found[0][0].source.replace(", ", ",\n", 2)
        handles.append(Line2D([], [], color="#777777", label=source, **ring))
    return handles


def line_style(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the ``number``-th defense; each tells it from the others."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
    }


def by_attack(board: Board, folder: Path) -> list[Path]:
    """Accuracy against the MSE of every attack, a panel each on the same scale, a curve per
    defense; ``attacks.png`` and ``.svg``."""
    attacks = list(dict.fromkeys(name for row in board.complete for name in row.attacks))
    columns = min(3, len(attacks))
    lines = -(-len(attacks) // columns)
    with mpl.rc_context(STYLE | {"font.size": 8}):
        figure = Figure(figsize=(1.6 + 2.8 * columns, 0.6 + 2.3 * lines), layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
        names = list(dict.fromkeys(row.defense for row in board.rows))
        for axes in grid.flatten()[len(attacks) :]:
            axes.set_axis_off()
        for attack, axes in zip(attacks, grid.flatten(), strict=False):
            for number, name in enumerate(names):
                means = [
                    (row.accuracy.mean, row.attacks[attack]["mse"].mean)
                    for row in board.complete
                    if row.defense == name and row.accuracy and attack in row.attacks
                ]
                style = line_style(number) | {"markersize": 4, "linewidth": 1}
                axes.plot(*np.reshape(means, (-1, 2)).T, label=name, **style)
            axes.set_title(attack, loc="left", fontsize=8)
            axes.set_ylim(bottom=0)
        figure.supxlabel("test accuracy", fontsize=8)
        figure.supylabel("MSE (higher is more private)", fontsize=8)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper")
        return save(figure, folder / "attacks")


def _private_upwards(axes: Axes, metric: str) -> None:
    if metric in ("ssim", "psnr"):
        axes.invert_yaxis()
    else:
        axes.set_ylim(bottom=0)


def floors_of(board: Board, metric: str) -> dict[str, float]:
    """What needs no attack; not for PSNR, whose mean does not follow from the mean MSE."""
    if metric == "psnr":
        return {}
    if metric == "fvu":
        least = board.floors["mean_image"]["mse"]
        return {name: values["mse"] / least for name, values in board.floors.items()}
    return {name: values[metric] for name, values in board.floors.items()}


def _floor_lines(axes: Axes, board: Board, metric: str) -> None:
    for name, value in floors_of(board, metric).items():
        axes.axhline(value, color="#777777", linewidth=0.8, linestyle=(0, (6, 3)))
        axes.annotate(
            FLOORS[name],
            (0.005, value),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=7,
            color="#555555",
        )


def save(
    figure: Figure, path: Path, formats: tuple[str, ...] = ("png", "svg"), dpi: int = 150
) -> list[Path]:
    """Writes the figure in every format, without dates: the same records, the same bytes."""
    written = []
    figure.set_dpi(dpi)
    if figure.get_layout_engine():
        figure.draw_without_rendering()  # once for all formats: it takes a while
        figure.set_layout_engine(None)
    for kind in formats:
        content = io.BytesIO()
        options: Any = {"metadata": {"Date": None}}
        if kind == "png":
            options = {"metadata": {"Software": None}, "pil_kwargs": {"compress_level": 4}}
        figure.savefig(content, format=kind, dpi=dpi, **options)
        written.append(path.with_suffix(f".{kind}"))
        write_whole(written[-1], content.getvalue())
    return written
