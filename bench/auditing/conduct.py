"""Conducts an audit, from what a user has to a report."""

from typing import Any

from smashbench.bench.auditing.budget import Clock
from smashbench.bench.auditing.curves import knowledge, what_if
from smashbench.bench.auditing.pairs import Layout, images_of, pairs_of
from smashbench.bench.auditing.plan import Situation, attacked
from smashbench.bench.auditing.prepare import prepared
from smashbench.bench.auditing.report import Facts, Report
from smashbench.bench.auditing.tuned import check_tunable
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.kept_images import pixels

UNTIL = {"attacks": 0.45, "knowledge": 0.6, "what_if": 0.95}
"""Share of the time at which each part of an audit should be done."""


def audit(
    *,
    images: Any,
    features: Any = None,
    model: Any = None,
    head: Any = None,
    labels: Any = None,
    groups: Any = None,
    layout: Layout | None = None,
    size: int | None = None,
    repeated: bool = False,
    test_share: float = 0.3,
    minutes: float = 5.0,
    memory: float = 4.0,
    seed: int = 0,
    trust_order: bool = False,
    tune_head: bool = False,
    progress: bool = False,
) -> Report:
    """Attacks an encoder, or features that it made, as suites attack victims.

    Some images are the attacker's, who has a release of each; the others are scored. Every attack
    runs behind the wall and is scored as in a suite; intervals are over the scored images, or over
    their groups: there is one encoder, and one fit of each attack.

    Args:
        images: (N, C, H, W) or (N, H, W, C), uint8 or in [0, 1]; an array, a tensor, or the path
            of a file or of a folder of image files.
        features: (N, D), (N, T, D), (N, C', H', W') or of any other shape, as they leave the
            client, the first of the first image; an array, a tensor or the path of a file.
        model: instead of ``features``: the encoder, a module or a function of a batch
            (B, C, H, W) in [0, 1]; or ``FILE.py:NAME``.
        head: the server's part, features (B, ...) to logits; a module, a function or
            ``FILE.py:NAME``.
        labels: (N,) from 0; with a head, they say what defenses cost. ``folders``: one for each
            folder of image files.
        groups: (N,) which images belong together, such as those of one person, and are never
            dealt to both sides; ``folders`` as for labels.
        layout: which axis of the images is which, where both could be the channels.
        size: pixels of a side of images from files; 64 by default.
        repeated: the second axis of the features counts releases of one image.
        test_share: share of the images that are scored.
        minutes: that the audit may take, about.
        memory: GiB that it may take, in all its processes.
        seed: of the dealing and of everything random.
        tune_head: tune a copy of the head to each defense that is tried at inference.
        trust_order: do not refuse features that seem to belong to other images.
        progress: say on the standard error what is done.

    Raises:
        BenchError: something about what was given is wrong; the message says what to do.
    """
    _check_source(features, model, repeated)
    _check_limits(minutes, memory, test_share, seed)
    clock = Clock(minutes, shown=progress)
    clock.say("reading and checking")
    pairs = pairs_of(images_of(images, layout, size), features, labels, groups, repeated=repeated)
    world, accuracy, notes = prepared(
        pairs,
        model,
        head,
        test_share=test_share,
        gigabytes=memory,
        seed=seed,
        trust_order=trust_order,
    )
    count, grouped = len(pairs.images), pairs.groups is not None
    del pairs  # what was mapped into memory is not needed any more
    if tune_head:
        tunable = world.head if labels is not None else None
        check_tunable(tunable, world.victim().protect(world.z_test[:2]))
    now = Situation(world, clock, labels is not None, memory, tune_head)
    now.until = UNTIL["attacks"]
    found, left_out = attacked(now)
    now.until = UNTIL["knowledge"]
    known, without = knowledge(now)
    now.until = UNTIL["what_if"]
    defended, without_too = what_if(now)
    scored = world.split.test
    facts = Facts(
        images=count,
        image_shape=world.split.shape,
        feature_shape=world.feature_shape,
        aux=len(world.z_aux),
        test=len(scored.x),
        groups=None if scored.groups is None else len(scored.groups.unique()),
        grouped=grouped,
        model=model is not None,
        minutes=clock.spent / 60,
        budget=minutes,
    )
    return Report(
        facts=facts,
        attacks=found,
        left_out=left_out,
        floors=world.floors,
        knowledge=known,
        what_if=defended,
        accuracy=accuracy,
        originals=pixels(scored.x).numpy(),
        groups=world.groups,
        notes=notes,
        short={"knowledge": without, "what_if": without_too},
    )


def _check_source(features: Any, model: Any, repeated: bool) -> None:
    if (features is None) == (model is None):
        which = "one of them" if features is None else "one of them, not both"
        raise BenchError(
            f"give features or a model, {which}: --features FILE, or --model FILE.py:NAME"
        )
    if repeated and features is None:
        raise BenchError("--repeated is about --features; a model releases as often as it is asked")


def _check_limits(minutes: float, memory: float, test_share: float, seed: int) -> None:
    if not 0 < minutes < 1e6:
        raise BenchError(f"--budget {minutes:g}: should be minutes, more than 0")
    if not 0 < memory < 1e6:
        raise BenchError(f"--memory {memory:g}: should be GiB, more than 0")
    if not 0.01 <= test_share <= 0.9:
        raise BenchError(f"--test-share {test_share:g}: should be from .01 to .9")
    if not 0 <= seed < 2**63:
        raise BenchError(f"--seed {seed}: should be a whole number from 0, below 2^63")
