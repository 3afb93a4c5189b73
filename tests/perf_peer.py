"""The reference implementation and ours on the same victim and pairs, and how costs grow.

The reference is Xia et al. (CVPR 2025) as it is described: its training step with loops over
classes and clusters (``tests/reference.py``), two backward passes and clusters that are fitted
anew in every epoch, and its decoder (``attacks/reference_decoder.py``). What is compared is what a
CPU-second buys: accuracy of a victim, mean squared error of an attack. One thread.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from smashbench.attacks import Attack, Knowledge
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.reference_decoder import ReferenceDecoder
from smashbench.bench.experiment.augment import augment
from smashbench.bench.experiment.make_victim import start
from smashbench.bench.experiment.progress import Keeper, State
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.watch import watch
from smashbench.datasets import DATASETS, Split
from smashbench.defenses.kmeans_cem import KMeansCem
from tests import reference
from tests.fitted import victim_of

EPOCHS = 8
PAIRS = 1000
"""Images of the attacker."""
THEIRS = {
    "noise": 0.2,
    "lam": 0.1,
    "variance": "mean",
    "pooling": "cluster",
    "blend": 10.0,
    "class_weight": "uniform",
    "refit": "epoch",
}
"""The penalty, as the authors' code runs it; the noise and the weight are those of our suites."""
MILESTONES = tuple(EPOCHS * at // 240 for at in (60, 120, 180, 210))
"""Where their learning rate falls, as shares of the training."""
SCHEDULE = Training(
    epochs=EPOCHS,
    optimiser="momentum",
    lr=0.05,
    milestones=tuple(dict.fromkeys(MILESTONES)),
    shift=4,
    border="black",
    rotation=15,
    precision="fp32",
)
"""Their training."""
OURS = Training(epochs=EPOCHS, lr=0.01)
"""What the ``small`` network takes with Adam."""
BUDGETS = {"reference_decoder": (1, 2, 4), "decoder": (50, 150, 400)}
"""Epochs and steps: fits of their own, each with a schedule that ends there."""


class Point(NamedTuple):
    """What so many CPU-seconds have bought."""

    seconds: float
    value: float


class Curve(NamedTuple):
    """What one implementation buys."""

    name: str
    points: list[Point]


def images(root: Path | None) -> Split:
    """9,999 training images of CIFAR-10, or the photographs where there is no data folder."""
    options = {"n": 14_286, "n_test": 1000} if root else {"aux": PAIRS}
    return DATASETS["cifar10" if root else "photos"](**options).load(root)


def literal_training(victim: Victim, split: Split, seen: Callable[[], None]) -> None:
    """Trains as the reference does: a backward pass for the penalty with the loops over classes,
    whose gradients of the encoder are kept, one for the cross entropy, and their weighted sum;
    after an epoch, K-means of its features from k-means++. Calls ``seen`` after every epoch."""
    defense, data = victim.defense, split.train
    assert isinstance(defense, KMeansCem)
    lam, defense.lam = defense.lam, 1.0
    encoder = list(victim.encoder.parameters())
    optimiser = torch.optim.SGD(
        victim.parameters(), SCHEDULE.lr, momentum=0.9, weight_decay=SCHEDULE.weight_decay
    )
    falls = list(SCHEDULE.milestones)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, falls, SCHEDULE.decay)
    for defense.epoch in range(EPOCHS):
        victim.train()
        order = torch.randperm(len(data.y))
        features, labels = [], []
        for batch in order.split(SCHEDULE.batch_size):
            x, y = augment(data.x[batch], SCHEDULE), data.y[batch]
            z = victim.encoder(x)
            features.append(z.detach())
            labels.append(y)
            kept: list[Tensor] = []
            if defense.epoch >= defense.warmup_epochs:
                optimiser.zero_grad()
                reference.penalty(z, y, defense).backward(retain_graph=True)
                kept = [p.grad.clone() for p in encoder if p.grad is not None]
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(victim.head(defense(z)), y).backward()
            for p, extra in zip(encoder if kept else [], kept, strict=True):
                assert p.grad is not None
                p.grad += lam * extra
            optimiser.step()
        schedule.step()
        defense.weights.zero_()  # so that K-means starts from k-means++
        defense.refresh(torch.cat(features), torch.cat(labels))
        seen()


def victims(split: Split) -> tuple[list[Curve], Victim, list[float]]:
    """Validation accuracy over CPU-seconds of three trainings of one victim with the same
    penalty; the victim of the last; and the within-class variance that each has left."""
    curves, left = [], []
    for name, training in (
        ("reference", None),
        ("ours, their schedule", SCHEDULE),
        ("ours", OURS),
    ):
        start(0)
        victim = victim_of("small", "kmeans_cem", THEIRS, split.shape, split.classes)
        points: list[Point] = []
        if training is None:
            clock = _Watched(victim, split, points)
            literal_training(victim, split, clock.look)
        else:
            clock = _Watched(victim, split, points)
            train(victim, split, training, Keeper(lambda: None, clock.keep))
        curves.append(Curve(name, points))
        left.append(clock.row["class_variance"])
    return curves, victim, left


class _Watched:
    """Takes the time and the accuracy of a training after every epoch; to look costs nothing."""

    def __init__(self, victim: Victim, split: Split, points: list[Point]) -> None:
        self.victim, self.split, self.points = victim, split, points
        self.row: dict[str, float] = {}
        self.started = time.process_time()

    def look(self) -> None:
        seconds = time.process_time() - self.started
        self.row = watch(self.victim, self.split.val, self.split.classes)
        self.points.append(Point(seconds, self.row["val_accuracy"]))
        self.started = time.process_time() - seconds

    def keep(self, state: State) -> None:
        self.row = state["history"][-1]
        seconds = time.process_time() - self.started
        self.points.append(Point(seconds, self.row["val_accuracy"]))


def decoders(victim: Victim, split: Split) -> list[Curve]:
    """Test error over CPU-seconds of the reference's decoder and of ours, on the same pairs."""
    pairs = split.aux.x[:PAIRS]
    z, z_test = victim.encode(pairs), victim.encode(split.test.x)
    made: dict[str, Callable[[int], Attack]] = {
        "reference_decoder": lambda budget: ReferenceDecoder(epochs=budget),
        "decoder": lambda budget: Decoder(max_steps=budget),
    }
    curves = []
    for name, make in made.items():
        points = []
        for budget in BUDGETS[name]:
            torch.manual_seed(0)
            services = {"draw": lambda index: victim.protect(z[index])}
            knowledge = Knowledge(pairs, split.classes, services, None)
            started = time.process_time()
            attack = make(budget).fit(knowledge)
            seconds = time.process_time() - started
            torch.manual_seed(1)
            guess = attack.reconstruct(victim.protect(z_test))
            points.append(Point(seconds, float((guess - split.test.x).square().mean())))
        curves.append(Curve(name, points))
    return curves


def _table(curves: list[Curve], what: str, digits: int, unit: float) -> list[str]:
    lines = [f"| implementation | CPU-seconds (units): {what} |", "|---|---|"]
    for curve in curves:
        cells = [
            f"{point.seconds:.0f} ({point.seconds / unit:.1f}): {point.value:.{digits}f}"
            for point in curve.points
        ]
        lines.append(f"| {curve.name} | {', '.join(cells)} |")
    return lines


def _reached(curves: list[Curve]) -> str:
    """How much sooner than the first curve the others reach what it ends with."""
    first, *others = curves
    goal = first.points[-1].value
    cost = next(point.seconds for point in first.points if point.value >= goal)
    texts = []
    for curve in others:
        there = [point.seconds for point in curve.points if point.value >= goal]
        text = f"reaches it {cost / there[0]:.1f} times sooner" if there else "does not reach it"
        texts.append(f"`{curve.name}` {text}")
    return f"The reference ends at an accuracy of {goal:.3f}; {', '.join(texts)}."


def peers(picture: Path, unit: float) -> list[str]:
    """Both comparisons as Markdown, and as curves in ``picture``.

    Args:
        picture: a PNG file to write.
        unit: CPU-seconds of a calibration unit.
    """
    folder = os.environ.get("SMASHBENCH_DATA")
    split = images(Path(folder) if folder else None)
    accuracy, victim, left = victims(split)
    error = decoders(victim, split)
    _draw(accuracy, error, picture)
    variances = ", ".join(f"{variance:.4f}" for variance in left)
    return [
        f"`small` on {len(split.train.y):,} images of {'CIFAR-10' if folder else 'photographs'}, "
        f"{EPOCHS} epochs, K-means CEM with the options of the authors' code at noise 0.2 and "
        "lambda 0.1. The reference loops over classes and clusters, goes backward twice and starts "
        "K-means from k-means++; reading and augmenting images is ours in all three.\n",
        *_table(accuracy, "validation accuracy", 3, unit),
        f"\n{_reached(accuracy)} Within-class variance that is left, in the same order: "
        f"{variances}; where more is left, part of the accuracy is bought with less privacy.\n",
        f"Decoders on the last of these victims, {len(split.aux.x[:PAIRS]):,} pairs and defaults; "
        "every point is a fit whose schedule ends there.\n",
        *_table(error, "test MSE", 4, unit),
        f"\n![Accuracy and error against CPU-seconds]({picture.name})",
    ]


def _draw(accuracy: list[Curve], error: list[Curve], picture: Path) -> None:
    import matplotlib as mpl

    from smashbench.bench.report.figures.axes import logarithmic
    from smashbench.bench.report.style import RC, Mark

    with mpl.rc_context(RC):
        canvas = Figure(figsize=(9, 3.6), layout="constrained")
        for axes, curves, label in zip(
            canvas.subplots(1, 2),
            (accuracy, error),
            ("validation accuracy", "test MSE (lower is stronger)"),
            strict=True,
        ):
            for number, curve in enumerate(curves):
                x, y = zip(*curve.points, strict=True)
                axes.plot(x, y, label=curve.name, markersize=5, **Mark(number).line)
            logarithmic(axes, "x")
            axes.set(xlabel="CPU-seconds", ylabel=label)
            axes.legend()
        canvas.savefig(picture, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("\n".join(peers(Path("perf_peer.png"), 1.0)))
