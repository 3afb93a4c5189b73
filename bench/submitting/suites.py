"""A packed run: is it whole, of this version, and like the board that it is to stand on?"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.measure import floors_of
from smashbench.bench.experiment.metrics import METRICS, Collective
from smashbench.bench.experiment.metrics.leaked_bits import LEAKED_BITS
from smashbench.bench.experiment.scoring import Summaries, score, summarise
from smashbench.bench.report.flags import FLAGS
from smashbench.bench.report.rows import board_of
from smashbench.bench.report.verdict import ATTACK_SEEDS, SEEDS, listed
from smashbench.bench.run.perform import load_data
from smashbench.bench.run.survey import State, survey
from smashbench.bench.store.merge import check_comparable
from smashbench.bench.store.record import Arrays, AttackRecord, VictimRecord
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import RECONSTRUCTIONS, Store
from smashbench.bench.submitting.finding import Finding
from smashbench.bench.suite.config import Component, VictimConfig
from smashbench.bench.suite.trial import Suite
from smashbench.datasets import DatasetError, Split
from smashbench.defenses import DEFENSES

WRONG = ("bound_violated",)
"""Flags with which no row can stand; others are for a reader to judge."""
TELL: dict[State, str] = {
    "missing": "have not been run: `smashbench rerun DIR`",
    "failed": "failed: `smashbench status DIR` says why",
    "outdated": "were made by other code than this version's: `smashbench rerun DIR` makes them "
    "anew",
    "unscored": "were measured by other metrics: `smashbench rescore DIR`",
    "damaged": "are damaged: `smashbench rerun DIR` makes them anew",
    "unverified": "need a plug-in that is not loaded: read it (plugins/ in the pack), and give "
    "--plugin FILE",
}
"""What keeps a submission from a board, and what its author does."""
ROUNDED = 1 / 255
"""Twice the most by which a pixel of a kept reconstruction is off."""
CLOSE = 0.01
"""By how much the mean of another metric may differ for that reason, whatever it is."""
LIKE_ROUNDING = 3.0
"""A mean may also differ by this many times what one more rounding to 8 bits moves it."""
ALIKE = 2.0
"""Spread of a pixel over reconstructions, in steps of 8 bits, below which they count as one image:
rounding decides then which of them is nearest to what."""


def check_suite(folder: Path, board: Path | None, data: Path | None) -> Iterator[Finding]:
    """Checks the folder of a run.

    Raises:
        BenchError: it is none, one of another protocol, or damaged; or ``board`` is.
    """
    suite, store = read_suite(folder), Store(folder)
    yield from _standings(suite, store)
    yield from _summaries(suite, store)
    yield from _scores(suite, store, data)
    yield from _rows(suite, store)
    if board:
        yield from _beside(suite, folder, board)


def _standings(suite: Suite, store: Store) -> Iterator[Finding]:
    """Whether every trial is finished, by the present code."""
    labels: defaultdict[State, list[str]] = defaultdict(list)
    standings = survey(suite, store, deep=True)
    for trial in suite.trials:
        labels[standings[trial.key].state].append(trial.label)
    wrong = [state for state in TELL if labels[state]]
    for state in wrong:
        some = labels[state]
        yield Finding(
            "PROBLEM", f"{len(some)} of {len(suite.trials)} trials {TELL[state]}: {listed(some)}"
        )
    if not wrong:
        yield Finding("ok", f"all {len(suite.trials)} trials are finished, by this version's code")
    if labels["left_out"]:
        left = labels["left_out"]
        yield Finding("note", f"{len(left)} attacks did not fit in memory: {listed(left)}")


def _summaries(suite: Suite, store: Store) -> Iterator[Finding]:
    """Whether what records say follows from the scores beside them."""
    wrong = []
    for trial in suite.trials:
        if record := store.finished(trial.key):
            scores = store.arrays(record, "scores")
            if isinstance(record, VictimRecord):
                weights = scores.get("judged")
                pairs = [(record.metrics.accuracy, np.average(scores["correct"], weights=weights))]
            elif victim := store.victim(trial.parent or ""):
                pairs = _pairs(record, summarise(scores, victim.floors["mean_image"]))
            else:
                continue  # it is missing, which is said elsewhere
            if not all(np.isclose(said, is_, rtol=1e-4, atol=1e-6) for said, is_ in pairs):
                wrong.append(trial.label)
    if wrong:
        yield Finding(
            "PROBLEM",
            f"{len(wrong)} records say other means than those of their scores: {listed(wrong)}",
        )
    else:
        yield Finding("ok", "every mean is that of the scores of the single images")


def _pairs(record: AttackRecord, again: Summaries) -> list[tuple[float, float]]:
    """What a record says, and what it should; infinite where it says nothing of a score."""
    metrics = {name: each.mean for name, each in record.metrics.items()}
    said = metrics | record.means
    found = {name: each.mean for name, each in again["metrics"].items()} | again["means"]
    return [(said.get(name, np.inf), value) for name, value in found.items()]


def _scores(suite: Suite, store: Store, data: Path | None) -> Iterator[Finding]:
    """Whether reconstructions have the scores that they are said to have, and predictors without
    an attack theirs."""
    attacks = {t.label: record for t in suite.attacks if (record := store.attack(t.key))}
    kept = {label: r for label, r in attacks.items() if store.can_rescore(r, deep=True)}
    try:
        split = load_data(suite.victims[0].victim.dataset, data, torch.device("cpu"))
    except KeyError as error:
        yield Finding("note", f"nothing was scored again: no data set {error}; give its --plugin")
        return
    except (BenchError, DatasetError, TypeError, ValueError) as error:
        yield Finding("note", f"nothing was scored again, the images are not here: {error}")
        return
    victims = [made for trial in suite.victims if (made := store.victim(trial.key))]
    if any(record.data_hash != split.hash for record in (*victims, *attacks.values())):
        yield Finding("PROBLEM", "its images are not those that are here under the same name")
        return
    floors = floors_of(split)["mean_image"]
    off = [r for r in victims if not np.isclose(r.floors["mean_image"]["mse"], floors["mse"], 1e-3)]
    if off:
        yield Finding("PROBLEM", "FVU is relative to another error than that of the mean image")
    if any(_misjudged(store.arrays(record, "scores"), split) for record in victims):
        yield Finding("PROBLEM", "accuracy is of other images than those that have a class")
    if not kept:
        yield Finding(
            "note",
            "no reconstruction is in it, so none was scored again: `smashbench "
            "pack DIR --reconstructions` takes them in",
        )
        return
    if wrong := [label for label, r in kept.items() if not _agrees(r, store, split)]:
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


def _rows(suite: Suite, store: Store) -> Iterator[Finding]:
    """What a reader will see beside its rows."""
    rows = [row for row in board_of(suite, store).rows if row.seeds]
    for flag in FLAGS:
        if flag.doubt and (some := [row.label for row in rows if flag.name in row.flags]):
            yield Finding(
                "PROBLEM" if flag.name in WRONG else "note",
                f"{flag.name}: {listed(some)}. {flag.text}",
            )
    seeds = min((len(row.seeds) for row in rows), default=0)
    repeats = min((row.attack_seeds for row in rows), default=0)
    if seeds < SEEDS or repeats < ATTACK_SEEDS:
        yield Finding(
            "note",
            f"some row has {seeds} trainings and {repeats} fits of its strongest "
            f"attack; a conclusion needs {SEEDS} and {ATTACK_SEEDS}",
        )


def _beside(suite: Suite, folder: Path, board: Path) -> Iterator[Finding]:
    """Whether its rows went through what those of the board did."""
    theirs = read_suite(board)
    try:
        check_comparable([board, folder])
    except BenchError as error:
        yield Finding("PROBLEM", str(error))
        return
    wrong = list(_otherwise(suite, theirs))
    yield from wrong
    if not wrong:
        yield Finding(
            "ok",
            f"its rows can stand beside those of {theirs.name}: the same images, "
            "model, training, seeds and attacks",
        )


def _otherwise(suite: Suite, theirs: Suite) -> Iterator[Finding]:
    """How it differs from a board in what all rows must share."""
    for what in ("dataset", "model", "training"):
        known = [trial.victim for trial in theirs.victims]
        if other := [t.label for t in suite.victims if not _shared(t.victim, known, what)]:
            yield Finding("PROBLEM", f"another {what} than the board's: {listed(other)}")
    seeds = {trial.config.seed for trial in theirs.victims}
    lacking = seeds - {trial.config.seed for trial in suite.victims}
    if lacking:
        missing = ", ".join(map(str, sorted(lacking)))
        yield Finding("PROBLEM", f"the board has victims of seed {missing}, too")
    ours, wanted = _attacks(suite), _attacks(theirs)
    if less := [label for choice, label in wanted.items() if choice not in ours]:
        yield Finding(
            "PROBLEM",
            "the board's rows were attacked in more ways, so that their worst "
            f"cases are not alike: {listed(less)}",
        )


def _shared(victim: VictimConfig, board: Sequence[VictimConfig], what: str) -> bool:
    """Whether a board has a victim with the same data set, model or training, up to the options of
    the model that the defense decides; a row whose own defense decides others is no measure."""
    if what != "model":
        return getattr(victim, what) in [getattr(each, what) for each in board]
    decided = _decided(victim)

    def rest(config: VictimConfig) -> Component:
        left = {name: v for name, v in config.model.options.items() if name not in decided}
        return config.model.model_copy(update={"options": left})

    return rest(victim) in [rest(each) for each in board if _decided(each) <= decided]


def _decided(victim: VictimConfig) -> set[str]:
    """The options of the model that a defense decides."""
    known = [DEFENSES[part.name] for part in victim.defense.parts if part.name in DEFENSES]
    return {option for defense in known for option in defense.of_model.values()}


def _attacks(suite: Suite) -> dict[tuple[str, int], str]:
    """Every attack and its seed, to how it is called there."""
    found = {}
    for trial in suite.attacks:
        if trial.attack:
            same = trial.attack.model_copy(update={"label": "any"})
            label = f"{trial.attack.label}, attack seed {trial.config.seed}"
            found[same.model_dump_json(), trial.config.seed] = label
    return found
