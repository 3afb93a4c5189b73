"""What a figure is, and how it is written."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from smashbench.bench.report.board import Board
from smashbench.bench.report.style import RC
from smashbench.bench.store.files import write_whole

READABLE = 64
"""Most rows of which a figure can show every one, in every attack or over every epoch."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a board.

    Args:
        name: of its files.
        caption: on the page.
        applies: whether the board has something for it; all boards have a complete row.
        draw: makes it.
        formats: ``png`` and ``svg``, or ``png`` alone where it is made of pixels.
        dpi: dots per inch of the PNG.
        style: settings of Matplotlib beside those of all figures.
        embedded: whether the page shows the PNG; it draws the trade-offs itself.
    """

    name: str
    caption: str
    applies: Callable[[Board], bool]
    draw: Callable[[Board], Canvas]
    formats: tuple[str, ...] = ("png", "svg")
    dpi: int = 150
    style: Mapping[str, Any] = field(default_factory=dict)
    embedded: bool = True

    def paths(self, folder: Path) -> list[Path]:
        """Where it is written to."""
        return [folder / f"{self.name}.{kind}" for kind in self.formats]

    def write(self, board: Board, folder: Path) -> list[Path]:
        """Draws and writes it in every format, without dates: the same records, the same bytes."""
        style: Any = {**RC, **self.style}
        with mpl.rc_context(style):
            canvas = self.draw(board)
            canvas.set_dpi(self.dpi)
            if engine := canvas.get_layout_engine():
                engine.execute(canvas)  # once for all formats: it takes a while
                canvas.set_layout_engine(None)
            for path in self.paths(folder):
                content = io.BytesIO()
                kind = path.suffix[1:]
                options: Any = {"metadata": {"Date": None}}
                if kind == "png":
                    options = {"metadata": {"Software": None}, "pil_kwargs": {"compress_level": 4}}
                canvas.savefig(content, format=kind, dpi=self.dpi, **options)
                write_whole(path, content.getvalue())
        return self.paths(folder)


def readable(board: Board) -> bool:
    """Whether every row can be shown."""
    return len(board.complete) <= READABLE
