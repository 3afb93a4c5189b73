"""The curves of the page: plain SVG that follows its colours, with a text for every point."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from smashbench.bench.experiment.metrics import ACCURACY, Metric
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.labels import Box, Label, placed
from smashbench.bench.report.published import published_points
from smashbench.bench.report.style import Mark, marks
from smashbench.bench.report.text import estimate, number
from smashbench.bench.report.view import FLOORS, Panel, View, names, panels, view

LETTER, LINE = 7.4, 14.0
"""Width of a letter and height of a line, at the 12 bold pixels of the page's labels."""


class Size(NamedTuple):
    """Of a plot, in pixels, and how many intervals there are about between the numbers at axes."""

    width: int
    height: int
    ticks: int


WIDE, NARROW = Size(860, 480, 9), Size(344, 350, 5)
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 26, 40


@dataclass(frozen=True)
class _Axis:
    """Values to pixels."""

    ticks: tuple[float, ...]
    least: float
    most: float
    start: float
    end: float

    @classmethod
    def over(cls, ends: tuple[float, float], start: float, end: float, ticks: int) -> "_Axis":
        least, most = ends
        margin = 0.04 * ((most - least) or abs(most) or 1.0)
        least, most = least - margin, most + margin
        if 0 <= ends[0] < 0.3 * ends[1]:
            least = 0.0  # an error starts at nothing
        power = 10.0 ** floor(log10((most - least) / ticks))
        step = next(m * power for m in (1, 2, 5, 10) if most - least <= ticks * m * power)
        shown = [round(step * n, 12) for n in range(ceil(least / step), floor(most / step) + 1)]
        return cls(tuple(shown), least, most, start, end)

    def __call__(self, value: float) -> float:
        """The pixel of a value, or the closer end of the axis."""
        return self.beyond(min(max(value, self.least), self.most))

    def beyond(self, value: float) -> float:
        """The pixel of a value, off the axis too."""
        share = (value - self.least) / (self.most - self.least)
        return round(self.start + share * (self.end - self.start), 1)


class _Text(NamedTuple):
    """A text at a mark."""

    label: Label
    text: str
    css: str


class _Plot:
    """One panel in one size."""

    def __init__(self, board: Board, metric: Metric, shown: View, size: Size) -> None:
        self.board, self.metric, self.view, self.size = board, metric, shown, size
        self.right, self.bottom = size.width - RIGHT, size.height - BOTTOM
        self.x = _Axis.over(shown.x, LEFT, self.right, size.ticks)
        ends = (TOP, self.bottom) if metric.better == "lower" else (self.bottom, TOP)
        self.y = _Axis.over(shown.y, *ends, size.ticks)
        self.taken: list[Box] = []

    def drawn(self, panel: Panel, styles: dict[str, Mark]) -> str:
        name = escape(self.metric.axis)
        label = escape(f"{panel.title}: " if panel.title else "", quote=True)
        middle, title = (TOP + self.bottom) / 2, escape(panel.title)
        parts = [
            f'<svg viewBox="0 0 {self.size.width} {self.size.height}" role="group" '
            f'style="max-width: {self.size.width * 1.35:.0f}px" '
            f'aria-label="{label}accuracy against worst-case {name}">',
            *self._grid(),
            f'<text class="name" x="{(LEFT + self.right) / 2}" y="{self.size.height - 6}">'
            "test accuracy</text>",
            f'<text class="name" transform="translate(11 {middle}) rotate(-90)">'
            f"worst-case {escape(self.metric.axis)}</text>",
            f'<text class="title" x="{LEFT}" y="12">{title}</text>' if title else "",
            *self._floors(),
            *self._published(),
        ]
        shown = self.board.by_defense
        for defense in shown:  # in grey, below the others
            if defense not in panel.defenses:
                parts.append(self._line(shown[defense], styles[defense], "ghost"))
        named: list[_Text] = []
        marked = self.view.marked
        for defense in panel.defenses:
            rows = [row for row in shown[defense] if row in marked]
            gone = [row for row in shown[defense] if row in self.view.beyond]
            parts += [
                f'<g class="{styles[defense].css}">',
                self._line(shown[defense], styles[defense]),
            ]
            parts += [self._point(row, styles[defense]) for row in rows]
            parts += [self._arrow(row) for row in gone]
            parts.append("</g>")
            named += self._names(rows, styles[defense])
        return "\n".join([*parts, *self._labels(named), "</svg>"])

    def _grid(self) -> list[str]:
        parts = []
        for tick in self.x.ticks:
            at = self.x(tick)
            parts.append(
                f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{self.bottom}"/>'
                f'<text class="tick" x="{at}" y="{self.bottom + 15}">{_plain(tick)}</text>'
            )
        for tick in self.y.ticks:
            at = self.y(tick)
            parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{self.right}" y1="{at}" y2="{at}"/>'
                f'<text class="tick end" x="{LEFT - 4}" y="{at + 4:.1f}">{_plain(tick)}</text>'
            )
        return parts

    def _floors(self) -> list[str]:
        """Lines; those beyond the axis are a text with an arrow, and those close to that, or to
        each other, share a text."""
        parts = []
        if notes := self.view.notes(self.metric):
            text = "\N{UPWARDS ARROW} " + ", ".join(notes[:1] if self.size is NARROW else notes)
            parts.append(f'<text class="note" x="{LEFT + 4}" y="{TOP + 10}">{text}</text>')
            self.taken.append(Box(LEFT, TOP, LEFT + 4 + LETTER * len(text), TOP + LINE))
        for predictor, value in self.view.floors.items():
            at, words = self.y(value), FLOORS.get(predictor, predictor)
            width = LETTER * len(words)
            box = Box(LEFT, at - LINE, LEFT + 4 + width, at)
            hidden = any(box.top < other.bottom and other.top < box.bottom for other in self.taken)
            parts.append(f'<line class="floor" x1="{LEFT}" x2="{self.right}" y1="{at}" y2="{at}"/>')
            if not hidden:
                parts.append(f'<text class="note" x="{LEFT + 4}" y="{at - 3:.1f}">{words}</text>')
                self.taken.append(box)
        return parts

    def _published(self) -> list[str]:
        parts = []
        for row, value in published_points(self.board.suite, self.metric.name):
            text = f"published: {row.name}, accuracy {row.accuracy:g}, {value:g}; {row.source}"
            at = f"translate({self.x(row.accuracy)} {self.y(value)})"
            parts.append(_focusable(text, at, '<circle r="4"/>', "hollow published"))
        return parts

    def _line(self, rows: list[Row], mark: Mark, kind: str = "curve") -> str:
        """Cut off where it leaves the axes, as an inner SVG element does."""
        width, height = self.right - LEFT, self.bottom - TOP
        at = (
            f"{self.x.beyond(row.accuracy.mean)},{self.y.beyond(row.worst(self.metric.name).mean)}"
            for row in self.view.line(rows)
        )
        dash = mark.dash.svg if kind == "curve" else ""
        return (
            f'<svg x="{LEFT}" y="{TOP}" width="{width}" height="{height}" '
            f'viewBox="{LEFT} {TOP} {width} {height}">'
            f'<polyline class="{kind}" points="{" ".join(at)}" stroke-dasharray="{dash}"/></svg>'
        )

    def _at(self, row: Row) -> tuple[float, float]:
        return self.x(row.accuracy.mean), self.y(row.worst(self.metric.name).mean)

    def _point(self, row: Row, mark: Mark) -> str:
        accuracy, worst = row.accuracy, row.worst(self.metric.name)
        x, y = self._at(row)
        bars = (
            f'<line class="bar" x1="{self.x(accuracy.low)}" x2="{self.x(accuracy.high)}" '
            f'y1="{y}" y2="{y}"/><line class="bar" x1="{x}" x2="{x}" '
            f'y1="{self.y(worst.low)}" y2="{self.y(worst.high)}"/>'
        )
        kind = "hollow" if row in self.view.doubted else ""
        at = f"translate({x} {y})"
        return bars + _focusable(row_in_words(row, self.metric), at, mark.shape.svg, kind)

    def _arrow(self, row: Row) -> str:
        """At the edge beyond which a row lies, in the lower or upper corner."""
        label = f"{row.label}{' collapsed' * row.collapsed}: {number(row.accuracy.mean, 2)}"
        busy = [box for box in self.taken if box.left <= LEFT]
        y = self.bottom - 10.0
        while any(box.top < y + 8 and y - 8 < box.bottom for box in busy):
            y -= LINE
        self.taken.append(Box(LEFT, y - 8, LEFT + 20 + LETTER * len(label), y + 8))
        text = f"{row_in_words(row, self.metric)}; left of the axis"
        mark = '<path d="M-7 0 1-5V-2H8V2H1V5z"/>'
        return (
            _focusable(text, f"translate({LEFT + 9} {y})", mark, "")
            + f'<text class="label start" x="{LEFT + 22}" y="{y + 4:.1f}">{escape(label)}</text>'
        )

    def _names(self, rows: list[Row], mark: Mark) -> list[_Text]:
        return [
            _Text(
                Label(*self._at(row), LETTER * len(text) + 2, LINE, optional=not most_private),
                text,
                mark.css,
            )
            for row, text, most_private in names(rows, self.metric)
        ]

    def _labels(self, texts: list[_Text]) -> list[str]:
        """Names first, then strengths where there is room, each with a line to its mark where it
        stands apart."""
        texts = sorted(texts, key=lambda text: text.label.optional)
        frame = Box(LEFT + 1, TOP, self.right, self.bottom)
        spots = placed([text.label for text in texts], frame, self.taken)
        parts = []
        for (label, text, css), place in zip(texts, spots, strict=True):
            if place is None:
                continue
            box = place.box
            if not place.near:
                x = min(max(label.x, box.left), box.right)
                y = min(max(label.y, box.top), box.bottom)
                parts.append(
                    f'<line class="leader {css}" x1="{label.x}" y1="{label.y}" '
                    f'x2="{x:.1f}" y2="{y:.1f}"/>'
                )
            middle = (box.left + box.right) / 2
            parts.append(
                f'<text class="label {css}" x="{middle:.1f}" y="{box.bottom - 4:.1f}">'
                f"{escape(text)}</text>"
            )
        return parts


def curves(board: Board, metric: Metric) -> list[dict[str, str]]:
    """Accuracy against the worst case of ``metric``: for each panel its title, and SVG elements in
    the sizes that it is shown in (``wide``, empty where there are several panels, and ``narrow``).
    Each point can be pointed at or focused and then says its row, with intervals."""
    shown, styles, each = view(board, metric), marks(board), panels(board)
    sizes = {"wide": WIDE, "narrow": NARROW} if len(each) == 1 else {"narrow": NARROW}
    return [
        {"title": panel.title, "group": _group(board, panel), "wide": ""}
        | {
            name: _Plot(board, metric, shown.within(panel), size).drawn(panel, styles)
            for name, size in sizes.items()
        }
        for panel in each
    ]


def _group(board: Board, panel: Panel) -> str:
    shown = board.by_defense
    groups = [shown[n][0].group for n in panel.defenses if shown[n][0].role == "defense"]
    return groups[0] if panel.title and groups else ""


def row_in_words(row: Row, metric: Metric) -> str:
    """A row in words, for one metric."""
    accuracy = estimate(row.accuracy, ACCURACY.digits)
    worst = estimate(row.worst(metric.name), metric.digits)
    flags = f"; {', '.join(row.doubts)}" if row.doubts else ""
    by = row.worst_attack(metric.name)
    return f"{row.label}: accuracy {accuracy}, worst {metric.label} {worst} by {by}{flags}"


def _focusable(text: str, at: str, mark: str, kind: str) -> str:
    text = escape(text, quote=True)
    return (
        f'<g class="point {kind}" tabindex="0" role="img" aria-label="{text}" '
        f'transform="{at}">{mark}<circle class="aim" r="11"/></g>'
    )


def _plain(value: float) -> str:
    return f"{value:g}".replace("0.", ".", 1) if 0 < abs(value) < 1 else f"{value:g}"


def symbols(board: Board) -> Iterable[tuple[str, str]]:
    """Name and symbol (SVG) of every defense."""
    start = '<svg viewBox="-8 -8 16 16" class="symbol" aria-hidden="true">'
    for name, mark in marks(board).items():
        yield name, f'{start}<g class="{mark.css}">{mark.shape.svg}</g></svg>'
