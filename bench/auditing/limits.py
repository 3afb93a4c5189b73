"""Limits that an audit has to keep."""

from collections.abc import Iterable, Iterator

from smashbench.bench.auditing.plan import UNTIMELY
from smashbench.bench.auditing.report import Report
from smashbench.bench.auditing.world import FEW_GROUPS, AuditedAttack, count_of
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.quantiles import share_ends

FEW_IMAGES = 300
"""Scored images below which the interval of the least protected 5 % is too narrow."""
FEW_PAIRS = 500
"""The attacker's pairs below which more would tell it more, whatever has converged on these."""
FLOOR = "mean"
"""The attack that looks at no release: its FVU is 1 by definition."""


def check(report: Report, conditions: Iterable[tuple[str, float]]) -> list[str]:
    """What is not shown to be private enough, in sentences.

    Args:
        report: of an audit.
        conditions: metrics and limits. A metric whose higher values are more private has to be at
            least its limit, with the whole interval of every attack that sees one release; the
            others at most theirs. Without a trained attack, where the strongest of them has not
            converged, with an attack that ended without a result, with few pairs or few scored
            groups, nothing is shown; nor of ranks where images were said to come in groups.

    Raises:
        BenchError: the audit has no such metric.
    """
    conditions = list(conditions)
    if not conditions:
        return []
    for metric, _ in conditions:
        report.value(metric)  # or it says that there is none
    count = report.facts.test if report.groups is None else count_of(report.groups)
    return [*_doubts(report, conditions, count), *_missed(report, conditions, count)]


def _doubts(report: Report, conditions: list[tuple[str, float]], count: float) -> Iterator[str]:
    """Why no limit is shown to be kept, with so many scored images, or groups of one size."""
    if report.trained is None:
        told = report.left_out.get("decoder", UNTIMELY)
        why = "give a larger --budget" if told == UNTIMELY else told
        yield f"no decoder was trained, so no limit is shown to be kept: {why}"
    elif not report.trained.results.converged:
        yield (
            f"{report.trained.name}, the strongest attack that is trained, has not converged: a "
            "longer one would get further, and no limit is shown to be kept; give a larger "
            "--budget, or more images where that changes nothing"
        )
    if report.without_result:
        yield (
            "these attacks ended without a result, so that no limit is shown to be kept: "
            f"{', '.join(report.without_result)}; the page says why"
        )
    if report.facts.aux < FEW_PAIRS:
        yield (
            f"the attacker had {report.facts.aux:,} pairs, and would get further with more, so "
            "that no limit is shown to be kept: give more images, or a larger --memory, so that it "
            f"has {FEW_PAIRS}"
        )
    if report.facts.grouped and (ranks := [m for m, _ in conditions if _is_share(m)]):
        yield (
            f"another image of the right group counts as a miss in {', '.join(ranks)}, so that no "
            "such limit is shown to be kept: give one image of each group, or other limits"
        )
    if report.groups is not None and count < FEW_GROUPS:
        yield (
            f"the scored images are of {report.facts.groups} groups, which say as much as "
            f"{count:.1f} of one size, so that intervals are rough and no limit is shown to be "
            f"kept: give images of more groups, so that {FEW_GROUPS} are scored"
        )
    if any(metric == "fvu_worst_5" for metric, _ in conditions) and count < FEW_IMAGES:
        yield (
            f"fvu_worst_5 is of one image in twenty, and has no interval to speak of with "
            f"{count:.0f} images (or groups): give more, so that {FEW_IMAGES} are scored"
        )


def _missed(report: Report, conditions: list[tuple[str, float]], count: float) -> Iterator[str]:
    """The limits that are not kept. Of all attacks on one release, the strongest by its mean may
    not be the one with the widest interval, nor strongest by every metric."""
    seen = [each for each in report.on_one_release if each.name != FLOOR] or report.on_one_release
    for metric, limit in conditions:
        higher = METRICS[metric].better == "higher"
        ends = [(_end(each, metric, count), each) for each in seen]
        end, attack = (min if higher else max)(ends, key=lambda each: each[0])
        if end >= limit if higher else end <= limit:
            continue
        own, side = attack.estimates[metric], "below" if higher else "above"
        yield (
            f"{metric} = {own.mean:.3g} [{own.low:.3g}, {own.high:.3g}] for {attack.name}: the "
            f"interval reaches {end:.3g}, {side} {limit:g}"
        )


def _end(attack: AuditedAttack, metric: str, count: float) -> float:
    """The less private end of an interval. Of a share it is at least the exact one: with one image
    of hundreds that is found, the variance says too little."""
    own = attack.estimates[metric]
    if METRICS[metric].better == "higher":
        return own.low
    return max(own.high, share_ends(own.mean, count)[1]) if _is_share(metric) else own.high


def _is_share(metric: str) -> bool:
    """Whether it is the share of the images that are found again."""
    return METRICS[metric].better == "lower" and METRICS[metric].bounds == (0.0, 1.0)
