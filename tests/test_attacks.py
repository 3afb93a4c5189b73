"""Closed-form attacks against scikit-learn and values worked by hand."""

import numpy as np
import pytest
import torch
from sklearn import linear_model
from torch import Tensor

from smashbench.attacks import Knowledge
from smashbench.attacks import gmm as gmm_module
from smashbench.attacks.class_mean import ClassMean
from smashbench.attacks.gmm import SHRINKAGES, Gmm, _scores, _statistics
from smashbench.attacks.knn import Knn
from smashbench.attacks.mean import Mean
from smashbench.attacks.ridge import Ridge
from tests.worlds import blurred, error, images, served, world


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


def test_a_feature_of_large_values_rounds_nothing_away():
    """Fewer pairs than features, so that inner products decide; the same map in float64."""
    x = images(140)
    z = torch.cat([x.flatten(1).repeat(1, 3), 1e5 * torch.randn(140, 1)], 1)
    z += 0.05 * torch.randn_like(z)
    ours = Ridge().fit_pairs(z[:80], x[:80], z[80:110], x[80:110])
    assert ours.basis_ is not None
    theirs = linear_model.Ridge(alpha=ours.penalty_ * 80, solver="svd")
    theirs.fit(z[:80].double().numpy(), x[:80].flatten(1).double().numpy())
    expected = theirs.predict(z[110:].double().numpy()).clip(0, 1)
    np.testing.assert_allclose(ours.reconstruct(z[110:]).flatten(1), expected, atol=1e-4)
    torch.testing.assert_close(ours.reconstruct(z[110:])[3:4], ours.reconstruct(z[113:114]))
    assert float((ours.reconstruct(z[110:]) - x[110:]).square().mean()) < 0.3 * float(x.var())


@pytest.mark.parametrize("attack", [Ridge, Knn])
def test_what_says_nothing_gives_the_mean_image(attack):
    """As few noisy pairs do: no reconstruction may be worse than none."""
    train, test = images(20), images(200)
    mean = error(Mean().fit(world(train, blurred(0))), test, blurred(0))
    errors = []
    for seed in range(8):
        torch.manual_seed(seed)
        errors.append(error(attack().fit(world(train, blurred(20.0))), test, blurred(20.0)))
    assert np.median(errors) == pytest.approx(mean, rel=0.03)


def unscaled(attack: Knn) -> Knn:
    """The same, with features in the unit in which they are sent."""
    attack.features_, attack.unit_ = attack.features_ * attack.unit_, torch.ones(())
    return attack


def test_neighbours_are_not_ruled_by_the_feature_in_the_largest_unit():
    """One of three channels a hundred times as large, its noise too."""
    train, test = images(300), images(100)
    unit = torch.tensor([1.0, 1.0, 100.0])[:, None, None]
    errors = []
    for scale in (torch.ones(3, 1, 1), unit):
        torch.manual_seed(0)

        def release(x: Tensor, scale: Tensor = scale) -> Tensor:
            return scale * blurred(0.1)(x)

        errors.append(error(Knn().fit(world(train, release)), test, release))
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


def test_neighbours_weigh_features_by_their_noise():
    """A third of the channels is almost nothing but noise."""
    train, test = images(300), images(100)
    noise = torch.tensor([0.01, 0.01, 1.0])[:, None, None]

    def release(x: Tensor) -> Tensor:
        z = blurred(0.0)(x)
        return z + noise * torch.randn_like(z)

    def without(x: Tensor) -> Tensor:
        return release(x)[:, :2]

    torch.manual_seed(0)
    known = error(Knn().fit(world(train, without)), test, without)
    assert error(Knn().fit(world(train, release)), test, release) < 1.1 * known


def test_neighbours_lose_nothing_by_a_little_noise():
    """Where noise is far below the distances between images, they are averaged as if there were
    none, instead of naming the nearest one."""
    train, test = images(300), images(100)
    errors = []
    for noise in (0.0, 0.001):
        torch.manual_seed(0)
        attack = Knn().fit(world(train, blurred(noise)))
        errors.append(error(attack, test, blurred(noise)))
    assert errors[1] == pytest.approx(errors[0], rel=0.02)
    nearest = unscaled(Knn().fit(world(train, blurred(0.001))))
    nearest.bandwidth_ = 0.008  # the widest in units of that noise
    assert error(nearest, test, blurred(0.001)) > 1.05 * errors[1]


def test_one_component_of_gmm_is_exactly_ridge():
    knowledge = world(images(200), blurred(0.1))
    torch.manual_seed(5)
    ridge = Ridge(draws=2).fit(knowledge)
    torch.manual_seed(5)
    gmm = Gmm(components=(150,)).fit(knowledge)  # too many for 170 images: one is left
    assert gmm.n_components_ == 1
    z = knowledge.draw(torch.arange(20))
    assert torch.equal(gmm.reconstruct(z), ridge.reconstruct(z))


def test_gmm_of_classes_that_mean_nothing_is_the_pooled_regression():
    """The mixture's own path against the closed form it must come near to."""
    x = images(300)
    z = blurred(0.1)(x).flatten(1)
    ridge = Ridge().fit_pairs(z.view(-1, 3, 4, 4), x, z[:50].view(-1, 3, 4, 4), x[:50])
    label = torch.zeros(300, dtype=torch.long)
    scores = _scores(z, x.flatten(1), 4)
    assert _statistics(z, x.flatten(1), scores, label, 1, 1.0) is None  # that is ridge itself
    halves = torch.arange(300) % 2  # two classes that mean nothing, fully shrunk, differ little
    statistics = _statistics(z, x.flatten(1), scores, halves, 1, 1.0)
    guess = statistics.shrunk(1.0, ridge.penalty_).predict(z, halves)
    expected = ridge.reconstruct(z.view(-1, 3, 4, 4)).flatten(1)
    torch.testing.assert_close(guess, expected, rtol=0, atol=0.02)
    assert SHRINKAGES[0] == 0


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


def test_neighbours_with_the_true_noise_are_the_posterior_mean():
    """Two images, one release between them: weights by Bayes' rule."""
    x = torch.rand(40, 3, 8, 8)
    attack = unscaled(Knn(draws=8).fit(world(x, blurred(0.3))))
    attack.bandwidth_ = 0.3
    z = blurred(0.3)(x[:5])
    distance = (z.flatten(1)[:, None] - attack.features_).double().square().sum(2)
    weight = torch.exp(-distance / (2 * 0.3**2))
    expected = (weight / weight.sum(1, keepdim=True)) @ attack.images_.double()
    torch.testing.assert_close(
        attack.reconstruct(z).flatten(1).double(), expected, rtol=0, atol=1e-4
    )


def test_neighbours_measure_the_noise_and_find_an_image_they_know():
    x = images(100)
    noisy = Knn().fit(world(x, blurred(0.05)))
    assert 0.04 < noisy.bandwidth_ * float(noisy.unit_.mean()) < 0.5
    exact = unscaled(Knn().fit(world(x, blurred(0.0))))
    exact.bandwidth_ = 1e-3
    torch.testing.assert_close(exact.reconstruct(blurred(0.0)(x[:9])), x[:9])


def test_class_conditional_gmm_uses_the_label_where_the_features_do_not_show_it():
    """The class flips the slope, and is in the last bit of a feature, which only the head reads."""
    group = torch.rand(1200, 1, 1, 1).round()
    a = 0.3 + 0.4 * torch.rand(1200, 1, 4, 4)
    x = torch.cat([a, torch.where(group > 0, a, 1 - a)], 1)

    def draw(index: Tensor) -> Tensor:
        z = x[index, :1] + 0.01 * torch.randn(len(index), 1, 4, 4)
        return (2 * (32 * z).floor() + group[index]) / 64

    knowledge = served(
        world(x, lambda x: x), draw=draw, predict=lambda z: (64 * z[:, 0, 0, 0]).long() % 2
    )
    z = knowledge.draw(torch.arange(300))
    errors = {}
    for by_class in (False, True):
        torch.manual_seed(0)
        attack = Gmm(components=(2,), by_class=by_class, rank=2).fit(knowledge)
        errors[by_class] = float((attack.reconstruct(z) - x[:300]).square().mean())
    assert errors[True] < 1e-3
    assert errors[False] > 5 * errors[True]
    assert set(attack.mixture_.owner.tolist()) == {0, 1}


def test_a_class_without_components_gets_all_of_them():
    x = images(200)
    z = blurred(0.1)(x).flatten(1)
    label = torch.arange(200) % 2
    scores = _scores(z, x.flatten(1), 4)
    statistics = _statistics(z, x.flatten(1), scores, label, 2, 1.0)
    owner = statistics.mixture.owner
    r = statistics.mixture.responsibilities(z[:4], torch.tensor([0, 1, 2, 2]))
    torch.testing.assert_close(r.sum(1), torch.ones(4))
    assert (r[0, owner == 1] == 0).all()
    assert (r[1, owner == 0] == 0).all()
    as_one = statistics.mixture._replace(owner=torch.zeros_like(owner))
    expected = as_one.responsibilities(z[2:4], torch.zeros(2, dtype=torch.long))
    torch.testing.assert_close(r[2:], expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_neighbours_do_not_depend_on_the_scale_and_place_of_features(scale):
    x = images(200)
    errors = []
    for a, b in ((1.0, 0.0), (scale, 0.5 * scale + 0.5)):

        def release(x: Tensor, a: float = a, b: float = b) -> Tensor:
            return b + a * blurred(0.0)(x)

        torch.manual_seed(0)
        attack = Knn().fit(world(x[:150], release))
        errors.append(error(attack, x[150:], release))
    assert errors[1] == pytest.approx(errors[0], rel=0.02)


def test_a_mixture_tries_as_many_components_as_fit_in_memory(monkeypatch):
    """Regressions on 48 features: 48 (32 * 48 + 16 * 192) bytes each."""
    known = world(images(300), blurred(0.1))
    monkeypatch.setattr(gmm_module, "MEMORY", 3 * 48 * (32 * 48 + 16 * 192))
    tried = []
    monkeypatch.setattr(gmm_module, "_statistics", lambda *given: tried.append(given[4]))
    Gmm(components=(2, 3, 4)).fit(known)
    assert tried == [2, 3]


def test_gmm_of_features_in_a_subspace():
    """Their covariances have eigenvalues of 0 that rounding made negative: the Cholesky
    factorisation failed on one projection in six."""
    torch.manual_seed(0)
    hidden = torch.randn(600, 4) + torch.arange(600)[:, None] % 2 * 4
    x = 0.5 + 0.03 * (hidden @ torch.randn(4, 192) / 2)
    x = x.clamp(0, 1).view(-1, 3, 8, 8)
    z = (hidden @ torch.randn(4, 512) / 20).view(-1, 8, 8, 8)
    known = Knowledge(x, 2, {"draw": lambda index: z[index]})
    attack = Gmm(components=(2,), draws=1).fit(known)
    assert float((attack.reconstruct(z) - x).square().mean()) < 1e-6
