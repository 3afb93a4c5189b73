"""A training that is interrupted goes on at its epoch and ends with the same bytes."""

import os
import shutil
import time
from pathlib import Path

import pytest
import torch

from smashbench.bench.run import checkpoint, perform
from smashbench.bench.run.attempt import attempt
from smashbench.bench.run.checkpoint import keeper_of
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml
from smashbench.bench.suite.trial import Suite
from tests.commands import bench, started
from tests.survivors import records, until
from tests.test_survival import workers_of

TINY = (
    "dataset={use='photos',train=100,val=20,aux=100,test=40}",
    "training.epochs=6",
    "seeds=[0]",
    "defenses={kmeans_cem={warmup_epochs=1}}",
    "attacks={mean={}}",
)


@pytest.fixture
def suite() -> Suite:
    return toml.load("smoke", TINY)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    train(toml.load("smoke", TINY), folder)
    return folder


def train(suite: Suite, folder: Path) -> None:
    save_suite(suite, folder)
    done = attempt(suite.victims[0], folder=folder, data=None, minutes=5)
    assert done.state == "done", done


class PowerCut(BaseException):
    """Nothing catches it."""


def cut_after(epoch: int, monkeypatch) -> None:
    """The process ends as soon as the state after this epoch is kept."""
    real = perform.keeper_of

    def keeper(*arguments):
        load, save = real(*arguments)

        def cutting(state):
            save(state)
            if len(state["history"]) == epoch:
                raise PowerCut

        return real(*arguments)._replace(load=load, save=cutting)

    monkeypatch.setattr(perform, "keeper_of", keeper)


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [1, 4, 6])
def test_it_goes_on_at_its_epoch_and_ends_with_the_same_bytes(
    suite, whole, tmp_path, monkeypatch, capsys, epoch
):
    victim = suite.victims[0]
    with monkeypatch.context() as patch:
        cut_after(epoch, patch)
        with pytest.raises(PowerCut):
            train(suite, tmp_path / "first")
    store = Store(tmp_path / "first")
    assert store.read(victim.key) is None
    assert store.checkpoint_path(victim.key).stat().st_size < 2_000_000
    shutil.copytree(tmp_path / "first", tmp_path / "other")  # as if on another machine
    train(suite, tmp_path / "other")
    other = Store(tmp_path / "other")
    assert f"goes on after epoch {epoch}" in capsys.readouterr().err
    assert records(tmp_path / "other") == records(whole)
    assert not other.checkpoint_path(victim.key).exists()


def test_a_state_of_other_code_or_images_or_a_damaged_one_is_none(suite, tmp_path, capsys):
    victim, store = suite.victims[0], Store(tmp_path)
    keeper = keeper_of(victim, store, "1" * 16, None)
    assert keeper.load() is None
    keeper.save({"history": [{"loss": 1.0}]})
    assert keeper.load() == {"history": [{"loss": 1.0}]}
    for other in (("2" * 16, None), ("1" * 16, "3" * 64)):
        assert keeper_of(victim, store, *other).load() is None
        assert "of other code, images or first weights" in capsys.readouterr().err
    path = store.checkpoint_path(victim.key)
    for content in (path.read_bytes()[:100], b"", b"\x80\x04cos\nsystem\n"):
        path.write_bytes(content)
        assert keeper.load() is None
        assert "cannot be read" in capsys.readouterr().err
    torch.save({"identity": 3}, path)
    assert keeper.load() is None


def test_a_state_of_code_that_was_edited_is_none(suite, tmp_path, monkeypatch, capsys):
    victim, store = suite.victims[0], Store(tmp_path)
    keeper_of(victim, store, "1" * 16, None).save({"history": []})
    monkeypatch.setattr(checkpoint, "source_of", lambda trial: "0" * 16)
    assert keeper_of(victim, store, "1" * 16, None).load() is None
    assert "of other code" in capsys.readouterr().err


class Executed:
    """Runs code where it is unpickled."""

    def __reduce__(self):
        return os.putenv, ("SMASHBENCH_UNPICKLED", "1")


def test_nothing_in_a_state_is_run(suite, tmp_path, capsys):
    victim, store = suite.victims[0], Store(tmp_path)
    keeper = keeper_of(victim, store, "1" * 16, None)
    keeper.save({"history": []})
    torch.save({"identity": Executed()}, store.checkpoint_path(victim.key))
    assert keeper.load() is None
    assert "putenv" in capsys.readouterr().err  # named as what it refuses


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers in /proc")
def test_a_killed_run_does_not_train_again_what_it_had_trained(tmp_path):
    long = [word for change in TINY for word in ("--set", change)]
    long += ["--set", "training.epochs=40", "--workers", 1, "--out", tmp_path]
    process = started("run", "smoke", *long)
    until(lambda: any(tmp_path.glob("checkpoints/*.pt")) or process.poll() is not None)
    time.sleep(0.2)
    orphans = workers_of(process)
    process.kill()
    process.communicate()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans), 10)
    assert any(tmp_path.glob("checkpoints/*.pt"))
    assert bench("run", "smoke", *long).returncode == 0
    (log,) = [path for path in tmp_path.glob("logs/*.log") if "goes on after" in path.read_text()]
    assert log.stem == toml.load("smoke", [*TINY, "training.epochs=40"]).victims[0].key
    assert not any(tmp_path.glob("checkpoints/*"))
