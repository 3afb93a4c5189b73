"""The scores of a packed run: are they those of the reconstructions that it holds?"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smashbench.bench.experiment.measure import floors_of
from smashbench.bench.experiment.metrics import METRICS, Collective
from smashbench.bench.experiment.metrics.leaked_bits import LEAKED_BITS
from smashbench.bench.experiment.scoring import score
from smashbench.bench.report.verdict import listed
from smashbench.bench.store.record import Arrays, AttackRecord
from smashbench.bench.store.store import RECONSTRUCTIONS, Store
from smashbench.bench.submitting.finding import Finding
from smashbench.bench.submitting.images import images_of
from smashbench.bench.suite.trial import Suite
from smashbench.datasets import Split

ROUNDED = 1 / 255
"""Twice the most by which a pixel of a kept reconstruction is off."""
CLOSE = 0.01
"""By how much the mean of another metric may differ for that reason, whatever it is."""
LIKE_ROUNDING = 3.0
"""A mean may also differ by this many times what one more rounding to 8 bits moves it."""
ALIKE = 2.0
"""Spread of a pixel over reconstructions, in steps of 8 bits, below which they count as one image:
rounding decides then which of them is nearest to what."""
UNGROUPED = np.zeros(0, np.int64)
"""The groups of images that are in none."""


def check_scores(
    suite: Suite, store: Store, data: Path | None, board: Suite | None
) -> Iterator[Finding]:
    """Whether reconstructions have the scores that they are said to have, and predictors without
    an attack theirs. Nothing is scored again where the images are not here (see ``images_of``)."""
    labels = {trial.key: trial.label for trial in suite.trials}
    attacks = [record for trial in suite.attacks if (record := store.attack(trial.key))]
    kept: list[AttackRecord] = []
    lacking: list[str] = []
    for record in attacks:
        if store.can_rescore(record, deep=True):
            kept.append(record)
        else:
            lacking.append(labels[record.key])
    split = images_of(suite.victims[0].victim.dataset, data, board)
    if isinstance(split, Finding):
        yield split
        return
    victims = [made for trial in suite.victims if (made := store.victim(trial.key))]
    if any(record.data_hash != split.hash for record in (*victims, *attacks)):
        yield Finding("PROBLEM", "its images are not those that are here under the same name")
        return
    floors = floors_of(split)["mean_image"]
    off = [r for r in victims if not np.isclose(r.floors["mean_image"]["mse"], floors["mse"], 1e-3)]
    if off:
        yield Finding("PROBLEM", "FVU is relative to another error than that of the mean image")
    if any(_misjudged(store.arrays(record, "scores"), split) for record in victims):
        yield Finding("PROBLEM", "accuracy is of other images than those that have a class")
    told = [(labels[r.key], _regrouped(store.arrays(r, "scores"), split)) for r in victims]
    if other := [label + counts for label, counts in told if counts]:
        yield Finding("PROBLEM", f"test images are in other groups than here: {listed(other)}")
    if not kept:
        yield Finding(
            "note",
            "no reconstruction is in it, so none was scored again: `smashbench "
            "pack DIR --reconstructions` takes them in",
        )
        return
    if lacking:
        yield Finding(
            "PROBLEM",
            f"{len(lacking)} of {len(attacks)} attacks could not be scored again, since their "
            f"reconstructions are missing or altered: {listed(lacking)}; run their rows in "
            "another --out, or pack without --reconstructions, so that none is scored again",
        )
    if wrong := [labels[r.key] for r in kept if not _agrees(r, store, split)]:
        yield Finding(
            "PROBLEM",
            f"{len(wrong)} of {len(kept)} attacks have other scores than their "
            f"reconstructions: {listed(wrong)}",
        )
    else:
        yield Finding("ok", f"{len(kept)} of {len(attacks)} attacks were scored again, and agree")


def _misjudged(scores: Arrays, split: Split) -> bool:
    """Whether accuracy is said to be of other images than those that have a class."""
    judged = scores.get("judged", np.ones(len(split.test.y)))
    return not np.array_equal(judged > 0, (split.test.y >= 0).numpy())


def _regrouped(scores: Arrays, split: Split) -> str:
    """How many groups intervals are over, and how many there are here, where test images are said
    to be in others than those that are here; else empty."""
    groups = split.test.groups
    said, known = scores.get("group", UNGROUPED), UNGROUPED if groups is None else groups.numpy()
    if np.array_equal(said, known):
        return ""
    return f" ({len(np.unique(said))} of them, here {len(np.unique(known))})"


def _agrees(record: AttackRecord, store: Store, split: Split) -> bool:
    """Whether scores are those of the reconstructions: an MSE within what the rounding to 8 bits
    can do to that image, other metrics by their means. Reconstructions that are one image but for
    the rounding do not tell which one is nearest to what."""
    pixels = torch.from_numpy(store.arrays(record, RECONSTRUCTIONS)[RECONSTRUCTIONS])
    if pixels.shape != split.test.x.shape:
        return False
    said = store.arrays(record, "scores")
    if any(len(values) != len(pixels) for values in said.values()):
        return False
    return scored_alike(split.test.x, pixels, said)


def scored_alike(x: Tensor, pixels: Tensor, said: Arrays) -> bool:
    """Whether reconstructions (N, C, H, W) in 8 bits of images x have the scores (N,) that they
    are said to have had before they were rounded."""
    again = score(x, pixels.float() / 255, said.keys())
    off = np.abs(again["mse"] - said["mse"])
    room = np.sqrt(said["mse"]) * ROUNDED + ROUNDED**2
    alike = float(pixels.float().std(0, correction=0).mean()) < ALIKE
    told = [n for n in again if n != "mse" and not (alike and isinstance(METRICS[n], Collective))]
    moved = score(x, _rounded_again(pixels), told)
    means = {n: tuple(float(each[n].mean()) for each in (said, again, moved)) for n in told}
    near = all(
        abs(ours - theirs) <= _room(n, theirs) + LIKE_ROUNDING * abs(rounded - ours)
        for n, (theirs, ours, rounded) in means.items()
    )
    return bool((off <= room).all()) and near


def _rounded_again(pixels: Tensor) -> Tensor:
    """Images in [0, 1] that differ from these of 8 bits as those did before they were rounded: how
    far a metric moves from the one to the other says how far rounding may have moved it. It moves
    a share of a small variance far."""
    dither = torch.rand(pixels.shape, generator=torch.Generator().manual_seed(0)) - 0.5
    return (pixels + dither).clamp(0, 255) / 255


def _room(name: str, mean: float) -> float:
    """By how much rounding may move a mean anyway. The nearest image may be another one; and bits
    are a sum over all axes, among them many that vary little more than the rounding."""
    if METRICS[name] is LEAKED_BITS:
        return 2 + 0.3 * abs(mean)
    return 2 * CLOSE if isinstance(METRICS[name], Collective) else CLOSE
