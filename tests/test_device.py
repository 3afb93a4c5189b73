"""Everything off the CPU: on a device that only pretends to be one, see ``tests/pretend.py``."""

import json
from contextlib import nullcontext

import pytest
import torch
from torch.utils._pytree import tree_map_only

from smashbench.attacks import ATTACKS
from smashbench.bench.auditing.given import Called, Dumped
from smashbench.bench.auditing.settings import settings_of
from smashbench.bench.auditing.world import World
from smashbench.bench.experiment.progress import Keeper, State
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.run import perform as performing
from smashbench.bench.suite.options import options_of
from smashbench.bench.suite.toml import load
from smashbench.datasets import Part, Split
from smashbench.defenses import DEFENSES
from tests.fitted import victim_of
from tests.inside import cells_inside
from tests.pretend import pretending, waits
from tests.worlds import SMALL, blurred, images, world

pytestmark = pytest.mark.slow
LATER = {"warmup_epochs": 1, "noise": 0.2}
DEFENSE_OPTIONS = {
    "none": {},
    "noise": {"noise": 0.2},
    "slot_attention": LATER | {"shutoff_steps": 0},
}


class Uncast(nullcontext):
    """Autocast would round on the CPU and not on the device."""

    def __init__(self, *_, **__) -> None:
        super().__init__()


@pytest.fixture(autouse=True)
def _uncast(monkeypatch):
    monkeypatch.setattr(torch, "autocast", Uncast)


@pytest.fixture(autouse=True)
def _inside():
    with cells_inside():
        yield


def test_mixed_devices_are_refused_and_waiting_is_seen():
    with pretending() as device:
        here = torch.arange(4.0, device=device)
        with pytest.raises(RuntimeError, match="all tensors must be on one device"):
            here + torch.ones(4)
        assert (here * 2 + torch.tensor(1.0)).device == device
        assert not waits
        for look in (float, bool):
            look(here[1])
        here[here > 2].tolist(), here.cpu(), torch.ones(3).to(device)
        assert len(waits) == 6


def test_trials_on_another_device_are_those_of_the_cpu(tmp_path, monkeypatch):
    """Every defense, and every attack on one of them, from the data to the record."""
    suite = load(str(_suite(tmp_path)))
    attacked = next(t.parent for t in suite.trials if t.parent and "gmm_cem" in str(t.config))
    trials = [t for t in suite.trials if t.parent in (None, attacked)]
    assert len(trials) == len(DEFENSES) + len(ATTACKS)
    _same_on_both(trials, tmp_path, monkeypatch)


def test_a_known_optimum_on_another_device_is_that_of_the_cpu(tmp_path, monkeypatch):
    world = "dataset={use='gaussian',aux=200,test=50}"
    few = ["defenses={noise={strengths=[0.05]}}", "attacks={ridge={}}", "training.epochs=2"]
    victim, _ = _same_on_both(load("gaussian", [world, *few]).trials, tmp_path, monkeypatch)
    assert victim["optimum"]["mse"] > 0


def test_a_posterior_that_is_summed_up_on_another_device_is_that_of_the_cpu(tmp_path, monkeypatch):
    world = "dataset={use='gaussian',dimensions=2,aux=200,test=50}"
    few = ["defenses={noise={strengths=[0.3]}}", "attacks={ridge={}}", "training.epochs=2"]
    settings = [world, "model={use='bent'}", *few]
    victim, _ = _same_on_both(load("gaussian", settings).trials, tmp_path, monkeypatch)
    assert victim["optimum"]["mse"] > 0


def test_what_an_audit_tries_on_another_device_is_what_it_tries_on_the_cpu():
    x = images(60)
    z = x[:, :2, ::2, ::2].contiguous()
    sent = []
    with pretending() as device:
        for place in (torch.device("cpu"), device):
            part = Part(x.to(place), torch.zeros(60, dtype=torch.long, device=place))
            split = Split(train=part, val=part, aux=part, test=part, classes=1, hash="")
            world = World(split, z.to(place), z.to(place), False, Dumped(), None, {}, 0)
            torch.manual_seed(0)
            sent.append(
                [
                    world.victim(setting.defense).protect(world.z_test).cpu()
                    for setting in settings_of(world)
                    if setting.name in ("quantise", "topk", "projection")
                ]
            )
    assert len(sent[0]) == 7
    for here, there in zip(*sent, strict=True):
        torch.testing.assert_close(here, there)


def test_a_function_is_given_tensors_on_the_cpu():
    """A network inside it is not moved, and ONNX Runtime takes arrays."""
    seen = []
    with pretending() as device:
        encoder = Called(lambda x: seen.append(x.device) or x.numpy()[:, :1], "encoder")
        assert encoder(torch.rand(2, 3, 4, 4).to(device)).device == device
    assert seen == [torch.device("cpu")]


@pytest.mark.parametrize("average", ["ema", "lookahead"])
def test_a_training_goes_on_on_another_device(photos, average):
    """Checkpoints are read on the CPU."""
    training = Training(epochs=2, batch_size=20, average=average, recalibrate=True)
    kept: list[State] = []

    def load() -> State | None:
        return kept[0] if len(kept) == 2 else None

    def save(state: State) -> None:
        kept.append(tree_map_only(torch.Tensor, lambda tensor: tensor.cpu().clone(), state))

    ends = []
    with pretending() as device:
        split = photos.to(device)
        for _ in range(2):
            torch.manual_seed(0)
            victim = victim_of("small", "noise", {}, split.shape, split.classes).to(device)
            train(victim, split, training, Keeper(load, save))
            ends.append(victim.weights())
    assert len(kept) == 3
    assert ends[0] == ends[1]


def _same_on_both(trials, folder, monkeypatch) -> list[dict]:
    """Runs trials on the CPU and elsewhere and compares their records; returns the CPU's."""
    found = []
    with pretending() as device:
        for place in (torch.device("cpu"), device):
            monkeypatch.setattr(performing, "accelerator", lambda place=place: place)
            out = folder / place.type
            out.mkdir()
            for trial in trials:
                performing.perform(trial, out, None, again=False)
            found.append([_record(out, trial.key) for trial in trials])
    for here, there in zip(*found, strict=True):
        assert here["machine"]["device"].startswith("cpu")
        assert there["machine"]["device"].startswith("pretend")
        assert here.keys() == there.keys()
        fought = any("adversary_mse" in row for row in here.get("history") or [])
        near = {"rel": 0.05, "abs": 0.1} if fought else {"rel": 2e-3, "abs": 1e-5}
        for name in ("metrics", "floors", "bound", "optimum", "history", "curve"):
            expected = pytest.approx(_numbers(here.get(name)), **near)  # two Adams: roundings grow
            assert _numbers(there.get(name)) == expected
    return found[0]


@pytest.mark.parametrize("name", DEFENSES)
def test_training_waits_for_the_device_by_the_epoch_not_by_the_step(name, photos):
    counts = []
    with pretending() as device:
        split = photos.to(device)
        for batch_size in (100, 20):
            victim = victim_of("small", name, _options(name), split.shape, split.classes).to(device)
            waits.clear()
            train(victim, split, Training(epochs=2, batch_size=batch_size))
            counts.append(len(waits))
    assert counts[0] == pytest.approx(counts[1], abs=6)  # a refit may take a round more
    assert counts[0] > 0


TRAINED = [name for name in ATTACKS if ATTACKS[name].kind == "trained" and name != "unsplit"]
"""``unsplit`` learns nothing before it is given releases."""


@pytest.mark.parametrize("name", TRAINED)
def test_attacks_wait_for_the_device_by_the_epoch_not_by_the_step(name):
    counts = []
    with pretending() as device:
        x = images(200).to(device)
        for batch_size in (50, 10):
            options = SMALL[name] | {"batch_size": batch_size}
            options |= {"epochs": 4} if name == "reference_decoder" else {"max_steps": 20}
            waits.clear()
            ATTACKS[name](**options).fit(world(x, blurred(0.1)))
            counts.append(len(waits))
    assert min(counts) > 0
    assert max(counts) < min(counts) + 10


def _options(name: str) -> dict:
    known = options_of(DEFENSES[name]).model_fields
    return DEFENSE_OPTIONS.get(name, {n: v for n, v in LATER.items() if n in known})


def _default(name: str) -> object:
    """Of what a suite sweeps."""
    knob = DEFENSES[name].strength
    return options_of(DEFENSES[name]).model_fields[knob].default if knob else None


def _suite(folder):
    lines = ['description = "d"', "seeds = [0]", "[model]", 'use = "small"']
    lines += ["[dataset]", 'use = "photos"']
    lines += ["train = 100", "val = 30", "aux = 100", "test = 30"]
    lines += ["[training]", "epochs = 2", "batch_size = 32", "rotation = 5"]
    for name in DEFENSES:
        lines += [f"[defenses.{name}]"]
        if isinstance(_default(name), float):
            lines += ["strengths = [0.1]"]
        options = {k: v for k, v in _options(name).items() if k != DEFENSES[name].strength}
        lines += [f"{key} = {value}" for key, value in options.items()]
    for name in ATTACKS:
        options = SMALL.get(name, {}) | (
            {"releases": 4} if "repeats" in ATTACKS[name].needs else {}
        )
        lines += [f"[attacks.{name}]", *(f"{key} = {value}" for key, value in options.items())]
    path = folder / "suite.toml"
    path.write_text("\n".join(lines))
    return path


def _record(folder, key: str) -> dict:
    return json.loads((folder / "records" / f"{key}.json").read_text())


def _numbers(value) -> list[float]:
    """All numbers in a record's field, in order."""
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, (int, float)) else []
