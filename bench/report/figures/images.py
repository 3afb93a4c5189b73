"""Lines of images with labels: what the figures of reconstructions share."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Canvas

LEFT, GAP, DPI = 240, 14, 100
"""Pixels for the labels and between blocks, and dots per inch: one dot a pixel."""


def picture(titles: Sequence[str], lines: Sequence[tuple[str, Sequence[np.ndarray]]]) -> Canvas:
    """Lines of blocks of images (n, C, H, W), a label before each line and a title over each
    block."""
    columns = [
        np.concatenate([_strip(blocks[n]) for _, blocks in lines]) for n in range(len(titles))
    ]
    gap = np.full((len(columns[0]), GAP, 3), 255, np.uint8)
    pixels = np.concatenate([part for each in columns for part in (each, gap)][:-1], axis=1)
    height, width = pixels.shape[:2]
    canvas = Canvas(figsize=((LEFT + width + 8) / DPI, (height + 34) / DPI), dpi=DPI)
    canvas.figimage(pixels, LEFT, 8)
    for number, (label, _) in enumerate(lines):
        y = 8 + height - (number + 0.5) * height / len(lines)
        _text(canvas, LEFT - 8, y, label, "right")
    start = LEFT
    for title, column in zip(titles, columns, strict=True):
        _text(canvas, start + column.shape[1] / 2, height + 20, title, "center")
        start += column.shape[1] + GAP
    return canvas


def _strip(images: np.ndarray) -> np.ndarray:
    """(n, C, H, W) uint8 to one line (2 H + 4, n (2 W + 4), 3) of doubled pixels, white between."""
    colour = np.broadcast_to(images, (len(images), 3, *images.shape[2:]))
    large = colour.repeat(2, axis=2).repeat(2, axis=3).transpose(2, 0, 3, 1)
    padded = np.pad(large, ((2, 2), (0, 0), (2, 2), (0, 0)), constant_values=255)
    return padded.reshape(padded.shape[0], -1, 3)


def _text(canvas: Canvas, x: float, y: float, text: str, side: str) -> None:
    """Text at pixel (x, y) from the lower left corner."""
    width, height = canvas.get_size_inches() * canvas.dpi
    canvas.text(x / width, y / height, text, ha=side, va="center", fontsize=8)
