"""Refits of the cluster statistics."""

import pytest
import torch

from smashbench.defenses import DEFENSES
from smashbench.defenses.full_gmm_cem import FullGmmCem
from smashbench.defenses.gmm_cem import GmmCem
from smashbench.defenses.groups import Groups
from smashbench.defenses.kmeans_cem import KMeansCem
from tests.fitted import SHAPE, step_of

HAND = torch.tensor([[0.0, 0.0], [0.2, 0.1], [-0.1, 0.05], [0.15, -0.05]], dtype=torch.float64)


def test_kmeans_refresh_finds_the_centres_worked_by_hand():
    defense = KMeansCem((2, 1, 1), 2, clusters=2)
    defense.refresh(HAND.float().view(4, 2, 1, 1), torch.ones(4, dtype=torch.long))
    centres = defense.centres[1][defense.centres[1][:, 0].argsort()]
    expected = torch.tensor([[-0.05, 0.025], [0.175, 0.025]])
    torch.testing.assert_close(centres, expected)
    assert defense.weights.tolist() == [[0, 0], [0.5, 0.5]]


@pytest.mark.parametrize("name", ["kmeans_cem", "gmm_cem"])
def test_refresh_copes_with_small_and_missing_classes(name):
    """Fewer samples than clusters, one sample, none; equal samples."""
    defense = DEFENSES[name](SHAPE, 5)
    features = torch.rand(20, *SHAPE)
    features[10:14] = features[10]
    labels = torch.tensor([0] * 10 + [1] * 4 + [2] * 1 + [3] * 5)
    defense.refresh(features, labels)
    assert defense.weights.sum(1).tolist() == pytest.approx([1, 1, 1, 1, 0])
    defense.epoch = 1
    loss, _ = defense.penalty(step_of(features.requires_grad_(), labels))
    assert loss.isfinite()


@pytest.mark.parametrize("name", ["kmeans_cem", "gmm_cem"])
def test_refresh_is_asked_for_every_few_epochs_after_the_warm_up(name):
    defense = DEFENSES[name](SHAPE, 2, warmup_epochs=3, refresh_every=2)
    wanted = []
    for defense.epoch in range(8):
        wanted.append(defense.wants_refresh)
    assert wanted == [False, False, False, True, False, True, False, True]


def test_a_refit_may_see_a_share_of_the_features(monkeypatch):
    seen = []
    monkeypatch.setattr(KMeansCem, "fit", lambda self, z, y: seen.append((z, y)))
    x, y = torch.arange(40.0).view(40, 1), torch.arange(40) % 4
    defense = KMeansCem((1,), 4, refit_share=0.25)
    for _ in range(2):
        defense.refresh(x, y)
    assert [len(z) for z, _ in seen] == [10, 10]
    assert not torch.equal(seen[0][0], seen[1][0])  # drawn anew
    for z, labels in seen:
        assert torch.equal(z[:, 0].long() % 4, labels)


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_gmm_responsibilities_equal_scikit_learn(covariance):
    from sklearn.mixture import GaussianMixture

    full = covariance == "full"
    defense = (
        FullGmmCem(SHAPE, 1, components=2, rank=12) if full else GmmCem(SHAPE, 1, components=2)
    )
    defense = defense.double()
    x = torch.cat([torch.randn(60, 12) * 0.3, torch.randn(40, 12) * 0.5 + 0.8]).double()
    defense.refresh(x.view(-1, *SHAPE), torch.zeros(100, dtype=torch.long))
    ours = GaussianMixture(2, covariance_type=covariance, reg_covar=1e-6, random_state=0)
    ours.weights_, ours.means_ = (t[0].numpy() for t in (defense.weights, defense.means))
    if full:
        ours.precisions_cholesky_ = defense.roots[0].numpy()
        low = (x - defense.centre) @ defense.basis
    else:
        ours.precisions_cholesky_ = defense.precisions[0].sqrt().numpy()
        low = x
    y = torch.zeros(100, dtype=torch.long)
    if full:
        mine = defense.responsibilities(low[:, None] - defense.means[y], y)
    else:
        centred = low - defense.means[0].mean(0)
        groups = Groups.of(y, 1, torch.float64)
        mine = defense.responsibilities(centred, centred.square(), y, groups)
    expected = torch.as_tensor(ours.predict_proba(low.numpy()))
    torch.testing.assert_close(mine, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_full_covariances_of_few_samples_can_be_fitted_again(spread):
    """16 samples of a class for 3 components in 16 dimensions: all covariances are singular but for
    the millionth that is added, which single precision loses beside a variance of 3."""
    y = torch.arange(64) % 4
    z = spread * (torch.randn(64, 40) + torch.randn(4, 40)[y])
    defense = FullGmmCem((40,), 4, noise=0.1, components=3)
    for _ in range(3):
        defense.fit(z, y)
        assert all(each.isfinite().all() for each in defense.buffers())
        assert defense.log_dets.max() < 16 * 14  # precisions of a million in every dimension
    centred = ((z - defense.centre) @ defense.basis)[:, None] - defense.means[y]
    r = defense.responsibilities(centred, y)
    torch.testing.assert_close(r.sum(1), torch.ones(64))


def moved(n: int = 90, classes: int = 3, d: int = 6) -> tuple[torch.Tensor, ...]:
    """Clustered features far from the origin, the same a little later, and uneven labels."""
    y = torch.arange(n) % classes
    y[: n // 6] = 0
    z = 5 + torch.randn(classes, 4, d, dtype=torch.float64)[y, torch.randint(4, (n,))]
    z = z + 0.4 * torch.randn_like(z)
    return z, z + 0.2 * torch.randn_like(z), y


@pytest.mark.parametrize("rounds", [1, 3])
def test_rounds_of_lloyd_are_those_of_scikit_learn(rounds):
    from sklearn.cluster import KMeans

    z, later, y = moved()
    defense = KMeansCem((6,), 4, clusters=3, rounds=rounds, blend=1.0).double()
    defense.fit(z, y)
    starts = defense.centres.clone()
    defense.fit(later, y)
    for label in range(3):
        members = later[y == label].numpy()
        theirs = KMeans(3, init=starts[label].numpy(), n_init=1, max_iter=rounds, tol=0)
        theirs.fit(members)
        centres = torch.as_tensor(theirs.cluster_centers_)
        torch.testing.assert_close(defense.centres[label], centres)
        sizes = torch.as_tensor(theirs.labels_).bincount(minlength=3).double()
        assert defense.sizes[label].tolist() == sizes.tolist()
        torch.testing.assert_close(defense.weights[label], sizes / len(members))
        mine = members[theirs.labels_ == 1] - theirs.cluster_centers_[1]
        torch.testing.assert_close(defense.spreads[label, 1], torch.as_tensor((mine**2).mean(0)))
    assert not defense.weights[3].any()  # no sample


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("covariance", ["diag", "full"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_rounds_of_em_are_those_of_scikit_learn(covariance, rounds):
    from sklearn.mixture import GaussianMixture

    z, later, y = moved(240)
    full = covariance == "full"
    options = {"components": 2, "rounds": rounds}
    defense = FullGmmCem((6,), 3, rank=6, **options) if full else GmmCem((6,), 3, **options)
    defense = defense.double()
    defense.fit(z, y)
    turn = defense.basis if full else torch.eye(6).double()
    centre = defense.centre if full else 0
    starts = [
        {
            "weights_init": defense.weights[label].numpy().copy(),
            "means_init": (defense.means[label] @ turn.T + centre).numpy(),
            "precisions_init": (
                turn @ defense.roots[label] @ defense.roots[label].mT @ turn.T
                if full
                else defense.precisions[label].clone()
            ).numpy(),
        }
        for label in range(3)
    ]
    defense.fit(later, y)
    turn, centre = (defense.basis, defense.centre) if full else (turn, 0)
    for label, start in enumerate(starts):
        start["weights_init"] /= start["weights_init"].sum()
        theirs = GaussianMixture(2, covariance_type=covariance, max_iter=rounds, tol=0, **start)
        theirs.fit(later[y == label].numpy())
        means = defense.means[label] @ turn.T + centre
        torch.testing.assert_close(means, torch.as_tensor(theirs.means_))
        torch.testing.assert_close(defense.weights[label], torch.as_tensor(theirs.weights_))
        found = torch.as_tensor(theirs.covariances_)
        if full:
            mine = turn @ defense.covariances[label] @ turn.T
            logs = -torch.logdet(mine)
        else:
            mine = 1 / defense.precisions[label]
            logs = -mine.log().sum(1)
        torch.testing.assert_close(mine, found, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(defense.log_dets[label], logs)


@pytest.mark.parametrize("name", ["kmeans_cem", "gmm_cem", "full_gmm_cem"])
def test_a_class_that_has_shrunk_or_lost_a_cluster_begins_again(name):
    defense = DEFENSES[name]((6,), 3)
    z, later, y = (each.float() if each.is_floating_point() else each for each in moved())
    defense.refresh(z, y)
    defense.weights[1, 2] = 0  # lost
    few = (y != 2) | (y.eq(2).cumsum(0) <= 3)  # three of class 2 are left, for five clusters
    defense.refresh(later[few], y[few])
    torch.testing.assert_close(defense.weights.sum(1), torch.ones(3))
    assert (defense.weights > 0).sum(1)[1:].tolist() == [5, 3]


@pytest.mark.parametrize("name", ["gmm_cem", "full_gmm_cem"])
def test_features_that_hardly_vary_have_a_mixture(name):
    """In float32 the mean of their squares less the square of their mean is below zero."""
    z, y = 1.43 + 1e-4 * torch.randn(300, 5, 2, 2), torch.arange(300) % 2
    defense = DEFENSES[name]((5, 2, 2), 2, components=2)
    defense.refresh(z, y)
    defense.epoch = defense.warmup_epochs + 1
    loss, _ = defense.penalty(step_of(z.requires_grad_(), y))
    assert defense.weights.sum(1).tolist() == pytest.approx([1, 1])
    assert loss.isfinite()


def test_spreads_of_a_first_fit_by_hand():
    """Of each centre the mean squared deviations of its two members, by dimension."""
    defense = KMeansCem((2, 1, 1), 2, clusters=2, blend=1.0)
    defense.refresh(HAND.float().view(4, 2, 1, 1), torch.ones(4, dtype=torch.long))
    spreads = defense.spreads[1][defense.centres[1][:, 0].argsort()]
    expected = torch.tensor([[0.0025, 0.000625], [0.000625, 0.005625]])
    torch.testing.assert_close(spreads, expected)
