"""Tables: the leaderboard as text, and everything that is written as CSV."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.board import LAST, METRICS, Board, Row
from bench.files import write_whole
from bench.judgement import against_noise
from bench.lines import header, joined
from bench.stats import Estimate, columns


def leaderboard(board: Board) -> list[dict[str, Any]]:
    """A line per defense and strength, in the suite's order; docs/columns.md says what is in it."""
    attacks = list(dict.fromkeys(t.config["attack"]["label"] for t in board.suite.attacks))
    compared = against_noise(board)
    return [
        _line(row, attacks, compared.get((row.defense, row.strength), {})) for row in board.rows
    ]


def _line(row: Row, attacks: list[str], compared: Mapping[str, Estimate | None]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "defense": row.defense,
        "strength": row.strength,
        "seeds": len(row.seeds),
        "missing_trials": row.missing,
        **columns("accuracy", row.accuracy),
        "worst_attack": row.worst_attack,
        "worst_knowledge": row.levels.get(row.worst_attack),
    }
    judged = bool(row.worst_attack)
    for metric in METRICS:
        values |= columns(f"worst_{metric}", row.worst(metric) if judged else None)
    values["worst_ssim_attack"] = row.worst_ssim_attack
    for name in ("accuracy_over_noise", "mse_over_noise", "fvu_over_noise"):
        values |= columns(name, compared.get(name))
    values |= {"bound_mse": row.bound, "optimum_mse": row.optimum}
    for attack in attacks:
        for metric in METRICS:
            values |= columns(f"{attack}_{metric}", row.attacks.get(attack, {}).get(metric))
    return values | {
        "flags": " ".join(row.flags),
        "payload": row.payload or None,
        "client_parameters": row.client_parameters or None,
        **{name: float(row.history[name][-1]) if name in row.history else None for name in LAST},
    }


def write_records(board: Board, path: Path) -> Path:
    """Writes a line per trial of the suite, victims first."""
    trials = board.suite.trials
    lines = {key: line for row in board.rows for key, line in row.lines.items()}
    text = "".join([header(), *(lines[trial.key] for trial in trials)])
    write_whole(path, text.encode())
    return path


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Writes lines that have the same columns; numbers have six significant digits, what is
    missing is an empty field."""
    names = list(rows[0])
    text = joined(names) + "".join(joined(row[name] for name in names) for row in rows)
    write_whole(path, text.encode())
    return path


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
