"""What attacks rebuild, for eyes: of every row, and of the defenses at the same accuracy."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bench.board import Board, Row
from bench.figures import STYLE, save
from bench.judgement import DROPS
from bench.store import Record, Store

SHOWN = 40
"""Most rows whose reconstructions are shown."""
LEFT, GAP, DPI = 240, 14, 100


def reconstructions(board: Board, store: Store, folder: Path) -> list[Path]:
    """Originals and what attacks rebuild from every row, every pixel doubled, of evenly spaced
    rows where there are more than 40; ``reconstructions.png``.

    The attacks are the three that are most often a row's worst case, by MSE or by SSIM. The
    images stand at evenly spaced quantiles of difficulty; the seed is the first.
    """
    worst = Counter(row.worst_attack for row in board.complete)
    worst += Counter(row.worst_ssim_attack for row in board.complete)
    attacks = [name for name, _ in worst.most_common(3)]
    rows = [row for row in board.complete if _shown(row, store)]
    if not rows:
        return []
    rows = rows[:: -(-len(rows) // SHOWN)]
    originals = _images(store, rows[0].originals, "samples")
    lines = [("original", [originals] * len(attacks))]
    for row in rows:
        places = [row.samples.get(name) for name in attacks]
        lines.append((row.label, [_images(store, place, "samples", originals) for place in places]))
    return _picture(attacks, lines, folder / "reconstructions")


def gallery(board: Board, store: Store, folder: Path) -> list[Path]:
    """What the strongest attack rebuilds from each defense at the strength that protects most
    while it costs at most five points of accuracy; ``gallery.png``, or nothing where no
    undefended row says what is lost.

    Beside the fixed images stand two test images of each row's own, by the share of an image's
    variance that stays unexplained: the one at the 5 % quantile, whose owner fares worse than 19
    of 20, and the median.
    """
    if not board.controls or not _shown(board.controls[0], store):
        return []
    control = board.controls[0].accuracy
    assert control  # of every complete row
    rows: dict[str, Row] = {}
    for row in board.complete:
        near = row.accuracy and row.accuracy.mean >= control.mean - max(DROPS)
        if near and _shown(row, store):
            best = rows.get(row.defense)
            if best is None or row.worst("fvu").mean > best.worst("fvu").mean:
                rows[row.defense] = row
    originals = _images(store, board.controls[0].originals, "samples")
    blank = np.full((2, *originals.shape[1:]), 255, np.uint8)
    lines = [("original", [originals, blank, blank])]
    for row in rows.values():
        place = row.samples[row.worst_attack]
        pairs = zip(
            _images(store, place, "users_original"), _images(store, place, "users"), strict=True
        )
        accuracy = f"{row.accuracy.mean:.3f}" if row.accuracy else ""
        label = f"{row.label}  ({accuracy}, {row.worst_attack})"
        blocks = [_images(store, place, "samples"), *(np.stack(pair) for pair in pairs)]
        lines.append((label, blocks))
    titles = ["at fixed quantiles of difficulty", "5 % worst off", "median"]
    return _picture(titles, lines, folder / "gallery")


def _shown(row: Row, store: Store) -> bool:
    """Whether the row's sample images are there: a packed folder may have come without them."""
    places = [row.originals, *row.samples.values()]
    return all(store.has_samples(place) for place in places if place)


def _images(
    store: Store, place: Record | None, name: str, like: np.ndarray | None = None
) -> np.ndarray:
    """Images (n, C, H, W), uint8; white ones ``like`` others where an attack saw no such row."""
    if place is None:
        assert like is not None
        return np.full_like(like, 255)
    return store.arrays(place, "samples")[name]


def _picture(
    titles: Sequence[str], lines: Sequence[tuple[str, Sequence[np.ndarray]]], path: Path
) -> list[Path]:
    """Lines of blocks of images, a label before each line and a title over each block."""
    columns = [
        np.concatenate([_strip(blocks[n]) for _, blocks in lines]) for n in range(len(titles))
    ]
    gap = np.full((len(columns[0]), GAP, 3), 255, np.uint8)
    canvas = np.concatenate([part for each in columns for part in (each, gap)][:-1], axis=1)
    height, width = canvas.shape[:2]
    with mpl.rc_context(STYLE):
        size = (LEFT + width + 8) / DPI, (height + 34) / DPI
        figure = Figure(figsize=size, dpi=DPI)
        figure.figimage(canvas, LEFT, 8)
        for number, (label, _) in enumerate(lines):
            y = 8 + height - (number + 0.5) * height / len(lines)
            _text(figure, LEFT - 8, y, label, "right")
        start = LEFT
        for title, column in zip(titles, columns, strict=True):
            _text(figure, start + column.shape[1] / 2, height + 20, title, "center")
            start += column.shape[1] + GAP
        return save(figure, path, formats=("png",), dpi=DPI)


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
