"""What a training does, step by step."""

from copy import deepcopy

import pytest
import torch

from smashbench.bench.experiment import train as training
from smashbench.bench.experiment.models.airbench import Whitening
from smashbench.bench.experiment.progress import Keeper
from smashbench.bench.experiment.train import _optimiser, train
from smashbench.bench.experiment.watch import watch
from tests.fitted import victim_of
from tests.test_train import settings, victim


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"average": "ema"},
        {"average": "lookahead"},
        {"flip": "alternating"},
        {"optimiser": "muon", "schedule": "linear"},
    ],
    ids=str,
)
def test_a_run_goes_on_with_its_averages(photos, changes):
    training, kept, ends = settings(epochs=3, batch_size=20, recalibrate=True, **changes), [], []
    for state in (None, 0):
        torch.manual_seed(0)
        model = victim(photos)
        keeper = Keeper(
            lambda s=state: s if s is None else kept[s], lambda s: kept.append(deepcopy(s))
        )
        train(model, photos, training, keeper)
        ends.append(model.weights())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("optimiser", ["momentum", "muon", "adamw"])
def test_the_pace_of_a_defense_is_that_of_every_optimiser(photos, optimiser):
    model = victim(photos, "vib", pace=10.0)
    rates = {"lr": 0.1, "adam_lr": 0.02} if optimiser == "muon" else {"lr": 0.1}
    used = _optimiser(model, settings(optimiser=optimiser, **rates))
    own = {id(p) for p in model.defense.parameters()}
    (rate,) = {g["lr"] for g in used.param_groups if any(id(p) in own for p in g["params"])}
    assert rate == pytest.approx(10 * rates.get("adam_lr", 0.1))


def test_what_is_watched_is_the_validation_part(photos):
    model = victim(photos, "none")
    history = train(model, photos, settings(epochs=2)).history
    for name, value in watch(model, photos.val, photos.classes).items():
        assert history[-1][name] == pytest.approx(value, rel=1e-5), name


@pytest.mark.slow
def test_bf16_is_what_was_asked_for(photos):
    seen = {"bf16": set(), "fp32": set()}
    for precision, types in seen.items():
        model = victim(photos, "none")

        def hook(layer, _, out, types=types):
            if layer.training:
                types.add(out.dtype)

        model.encoder[1].register_forward_hook(hook)
        history = train(model, photos, settings(precision=precision, epochs=4)).history
        assert history[-1]["loss"] < history[0]["loss"]
    assert seen == {"bf16": {torch.bfloat16}, "fp32": {torch.float32}}


def test_the_head_learns_on_what_is_released(photos):
    """The very draw that a penalty sees."""
    model, stepped, seen = victim(photos, noise=0.5), [], []
    penalty = model.defense.penalty

    def spy(step):
        stepped.append(step.released.detach())
        return penalty(step)

    def hook(head, inputs):
        if head.training:
            seen.append(inputs[0].detach())

    model.defense.penalty = spy
    model.head.register_forward_pre_hook(hook)
    train(model, photos, settings(epochs=1))
    assert len(stepped) == len(seen) == 4
    assert all(map(torch.equal, stepped, seen))


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True])
def test_borrowed_weights_are_not_prepared_again(photos, begun):
    model = victim_of("airbench", "none", {}, photos.shape, photos.classes)
    calls = []
    for layer in model.encoder.modules():
        if isinstance(layer, Whitening):
            layer.prepare = lambda x: calls.append(len(x))
    model.begun = begun
    train(model, photos, settings(epochs=1))
    assert calls == ([] if begun else [len(photos.train.x)])


def test_refits_are_given_the_labels_of_their_features(photos, monkeypatch):
    drawn, given, real = [], [], training.batches_of
    monkeypatch.setattr(training, "batches_of", lambda *a: drawn.append(real(*a)) or drawn[-1])
    model = victim(photos, "kmeans_cem", lam=0.0, warmup_epochs=1, refit="epoch")
    model.defense.refresh = lambda features, labels: given.append(labels)
    train(model, photos, settings(epochs=2, batch_size=60))
    assert torch.equal(given[0], photos.train.y[torch.cat(drawn[0])])
