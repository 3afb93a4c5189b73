"""What closed forms choose, and from which images."""

import pytest
import torch

from smashbench.attacks.gmm import Gmm
from smashbench.attacks.knn import Knn
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
