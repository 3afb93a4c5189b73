"""What whole trainings cost, with refits and with what is watched in every epoch."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import Any

import torch

from smashbench.bench.experiment.make_victim import start
from smashbench.bench.experiment.progress import Keeper, State
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


def trainings(epochs: int = 12, names: tuple[str, ...] = tuple(QUICK)) -> list[str]:
    """CPU-seconds of trainings as in ``quick``, and those over ``noise``."""
    split = Photos(train=2000, val=200, aux=1500, test=500).load()
    training = Training(epochs=epochs, lr=0.003, precision=precision())
    for name in ("noise", "kmeans_cem", "gmm_cem"):  # what is imported and set up once
        in_turn((name,), split, training.model_copy(update={"epochs": 2}))
    seconds = in_turn(names, split, training)
    lines = ["| defense | CPU-seconds | over `noise` |", "|---|---|---|"]
    for name, each in seconds.items():
        ratio = f"{each / seconds['noise']:.3f}"
        limit = "" if name == "noise" else f"{ratio} (limit {LIMIT:.2f})"
        lines.append(f"| {name} | {each:.2f} | {limit} |")
    return lines


def in_turn(names: tuple[str, ...], split: Split, training: Training) -> dict[str, float]:
    """CPU-seconds of whole trainings. They take turns by the epoch, so that a machine that slows
    down slows all of them; each is a thread, and only one runs at a time."""
    seconds = dict.fromkeys(names, 0.0)
    turns = [Semaphore(0) for _ in names]

    def one(place: int) -> None:
        turns[place].acquire()
        torch.set_num_threads(1)
        name, since = names[place], time.process_time()
        start(0)
        victim = victim_of("small", name, {"noise": 0.2} | QUICK[name], split.shape, split.classes)

        def pass_on(state: State) -> None:
            nonlocal since
            seconds[name] += time.process_time() - since
            turns[(place + 1) % len(names)].release()
            if len(state["history"]) < training.epochs:
                turns[place].acquire()
            since = time.process_time()

        train(victim, split, training, Keeper(lambda: None, pass_on))

    with ThreadPoolExecutor(len(names)) as pool:
        works = [pool.submit(one, place) for place in range(len(names))]
        turns[0].release()
        for work in works:
            work.result()
    return seconds


def precision() -> str:
    """What the trainings compute in: bf16 is emulated, and slow, on a processor without it."""
    return "bf16" if torch.cpu.get_capabilities().get("avx512_bf16") else "fp32"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(precision(), *trainings(), sep="\n")
