"""Two results, before and after a change: which rows moved beyond their intervals."""

from bench.board import Board, Row
from bench.stats import Estimate

METRICS = {"accuracy": 3, "mse": 4, "ssim": 3, "fvu": 3}
"""What is compared, and the digits it is printed with."""


def compare(before: Board, after: Board) -> tuple[list[str], bool]:
    """Lines to print, and whether anything moved: an interval that does not overlap that of
    before, a flag that came or went, a row that only one of the two has."""
    ours, theirs = (
        {(row.defense, row.strength): row for row in board.rows} for board in (before, after)
    )
    lines = []
    for place, row in (theirs | ours).items():
        if place not in theirs:
            lines.append(f"{row.label}: only in the first")
        elif place not in ours:
            lines.append(f"{row.label}: only in the second")
        else:
            lines += [f"{row.label}: {change}" for change in _changes(row, theirs[place])]
    same = len(ours.keys() & theirs.keys())
    moved = bool(lines)
    lines.append(f"{same} rows in both, {'see above' if moved else 'none moved'}")
    return lines, moved


def _changes(ours: Row, theirs: Row) -> list[str]:
    changes = []
    for metric, digits in METRICS.items():
        a, b = (_value(row, metric) for row in (ours, theirs))
        if (a is None) != (b is None):
            changes.append(f"{metric} is only in the {'second' if a is None else 'first'}")
        elif a and b and a.apart(b):
            name = metric if metric == "accuracy" else f"worst {metric}"
            changes.append(f"{name} {_text(a, digits)} -> {_text(b, digits)}")
    gone, new = set(ours.flags) - set(theirs.flags), set(theirs.flags) - set(ours.flags)
    changes += [f"flag {name} is gone" for name in sorted(gone)]
    changes += [f"flag {name} is new" for name in sorted(new)]
    return changes


def _value(row: Row, metric: str) -> Estimate | None:
    if metric == "accuracy":
        return row.accuracy
    return row.worst(metric) if row.worst_attack else None


def _text(estimate: Estimate, digits: int) -> str:
    mean, low, high = (f"{value:.{digits}f}" for value in estimate)
    return f"{mean} [{low}, {high}]"
