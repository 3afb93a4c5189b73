"""How costs grow with classes, images and features, in CPU time of one thread."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

from smashbench.bench.experiment.augment import augment
from smashbench.bench.experiment.batches import batches_of
from smashbench.bench.experiment.training import Training
from smashbench.defenses import DEFENSES
from smashbench.defenses.cem import Cem
from smashbench.defenses.full_gmm_cem import FullGmmCem
from smashbench.defenses.gmm_cem import GmmCem
from smashbench.defenses.kmeans_cem import KMeansCem
from tests.fitted import step_of

CLASSES, FEATURES, IMAGES = (10, 100, 500), (512, 2048, 8192), (10_000, 50_000)
BATCH, ROUNDS = 128, 5
PENALTIES = [
    name
    for name, entry in DEFENSES.items()
    if issubclass(entry, Cem) and not issubclass(entry, FullGmmCem)  # of a rank, not of features
]


def ready(name: str, shape: tuple[int, ...], classes: int, **options: Any) -> Cem:
    """A defense past its warm-up, with random statistics: fitting them is not timed here."""
    if name == "slot_attention":
        options["shutoff_steps"] = 0
    defense = DEFENSES[name](shape, classes, warmup_epochs=0, **options)
    assert isinstance(defense, Cem)
    if isinstance(defense, KMeansCem | GmmCem):
        defense.weights.fill_(0.2)
        (defense.centres if isinstance(defense, KMeansCem) else defense.means).uniform_()
    return defense


def scaling() -> list[str]:
    """Milliseconds of a penalty by classes and features, and seconds of an epoch by images."""
    lines = [*_header("penalty of a step, ms", [f"{c} classes" for c in CLASSES])]
    for name in PENALTIES:
        lines.append(_row(name, [_penalty(name, 2048, classes) for classes in CLASSES]))
    lines += ["", *_header("penalty of a step, ms", [f"{d:,} features" for d in FEATURES])]
    for name in PENALTIES:
        lines.append(_row(name, [_penalty(name, d, 10) for d in FEATURES]))
    lines += ["", *_header("an epoch, ms", [f"{n:,} images" for n in IMAGES])]
    lines.append(_row("batches, flips, shifts", [_epoch(n) for n in IMAGES]))
    lines.append(_row("`kmeans_cem`, refit from the last centres", [_refit(n) for n in IMAGES]))
    return lines


def _header(what: str, columns: Sequence[str]) -> list[str]:
    return [f"| {what} | {' | '.join(columns)} | growth |", "|---" * (len(columns) + 2) + "|"]


def _row(name: str, milliseconds: Sequence[float]) -> str:
    cells = " | ".join(f"{each:.1f}" for each in milliseconds)
    return f"| {name} | {cells} | {milliseconds[-1] / milliseconds[0]:.2f} |"


def _median(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """CPU milliseconds of a call, after one that is not counted."""
    found = []
    for _ in range(rounds + 1):
        started = time.process_time()
        run()
        found.append(1000 * (time.process_time() - started))
    return median(found[1:])


def _penalty(name: str, d: int, classes: int) -> float:
    """Forward and backward, batch 128, D = ``d`` features of 8x8 places."""
    torch.manual_seed(0)
    shape = (d // 64, 8, 8)
    defense = ready(name, shape, classes).eval()
    z = torch.rand(BATCH, *shape, requires_grad=True)
    y = torch.randint(classes, (BATCH,))
    inputs = [z, *defense.parameters()]

    def run() -> object:
        return torch.autograd.grad(defense.penalty(step_of(z, y))[0], inputs, allow_unused=True)

    return _median(run)


def _epoch(images: int) -> float:
    """Everything that an epoch does with images before the network sees them."""
    x, y = torch.rand(images, 3, 32, 32), torch.arange(images) % 10
    training = Training(epochs=1)

    def run() -> None:
        for batch in batches_of(y, BATCH, 0):
            augment(x[batch], training)

    return _median(run, 2)


def _refit(images: int) -> float:
    """K-means of 512 features of ten classes that moved a little since the last."""
    torch.manual_seed(0)
    y = torch.arange(images) % 10
    z = torch.rand(10, 5, 512)[y, torch.randint(5, (images,))] + 0.3 * torch.randn(images, 512)
    defense = KMeansCem((512,), 10)
    defense.refresh(z, y)
    moved = z + 0.02 * torch.randn_like(z)
    return _median(lambda: defense.refresh(moved, y), 2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("\n".join(scaling()))
