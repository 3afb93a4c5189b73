"""What decoded images cost the workers of a run in memory, and what they gain by how they take
memory: ``python -m tests.perf_memory``."""

import os
import platform
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import torch

from smashbench.bench.experiment.make_victim import start
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.processes import MEMORY
from smashbench.bench.run.attempt import Outcome
from smashbench.bench.run.engines import RunOptions
from smashbench.bench.run.engines.local import Local
from smashbench.bench.run.perform import load_data
from smashbench.bench.suite import toml
from smashbench.bench.suite.trial import Trial
from tests.fitted import victim_of
from tests.perf_trainings import precision

ROUNDS = 3
ROLLUP = Path("/proc/self/smaps_rollup")
"""Where Linux tells what a process has in memory."""


def _holding(trial: Trial, data: Path | None) -> Outcome:
    """Loads the images of a trial, reads all of them, and says what this process takes: its
    proportional set size, where a page that n processes share counts as 1/n, and its anonymous
    memory, which it shares with nobody."""
    split = load_data(trial.victim.dataset, data, torch.device("cpu"))
    for part in (split.train, split.val, split.aux, split.test):
        part.x.sum()
    fields = [line.split() for line in ROLLUP.read_text().splitlines()]
    found = {words[0]: int(words[1]) / 1000 for words in fields if words[0].startswith("Pss")}
    return Outcome("done", f"{found['Pss:']:.0f} ({found['Pss_Anon:']:.0f})")


def sharing(data: Path | None) -> list[str]:
    """Memory of one and of two workers of the local engine that hold the images of a suite."""
    if not ROLLUP.exists():
        return [f"No `{ROLLUP}` on this machine: not measured."]
    name = "cifar10" if data else "quick"
    trial = toml.load(name).victims[0]
    lines = [f"| workers with the images of `{name}` | MB of each (its own) |", "|---|---|"]
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            options = RunOptions(Path(folder), workers=workers, minutes=1)
            engine = Local(partial(_holding, data=data), options)
            for _ in range(2):  # in the second round all workers have their images
                ended: list[str] = []
                for _ in range(workers):
                    engine.submit(trial)
                while len(ended) < workers:
                    ended += [outcome.text for _, outcome in engine.wait(60)]
            engine.close()
        lines.append(f"| {workers} | {', '.join(ended)} |")
    return lines


def _training(trial: Trial, model: str, batch_size: int) -> Outcome:
    """Trains a model for an epoch, and says what the next two take: CPU-seconds, and the highest
    memory of the process in MB."""
    torch.set_num_threads(1)
    split = load_data(trial.victim.dataset, None, torch.device("cpu"))
    start(0)
    victim = victim_of(model, "noise", {"noise": 0.2}, split.shape, split.classes)
    for epochs in (1, 2):
        started = time.process_time()
        train(victim, split, Training(epochs=epochs, batch_size=batch_size, precision=precision()))
    seconds = time.process_time() - started
    return Outcome("done", f"{seconds} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}")


def allocation() -> list[str]:
    """Trainings in a worker that takes memory as the C library does by itself, and as workers do;
    in turn."""
    if platform.libc_ver()[0] != "glibc":
        return ["No GNU C library on this machine: not measured."]
    trial, variable = toml.load("quick").victims[0], next(iter(MEMORY))
    lines = [
        "| two epochs on the images of `quick` | CPU-seconds (highest memory, MB) as the library "
        "does | as workers do | ratio of CPU-seconds |",
        "|---" * 4 + "|",
    ]
    before = os.environ.pop(variable, None)
    for model, batch_size in (("small", 128), ("airbench", 125)):
        work = partial(_training, model=model, batch_size=batch_size)
        found: dict[str, list[list[float]]] = {"": [], MEMORY[variable]: []}
        for _ in range(ROUNDS):
            for setting, measured in found.items():
                os.environ[variable] = setting
                with tempfile.TemporaryDirectory() as folder:
                    engine = Local(work, RunOptions(Path(folder), workers=1, minutes=1))
                    engine.submit(trial)
                    ended: list[str] = []
                    while not ended:
                        ended = [outcome.text for _, outcome in engine.wait(60)]
                    engine.close()
                measured.append([float(number) for number in ended[0].split()])
        theirs, ours = ([median(m) for m in zip(*each, strict=True)] for each in found.values())
        cells = [f"{seconds:.2f} ({peak:.0f})" for seconds, peak in (theirs, ours)]
        lines.append(f"| `{model}` | {cells[0]} | {cells[1]} | {ours[0] / theirs[0]:.3f} |")
    del os.environ[variable]
    if before is not None:
        os.environ[variable] = before
    return lines


if __name__ == "__main__":
    root = os.environ.get("SMASHBENCH_DATA")
    print("\n".join([*sharing(Path(root) if root else None), "", *allocation()]))
