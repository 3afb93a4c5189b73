import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from hypothesis import settings

from smashbench.bench.command import main
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.suite import toml
from smashbench.bench.suite.trial import Suite
from smashbench.datasets import Split
from smashbench.datasets.photos import Photos
from tests.forged import write_sound
from tests.plugged import unplugged
from tests.pretend import registered
from tests.rescored import TINY, again
from tests.sets import write_all

torch.set_num_threads(1)
registered()  # before the first backward pass
settings.load_profile("ci")  # the same examples in every run, however long one takes


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def photos() -> Split:
    return Photos(train=200, val=50, aux=200, test=100).load()


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory) -> None:
    """Decoded sets of tests, and of the processes they start, stay out of the user's cache."""
    os.environ["SMASHBENCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> Iterator[Path]:
    """A data folder with a small copy of every stored data set, for as long as a module of tests
    runs: torchvision's checksums are those of the copies meanwhile. Tests must not change it."""
    folder = tmp_path_factory.mktemp("sets")
    with pytest.MonkeyPatch.context() as patch:
        write_all(folder, patch)
        yield folder


@pytest.fixture
def mine(sets, tmp_path, monkeypatch) -> Path:
    """Copies to damage, and an empty cache."""
    monkeypatch.setenv("SMASHBENCH_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(sets, tmp_path / "sets"))


@pytest.fixture(scope="session")
def data_root() -> Path:
    folder = os.environ.get("SMASHBENCH_DATA")
    if not folder:
        pytest.skip("SMASHBENCH_DATA is not set: no real images to test on")
    return Path(folder)


@pytest.fixture
def here(capsys, monkeypatch):
    """Runs a command in this process, which saves the seconds of its start."""
    monkeypatch.delenv("SMASHBENCH_DATA", raising=False)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        code = main([str(argument) for argument in arguments])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@pytest.fixture
def clean() -> Iterator[None]:
    """For tests that load plug-ins."""
    with unplugged():
        yield


@pytest.fixture
def write(tmp_path):
    """Writes the file of a plug-in."""

    def written(source: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(source)
        return path

    return written


@pytest.fixture
def refused(here):
    """Runs a command that must end with exit code 2 and one message, without a traceback."""

    def check(arguments: list[object], *words: str) -> None:
        done = here(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr
        for word in words:
            assert word in done.stderr

    return check


@pytest.fixture(scope="session")
def run(tmp_path_factory, worker_id) -> Path:
    """A finished run, made once for all processes of the tests, in one of them: what workers would
    need to start takes longer than its trials. Tests must not change it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "results" / "smoke"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.parent / "lock"):
        if not (folder / "report.html").exists():
            suite = toml.load("smoke")
            save_suite(suite, folder)
            again(suite, folder)
            assert main(["report", str(folder)]) == 0
    return folder


@pytest.fixture
def copy(run, tmp_path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


@pytest.fixture
def tiny() -> Suite:
    return toml.load("smoke", TINY)


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory) -> Path:
    """A finished run of ``tiny``. Tests must not change it."""
    folder = tmp_path_factory.mktemp("tiny")
    suite = toml.load("smoke", TINY)
    save_suite(suite, folder)
    again(suite, folder)
    return folder


@pytest.fixture
def tiny_copy(tiny_run, tmp_path) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path / "tiny"))


@pytest.fixture(scope="session")
def sound(tmp_path_factory) -> Path:
    """A small folder of records made by hand. Tests must not change it."""
    folder = tmp_path_factory.mktemp("forged") / "sound"
    write_sound(folder)
    return folder


@pytest.fixture
def folder(sound, tmp_path) -> Path:
    """A copy of it to forge."""
    return Path(shutil.copytree(sound, tmp_path / "forged"))
