"""What makes `airbench` fast: `python results/reference_network/measure.py KIND NAME [SEED]`.

KIND `ablation` trains a variant, most for six epochs, on the first 45,000 training images of
CIFAR-10 and scores the last 5,000, which decide what the recipe is; `final` trains a recipe in full
on all 50,000 and scores all 10,000 test images, after the last epoch alone. A line goes to KIND.csv
beside this file. As many threads as OMP_NUM_THREADS says, else one; memory is taken as workers take
it; the images are looked for where SMASHBENCH_DATA says. A training that was interrupted goes on
from its last epoch, which is kept among temporary files.
"""

import csv
import hashlib
import math
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, linear, pad

from smashbench.bench.experiment import train as loop
from smashbench.bench.experiment.augment import augment
from smashbench.bench.experiment.make_victim import start
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.models.airbench import SIZES, Size
from smashbench.bench.experiment.progress import Keeper
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.processes import MEMORY
from smashbench.datasets import DATASETS, Part
from smashbench.defenses import Defense

MIDDLE = {"use": "airbench", "size": "middle"}
REFERENCE = {"use": "airbench"}
LARGE = {"use": "airbench_large"}
VGG11 = {"use": "vgg11"}
RECIPE: dict[str, Any] = {
    "epochs": 6,
    "batch_size": 500,
    "optimiser": "muon",
    "lr": 0.12,
    "momentum": 0.7,
    "weight_decay": 0.0,
    "schedule": "linear",
    "label_smoothing": 0.2,
    "flip": "alternating",
    "shift": 4,
    "precision": "fp32",
    "recalibrate": True,
}
NESTEROV = {"optimiser": "nesterov", "momentum": 0.85, "weight_decay": 5e-4, "warmup": 0.2}
SMALL_BATCH = {"epochs": 7, "batch_size": 125, "lr": 0.06, "precision": "bf16"}
BETTER = {"shift": 2, "average": "ema"}


def growing(pixels: int, first: int, epochs: int) -> dict[str, Any]:
    """So many epochs, the ``first`` of them on images of so many pixels a side."""
    return SMALL_BATCH | BETTER | {"epochs": epochs, "smaller": (pixels, first)}


SGD = NESTEROV | {"batch_size": 128, "lr": 0.1, "momentum": 0.9, "warmup": 0.1}
SGD |= {"average": "ema", "label_smoothing": 0.1, "precision": "bf16"}
DECAYED = {"batch_size": 250, "lr": 0.085, "adam_lr": 0.002, "weight_decay": 0.04}
DECAYED |= {"average": "ema", "label_smoothing": 0.1, "precision": "bf16"}
"""For long trainings of ``vgg11``, whose filters have biases: without decay they grow, and steps of
Muon mean less and less."""


VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "recipe": (MIDDLE, {}),
    "recipe, 12 epochs": (MIDDLE, {"epochs": 12}),
    "Muon at twice the rate": (MIDDLE, {"lr": 0.24}),
    "SGD, rate .1": (MIDDLE, NESTEROV | {"lr": 0.1}),
    "SGD, rate .4": (MIDDLE, NESTEROV | {"lr": 0.4}),
    "no whitening": (MIDDLE | {"whitening": False}, {}),
    "filters as torch draws them": (MIDDLE | {"initial": "torch"}, {}),
    "random flips": (MIDDLE, {"flip": "random"}),
    "no shift": (MIDDLE, {"shift": 0}),
    "shift by 2": (MIDDLE, {"shift": 2}),
    "lookahead": (MIDDLE, {"average": "lookahead"}),
    "EMA": (MIDDLE, {"average": "ema"}),
    "no label smoothing": (MIDDLE, {"label_smoothing": 0.0}),
    "width 1.5": (MIDDLE | {"width": 1.5}, {}),
    "statistics as they ran": (MIDDLE, {"recalibrate": False}),
    "Adam's rate .002": (MIDDLE, {"adam_lr": 0.002}),
    "batch 250": (MIDDLE, {"batch_size": 250, "lr": 0.085}),
    "batch 125": (MIDDLE, {"batch_size": 125, "lr": 0.06}),
    "shift by 2, EMA": (MIDDLE, BETTER),
    "shift by 2, EMA, twice the rate": (MIDDLE, BETTER | {"lr": 0.24}),
    "shift by 2, EMA, batch 125": (MIDDLE, BETTER | {"batch_size": 125, "lr": 0.06}),
    "smaller client": (REFERENCE, SMALL_BATCH),
    "smaller client, 14 epochs": (REFERENCE, SMALL_BATCH | BETTER | {"epochs": 14}),
    "reference": (REFERENCE, SMALL_BATCH | BETTER | {"epochs": 14}),
    "frozen biases of the whitening": (REFERENCE, SMALL_BATCH | BETTER),
    "deeper client": (REFERENCE, SMALL_BATCH | BETTER),
    "deeper client, 20 pixels first": (REFERENCE, growing(20, 5, 10)),
    "deeper client, 24 pixels first": (REFERENCE, growing(24, 6, 10)),
    "deeper client, 24 pixels for longer": (REFERENCE, growing(24, 8, 11)),
    "deeper client, 64 features a place, 24 pixels first": (
        REFERENCE | {"channels": 64},
        growing(24, 6, 10),
    ),
    "192 channels, 24 pixels first": (REFERENCE, growing(24, 7, 12)),
    "256 channels, 24 pixels first": (REFERENCE, growing(24, 7, 12)),
    "256 channels, shift by 4": (
        REFERENCE,
        SMALL_BATCH | BETTER | {"epochs": 18, "shift": 4},
    ),
    "24 pixels first": (MIDDLE, {"epochs": 8, "smaller": (24, 5)}),
    "shift by 2, EMA, batch 125, 24 pixels first": (
        MIDDLE,
        growing(24, 5, 8) | {"precision": "fp32"},
    ),
}
FINAL = {
    "middle": (MIDDLE, {"epochs": 12}),
    "middle, batches of 125": (MIDDLE, SMALL_BATCH | BETTER | {"epochs": 12}),
    "smaller client": (REFERENCE, SMALL_BATCH | {"epochs": 10}),
    "smaller client, shift by 2, EMA": (REFERENCE, SMALL_BATCH | BETTER | {"epochs": 12}),
    "reference": (REFERENCE, SMALL_BATCH | BETTER | {"epochs": 12}),
    "deeper client": (REFERENCE, SMALL_BATCH | BETTER | {"epochs": 14}),
    "deeper client, 24 pixels first": (REFERENCE, growing(24, 7, 12)),
    "deeper client, 24 pixels first, longer": (REFERENCE, growing(24, 11, 18)),
    "256 channels, shift by 4": (REFERENCE, SMALL_BATCH | BETTER | {"epochs": 18, "shift": 4}),
    "large": (LARGE, SMALL_BATCH | BETTER | {"epochs": 12}),
    "large, shorter": (LARGE, SMALL_BATCH | BETTER | {"epochs": 10}),
    "vgg11": (VGG11, SMALL_BATCH | BETTER | {"epochs": 12, "batch_size": 250, "lr": 0.085}),
    "vgg11, shift by 4": (
        VGG11,
        SMALL_BATCH | BETTER | {"epochs": 36, "batch_size": 250, "lr": 0.085, "shift": 4},
    ),
    "vgg11, SGD": (VGG11, SGD | {"epochs": 38}),
    "vgg11, Muon with decay": (VGG11, DECAYED | {"epochs": 36}),
}
BLOCKS = {
    "smaller client": Size(1, ("32P", "64", "64P"), ("128", "R", "256P", "256", "R")),
    "deeper client": Size(1, ("64P", "64", "128P", "128"), ("128", "128P", "256")),
    "192 channels": Size(1, ("64P", "64", "192P", "192"), ("128", "256P", "256")),
    "256 channels": Size(1, ("64P", "64", "256P", "256"), ("256P", "256")),
}
"""Other blocks of the reference network, by how the name of a variant begins: those of ``smaller
client`` were its own before."""
FROZEN = ("frozen biases", "deeper client", "192 channels", "256 channels")
"""How the names of variants begin that do not train the biases of the whitening, so that nothing
before the first convolution needs gradients."""


class Patches(nn.Conv2d):
    """A 3x3 convolution with padding 1 as a product of patches: faster on a processor where 512
    channels have 2x2 or 4x4 places, and the same but for rounding."""

    def forward(self, x: Tensor) -> Tensor:
        if not torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        images, inputs, height, width = x.shape
        padded = pad(x.bfloat16().permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))
        shifts = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
        patches = torch.cat(shifts, -1).view(-1, 9 * inputs)
        filters = self.weight.permute(0, 2, 3, 1).reshape(-1, 9 * inputs)
        places = linear(patches, filters, self.bias).view(images, height, width, -1)
        return places.permute(0, 3, 1, 2)


def main(kind: str, name: str, seed: int = 0) -> None:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model, changes = (VARIANTS if kind == "ablation" else FINAL)[name]
    changes = dict(changes)
    smaller, small_epochs = changes.pop("smaller", (0, 0))
    for begins, size in BLOCKS.items():
        if name.startswith(begins):
            SIZES["reference"] = size
    split = DATASETS["cifar10"](split="xia2025").load(Path(os.environ["SMASHBENCH_DATA"]))
    x, y = split.train.x, split.train.y
    if kind == "ablation":
        split = replace(split, train=Part(x[:45_000], y[:45_000]), val=Part(x[45_000:], y[45_000:]))
    else:
        parts = (split.aux, split.test)  # all test images; nothing is chosen by what they say
        everything = Part(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]))
        split = replace(split, val=everything)
    options = {option: value for option, value in model.items() if option != "use"}
    training = Training.model_validate(RECIPE | changes)
    start(seed)
    victim = Victim(MODELS[model["use"]](**options), Defense, split.shape, split.classes)
    if name.startswith(FROZEN):
        victim.encoder[0].filters.bias.requires_grad_(False)
    for layer in victim.modules():
        if isinstance(layer, nn.Conv2d) and layer.in_channels == 512:
            layer.__class__ = Patches
    begun, done = time.process_time(), 0
    what = hashlib.sha256(repr((model, changes, SIZES, training)).encode()).hexdigest()[:8]
    kept = Path(tempfile.gettempdir(), f"smashbench {kind} {name} {seed} {what}.pt")

    def augmented(x: Tensor, training: Training, flips: Tensor | None = None) -> Tensor:
        x = augment(x, training, flips)
        if done >= small_epochs:
            return x
        return interpolate(x, [smaller, smaller], mode="bilinear", antialias=True)

    watch = loop.watch

    def watched(*args: Any) -> dict[str, float]:
        last = kind == "ablation" or done + 1 == training.epochs
        return watch(*args) if last else {"val_accuracy": math.nan}

    def load() -> dict[str, Any] | None:
        nonlocal begun, done
        if not kept.exists():
            return None
        state: dict[str, Any] = torch.load(kept)
        begun, done = begun - state.pop("CPU-s"), len(state["history"])
        return state

    def save(state: dict[str, Any]) -> None:
        nonlocal done
        done = len(state["history"])
        accuracy = state["history"][-1]["val_accuracy"]
        seconds = time.process_time() - begun
        print(f"{name}, epoch {done}: {accuracy:.4f}, {seconds:.0f} CPU-s", flush=True)
        torch.save(state | {"CPU-s": seconds}, part := kept.with_suffix(".part"))
        part.replace(kept)

    loop.augment, loop.watch = augmented, watched  # type: ignore[attr-defined]
    history = train(victim, split, training, Keeper(load, save)).history
    seconds, last = time.process_time() - begun, history[-1]
    line = [name, seed, training.epochs, f"{last['val_accuracy']:.4f}", f"{last['loss']:.4f}"]
    path = Path(__file__).with_name(f"{kind}.csv")
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(["variant", "seed", "epochs", "accuracy", "training loss", "CPU-s"])
        writer.writerow([*line, f"{seconds:.0f}"])
    kept.unlink()


if __name__ == "__main__":
    if not MEMORY.keys() <= os.environ.keys():  # the C library reads it when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MEMORY)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
