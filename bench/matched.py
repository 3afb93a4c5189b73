"""Defenses compared at equal accuracy: linear interpolation between their strengths."""

import csv
import io
from pathlib import Path

import numpy as np

from bench.leaderboard import LAST, Board, Row
from bench.store import write_whole

DROPS = (0.01, 0.02, 0.05)
"""Losses of accuracy, against the undefended model, at which defenses are compared."""


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


def write_csv(board: Board, path: Path) -> bool:
    """Writes a row per accuracy drop and defense; False, and no file, without an undefended row
    to measure drops from."""
    controls = [row.accuracy.mean for row in board.controls if row.accuracy]
    if not controls:
        return False
    text = io.StringIO()
    columns = ["accuracy_drop", "accuracy", "defense", "worst_mse", "worst_ssim", *LAST]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for drop in DROPS:
        accuracy = controls[0] - drop
        for name in dict.fromkeys(row.defense for row in board.complete):
            rows = [row for row in board.complete if row.defense == name]
            if found := at_accuracy(rows, accuracy):
                values = {key: f"{value:.4g}" for key, value in found.items()}
                start = {"accuracy_drop": drop, "accuracy": f"{accuracy:.4f}", "defense": name}
                writer.writerow(start | values)
    write_whole(path, text.getvalue().encode())
    return True
