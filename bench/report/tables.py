"""Tables: data frames of a board, and what is written of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS, Collective
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.comparisons import OVER_NOISE, matched
from smashbench.bench.report.knowledge import knowledge
from smashbench.bench.report.levels import levels
from smashbench.bench.report.printed import aligned, leaderboard_cells
from smashbench.bench.report.statistics import Estimate, columns, ends
from smashbench.bench.report.verdict import summary
from smashbench.bench.store.files import write_whole
from smashbench.bench.suite.columns import is_column

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


class _Line(dict[str, Any]):
    """A line of a table, no two of whose columns have one name."""

    def add(self, columns: Mapping[str, Any]) -> None:
        for name in columns:
            if name in self:
                raise _twice(name)
        self.update(columns)


def _twice(column: str) -> BenchError:
    return BenchError(
        f"two columns of the tables would be called {column!r}: rename the diagnostic, the attack "
        "or the metric that one of them is of, or leave out the folder that it came in"
    )


def leaderboard(board: Board) -> pd.DataFrame:
    """A line per defense and strength, in the suite's order; docs/columns.md says what is in it.

    Raises:
        BenchError: a diagnostic, an attack or a metric has the name of another column.
    """
    compared = board.over_noise
    attacks = list(dict.fromkeys(t.attack.label for t in board.suite.attacks if t.attack))
    shown = [name for name, facts in board.diagnostics.items() if facts.column]
    if taken := list(filter(is_column, shown)):
        raise _twice(taken[0])
    lines = []
    for row in board.rows:
        line = _line(row, board.metrics, attacks, compared.get(row.key, {}))
        line.add({name: row.last(name) for name in shown})
        lines.append(line)
    return pd.DataFrame(lines)


def _line(
    row: Row, metrics: list[str], attacks: list[str], compared: dict[str, Estimate | None]
) -> _Line:
    worst = row.worst_attack()
    line = _Line(
        {
            "defense": row.defense,
            "strength": row.strength,
            "seeds": len(row.seeds),
            "missing_trials": row.missing,
            **columns("accuracy", row.accuracy),
            "worst_attack": worst,
            "worst_knowledge": row.attacks[worst].threat.knowledge if worst else None,
        }
    )
    for name in metrics:
        line.add(columns(f"worst_{name}", row.worst(name) if row.worst_attack(name) else None))
    for name in metrics:
        if METRICS[name].score and name != "mse":
            line.add({f"worst_{name}_attack": row.worst_attack(name)})
    for name, estimate in row.inferred.items():
        line.add(columns(name, estimate))
    for name in OVER_NOISE:
        line.add(columns(name, compared.get(name)))
    line.add(ends("fvu_over_noise_joint", compared.get("fvu_over_noise_joint")))
    line.add({"bound_mse": row.bound, "optimum_mse": row.optimum})
    for attack in attacks:
        found = row.attacks[attack].estimates if attack in row.attacks else {}
        for name in (name for name in metrics if not isinstance(METRICS[name], Collective)):
            line.add(columns(f"{attack}_{name}", found.get(name)))
    names = ("payload", "client_parameters", "client_multiply_adds")
    last = {name: getattr(row.record, name, None) for name in names}
    line.add({"flags": " ".join(row.flags), **last})
    return line


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
    "leaderboard_by_defense": lambda board: board.sweeps,
    "records": lambda board: board.records,
    "costs": costs,
    "matched": matched,
    "knowledge": knowledge,
    "levels": levels,
}
"""What is written as ``NAME.csv``, unless it is empty."""


def write_csv(frame: pd.DataFrame, path: Path) -> Path:
    """Writes a table; numbers have six significant digits, what is missing is an empty field."""
    whole = {name: "Int64" for name in WHOLE if name in frame}
    text = frame.astype(whole).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_whole(path, text.encode())
    return path


def write_tables(frames: Mapping[str, pd.DataFrame], folder: Path, *, again: bool) -> list[Path]:
    """Writes ``NAME.csv`` for each that is not empty; one that is, and is there, is deleted if this
    is done ``again``. Returns where they are."""
    written = []
    for name, frame in frames.items():
        path = folder / f"{name}.csv"
        if not frame.empty:
            written.append(write_csv(frame, path))
        elif again:
            path.unlink(missing_ok=True)
    return written


def as_text(board: Board) -> str:
    """A summary and the leaderboard, for a terminal."""
    head, *lines = leaderboard_cells(board)
    rule = ["-" * max(map(len, column)) for column in zip(head, *lines, strict=True)]
    waiting = len(board.waiting)
    more = [f"\nrows of the suite that have not been begun: {waiting}"] if waiting else []
    if partly := board.partly_measured:
        names = ", ".join(partly)
        more.append(f"\nnot shown, because some rows do not have it: {names} (smashbench rescore)")
    return "\n".join([*summary(board), "", *aligned([head, rule, *lines]), *more])
