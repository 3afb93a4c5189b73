"""Colours and marks: the one source, for figures and for the page."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from smashbench.bench.report.board import Board

TEXT, SOFT, GRID = "#333333", "#777777", "#e6e6e6"
ALONE = 8
"""Most defenses that share one panel; of more, every group has its own."""
RC: dict[str, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titley": 1.0,  # else it is searched for, in a fifth of the time that drawing takes
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "smashbench",
    "text.parse_math": False,
    "svg.fonttype": "none",
}
"""Of all figures."""


class Ink(NamedTuple):
    """A colour: in figures, and on the page in light and in dark mode, where it must be read."""

    figure: str
    light: str
    dark: str


class Shape(NamedTuple):
    """A mark: Matplotlib's, and an SVG element around the origin."""

    marker: str
    svg: str


class Dash(NamedTuple):
    """A kind of line: Matplotlib's, and SVG's ``stroke-dasharray``."""

    line: Any
    svg: str


# Okabe and Ito's colours differ in lightness too; marks and dashes carry the rest in grey.
INKS = (
    Ink("#000000", "#000000", "#ffffff"),
    Ink("#E69F00", "#b87700", "#e69f00"),
    Ink("#0072B2", "#0072b2", "#4aa8e0"),
    Ink("#009E73", "#00805c", "#2fc49a"),
    Ink("#D55E00", "#c24e00", "#f0803c"),
    Ink("#CC79A7", "#b0528a", "#dd92bd"),
    Ink("#56B4E9", "#2a84b5", "#8fd0f5"),
)
STAR = "M0-7 1.7-2.3 6.7-2.2 2.7.9 4.1 5.7 0 2.9-4.1 5.7-2.7.9-6.7-2.2-1.7-2.3z"
PLUS = "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2z"
SHAPES = (
    Shape("*", f'<path d="{STAR}"/>'),
    Shape("o", '<circle r="5"/>'),
    Shape("s", '<rect x="-4.5" y="-4.5" width="9" height="9"/>'),
    Shape("D", '<path d="M0-6 6 0 0 6-6 0z"/>'),
    Shape("^", '<path d="M0-6 5.5 4.5H-5.5z"/>'),
    Shape("v", '<path d="M0 6 5.5-4.5H-5.5z"/>'),
    Shape("P", f'<path d="{PLUS}"/>'),
    Shape("X", f'<path d="{PLUS}" transform="rotate(45)"/>'),
    Shape("<", '<path d="M-6 0 4.5-5.5V5.5z"/>'),
    Shape(">", '<path d="M6 0-4.5-5.5V5.5z"/>'),
)
DASHES = (
    Dash("-", ""),
    Dash("--", "7 4"),
    Dash("-.", "8 3 2 3"),
    Dash(":", "2 3"),
    Dash((0, (5, 1)), "9 2"),
)


class Mark(NamedTuple):
    """How the ``number``-th of several things is drawn. The first two, the undefended model and
    plain noise, have inks and shapes that no other has; shapes or dashes differ among those of one
    ink."""

    number: int

    @property
    def _ink(self) -> int:
        if self.number < FIXED:
            return self.number
        return FIXED + (self.number - FIXED) % (len(INKS) - FIXED)

    @property
    def ink(self) -> Ink:
        return INKS[self._ink]

    @property
    def shape(self) -> Shape:
        if self.number < FIXED:
            return SHAPES[self.number]
        return SHAPES[FIXED + (self.number - FIXED) % (len(SHAPES) - FIXED)]

    @property
    def dash(self) -> Dash:
        return DASHES[self.number % len(DASHES)]

    @property
    def css(self) -> str:
        """The class of its colour on the page."""
        return f"c{self._ink}"

    @property
    def line(self) -> dict[str, Any]:
        """Colour, marker and dashes, for Matplotlib."""
        return {
            "color": self.ink.figure,
            "marker": self.shape.marker,
            "linestyle": self.dash.line,
        }


FIXED = 2
"""Inks of the undefended model and of plain noise alone."""


def marks(board: Board) -> dict[str, Mark]:
    """Of every defense, whether its rows are complete or not: figures and page agree, and nothing
    changes its colour when a trial is missing. Defenses are counted within their group, so that
    those which share a panel differ."""
    first = {row.defense: row for row in reversed(board.rows)}
    names = list(dict.fromkeys(row.defense for row in board.rows))
    grouped = len(names) > ALONE
    counts: Counter[str] = Counter()
    found: dict[str, Mark] = {}
    for name in names:
        role = first[name].role
        own = ("control", "baseline").index(role) if role != "defense" else FIXED
        if own < FIXED and Mark(own) not in found.values():
            found[name] = Mark(own)
        else:
            group = first[name].group if grouped else ""
            found[name] = Mark(FIXED + counts[group])
            counts[group] += 1
    return found


def apart(found: Mapping[str, Mark], names: Iterable[str]) -> dict[str, Mark]:
    """Marks of defenses of several groups that share one panel: those of ``marks``, but of two
    that have the same the later one takes the next that is free."""
    own: dict[str, Mark] = {}
    for name in names:
        mark = found[name]
        while mark in own.values():
            mark = Mark(mark.number + 1)
        own[name] = mark
    return own
