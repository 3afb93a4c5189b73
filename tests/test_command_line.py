"""What a person types, right and wrong."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from smashbench.bench import command, commands
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.suite import toml
from tests.commands import ROOT, bench, started
from tests.forged import write_sound


def test_a_report_on_nothing_is_refused_and_overwrites_nothing(copy, refused):
    before = (copy / "leaderboard.csv").read_bytes()
    shutil.rmtree(copy / "records")
    refused(["report", copy], "no finished trial")
    assert (copy / "leaderboard.csv").read_bytes() == before


def test_damaged_scores_are_refused(copy, refused):
    arrays = next((copy / "scores").glob("*.safetensors"))
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(content)
    refused(
        ["report", copy],
        arrays.name,
        "truncated or altered",
        f"smashbench rerun {copy} makes it anew",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "smok"], ["unknown suite 'smok'; did you mean 'smoke'"]),
        (["run", "smoke", "--set", "defenses.nois={}"], ["did you mean 'noise'"]),
        (
            ["run", "smoke", "--set", "dataset.use=faces"],
            ["unknown option 'aux'", """another dataset: --set 'dataset={use="faces"}'"""],
        ),
        (["run", "smoke", "--workers", "0"], ["--workers 0"]),
        (["run", "cifar10"], ["needs a data folder", "--data", "fetch cifar10"]),
        (["run", "cifar10", "--data", "/nowhere"], ["/nowhere", "fetch cifar10"]),
        (["run", "smoke", "--set", "dataset.train=11"], ["multiples of ten"]),
        (["run", "smoke", "--set", "attacks.gmm.pairs=9999"], ["gmm.pairs = 9999", "give fewer"]),
        (["run", "smoke", "--set", "training.shift=32"], ["training.shift = 32", "give less"]),
        (["run", "smoke", "--set", "start={epochs=1,shift=99}"], ["start.shift = 99", "give less"]),
        (["run", "smoke", "--only", "defense=nois"], ["unknown defense 'nois'; did you mean"]),
        (["run", "smoke", "--only", "attack=ridge"], ["--set 'attacks.ridge={}'"]),
        (["run", "smoke", "--only", "attack"], ["field=value", "--only defense=noise"]),
        (["run", "smoke", "--only", "colour=red"], ["unknown field 'colour'"]),
        (["run", "smoke", "--limit", "0"], ["--limit 0"]),
        (["run", "smoke", "--engine", "slum"], ["unknown engine 'slum'; did you mean 'slurm'"]),
        (["report", "/nowhere"], ["no results folder"]),
        (["status", "/nowhere"], ["no results folder"]),
        (["rerun", "/nowhere", "--failed"], ["no results folder"]),
        (["trial", "abc", "--out", "/nowhere"], ["no results folder"]),
        (["fetch", "cifar"], ["unknown dataset 'cifar'; did you mean 'cifar10'"]),
        (["fetch", "cifar10"], ["--data DIR"]),
    ],
)
def test_bad_input_is_one_clear_error(arguments, words, tmp_path, refused):
    out = ["--out", tmp_path / "out"] if arguments[0] == "run" else []
    refused([*arguments, *out], *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_file_beside_it_that_is_named_like_a_module_is_not_imported(tmp_path):
    """An attack runs in a process of its own, which imports from no folder that it happens to be
    started in."""
    (tmp_path / "random.py").write_text("raise SystemExit('imported by mistake')")
    command = Path(sys.executable).parent / "smashbench"
    small = ["--set", "dataset={use='photos',train=100,val=20,aux=100,test=40}"]
    only = ["--only", "defense=none", "--only", "attack=mean", "--workers", "1", "--out", "out"]
    done = subprocess.run(
        [command, "run", "smoke", *small, *only], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_an_unwritable_output_is_one_clear_error(tmp_path, refused):
    (tmp_path / "file").write_text("in the way")
    refused(
        ["run", "smoke", "--out", tmp_path / "file" / "out"], "cannot write", "use another folder"
    )


@pytest.mark.slow
def test_the_process_ends_with_the_exit_code_and_no_traceback():
    done = bench("run", "smok")
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: unknown suite 'smok'; did you mean 'smoke'? (or give the path of a TOML file)\n"
    )


@pytest.mark.slow
def test_list_shows_every_component_with_a_line():
    done = bench("list")
    assert done.returncode == 0
    for word in ("kmeans_cem", "decoder", "photos", "vgg11", "over_noise", "slurm", "quick"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_make_help_lists_every_target():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    makefile = (ROOT / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY"))
    for target in phony.split()[1:]:
        assert f"  {target}" in text.stdout


@pytest.mark.slow
def test_a_reader_who_leaves_costs_no_report(sound, tmp_path):
    """As `| head -1` does: what is written is written, and the exit code is that of the command."""
    process = started("report", sound, "--out", tmp_path / "again")
    process.stdout.close()
    assert process.wait() == 0, process.stderr.read()
    process.stderr.close()
    assert (tmp_path / "again" / "leaderboard.csv").is_file()


PRINTS = """\
import sys
from smashbench.bench.output import patient
with patient() as output:
    {}"""
TWICE = "\n    ".join(['print("x" * 10**5)', "sys.stdout.flush()"] * 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_standard_output_is_one_error():
    code = f"{PRINTS.format(TWICE)}\nsys.exit(2 if output.full else 0)"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: standard output: No space left on device\n"


def test_standard_output_may_be_closed_and_need_not_know_every_letter():
    code = PRINTS.format('print("\\udcff")')
    closed = subprocess.run(["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, code])
    assert closed.returncode == 0
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert done.stdout == b"\\udcff\n"


def test_a_path_that_nobody_thought_of_is_one_error(refused):
    refused(["report", "x" * 300], "x" * 300, "File name too long")


def test_a_run_into_the_folder_of_an_audit_is_refused(tmp_path, refused):
    """Packs of both have the same name: one would replace the other."""
    (tmp_path / "audit.json").write_text("{}")
    refused(["run", "smoke", "--out", tmp_path], "holds an audit", "another --out")
    write_sound(tmp_path / "sound")
    refused(["report", tmp_path / "sound", "--out", tmp_path], "holds an audit", "another --out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.json", "sound"]


def test_options_of_another_folder_or_suite_are_refused(tmp_path, refused):
    sound, empty = tmp_path / "sound", tmp_path / "empty"
    write_sound(sound)
    key = toml.load("smoke").victims[0].key
    here = ["trial", key, "--out", sound]
    refused([*here, "--suite", "smoke"], "holds another suite: leave out --suite")
    refused([*here, "--set", "seeds=[7]"], "--set needs --suite")
    refused(["report", sound, "--replace"], "--replace is about several folders")
    save_suite(toml.load("smoke"), empty)
    refused(["pack", empty], "holds no finished trial; run the suite first")


def test_to_be_stopped_is_to_be_interrupted(monkeypatch, capfd):
    """As a scheduler does, with SIGTERM."""

    def stopped(_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(commands, "list_all", stopped)
    monkeypatch.setattr(sys, "argv", ["smashbench", "list"])
    try:
        assert command.entry() == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "to begin again: smashbench list" in capfd.readouterr().err


def test_a_report_replaces_no_other_run_and_no_file_of_ones_own(tmp_path, here, refused):
    sound, other, paper = tmp_path / "sound", tmp_path / "other", tmp_path / "paper"
    write_sound(sound)
    write_sound(other)
    before = sorted(other.iterdir())
    refused(["report", sound, "--out", other], "holds a run of its own", "another --out")
    assert sorted(other.iterdir()) == before
    paper.mkdir()
    mine = [paper / name for name in ("knowledge.csv", "optimum.png")]
    for path in mine:
        path.write_text("mine")
    assert here("report", sound, "--out", paper).returncode == 0
    assert [path.read_text() for path in mine] == ["mine", "mine"]
    assert here("report", sound, "--out", paper).returncode == 0  # they may be a report's now
    assert not any(path.exists() for path in mine)


def test_a_run_into_the_folder_of_another_suite_is_refused(tmp_path, refused):
    """Its tables would be gone."""
    write_sound(tmp_path)
    before = (tmp_path / "suite.json").read_bytes()
    refused(["run", "smoke", "--out", tmp_path], "a run of the suite forged", "another --out")
    assert (tmp_path / "suite.json").read_bytes() == before
