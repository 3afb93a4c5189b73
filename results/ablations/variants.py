"""How defenses of one board differ from each other: ``python results/ablations/variants.py DIR
[ONE:OTHER ...] [FILE.csv]``. Without pairs: variants of the CEM family, of the suite ``ablations``.

The mean difference of the worst-case FVU over the accuracies that both were swept over, with its
95 % interval over victims and images, which both share, and the interval that holds for all lines
at once. Writes variants.csv, or FILE.csv, into the folder.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from smashbench.bench.report.board import Board
from smashbench.bench.report.comparisons import DIFFERENCE
from smashbench.bench.report.frontier import advantage
from smashbench.bench.report.points import estimated, frontier
from smashbench.bench.report.rows import read
from smashbench.bench.report.statistics import Compared, columns, ends, jointly

PAIRS = [
    ("attention_detached", "attention_uniform"),
    ("attention_adversarial", "attention_uniform"),
    ("attention_joint", "attention_uniform"),
    ("slots", "attention_uniform"),
    ("em_log", "attention_uniform"),
    ("kmeans_log", "attention_uniform"),
    ("em_log", "kmeans_log"),
    ("em_capacity", "kmeans_capacity"),
    ("kmeans_capacity", "kmeans_log"),
    ("em_capacity", "em_log"),
    ("kmeans_code", "kmeans_capacity"),
]


def compared(board: Board, pairs: Sequence[tuple[str, str]] = PAIRS) -> pd.DataFrame:
    """A line per pair."""
    rows = {name: board.swept(name) for name in board.by_defense}
    lines: dict[tuple[str, str], dict[str, object]] = {}
    together: dict[tuple[str, str], Compared] = {}
    for pair in pairs:
        one, other = pair
        first = rows[one][0]
        over, low, high = advantage(frontier(rows[one]), frontier(rows[other]))
        line: dict[str, object] = {"variant": one, "less": other}
        if found := estimated(over, first):
            line |= {"from_accuracy": low[0], "to_accuracy": high[0]}
            line |= columns("fvu", found)
            together[pair] = over[0], over[1:], first.freedom
        lines[pair] = line
    for pair, value in jointly(together, DIFFERENCE).items():
        lines[pair] |= ends("fvu_joint", value)
    return pd.DataFrame(list(lines.values()))


if __name__ == "__main__":
    folder, words = Path(sys.argv[1]), sys.argv[2:]
    named = [(one, other) for one, colon, other in (w.partition(":") for w in words) if colon]
    name = next((word for word in words if word.endswith(".csv")), "variants.csv")
    found = compared(read(folder), named or PAIRS)
    print(found.to_string(index=False, float_format="%.3f"))
    found.to_csv(folder / name, index=False, float_format="%.4f")
