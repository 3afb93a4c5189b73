"""Rows compared: with plain noise, with each other over their strengths, and at equal accuracy."""

from collections import defaultdict

import numpy as np
import pandas as pd

from smashbench.bench.report.board import Board, Row, RowKey
from smashbench.bench.report.frontier import hypervolume, privacy_at, ranks
from smashbench.bench.report.statistics import Estimate, columns, interval

DROPS = (0.01, 0.02, 0.05)
"""Losses of accuracy against the undefended model at which defenses are compared."""
OVER_NOISE = ("accuracy_over_noise", "mse_over_noise", "fvu_over_noise")


def _points(rows: list[Row], metric: str) -> np.ndarray:
    """(rows, 1 + DRAWS): the measured values first, then the bootstrap's."""
    measured = [row.accuracy if metric == "accuracy" else row.worst(metric) for row in rows]
    pairs = [(each.mean, row) for each, row in zip(measured, rows, strict=True) if each]
    return np.stack([np.concatenate([[mean], row.draws[metric]]) for mean, row in pairs])


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
    the row, within the accuracies that the baseline was swept over. All above 0 where the defense
    is better; None where there is nothing to compare with.
    """
    plain: defaultdict[tuple[int, ...], list[Row]] = defaultdict(list)
    for row in board.complete:
        if row.role == "baseline":
            plain[tuple(row.seeds)].append(row)
    equal: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for seeds, rows in plain.items():
        for row in rows:
            equal[seeds, row.noise].append(row)
    found: dict[RowKey, dict[str, Estimate | None]] = {}
    for row in board.complete:
        values: dict[str, Estimate | None] = dict.fromkeys(OVER_NOISE)
        seeds = tuple(row.seeds)
        alike = equal[seeds, row.noise] if row.noise else []
        same = next((other for other in alike[:2] if other is not row), None)
        for metric in ("accuracy", "mse") if same else ():
            difference = _points([row], metric) - _points([same], metric)  # type: ignore[list-item]
            values[f"{metric}_over_noise"] = _estimate(difference[0], row)
        if (others := plain[seeds]) and row.role != "baseline":
            frontier = _points(others, "accuracy"), _points(others, "fvu")
            there = privacy_at(*frontier, _points([row], "accuracy")[0], within=True)
            values["fvu_over_noise"] = _estimate(_points([row], "fvu")[0] - there, row)
        found[row.key] = values
    return found


def by_defense(board: Board) -> pd.DataFrame:
    """A line per defense: hypervolume of (accuracy, worst-case FVU), its rank, and the privacy at
    small losses of accuracy. Needs an undefended row to measure losses from."""
    control = board.controls[0] if board.controls else None
    lines: list[dict[str, object]] = []
    volumes: list[Estimate] = []
    for name, rows in board.by_defense().items():
        accuracy, privacy = _points(rows, "accuracy"), _points(rows, "fvu")
        area = hypervolume(accuracy, privacy, rows[0].chance)
        volume = interval(area[0], area[1:], rows[0].freedom, (0.0, 1.0))
        volumes.append(volume)
        line: dict[str, object] = {"defense": name, "strengths": len(rows)}
        line |= columns("hypervolume", volume) | {"rank_best": None, "rank_worst": None}
        for drop in DROPS:
            found = None
            if control:
                target = _points([control], "accuracy")[0] - drop
                found = _estimate(privacy_at(accuracy, privacy, target), rows[0], (0.0, np.inf))
            line |= columns(f"fvu_at_{100 * drop:.0f}_points", found)
        flags = dict.fromkeys(flag for row in rows for flag in row.doubts)
        lines.append(line | {"flags": " ".join(flags)})
    for line, (best, worst) in zip(lines, ranks(volumes), strict=True):
        line |= {"rank_best": best, "rank_worst": worst}
    return pd.DataFrame(lines)


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
