"""Training: the mistakes of other code, each a test."""

import math

import pytest
import torch

from smashbench.bench.contracts import CONTRACTS, Subject, failure_of
from smashbench.bench.experiment.augment import augment, rotate
from smashbench.bench.experiment.batches import batches_of
from smashbench.bench.experiment.train import _optimiser, _schedule, train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.watch import capacity, class_variance, watch
from smashbench.datasets import Split
from smashbench.defenses.kmeans_cem import KMeansCem
from tests.fitted import victim_of


def victim(photos: Split, defense: str = "noise", **options) -> Victim:
    return victim_of("small", defense, options, photos.shape, photos.classes)


def settings(**changes) -> Training:
    return Training(**{"epochs": 2, "batch_size": 50, "lr": 0.003, "precision": "fp32"} | changes)


@pytest.mark.parametrize("optimiser", ["adamw", "momentum", "nesterov", "muon"])
def test_the_first_epoch_learns_and_validation_changes_nothing(photos, optimiser):
    model = victim(photos, noise=0.1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    history = train(model, photos, settings(epochs=1, optimiser=optimiser)).history
    moved = [n for n, t in model.named_parameters() if not torch.equal(t, before[n])]
    assert len(moved) == len(list(model.parameters()))  # no learning rate of 0, nothing forgotten
    assert len(history) == 1
    after = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    watch(model, photos.val, photos.classes)
    model.release(photos.test.x)
    for name, tensor in model.state_dict().items():  # batch statistics included
        assert torch.equal(tensor, after[name]), name
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("optimiser", ["momentum", "nesterov", "muon", "adamw"])
def test_momentum_is_what_was_asked_for_and_adams_follows_the_cycle(photos, optimiser):
    changes = {} if optimiser == "adamw" else {"momentum": 0.3}
    training = settings(optimiser=optimiser, **changes)
    used = _optimiser(victim(photos), training)
    schedule = _schedule(used, training, 10)
    found = []
    for _ in range(20):
        group = used.param_groups[0]
        found.append(group["betas"][0] if optimiser == "adamw" else group["momentum"])
        used.step()
        schedule.step()
    if optimiser == "adamw":
        assert (max(found), min(found)) == pytest.approx((0.95, 0.85))
    else:
        assert set(found) == {0.3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decay": 0.1}, "decay does nothing without milestones"),
        ({"shift": 0, "border": "black"}, "border does nothing without shift"),
        ({"average": "ema"}, 'average = "ema" needs recalibrate = true'),
        ({"idle_epochs": 1}, "idle_epochs does nothing without milestones"),
        ({"balanced": 26}, "balanced = 26 of 50 leaves a batch with one class"),
        ({"milestones": (1,), "schedule": "linear"}, "milestones are a schedule of their own"),
        ({"warmup": 0.2}, 'warmup does nothing without schedule = "linear"'),
        ({"adam_lr": 0.5}, 'adam_lr does nothing without optimiser = "muon"'),
        ({"momentum": 0.3}, "momentum is not an option of adamw"),
    ],
)
def test_options_that_would_do_nothing_or_harm_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        settings(**changes)


def test_training_lowers_the_loss_and_repeats_exactly(photos):
    histories = []
    for _ in range(2):
        torch.manual_seed(7)
        histories.append(train(victim(photos), photos, settings(epochs=4)).history)
    assert histories[0] == histories[1]
    assert histories[0][-1]["loss"] < histories[0][0]["loss"]


def test_the_defense_is_told_the_epoch_and_given_all_training_features(photos, monkeypatch):
    model = victim(photos, "kmeans_cem", lam=0.1, refresh_every=2, refit="clean")
    calls = []
    refresh = model.defense.refresh

    def spy(features, labels):
        calls.append((model.defense.epoch, len(features), model.training))
        refresh(features, labels)

    monkeypatch.setattr(model.defense, "refresh", spy)
    history = train(model, photos, settings(epochs=5)).history
    assert calls == [(1, 200, False), (3, 200, False)]
    assert [row["penalty"] > 0 for row in history] == [False, True, True, True, True]


def test_refits_may_see_the_features_that_the_epoch_before_came_across(photos, monkeypatch):
    """Without augmentation, weights that move or noise on features they would be the same."""
    calls, encoded = [], []
    encode = Victim.encode
    monkeypatch.setattr(Victim, "encode", lambda self, x: encoded.append(len(x)) or encode(self, x))
    for refit in ("clean", "epoch"):
        model = victim(photos, "kmeans_cem", lam=0.0, warmup_epochs=1, refit=refit)
        defense = model.defense

        def spy(features, labels, refit=refit, defense=defense):
            calls.append((refit, defense.epoch, features.shape, labels, features))

        defense.refresh = spy  # type: ignore[method-assign]
        torch.manual_seed(3)
        encoded.clear()
        train(model, photos, settings(epochs=3, batch_size=60))
        passes = encoded.count(200)  # over the training images; the validation part is smaller
        assert passes == (2 if refit == "clean" else 0)
    assert [call[:2] for call in calls] == [("clean", 1), ("clean", 2), ("epoch", 1), ("epoch", 2)]
    assert [len(call[3]) for call in calls] == [200, 200, 180, 180]
    assert torch.equal(calls[0][3], photos.train.y)
    assert not torch.equal(calls[2][4][:60], calls[0][4][:60])


@pytest.mark.parametrize("source", ["clean", "epoch"])
def test_a_run_goes_on_whatever_refits_see(source):
    """What was collected is spent before the state is kept."""
    (promise,) = [each for each in CONTRACTS["DEFENSES"] if "interrupted" in each.title]

    class Chosen(KMeansCem):
        def __init__(self, shape, classes, *, refit: str = source, **options) -> None:
            super().__init__(shape, classes, refit=refit, **options)

    assert failure_of(promise, Subject("kmeans_cem", Chosen)) is None


def test_the_own_parameters_of_a_defense_may_go_at_another_pace(photos):
    moved = {}
    for pace in (1.0, 0.01):
        torch.manual_seed(0)
        model = victim(photos, "gated_pooling", warmup_epochs=0, pace=pace)
        own, others = (
            torch.cat([p.detach().flatten().clone() for p in part.parameters()])
            for part in (model.defense, model.encoder)
        )
        train(model, photos, settings(epochs=1, optimiser="momentum", weight_decay=0.0))
        moved[pace] = [
            float((torch.cat([p.detach().flatten() for p in part.parameters()]) - before).norm())
            for part, before in ((model.defense, own), (model.encoder, others))
        ]
    assert moved[0.01][0] == pytest.approx(0.01 * moved[1.0][0], rel=0.05)
    assert moved[0.01][1] == pytest.approx(moved[1.0][1], rel=0.05)


def test_a_balanced_batch_has_partners_of_every_class():
    y = torch.arange(200).repeat(5)[torch.randperm(1000)]
    for balanced in (0, 2, 4):
        batches = batches_of(y, 128, balanced)
        assert len(batches) == 7
        assert len(torch.cat(batches).unique()) == 7 * 128  # every sample once
        lonely = [float((y[each].bincount() == 1).float().sum()) / 128 for each in batches]
        if balanced:
            assert max(lonely) <= 2 / 128  # a run that begins or ends with the batch
        else:
            assert min(lonely) > 0.4  # half of them by chance: why this option is there
    first, second = batches_of(y, 128, 2), batches_of(y, 128, 2)
    assert not torch.equal(first[0], second[0])
    few = torch.tensor([0] * 5 + [1] * 3 + [2])
    assert torch.cat(batches_of(few, 3, 2)).sort().values.tolist() == list(range(9))


def test_the_order_of_batches_is_that_of_one_permutation():
    torch.manual_seed(5)
    found = torch.cat(batches_of(torch.zeros(100), 30, 0))
    torch.manual_seed(5)
    assert torch.equal(found, torch.randperm(100)[:90])


def test_release_is_the_defended_path(photos):
    model = victim(photos, noise=0.5)
    x = photos.test.x[:50]
    z, released = model.encode(x), model.release(x)
    assert float((released - z).std()) == pytest.approx(0.5, rel=0.05)
    assert not torch.equal(model.release(x), released)  # randomised anew
    quiet = victim(photos, "none")
    assert torch.equal(quiet.release(x), quiet.encode(x))


def test_augmentation_flips_and_shifts_whole_images():
    x = torch.rand(200, 3, 8, 8)
    torch.manual_seed(0)
    plain = augment(x, settings(shift=0))
    flipped = torch.tensor([torch.equal(a, b.flip(2)) for a, b in zip(plain, x, strict=True)])
    same = torch.tensor([torch.equal(a, b) for a, b in zip(plain, x, strict=True)])
    assert bool((flipped | same).all())
    assert 60 < int(flipped.sum()) < 140
    moved = augment(x, settings(shift=2))
    assert moved.shape == x.shape
    for before, after in zip(x, moved, strict=True):  # each holds its own old centre somewhere
        windows = after.unfold(1, 2, 1).unfold(2, 2, 1).permute(1, 2, 0, 3, 4).flatten(0, 1)
        kept = [before[:, 3:5, 3:5], before.flip(2)[:, 3:5, 3:5]]
        assert any(torch.equal(window, each) for window in windows for each in kept)


def test_class_variance_by_hand():
    z = torch.tensor([[0.0, 0.0], [2.0, 0.0], [5.0, 1.0], [5.0, 3.0]])
    y = torch.tensor([0, 0, 1, 1])
    assert class_variance(z, y, 3) == 0.5  # (1 + 0 + 0 + 1) / 4
    assert capacity(z, y, 3, 0.5) == pytest.approx(math.log(5) / 2)  # half a class each: log 5 / 4


def test_images_are_turned_like_torchvision_turns_them():
    from torchvision.transforms.functional import rotate as reference

    x, degrees = torch.rand(5, 3, 32, 48), torch.tensor([0.0, 15.0, -15.0, 90.0, 7.3])
    wanted = torch.stack([reference(a, float(b)) for a, b in zip(x, degrees, strict=True)])
    turned = rotate(x, degrees)
    assert torch.equal(turned[0], x[0])
    same = (turned == wanted).float().mean((1, 2, 3))  # nearest pixels may round the other way
    assert same.min() > 0.98
    mirrored = (rotate(x, -degrees) == wanted).float().mean((1, 2, 3))
    assert mirrored[1] < 0.5


def test_a_black_border_comes_in_where_it_is_asked_for():
    x = torch.rand(100, 3, 8, 8) / 2 + 0.5
    assert float(augment(x, settings(shift=3)).min()) >= 0.5
    moved = augment(x, settings(shift=3, border="black"))
    assert float(moved.min()) == 0
    share = (moved == 0).float().mean()  # 3.43 pixels of 16 go out on an average draw: by hand,
    assert float(share) == pytest.approx(1 - (1 - 12 / 7 / 8) ** 2, abs=0.05)  # |shift| is 12 / 7


def test_the_learning_rate_falls_at_its_milestones():
    parameter = torch.nn.Parameter(torch.zeros(1))
    rates = {}
    for milestones in ((), (2, 3)):
        optimiser = torch.optim.SGD([parameter], lr=0.5)
        schedule = _schedule(optimiser, settings(epochs=4, lr=0.5, milestones=milestones), 10)
        rates[milestones] = []
        for _ in range(40):
            rates[milestones].append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            schedule.step()
    assert rates[2, 3] == pytest.approx([0.5] * 20 + [0.1] * 10 + [0.02] * 10)
    optimiser = torch.optim.SGD([parameter], lr=0.5)
    idle = settings(epochs=4, lr=0.5, milestones=(2, 3), idle_epochs=1)
    schedule, found = _schedule(optimiser, idle, 10), []
    for _ in range(40):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    assert found == pytest.approx([0.0] * 10 + rates[2, 3][10:])
    cycle = rates[()]
    assert max(cycle) == pytest.approx(0.5, rel=0.02)
    assert cycle[0] == pytest.approx(0.5 / 25)
    assert cycle[-1] < 1e-4
