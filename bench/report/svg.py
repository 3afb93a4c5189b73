"""The curves of the page: plain SVG that follows its colours, with a text for every point."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from smashbench.bench.experiment.metrics import ACCURACY, Metric
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.tradeoff import FLOORS, floors_of, shown_values
from smashbench.bench.report.published import points
from smashbench.bench.report.style import Mark, marks
from smashbench.bench.report.text import estimate

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 62, 14, 12, 44
TICKS = 6
"""About so many intervals between the numbers at an axis."""


@dataclass(frozen=True)
class _Axis:
    """Values to pixels, between round numbers."""

    ticks: tuple[float, ...]
    start: float
    end: float

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float) -> "_Axis":
        known = list(values) or [0.0, 1.0]
        span = (max(known) - min(known)) or abs(max(known)) or 1.0
        power = 10.0 ** floor(log10(span / TICKS))
        step = next(m * power for m in (1, 2, 5, 10) if span <= TICKS * m * power * (1 + 1e-9))
        first, last = floor(min(known) / step), ceil(max(known) / step)
        ticks = [round(step * n, 12) for n in range(first, max(last, first + 1) + 1)]
        return cls(tuple(ticks), start, end)

    def __call__(self, value: float) -> float:
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        share = min(max(share, 0.0), 1.0)  # of intervals that reach beyond
        return round(self.start + share * (self.end - self.start), 1)


def curves(board: Board, metric: Metric) -> str:
    """Accuracy against the worst case of ``metric`` as an SVG element; each point can be pointed
    at or focused and then says its row, with intervals."""
    floors = floors_of(board, metric)
    published = points(board.suite, metric.name)
    accuracies, values = shown_values(board, metric)
    x = _Axis.over(accuracies, LEFT, WIDTH - RIGHT)
    ends = (TOP, HEIGHT - BOTTOM) if metric.better == "lower" else (HEIGHT - BOTTOM, TOP)
    y = _Axis.over(values, *ends)
    name = escape(metric.axis)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-label="Accuracy against worst-case {name}">',
        *_grid(x, y),
        f'<text class="name" x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}">test accuracy</text>',
        f'<text class="name" transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">'
        f"worst-case {name}</text>",
    ]
    for predictor, value in floors.items():
        at, words = y(value), FLOORS.get(predictor, predictor)
        parts.append(
            f'<line class="floor" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
            f'<text class="small" x="{LEFT + 4}" y="{at - 3:.1f}">{words}</text>'
        )
    for row, value in published:
        text = escape(f"published: {row.name}, accuracy {row.accuracy:g}, {value:g}; {row.source}")
        parts.append(
            f'<g class="point hollow published" tabindex="0" role="img" aria-label="{text}" '
            f'transform="translate({x(row.accuracy)} {y(value)})"><title>{text}</title>'
            '<circle r="4"/></g>'
        )
    styles = marks(board)
    for defense, group in board.by_defense().items():
        parts += _curve([row for row in group if row.accuracy], styles[defense], metric, x, y)
    return "\n".join([*parts, "</svg>"])


def legend(board: Board) -> list[tuple[str, str]]:
    """Name and symbol (SVG) of every defense with a complete row."""
    start = '<svg viewBox="-8 -8 16 16" class="symbol" aria-hidden="true">'
    shown = board.by_defense()
    return [
        (name, f'{start}<g class="{mark.css}">{mark.shape.svg}</g></svg>')
        for name, mark in marks(board).items()
        if name in shown
    ]


def _grid(x: _Axis, y: _Axis) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in x.ticks:
        at = x(tick)
        parts.append(
            f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{bottom}"/>'
            f'<text class="tick" x="{at}" y="{bottom + 16}">{tick:g}</text>'
        )
    for tick in y.ticks:
        at = y(tick)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
            f'<text class="tick end" x="{LEFT - 6}" y="{at + 4:.1f}">{tick:g}</text>'
        )
    return parts


def _curve(rows: list[Row], mark: Mark, metric: Metric, x: _Axis, y: _Axis) -> list[str]:
    line, marks = [], []
    for row in rows:
        assert row.accuracy
        a, worst = row.accuracy, row.worst(metric.name)
        at, height = x(a.mean), y(worst.mean)
        line.append(f"{at},{height}")
        text = escape(_text(row, metric), quote=True)
        hollow = " hollow" if row.doubts else ""
        marks.append(
            f'<line class="bar" x1="{x(a.low)}" x2="{x(a.high)}" y1="{height}" y2="{height}"/>'
            f'<line class="bar" x1="{at}" x2="{at}" y1="{y(worst.low)}" y2="{y(worst.high)}"/>'
            f'<g class="point{hollow}" tabindex="0" role="img" aria-label="{text}" '
            f'transform="translate({at} {height})"><title>{text}</title>{mark.shape.svg}</g>'
        )
    drawn = f'<polyline points="{" ".join(line)}" stroke-dasharray="{mark.dash.svg}"/>'
    return [f'<g class="{mark.css}">{drawn}', *marks, "</g>"]


def _text(row: Row, metric: Metric) -> str:
    accuracy = estimate(row.accuracy, ACCURACY.digits)
    worst = estimate(row.worst(metric.name), metric.digits)
    flags = f"; {', '.join(row.doubts)}" if row.doubts else ""
    by = row.worst_attack(metric.name)
    return f"{row.label}: accuracy {accuracy}, worst {metric.label} {worst} by {by}{flags}"
