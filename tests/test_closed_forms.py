"""What closed forms choose, and from which images."""

import pytest
import torch

from smashbench.attacks.gmm import Gmm, _Mixture
from smashbench.attacks.knn import Knn, _bandwidths
from smashbench.attacks.ridge import Ridge
from tests.worlds import blurred, error, images, world


def test_a_mixture_that_validates_worse_than_ridge_is_left():
    known = world(images(100), blurred(0.0))  # a linear map is exact
    attack = Gmm(components=(4,)).fit(known)
    assert attack.mixture_ is None
    z = known.draw(torch.arange(9))
    assert torch.equal(attack.reconstruct(z), attack.ridge_.reconstruct(z))


def test_mixtures_are_chosen_on_images_they_were_not_fitted_to():
    train, test, release = images(150), images(400), blurred(1.0)
    found = []
    for attack in (Gmm(components=(4,), draws=1), Ridge(draws=1)):
        torch.manual_seed(0)
        attack.fit(world(train, release))
        torch.manual_seed(1)
        found.append(error(attack, test, release))
    assert found[0] < 1.02 * found[1]


def test_all_images_of_the_attacker_are_neighbours():
    x = images(60)
    attack = Knn().fit(world(x, blurred(0.0)))
    assert len(attack.images_) == len(attack.features_) == 60


def test_neighbours_are_means_of_several_releases():
    x = images(80)
    attack = Knn(draws=16).fit(world(x, blurred(0.4)))
    clean = blurred(0.0)(attack.images_.view(-1, 3, 8, 8)).flatten(1)
    assert float((attack.features_ * attack.unit_ - clean).std()) == pytest.approx(0.1, rel=0.1)


def test_responsibilities_are_the_weights_where_components_are_the_same():
    eye = torch.eye(2).expand(2, 2, 2)
    mixture = _Mixture(
        basis=torch.eye(2),
        centre=torch.zeros(2),
        owner=torch.zeros(2, dtype=torch.long),
        log_weight=torch.tensor([0.9, 0.1]).log(),
        location=torch.zeros(2, 2),
        root=eye,
        mean_z=torch.zeros(2, 2),
        mean_x=torch.zeros(2, 3),
        root_zz=eye,
        cross=torch.zeros(2, 2, 3),
    )
    r = mixture.responsibilities(torch.randn(5, 2), torch.zeros(5, dtype=torch.long))
    torch.testing.assert_close(r, torch.tensor([0.9, 0.1]).expand(5, 2))


def test_the_noise_that_releases_show_is_among_the_bandwidths():
    """Of two releases of each image, s apart by chance; and what validation chooses is near it."""
    clean, s = torch.rand(4000, 6), 0.2
    z = clean + s * torch.randn(2, 4000, 6)
    measured = float(z.var(0).mean().sqrt())
    assert measured == pytest.approx(s, rel=0.02)
    squares = (z[0, :50, None] - z.mean(0)[None, 50:]).square().sum(2)
    found = _bandwidths(z, squares)
    assert any(each == pytest.approx(measured, rel=1e-4) for each in found)
