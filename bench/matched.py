"""Defenses compared at equal accuracy: linear interpolation between their strengths."""

import numpy as np

from bench.board import LAST, Board, Row
from bench.judgement import DROPS


def at_accuracy(rows: list[Row], accuracy: float) -> dict[str, float] | None:
    """Worst-case MSE and SSIM and the last diagnostics of one defense at ``accuracy``.

    Args:
        rows: one defense at two or more strengths.
        accuracy: between the lowest and the highest accuracy of the rows.

    Returns:
        Interpolated values by name; None where the strengths do not reach this accuracy.
    """
    points = sorted((row.accuracy.mean, index) for index, row in enumerate(rows) if row.accuracy)
    known = [value for value, _ in points]
    if len(points) < 2 or not known[0] <= accuracy <= known[-1]:
        return None
    ordered = [rows[index] for _, index in points]
    columns = {
        f"worst_{metric}": [r.worst(metric).mean for r in ordered] for metric in ("mse", "ssim")
    }
    for name in LAST:
        if all(name in row.history for row in ordered):
            columns[name] = [float(row.history[name][-1]) for row in ordered]
    return {name: float(np.interp(accuracy, known, values)) for name, values in columns.items()}


def lines(board: Board) -> list[dict[str, object]]:
    """A line per accuracy drop and defense; none without an undefended row to measure from."""
    controls = [row.accuracy.mean for row in board.controls if row.accuracy]
    found: list[dict[str, object]] = []
    for drop in DROPS if controls else ():
        accuracy = controls[0] - drop
        for name in dict.fromkeys(row.defense for row in board.complete):
            rows = [row for row in board.complete if row.defense == name]
            if values := at_accuracy(rows, accuracy):
                columns = {
                    metric: values.get(metric) for metric in ("worst_mse", "worst_ssim", *LAST)
                }
                start = {"accuracy_drop": drop, "accuracy": accuracy, "defense": name}
                found.append(start | columns)
    return found
