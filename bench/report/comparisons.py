"""Rows compared: with plain noise, with each other over their strengths, and at equal accuracy."""

from collections import defaultdict

import numpy as np
import pandas as pd

from smashbench.bench.report.board import Board, Row, RowKey
from smashbench.bench.report.frontier import Points, advantage, privacy_at, ranks
from smashbench.bench.report.statistics import Estimate, Freedom, columns, ends, interval, jointly

DROPS = (0.01, 0.02, 0.05)
"""Losses of accuracy against the undefended model at which defenses are compared."""
OVER_NOISE = ("accuracy_over_noise", "mse_over_noise", "fvu_over_noise")
Compared = tuple[float, np.ndarray, Freedom]
"""A measured value, its draws and their degrees of freedom."""
BY_DEFENSE = [
    *("defense", "strengths", "rank_best", "rank_worst"),
    *columns("fvu_over_noise", None),
    *ends("fvu_over_noise_joint", None),
    *("from_accuracy", "to_accuracy"),
    *(name for drop in DROPS for name in columns(f"fvu_at_{100 * drop:.0f}_points", None)),
    "flags",
]
"""Columns of the table of defenses."""


def _points(rows: list[Row], metric: str) -> np.ndarray:
    """(rows, 1 + DRAWS): the measured values first, then the bootstrap's."""
    measured = [row.accuracy if metric == "accuracy" else row.worst(metric) for row in rows]
    pairs = [(each.mean, row) for each, row in zip(measured, rows, strict=True) if each]
    return np.stack([np.concatenate([[mean], row.draws[metric]]) for mean, row in pairs])


def _frontier(rows: list[Row]) -> Points:
    return _points(rows, "accuracy"), _points(rows, "fvu")


def _estimate(
    values: np.ndarray, row: Row, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Estimate | None:
    """Of the measured value and its draws, with the freedom of ``row``; None where it is not
    measured.

    Where some draws lack a value (a frontier that does not reach an accuracy), the interval is
    that of the others.
    """
    if not np.isfinite(values[0]):
        return None
    return interval(values[0], values[1:], row.freedom, bounds)


def against_noise(board: Board) -> dict[RowKey, dict[str, Estimate | None]]:
    """For every complete row, paired differences to plain noise.

    ``accuracy_over_noise`` and ``mse_over_noise``: to the baseline's row with the same standard
    deviation of the noise. ``fvu_over_noise``: to the baseline's frontier at the accuracy of
    the row, within the accuracies that the baseline was swept over; ``fvu_over_noise_joint``: the
    same with intervals that hold for all rows at once. All above 0 where the defense is better;
    None where there is nothing to compare with.
    """
    plain = _baselines(board)
    equal: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for seeds, rows in plain.items():
        for row in rows:
            equal[seeds, row.noise].append(row)
    found: dict[RowKey, dict[str, Estimate | None]] = {}
    compared: dict[RowKey, Compared] = {}
    for row in board.complete:
        values: dict[str, Estimate | None] = dict.fromkeys(OVER_NOISE)
        seeds = tuple(row.seeds)
        alike = equal[seeds, row.noise] if row.noise else []
        same = next((other for other in alike[:2] if other is not row), None)
        for metric in ("accuracy", "mse") if same else ():
            difference = _points([row], metric) - _points([same], metric)  # type: ignore[list-item]
            values[f"{metric}_over_noise"] = _estimate(difference[0], row)
        if (others := plain[seeds]) and row.role != "baseline":
            accuracy = _points([row], "accuracy")[0]
            there = privacy_at(*_frontier(others), accuracy, within=True)
            over = _points([row], "fvu")[0] - there
            values["fvu_over_noise"] = _estimate(over, row)
            if values["fvu_over_noise"] and row.role != "control":
                compared[row.key] = over[0], over[1:], row.freedom
        found[row.key] = values
    for key, estimate in zip(compared, jointly(list(compared.values())), strict=True):
        found[key]["fvu_over_noise_joint"] = estimate
    return found


def _baselines(board: Board) -> defaultdict[tuple[int, ...], list[Row]]:
    """The complete rows of plain noise, by their seeds."""
    plain: defaultdict[tuple[int, ...], list[Row]] = defaultdict(list)
    for row in board.complete:
        if row.role == "baseline":
            plain[tuple(row.seeds)].append(row)
    return plain


def by_defense(board: Board) -> pd.DataFrame:
    """A line per defense: its advantage over noise on the accuracies that both were swept over,
    its rank by that, and the privacy at small losses of accuracy. Needs an undefended row to
    measure losses from, and plain noise for the others."""
    control = board.controls[0] if board.controls else None
    plain = _baselines(board)
    lines: dict[str, dict[str, object]] = {}
    advantages: dict[str, Estimate] = {}
    compared: dict[str, Compared] = {}
    for name, rows in board.by_defense().items():
        line = lines[name] = {"defense": name, "strengths": len(rows)}
        first, others = rows[0], plain[tuple(rows[0].seeds)]
        if others and first.role != "control":
            own = [row for row in rows if row.seeds == first.seeds]
            over, low, high = advantage(_frontier(own), _frontier(others))
            if found := _estimate(over, first):
                advantages[name] = found
                line |= {"from_accuracy": low[0], "to_accuracy": high[0]}
                if first.role != "baseline":
                    compared[name] = over[0], over[1:], first.freedom
        for drop in DROPS:
            found = None
            if control:
                target = _points([control], "accuracy")[0] - drop
                found = _estimate(privacy_at(*_frontier(rows), target), first, (0.0, np.inf))
            line |= columns(f"fvu_at_{100 * drop:.0f}_points", found)
        line["flags"] = " ".join(dict.fromkeys(flag for row in rows for flag in row.doubts))
    for name, value in advantages.items():
        lines[name] |= columns("fvu_over_noise", value)
    joint = dict(zip(compared, jointly(list(compared.values())), strict=True))
    for name, value in joint.items():
        lines[name] |= ends("fvu_over_noise_joint", value)
    placed = ranks([joint.get(name, value) for name, value in advantages.items()])
    for name, (best, worst) in zip(advantages, placed, strict=True):
        lines[name] |= {"rank_best": best, "rank_worst": worst}
    return pd.DataFrame(list(lines.values()), columns=BY_DEFENSE if lines else [])


def matched(board: Board) -> pd.DataFrame:
    """Defenses at equal accuracy: a line per accuracy drop and defense; none without an undefended
    row to measure from."""
    controls = [row.accuracy.mean for row in board.controls if row.accuracy]
    shown = [name for name, facts in board.diagnostics().items() if facts.column]
    lines: list[dict[str, object]] = []
    for drop in DROPS if controls else ():
        accuracy = controls[0] - drop
        for name, rows in board.by_defense().items():
            if values := at_accuracy(rows, accuracy, shown):
                line = {"accuracy_drop": drop, "accuracy": accuracy, "defense": name}
                lines.append(line | values)
    names = ["accuracy_drop", "accuracy", "defense", "worst_mse", "worst_ssim", *shown]
    return pd.DataFrame(lines, columns=names)


def at_accuracy(
    rows: list[Row], accuracy: float, diagnostics: list[str]
) -> dict[str, float] | None:
    """Worst-case MSE and SSIM and the last diagnostics of one defense at ``accuracy``: linear
    between its strengths.

    Args:
        rows: one defense at two or more strengths.
        accuracy: between the lowest and the highest accuracy of the rows.
        diagnostics: which ones; those that a row lacks are left out.

    Returns:
        Interpolated values by name; None where the strengths do not reach this accuracy.
    """
    points = sorted((row.accuracy.mean, index) for index, row in enumerate(rows) if row.accuracy)
    known = [value for value, _ in points]
    if len(points) < 2 or not known[0] <= accuracy <= known[-1]:
        return None
    ordered = [rows[index] for _, index in points]
    values = {
        f"worst_{metric}": [row.worst(metric).mean for row in ordered] for metric in ("mse", "ssim")
    }
    for name in diagnostics:
        if all(name in row.history for row in ordered):
            values[name] = [float(row.history[name][-1]) for row in ordered]
    return {name: float(np.interp(accuracy, known, each)) for name, each in values.items()}
