"""Three pictures as every defense leaves them, for the page."""

import base64
import io
from typing import NamedTuple

import numpy as np
from PIL import Image

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.losses import DROPS, within

PICTURES = 3
"""Of the kept images, which begin with the clearest."""


class Picture(NamedTuple):
    """An image and how far it is from the original."""

    data: str
    """Base64 of a PNG."""
    error: float | None
    """Mean squared error of this reconstruction, to 8 bits; None for the original."""


class Tile(NamedTuple):
    """A row's reconstructions by its strongest attack."""

    row: Row
    points: list[int]
    """The losses of accuracy, in points, at which the row stands for its defense."""
    pictures: list[Picture]


def tiles(board: Board) -> tuple[list[Picture], list[Tile]]:
    """The originals, and of every defense the rows that protect most at each of ``DROPS``; nothing
    where a folder came without its images, or without an undefended row."""
    best = {round(100 * drop): within(board, drop) for drop in DROPS}
    chosen = [
        (row, losses)
        for row in board.rows
        if (losses := [loss for loss, rows in best.items() if rows.get(row.defense) is row])
        and board.has_images(row)
    ]
    if not chosen:
        return [], []
    first = chosen[0][0].record
    assert first
    originals = board.images(first)["samples"][:PICTURES]
    found = []
    for row, losses in chosen:
        guesses = board.images(row.attacks[row.worst_attack()].record)["samples"]
        pairs = zip(originals, guesses[:PICTURES], strict=True)
        pictures = [Picture(_png(guess), _error(x, guess)) for x, guess in pairs]
        found.append(Tile(row, losses, pictures))
    return [Picture(_png(x), None) for x in originals], found


def _error(x: np.ndarray, guess: np.ndarray) -> float:
    difference = x.astype(np.float64) - guess.astype(np.float64)
    return float((difference**2).mean() / 255**2)


def _png(image: np.ndarray) -> str:
    """(C, H, W) uint8."""
    content = io.BytesIO()
    pixels = np.broadcast_to(image, (3, *image.shape[1:])).transpose(1, 2, 0)
    Image.fromarray(np.ascontiguousarray(pixels)).save(content, "png", optimize=True)
    return base64.b64encode(content.getvalue()).decode()
