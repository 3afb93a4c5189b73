"""Two results, before and after a change: which rows moved beyond their intervals."""

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import ACCURACY, METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.flags import FLAGS
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.report.text import estimate
from smashbench.bench.report.verdict import listed


def compare(before: Board, after: Board) -> tuple[list[str], bool]:
    """Lines to print, and whether a row that both have begun moved: an interval that does not
    overlap that of before, or a flag that came or went; where the two have other rows, too, only
    flags that those do not decide."""
    ours, theirs = ({row.key: row for row in board.rows} for board in (before, after))
    metrics = ["accuracy", *(name for name in before.metrics if METRICS[name].brief)]
    both = [row for key, row in ours.items() if key in theirs]
    if not both:
        raise BenchError(
            "no row is in both, so that nothing can be compared: the first has "
            f"{listed([row.label for row in ours.values()])}, the second "
            f"{listed([row.label for row in theirs.values()])}"
        )
    same_rows = ours.keys() == theirs.keys()
    comparable_flags = {flag.name for flag in FLAGS if same_rows or not flag.relative}
    changes = {row.label: _changes(row, theirs[row.key], metrics, comparable_flags) for row in both}
    moved = sum(map(bool, changes.values()))
    lines = [f"{label}: {change}" for label, found in changes.items() for change in found]
    rows = f"{len(both)} {'row' if len(both) == 1 else 'rows'} in both"
    lines.append(f"{rows}: {moved or 'none'} moved")
    for which, some, others in (("first", ours, theirs), ("second", theirs, ours)):
        if alone := [row.label for key, row in some.items() if key not in others]:
            lines.append(f"only in the {which}, not compared: {listed(alone)}")
    return lines, bool(moved)


def _changes(ours: Row, theirs: Row, metrics: list[str], comparable_flags: set[str]) -> list[str]:
    changes = []
    for metric in metrics:
        known = ACCURACY if metric == "accuracy" else METRICS[metric]
        name = metric if metric == "accuracy" else f"worst {known.label}"
        a, b = (_value(row, metric) for row in (ours, theirs))
        if (a is None) != (b is None):
            changes.append(f"{name} is only in the {'second' if a is None else 'first'}")
        elif a and b and a.apart(b):
            texts = estimate(a, known.digits + 1), estimate(b, known.digits + 1)
            changes.append(f"{name} {' -> '.join(texts)}")
    gone, new = set(ours.flags) - set(theirs.flags), set(theirs.flags) - set(ours.flags)
    changes += [f"flag {name} is gone" for name in sorted(gone & comparable_flags)]
    changes += [f"flag {name} is new" for name in sorted(new & comparable_flags)]
    return changes


def _value(row: Row, metric: str) -> Estimate | None:
    if metric == "accuracy":
        return row.accuracy if row.seeds else None
    found = row.worst_attack(metric)
    return row.attacks[found].estimates.get(metric) if found else None
