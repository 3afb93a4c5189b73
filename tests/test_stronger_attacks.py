"""Attacks that copy the client, or learn how to search through it."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import avg_pool2d, interpolate

from smashbench.attacks import ATTACKS, Knowledge
from smashbench.attacks.base import AttackError, WhiteBox
from smashbench.attacks.convolutions import shifted
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.map import Map, _total_variation
from smashbench.attacks.plug_and_play import PlugAndPlay
from smashbench.attacks.stolen_query_decoder import StolenQueryDecoder
from smashbench.attacks.unrolled import Unrolled, _towards
from tests.worlds import QUICK, images

NOISE = 0.05
BRIEF = {"width": 16, "blocks": 1, "cycle": 40, "max_steps": 40}


def encode(x):
    """Weighted means of 4x4 pixels, bent; what is on the right weighs more."""
    slope = torch.linspace(0.2, 1.8, x.shape[3])
    return (4 * (avg_pool2d(x * slope, 4) - 0.5)).sigmoid()


def release(z):
    return z + NOISE * torch.randn_like(z)


def smooth(n, seed):
    coarse = torch.rand(n, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
    return interpolate(coarse, (16, 16), mode="bicubic").clamp(0, 1)


def knowing(images, **more):
    z = encode(images)
    services = {"draw": lambda index: release(z[index]), "query": lambda x: release(encode(x))}
    return Knowledge(images, 2, services, **more)


CLIENT = WhiteBox(encode, release, lambda z: z, random=False)


@pytest.fixture(scope="module")
def stolen():
    torch.manual_seed(0)
    return StolenQueryDecoder(copy_steps=150, **BRIEF).fit(knowing(smooth(600, 1)))


def test_the_copy_releases_what_the_client_would(stolen):
    made = smooth(200, 2).flip(3)
    truth = encode(made)
    missed = (stolen.copy_(made) - truth).square().mean() / truth.var(0).mean()
    assert missed < 0.1
    assert stolen.noise_.mean() == pytest.approx(NOISE, rel=0.05)


@pytest.mark.slow
def test_the_unit_of_the_features_does_not_change_the_copy(stolen):
    x = smooth(600, 1)
    for unit in (1e-4, 1e4):
        known = replace(knowing(x), services={"draw": lambda i, u=unit: u * release(encode(x[i]))})
        torch.manual_seed(0)
        other = StolenQueryDecoder(copy_steps=150, **BRIEF).fit(known)
        made = smooth(50, 2)
        torch.testing.assert_close(other.copy_(made) / unit, stolen.copy_(made), rtol=0, atol=0.02)


def test_half_of_a_batch_is_mirrored_and_released_by_the_copy(stolen):
    known = knowing(smooth(600, 1))
    index = torch.arange(64)
    z, x = stolen.pairs(known, index)
    assert torch.equal(x[:32], known.images[:32].flip(3))
    assert torch.equal(x[32:], known.images[32:64])
    copied = stolen.copy_(x[:32])
    assert (z[:32] - copied).std() == pytest.approx(NOISE, rel=0.1)
    assert (z[32:] - encode(x[32:])).std() == pytest.approx(NOISE, rel=0.1)


def test_a_release_without_noise_is_copied_without():
    images = smooth(100, 1)
    z = encode(images)
    known = Knowledge(images, 2, {"draw": lambda index: z[index]})
    fitted = StolenQueryDecoder(copy_steps=2, **BRIEF).fit(known)
    assert fitted.noise_.abs().max() == 0


def test_it_needs_pairs_alone_and_features_that_tile_the_image():
    assert StolenQueryDecoder.needs == {"pairs"}
    images = smooth(20, 0)
    known = Knowledge(images, 2, {"draw": lambda index: torch.rand(len(index), 2, 5, 5)})
    with pytest.raises(AttackError, match=r"\(16, 16\) pixels are no whole multiple .* \(5, 5\)"):
        ATTACKS["stolen_query_decoder"](copy_steps=1).fit(known)


def test_the_direction_is_the_transposed_jacobian_times_what_is_missing():
    x = torch.rand(2, 3, 8, 8)
    box = WhiteBox(lambda x: avg_pool2d(x, 4), release, lambda z: 3 * z, random=False)
    z = torch.rand(2, 3, 2, 2)
    miss = z - 3 * avg_pool2d(x, 4)
    by_hand = 3 / 16 * miss.repeat_interleave(4, 2).repeat_interleave(4, 3)
    torch.testing.assert_close(_towards(box, x, z), by_hand)


def test_the_rule_learns_from_shifted_images_half_of_them_mirrored():
    torch.manual_seed(3)
    x = torch.rand(4, 3, 16, 16)
    found = []
    for _ in range(12):
        seen = shifted(x)
        found += [
            (mirrored, down, right)
            for mirrored in (False, True)
            for down in range(-4, 5)
            for right in range(-4, 5)
            if torch.equal(
                seen[:, :, 4:12, 4:12],
                (x.flip(3) if mirrored else x)[:, :, 4 + down : 12 + down, 4 + right : 12 + right],
            )
        ]
    assert len(found) == 12
    assert {mirrored for mirrored, *_ in found} == {False, True}
    assert len(set(found)) > 8


@pytest.mark.slow
def test_a_learned_rule_comes_closer_than_the_decoder_it_starts_from():
    torch.manual_seed(0)
    attack = Unrolled(rule_steps=120, rule_width=16, **BRIEF)
    attack.fit(knowing(smooth(400, 1), white_box=CLIENT))
    x = smooth(200, 2)
    z = release(encode(x))
    start = (Decoder.reconstruct(attack, z) - x).square().mean()
    assert attack.rule_ is not None
    assert (attack.reconstruct(z) - x).square().mean() < 0.98 * start


def test_a_rule_that_does_not_help_is_left_out():
    torch.manual_seed(0)
    attack = Unrolled(rule_steps=1, rule_width=8, lr=50.0, adam_lr=1e-9, **BRIEF)
    attack.fit(knowing(smooth(100, 1), white_box=CLIENT))
    assert attack.rule_ is None
    z = release(encode(smooth(5, 2)))
    assert torch.equal(attack.reconstruct(z), Decoder.reconstruct(attack, z))


@pytest.fixture(scope="module")
def plugged():
    torch.manual_seed(0)
    attack = PlugAndPlay(denoiser_steps=300, steps=10, **BRIEF)
    return attack.fit(knowing(smooth(600, 1), white_box=CLIENT))


@pytest.mark.slow
def test_the_prior_pulls_towards_what_the_denoiser_makes(plugged):
    clean = smooth(100, 4)
    for noise in (0.05, 0.2):
        noisy = clean + noise * torch.randn_like(clean)
        denoised = noisy - plugged.rho_**2 * plugged.away(noisy)
        assert (denoised - clean).square().mean() < 0.7 * noise**2


@pytest.mark.slow
def test_plug_and_play_is_no_worse_than_its_start_and_moves_only_where_that_helps(plugged):
    x = smooth(200, 5)
    torch.manual_seed(3)
    z = release(encode(x))
    start = Decoder.reconstruct(plugged, z)
    assert (plugged.reconstruct(z) - x).square().mean() < 1.02 * (start - x).square().mean()
    weights, plugged.weights_ = plugged.weights_, None
    assert torch.equal(plugged.reconstruct(z), start)
    plugged.weights_ = weights


def test_map_stays_near_its_start_where_it_is_anchored():
    x = images(40)
    attack = Map(steps=30, **QUICK)
    attack.expected_ = lambda x: avg_pool2d(x, 2)
    attack.v_, attack.rho_ = 1.0, 0.1
    z, start = avg_pool2d(x, 2), (x + 0.1 * torch.randn_like(x)).clamp(0, 1)
    moved = [
        float((attack._optimise(z, start, anchor, 0.0) - start).abs().mean())
        for anchor in (0.03, 1e3)
    ]
    assert moved[1] < 0.5 * moved[0]


def test_the_prior_of_map_makes_images_smoother():
    start = torch.rand(10, 3, 8, 8)
    attack = Map(steps=30, **QUICK)
    attack.expected_ = lambda x: avg_pool2d(x, 2)
    attack.v_, attack.rho_ = 1.0, 0.1
    z = avg_pool2d(start, 2)
    rough, smooth = (
        _total_variation(attack._optimise(z, start, 0.03, weight)) for weight in (0.0, 0.3)
    )
    assert smooth < 0.9 * rough
