"""What a victim learns from its adversary."""

import pytest
import torch

from smashbench.defenses import DEFENSES
from tests.test_adversarial_defenses import SHAPE, step_of


@pytest.mark.parametrize("name", ["arl", "ressfl", "vclub"])
def test_the_victim_learns_from_what_its_adversary_reaches(name):
    options = {"threshold": 0.0} if name == "ressfl" else {}
    defense = DEFENSES[name](SHAPE, 4, adversary_lr=1e-2, **options)
    step = step_of(defense, 4)
    for _ in range(200):
        defense.learn(step)
    penalty, _ = defense.penalty(step)
    assert float(penalty.detach()) > 0
    penalty.backward()
    assert step.features.grad.abs().sum() > 0
    moved = (step.features - 0.5 * step.features.grad / step.features.grad.norm()).detach()
    later = type(step)(step.images, step.labels, moved, lambda z: z)
    defense.adversary.train_step = lambda z, loss: torch.tensor(0.0)
    assert defense.penalty(later)[0] < penalty


def test_the_threshold_of_disco_lies_between_the_last_kept_and_the_next():
    defense = DEFENSES["disco"](SHAPE, 4, temperature=1.0)
    scores = torch.tensor([[0.0, 1, 2, 3, 4, 5, 6, 7]], requires_grad=True)

    class Fixed(torch.nn.Module):
        def forward(self, means):
            return scores

    defense.pruner = Fixed()
    defense._mask(torch.rand(1, *SHAPE)).sum().backward()
    soft = torch.sigmoid(scores.detach() - 3.5)
    torch.testing.assert_close(scores.grad, soft * (1 - soft))


def test_weights_and_thresholds_count_what_the_adversary_reaches():
    """It rebuilds the images: a similarity of 1, and no error."""
    for name, options, expected in (
        ("ressfl", {"weight": 2.0, "threshold": 0.25}, 2 * (1 - 0.25)),
        ("disco", {"weight": 3.0}, 3.0),
    ):
        defense = DEFENSES[name](SHAPE, 4, **options)
        step = step_of(defense)
        defense.learn = lambda step, error=None: torch.tensor(0.0)
        defense.guess = lambda released, step=step: step.images
        assert float(defense.penalty(step)[0]) == pytest.approx(expected, rel=1e-5), name


@pytest.mark.parametrize("name", ["arl", "ressfl", "vclub", "disco"])
def test_width_and_rate_are_those_of_the_adversary(name):
    defense = DEFENSES[name](SHAPE, 4, adversary_width=5, adversary_lr=0.02)
    defense.learn(step_of(defense))
    assert defense.adversary._network.layers[0].out_channels == 5
    assert defense.adversary._optimiser.param_groups[0]["lr"] == 0.02
