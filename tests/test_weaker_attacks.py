"""Attackers without pairs: a stand-in for the client, and a copy sought with the images."""

from copy import deepcopy

import pytest
import torch
from torch.nn.functional import avg_pool2d, interpolate

from smashbench.attacks import Knowledge, unsplit
from smashbench.attacks.base import AttackError
from smashbench.attacks.shadow import BANDWIDTHS, Shadow, discrepancy
from smashbench.attacks.unsplit import UnSplit, _variation

DECODER = {"width": 16, "blocks": 1, "cycle": 60, "max_steps": 60}


def smooth(n, seed):
    """Bright above, dark below."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, 3, 3, 3, generator=generator)
    light = torch.linspace(1.0, 0.4, 3)[:, None]
    return interpolate(coarse * light, (8, 8), mode="bilinear").clamp(0, 1)


def client():
    """A layer that a stand-in of the same architecture can become."""
    torch.manual_seed(5)
    layer = torch.nn.Conv2d(3, 3, 2, stride=2)
    with torch.no_grad():
        layer.weight.copy_(0.25 * torch.eye(3)[:, :, None, None].expand(-1, -1, 2, 2))
        layer.bias.zero_()
    return layer.requires_grad_(False)


def untrained():
    torch.manual_seed(6)
    return torch.nn.Conv2d(3, 3, 2, stride=2)


def knowing(releases, **more):
    """Releases of other people's images, and nothing of one's own."""
    services = {"others": lambda index: releases[index]}
    return Knowledge(
        smooth(400, 1),
        2,
        services,
        others_count=len(releases),
        untrained=untrained(),
        **more,
    )


def test_the_discrepancy_is_that_of_its_definition():
    torch.manual_seed(0)
    a, b = torch.randn(5, 3, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64) + 1
    both = [*a, *b]
    away = [[float((x - y).square().sum()) for y in both] for x in both]
    unit = sum(map(sum, away)) / (12 * 11)

    def kernel(i, j):
        kernels = [torch.exp(torch.tensor(-away[i][j] / (s * unit))) for s in BANDWIDTHS]
        return float(sum(kernels)) / len(kernels)

    ours, theirs = range(5), range(5, 12)
    within_a = sum(kernel(i, j) for i in ours for j in ours if i != j) / 20
    within_b = sum(kernel(i, j) for i in theirs for j in theirs if i != j) / 42
    between = sum(kernel(i, j) for i in ours for j in theirs) / 35
    assert float(discrepancy(a, b)) == pytest.approx(within_a + within_b - 2 * between)


def test_the_discrepancy_is_zero_in_the_mean_where_there_is_none_and_grows_with_a_shift():
    torch.manual_seed(0)
    none = torch.stack([discrepancy(*torch.randn(2, 40, 3)) for _ in range(200)])
    assert abs(none.mean()) < 4 * none.std() / 200**0.5
    a, b = torch.randn(2, 400, 3)
    found = [float(discrepancy(a, b + shift)) for shift in (0.0, 0.5, 1.0, 2.0)]
    assert found == sorted(found)
    near = discrepancy(0.5 + 1e-4 * a, 0.5 + 1e-4 * (b + 0.5))  # of features that hardly differ
    assert float(near) == pytest.approx(found[1], rel=0.02)


@pytest.mark.slow
def test_a_stand_in_makes_what_the_client_releases():
    """Sigmoids and colours apart, the distribution of features leaves little choice."""
    releases = client()(smooth(600, 2))
    torch.manual_seed(0)
    shadow = Shadow(shadow_steps=300, shadow_lr=0.01, **DECODER)
    stand_in = shadow._stand_in(knowing(releases))
    x = smooth(200, 3)
    truth, before = client()(x), untrained()(x)
    made = stand_in.encoder(x)
    assert (made - truth).square().mean() < 0.1 * (before - truth).square().mean()
    assert stand_in.loud.exp().max() < 0.1  # where nothing is random


@pytest.mark.slow
def test_it_rebuilds_more_than_the_mean_image_without_pairs():
    releases = client()(smooth(600, 2))
    torch.manual_seed(0)
    shadow = Shadow(shadow_steps=300, shadow_lr=0.01, **DECODER).fit(knowing(releases))
    x = smooth(200, 3)
    error = (shadow.reconstruct(client()(x)) - x).square().mean()
    floor = (smooth(400, 1).mean(0) - x).square().mean()
    assert error < 0.5 * floor


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, 0.4])
def test_its_noise_becomes_that_of_the_releases(noise):
    """With the rate and the number of steps that it has unless told."""
    releases = client()(smooth(600, 2))
    noisy = releases + noise * torch.randn_like(releases)
    torch.manual_seed(0)
    loud = Shadow(**DECODER)._stand_in(knowing(noisy)).loud.detach().exp()
    assert loud.mean() == pytest.approx(noise, rel=0.25)


def test_the_weights_that_were_granted_are_left_alone():
    known = knowing(client()(smooth(50, 2)))
    Shadow(shadow_steps=2, **DECODER).fit(known)
    assert all(map(torch.equal, known.architecture.parameters(), untrained().parameters()))


@pytest.mark.parametrize("attack", [Shadow, UnSplit])
def test_releases_that_no_such_client_makes_are_a_clear_error(attack):
    releases = torch.rand(50, 7)
    known = knowing(releases)
    with pytest.raises(AttackError, match=r"\(7,\), and the features .* the shape \(3, 4, 4\)"):
        attack().fit(known).reconstruct(releases)


def test_shadow_needs_others_releases():
    with pytest.raises(AttackError, match="400 images and 1 releases of others' are too few"):
        Shadow().fit(knowing(torch.rand(1, 3, 4, 4)))


def test_the_variation_is_that_of_its_definition():
    x = torch.tensor([[0.0, 1.0], [0.5, 0.5]]).view(1, 1, 2, 2)
    down, right = (0.25 + 0.25) / 2, (1.0 + 0.0) / 2
    assert float(_variation(x)) == pytest.approx(down + right)
    assert float(_variation(x.repeat(3, 1, 1, 1))) == pytest.approx(3 * (down + right))


def test_unsplit_finds_images_and_a_copy_that_make_the_releases():
    z = client()(smooth(20, 2)).detach()
    attack = UnSplit(rounds=5, steps=40, rate=0.02, tv=0.0).fit(knowing(z))
    given = [p.clone() for p in attack.architecture_.parameters()]
    guess = attack.reconstruct(z)
    assert guess.shape == (20, 3, 8, 8)
    assert 0 <= guess.min() <= guess.max() <= 1
    assert not torch.allclose(guess[0], guess[1], atol=0.01)
    assert all(map(torch.equal, given, attack.architecture_.parameters()))
    assert not attack.converged_
    torch.testing.assert_close(attack.reconstruct(z), guess)


def test_unsplit_needs_no_release_but_those_it_attacks():
    alone = Knowledge(torch.rand(1, 3, 8, 8), 2, {}, untrained=untrained())
    attack = UnSplit(rounds=1, steps=2).fit(alone)
    assert attack.reconstruct(avg_pool2d(torch.rand(2, 3, 8, 8), 2)).shape == (2, 3, 8, 8)


def test_unsplit_prefers_smooth_images():
    z = client()(torch.rand(10, 3, 8, 8)).detach()
    found = []
    for tv in (0.0, 10.0):
        torch.manual_seed(0)
        attack = UnSplit(rounds=2, steps=40, rate=0.02, tv=tv).fit(knowing(z))
        found.append(float(_variation(attack.reconstruct(z))))
    assert found[1] < 0.5 * found[0]


def test_the_copy_of_unsplit_learns(monkeypatch):
    kept = []
    monkeypatch.setattr(unsplit, "deepcopy", lambda made: kept.append(deepcopy(made)) or kept[-1])
    z = client()(smooth(20, 2)).detach()
    guess = UnSplit(rounds=3, steps=40, rate=0.02, tv=0.0).fit(knowing(z)).reconstruct(z)
    (copy,) = kept
    assert not torch.equal(copy.weight, untrained().weight)
    assert (copy(guess) - z).square().mean() < 0.5 * (untrained()(guess) - z).square().mean()


@pytest.mark.slow
def test_a_stand_in_learns_by_the_discrepancy_alone():
    releases, x = client()(smooth(600, 2)), smooth(200, 3)
    torch.manual_seed(0)
    stand_in = Shadow(shadow_steps=200, shadow_lr=0.01, adversarial=0.0, mmd=1.0)._stand_in(
        knowing(releases)
    )
    truth, before = client()(x), untrained()(x)
    assert (stand_in.encoder(x) - truth).square().mean() < 0.5 * (before - truth).square().mean()
