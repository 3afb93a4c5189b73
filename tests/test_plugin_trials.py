"""Single trials of plug-ins run the file that is given, not the copy in a folder."""

from pathlib import Path

import pytest

from smashbench.bench.run.attempt import attempt
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml
from smashbench.bench.suite.plugins import load_plugin
from smashbench.bench.suite.source import source_of
from tests.plugged import DEFENSE, unplugged

pytestmark = pytest.mark.usefixtures("clean")
EDITED = DEFENSE.replace("z + self.by", "z - self.by")
SETTINGS = (
    *("attacks={mean={}}", "seeds=[0]", "training.epochs=1", "defenses={none={},shift={}}"),
    "dataset={use='photos',train=100,val=20,aux=100,test=40}",
)
SUITE = ("--suite", "smoke", *(word for setting in SETTINGS for word in ("--set", setting)))
STORED = Path("plugins") / "mine.py"


@pytest.fixture
def begun(write, tmp_path) -> tuple[Path, Path, str]:
    """A plug-in that was edited since a folder was begun, that folder, and the key of a victim."""
    folder = tmp_path / "out"
    with unplugged():
        suite = toml.load("smoke", SETTINGS, [write(DEFENSE)])
        save_suite(suite, folder)
    return write(EDITED), folder, suite.victims[-1].key


@pytest.mark.parametrize("suite", [(), SUITE], ids=["of the folder", "named"])
@pytest.mark.parametrize("lost", [False, True], ids=["with a copy", "without"])
def test_a_single_trial_is_of_the_file_that_is_given(begun, suite, lost, here, monkeypatch):
    """A pack has no copy."""
    path, folder, key = begun
    if lost:
        (folder / STORED).unlink()
    ran = []

    def run_single(chosen, keys, options) -> int:
        ran.append((keys, (options.folder / STORED).read_text()))
        return 0

    monkeypatch.setattr("smashbench.bench.run.execute.run_single", run_single)
    assert here("trial", key, "--out", folder, *suite, "--plugin", path).returncode == 0
    assert ran == [([key], EDITED)]
    kept = [each.read_text() for each in folder.glob("plugins/before/*")]
    assert kept == ([] if lost else [DEFENSE])


@pytest.mark.slow
def test_a_trial_of_an_edited_file_has_its_source(begun, here):
    path, folder, key = begun
    done = here("trial", key, "--out", folder, *SUITE, "--plugin", path)
    assert done.stdout == "done: shift 0.5, seed 0\n", done.stderr
    trial = toml.load("smoke", SETTINGS, [path]).victims[-1]
    assert Store(folder).read(key).source == source_of(trial)


def test_a_command_names_the_file_that_was_loaded_and_else_the_copy(begun, here, refused):
    path, folder, _ = begun
    refused(["rerun", folder], f"--plugin {folder / STORED}")
    text = here("status", folder, "--plugin", path).stdout
    assert text.endswith(f"smashbench rerun {folder} --plugin {path}\n")


def test_a_file_that_another_run_replaced_stops_a_worker_with_the_reason(begun, write):
    path, folder, key = begun
    trial = next(each for each in read_suite(folder).victims if each.key == key)
    with unplugged():
        load_plugin(path)
        write(DEFENSE)
        found = attempt(trial, folder=folder, data=None, minutes=1, plugins=[path])
    assert found.state == "stop"
    assert "mine.py: its code was edited while this run was at work" in found.text
