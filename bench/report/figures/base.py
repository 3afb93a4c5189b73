"""What a figure is, and how it is written."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any, Generic, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from smashbench.bench.report.board import Board
from smashbench.bench.report.style import RC
from smashbench.bench.store.files import write_whole

PAPER = 3.4
"""Width of a paper's column, in inches; across both columns it is twice that and a little."""
READABLE = 64
"""Most rows of which a figure can show every one, in every attack or over every epoch."""
Shown = TypeVar("Shown")
"""What figures are of: boards, or the reports of audits."""


@dataclass(frozen=True, kw_only=True)
class Figure(Generic[Shown]):
    """A figure.

    Args:
        name: of its files.
        caption: on the page.
        applies: whether there is something to draw; all boards have a complete row.
        draw: makes it.
        pixels: whether it is made of pixels, and a PNG in every look.
        dpi: dots per inch of the PNG.
        style: settings of Matplotlib beside those of all figures.
        embedded: whether the page shows the PNG; it draws the trade-offs itself.
    """

    name: str
    caption: str
    applies: Callable[[Shown], bool]
    draw: Callable[[Shown], Canvas]
    pixels: bool = False
    dpi: int = 150
    style: Mapping[str, Any] = field(default_factory=dict)
    embedded: bool = True

    def path(self, folder: Path, look: str = "screen") -> Path:
        """Where it is written to."""
        return folder / f"{self.name}.{'png' if self.pixels else FORMATS[look]}"

    def canvas(self, shown: Shown, look: str = "screen") -> Canvas:
        """Draws it, with its layout settled: it is saved in every format the same."""
        with mpl.rc_context(self._settings(look)):
            canvas = self.draw(shown)
            canvas.set_dpi(self.dpi)
            if engine := canvas.get_layout_engine():
                engine.execute(canvas)
                canvas.set_layout_engine(None)
        return canvas

    def _settings(self, look: str) -> Any:
        return {**RC, **self.style, **LOOKS[look]}

    def write(self, shown: Shown, folder: Path, look: str = "screen") -> Path:
        """Draws and writes it, without dates: the same records, the same bytes.

        Args:
            shown: what to draw.
            folder: where to.
            look: one of ``LOOKS``.
        """
        path = self.path(folder, look)
        kind, content = path.suffix[1:], io.BytesIO()
        options: Any = {"metadata": {UNSAID[kind]: None}}
        if kind == "png":
            options["pil_kwargs"] = {"compress_level": 4}
        canvas = self.canvas(shown, look)
        with mpl.rc_context(self._settings(look)):
            canvas.savefig(content, format=kind, dpi=self.dpi, **options)
        write_whole(path, content.getvalue())
        return path


FORMATS = {"screen": "png", "web": "svg", "paper": "pdf"}
"""Look to the format of a figure that is not made of pixels."""
UNSAID = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}
"""What a format would say of when, or with what, a figure was made."""
LOOKS: dict[str, dict[str, Any]] = {
    "screen": {},
    "web": {},
    "paper": {"font.size": 7, "figure.figsize": (PAPER, 2.6), "pdf.fonttype": 42},
}
"""Settings of Matplotlib for where a figure is read."""


def inches(width: float, height: float) -> tuple[float, float]:
    """The size of a figure that is so large on a screen: in a paper as wide as a column, or as
    both where it is wider than 8 inches."""
    if mpl.rcParams["figure.figsize"][0] != PAPER:
        return width, height
    scale = (2 * PAPER + 0.2 if width > 8 else PAPER) / width
    return width * scale, height * scale


def small_multiples(
    panels: int,
    columns: int,
    size: tuple[float, float],
    gaps: tuple[float, float],
    titles: int,
    *,
    share: bool = False,
) -> tuple[Canvas, list[Axes]]:
    """A canvas with a regular grid of panels, those without use switched off. Margins are counted
    in letters, so that no layout has to be searched for: of fifty panels that takes longer than to
    draw them.

    Args:
        panels: how many have something to show.
        columns: of the grid.
        size: inches of a panel on a screen, with what is written around it.
        gaps: between panels, across and down, in font sizes.
        titles: lines above a panel.
        share: whether all have the same axes.
    """
    lines, letter = -(-panels // columns), mpl.rcParams["font.size"] / 72
    width, height = inches(size[0] * columns, size[1] * lines + 0.6)
    across, down = (gap * letter for gap in gaps)
    left, right, bottom, top = (n * letter for n in (6.0, 1.5, 4.5, 3.5 + titles))
    own = (width - left - right - (columns - 1) * across) / columns
    high = (height - bottom - top - (lines - 1) * down) / lines
    canvas = Canvas(figsize=(width, height))
    canvas.subplots_adjust(
        left / width,
        bottom / height,
        1 - right / width,
        1 - top / height,
        across / own,
        down / high,
    )
    grid = list(
        canvas.subplots(lines, columns, squeeze=False, sharex=share, sharey=share).flatten()
    )
    for axes in grid[panels:]:
        axes.set_axis_off()
    return canvas, grid


def write_title(canvas: Canvas, text: str) -> None:
    """Writes the message of a figure above it, in as many lines as it needs."""
    size = 1.1 * mpl.rcParams["font.size"]
    letters = int(canvas.get_figwidth() * 72 / (0.66 * size))
    title = canvas.suptitle(fill(text, letters), x=0.01, ha="left", fontsize=size, weight="bold")
    if not canvas.get_layout_engine():  # else a share of the height, into the panels of a tall one
        title.set_y(1 - 0.8 * size / 72 / canvas.get_figheight())


def readable(board: Board) -> bool:
    """Whether every row can be shown."""
    return len(board.complete) <= READABLE
