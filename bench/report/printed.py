"""Tables for papers and for pages of text: Markdown and LaTeX beside the CSV."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from smashbench.bench.experiment.metrics import ACCURACY, METRICS
from smashbench.bench.report.board import Board
from smashbench.bench.report.text import estimate, number
from smashbench.bench.store.files import write_whole

Lines = list[list[str]]
"""Cells, the head first."""


def leaderboard_cells(board: Board) -> Lines:
    """What a person reads of the leaderboard: a line per row."""
    metrics = [METRICS[name] for name in board.metrics if METRICS[name].brief]
    labels = [metric.label for metric in metrics]
    labels[:1] = [f"worst {label}" for label in labels[:1]]
    known = any(row.optimum is not None for row in board.rows)
    best = ["optimum"] if known else []
    head = ["defense", "strength", "accuracy", *best, *labels, "lowest MSE by", "flags"]
    lines = [head]
    for row in board.rows:
        strength = "" if row.strength is None else f"{row.strength:g}"
        if not row.on_one_release:
            why = f"missing trials: {row.missing}" if row.missing else "no attack on one release"
            lines.append([row.defense, strength, why, *[""] * (len(head) - 3)])
            continue
        cells = [estimate(row.accuracy, ACCURACY.digits)]
        if known:
            cells.append(number(row.optimum, METRICS["mse"].digits))
        cells += [
            estimate(row.worst(m.name), m.digits) if row.worst_attack(m.name) else ""
            for m in metrics
        ]
        flags = " ".join(flag for flag in row.flags if flag != "randomized")
        missing = f" (missing trials: {row.missing})" if row.missing else ""
        lines.append([row.defense, strength, *cells, row.worst_attack(), flags + missing])
    return lines


def aligned(lines: Lines) -> list[str]:
    """Lines for a terminal, their columns one below the other.

    >>> aligned([["defense", "FVU"], ["none", ".41"]])
    ['defense  FVU', 'none     .41']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


_MARKUP = re.compile(r"[\\`*<|]|\](?=\()")
"""What Markdown would not show as it is, where names of others may have it."""


def markdown(lines: Lines) -> str:
    """A table in Markdown.

    >>> print(markdown([["defense", "FVU"], ["a|b", ".41"]]), end="")
    | defense | FVU |
    |---|---|
    | a\\|b | .41 |
    """
    rows = [[_MARKUP.sub(r"\\\g<0>", cell) for cell in line] for line in lines]
    text = [f"| {' | '.join(line)} |" for line in rows]
    return "\n".join([text[0], "|---" * len(rows[0]) + "|", *text[1:]]) + "\n"


def latex(lines: Lines) -> str:
    """A table in LaTeX, with the rules of ``booktabs``.

    >>> print(latex([["defense", "FVU"], ["class_mean", ".41"]]), end="")
    \\begin{tabular}{ll}
    \\toprule
    defense & FVU \\\\
    \\midrule
    class\\_mean & .41 \\\\
    \\bottomrule
    \\end{tabular}
    """
    head, *rows = lines
    return pd.DataFrame(rows, columns=head).to_latex(index=False, escape=True)


FORMATS: dict[str, Callable[[Lines], str]] = {"md": markdown, "tex": latex}


def write_printed(lines: Lines, folder: Path, name: str) -> Sequence[Path]:
    """Writes a table in every format; returns where."""
    paths = []
    for kind, make in FORMATS.items():
        paths.append(folder / f"{name}.{kind}")
        write_whole(paths[-1], make(lines).encode())
    return paths
