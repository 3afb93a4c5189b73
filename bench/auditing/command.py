"""The command ``smashbench audit``, as it was typed."""

import os
from argparse import Namespace
from inspect import signature
from math import inf, isfinite
from pathlib import Path

from smashbench.bench.auditing.conduct import audit
from smashbench.bench.auditing.limits import check
from smashbench.bench.auditing.report import Report
from smashbench.bench.auditing.saved import check_folder
from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.printed import aligned
from smashbench.bench.report.text import estimate


def run(choice: Namespace) -> int:
    """Audits, writes the page, and says what was found; returns the exit code: 1 where a limit was
    not kept."""
    conditions = [
        *_conditions(choice.fail_below, "--fail-below", "higher", "--fail-above"),
        *_conditions(choice.fail_above, "--fail-above", "lower", "--fail-below"),
    ]
    _check_out(choice.out)
    known = signature(audit).parameters  # options are called as there
    report = audit(**{k: v for k, v in vars(choice).items() if k in known}, progress=True)
    print(as_text(report))
    written = report.write(choice.out, gallery=choice.gallery)
    print(f"\n{choice.out}: {'  '.join(path.name for path in written)}")
    failures = check(report, conditions)
    for failure in failures:
        print(f"not private enough: {failure}")
    return 1 if failures else 0


def _check_out(folder: Path) -> None:
    """Raises BenchError where nothing could be written, before an hour is spent."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BenchError(f"--out {folder}: {there} is no folder that can be written to")
    check_folder(folder)


def _conditions(texts: list[str], option: str, better: str, other: str) -> list[tuple[str, float]]:
    """``fvu=.5`` as a metric and a limit that some audit would not keep.

    Raises:
        BenchError: it is not that.
    """
    found = []
    example = {"higher": "fvu=.5", "lower": "rank_1=.1"}[better]
    for text in texts:
        name, sign, value = text.partition("=")
        try:
            limit = float(value)
        except ValueError:
            sign = ""
        if not sign or not isfinite(limit):
            raise BenchError(f"{option} {text}: write METRIC=VALUE, e.g. {option} {example}")
        if name not in METRICS:
            raise BenchError(f"{option}: {unknown('metric', name, METRICS)}")
        if METRICS[name].better != better:
            raise BenchError(
                f"{option} {text}: a {METRICS[name].better} {name} is more private: use {other}"
            )
        low, high = METRICS[name].bounds
        if limit <= low if better == "higher" else limit >= high:
            where = f"is at least {low:g}" if high == inf else f"lies between {low:g} and {high:g}"
            share = f"{limit / 100:g}".removeprefix("0")
            meant = f"; for {limit:g} % write {name}={share}" * (low == 0 and 1 < limit < 100)
            raise BenchError(
                f"{option} {text}: {name} {where}, so that every audit keeps to that{meant}"
            )
        found.append((name, limit))
    return found


def as_text(report: Report) -> str:
    """Verdict, notes and attacks, for a terminal."""
    metrics = [metric for metric in report.metrics.values() if metric.brief]
    table = [["attack", *(metric.label for metric in metrics), "converged"]]
    for each in report.ranked:
        cells = [estimate(each.estimates[metric.name], metric.digits) for metric in metrics]
        table.append([each.name, *cells, "yes" if each.results.converged else "no"])
    short = [f"{name.replace('_', ' ')}: {why}" for name, why in report.short.items() if why]
    notes = [f"note: {note}" for note in (*report.notes, *short)]
    left = [f"not tried: {name}: {why}" for name, why in report.left_out.items()]
    return "\n".join([*report.verdict, "", *aligned(table), "", *notes, *left])
