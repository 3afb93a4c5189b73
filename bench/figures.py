"""The pictures of a run: privacy-utility curves and reconstructions."""

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.leaderboard import Board, Row
from bench.store import write_whole

# Okabe and Ito's colours differ in lightness too; markers and dashes carry the rest in grey.
COLOURS = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
MARKERS = ("*", "o", "s", "D", "^", "v", "P", "X", "<", ">")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
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
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        names = list(dict.fromkeys(row.defense for row in board.rows))
        for number, name in enumerate(names):
            rows = [row for row in board.complete if row.defense == name]
            _curve(axes, name, number, rows, metric)
        _floor_lines(axes, board, metric)
        axes.set_xlabel("test accuracy")
        word = {"mse": "MSE (higher is more private)", "ssim": "SSIM (lower is more private)"}
        axes.set_ylabel(f"worst-case reconstruction {word[metric]}")
        axes.set_ylim(bottom=0)
        if metric == "ssim":
            axes.set_ylim(1, 0)
        corner = "better: up and to the right"
        axes.set_title(f"{board.suite.name}: {corner}", loc="left", fontsize=10)
        figure.legend(loc="outside right upper", title="defense")
        return _save(figure, folder / f"tradeoff_{metric}")


def _curve(axes: Axes, name: str, number: int, rows: list[Row], metric: str) -> None:
    points = [(row.accuracy, row.worst(metric), row.strength) for row in rows if row.accuracy]
    if not points:
        return
    x = np.array([accuracy for accuracy, _, _ in points]).T
    y = np.array([worst for _, worst, _ in points]).T
    colour = COLOURS[number % len(COLOURS)]
    axes.errorbar(
        x[0],
        y[0],
        xerr=np.abs(x[1:] - x[0]),
        yerr=np.abs(y[1:] - y[0]),
        label=name,
        color=colour,
        marker=MARKERS[number % len(MARKERS)],
        linestyle=DASHES[number % len(DASHES)],
        markersize=9 if len(points) == 1 else 6,
        elinewidth=0.7,
        ecolor=(*mpl.colors.to_rgb(colour), 0.45),
    )
    for accuracy, worst, strength in points:
        if strength is not None:
            place = (accuracy.mean, worst.mean)
            axes.annotate(
                f"{strength:g}",
                place,
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=7,
                color=colour,
            )


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


def reconstructions(board: Board, folder: Path) -> list[Path]:
    """Originals and what the worst-case attack rebuilds from every row; ``reconstructions.png``.

    The images stand at fixed, evenly spaced places of the test set; the seed is the first.
    """
    rows = board.complete
    lines = [("original", rows[0].samples["originals"])]
    for row in rows:
        for attack, images in row.samples.items():
            if attack not in ("originals", "mean", "class_mean"):
                note = f"{row.label}\n{attack} {row.attacks[attack]['mse'].mean:.4f}"
                lines.append((note, images))
    count = len(lines[0][1])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.6 + 0.62 * count, 0.64 * len(lines) + 0.4))
        grid = figure.subplots(len(lines), count, squeeze=False)
        figure.subplots_adjust(0.22, 0.005, 0.995, 0.985, wspace=0.04, hspace=0.04)
        for (name, images), line in zip(lines, grid, strict=True):
            for image, axes in zip(images, line, strict=True):
                axes.imshow(image.transpose(1, 2, 0).squeeze(), cmap="gray", vmin=0, vmax=255)
                axes.set_axis_off()
            line[0].text(
                -0.12, 0.5, name, transform=line[0].transAxes, ha="right", va="center", fontsize=7.5
            )
        return _save(figure, folder / "reconstructions", formats=("png",))


def _save(figure: Figure, path: Path, formats: tuple[str, ...] = ("png", "svg")) -> list[Path]:
    """Writes the figure in every format, without dates: the same records, the same bytes."""
    written = []
    for kind in formats:
        content = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, dpi=150, metadata=metadata)
        written.append(path.with_suffix(f".{kind}"))
        write_whole(written[-1], content.getvalue())
    return written
