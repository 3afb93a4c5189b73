"""Nothing finished is lost: crashes, kills, full disks, damaged files, two runs at once."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from smashbench.bench.store.store import Store
from tests.commands import bench, started
from tests.survivors import PART, records, same_as_uninterrupted, times, until

DECODER = "decoder={width=16,blocks=1,cycle=10000000,max_steps=10000000}"
"""One cycle that never ends: shorter ones converge, in less than 12 s on a fast machine."""

ENDLESS = f"attacks={{mean={{}},{DECODER}}}"


def workers_of(process: subprocess.Popen) -> list[int]:
    """The processes that run trials for a command."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == process.pid and b"spawn_main" in command:
            found.append(int(entry.name))
    return found


def at_work(folder: Path) -> bool:
    """Whether some trial is being run: a lock of a killed process lies there, and nobody holds
    it."""
    return any(Store(folder).claimed(path.name) for path in folder.glob("locks/*"))


def killed_again_and_again(folder: Path, kills: int, arguments: tuple, done: int) -> None:
    """Starts a run, kills it at a random moment, and so on; then lets one run to its end."""
    chance = random.Random(0)
    before: dict[str, int] = {}
    hits = 0
    for _ in range(kills):
        process = started("run", "smoke", "--out", folder, *arguments)
        # the start of the interpreter is no moment of interest: from the first claim on
        until(lambda p=process: at_work(folder) or p.poll() is not None)
        time.sleep(chance.uniform(0, 2.5))
        hits += at_work(folder)
        orphans = workers_of(process)
        process.kill()
        process.communicate()
        until(lambda pids=orphans: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10)
        after = times(folder)
        assert after.items() >= before.items()  # what was finished was not run again
        before = after
    assert hits >= kills // 2
    last = bench("run", "smoke", "--out", folder, *arguments)
    assert last.returncode == 0, last.stderr
    after = times(folder)
    assert after.items() >= before.items()
    assert len(after) == done


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers in /proc")
def test_a_run_that_is_killed_continues_and_changes_nothing(run, tmp_path):
    killed_again_and_again(tmp_path, 1, PART, 2 + 2 * 2)
    same_as_uninterrupted(tmp_path, run)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers in /proc")
def test_a_run_that_is_killed_many_times(run, tmp_path):
    killed_again_and_again(tmp_path, 12, (), 42)
    same_as_uninterrupted(tmp_path, run)
    assert (tmp_path / "leaderboard.csv").read_bytes() == (run / "leaderboard.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the worker in /proc")
def test_a_killed_worker_costs_its_trial_alone(copy, here):
    one = ("--set", "defenses={none={}}", "--set", ENDLESS, "--workers", 1)
    process = started("run", "smoke", "--out", copy, *one)
    until(
        lambda: process.poll() is not None or any("decoder" in log(copy, n) for n in busy_in(copy))
    )
    (worker,) = workers_of(process)
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 1, err
    assert "SIGKILL" in out
    assert busy_in(copy) == []
    failed = [record for record in records(copy).values() if record["status"] == "failed"]
    assert len(failed) == 1
    assert "killed by SIGKILL, perhaps for lack of memory" in failed[0]["error"]
    status = here("status", copy).stdout
    assert "2 done, 1 failed" in status
    assert "decoder on none, seed 0: its process was killed by SIGKILL" in status


def busy_in(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("locks/*")]


def log(folder: Path, key: str) -> str:
    path = folder / "logs" / f"{key}.log"
    return path.read_text() if path.exists() else ""


@pytest.mark.slow
def test_a_trial_that_hangs_ends_at_its_time_limit(copy, here):
    endless = f"attacks={{{DECODER}}}"
    one = ("--set", "defenses={none={}}", "--set", endless, "--time-limit", 0.4)
    done = here("run", "smoke", "--out", copy, *one)
    assert done.returncode == 1, done.stderr
    (failed,) = [record for record in records(copy).values() if record["status"] == "failed"]
    *trace, reason = failed["error"].splitlines()
    assert reason == "stopped at its time limit of 0:00:24 (hours:minutes:seconds)"
    assert any("attacks/decoder.py" in line for line in trace)  # where it hung
    again = here("rerun", copy, "--failed", "--time-limit", 0.05)
    assert again.returncode == 1
    assert "time limit of 0:00:03" in again.stdout


@pytest.mark.slow
def test_a_failed_trial_is_recorded_and_shown(copy, here):
    too_few = ("--set", "dataset.aux=10", "--set", "attacks.decoder.val_share=0.01")
    one = ("--set", "defenses={none={}}", "--set", "attacks={decoder={val_share=0.01}}")
    done = here("run", "smoke", "--out", copy, "--workers", 1, *one, *too_few)
    assert done.returncode == 1, done.stderr
    assert "1 trials failed" in done.stdout
    assert "missing trials: 1" in done.stdout
    (failed,) = [record for record in records(copy).values() if record["status"] == "failed"]
    assert "too few to hold out" in failed["error"]


@pytest.mark.slow
def test_an_interruption_ends_everything_and_says_how_to_continue(copy):
    one = ("--set", "defenses={none={}}", "--set", ENDLESS)
    process = started("run", "smoke", "--out", copy, *one)
    until(
        lambda: process.poll() is not None or any("decoder" in log(copy, n) for n in busy_in(copy))
    )
    orphans = workers_of(process)
    assert orphans
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"to continue: smashbench run smoke --out {copy} --set" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in orphans)


@pytest.mark.slow
def test_damaged_files_are_named_set_aside_and_redone(copy, run, here):
    """A record cut short, one with another number in it, one under another's name, scores with a
    flipped bit, a checkpoint cut short that an attack still needs."""
    folder = copy / "records"
    before = records(copy)
    attacks = [key for key, record in before.items() if record["parent"]]
    victims = [key for key, record in before.items() if not record["parent"]]
    cut, altered, renamed, other = (folder / f"{key}.json" for key in attacks[:4])
    cut.write_bytes(cut.read_bytes()[:-40])
    altered.write_text(altered.read_text().replace('"mean": 0.0', '"mean": 0.1', 1))
    shutil.copy(other, renamed)
    flipped = copy / "scores" / f"{attacks[4]}.safetensors"
    content = bytearray(flipped.read_bytes())
    content[-1] ^= 1
    flipped.write_bytes(content)
    of_victim = next(key for key in attacks[5:] if before[key]["parent"] == victims[0])
    (folder / f"{of_victim}.json").unlink()
    checkpoint = copy / "victims" / f"{victims[0]}.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    sound = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    done = here("status", copy)
    assert "5 damaged" in done.stdout
    assert f"{altered}: truncated or altered" in done.stdout
    done = here("run", "smoke", "--out", copy)
    assert done.returncode == 0, done.stderr
    redone = {path.stem for path, time in sound.items() if path.stat().st_mtime_ns != time}
    assert redone == {cut.stem, altered.stem, renamed.stem, flipped.stem, victims[0]}
    for path in (cut, altered, renamed, flipped, checkpoint):
        assert f"{path}: " in done.stderr
        assert (copy / "set_aside" / path.relative_to(copy)).exists()
    shutil.rmtree(copy / "set_aside")
    same_as_uninterrupted(copy, run)
    assert (copy / "leaderboard.csv").read_bytes() == (run / "leaderboard.csv").read_bytes()


def test_a_report_refuses_damaged_files(copy, refused):
    record = next((copy / "records").glob("*.json"))
    content = record.read_bytes()
    record.write_bytes(content[:50])
    refused(
        ["report", copy],
        record.name,
        "truncated or altered",
        f"smashbench rerun {copy} makes it anew",
    )
    record.write_bytes(content)
    arrays = next((copy / "scores").glob("*.safetensors"))
    arrays.write_bytes(arrays.read_bytes()[:-1])
    refused(
        ["report", copy],
        arrays.name,
        "truncated or altered",
        f"smashbench rerun {copy} makes it anew",
    )


@pytest.mark.slow
def test_two_runs_at_once_share_the_work(run, tmp_path):
    both = [started("run", "smoke", "--out", tmp_path, "--workers", 1, *PART) for _ in range(2)]
    for process in both:
        _, err = process.communicate()
        assert process.returncode == 0, err
    same_as_uninterrupted(tmp_path, run)
    for path in (tmp_path / "logs").iterdir():
        starts = [line for line in path.read_text().splitlines() if line.startswith("== ")]
        assert len(starts) == 1  # every trial once, by one of them


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 kB, and a function that mounts it again with other options."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting a small file system needs root")

    def remount(options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", tmp_path], check=True)

    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", tmp_path]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    yield tmp_path, remount
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


@pytest.mark.slow
def test_a_full_and_a_read_only_disk(small_disk, run):
    disk, remount = small_disk
    folder = disk / "out"
    full = bench("run", "smoke", "--out", folder, *PART)
    assert full.returncode == 2
    assert "No space left on device); make room or use another folder" in full.stderr
    assert "Traceback" not in full.stderr
    before = times(folder)
    remount("ro")
    locked = bench("run", "smoke", "--out", folder, *PART)
    assert locked.returncode == 2
    assert "Read-only file system" in locked.stderr
    assert "Traceback" not in locked.stderr
    remount("rw,size=50m")
    done = bench("run", "smoke", "--out", folder, *PART)
    assert done.returncode == 0, done.stderr
    assert times(folder).items() >= before.items()
    same_as_uninterrupted(folder, run)
