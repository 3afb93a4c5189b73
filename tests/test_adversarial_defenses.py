"""Defenses that train an adversary of their own inside the training of their victim."""

from copy import deepcopy
from functools import partial

import cloudpickle
import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity
from torch.nn.functional import mse_loss

from smashbench.bench.experiment.attack_victim import _white_box
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.adversary import Adversarial, Rebuilder, mean_image_error
from smashbench.defenses.arl import Arl
from smashbench.defenses.base import Step
from smashbench.defenses.disco import Disco
from smashbench.defenses.ressfl import ResSfl, similarity
from smashbench.defenses.vclub import VClub, club
from tests.pretend import pretending

ADVERSARIAL = [name for name, each in DEFENSES.items() if issubclass(each, Adversarial)]
SHAPE = (8, 4, 4)


def step_of(defense, n: int = 12) -> Step:
    z = torch.rand(n, *SHAPE, requires_grad=True)
    return Step(torch.rand(n, 3, 16, 16), torch.arange(n) % 4, z, defense)


def trained(photos, name: str, **options) -> tuple[Victim, list[dict[str, float]]]:
    torch.manual_seed(0)
    made = partial(DEFENSES[name], **options)
    victim = Victim(MODELS["small"](), made, photos.shape, photos.classes)
    training = Training(epochs=2, batch_size=50, precision="fp32")
    return victim, train(victim, photos, training).history


def test_there_are_four_of_them():
    assert {"arl", "ressfl", "vclub", "disco"} == set(ADVERSARIAL)


@pytest.fixture(scope="module")
def plain(photos):
    return trained(photos, "none")[0]


@pytest.mark.parametrize("name", ["arl", "ressfl", "vclub"])
def test_without_weight_the_victim_is_that_of_none_bit_by_bit(name, photos, plain):
    """The adversary draws from a stream of its own; it is in no checkpoint and no optimiser."""
    victim, history = trained(photos, name, weight=0.0)
    assert victim.state_dict().keys() == plain.state_dict().keys()
    for key, value in plain.state_dict().items():
        assert torch.equal(victim.state_dict()[key], value), key
    assert history[-1]["adversary_mse"] < history[0]["adversary_mse"]  # it does learn


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_no_attack_is_given_the_adversary(name):
    victim = Victim(MODELS["small"](), DEFENSES[name], (3, 16, 16), 4)
    victim.defense.penalty(step_of(victim.defense))
    network = victim.defense.adversary._network
    secret = {id(parameter) for parameter in network.parameters()}
    assert not secret & {id(parameter) for parameter in victim.parameters()}
    granted = _white_box(victim).defense
    sent = cloudpickle.loads(cloudpickle.dumps(granted))
    for each in (granted, sent):  # disco's pruner is the client's, and all others need none
        assert each.adversary._network is None if name == "disco" else type(each) is Defense
    assert victim.defense.adversary._network is network  # and the victim keeps it


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_the_adversary_sees_what_is_released_once_and_the_victim_leaves_no_gradient_in_it(name):
    defense = DEFENSES[name](SHAPE, 4).train()
    drawn = []

    def release(z):
        drawn.append(z)
        return defense(z) + torch.randn_like(z)

    step = step_of(defense)
    step = Step(step.images, step.labels, step.features, release)
    seen = []
    learn = defense.adversary.train_step
    defense.adversary.train_step = lambda z, loss: (seen.append(z), learn(z, loss))[1]
    penalty, _ = defense.penalty(step)
    assert len(seen) == 1  # one step a batch
    assert torch.equal(seen[0], step.released)
    assert len(drawn) == (2 if name == "disco" else 1)
    before = [p.grad.clone() for p in defense.adversary._network.parameters()]
    penalty.backward()
    after = [p.grad for p in defense.adversary._network.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_an_interrupted_adversary_goes_on_on_the_device_that_it_meets():
    defense = Arl(SHAPE, 4)
    step = step_of(defense)
    z, x = step.features.detach(), step.images
    for _ in range(3):
        defense.learn(step)
    kept = deepcopy(defense.progress())

    def go_on(own, z, x) -> list[float]:
        return [float(own.train_step(z, lambda guess: mse_loss(guess, x))) for _ in range(2)]

    guess = defense.adversary(z)
    expected = go_on(defense.adversary, z, x)
    again = Arl(SHAPE, 4)
    again.resume(deepcopy(kept))
    assert again.progress()["adversary"]["network"].keys() == {
        f"layers.{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias")
    }
    assert go_on(again.adversary, z, x) == expected
    with pretending() as device, torch.no_grad():
        there = Arl(SHAPE, 4)
        there.resume(kept)
        torch.testing.assert_close(there.adversary(z.to(device)).cpu(), guess)


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_the_adversary_is_the_same_under_autocast(name):
    found = []
    for enabled in (False, True):
        torch.manual_seed(0)
        defense = DEFENSES[name](SHAPE, 4)
        step = step_of(defense)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            error = defense.learn(step)
            found.append((error, defense.guess(step.released)))
        assert found[-1][1].dtype == torch.float32
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(24,), (4, 6), (3, 8), (6, 2, 2), (8, 8, 8)], ids=str)
@pytest.mark.parametrize("image", [(3, 16, 16), (1, 12, 20)], ids=str)
def test_the_adversary_takes_features_and_images_of_any_shape(shape, image):
    guess = Rebuilder(shape, image, 8)(torch.rand(5, *shape))
    assert guess.shape == (5, *image)
    tokens = torch.rand(5, 4, 6)
    as_map = tokens.mT.reshape(5, 6, 2, 2)
    torch.manual_seed(0)
    one = Rebuilder((4, 6), image, 8)
    other = Rebuilder((6, 2, 2), image, 8)
    other.load_state_dict(one.state_dict())
    torch.testing.assert_close(one(tokens), other(as_map))
    with_class = Rebuilder((5, 6), image, 8)
    with_class.load_state_dict(one.state_dict())
    tokens = torch.cat([torch.rand(5, 1, 6), tokens], 1)
    torch.testing.assert_close(with_class(tokens), other(as_map))


def test_an_adversary_begins_by_the_seed_of_the_training_and_moves_no_other_draw():
    def begun(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(seed)
        defense = Arl(SHAPE, 4)
        defense.image_shape = (3, 16, 16)
        return torch.rand(3), next(defense.adversary._made(torch.device("cpu")).parameters())

    (drawn, one), (again, same), (_, other) = begun(1), begun(1), begun(2)
    torch.manual_seed(1)
    torch.testing.assert_close(drawn, torch.rand(3), rtol=0, atol=0)
    torch.testing.assert_close(drawn, again, rtol=0, atol=0)
    torch.testing.assert_close(one, same, rtol=0, atol=0)
    assert not torch.allclose(one, other)


def test_arl_is_hinged_at_the_mean_image_and_raises_the_error():
    defense = Arl(SHAPE, 4, weight=3.0, adversary_lr=1e-2)
    step = step_of(defense, 4)
    penalty, seen = defense.penalty(step)
    images = step.images.numpy()
    guess = defense.adversary(step.released).detach().numpy()
    error, unit = ((guess - images) ** 2).mean(), images.var(0).mean()
    assert float(mean_image_error(step.images)) == pytest.approx(float(unit), rel=1e-5)
    assert float(penalty.detach()) == pytest.approx(3 * max(0.0, 1 - error / unit), abs=1e-5)
    for _ in range(200):  # the adversary learns these images by heart
        defense.learn(step)
    penalty, seen = defense.penalty(step)
    assert 0 < float(penalty.detach()) < 3
    penalty.backward()
    moved = (step.features - 5 * step.features.grad / step.features.grad.norm()).detach()
    own = torch.nn.functional.mse_loss(defense.adversary(moved), step.images)
    assert own > seen["adversary_mse"]


def test_similarity_is_that_of_scikit_image_and_costs_nothing_below_the_threshold():
    x = torch.rand(3, 3, 12, 16, dtype=torch.float64)
    guess = (x + 0.2 * torch.randn_like(x)).clamp(0, 1)
    expected = np.mean(
        [
            structural_similarity(
                a, b, channel_axis=0, data_range=1, win_size=7, use_sample_covariance=False
            )
            for a, b in zip(x.numpy(), guess.numpy(), strict=True)
        ]
    )
    assert float(similarity(guess, x)) == pytest.approx(expected, rel=1e-8)
    assert float(similarity(x, x)) == pytest.approx(1)
    defense = ResSfl(SHAPE, 4, weight=2.0, threshold=0.0)
    step = step_of(defense)
    penalty, seen = defense.penalty(step)
    assert float(penalty.detach()) == pytest.approx(2 * max(0.0, float(seen["adversary_ssim"])))
    high = ResSfl(SHAPE, 4, threshold=1.0)
    assert float(high.penalty(step_of(high))[0].detach()) == 0


@pytest.mark.parametrize("kind", [Arl, ResSfl])
def test_the_adversary_learns_what_its_victim_is_punished_for(kind):
    defense, losses = kind(SHAPE, 4), []
    step = step_of(defense, 4)
    defense.adversary.train_step = lambda z, loss: losses.append(loss) or torch.tensor(0.0)
    defense.penalty(step)
    (loss,), guess = losses, torch.rand_like(step.images)
    expected = (guess - step.images).square().mean()
    if kind is ResSfl:
        expected = 1 - similarity(guess, step.images)
    torch.testing.assert_close(loss(guess), expected)


def test_club_is_the_loop_over_all_pairs_and_bounded_below():
    x, guess = torch.rand(2, 9, 3, 4, 4, dtype=torch.float64)
    apart = np.mean([[((a - g) ** 2).mean() for a in x.numpy()] for g in guess.numpy()])
    joint = ((x - guess) ** 2).mean()
    assert float(club(guess, x)) == pytest.approx(float(apart - joint), rel=1e-12)
    assert float(club(x, x) / (2 * mean_image_error(x))) == pytest.approx(1, rel=1e-5)
    assert float(club(x.flip(0), x)) < 0  # an adversary that is wrong on purpose
    defense = VClub(SHAPE, 4, weight=2.0)
    defense.guess = lambda released: step.images.flip(0)
    step = step_of(defense)
    assert float(defense.penalty(step)[0]) == 0
    defense.guess = lambda released: step.images
    assert float(defense.penalty(step)[0]) == pytest.approx(2, rel=1e-5)


def test_disco_sends_whole_channels_or_nothing_of_them_at_every_rate():
    z = torch.rand(40, *SHAPE) + 0.1
    for rate, kept in ((0.0, 8), (0.25, 6), (0.5, 4), (0.99, 1)):
        defense = Disco(SHAPE, 4, rate=rate).eval()
        sent = defense(z)
        whole = (sent != 0).float().mean((2, 3))
        assert set(whole.unique().tolist()) <= {0.0, 1.0}  # a soft mask would leak
        assert whole.sum(1).unique().tolist() == [kept]
        assert torch.equal(sent[sent != 0], z[sent != 0])
        assert torch.equal(sent, defense.train()(z))
        assert defense.payload(sent) == 32 * 16 * kept + (8 if kept < 8 else 0)
    assert DEFENSES["disco"](SHAPE, 4).kept == 4  # as it ships it prunes


def test_the_pruner_learns_from_the_adversary_and_the_encoder_does_not():
    defense = Disco(SHAPE, 4)
    step = step_of(defense)
    for _ in range(50):
        defense.learn(step)
    penalty, _ = defense.penalty(step)
    assert float(penalty.detach()) > 0
    penalty.backward()
    assert step.features.grad is None
    assert all(p.grad.abs().sum() > 0 for p in defense.pruner.parameters())
    before = deepcopy(defense.state_dict())
    defense.zero_grad()
    step.released.sum().backward()  # the cross entropy reaches both
    assert step.features.grad.abs().sum() > 0
    assert any(p.grad.abs().sum() > 0 for p in defense.pruner.parameters())
    assert (
        before.keys()
        == defense.state_dict().keys()
        == {f"pruner.{layer}.{kind}" for layer in (0, 2) for kind in ("weight", "bias")}
    )


def test_the_adversary_learns_less_of_a_victim_that_fights_it(photos):
    fought, indifferent = (
        trained(photos, "arl", weight=weight)[1][-1]["adversary_mse"] for weight in (20.0, 0.0)
    )
    assert fought > indifferent
