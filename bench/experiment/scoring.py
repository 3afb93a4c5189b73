"""What reconstructions are worth: scored per image, summarised, flagged; now, or again later."""

from collections.abc import Collection, Mapping
from typing import TypedDict

import numpy as np
from torch import Tensor

from smashbench.bench.experiment.metrics import METRICS, Collective
from smashbench.bench.experiment.metrics.score import scores_of, summary_of
from smashbench.bench.experiment.results import AttackResults, RunFlag, Summary, Values

ATTACK_FAILED = 0.95
"""Share of the mean image's error above which an attack has learned nothing."""
Scores = dict[str, np.ndarray]
"""Every metric that is scored (N,), float32."""


def score(x: Tensor, guess: Tensor, wanted: Collection[str] | None = None) -> Scores:
    """Scores of reconstructions ``guess`` of images x (N, C, H, W) in [0, 1]: of all metrics, or
    of those that are wanted."""
    metrics = {name: METRICS[name] for name in METRICS if wanted is None or name in wanted}
    found = scores_of(x, guess, metrics)
    return {name: values.float().cpu().numpy() for name, values in found.items()}


class Summaries(TypedDict):
    """What ``AttackResults`` says of the scores."""

    metrics: dict[str, Summary]
    means: Values


def summarise(scores: Scores, floor: Values) -> Summaries:
    """Summaries over the images of all metrics but those whose mean follows from another's, and
    the means alone of collective ones.

    Args:
        scores: of every image.
        floor: mean metrics of the mean image.
    """
    values = {
        name: metric.values(scores, floor)
        for name, metric in METRICS.items()
        if not metric.linear and metric.judge in scores
    }
    detailed = [name for name in values if not isinstance(METRICS[name], Collective)]
    return {
        "metrics": {name: summary_of(values[name]) for name in detailed},
        "means": {name: float(v.mean()) for name, v in values.items() if name not in detailed},
    }


def flags_of(metrics: Mapping[str, Summary], floor: Values, converged: bool) -> list[RunFlag]:
    """What is to be known of an attack beside its errors."""
    flags: list[RunFlag] = []
    if not converged:
        flags.append("not_converged")
    if metrics["mse"].mean / floor["mse"] > ATTACK_FAILED:
        flags.append("attack_failed")
    return flags


def rescore(
    results: AttackResults,
    scores: Scores,
    stale: Collection[str],
    guess: Tensor,
    x: Tensor,
    floor: Values,
) -> tuple[AttackResults, Scores]:
    """The results and scores of an attack with other metrics than those it was scored with; what
    has not changed keeps its values to the last bit.

    Args:
        results: of the attack.
        scores: of every image.
        stale: the metrics to compute anew.
        guess: the reconstructions (N, C, H, W) in [0, 1]; that they were rounded to 8 bits moves
            the MSE by 1.3e-6 at most, on average.
        x: the images, in [0, 1].
        floor: mean metrics of the mean image.
    """
    again = score(x, guess, stale)
    kept = {name: values for name, values in scores.items() if name in METRICS}
    found = {name: {**kept, **again}[name] for name in METRICS if METRICS[name].score}
    summaries = summarise(found, floor)
    changes = {
        **summaries,
        "rescored": sorted({*results.rescored, *again} & METRICS.keys()),
        "flags": flags_of(summaries["metrics"], floor, results.converged),
    }
    known = {name: getattr(results, name) for name in AttackResults.model_fields}
    return AttackResults.model_validate(known | changes), found
