"""What `submit-check` accepts, what it refuses, and why."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.scoring import score
from smashbench.bench.report.rows import read
from smashbench.bench.run.perform import load_data
from smashbench.bench.store.pack import pack
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store
from smashbench.bench.submitting.check import check
from smashbench.bench.submitting.scores import _agrees, scored_alike
from smashbench.bench.submitting.suites import TELL, _otherwise, _summaries
from smashbench.bench.suite.toml import load as load_suite
from tests.submitted import DEFENSE, submission


def problems(path, board=None):
    return [each.text for each in check(path, board) if each.kind == "PROBLEM"]


def texts(path, kind, board=None):
    return " | ".join(each.text for each in check(path, board) if each.kind == kind)


@pytest.fixture
def sent(copy, tmp_path):
    """A pack and nothing else, as somebody sends it."""
    pack(copy, reconstructions=True)
    return shutil.copyfile(copy / "packed.zip", tmp_path / "sent.zip")


@pytest.mark.slow
def test_a_whole_run_can_stand_beside_itself(sent, run):
    assert problems(sent, run) == []
    good = texts(sent, "ok", run)
    attacks = len(read_suite(run).attacks)
    assert f"{attacks} of {attacks} attacks were scored again, and agree" in good
    assert "the same images, model, training, seeds and attacks" in good


def test_a_pack_alone_is_a_results_folder(sent, run, tmp_path):
    folder = tmp_path / "alone"
    folder.mkdir()
    shutil.copyfile(sent, folder / "packed.zip")
    assert read_suite(folder) == read_suite(run)
    assert read(folder).to_frame().equals(read(run).to_frame())


def altered(run, folder, change, attack=0):
    """The run with the scores of an attack changed, sealed again as an author could."""
    shutil.copytree(run, folder)
    store = Store(folder)
    record = store.finished(read_suite(folder).attacks[attack].key)
    values = load(store.content(store.arrays_name(record.key, "scores")))
    hashes = store.write_arrays(record.key, {"scores": save(values | change(values))})
    store.write(record.model_copy(update={"arrays": record.arrays | hashes}))
    return folder


@pytest.mark.slow
def test_scores_that_were_changed_are_found(run, tmp_path):
    """All to twice their value, and the record's mean with them or not: neither passes."""
    folder = altered(run, tmp_path / "one", lambda found: {"mse": found["mse"] * np.float32(2)})
    found = problems(folder)
    assert any("or flags than those of their scores" in text for text in found)
    assert any("other scores than their reconstructions" in text for text in found)


def test_other_numbers_of_a_record_than_those_of_its_scores_are_found(run, tmp_path):
    """Of what is derived from scores, and of metrics that compare images with each other, too."""
    folder = altered(run, tmp_path / "one", lambda found: {})
    suite, store = read_suite(folder), Store(folder)
    assert next(iter(_summaries(suite, store))).kind == "ok"
    record = store.attack(suite.attacks[0].key)
    psnr = record.metrics["psnr"].model_copy(update={"mean": 1.0})
    for changes in (
        {"metrics": record.metrics | {"psnr": psnr}},
        {"means": record.means | {"rank_1": 0.0}},
        {"means": {}},
        {"means": record.means | {"another": 0.5}},
        {
            "metrics": record.metrics
            | {"psnr": record.metrics["psnr"].model_copy(update={"q05": 1})}
        },
        {"flags": ["not_converged", "attack_failed"]},
    ):
        store.write(record.model_copy(update=changes))
        (found,) = _summaries(suite, Store(folder))
        assert "1 records say other means" in found.text


def test_scores_of_fewer_images_than_reconstructions_are_a_problem(run, tmp_path):
    folder = altered(run, tmp_path / "one", lambda found: {n: v[:-1] for n, v in found.items()})
    record = Store(folder).attack(read_suite(folder).attacks[0].key)
    split = load_data(read_suite(folder).victims[0].victim.dataset, None, torch.device("cpu"))
    assert not _agrees(record, Store(folder), split)


def test_rounding_moves_the_fine_structure_of_smooth_images_and_is_no_lie():
    """Their fine structure varies so little that the rounding to 8 bits is a part of it."""
    torch.manual_seed(0)
    coarse = torch.rand(2, 60, 3, 3, 3) * 0.6 + 0.2
    x, other = (torch.nn.functional.interpolate(c, (32, 32), mode="bicubic") for c in coarse)
    x = x + 0.01 * torch.randn_like(x)
    guess = 0.7 * x + 0.3 * other
    pixels = (guess * 255).round().byte()
    said = score(x, guess, METRICS.keys())
    fine = [score(x, each, ["fvu_fine"])["fvu_fine"].mean() for each in (guess, pixels / 255)]
    assert fine[1] - fine[0] > 0.01
    assert scored_alike(x, pixels, said)
    said["fvu_fine"] = 3 * said["fvu_fine"]
    assert not scored_alike(x, pixels, said)


@pytest.mark.parametrize(("attack", "told"), [("mean", False), ("decoder", True)])
def test_who_is_nearest_is_compared_where_reconstructions_differ(run, tmp_path, attack, told):
    """The mean image is one image: after the rounding to 8 bits it may be nearest to another."""
    suite = read_suite(run)
    number = [trial.attack.label for trial in suite.attacks].index(attack)
    folder = altered(run, tmp_path / "one", lambda f: {"rank_1": 1 - f["rank_1"]}, number)
    store = Store(folder)
    split = load_data(suite.victims[0].victim.dataset, None, torch.device("cpu"))
    assert _agrees(store.attack(suite.attacks[number].key), store, split) is not told


@pytest.mark.slow
def test_two_exchanged_scores_leave_the_mean_and_are_found(run, tmp_path):
    def exchanged(found):
        mse, order = found["mse"], np.argsort(found["mse"])
        swapped = mse.copy()
        swapped[order[[0, -1]]] = mse[order[[-1, 0]]]
        return {"mse": swapped}

    (text,) = problems(altered(run, tmp_path / "two", exchanged))
    assert "other scores than their reconstructions" in text


@pytest.mark.slow
def test_another_floor_is_found(run, tmp_path):
    """FVU would be half of what it is."""
    shutil.copytree(run, tmp_path / "floor")
    store = Store(tmp_path / "floor")
    for trial in read_suite(run).victims:
        record = store.victim(trial.key)
        twice = {**record.floors["mean_image"], "mse": 2 * record.floors["mean_image"]["mse"]}
        store.write(record.model_copy(update={"floors": {**record.floors, "mean_image": twice}}))
    assert any("FVU is relative to another error" in text for text in problems(store.folder))


def test_what_is_missing_damaged_or_old_is_named(run, tmp_path):
    shutil.copytree(run, tmp_path / "gaps")
    store, suite = Store(tmp_path / "gaps"), read_suite(run)
    store.record_path(suite.attacks[0].key).unlink()
    old = store.finished(suite.attacks[1].key)
    store.write(old.model_copy(update={"source": 16 * "f"}))
    damaged = suite.attacks[2]
    store.arrays_path(damaged.key, "scores").write_bytes(b"")
    found = problems(store.folder)
    assert any(TELL["missing"] in text and suite.attacks[0].label in text for text in found)
    assert any(TELL["outdated"] in text and suite.attacks[1].label in text for text in found)
    assert any(TELL["damaged"] in text and damaged.label in text for text in found)
    assert any(f"{damaged.key}.safetensors: truncated or altered" in text for text in found)


@pytest.mark.slow
def test_rows_of_which_nothing_was_run_are_no_part_of_it(run, tmp_path):
    """As after `--only defense=mine` on the suite of a board; one that was begun is to be whole."""
    shutil.copytree(run, tmp_path / "only")
    store, suite = Store(tmp_path / "only"), read_suite(run)
    left, kept = (trial.row for trial in suite.victims[:2])
    for trial in suite.trials:
        if trial.row == left:
            store.record_path(trial.key).unlink()
    assert problems(store.folder, run) == []
    assert f"rows of the suite that were not run: {left}" in texts(store.folder, "note")
    assert ("no_control" in texts(store.folder, "note")) == (left == "none")
    assert "no_control" not in texts(store.folder, "note", run)
    first = next(trial for trial in suite.attacks if trial.row == kept)
    store.record_path(first.key).unlink()
    (found,) = problems(store.folder)
    assert TELL["missing"] in found
    assert first.label in found


@pytest.mark.slow
def test_another_training_seed_or_attack_than_the_boards_is_named(run, tmp_path):
    other = submission(run, tmp_path / "other", training={"epochs": 7}, label="mine")
    assert any("another training than the board's: mine" in text for text in problems(other, run))
    weak = submission(run, tmp_path / "weak", attack={"gmm": {"components": 1}}, label="mine")
    assert any("attacked in more ways" in text and "gmm" in text for text in problems(weak, run))


def test_what_begins_with_other_weights_than_the_board_is_named():
    """A hundred undefended epochs first are another training."""
    board, ours = load_suite("smoke"), load_suite("smoke", ["start={epochs=100}"])
    (found,) = _otherwise(ours, board)
    assert "another start than the board's: none" in found.text
    assert not list(_otherwise(ours, ours))


def test_seeds_and_attacks_are_those_of_every_row():
    board = load_suite("smoke", ["seeds=[0, 1]"])
    short = next(trial for trial in board.victims if trial.victim.seed == 1)
    ours = replace(board, victims=tuple(trial for trial in board.victims if trial != short))
    (found,) = _otherwise(ours, board)
    assert found.text == f"the board has victims of seed 1, too: {short.row}"
    more = list(_otherwise(board, load_suite("smoke", ["seeds=[1]"])))
    assert [each.text.split(",")[0] for each in more] == ["the board has no victims of seed 0"]
    label = board.attacks[0].attack.label
    left = [trial for trial in board.attacks if trial.attack.label != label or trial.row != "none"]
    (found,) = _otherwise(replace(board, attacks=tuple(left)), board)
    assert found.text.endswith(f"({label}, attack seed 0): none")


def test_a_defense_may_decide_the_width_of_the_network_and_nothing_else_may():
    narrow = "defenses={none={},bottleneck={strengths=[3]}}"
    board, ours = load_suite("smoke"), load_suite("smoke", [narrow])
    assert not [each for each in _otherwise(ours, board) if "model" in each.text]
    both = load_suite("smoke", [narrow])  # a board with such a row allows no other to be as narrow
    thin = load_suite("smoke", ["model.channels=3", "defenses={noise={strengths=[0.1]}}"])
    found = [each.text for each in _otherwise(thin, both)]
    assert any("another model than the board's: noise 0.1" in text for text in found)
    alone = load_suite("smoke", ["defenses={bottleneck={strengths=[3]}}"])  # no measure of a width
    assert not [each for each in _otherwise(board, alone) if "model" in each.text]


def test_a_damaged_pack_is_one_problem_that_names_it(sent):
    content = bytearray(sent.read_bytes())
    content[len(content) // 2] ^= 255
    sent.write_bytes(content)
    for broken in (bytes(content), b"no zip"):
        sent.write_bytes(broken)
        (text,) = problems(sent)
        assert f"{sent}: truncated or altered" in text


def test_what_is_no_submission_is_an_error_with_a_hint(run, tmp_path):
    with pytest.raises(BenchError, match="smashbench pack DIR"):
        check(tmp_path / "nothing.zip")
    with pytest.raises(BenchError, match="is no results folder"):
        check(run, tmp_path)


@pytest.mark.slow
def test_the_command_exits_with_1_where_there_is_a_problem(run, here, tmp_path):
    done = here("submit-check", run)
    assert done.returncode == 0, done.stdout
    assert "0 problems" in done.stdout
    lacking = submission(run, tmp_path / "lacking", attack={"gmm": {"components": 1}})
    done = here("submit-check", lacking, "--board", run)
    assert done.returncode == 1
    assert "PROBLEM" in done.stdout


def test_an_improved_defense_replaces_its_rows(run, tmp_path):
    """Same name, same options, other numbers: with --replace the later folder's alone, and the
    other defenses as they were."""
    theirs = submission(run, tmp_path / "theirs", mse=2)
    before, after = read(run), read(run, theirs, newer=True)
    errors = [{row.key: row.worst("mse").mean for row in each.complete} for each in (before, after)]
    assert errors[0].keys() == errors[1].keys()
    for key, error in errors[0].items():
        assert errors[1][key] == pytest.approx(error * (2 if key[0] == DEFENSE else 1)), key


@pytest.mark.slow
def test_an_improved_defense_loses_the_strengths_it_has_no_more(run, tmp_path):
    assert [row.strength for row in read(run).rows if row.defense == DEFENSE] == [0.1]
    theirs = submission(run, tmp_path / "theirs", strength=0.5)
    merged = read(run, theirs, newer=True)
    assert [row.strength for row in merged.rows if row.defense == DEFENSE] == [0.5]
    assert not any("(" in row.defense for row in merged.rows)
