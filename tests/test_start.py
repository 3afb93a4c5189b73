"""Victims that begin with the weights of an undefended one."""

import shutil

import pandas as pd
import pytest
from safetensors.torch import load

from smashbench.bench.errors import BenchError
from smashbench.bench.run.selection import choose, selection
from smashbench.bench.run.survey import Standing, _on_victim, survey
from smashbench.bench.store.merge import merge
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml as suite
from tests.commands import bench

SETTINGS = [
    "defenses={none={},noise={strengths=[0.3]}}",
    "attacks={mean={}}",
    "start={epochs=2}",
    "training.epochs=1",
    "training.lr=1e-12",
    "training.weight_decay=0",
    "start.lr=0.003",
    "training.precision=fp32",
]
RUN = ["run", "smoke", *(word for setting in SETTINGS for word in ("--set", setting))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("start")
    done = bench(*RUN, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def begun():
    return suite.load("smoke", SETTINGS)


def test_every_seed_has_one_undefended_start(begun):
    assert [trial.label for trial in begun.starts] == ["start, seed 0"]
    (first,) = begun.starts
    assert first.victim.training.epochs == 2
    assert first.victim.training.precision == "fp32"  # what [start] leaves open is [training]'s
    assert first.victim.start is None
    assert [trial.parent for trial in begun.victims] == [first.key] * 2
    assert begun.trials[0] == first
    assert not suite.load("smoke").starts


@pytest.mark.slow
def test_a_start_alone_is_no_row_and_no_error(folder, begun, tmp_path, here):
    store, ours = Store(folder), tmp_path / "ours"
    save_suite(begun, ours)
    for path in (store.record_path, store.victim_path):
        there = path(begun.starts[0].key)
        shutil.copytree(there.parent, ours / there.parent.name)
    for trial in (*begun.victims, *begun.attacks):
        Store(ours).record_path(trial.key).unlink()
    for name in ("scores", "samples"):
        shutil.copytree(folder / name, ours / name)
    done = here(*RUN, "--only", "defense=start", "--out", ours)
    assert done.returncode == 0, done.stderr
    assert "no victim is trained yet" in done.stdout


def test_a_start_is_trained_like_an_undefended_victim(begun):
    """Its key is that of the same training of ``none`` in a suite of its own."""
    alone = ["training.epochs=2", "training.lr=0.003", *SETTINGS[5:6], SETTINGS[7]]
    plain = suite.load("smoke", ["defenses={none={}}", "attacks={mean={}}", *alone])
    assert plain.victims[0].key == begun.starts[0].key


def test_a_choice_brings_the_start_along(begun):
    nothing = {trial.key: Standing("missing") for trial in begun.trials}
    chosen = choose(begun, nothing, only=selection(begun, ["attack=mean", "defense=noise"]))
    assert [trial.label for trial in chosen] == [
        "start, seed 0",
        "noise 0.3, seed 0",
        "mean on noise 0.3, seed 0",
    ]


@pytest.mark.slow
def test_rows_begin_with_the_weights_and_the_start_is_no_row(folder, begun):
    store = Store(folder)
    (start,) = begun.starts
    first = store.victim(start.key)
    assert first
    before = load(store.weights(start.key, first.checkpoint_sha256))
    for trial in begun.victims:
        record = store.victim(trial.key)
        assert record
        assert record.start_sha256 == first.checkpoint_sha256
        after = load(store.weights(trial.key, record.checkpoint_sha256))
        filters = [name for name in before if name.endswith("weight")]
        assert len(filters) > 5
        assert all((after[name] - before[name]).abs().max() < 1e-8 for name in filters)
    assert list(pd.read_csv(folder / "leaderboard.csv").defense) == ["none", "noise"]
    assert pd.read_csv(folder / "records.csv").defense.iloc[0] == "start"


@pytest.mark.slow
def test_a_start_that_is_gone_is_trained_again_to_the_same_bytes(folder, begun, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    store = Store(copy)
    (start,) = begun.starts
    store.record_path(start.key).unlink()
    standings = survey(begun, store)
    assert standings[start.key].state == "missing"
    assert standings[begun.victims[0].key].state == "outdated"
    done = bench(*RUN, "--out", copy, "--only", "defense=start")
    assert done.returncode == 0, done.stderr
    assert {standing.state for standing in survey(begun, store).values()} == {"done"}


@pytest.mark.slow
def test_a_pack_without_weights_needs_the_start_again_and_goes_on(folder, begun, tmp_path, here):
    copy = shutil.copytree(folder, tmp_path / "copy")
    store = Store(copy)
    shutil.rmtree(copy / "victims")
    attack = begun.attacks[0]
    store.record_path(attack.key).unlink()
    standings = survey(begun, store, deep=True)
    assert standings[attack.parent].state == "missing"
    assert standings[begun.starts[0].key].state == "missing"
    done = here("rerun", copy, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert {standing.state for standing in survey(begun, store).values()} == {"done"}


@pytest.mark.slow
def test_a_start_is_no_row_where_later_folders_replace_rows(folder, tmp_path):
    later = shutil.copytree(folder, tmp_path / "later")
    merged, _ = merge([folder, later], newer=True)
    assert [trial.label for trial in merged.victims] == ["none, seed 0", "noise 0.3, seed 0"]


def test_what_was_made_with_other_weights_is_outdated():
    made = Standing("done", parent_weights="a")
    assert _on_victim(made, Standing("done", weights="a")) == made
    assert _on_victim(made, Standing("done", weights="b")).state == "outdated"
    assert _on_victim(Standing("missing"), None).state == "missing"


def test_a_mistake_in_the_start_is_named():
    with pytest.raises(BenchError, match=r"start\.epoch"):
        suite.load("smoke", ["start={epoch=2}"])
    mine = "defenses.start={use='noise',noise=0.1}"
    assert suite.load("smoke", [mine])
    with pytest.raises(BenchError, match=r"defenses\.start: .* another name"):
        suite.load("smoke", ["start={epochs=2}", mine])
