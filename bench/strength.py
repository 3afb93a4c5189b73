"""How strong are the attacks? Their error against their cost, and against the known optimum."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from bench.board import Board, Row
from bench.figures import STYLE, line_style, save

PANELS = 4
"""Rows that the cost of attacks is drawn for: the first undefended and noisy ones."""


def baselines(board: Board) -> list[Row]:
    """The undefended and the noisy rows that something better than a floor attacked."""
    rows = [row for row in board.complete if row.component in ("none", "noise")]
    return [row for row in rows if any(kind != "floor" for kind in row.kinds.values())]


def solved(board: Board) -> list[Row]:
    """The noisy rows whose best possible reconstruction is known."""
    rows = [row for row in board.complete if row.component == "noise" and row.strength]
    return [row for row in rows if row.optimum]


def costs(board: Board) -> list[dict[str, object]]:
    """Seconds by row: training, every attack (fit and reconstruction), all attacks."""
    attacks = list(dict.fromkeys(name for row in board.rows for name in row.seconds))
    lines: list[dict[str, object]] = []
    for row in board.rows:
        total = sum(row.seconds.values())
        share = total / row.train_seconds if row.train_seconds > 0 else None
        lines.append(
            {
                "defense": row.defense,
                "strength": row.strength,
                "train": _rounded(row.train_seconds),
                **{name: _rounded(row.seconds.get(name)) for name in attacks},
                "attacks": _rounded(total),
                "attacks_over_train": _rounded(share),
            }
        )
    return lines


def _rounded(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.2f}"


def over_seconds(board: Board, folder: Path) -> list[Path]:
    """MSE of every attack over the seconds it took, a panel per undefended or noisy row; the line
    is the best that can be had within a time. ``attack_cost.png`` and ``.svg``."""
    rows = baselines(board)
    names = [name for name in rows[0].attacks if rows[0].kinds[name] != "floor"]
    rows = [row for row in rows if set(names) & set(row.attacks)][:PANELS]
    names.sort(key=lambda name: rows[0].seconds[name])
    number = {name: place for place, name in enumerate(names, start=1)}
    with mpl.rc_context(STYLE):
        figure = Figure(
            figsize=(1.8 + (4.2 if len(rows) < 3 else 3.2) * len(rows), 4.2), layout="constrained"
        )
        for axes, row in zip(np.atleast_1d(figure.subplots(1, len(rows))), rows, strict=True):
            _cost_panel(axes, row, number)
        title = "what more time buys an attack (lower is stronger)"
        figure.suptitle(f"{board.suite.name}: {title}", x=0.01, ha="left", fontsize=10)
        handles = [
            Line2D(
                [], [], linestyle="", markersize=9, label=f"{place} {name}", **_mark(rows[0], name)
            )
            for name, place in number.items()
        ]
        figure.legend(handles=handles, loc="outside right upper", alignment="left")
        return save(figure, folder / "attack_cost")


def _mark(row: Row, name: str) -> dict[str, Any]:
    """Closed forms are orange and trained attacks blue; repeated releases are hollow."""
    style = line_style(1 if row.kinds[name] == "closed_form" else 2)
    face = "white" if name in row.repeats else style["color"]
    return {"color": style["color"], "marker": style["marker"], "markerfacecolor": face}


def _cost_panel(axes: Axes, row: Row, number: dict[str, int]) -> None:
    names = sorted(set(number) & set(row.attacks), key=lambda name: row.seconds[name])
    at = {name: max(row.seconds[name], 0.01) for name in names}
    single = [name for name in names if name not in row.repeats]
    best = np.minimum.accumulate([row.attacks[name]["mse"].mean for name in single])
    axes.step([at[name] for name in single], best, where="post", color="#999999", linewidth=1)
    marks = {name: _mark(row, name) for name in names}
    bars = np.array([row.attacks[name]["mse"][1:] for name in names]).T
    bars[0] = bars[0].clip(min(row.attacks[name]["mse"].mean for name in names) / 4)  # not 0
    colours = [mark["color"] for mark in marks.values()]
    axes.vlines([at[name] for name in names], bars[0], bars[1], colours, linewidth=0.6)
    for name, mark in marks.items():
        mean = row.attacks[name]["mse"].mean
        axes.plot(at[name], mean, **mark, markersize=9)
        colour = mark["color"] if name in row.repeats else "white"
        place: Any = {"ha": "center", "va": "center_baseline", "fontsize": 6, "zorder": 5}
        axes.text(at[name], mean, str(number[name]), color=colour, **place)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("seconds to fit and reconstruct")
    axes.set_ylabel("MSE")
    axes.set_title(row.label, loc="left", fontsize=9)


def against_optimum(board: Board, folder: Path) -> list[Path]:
    """In a world with a known answer: MSE of every attack over the noise, with the optimum and the
    lower bound, and the excess over the optimum; ``optimum.png`` and ``.svg``."""
    rows = solved(board)
    rows.sort(key=lambda row: row.strength or 0)
    noise = [row.strength or 0 for row in rows]
    least = np.array([row.optimum for row in rows])
    everywhere = set.intersection(*(set(row.attacks) - row.repeats for row in rows))
    names = [name for name in rows[0].attacks if name in everywhere]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot(noise, least, color="black", linewidth=2, label="best possible")
        bound = np.array([row.bound for row in rows], float)
        left.plot(noise, bound, color="black", linestyle=":", label="lower bound")
        right.axhline(0, color="black", linewidth=2)
        right.plot(noise, 100 * (bound / least - 1), color="black", linestyle=":")
        for number, name in enumerate(names, start=1):
            error = np.array([row.attacks[name]["mse"].mean for row in rows])
            style = {**line_style(number), "markersize": 4, "linewidth": 1}
            left.plot(noise, error, label=name, **style)
            right.plot(noise, 100 * (error / least - 1), **style)
        left.set_yscale("log")
        left.set_ylabel("MSE")
        right.set_ylabel("MSE over the best possible, %")
        right.set_yscale("symlog", linthresh=5)
        ticks = [-20, -10, -5, -2, 0, 2, 5, 10, 20, 50, 100, 500, 2000, 10000]
        right.yaxis.set_major_locator(FixedLocator(ticks))
        right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        for axes in (left, right):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(noise))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel("standard deviation of the noise")
        figure.legend(loc="outside right upper")
        return save(figure, folder / "optimum")
