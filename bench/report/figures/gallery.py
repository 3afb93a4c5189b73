"""What the strongest attack rebuilds from each defense at about the same accuracy."""

import numpy as np
from matplotlib.figure import Figure as Canvas

from smashbench.bench.experiment.metrics import ACCURACY
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.base import Figure
from smashbench.bench.report.figures.images import DPI, picture
from smashbench.bench.report.losses import DROPS, within
from smashbench.bench.report.text import number


def _chosen(board: Board) -> dict[str, Row]:
    """Of each defense, the row that protects most while it costs at most five points of accuracy,
    if its images are there."""
    chosen = within(board, max(DROPS))
    return {name: row for name, row in chosen.items() if board.has_images(row)}


def _draw(board: Board) -> Canvas:
    """Beside the fixed images stand two test images of each row's own, by the share of an image's
    variance that stays unexplained: the one at the 5 % quantile, whose owner fares worse than 19
    of 20, and the median."""
    rows = _chosen(board)
    first = next(iter(rows.values())).record
    assert first
    originals = board.images(first)["samples"]
    blank = np.full((2, *originals.shape[1:]), 255, np.uint8)
    lines = [("original", [originals, blank, blank])]
    for row in rows.values():
        images = board.images(row.attacks[row.worst_attack()].record)
        users = zip(images["users_original"], images["users"], strict=True)
        pairs = [np.stack(pair) for pair in users]
        accuracy = number(row.accuracy.mean, ACCURACY.digits)
        label = f"{row.label}  ({accuracy}, {row.worst_attack()})"
        lines.append((label, [images["samples"], *pairs]))
    titles = ["one image of each of several classes, by a fixed rule", "5 % worst off", "median"]
    return picture(titles, lines)


GALLERY = Figure(
    name="gallery",
    caption="What the strongest attack rebuilds from each defense at the strength that protects "
    "most while it costs at most five points of accuracy. In brackets accuracy and attack. On the "
    "right test images of each row's own: the owner at the 5 % quantile of unexplained variance, "
    "and the median; each original beside what was rebuilt.",
    applies=lambda board: bool(_chosen(board)),
    draw=_draw,
    pixels=True,
    dpi=DPI,
)
