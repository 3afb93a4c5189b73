"""Two results, before and after a change: which rows moved beyond their intervals."""

from smashbench.bench.experiment.metrics import ACCURACY, METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.report.text import estimate


def compare(before: Board, after: Board) -> tuple[list[str], bool]:
    """Lines to print, and whether anything moved: an interval that does not overlap that of
    before, a flag that came or went, a row that only one of the two has begun."""
    ours, theirs = ({row.key: row for row in board.rows} for board in (before, after))
    metrics = ["accuracy", *(name for name in before.metrics() if METRICS[name].brief)]
    lines = []
    for key, row in (theirs | ours).items():
        if key not in theirs:
            lines.append(f"{row.label}: only in the first")
        elif key not in ours:
            lines.append(f"{row.label}: only in the second")
        else:
            lines += [f"{row.label}: {change}" for change in _changes(row, theirs[key], metrics)]
    same = len(ours.keys() & theirs.keys())
    moved = bool(lines)
    lines.append(f"{same} rows in both, {'see above' if moved else 'none moved'}")
    return lines, moved


def _changes(ours: Row, theirs: Row, metrics: list[str]) -> list[str]:
    changes = []
    for metric in metrics:
        a, b = (_value(row, metric) for row in (ours, theirs))
        if (a is None) != (b is None):
            changes.append(f"{metric} is only in the {'second' if a is None else 'first'}")
        elif a and b and a.apart(b):
            known = ACCURACY if metric == "accuracy" else METRICS[metric]
            name = metric if metric == "accuracy" else f"worst {known.label}"
            texts = estimate(a, known.digits + 1), estimate(b, known.digits + 1)
            changes.append(f"{name} {' -> '.join(texts)}")
    gone, new = set(ours.flags) - set(theirs.flags), set(theirs.flags) - set(ours.flags)
    changes += [f"flag {name} is gone" for name in sorted(gone)]
    changes += [f"flag {name} is new" for name in sorted(new)]
    return changes


def _value(row: Row, metric: str) -> Estimate | None:
    if metric == "accuracy":
        return row.accuracy
    found = row.worst_attack(metric)
    return row.attacks[found].estimates.get(metric) if found else None
