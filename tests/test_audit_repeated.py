"""Audits of several recorded releases of every image."""

import torch

from smashbench.attacks.averaging import Averaging
from smashbench.bench.auditing.given import Dumped, OneOf
from smashbench.bench.auditing.world import World
from smashbench.bench.experiment.measure import floors_of
from smashbench.datasets import Part, Split
from tests.inside import cells_inside
from tests.worlds import images


def test_one_of_the_recorded_releases_is_sent():
    z = torch.rand(50, 4, 6)
    sent = OneOf((6,), 1)(z)
    chosen = (z == sent[:, None]).all(2)
    assert (chosen.sum(1) == 1).all()
    assert chosen.any(0).all()


def test_each_of_several_releases_is_averaged_once():
    """Drawn one by one, .2 or .6 would come twice for half of the images."""
    x = images(60, 12)
    z = torch.stack([torch.full_like(x, 0.2), torch.full_like(x, 0.6)], 1)
    known, test = (Part(part, torch.zeros(len(part), dtype=torch.long)) for part in x.split(40))
    split = Split(train=known, val=known, aux=known, test=test, classes=1, hash="0" * 16)
    world = World(split, z[:40], z[40:], True, Dumped(), None, floors_of(split), 0)
    with cells_inside():
        done = world.attack("shown", Shown())
    assert (done.reconstructions == round(0.4 * 255)).all()
    assert done.results.threat_model.releases_per_image == 2


class Shown(Averaging):
    """Gives the average that it saw."""

    def __init__(self):
        super().__init__(releases=2)

    def fit(self, knowledge):
        assert torch.allclose(knowledge.draw(torch.arange(40)), torch.tensor(0.4))
        self.history_, self.converged_ = [], True
        return self

    def reconstruct(self, z):
        return z
