"""What whole trainings cost, with refits and with what is watched in every epoch."""

import os
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from statistics import median
from threading import Semaphore
from typing import Any

import torch

from smashbench.bench.experiment.make_victim import start
from smashbench.bench.experiment.progress import Keeper, State
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.suite import toml as suite
from smashbench.datasets import Split
from smashbench.datasets.photos import Photos
from tests.fitted import victim_of

LIMIT = 1.10
ROUNDS = 5
QUICK: dict[str, dict[str, Any]] = {
    "noise": {},
    "kmeans_cem": {"lam": 0.1},
    "gmm_cem": {"lam": 1.0},
    "full_gmm_cem": {"lam": 0.1},
    "class_variance": {"lam": 0.1},
    "gated_pooling": {"lam": 0.2, "warmup_epochs": 2, "scale": 1.0},
    "slot_attention": {"lam": 3.0, "warmup_epochs": 2, "scale": 1.0, "shutoff_steps": 10},
}
"""Options of defenses as in the suite ``quick``, and of two more, each at one strength."""
Chosen = dict[str, tuple[str, dict[str, Any]]]
"""Label to the name of a defense and its options."""


def trainings(epochs: int = 12, of_all: int = 3) -> list[str]:
    """CPU-seconds of trainings by AdamW on photographs, and those over ``noise``, several times,
    since one ratio varies by a few hundredths; and of all defenses, once and in fewer epochs."""
    split = Photos(train=2000, val=200, aux=1500, test=500).load()
    training = Training(epochs=epochs, lr=0.003, precision=precision())
    ours: Chosen = {name: (name, {"noise": 0.2} | options) for name, options in QUICK.items()}
    for name in ("noise", "kmeans_cem", "gmm_cem"):  # what is imported and set up once
        in_turn({name: ours[name]}, split, training.model_copy(update={"epochs": 2}))
    shorter = training.model_copy(update={"epochs": of_all})
    return [
        *_table([in_turn(ours, split, training) for _ in range(ROUNDS)], LIMIT),
        "\nEvery defense of the suite `zoo` that is no stack, at a strength in the middle, "
        f"{of_all} epochs:\n",
        *_table([in_turn(of_the_zoo(), split, shorter)]),
    ]


def _table(rounds: list[dict[str, float]], limit: float | None = None) -> list[str]:
    """Medians over rounds, and the lowest and the highest ratio where there are several."""
    lines = ["| defense | CPU-seconds | over `noise` |", "|---|---|---|"]
    for name in rounds[0]:
        ratios = [seconds[name] / seconds["noise"] for seconds in rounds]
        ratio = f"{median(ratios):.3f}" if limit is None else against(median(ratios), limit)
        spread = f", {min(ratios):.3f} to {max(ratios):.3f}" if len(rounds) > 1 else ""
        seconds = median([each[name] for each in rounds])
        lines.append(f"| {name} | {seconds:.2f} | {'' if name == 'noise' else ratio + spread} |")
    return lines


def against(ratio: float, limit: float) -> str:
    return f"{ratio:.3f} (limit {limit:.2f}{', missed' if ratio > limit else ''})"


def of_the_zoo() -> Chosen:
    """Every defense of ``zoo`` that is no stack, at its middle strength."""
    found: dict[str, list[Any]] = {}
    for trial in suite.load("zoo", ["seeds=[0]"]).victims:
        found.setdefault(trial.victim.defense.label, []).append(trial.victim.defense)
    middle = {label: each[len(each) // 2].parts for label, each in found.items()}
    return {label: (p[0].name, p[0].options) for label, p in middle.items() if len(p) == 1}


def in_turn(chosen: Chosen, split: Split, training: Training) -> dict[str, float]:
    """CPU-seconds of whole trainings. They take turns by the epoch, so that a machine that slows
    down slows all of them; each is a thread, and only one runs at a time."""
    names = list(chosen)
    seconds = dict.fromkeys(names, 0.0)
    turns = [Semaphore(0) for _ in names]

    def one(place: int) -> None:
        turns[place].acquire()
        torch.set_num_threads(1)
        name, since = names[place], time.process_time()
        start(0)
        victim = victim_of("small", *chosen[name], split.shape, split.classes)

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
        for work in as_completed(works):
            if error := work.exception():
                traceback.print_exception(error)
                os._exit(1)  # the others wait for their turn, which it does not pass on
    return seconds


def precision() -> str:
    """What the trainings compute in: bf16 is emulated, and slow, on a processor without it."""
    return "bf16" if torch.cpu.get_capabilities().get("avx512_bf16") else "fp32"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(precision(), *trainings(), sep="\n")
