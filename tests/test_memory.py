"""What does not fit in memory is not begun, is left out with its reason, and costs nothing else."""

import pytest
import torch

from smashbench.attacks import base, network, ridge
from smashbench.attacks.base import OversizedError, require_memory
from smashbench.attacks.network import Network
from smashbench.attacks.ridge import Ridge
from smashbench.bench.report.rows import read
from smashbench.bench.run.attempt import attempt
from smashbench.bench.run.survey import survey
from smashbench.bench.store.record import VictimRecord
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml
from tests.inside import cells_inside

TINY = (
    "dataset={use='photos',train=100,val=20,aux=100,test=40}",
    "training.epochs=1",
    "seeds=[0]",
    "defenses={none={},noise={strengths=[0.3]}}",
    "attacks={mean={},ridge={}}",
)


def test_an_estimate_says_what_and_how_much():
    require_memory(base.MEMORY, "all of it")
    with pytest.raises(OversizedError, match=r"a map of 3 would need 8\.0 GiB, more than 4"):
        require_memory(2 * base.MEMORY, "a map of 3")


def test_wide_features_are_refused_before_anything_is_allocated():
    """64x16x16 features of 96x96 images, 16,384 by 27,648, of more pairs than that."""
    z, x = torch.zeros(1, 1).expand(20_000, 16_384), torch.zeros(1, 1).expand(20_000, 27_648)
    with pytest.raises(OversizedError, match="a linear map of 16384 features to 27648 pixels"):
        Ridge().fit_pairs(z, x, z, x)


def test_the_linear_map_of_many_features_and_few_pairs_is_the_same_in_its_dual_form(monkeypatch):
    """Both are compared in what they choose and in what they rebuild."""
    x = torch.rand(60, 3, 4, 4)
    z = x.flatten(1) @ torch.randn(48, 90) / 7 + 0.05 * torch.randn(60, 90)
    primal = Ridge().fit_pairs(z[:40], x[:40], z[40:50], x[40:50])
    monkeypatch.setattr(ridge, "WIDE", 80)
    dual = Ridge().fit_pairs(z[:40], x[:40], z[40:50], x[40:50])
    assert dual.weight_.shape == (40, 48)
    assert dual.penalty_ == pytest.approx(primal.penalty_, rel=1e-5)
    assert dual.error_ == pytest.approx(primal.error_, rel=1e-4)
    torch.testing.assert_close(
        dual.reconstruct(z[50:]), primal.reconstruct(z[50:]), atol=1e-4, rtol=0
    )


def test_neighbourhoods_in_parts_are_those_at_once(monkeypatch):
    z, x = torch.rand(20, 4, 4, 4), torch.rand(20, 3, 16, 16)
    torch.manual_seed(0)
    whole = Network((z, x), (z, x), 8, 1, 0.0)
    monkeypatch.setattr(network, "UNFOLDED", 3 * 4 * 101 * 16)  # three images
    torch.manual_seed(0)
    parts = Network((z, x), (z, x), 8, 1, 0.0)
    torch.testing.assert_close(parts.linear.weight, whole.linear.weight, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_it_is_left_out_with_its_reason_and_costs_nothing_else(tmp_path, monkeypatch, here):
    suite = toml.load("smoke", TINY)
    save_suite(suite, tmp_path)
    monkeypatch.setattr(base, "MEMORY", 2**20)
    with cells_inside():
        for trial in suite.trials:
            assert attempt(trial, folder=tmp_path, data=None, minutes=5).state == "done"
    store = Store(tmp_path)
    noisy = store.read(suite.victims[1].key)
    assert isinstance(noisy, VictimRecord)
    assert noisy.bound is None
    assert noisy.left_out["bound"].startswith("the Jacobian of 512 features of 3072 pixels")
    states = [standing.state for standing in survey(suite, store).values()]
    ridges = sum(t.attack is not None and t.attack.name == "ridge" for t in suite.trials)
    assert states.count("left_out") == ridges
    assert states.count("done") == len(states) - ridges
    rows = read(tmp_path).complete
    assert [list(row.attacks) for row in rows] == [["mean"], ["mean"]]
    text = here("status", tmp_path).stdout
    assert "a linear map of 512 features to 3072 pixels in closed form would need" in text
    monkeypatch.undo()
    ridge = next(trial for trial in suite.attacks if trial.attack.name == "ridge")
    assert attempt(ridge, folder=tmp_path, data=None, minutes=5).state == "done"
    assert store.finished(ridge.key)
    assert "fewer_attacks" in read(tmp_path).rows[1].flags
