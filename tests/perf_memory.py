"""What decoded images cost the workers of a run in memory: ``python -m tests.perf_memory``."""

import os
import tempfile
from functools import partial
from pathlib import Path

import torch

from smashbench.bench.run.attempt import Outcome
from smashbench.bench.run.engines import RunOptions
from smashbench.bench.run.engines.local import Local
from smashbench.bench.run.perform import load_data
from smashbench.bench.suite import toml
from smashbench.bench.suite.trial import Trial

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


if __name__ == "__main__":
    root = os.environ.get("SMASHBENCH_DATA")
    print("\n".join(sharing(Path(root) if root else None)))
