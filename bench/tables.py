"""The leaderboard as a CSV file and as text."""

import csv
import io
import re
from pathlib import Path
from typing import Any

from bench.leaderboard import LAST, METRICS, Board, Row
from bench.stats import Estimate
from bench.store import write_whole


def table(board: Board) -> list[dict[str, Any]]:
    """The leaderboard as plain values, in the suite's order."""
    attacks = list(dict.fromkeys(t.config["attack"]["label"] for t in board.suite.attacks))
    return [_values(row, attacks) for row in board.rows]


def _values(row: Row, attacks: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "defense": row.defense,
        "strength": row.strength,
        "seeds": len(row.seeds),
        "missing_trials": row.missing,
        **_columns("accuracy", row.accuracy),
        "worst_attack": row.worst_attack,
        "worst_knowledge": row.levels.get(row.worst_attack),
    }
    judged = bool(row.worst_attack)
    for metric in METRICS:
        values |= _columns(f"worst_{metric}", row.worst(metric) if judged else None)
    values["worst_ssim_attack"] = row.worst_ssim_attack
    values |= {"bound_mse": row.bound, "optimum_mse": row.optimum}
    for attack in attacks:
        for metric in METRICS:
            values |= _columns(f"{attack}_{metric}", row.attacks.get(attack, {}).get(metric))
    return values | {
        "flags": " ".join(row.flags),
        "payload": row.payload or None,
        "client_parameters": row.client_parameters or None,
        **{name: float(row.history[name][-1]) if name in row.history else None for name in LAST},
    }


def _columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    mean, low, high = estimate or (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def write_csv(board: Board, path: Path) -> None:
    """Writes ``table`` with six significant digits; what is missing is an empty field."""
    rows = table(board)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _format(value) for name, value in row.items()} for row in rows)
    write_whole(path, text.getvalue().encode())


def _format(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def as_text(board: Board) -> str:
    """The leaderboard for a terminal."""
    head = ["defense", "strength", "accuracy", "bound", "worst MSE", "SSIM", "FVU", "by", "flags"]
    lines = [head]
    for row in board.rows:
        strength = "" if row.strength is None else f"{row.strength:g}"
        if not row.accuracy or not row.worst_attack:
            why = f"{row.missing} trials missing" if row.missing else "no attack on one release"
            lines.append([row.defense, strength, why, *[""] * 6])
            continue
        bound = "" if row.bound is None else f"{row.bound:.1g}"
        cells = [_interval(row.accuracy, 3), bound, _interval(row.worst("mse"), 4)]
        cells += [_interval(row.worst("ssim"), 2), _interval(row.worst("fvu"), 2)]
        flags = " ".join(flag for flag in row.flags if flag != "randomized")
        missing = f" ({row.missing} trials missing)" if row.missing else ""
        lines.append([row.defense, strength, *cells, row.worst_attack, flags + missing])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join([text[0], rule, *text[1:]])


def _interval(estimate: Estimate, digits: int) -> str:
    """``0.912 [0.895, 0.928]``, without leading zeros: ``.912 [.895, .928]``."""
    mean, low, high = (re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}") for value in estimate)
    return f"{mean} [{low}, {high}]"
