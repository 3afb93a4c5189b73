"""Whether rows that begin with an undefended victim offer what rows from scratch offer:
``python results/starts/compare.py SCRATCH BEGUN``, two results folders.

For every defense the mean difference of the worst-case FVU, begun less from scratch, over the
accuracies that both were swept over, with its 95 % interval over victims and images, which both
share. The same frontier means an interval within +-.03. Writes starts.csv into the second folder.
"""

import sys
from pathlib import Path

import pandas as pd

from smashbench.bench.report.board import Board
from smashbench.bench.report.frontier import advantage
from smashbench.bench.report.points import estimated, frontier
from smashbench.bench.report.rows import read
from smashbench.bench.report.statistics import columns

SAME = 0.03


def compared(scratch: Board, begun: Board) -> pd.DataFrame:
    """A line per defense that both have."""
    ours, theirs = (
        {name: rows for name in board.by_defense if (rows := board.swept(name))}
        for board in (begun, scratch)
    )
    lines = []
    for name in [name for name in ours if name in theirs and ours[name][0].role != "control"]:
        first = ours[name][0]
        over, low, high = advantage(frontier(ours[name]), frontier(theirs[name]))
        found = estimated(over, first)
        line: dict[str, object] = {"defense": name}
        if found:
            same = found.low > -SAME and found.high < SAME
            line |= {"from_accuracy": low[0], "to_accuracy": high[0]}
            line |= columns("fvu_over_scratch", found)
            line["same"] = same
        for row, which in ((theirs[name], "scratch"), (ours[name], "begun")):
            at = [(each.accuracy.mean, each.worst("fvu").mean) for each in row if each.accuracy]
            line[which] = " ".join(f"{accuracy:.3f}/{fvu:.2f}" for accuracy, fvu in at)
        lines.append(line)
    return pd.DataFrame(lines)


if __name__ == "__main__":
    found = compared(*map(read, sys.argv[1:3]))
    print(found.to_string(index=False, float_format="%.3f"))
    found.to_csv(Path(sys.argv[2]) / "starts.csv", index=False, float_format="%.4f")
