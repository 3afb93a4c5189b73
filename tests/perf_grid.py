"""What the grid costs around its trials, and how many records a report can take."""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import save
from tqdm import tqdm

from smashbench.bench.run.attempt import Outcome, attempt
from smashbench.bench.run.engines import RunOptions
from smashbench.bench.run.engines.local import Local
from smashbench.bench.run.estimates import Estimates
from smashbench.bench.run.progress import Progress
from smashbench.bench.run.scheduler import Scheduler
from smashbench.bench.store.packs import PACK
from smashbench.bench.store.record import sealed
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml as suite
from smashbench.bench.suite.trial import Trial
from tests.commands import ROOT
from tests.forge import attack_record, victim_record

TRIALS = 1000
BUSY = 0.25
"""Seconds of work of a trial that does something."""
IMAGES = 100
"""Test images of the synthetic records."""


def nothing(trial: Trial, folder: Path) -> Outcome:
    """A whole attempt (claim, log, record) at a trial without work."""
    from smashbench.bench.run import perform

    def empty(trial: Trial, folder: Path, data: object, *, again: bool) -> None:
        Store(folder).write(victim_record(trial))

    perform.perform = empty
    return attempt(trial, folder=folder, data=None, minutes=1)


def busy(trial: Trial) -> Outcome:
    """A fixed amount of arithmetic on one thread."""
    end = time.thread_time() + BUSY
    while time.thread_time() < end:
        np.ones((200, 200)) @ np.ones((200, 200))
    return Outcome("done")


def no_call(trial: Trial) -> Outcome:
    return Outcome("done")


def grid() -> list[str]:
    """Milliseconds that a trial without work takes, and what a second worker brings."""
    victims = suite.load("smoke", [f"seeds={list(range(TRIALS))}"]).victims[:TRIALS]
    lines = ["| trials | 1 worker | 2 workers | ratio |", "|---|---|---|---|"]
    for name, work, trials in (
        ("no work, sent to a worker and back, ms", no_call, victims),
        ("no work, with claim, log and record, ms", nothing, victims),
        (f"{1000 * BUSY:.0f} ms of arithmetic, ms", busy, victims[:60]),
    ):
        times = []
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                place = partial(nothing, folder=Path(folder)) if work is nothing else work
                engine = Local(place, RunOptions(Path(folder), workers=workers, minutes=1))
                for trial in trials[:workers]:  # the start of the workers is not counted
                    engine.submit(trial)
                ready = 0
                while ready < workers:
                    ready += len(engine.wait(60))
                started = time.perf_counter()
                todo = trials[workers:]
                scheduler = Scheduler(todo, Store(Path(folder)), engine, Estimates([], {}))
                with closing(Progress(len(todo), 0, 0)) as progress:
                    scheduler.run(progress)
                assert not scheduler.failed
                times.append(1000 * (time.perf_counter() - started) / len(todo))
                engine.close()
        ratio = times[0] / times[1]
        lines.append(f"| {name} | {times[0]:.2f} | {times[1]:.2f} | {ratio:.2f} |")
    return lines


def records(total: int = 10_000, seeds: int = 5, attacks: int = 19, sweep: int = 25) -> list[str]:
    """Seconds and memory of commands on a folder of ``total`` synthetic records, which the
    operating system has in memory: the commands are measured, not the disk."""
    lines = ["| records | command | seconds | GB |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for size in (total // 100, total // 10, total):
            place = Path(folder) / "many"
            _synthesize(place, size, seeds, attacks, sweep)
            for command in ("status", "report", "pack", "status", "report"):
                for path in [place / PACK, *place.glob("records/*"), *place.glob("scores/*")]:
                    with suppress(FileNotFoundError):
                        path.read_bytes()
                packed = ", packed" if (place / PACK).exists() else ""
                seconds, gigabytes = _measured(command, place)
                memory = f"{gigabytes:.2f}" if gigabytes else "not measured"  # off Linux
                lines.append(f"| {size:,} | {command}{packed} | {seconds:.1f} | {memory} |")
            subprocess.run(["rm", "-r", place], check=True)
    return lines


def _synthesize(place: Path, size: int, seeds: int, attacks: int, sweep: int) -> None:
    """A folder like one that a run would have left, of records made by hand."""
    rows = max(1, size // seeds // (attacks + 1))
    strengths = [round(0.01 * (n + 1), 2) for n in range(min(sweep, rows))]
    labels = [f"defense_{n}" for n in range(rows // len(strengths))]
    file = place.parent / "many.toml"
    smoke = (suite.SUITES / "smoke.toml").read_text()
    text = smoke.split("[defenses.none]")[0]
    text = text.replace("seeds = [0]", f"seeds = {list(range(seeds))}") + "[defenses.none]\n"
    text += "".join(
        f"[defenses.{label}]\nuse = 'noise'\nstrengths = {strengths}\n" for label in labels
    )
    file.write_text(text + "".join(f"[attacks.knn_{n}]\nuse = 'knn'\n" for n in range(attacks)))
    many = suite.load(str(file))
    save_suite(many, place)
    for name in ("records", "scores", "samples"):
        (place / name).mkdir()
    rng = np.random.default_rng(0)
    for trial in tqdm(many.trials, leave=False, disable=None):
        if trial.parent:
            scores = {
                "mse": rng.uniform(0.005, 0.05, IMAGES).astype(np.float32),
                "ssim": rng.uniform(0.2, 0.8, IMAGES).astype(np.float32),
            }
        else:
            scores = {"correct": rng.integers(0, 2, IMAGES).astype(np.float32)}
        names = {"samples": 8, "users": 2, "users_original": 2}
        samples = {
            name: rng.integers(0, 255, (n, 3, 32, 32), np.uint8) for name, n in names.items()
        }
        arrays = {"scores": save(scores), "samples": save(samples)}
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in arrays.items()}
        make = attack_record if trial.parent else victim_record
        record = make(trial, *(float(each.mean()) for each in scores.values()), arrays=hashes)
        text = json.dumps(record.model_dump(mode="json"), indent=1)
        Store(place).record_path(trial.key).write_bytes(sealed(text.encode()))
        for name, content in arrays.items():
            Store(place).arrays_path(trial.key, name).write_bytes(content)


def _measured(command: str, place: Path) -> tuple[float, float]:
    """Seconds of a command, the fastest of three runs (one of ``pack``, which changes the folder),
    and the peak memory (GB) of its processes, seen ten times a second in another run, of ``pack``
    on a copy: to look takes time."""
    watched = place
    if command == "pack":
        watched = Path(shutil.copytree(place, place.with_name("copy")))
    arguments = [sys.executable, "-m", "smashbench.bench", command, str(place)]
    seconds, peak = float("inf"), 0
    for _ in range(1 if command == "pack" else 3):
        started = time.perf_counter()
        subprocess.run(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        seconds = min(seconds, time.perf_counter() - started)
    process = subprocess.Popen(
        [*arguments[:-1], str(watched)], cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None:
        peak = max(peak, _resident(process.pid))
        time.sleep(0.1)
    assert process.returncode == 0
    if watched != place:
        shutil.rmtree(watched)
    return seconds, peak / 1e9


def _resident(session: int) -> int:
    """Bytes in memory of all processes of a session; what they share counts once."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                lines = (path / "smaps_rollup").read_text().splitlines()
                total += next(1024 * int(line.split()[1]) for line in lines if line[:4] == "Pss:")
    return total
