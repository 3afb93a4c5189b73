"""Inputs that once broke it: each is one clear error, or does the right thing."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.report import read
from smashbench.bench.store import locks
from smashbench.bench.store.files import write_whole
from smashbench.bench.store.locks import is_locked, lock
from smashbench.bench.store.pack import pack
from smashbench.bench.store.packs import PACK
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml

BIG = "1" + 400 * "0"
SETTINGS = [
    (f"seeds=[{BIG}]", "seeds.0 = 1000"),
    (f"seeds=[{5000 * '1'}]", "seeds = "),
    (f"dataset.seed={BIG}", "dataset.seed = 1000.*less than"),
    ("dataset.train=100000000000", "dataset.train = 100000000000.*less than or equal to 10000000"),
    ("dataset={use='image_folder',size=160000}", "dataset.size = 160000.*less than or equal to"),
    ('defenses={"=1+1"={use="noise"}}', "begins with a letter or a digit"),
    ('defenses={"-noise"={use="noise"}}', "begins with a letter or a digit"),
    ('defenses={"$x^$"={use="noise"}}', "begins with a letter or a digit"),
    ('defenses={"a\\u0007b"={use="noise"}}', "begins with a letter or a digit"),
    ('attacks={"a\\nb"={use="gmm"}}', "begins with a letter or a digit"),
    (f"attacks.{5000 * 'a'}={{}}", "at most 200 others"),
    ("defenses.noise.strengths=[0.1, 0.1000000001]", r"0\.1 is there twice, in the six digits"),
]


@pytest.mark.parametrize(("setting", "words"), SETTINGS)
def test_absurd_settings_are_one_short_error(setting, words, here):
    done = here("run", "smoke", "--dry-run", "--set", setting)
    assert done.returncode == 2
    assert re.search(words, done.stderr, re.S), done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 1500


def test_mathematics_in_a_label_is_text(here):
    done = here("run", "smoke", "--dry-run", "--set", 'defenses={"a $x^$"={use="noise"}}')
    assert done.returncode == 0
    assert "a $x^$" in done.stdout


def test_a_suite_has_a_name_that_can_be_shown(tmp_path, refused):
    path = tmp_path / "my\u200dsuite.toml"
    path.write_text((toml.SUITES / "smoke.toml").read_text())
    refused(["run", path, "--dry-run"], "a suite has the name of its file: rename it")


def test_a_suite_may_begin_with_a_mark_of_its_encoding(tmp_path, here):
    path = tmp_path / "mine.toml"
    path.write_text("\ufeff" + (toml.SUITES / "smoke.toml").read_text(), "utf-8")
    assert here("run", path, "--dry-run").returncode == 0
    path.write_text(f"seeds = [{5000 * '1'}]")
    done = here("run", path, "--dry-run")
    assert done.returncode == 2
    assert "is not TOML" in done.stderr
    path.write_bytes(b"\xff\xfe\x00")
    assert "is not TOML" in here("run", path, "--dry-run").stderr


def test_long_names_are_shortened():
    assert len(unknown("attack", 5000 * "x", ["gmm"])) < 300


@pytest.mark.parametrize("text", ["=1", " =1", "mem"])
def test_a_resource_has_a_name_and_a_value(text, refused):
    refused(["run", "smoke", "--resource", text], "write name=value")


def test_the_list_separates_long_names(here):
    for line in here("list").stdout.splitlines():
        if line.startswith("  ") and line[2] != " ":  # not the rest of a long text
            name, _, text = line[2:].partition(" ")
            assert name
            assert text.strip()


class ReadOnly:
    """What the operating system says where nothing can be written; root may write anywhere."""

    def __init__(self, path: Path) -> None:
        pass

    def acquire(self, **options: object) -> None:
        raise PermissionError(13, "Permission denied")


def test_status_works_where_nothing_can_be_written(folder, monkeypatch, here, refused):
    (folder / "locks").mkdir()
    key = read_suite(folder).victims[0].key
    Store(folder).record_path(key).unlink()
    (folder / "locks" / key).touch()  # left by a run that was killed
    monkeypatch.setattr(locks, "FileLock", ReadOnly)
    done = here("status", folder)
    assert done.returncode == 0
    assert "running" not in done.stdout
    refused(["pack", folder], "cannot write", "Permission denied", "use another folder")


def test_a_lock_that_is_held_is_seen_by_reading_alone(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    code = (
        "import sys, time; from smashbench.bench.store.locks import lock; from pathlib import Path"
    )
    code += "\nwith lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        process.stdout.readline()
        assert is_locked(path)
        monkeypatch.setattr(locks, "FileLock", ReadOnly)
        assert is_locked(path)
    finally:
        process.kill()
        process.communicate()
    assert not is_locked(path)


def test_a_reader_that_was_opened_before_a_pack_reads_on(folder):
    """Before the first one, and before the next."""
    suite, reader = read_suite(folder), Store(folder)
    keys = [trial.key for trial in suite.trials if reader.finished(trial.key)]
    pack(folder)
    assert all(map(reader.finished, keys))
    again = reader.finished(keys[0])
    assert again
    reader.write(again.model_copy(update={"machine": {"device": "other"}}))
    pack(folder)
    found = reader.finished(keys[0])
    assert found
    assert found.machine == {"device": "other"}


def test_a_killed_pack_leaves_nothing_behind_for_long(folder):
    rest = folder / f".{PACK}.0123abcd.part"
    rest.write_bytes(b"half")
    with lock(folder / "locks" / PACK), pytest.raises(BenchError, match="being packed"):
        in_another_process(folder)
    pack(folder)
    assert not rest.exists()


def in_another_process(folder: Path) -> None:
    """A lock is of a process: this one would get it again."""
    code = "import sys; from smashbench.bench.command import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "pack", folder], capture_output=True, text=True, check=False
    )
    raise BenchError(done.stderr)


def test_files_are_as_private_as_the_umask_says(tmp_path):
    for mask in (0o077, 0o027, 0o022):
        before = os.umask(mask)
        try:
            write_whole(tmp_path / "x", b"x")
        finally:
            os.umask(before)
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o666 & ~mask


COMMANDS = {
    "smashbench run smoke --set 'seeds=[0]'": "smashbench run smoke --set 'seeds=[0]'",
    "smashbench run smoke; rm -rf ~": "smashbench run 'smoke;' rm -rf '~'",
    "smashbench run $(reboot)": "smashbench run '$(reboot)'",
    "rm -rf ~": "",
    "smashbench run 'x": "",
    "smashbench run a\nreboot": "",
    "": "",
}


@pytest.mark.parametrize(("command", "shown"), COMMANDS.items())
def test_a_foreign_command_is_shown_only_as_a_run_of_this_program(folder, command, shown):
    path = folder / "suite.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"command": command}))
    assert read_suite(folder).command == shown


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("head"), reason="no head")
def test_a_reader_that_has_seen_enough_is_no_error(folder):
    code = "import sys; from smashbench.bench.command import entry; "
    code += "sys.argv[1:] = ['status', sys.argv[1]]; sys.exit(entry())"
    done = subprocess.run(
        f"'{sys.executable}' -c \"{code}\" '{folder}' | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_rows_that_nobody_asked_for_are_not_spoken_of(copy, here):
    """As after `--only defense=none`."""
    suite, store = read_suite(copy), Store(copy)
    for trial in suite.trials:
        if trial.victim.defense.label != "none":
            store.record_path(trial.key).unlink()
    report = here("report", copy).stdout
    assert "rows of the suite that have not been begun: 6" in report
    assert "noise" not in report.split("not been begun")[0]
    status = here("status", copy).stdout
    assert "36 trials of rows that have not been begun: noise" in status
    assert status.count("kmeans_cem") == 1
    same = here("compare", copy, copy)
    assert same.stdout == "1 row in both: none moved\n"
    board = read(copy)
    assert [row.label for row in board.rows] == ["none"]
    assert len(board.waiting) == 6
    assert (copy / "leaderboard.csv").read_text().count("\n") == 2
    page = (copy / "report.html").read_text()
    assert "kmeans_cem" not in page
    assert "Rows of the suite that have not been begun: 6" in page


@pytest.mark.slow
def test_a_run_with_nothing_to_do_says_so(copy, here):
    done = here("run", "smoke", "--out", copy, "--only", "attack=mean")
    assert f"nothing to do: all that was asked for is done in {copy}" in done.stdout


def test_a_row_is_reproduced_in_a_folder_of_its_own(run):
    text = (run / "report.html").read_text()
    assert "smashbench run smoke --out again --only defense=none</code>" in text
