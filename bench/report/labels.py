"""Labels beside points that neither cover each other nor a mark."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DISTANCES = (2.0, 7.0, 13.0, 20.0, 28.0, 38.0, 50.0, 64.0, 80.0, 100.0, 125.0, 155.0, 190.0)
"""From a mark to the nearest edge of its label, in pixels: the first that is free is taken."""
DIRECTIONS = 24
ADJACENT = 7.0
"""Distance up to which a label needs no line to its mark."""


class Box(NamedTuple):
    """A rectangle; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float


class Label(NamedTuple):
    """A text at a point.

    Args:
        x, y: of the point.
        width, height: of the text.
        optional: whether it may be left out where nothing is free.
    """

    x: float
    y: float
    width: float
    height: float
    optional: bool = False


class Place(NamedTuple):
    """Where a label goes."""

    box: Box
    near: bool
    """Whether it stands beside its mark; else a line should lead there."""


def placed(
    labels: Sequence[Label], frame: Box, taken: Sequence[Box] = (), radius: float = 6.0
) -> list[Place | None]:
    """A place for every label, in their order: the nearest within ``frame`` that is free, and
    where none is, the one that covers least, or None for a label that is optional.

    Args:
        labels: the most important first.
        frame: what they must stay in.
        taken: what they must not cover, beside the marks and each other.
        radius: of the marks, which are at the labels' own points.

    >>> here = [Label(50, 50, 20, 10), Label(52, 50, 20, 10)]
    >>> one, two = placed(here, Box(0, 0, 100, 100))
    >>> two.box.right <= one.box.left or two.box.top >= one.box.bottom
    True
    """
    marks = [
        (label.x - radius, label.y - radius, label.x + radius, label.y + radius) for label in labels
    ]
    busy = np.array([*taken, *marks], float).reshape(-1, 4)
    found: list[Place | None] = []
    for label in labels:
        spots, distances = _spots(label, frame, radius)
        each = spots[:, None]
        sides = np.minimum(each[..., 2:], busy[:, 2:]) - np.maximum(each[..., :2], busy[:, :2])
        covered = sides.clip(0).prod(2).sum(1)
        free = covered <= 1e-9
        if label.optional and not free.any():
            found.append(None)
            continue
        best = int(free.argmax() if free.any() else covered.argmin())
        box = Box(*(float(side) for side in spots[best]))
        found.append(Place(box, bool(distances[best] <= ADJACENT)))
        busy = np.vstack([busy, spots[best]])
    return found


def _spots(label: Label, frame: Box, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Boxes (n, 4) around a point, moved into the frame, the nearest first, and their distances."""
    angles = np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS - np.pi / 4  # above to the right first
    distances = np.repeat(DISTANCES, DIRECTIONS)
    cos, sin = (np.tile(f(angles), len(DISTANCES)) for f in (np.cos, np.sin))
    x = label.x + cos * (radius + distances + label.width / 2)
    y = label.y + sin * (radius + distances + label.height / 2)
    x = x.clip(frame.left + label.width / 2, max(frame.right - label.width / 2, frame.left))
    y = y.clip(frame.top + label.height / 2, max(frame.bottom - label.height / 2, frame.top))
    half = np.array([label.width, label.height]) / 2
    centre = np.stack([x, y], 1)
    return np.hstack([centre - half, centre + half]), distances
