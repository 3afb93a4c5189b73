"""The wheel: installed in an environment of its own, used from another directory."""

import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.commands import ROOT

TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_every_folder_of_code_and_every_data_file_is_packaged():
    on_disk = {
        "smashbench." + ".".join(path.parent.relative_to(ROOT).parts)
        for top in ("attacks", "bench", "datasets", "defenses")
        for path in (ROOT / top).rglob("__init__.py")
    }
    assert set(TABLE["packages"]) == on_disk
    assert {name.partition(".")[2] for name in TABLE["package-dir"]} == set(
        TABLE["package-dir"].values()
    )
    data = {
        path
        for top in ("attacks", "bench", "datasets", "defenses")
        for path in (ROOT / top).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    packaged = {
        path
        for name, patterns in TABLE["package-data"].items()
        for pattern in patterns
        for path in ROOT.joinpath(*name.split(".")[1:]).glob(pattern)
    }
    assert data == packaged


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> Path:
    """A fresh environment with the wheel. It borrows the dependencies of this one, but not its
    editable install, and has a `datasets` of its own, as Hugging Face's would be."""
    folder = tmp_path_factory.mktemp("elsewhere")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    source = folder / "source"
    source.mkdir()
    names = ("pyproject.toml", "README.md", "LICENSE", "attacks", "bench", "datasets", "defenses")
    for name in names:
        subprocess.run(["cp", "-r", ROOT / name, source], check=True)
    subprocess.run([*build, "--wheel-dir", folder, source], check=True)
    (wheel,) = folder.glob("smashbench-*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "datasets").mkdir()
    (packages / "datasets" / "__init__.py").write_text("name = 'Hugging Face'\n")
    (packages / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def called(python: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [python, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_is_one_name_beside_another_datasets(elsewhere, tmp_path):
    code = (
        "import datasets, smashbench.datasets, smashbench.bench.command as command;"
        "print(datasets.name, command.__file__, sorted(smashbench.datasets.DATASETS)[0])"
    )
    words = called(elsewhere, tmp_path, "-c", code).split()
    assert words[:2] == ["Hugging", "Face"]
    assert str(elsewhere.parent.parent) in words[2]
    assert words[3] == "cifar10"
    assert "kmeans_cem" in called(elsewhere, tmp_path, "-m", "smashbench.bench", "list")


@pytest.mark.slow
def test_it_runs_a_suite_from_any_directory_and_a_notebook_reads_it(elsewhere, tmp_path):
    small = ("--set", "defenses={none={},noise={strengths=[0.3]}}", "--set", "attacks={mean={}}")
    called(elsewhere, tmp_path, "-m", "smashbench.bench", "run", "smoke", *small)
    assert (tmp_path / "results" / "smoke" / "report.html").is_file()
    code = (
        "from smashbench.bench.report import read;print(*read('results/smoke').to_frame().defense)"
    )
    assert called(elsewhere, tmp_path, "-c", code).split() == ["none", "noise"]


@pytest.mark.slow
def test_the_command_is_declared(elsewhere):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"smashbench": "smashbench.bench.command:entry"}
    found = list(elsewhere.parent.parent.glob("lib/*/site-packages/smashbench-*/entry_points.txt"))
    assert "smashbench = smashbench.bench.command:entry" in found[0].read_text()
