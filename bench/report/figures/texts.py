"""Texts beside the marks of an axes that cover neither each other nor a mark."""

from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from smashbench.bench.report.labels import Box, Label, placed

SIZE = 0.85
"""Of the font, as a share of the figure's."""
LETTER, LINE = 0.6, 1.25
"""Width of a letter and height of a line, in units of the font."""


class Text(NamedTuple):
    """A text at a mark, in the axes' coordinates."""

    x: float
    y: float
    text: str
    colour: str
    first: bool
    """Whether it is placed before others."""


def write(axes: Axes, texts: list[Text]) -> None:
    """Writes texts, with a line to the mark where one stands apart; those that are not first only
    where there is room. The layout must be settled,
    and is: it is computed here."""
    canvas = axes.get_figure(root=True)
    assert canvas
    if engine := canvas.get_layout_engine():
        engine.execute(canvas)
        canvas.set_layout_engine(None)
    scale, size = 72 / canvas.dpi, SIZE * mpl.rcParams["font.size"]
    texts = sorted(texts, key=lambda text: not text.first)
    found = axes.transData.transform([(text.x, text.y) for text in texts] or [(0, 0)]) * scale
    bounds = axes.get_window_extent()
    height = bounds.y1 * scale
    frame = Box(bounds.x0 * scale, 0, bounds.x1 * scale, height - bounds.y0 * scale)
    taken = [_box(each.get_window_extent(), scale, height) for each in axes.texts]
    labels = [
        Label(x, height - y, LETTER * size * len(text.text) + 2, LINE * size, not text.first)
        for text, (x, y) in zip(texts, found, strict=False)
    ]
    for text, place in zip(texts, placed(labels, frame, taken, radius=5.5), strict=True):
        if place is None:
            continue
        box = place.box
        middle = ((box.left + box.right) / 2, height - (box.top + box.bottom) / 2)
        x, y = axes.transData.inverted().transform([each / scale for each in middle])
        if not place.near:
            line: Any = {"color": text.colour, "linewidth": 0.5, "alpha": 0.6, "zorder": 4}
            axes.plot([text.x, x], [text.y, y], scalex=False, scaley=False, **line)
        axes.text(
            x,
            y,
            text.text,
            color=text.colour,
            fontsize=size,
            ha="center",
            va="center",
            path_effects=[withStroke(linewidth=2, foreground="white")],
            zorder=5,
        )


def _box(extent: object, scale: float, height: float) -> Box:
    x0, y0, x1, y1 = (getattr(extent, side) * scale for side in ("x0", "y0", "x1", "y1"))
    return Box(x0, height - y1, x1, height - y0)
