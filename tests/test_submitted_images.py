"""Which images `submit-check` loads for a submission, and what it says of the others."""

import json
import os

import pytest

from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.submitting import check as checking
from smashbench.bench.submitting import images
from smashbench.bench.submitting.check import check
from smashbench.bench.submitting.finding import Finding
from smashbench.bench.submitting.images import LARGEST, images_of
from smashbench.bench.suite import toml
from smashbench.bench.suite.config import Component
from smashbench.bench.suite.options import resolve
from smashbench.datasets import DATASETS, DatasetError
from smashbench.datasets.image_folder import ImageFolder

LOADED = object()
SMOKE = toml.load("smoke")


def component(name: str, **options) -> Component:
    return Component(name=name, options=resolve(DATASETS[name], {}) | options)


@pytest.fixture
def untouched(monkeypatch):
    """No image is loaded: what would be is noted."""
    asked = []

    def load(dataset, data, device):
        asked.append(dataset)
        return LOADED

    monkeypatch.setattr(images, "load_data", load)
    return asked


def foreign(folder, dataset: Component):
    """A results folder that says that its images are these."""
    path = folder / "suite.json"
    content = json.loads(path.read_text())
    for victim in content["victims"]:
        victim["dataset"] = dataset.model_dump(mode="json")
    path.write_text(json.dumps(content))
    return folder


def told(folder, board=None) -> list[Finding]:
    return [each for each in check(folder, board) if "trials have not been run" not in each.text]


def test_options_that_no_suite_could_have_are_a_problem(folder, untouched):
    """More images than a machine holds are no traceback, and nothing is made of them."""
    found = told(foreign(folder, component("photos", train=10**13)))
    wanted = "no suite could have its data set: photos.train = 10000000000000: "
    assert any(each.kind == "PROBLEM" and wanted in each.text for each in found)
    for options in ({}, {"nonsense": 1}):
        finding = images_of(Component(name="photos", options=options), None, None)
        assert finding.kind == "PROBLEM"
    assert not untouched


def test_a_folder_of_the_author_is_not_looked_into(folder, tmp_path, monkeypatch):
    """Neither by an absolute path, nor by one that leads out of the data folder."""
    (tmp_path / "h").mkdir()
    before, seen = os.walk, []
    monkeypatch.setattr(ImageFolder, "load", lambda *_: seen.append("load"))
    monkeypatch.setattr(os, "walk", lambda *a, **k: (seen.append("walk"), before(*a, **k))[1])
    absolute = component("image_folder", folder=str(tmp_path / "h"))
    found = told(foreign(folder, absolute))
    assert any(each.kind == "PROBLEM" and "a place on its author's" in each.text for each in found)
    out = images_of(component("image_folder", folder="../h"), tmp_path, None)
    assert out.kind == "note"
    assert "no built-in suite has a data set with folder = '../h'" in out.text
    assert not seen


def test_without_a_board_what_is_usual_is_loaded(untouched):
    usual = [
        *toml.datasets(),
        component("photos", train=LARGEST, seed=2**60),
        component("cifar10", split="xia2025", seed=1),
    ]
    for dataset in usual:
        assert images_of(dataset, None, None) is LOADED
    assert untouched == usual
    for dataset in (
        component("photos", train=LARGEST + 10),
        component("tiny_imagenet", classes=["n01443537", 500 * "n"]),
    ):
        finding = images_of(dataset, None, None)
        assert finding.kind == "note"
        assert "give the --board that has it" in finding.text
        assert len(finding.text) < 300
    assert untouched == usual


def test_beside_a_board_its_images_alone_are_loaded(untouched, tmp_path):
    """Those of the board whatever they are: its keeper chose them."""
    unlike = component("photos", train=500)
    finding = images_of(unlike, None, SMOKE)
    assert finding == Finding("note", "nothing was scored again: its data set is not the board's")
    ours = component("image_folder", folder=str(tmp_path))
    settings = [f"dataset={{use='image_folder',folder='{tmp_path}'}}"]
    for dataset, board in ((SMOKE.victims[0].victim.dataset, SMOKE), (ours, settings)):
        suite = board if board is SMOKE else toml.load("smoke", board)
        assert images_of(dataset, None, suite) is LOADED
    assert len(untouched) == 2


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (MemoryError("7 TiB"), "PROBLEM", "its images cannot be loaded: MemoryError: 7 TiB"),
        (RuntimeError("not enough memory"), "PROBLEM", "cannot be loaded: RuntimeError: not"),
        (DatasetError("give --data DIR"), "note", "the images are not here: give --data DIR"),
    ],
)
def test_images_that_cannot_be_loaded_are_one_line(monkeypatch, error, kind, words):
    def load(*_):
        raise error

    monkeypatch.setattr(images, "load_data", load)
    finding = images_of(SMOKE.victims[0].victim.dataset, None, None)
    assert finding.kind == kind
    assert words in finding.text


def test_a_data_set_of_a_plugin_asks_for_it():
    finding = images_of(Component(name="theirs", options={}), None, None)
    assert finding == Finding(
        "note", "nothing was scored again: no data set 'theirs'; give its --plugin"
    )


def test_whatever_goes_wrong_is_one_problem_after_what_was_found(folder, monkeypatch):
    def broken(folder, board, data):
        yield Finding("ok", "so far")
        raise MemoryError(f"too much in {read_suite(folder).name}\n\n0 problems")

    monkeypatch.setattr(checking, "check_suite", broken)
    found = check(folder)
    assert found == [
        Finding("ok", "so far"),
        Finding(
            "PROBLEM",
            "nothing else could be checked: MemoryError: too much in forged 0 problems",
        ),
    ]
