"""What a person types, right and wrong."""

import shutil
import subprocess

import pytest

from tests.commands import ROOT, bench


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
        (["run", "smoke", "--workers", "0"], ["--workers 0"]),
        (["run", "cifar10"], ["needs a data folder", "--data", "fetch cifar10"]),
        (["run", "cifar10", "--data", "/nowhere"], ["/nowhere", "fetch cifar10"]),
        (["run", "smoke", "--set", "dataset.train=11"], ["multiples of ten"]),
        (["run", "smoke", "--only", "defense=nois"], ["unknown defense 'nois'; did you mean"]),
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


def test_an_unwritable_output_is_one_clear_error(tmp_path, refused):
    (tmp_path / "file").write_text("in the way")
    refused(
        ["run", "smoke", "--out", tmp_path / "file" / "out"], "cannot write", "use another folder"
    )


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
    for word in ("kmeans_cem", "decoder", "photos", "vgg11", "quick", "K-means CEM"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_make_help_lists_every_target():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    makefile = (ROOT / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY"))
    for target in phony.split()[1:]:
        assert f"  {target}" in text.stdout
