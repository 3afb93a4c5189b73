"""An audit in sentences."""

from smashbench.bench.auditing.report import Report, more_than_pairs
from smashbench.bench.experiment.scoring import ATTACK_FAILED
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.report.verdict import listed

RANKS = {"rank_1": "pixels", "rank_1_features": "edges"}
"""What each of these compares."""
BESIDE = {
    "client": "a copy of the encoder",
    "query": "answers of the encoder to images of its choice",
    "logits": "outputs of the head",
}
"""What an attacker has beside pairs, the most telling first."""


def verdict(report: Report) -> list[str]:
    """What was found; the first sentence is the verdict."""
    worst, facts = report.worst, report.facts
    fvu, told = worst.estimates["fvu"], []
    metric, share = identified_by(report)
    what = f"{RANKS[metric]} of their reconstruction by {report.worst_of(metric).name}"
    if fvu.mean > ATTACK_FAILED:
        told.append(
            f"No attack came much closer than the mean image: FVU is {fvu.mean:.2f} "
            f"[{fvu.low:.2f}, {fvu.high:.2f}] for {worst.name}, the best of them, with "
            f"{facts.aux:,} pairs."
        )
        found = (
            f"{percent(share)} of {facts.test:,} images are re-identified by the {what} "
            f"(chance {100 / facts.test:.1f} %)"
        )
        if share.low * facts.test > 1:
            told.append(f"The features tell images apart all the same: {found}.")
        else:
            told.append(
                f"{found}. Either the features hide the image, or these attacks are too weak: see "
                "what was not tried."
            )
    else:
        beside = more_than_pairs(worst)
        more = next((f", and {BESIDE[grant]}," for grant in BESIDE if grant in beside), "")
        told.append(
            f"An attacker with {facts.aux:,} images of its own and their features{more} rebuilds "
            f"{percent(explained(fvu))} of the variance of an image from one release, "
            f"and {percent(share)} of {facts.test:,} images are re-identified by the {what} "
            f"(chance {100 / facts.test:.1f} %); the strongest attack in pixels is {worst.name}."
        )
        if beside:
            best = report.on_pairs
            alone = percent(explained(best.estimates["fvu"]))
            told.append(f"With pairs alone, {best.name} rebuilds {alone} of it.")
        if enough := half(report):
            told.append(f"{enough:,} pairs are enough for half of that variance.")
        elif report.knowledge:
            most = report.knowledge[-1].pairs
            told.append(f"{most:,} pairs are not enough for half of that variance.")
    if facts.grouped:
        told.append("Another image of the same group counts as a miss in re-identification.")
    if report.without_result:
        told.append(
            f"Without a result ended {listed(report.without_result)}, so that the encoder may leak "
            "more than this: see what was not tried."
        )
    if report.trained and not report.trained.results.converged:
        told.append(
            f"The attack {report.trained.name} had not converged when it ended, so that the "
            "encoder may leak more than this: give a larger --budget, or more images where it "
            "changes nothing."
        )
    return told


def identified_by(report: Report) -> tuple[str, Estimate]:
    """The metric by which reconstructions tell best which images they are of, and the share of
    those that are nearest to their own."""
    found = {name: report.value(name) for name in RANKS if name in report.metrics}
    return max(found.items(), key=lambda each: each[1].mean)


def half(report: Report) -> int | None:
    """The fewest pairs of the knowledge curve with which at least half of the variance is rebuilt
    that is rebuilt with all, and pairs alone; None where none of its points is enough."""
    full = 1 - report.on_pairs.estimates["fvu"].mean
    enough = [each.pairs for each in report.knowledge if 1 - each.estimates["fvu"].mean >= full / 2]
    return min(enough, default=None)


def explained(fvu: Estimate) -> Estimate:
    """The share of the variance that is rebuilt."""
    return Estimate(1 - fvu.mean, 1 - fvu.high, 1 - fvu.low)


def percent(estimate: Estimate) -> str:
    """``83 % [78, 88]``; near its ends with a digit more.

    >>> percent(Estimate(0.004, 0.001, 0.008)), percent(Estimate(1.0, 1.0, 1.0))
    ('0.4 % [0.1, 0.8]', '100 % [100, 100]')
    """
    digits = 1 if 0 < estimate.mean < 0.1 or 0.99 < estimate.mean < 1 else 0
    mean, low, high = (f"{100 * max(0.0, value):.{digits}f}" for value in estimate)
    return f"{mean} % [{low}, {high}]"
