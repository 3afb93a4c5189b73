"""Rows compared: with plain noise, and defenses with each other over their strengths."""

from collections import defaultdict

import numpy as np

from bench.board import Board, Row
from bench.frontier import hypervolume, privacy_at, ranks
from bench.stats import Estimate, columns, interval

Place = tuple[str, float | None]
"""Defense and strength of a row."""
DROPS = (0.01, 0.02, 0.05)
"""Losses of accuracy against the undefended model at which defenses are compared."""


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


def against_noise(board: Board) -> dict[Place, dict[str, Estimate | None]]:
    """For every complete row, paired differences to plain noise.

    ``accuracy_over_noise`` and ``mse_over_noise``: to the row of ``noise`` with the same standard
    deviation of the noise. ``fvu_over_noise``: to the frontier of ``noise`` at the accuracy of
    the row. All above 0 where the defense is better; None where there is nothing to compare with.
    """
    plain: defaultdict[tuple[int, ...], list[Row]] = defaultdict(list)
    for row in board.complete:
        if row.component == "noise":
            plain[tuple(row.seeds)].append(row)
    equal: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for seeds, rows in plain.items():
        for row in rows:
            equal[seeds, row.noise].append(row)
    found: dict[Place, dict[str, Estimate | None]] = {}
    for row in board.complete:
        values: dict[str, Estimate | None] = {}
        seeds = tuple(row.seeds)
        alike = equal[seeds, row.noise] if row.noise else []
        same = next((other for other in alike[:2] if other is not row), None)
        for metric in ("accuracy", "mse"):
            values[f"{metric}_over_noise"] = None
            if same:
                difference = _points([row], metric) - _points([same], metric)
                values[f"{metric}_over_noise"] = _estimate(difference[0], row)
        values["fvu_over_noise"] = None
        if (others := plain[seeds]) and row.component != "noise":
            frontier = _points(others, "accuracy"), _points(others, "fvu")
            there = privacy_at(*frontier, _points([row], "accuracy")[0])
            values["fvu_over_noise"] = _estimate(_points([row], "fvu")[0] - there, row)
        found[row.defense, row.strength] = values
    return found


def by_defense(board: Board) -> list[dict[str, object]]:
    """A line per defense: hypervolume of (accuracy, worst-case FVU), its rank, and the privacy at
    small losses of accuracy. Needs an undefended row to measure losses from."""
    control = board.controls[0] if board.controls else None
    names = list(dict.fromkeys(row.defense for row in board.complete))
    groups = {name: [row for row in board.complete if row.defense == name] for name in names}
    volumes: dict[str, Estimate | None] = {}
    lines: list[dict[str, object]] = []
    for name, rows in groups.items():
        accuracy, privacy = _points(rows, "accuracy"), _points(rows, "fvu")
        volumes[name] = _estimate(
            hypervolume(accuracy, privacy, rows[0].chance), rows[0], (0.0, 1.0)
        )
        line: dict[str, object] = {"defense": name, "strengths": len(rows)}
        line |= columns("hypervolume", volumes[name]) | {"rank_best": None, "rank_worst": None}
        for drop in DROPS:
            found = None
            if control:
                target = _points([control], "accuracy")[0] - drop
                found = _estimate(privacy_at(accuracy, privacy, target), rows[0], (0.0, np.inf))
            line |= columns(f"fvu_at_{100 * drop:.0f}_points", found)
        flags = dict.fromkeys(flag for row in rows for flag in row.doubts)
        lines.append(line | {"flags": " ".join(flags)})
    known = {name: volume for name, volume in volumes.items() if volume}
    for name, (best, worst) in zip(known, ranks(list(known.values())), strict=True):
        line = next(line for line in lines if line["defense"] == name)
        line |= {"rank_best": best, "rank_worst": worst}
    return lines
