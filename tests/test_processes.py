"""What the processes that compute are started with."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from smashbench.bench.processes import MEMORY, ONE_THREAD, environment
from smashbench.bench.run.attempt import Outcome
from smashbench.bench.run.engines import RunOptions
from smashbench.bench.run.engines.local import Local
from smashbench.bench.suite.trial import Trial
from tests.forge import victim_trial

TOUCHED = """
from resource import RUSAGE_SELF, getrusage
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytearray(b"x") * (40 << 20)
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""
"""20 times 40 MiB are taken, written to and freed; prints how often the system gave a page."""


def _faults(memory: dict[str, str]) -> int:
    shared = {name: value for name, value in os.environ.items() if name not in MEMORY}
    command = [sys.executable, "-c", TOUCHED]
    return int(subprocess.run(command, env=shared | memory, capture_output=True, check=True).stdout)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or float(platform.libc_ver()[1]) < 2.36,
    reason="the GNU C library's variable, and older ones know no such threshold",
)
def test_what_is_freed_is_kept_for_the_next_step():
    assert _faults({}) > 20 * 40 // 2  # whatever a page is, up to 2 MiB
    assert _faults(MEMORY) * 10 < _faults({})


def test_who_has_said_how_memory_is_taken_is_obeyed(monkeypatch):
    for name in MEMORY:
        monkeypatch.delenv(name, raising=False)
    assert environment() == ONE_THREAD | MEMORY
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert environment() == ONE_THREAD | {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}


def _told(trial: Trial) -> Outcome:
    return Outcome("done", repr([os.environ.get(name) for name in environment()]))


def test_workers_are_started_with_it(tmp_path, monkeypatch):
    for name in ONE_THREAD | MEMORY:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # so that what the engine sets is undone
        monkeypatch.delenv(name)
    engine = Local(_told, RunOptions(Path(tmp_path), workers=1, minutes=1))
    engine.submit(victim_trial())
    ended: list[str] = []
    while not ended:
        ended = [outcome.text for _, outcome in engine.wait(60)]
    engine.close()
    assert ended == [repr([*ONE_THREAD.values(), *MEMORY.values()])]
