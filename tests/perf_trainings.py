"""What whole trainings cost, with refits and with what is watched in every epoch."""

import time
from statistics import median
from typing import Any

import torch
from tqdm import tqdm

from smashbench.bench.experiment.make_victim import start
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.datasets import Split
from smashbench.datasets.photos import Photos
from tests.fitted import victim_of

LIMIT = 1.10
QUICK: dict[str, dict[str, Any]] = {
    "noise": {},
    "kmeans_cem": {"lam": 0.1},
    "gmm_cem": {"lam": 1.0},
    "full_gmm_cem": {"lam": 0.1},
    "class_variance": {"lam": 0.1},
    "gated_pooling": {"lam": 0.2, "warmup_epochs": 2, "scale": 1.0},
    "slot_attention": {"lam": 3.0, "warmup_epochs": 2, "scale": 1.0, "shutoff_steps": 10},
}
"""Options as in the suite ``quick``, at a strength in the middle."""


def trainings(rounds: int = 3) -> list[str]:
    """CPU-seconds of trainings as in ``quick``, in turn, and their ratios to ``noise`` in the same
    round."""
    split = Photos(train=2000, val=200, aux=1500, test=500).load()
    training = Training(epochs=12, lr=0.003, precision=precision())
    seconds: dict[str, list[float]] = {name: [] for name in QUICK}
    seconds_of("kmeans_cem", split, training.model_copy(update={"epochs": 2}))  # imports
    for _ in tqdm(range(rounds), leave=False, disable=None):
        for name in QUICK:
            seconds[name].append(seconds_of(name, split, training))
    lines = ["| defense | CPU-seconds | over `noise` |", "|---|---|---|"]
    for name, each in seconds.items():
        ratios = [own / noise for own, noise in zip(each, seconds["noise"], strict=True)]
        limit = "" if name == "noise" else f"{median(ratios):.3f} (limit {LIMIT})"
        lines.append(f"| {name} | {median(each):.2f} | {limit} |")
    return lines


def seconds_of(name: str, split: Split, training: Training) -> float:
    """CPU-seconds of one training: time that other processes take does not count."""
    start(0)
    victim = victim_of("small", name, {"noise": 0.2} | QUICK[name], split.shape, split.classes)
    started = time.process_time()
    train(victim, split, training)
    return time.process_time() - started


def precision() -> str:
    """What the trainings compute in: bf16 is emulated, and slow, on a processor without it."""
    return "bf16" if torch.cpu.get_capabilities().get("avx512_bf16") else "fp32"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(precision(), *trainings(), sep="\n")
