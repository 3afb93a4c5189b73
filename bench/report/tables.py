"""Tables: data frames of a board, and what is written of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from smashbench.bench.experiment.metrics import ACCURACY, METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.comparisons import OVER_NOISE, by_defense, matched
from smashbench.bench.report.statistics import Estimate, columns, ends
from smashbench.bench.report.text import estimate
from smashbench.bench.report.verdict import verdict
from smashbench.bench.store.files import write_whole

WHOLE = (
    *("seed", "attack_seed", "seeds", "missing_trials", "strengths", "rank_best", "rank_worst"),
    *(
        "payload",
        "client_parameters",
        "client_multiply_adds",
        "aux_images",
        "aux_overlap",
        "releases_per_image",
    ),
)
"""Columns of whole numbers, some of which may be missing."""


def leaderboard(board: Board) -> pd.DataFrame:
    """A line per defense and strength, in the suite's order; docs/columns.md says what is in it."""
    compared = board.over_noise
    metrics, attacks = board.metrics(), board.suite.attack_labels
    shown = [name for name, facts in board.diagnostics().items() if facts.column]
    return pd.DataFrame(
        [
            _line(row, metrics, attacks, compared.get(row.key, {}))
            | {name: row.last(name) for name in shown}
            for row in board.rows
        ]
    )


def _line(
    row: Row, metrics: list[str], attacks: list[str], compared: dict[str, Estimate | None]
) -> dict[str, Any]:
    worst = row.worst_attack()
    line: dict[str, Any] = {
        "defense": row.defense,
        "strength": row.strength,
        "seeds": len(row.seeds),
        "missing_trials": row.missing,
        **columns("accuracy", row.accuracy),
        "worst_attack": worst,
        "worst_knowledge": row.attacks[worst].threat.knowledge if worst else None,
    }
    for name in metrics:
        line |= columns(f"worst_{name}", row.worst(name) if row.worst_attack(name) else None)
    for name in metrics:
        if METRICS[name].score and name != "mse":
            line[f"worst_{name}_attack"] = row.worst_attack(name)
    for name in OVER_NOISE:
        line |= columns(name, compared.get(name))
    line |= ends("fvu_over_noise_joint", compared.get("fvu_over_noise_joint"))
    line |= {"bound_mse": row.bound, "optimum_mse": row.optimum}
    for attack in attacks:
        found = row.attacks[attack].estimates if attack in row.attacks else {}
        for name in metrics:
            line |= columns(f"{attack}_{name}", found.get(name))
    line["flags"] = " ".join(row.flags)
    names = ("payload", "client_parameters", "client_multiply_adds")
    return line | {name: getattr(row, name) for name in names}


def costs(board: Board) -> pd.DataFrame:
    """Seconds by row: training, every attack (fit and reconstruction), all attacks."""
    attacks = dict.fromkeys(name for row in board.rows for name in row.attacks)
    lines = []
    for row in board.rows:
        seconds = {name: attack.seconds for name, attack in row.attacks.items()}
        total = sum(seconds.values())
        line = {"defense": row.defense, "strength": row.strength, "train": row.train_seconds}
        line |= {name: seconds.get(name) for name in attacks} | {"attacks": total}
        share = total / row.train_seconds if row.train_seconds > 0 else None
        lines.append(line | {"attacks_over_train": share})
    frame = pd.DataFrame(lines)
    timed = frame.columns.drop(["defense", "strength"])
    frame[timed] = frame[timed].astype(float).round(2)
    return frame


TABLES: dict[str, Callable[[Board], pd.DataFrame]] = {
    "leaderboard": leaderboard,
    "leaderboard_by_defense": by_defense,
    "records": lambda board: board.records,
    "costs": costs,
    "matched": matched,
}
"""What is written as ``NAME.csv``, unless it is empty."""


def write_csv(frame: pd.DataFrame, path: Path) -> Path:
    """Writes a table; numbers have six significant digits, what is missing is an empty field."""
    whole = {name: "Int64" for name in WHOLE if name in frame}
    text = frame.astype(whole).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_whole(path, text.encode())
    return path


def as_text(board: Board) -> str:
    """The leaderboard for a terminal."""
    metrics = [METRICS[name] for name in board.metrics() if METRICS[name].brief]
    labels = [metric.label for metric in metrics]
    labels[:1] = [f"worst {label}" for label in labels[:1]]
    known = any(row.optimum is not None for row in board.rows)
    best = ["optimum"] if known else []
    head = ["defense", "strength", "accuracy", *best, *labels, "by", "flags"]
    lines = [head]
    for row in board.rows:
        strength = "" if row.strength is None else f"{row.strength:g}"
        if not row.accuracy or not row.judged:
            why = f"{row.missing} trials missing" if row.missing else "no attack on one release"
            lines.append([row.defense, strength, why, *[""] * (len(head) - 3)])
            continue
        cells = [estimate(row.accuracy, ACCURACY.digits)]
        if known:
            cells.append("" if row.optimum is None else f"{row.optimum:.4f}".lstrip("0"))
        cells += [estimate(row.worst(metric.name), metric.digits) for metric in metrics]
        flags = " ".join(flag for flag in row.flags if flag != "randomized")
        missing = f" ({row.missing} trials missing)" if row.missing else ""
        lines.append([row.defense, strength, *cells, row.worst_attack(), flags + missing])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    waiting = len(board.waiting)
    more = [f"\n{waiting} more rows of the suite have not been begun"] if waiting else []
    if partly := board.left_out():
        names = ", ".join(partly)
        more.append(f"\nnot shown, because some rows do not have it: {names} (smashbench rescore)")
    more += [f"\n{sentence}" for sentence in verdict(board)]
    return "\n".join([text[0], rule, *text[1:], *more])
