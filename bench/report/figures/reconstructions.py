"""Originals and reconstructions of every row."""

from collections import Counter

import numpy as np
from matplotlib.figure import Figure as Canvas

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.base import Figure, readable
from smashbench.bench.report.figures.images import DPI, picture

SHOWN = 40
"""Most rows whose reconstructions are shown."""


def _shown(board: Board) -> list[Row]:
    """Evenly spaced rows of those whose images are there."""
    rows = [row for row in board.complete if board.has_images(row)]
    return rows[:: -(-len(rows) // SHOWN) or 1]


def _draw(board: Board) -> Canvas:
    """What the three attacks that are most often a row's worst case, by MSE or by SSIM, rebuild,
    every pixel doubled. The images are those that are kept, an image of each class and the clearest
    first; the seed is the first."""
    rows = _shown(board)
    worst = Counter(row.worst_attack(metric) for metric in ("mse", "ssim") for row in rows)
    attacks = [name for name, _ in worst.most_common(3)]
    assert rows[0].record
    originals = board.images(rows[0].record)["samples"]
    blank = np.full_like(originals, 255)
    lines = [("original", [originals] * len(attacks))]
    for row in rows:
        blocks = [
            board.images(row.attacks[name].record)["samples"] if name in row.attacks else blank
            for name in attacks
        ]
        lines.append((row.label, blocks))
    return picture(attacks, lines)


RECONSTRUCTIONS = Figure(
    name="reconstructions",
    caption="Originals and reconstructions of every row.",
    applies=lambda board: readable(board) and bool(_shown(board)),
    draw=_draw,
    pixels=True,
    dpi=DPI,
)
