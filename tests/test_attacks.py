"""Attacks against scikit-learn, closed forms and worlds with a known answer."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn import linear_model
from torch import Tensor

from attacks import ATTACKS, Knowledge
from attacks.base import AttackError
from attacks.class_mean import ClassMean
from attacks.decoder import Decoder
from attacks.gmm import Gmm
from attacks.mean import Mean
from attacks.ridge import Ridge, releases


def world(x: Tensor, release: Callable[[Tensor], Tensor], classes: int = 2) -> Knowledge:
    return Knowledge(
        images=x,
        draw=lambda index: release(x[index]),
        predict=lambda z: (z.mean((1, 2, 3)) > 0.5).long(),
        classes=classes,
    )


def images(n: int, size: int = 8) -> Tensor:
    """Correlated images inside (0, 1): a random low-frequency pattern."""
    low = torch.rand(n, 3, 2, 2)
    return torch.nn.functional.interpolate(low, (size, size), mode="bilinear") * 0.8 + 0.1


def blurred(noise: float) -> Callable[[Tensor], Tensor]:
    def release(x: Tensor) -> Tensor:
        z = torch.nn.functional.avg_pool2d(x, 2)
        return z + noise * torch.randn_like(z)

    return release


def error(attack, x: Tensor, release: Callable[[Tensor], Tensor]) -> float:
    return float((attack.reconstruct(release(x)) - x).square().mean())


def test_floors_are_the_means():
    x = torch.cat([torch.full((3, 3, 8, 8), 0.2), torch.full((1, 3, 8, 8), 0.8)])
    knowledge = world(x, lambda x: x[:, :, :4, :4], classes=3)
    mean = Mean().fit(knowledge)
    torch.testing.assert_close(
        mean.reconstruct(torch.rand(2, 3, 4, 4)), torch.full((2, 3, 8, 8), 0.35)
    )
    by_class = ClassMean().fit(knowledge)
    dark, bright = by_class.reconstruct(
        torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 3, 4, 4)
    )
    torch.testing.assert_close(dark, torch.full((3, 8, 8), 0.2))
    torch.testing.assert_close(bright, torch.full((3, 8, 8), 0.8))
    torch.testing.assert_close(by_class.images_[2], torch.full((3, 8, 8), 0.35))  # never predicted


def test_ridge_equals_scikit_learn():
    z, x = torch.rand(60, 3, 2, 2), torch.rand(60, 3, 4, 4)
    ours = Ridge().fit_pairs(z[:40], x[:40], z[40:], x[40:])
    theirs = linear_model.Ridge(alpha=ours.penalty_ * 40)  # its penalty is not divided by n
    theirs.fit(z[:40].flatten(1).numpy().astype(np.float64), x[:40].flatten(1).numpy())
    np.testing.assert_allclose(ours.weight_.T, theirs.coef_, atol=1e-5)
    guess = theirs.predict(z[40:].flatten(1).numpy()).reshape(20, 3, 4, 4).clip(0, 1)
    np.testing.assert_allclose(ours.reconstruct(z[40:]), guess, atol=1e-5)


def test_ridge_chooses_the_penalty_that_validates_best():
    train, test = images(120), images(400)
    release = blurred(0.5)
    attack = Ridge(draws=1).fit(world(train, release))
    assert attack.penalty_ > 1e-6
    torch.manual_seed(3)
    assert error(attack, test, release) < error(Mean().fit(world(train, release)), test, release)


def test_one_component_of_gmm_is_exactly_ridge():
    knowledge = world(images(200), blurred(0.1))
    torch.manual_seed(5)
    ridge = Ridge(draws=2).fit(knowledge)
    torch.manual_seed(5)
    gmm = Gmm(components=(150,)).fit(knowledge)  # too many for 170 images: one is left
    assert gmm.n_components_ == 1
    z = knowledge.draw(torch.arange(20))
    assert torch.equal(gmm.reconstruct(z), ridge.reconstruct(z))


def test_gmm_fully_shrunk_with_one_mean_is_the_pooled_regression():
    """The mixture's own path, at K = 1, against the closed form it must reduce to."""
    from attacks.gmm import _expectation_maximisation, _scores

    x = images(300)
    z = blurred(0.1)(x).flatten(1)
    ridge = Ridge().fit_pairs(z.view(-1, 3, 4, 4), x, z[:50].view(-1, 3, 4, 4), x[:50])
    statistics = _expectation_maximisation(z, x.flatten(1), _scores(z, x.flatten(1), 4), 1)
    for shrinkage in (0.0, 0.5, 1.0):
        guess = statistics.shrunk(shrinkage, ridge.penalty_).predict(z)
        expected = ridge.reconstruct(z.view(-1, 3, 4, 4)).flatten(1)
        torch.testing.assert_close(guess, expected, rtol=0, atol=1e-4)


def test_gmm_beats_ridge_where_the_world_is_a_mixture():
    """Two groups of images with opposite slopes: no single linear map can serve both."""

    def draw(n: int) -> Tensor:
        group = torch.randint(2, (n, 1, 1, 1))
        a, b = torch.rand(2, n, 1, 4, 4) * 0.4 + 0.05
        coded = torch.where(group == 0, a, 1 - a)
        other = torch.where(group == 0, b, 1 - b * 0.2)
        hidden = torch.where(group == 0, a, a)
        return torch.cat([coded, other, hidden], 1)

    def release(x: Tensor) -> Tensor:
        return x[:, :2] + 0.01 * torch.randn(len(x), 2, 4, 4)

    train, test = draw(1500), draw(500)
    knowledge = world(train, release)
    torch.manual_seed(0)
    ridge = error(Ridge().fit(knowledge), test, release)
    gmm = Gmm(components=(2,)).fit(knowledge)
    assert gmm.n_components_ == 2
    assert error(gmm, test, release) < 0.5 * ridge


def test_decoder_beats_ridge_where_the_map_is_local_and_not_linear():
    def release(x: Tensor) -> Tensor:
        z = torch.nn.functional.avg_pool2d(x, 2)
        return torch.cat([(6 * z).sin(), (6 * z).cos()], 1) + 0.02 * torch.randn(len(x), 6, 4, 4)

    train, test = images(400), images(200)
    knowledge = world(train, release)
    decoder = Decoder(width=32, blocks=1, max_steps=600).fit(knowledge)
    assert decoder.history_[-1] < decoder.history_[0]
    assert error(decoder, test, release) < 0.7 * error(Ridge().fit(knowledge), test, release)


def test_decoder_stops_on_a_plateau_or_says_it_did_not():
    knowledge = world(images(60), blurred(2.0))
    short = Decoder(width=8, blocks=1, max_steps=2).fit(knowledge)
    assert not short.converged_
    calm = Decoder(width=8, blocks=1, patience=1, decays=0, min_gain=0.9).fit(knowledge)
    assert calm.converged_
    assert len(calm.history_) == 2


def test_decoder_starts_as_the_best_local_linear_map():
    """Its first validation error is that of the closed form, before any training."""
    x = images(100)
    knowledge = world(x, blurred(0.0))
    decoder = Decoder(width=8, blocks=1, max_steps=1).fit(knowledge)
    assert decoder.history_[0] < 1e-3  # bilinear patterns are locally linear


def test_decoder_refuses_features_that_do_not_tile_the_image():
    knowledge = world(images(40), lambda x: x[:, :, :3, :3])
    with pytest.raises(AttackError, match="no whole multiple"):
        Decoder().fit(knowledge)


@pytest.mark.parametrize("name", ["ridge", "gmm", "decoder"])
def test_attacks_see_fresh_releases_and_shuffled_images(name):
    """Every pass draws new noise; the class-sorted order of the images is not kept."""
    seen: list[Tensor] = []
    x = images(60)

    def draw(index: Tensor) -> Tensor:
        seen.append(index)
        return blurred(0.1)(x[index])

    knowledge = Knowledge(images=x, draw=draw, predict=lambda z: z, classes=2)
    options = {"max_steps": 20, "batch_size": 16} if name == "decoder" else {}
    ATTACKS[name](**options).fit(knowledge)
    assert len(seen) > 2
    assert any(not torch.equal(index, index.sort().values) for index in seen)
    fit, val = seen[-1], knowledge.parts(0.15)[1]
    assert len(set(fit.tolist()) | set(val.tolist())) <= 60


@pytest.mark.parametrize("name", ["ridge", "gmm", "decoder"])
def test_too_few_images_are_a_clear_error(name):
    with pytest.raises(AttackError, match="too few to hold out"):
        ATTACKS[name]().fit(world(images(3), blurred(0.1)))


def test_one_release_is_enough_where_nothing_is_random():
    knowledge = world(images(20), blurred(0.0))
    index = torch.arange(20)
    assert len(releases(knowledge, index, 4)[0]) == 20
    noisy = world(images(20), blurred(0.1))
    z, x = releases(noisy, index, 4)
    assert len(z) == len(x) == 80
    assert torch.equal(x[:20], x[60:])
