"""What a defense may do within a step: ask for the release, change the targets, train a network."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss, one_hot

from smashbench.bench.contracts import CONTRACTS, Subject, failure_of
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.base import Diagnostic, Step
from smashbench.defenses.own_network import OwnNetwork
from smashbench.defenses.stack import Stack
from tests.fitted import step_of

SHAPE = (2, 4, 4)


def test_a_release_is_drawn_once_and_only_when_it_is_asked_for():
    drawn = []

    def release(z):
        drawn.append(z)
        return z + torch.randn_like(z)

    z = torch.rand(4, *SHAPE)
    step = Step(torch.rand(4, 3, 8, 8), torch.arange(4), z, release)
    assert not drawn
    assert torch.equal(step.released, step.released)
    assert len(drawn) == 1


class Adversarial(Defense):
    """Adversarial representation learning in small: a decoder rebuilds the images from what is
    released, and the victim raises its error."""

    diagnostics = {"own_mse": Diagnostic("error of the adversary")}

    def __init__(self, shape, classes, *, weight: float = 1.0) -> None:
        super().__init__(shape, classes)
        self.weight = weight
        self.own = OwnNetwork(lambda: nn.Conv2d(shape[0], 3 * 16, 3, padding=1), lr=1e-2)

    def penalty(self, step):
        def error(guess):
            return mse_loss(nn.functional.pixel_shuffle(guess, 4), step.images)

        own = self.own.train_step(step.released, error)
        return -self.weight * error(self.own(step.released)), {"own_mse": own}

    def progress(self):
        return {"own": self.own.progress()}

    def resume(self, progress):
        self.own.resume(progress["own"])


class Forgetful(Adversarial):
    """Forgets its network in an interruption."""

    def progress(self):
        return {}

    def resume(self, progress):
        pass


def test_a_network_of_its_own_survives_an_interruption():
    (promise,) = [each for each in CONTRACTS["DEFENSES"] if "interrupted" in each.title]
    assert failure_of(promise, Subject("own", Adversarial)) is None
    assert "ends elsewhere" in str(failure_of(promise, Subject("own", Forgetful)))


def trained(photos, defense, epochs: int = 2) -> tuple[Victim, list[dict[str, float]]]:
    torch.manual_seed(0)
    victim = Victim(MODELS["small"](), defense, photos.shape, photos.classes)
    history = train(
        victim, photos, Training(epochs=epochs, batch_size=50, precision="fp32")
    ).history
    return victim, history


@pytest.fixture(scope="module")
def plain(photos):
    return trained(photos, DEFENSES["none"])


def test_a_network_of_its_own_changes_no_random_number_and_leaves_no_gradient(photos, plain):
    """With weight 0 the victim is `none`'s, bit by bit, though an adversary was trained beside."""
    victim, history = trained(photos, partial(Adversarial, weight=0.0))
    for name, value in plain[0].state_dict().items():
        assert torch.equal(victim.state_dict()[name], value), name
    assert history[-1]["own_mse"] < history[0]["own_mse"]  # it does learn
    network = victim.defense.own._network
    held = {id(parameter) for parameter in network.parameters()}
    assert not held & {id(parameter) for parameter in victim.parameters()}
    assert victim.state_dict().keys() == plain[0].state_dict().keys()
    for parameter in network.parameters():  # the last backward was the victim's
        before = parameter.grad.clone()
        z = torch.rand(4, 8, 8, 8, requires_grad=True)
        victim.defense.own(z).sum().backward()
        assert torch.equal(parameter.grad, before)
        assert z.grad.abs().sum() > 0


def test_an_adversary_is_the_same_in_every_run_and_its_victim_hides_more(photos):
    once, again = (trained(photos, partial(Adversarial, weight=5.0)) for _ in range(2))
    for name, value in once[0].state_dict().items():
        assert torch.equal(again[0].state_dict()[name], value)
    indifferent = trained(photos, partial(Adversarial, weight=0.0))[1]
    assert once[1][-1]["own_mse"] > indifferent[-1]["own_mse"]


class Smoothed(Defense):
    def targets(self, labels):
        return 0.9 * one_hot(labels, self.classes) + 0.1 / self.classes


def test_the_cross_entropy_takes_the_targets_of_the_defense(photos, plain):
    """Half the probability of a certain answer costs -log: smoothed targets cannot reach 0."""
    labels = torch.tensor([1, 0])
    smoothed = Smoothed(SHAPE, 4).targets(labels)
    torch.testing.assert_close(smoothed.sum(1), torch.ones(2))
    assert float(smoothed[0, 1]) == pytest.approx(0.925)
    losses = [history[-1]["loss"] for _, history in (trained(photos, Smoothed), plain)]
    assert losses[0] > losses[1] > 0


class Halved(Defense):
    """Sends half of the channels, in 16 bits each."""

    def transform(self, z):
        return z * (torch.arange(z.shape[1]) < z.shape[1] // 2)[:, None, None]

    def penalty(self, step):
        return step.features.square().mean(), {"squares": step.features.square().mean().detach()}

    def payload(self, released):
        return 16 * released[0].numel() // 2


def stack(**noise: float) -> Stack:
    parts = {name: DEFENSES["noise"](SHAPE, 3, noise=value) for name, value in noise.items()}
    return Stack({"half": Halved(SHAPE, 3), **parts})


def test_a_stack_passes_features_through_its_parts_and_adds_their_penalties():
    z, y = torch.rand(6, *SHAPE), torch.arange(6) % 3
    both = stack(first=0.3, second=0.4)
    assert both.noise == pytest.approx(0.5)
    assert both.randomized
    released = both(z)
    assert not torch.equal(released, both(z))
    assert float((released - Halved(SHAPE, 3)(z)).std()) == pytest.approx(0.5, rel=0.2)
    value, seen = both.penalty(step_of(z, y))
    assert float(value) == pytest.approx(float(z.square().mean()))
    assert seen.keys() == {"half_squares"}
    assert both.payload(released) == 32 * 32  # noise fills what was halved
    assert Stack({"half": Halved(SHAPE, 3)}).payload(released) == 16 * 32 // 2
    last = Stack({"noise": DEFENSES["noise"](SHAPE, 3, noise=0.3), "half": Halved(SHAPE, 3)})
    assert last.payload(released) == 16 * 32 // 2
    assert torch.equal(both.targets(y), y)


def test_a_stack_refits_those_that_want_it_on_clean_features():
    kmeans = DEFENSES["kmeans_cem"](SHAPE, 3, warmup_epochs=1, refresh_every=2)
    both = Stack({"noise": DEFENSES["noise"](SHAPE, 3), "kmeans": kmeans})
    z, y = torch.rand(30, *SHAPE), torch.arange(30) % 3
    wanted = []
    for both.epoch in range(4):
        wanted.append(both.wants_refresh)
        if both.wants_refresh:
            both.refresh(z, y)
    assert wanted == [False, True, False, True]
    assert float(kmeans.weights.sum()) == pytest.approx(3)
    _, seen = both.penalty(step_of(z, y))
    assert "kmeans_surrogate" in seen
    assert seen.keys() <= both.diagnostics.keys()


def test_only_one_part_of_a_stack_changes_the_targets():
    one = Stack({"a": Smoothed(SHAPE, 3), "b": Halved(SHAPE, 3)})
    assert one.targets(torch.tensor([0])).shape == (1, 3)
    two = Stack({"a": Smoothed(SHAPE, 3), "b": Smoothed(SHAPE, 3)})
    with pytest.raises(ValueError, match="several parts of a stack change the targets"):
        two.targets(torch.tensor([0]))
