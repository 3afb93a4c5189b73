"""What several processes read is what one reads."""

import gc
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from bench import leaderboard, parallel, tables
from bench.files import DamagedError
from bench.parallel import SHARES, Crew
from bench.plan import survey
from bench.saved import read_suite
from bench.store import Store
from tests.commands import ROOT


def squares(numbers):
    return [(number**2, os.getpid()) for number in numbers]


def square(number):
    return number**2, os.getpid()


@pytest.fixture
def several(monkeypatch):
    monkeypatch.setattr(parallel, "MANY", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.parametrize("count", [0, 1, 7, 4 * SHARES + 1])
def test_results_come_in_order_from_several_processes(several, count):
    with Crew() as crew:
        crew.hire(count)
        found = crew.shares(squares, range(count))
        assert crew.size == (2 if count else 1)
        assert not count or not gc.isenabled()
    assert [value for value, _ in found] == [number**2 for number in range(count)]
    assert gc.isenabled()


def test_the_present_process_does_what_no_other_has_begun(several):
    """The other one is still starting, and has at most what was laid out for it."""
    with Crew() as crew:
        crew.hire(40)
        finish = crew.start(square, range(40))
        found = finish()
    assert [value for value, _ in found] == [number**2 for number in range(40)]
    processes = [process for _, process in found]
    assert processes[-1] == os.getpid()
    assert len(set(processes)) == 2


def die_elsewhere(number):
    if multiprocessing.parent_process():
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def test_what_a_killed_process_leaves_is_done_here(monkeypatch, several):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    with Crew() as crew:
        crew.hire(20, partial(die_elsewhere, 0))
        finish = crew.start(die_elsewhere, range(20))
        while crew.start(square, [0])()[0][1] != os.getpid():
            time.sleep(0.01)  # until the pool is found broken
        assert finish() == [number**2 for number in range(20)]


def test_an_error_ends_it_and_is_raised(several):
    with Crew() as crew:
        crew.hire(9)
        finish = crew.start(math.log, [1, 1, 1, 0, 1, 1, 1, 1, 1])
        with pytest.raises(ValueError, match="math domain error"):
            finish()


HIRING = """
import os, signal, time
from bench import parallel
if __name__ == "__main__":
    parallel.MANY, os.cpu_count = 1, lambda: 3
    with parallel.Crew() as crew:
        crew.hire(9, os.getpid)
        print(*(process.pid for process in crew._pool._processes.values()), flush=True)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_end_with_the_one_that_hired_them(tmp_path):
    (tmp_path / "hiring.py").write_text(HIRING)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, tmp_path / "hiring.py"], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == -signal.SIGKILL
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2
    end = time.time() + 30
    while any(alive(pid) for pid in pids) and time.time() < end:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_few_records_need_no_other_process():
    with Crew() as crew:
        crew.hire(parallel.MANY - 1)
        assert {process for _, process in crew.shares(squares, range(3))} == {os.getpid()}


def test_a_board_and_its_lines_are_the_same(run, tmp_path, request):
    found = []
    for name in ("one", "several"):
        if name == "several":
            request.getfixturevalue("several")
        board, _ = leaderboard.read([run])
        tables.write_records(board, tmp_path / name)
        rows = [(row.label, row.worst("mse"), row.flags) for row in board.rows]
        draws = [row.draws["mse"].tolist() for row in board.rows]
        found.append((rows, draws, board.floors, (tmp_path / name).read_bytes()))
    assert found[0] == found[1]
    assert found[0][-1] == (run / "records.csv").read_bytes()


def test_a_damaged_record_is_named(copy, several):
    path = next((copy / "records").glob("*.json"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedError, match=f"{path.name}: truncated or altered"):
        leaderboard.read([copy])
    standings = survey(read_suite(copy), Store(copy), deep=True)
    assert standings[path.stem].state == "damaged"
    assert standings[path.stem].damage.path == path


def test_a_survey_is_the_same(copy, several, monkeypatch):
    suite, store = read_suite(copy), Store(copy)
    store.record_path(suite.attacks[-1].key).unlink()
    next((copy / "scores").glob("*")).write_bytes(b"")
    found = survey(suite, store, deep=True)
    assert {standing.state for standing in found.values()} == {"done", "missing", "damaged"}
    monkeypatch.setattr(parallel, "MANY", 10**9)
    again = survey(suite, store, deep=True)
    assert {key: standing[:3] for key, standing in found.items()} == {
        key: standing[:3] for key, standing in again.items()
    }


def test_a_survey_without_pictures_asks_only_whether_they_are_there(copy):
    suite, store = read_suite(copy), Store(copy)
    altered, gone = (store.arrays_path(trial.key, "samples") for trial in suite.attacks[:2])
    altered.write_bytes(altered.read_bytes()[:-1])
    gone.unlink()
    for pictures, damaged in ((True, {altered, gone}), (False, {gone})):
        standings = survey(suite, store, deep=True, pictures=pictures)
        found = {standing.damage.path for standing in standings.values() if standing.damage}
        assert found == damaged
