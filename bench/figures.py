"""The pictures of a run: privacy-utility curves and reconstructions."""

import io
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.leaderboard import Board, Row
from bench.store import Record, Store, write_whole

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
SHOWN = 40
"""Most rows whose reconstructions are shown."""
LABELLED = 200
"""Most points that carry the strength beside them."""
FLOORS = {
    "mean_image": "mean image",
    "class_mean": "class mean",
    "thumbnail_2x2": "2x2 thumbnail",
    "thumbnail_4x4": "4x4 thumbnail",
}


def tradeoff(board: Board, metric: str, folder: Path) -> list[Path]:
    """Accuracy against the worst case of ``metric`` (mse or ssim): a curve per defense over its
    strengths, 95 % intervals, floors as lines; ``tradeoff_METRIC.png`` and ``.svg``."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        names = list(dict.fromkeys(row.defense for row in board.rows))
        for number, name in enumerate(names):
            rows = [row for row in board.complete if row.defense == name]
            _curve(axes, name, number, rows, metric, len(board.complete) <= LABELLED)
        _floor_lines(axes, board, metric)
        axes.set_xlabel("test accuracy")
        word = {"mse": "MSE (higher is more private)", "ssim": "SSIM (lower is more private)"}
        axes.set_ylabel(f"worst-case reconstruction {word[metric]}")
        if metric == "ssim":
            axes.invert_yaxis()
        else:
            axes.set_ylim(bottom=0)
        title = f"{board.suite.name}: the better defense lies up and to the right"
        axes.set_title(title, loc="left", fontsize=10)
        if any(row.doubts for row in board.complete):
            axes.plot([], [], "o", color="black", markerfacecolor="white", label="hollow: flagged")
        figure.legend(loc="outside right upper", title="defense, strength", alignment="left")
        return save(figure, folder / f"tradeoff_{metric}")


def _curve(
    axes: Axes, name: str, number: int, rows: list[Row], metric: str, labelled: bool
) -> None:
    rows = [row for row in rows if row.accuracy]
    if not rows:
        return
    x = np.array([row.accuracy for row in rows]).T
    y = np.array([row.worst(metric) for row in rows]).T
    style = line_style(number)
    axes.errorbar(
        x[0],
        y[0],
        xerr=np.abs(x[1:] - x[0]),
        yerr=np.abs(y[1:] - y[0]),
        label=name,
        **style,
        markersize=9 if len(rows) == 1 else 6,
        elinewidth=0.7,
        ecolor=(*mpl.colors.to_rgb(style["color"]), 0.45),
    )
    doubtful = [bool(row.doubts) for row in rows]
    hollow = {**style, "linestyle": "", "markerfacecolor": "white", "zorder": 3}
    axes.plot(x[0][doubtful], y[0][doubtful], **hollow, markersize=9 if len(rows) == 1 else 6)
    for row, accuracy, worst in zip(rows, x[0], y[0], strict=True):
        if labelled and row.strength is not None:
            axes.annotate(
                f"{row.strength:g}",
                (accuracy, worst),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=7,
                color=style["color"],
            )


def line_style(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the ``number``-th defense; each tells it from the others."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
    }


def _floor_lines(axes: Axes, board: Board, metric: str) -> None:
    for name, values in board.floors.items():
        axes.axhline(values[metric], color="#777777", linewidth=0.8, linestyle=(0, (6, 3)))
        axes.annotate(
            FLOORS[name],
            (0.005, values[metric]),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=7,
            color="#555555",
        )


def reconstructions(board: Board, store: Store, folder: Path) -> list[Path]:
    """Originals and what attacks rebuild from every row, every pixel doubled, of evenly spaced
    rows where there are more than 40; ``reconstructions.png``.

    The attacks are the three that are most often a row's worst case, by MSE or by SSIM. The
    images stand at fixed, evenly spaced places of the test set; the seed is the first.
    """
    worst = Counter(row.worst_attack for row in board.complete)
    worst += Counter(row.worst_ssim_attack for row in board.complete)
    attacks = [name for name, _ in worst.most_common(3)]
    rows = board.complete[:: -(-len(board.complete) // SHOWN)]
    originals = rows[0].originals
    assert originals  # of every row with an accuracy
    shape = store.arrays(originals, "samples")["samples"].shape
    lines = [("original", dict.fromkeys(attacks, originals))]
    lines += [(row.label, row.samples) for row in rows]
    blocks = [
        np.concatenate([_strip(_images(store, places.get(name), shape)) for _, places in lines])
        for name in attacks
    ]
    gap = np.full((len(blocks[0]), 12, 3), 255, np.uint8)
    canvas = np.concatenate([part for block in blocks for part in (block, gap)][:-1], axis=1)
    height, width = len(canvas), canvas.shape[1]
    left, top, dpi = 150, 26, 100
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=((left + width + 8) / dpi, (top + height + 8) / dpi), dpi=dpi)
        figure.figimage(canvas, left, 8)
        for number, (label, _) in enumerate(lines):
            y = 8 + height - (number + 0.5) * height / len(lines)
            _text(figure, left - 8, y, label, "right")
        for number, name in enumerate(attacks):
            x = left + number * (blocks[0].shape[1] + 12) + blocks[0].shape[1] / 2
            _text(figure, x, height + 20, name, "center")
        return save(figure, folder / "reconstructions", formats=("png",), dpi=dpi)


def _images(store: Store, place: Record | None, shape: tuple[int, ...]) -> np.ndarray:
    """The images (n, C, H, W), uint8; white where an attack did not see the row."""
    if place is None:
        return np.full(shape, 255, np.uint8)
    return store.arrays(place, "samples")["samples"]


def _strip(images: np.ndarray) -> np.ndarray:
    """(n, C, H, W) uint8 to one line (2 H + 4, n (2 W + 4), 3) of doubled pixels, white between."""
    colour = np.broadcast_to(images, (len(images), 3, *images.shape[2:]))
    large = colour.repeat(2, axis=2).repeat(2, axis=3).transpose(2, 0, 3, 1)
    padded = np.pad(large, ((2, 2), (0, 0), (2, 2), (0, 0)), constant_values=255)
    return padded.reshape(padded.shape[0], -1, 3)


def _text(figure: Figure, x: float, y: float, text: str, side: str) -> None:
    """Text at pixel (x, y) from the lower left corner."""
    width, height = figure.get_size_inches() * figure.dpi
    figure.text(x / width, y / height, text, ha=side, va="center", fontsize=8)


def save(
    figure: Figure, path: Path, formats: tuple[str, ...] = ("png", "svg"), dpi: int = 150
) -> list[Path]:
    """Writes the figure in every format, without dates: the same records, the same bytes."""
    written = []
    for kind in formats:
        content = io.BytesIO()
        options: Any = {"metadata": {"Date": None}}
        if kind == "png":
            options = {"metadata": {"Software": None}}
        figure.savefig(content, format=kind, dpi=dpi, **options)
        written.append(path.with_suffix(f".{kind}"))
        write_whole(written[-1], content.getvalue())
    return written
