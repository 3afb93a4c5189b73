"""Refits of the cluster statistics."""

import pytest
import torch

from smashbench.defenses import DEFENSES
from smashbench.defenses.full_gmm_cem import FullGmmCem
from smashbench.defenses.gmm_cem import GmmCem
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
    centred = low[:, None] - defense.means[y]
    mine = defense.responsibilities(centred if full else centred.square(), y)
    expected = torch.as_tensor(ours.predict_proba(low.numpy()))
    torch.testing.assert_close(mine, expected, rtol=1e-6, atol=1e-6)
