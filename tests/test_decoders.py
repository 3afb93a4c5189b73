"""Trained attacks: what they start from, when they stop, what each adds."""

from math import isfinite

import pytest
import torch
from torch import Tensor

from smashbench.attacks import decoder, network
from smashbench.attacks.averaging import Averaging
from smashbench.attacks.base import AttackError, OversizedError, WhiteBox
from smashbench.attacks.decoder import Decoder, _ssim_l1
from smashbench.attacks.map import Map, _by_channel, _expected, _total_variation
from smashbench.attacks.query_decoder import QueryDecoder
from smashbench.attacks.reference_decoder import ReferenceDecoder, reference_network
from smashbench.attacks.ridge import Ridge
from smashbench.attacks.similarity import ssim
from tests.worlds import QUICK, blurred, error, images, world


@pytest.mark.slow
def test_decoder_beats_ridge_where_the_map_is_local_and_not_linear():
    def release(x: Tensor) -> Tensor:
        z = torch.nn.functional.avg_pool2d(x, 2)
        return torch.cat([(6 * z).sin(), (6 * z).cos()], 1) + 0.02 * torch.randn(len(x), 6, 4, 4)

    train, test = images(400), images(200)
    knowledge = world(train, release)
    decoder = Decoder(width=32, blocks=1, max_steps=600).fit(knowledge)
    assert decoder.history_[-1] < decoder.history_[0]
    assert error(decoder, test, release) < 0.7 * error(Ridge().fit(knowledge), test, release)


def test_decoder_stops_when_doubling_gains_little_or_says_it_did_not():
    knowledge = world(images(60), blurred(2.0))
    short = Decoder(width=8, blocks=1, max_steps=2).fit(knowledge)
    assert not short.converged_
    calm = Decoder(width=8, blocks=1, cycle=5, min_gain=0.9).fit(knowledge)
    assert calm.converged_
    assert len(calm.history_) == 3  # before training, and after 5 and 15 steps


def test_decoder_starts_as_the_best_local_linear_map():
    """Its first validation error is that of the closed form, before any training."""
    x = images(100)
    knowledge = world(x, blurred(0.0))
    decoder = Decoder(width=8, blocks=1, max_steps=1).fit(knowledge)
    assert decoder.history_[0] < 1e-3  # bilinear patterns are locally linear


def test_few_pairs_of_many_features_are_ridged_as_held_out_pairs_ask_for():
    """With as many features as pairs, and features that say nothing, the map of the least squared
    error is far worse than the mean image; the one that the fit begins with is not."""
    x = images(100)
    knowledge = world(x, lambda x: torch.randn(len(x), 80))
    decoder = Decoder(width=8, blocks=1, max_steps=1).fit(knowledge)
    fit, val = knowledge.parts(0.15)
    floor = float((x[fit].mean(0) - x[val]).square().mean())
    assert decoder.history_[0] < 1.5 * floor
    z = torch.cat([knowledge.draw(fit), torch.ones(len(fit), 1)], 1)
    least = torch.linalg.lstsq(z, x[fit].flatten(1)).solution
    z = torch.cat([knowledge.draw(val), torch.ones(len(val), 1)], 1)
    assert ((z @ least).view_as(x[val]) - x[val]).square().mean() > 2.5 * floor


@pytest.mark.slow
def test_a_fully_connected_path_goes_on_where_the_map_is_not_local(monkeypatch):
    """Pixels that know nothing of each other, bent, and patterns whose pixels are shuffled."""
    monkeypatch.setattr(decoder, "PER_FEATURE", 1)
    order = torch.randperm(192)

    def bent(x: Tensor) -> Tensor:
        return (3 * x - 1.5).tanh() + 0.1 * torch.randn_like(x)

    def shuffled(x: Tensor) -> Tensor:
        return bent(x).flatten(1)[:, order].view_as(x)

    options = {"width": 16, "blocks": 1, "cycle": 60, "max_steps": 60}
    (local,) = Decoder(**options).fit(world(torch.rand(300, 3, 8, 8), bent)).nets_
    (spread,) = Decoder(**options).fit(world(images(300), shuffled)).nets_
    assert local.wide is None
    assert spread.wide is not None
    monkeypatch.undo()  # 255 images are few for 192 features
    (few,) = Decoder(**options).fit(world(images(300), shuffled)).nets_
    (asked,) = Decoder(**options, hidden=(256,)).fit(world(images(300), shuffled)).nets_
    assert few.wide is None
    assert asked.wide is not None


def test_a_path_that_would_be_too_large_is_left_out(monkeypatch):
    monkeypatch.setattr(decoder, "PER_FEATURE", 0)
    knowledge = world(images(20), blurred(0.0))
    (net,) = Decoder(width=8, blocks=1, max_steps=1, hidden=(0, 10**6)).fit(knowledge).nets_
    assert net.wide is None
    with pytest.raises(OversizedError, match=r"path of 1000000 units .* hidden = \[0\]"):
        Decoder(width=8, blocks=1, max_steps=1, hidden=(10**6,)).fit(knowledge)


@pytest.mark.parametrize("size", [(8, 8), (8, 12), (7, 5)])
def test_decoder_takes_features_that_do_not_tile_the_image(size):
    """Of 3x3 places: images of 9x9, 12x12 and 9x9 pixels are made and resized."""
    x = torch.nn.functional.interpolate(images(60), size, mode="bilinear")
    knowledge = world(x, lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 3))
    decoder = Decoder(width=8, blocks=1, max_steps=1).fit(knowledge)
    guess = decoder.reconstruct(knowledge.draw(torch.arange(4)))
    assert guess.shape == (4, 3, *size)
    floor = (x.mean(0) - x[:4]).square().mean()
    assert (guess - x[:4]).square().mean() < 0.2 * floor


@pytest.mark.slow
def test_repeated_releases_cancel_noise():
    train, test = images(400), images(200)
    release = blurred(0.5)
    errors = []
    for n in (1, 16):
        attack = Averaging(releases=n, width=16, blocks=1, max_steps=400)
        attack.fit(world(train, release))
        torch.manual_seed(1)
        z = torch.stack([release(test) for _ in range(n)], 1)
        guess = attack.reconstruct(z[:, 0] if n == 1 else z)
        errors.append(float((guess - test).square().mean()))
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.slow
def test_map_repairs_a_decoder_that_learned_little():
    """Seen through an invertible map without noise, the encoder gives the image away."""
    mix = torch.linalg.qr(torch.randn(12, 12)).Q

    def encoder(x: Tensor) -> Tensor:
        return torch.nn.functional.conv2d(
            torch.nn.functional.pixel_unshuffle(x, 2), mix[:, :, None, None]
        )

    train, test = torch.rand(100, 3, 8, 8), torch.rand(50, 3, 8, 8)
    attack = Map(steps=200, **(QUICK | {"max_steps": 1}))
    attack.fit(world(train, encoder))
    assert attack.weights_ is not None
    start = Decoder.reconstruct(attack, encoder(test))
    moved = attack.reconstruct(encoder(test))
    assert (moved - test).square().mean() < 0.5 * (start - test).square().mean()


def test_what_a_start_misses_is_measured_channel_by_channel():
    """Of maps, of tokens, and of vectors, whose every feature is one."""
    unit = torch.tensor([1.0, 100.0])
    maps = unit[:, None, None] * torch.ones(5, 2, 3, 4)
    assert torch.equal(_by_channel(maps), unit.view(1, 2, 1, 1))
    assert torch.equal(_by_channel(maps.flatten(2).mT), unit.view(1, 1, 2))
    assert torch.equal(_by_channel(unit * torch.ones(5, 2)), unit.view(1, 2))


def test_map_expects_what_the_defense_sends():
    """Noise has mean 0; a random transform is averaged over draws."""
    x = torch.rand(6, 3, 8, 8)

    def dropped(z: Tensor) -> Tensor:
        return torch.nn.functional.dropout(z, 0.5)

    def encoder(x: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool2d(x, 2)

    def noisy(z: Tensor) -> Tensor:
        return z.floor() + torch.randn_like(z)

    fixed = _expected(WhiteBox(encoder, noisy, torch.floor, random=False), 4)
    assert torch.equal(fixed(x), encoder(x).floor())
    many = _expected(WhiteBox(encoder, dropped, dropped, random=True), 2000)
    torch.testing.assert_close(many(x), encoder(x), rtol=0, atol=0.15)


def test_total_variation_by_hand():
    x = torch.zeros(1, 1, 3, 3)
    x[0, 0, 1, 1] = 0.3  # lengths .3, .3 and, at the corner itself, .3 sqrt 2
    assert float(_total_variation(x)) == pytest.approx(0.3 * (2 + 2**0.5), abs=2e-3)


@pytest.mark.slow
def test_the_ssim_loss_by_hand_and_that_it_falls(photos):
    x, guess = photos.test.x[:5], photos.test.x[5:10]
    expected = (1 - ssim(x, guess)).mean() + (x - guess).abs().mean()
    torch.testing.assert_close(_ssim_l1(guess, x), expected)
    attack = Decoder(loss="ssim_l1", width=8, blocks=1, max_steps=100)
    attack.fit(world(photos.aux.x, blurred(0.05)))
    assert attack.history_[-1] < attack.history_[0]


def test_mirrored_queries_are_pairs():
    x = images(50)
    z, batch = QueryDecoder().pairs(world(x, blurred(0.0)), torch.arange(50))
    assert torch.equal(z, blurred(0.0)(batch))
    mirrored = [not torch.equal(a, b) for a, b in zip(batch, x, strict=True)]
    assert 10 < sum(mirrored) < 40
    assert all(torch.equal(a.flip(2), b) for a, b, m in zip(batch, x, mirrored, strict=True) if m)


def test_the_reference_network_has_the_published_size():
    network = reference_network(torch.Size((8, 8, 8)), torch.Size((3, 32, 32)), 64, 8)
    assert sum(p.numel() for p in network.parameters()) == 711_539
    assert network(torch.rand(2, 8, 8, 8)).shape == (2, 3, 32, 32)
    with pytest.raises(AttackError, match="no power of two"):
        reference_network(torch.Size((8, 8, 8)), torch.Size((3, 24, 24)), 8, 1)


@pytest.mark.slow
def test_a_fit_that_diverges_keeps_its_best_weights_and_has_not_converged():
    x = images(60)
    attack = Decoder(width=8, blocks=1, max_steps=400, lr=1e6).fit(world(x, blurred(0.1)))
    assert not attack.converged_
    assert all(isfinite(loss) for loss in attack.history_)
    assert attack.reconstruct(blurred(0.1)(x)).isfinite().all()


def test_the_reference_decoder_is_trained_as_its_authors_do(monkeypatch):
    """Adam with weight decay 1e-4, a cosine from 1e-3 to 1e-5, float32."""
    made, rates, types = {}, [], set()
    adam = torch.optim.Adam

    def spy(parameters, lr, weight_decay):
        made.update(lr=lr, weight_decay=weight_decay, optimiser=adam(parameters, lr))
        return made["optimiser"]

    def loss_of(guess, x):
        types.add(guess.dtype)
        rates.append(made["optimiser"].param_groups[0]["lr"])
        return (guess - x).square().mean()

    monkeypatch.setattr("torch.optim.Adam", spy)
    monkeypatch.setattr("smashbench.attacks.reference_decoder.mse_loss", loss_of)
    attack = ReferenceDecoder(width=8, blocks=1, epochs=4)
    attack.fit(world(images(20), lambda x: torch.nn.functional.avg_pool2d(x, 2)))
    assert (made["lr"], made["weight_decay"]) == (1e-3, 1e-4)
    half = (1 + 2**-0.5) / 2  # of a cosine, after one epoch of four
    steps = [1, half, 0.5, 1 - half]
    assert rates == pytest.approx([1e-5 + (1e-3 - 1e-5) * each for each in steps])
    assert types == {torch.float32}


def test_members_are_averaged():
    known = world(images(60), blurred(0.1))
    attack = Decoder(members=2, width=8, blocks=1, max_steps=5).fit(known)
    z = known.draw(torch.arange(7))
    one, other = (net(z) for net in attack.nets_)
    assert not torch.allclose(one, other, atol=1e-4)
    torch.testing.assert_close(attack.reconstruct(z), ((one + other) / 2).clamp(0, 1).detach())


def test_dropout_is_in_training_and_not_under_attack():
    known, modes = world(images(60), blurred(0.1)), []
    attack = Decoder(dropout=0.5, width=8, blocks=1, cycle=3, max_steps=9)
    real = network.dropout

    def spy(x, p, training):
        modes.append((p, training))
        return real(x, p, training)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "dropout", spy)
        attack.fit(known)
        assert {training for _, training in modes} == {True, False}
        assert sum(training for _, training in modes) == 9  # every step, in every cycle
        modes.clear()
        attack.reconstruct(known.draw(torch.arange(3)))
    assert modes == [(0.5, False)]


def test_the_reference_decoder_rebuilds_each_image_by_itself():
    known = world(images(40), blurred(0.05))
    attack = ReferenceDecoder(width=8, blocks=1, epochs=2).fit(known)
    z = known.draw(torch.arange(20))
    torch.testing.assert_close(
        attack.reconstruct(z)[:1], attack.reconstruct(z[:1]), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(("share", "goes"), [(0.85, False), (0.75, True)])
def test_a_path_goes_on_where_it_leads_by_a_fifth(monkeypatch, share, goes):
    real = decoder.mse_loss

    def predict(nets, z):
        return torch.full((len(z), 3, 8, 8), 1.0 if nets[0].wide is None else share)

    def loss(guess, x):
        return real(guess, x) if guess.requires_grad else guess.mean()

    monkeypatch.setattr(decoder, "PER_FEATURE", 0)
    monkeypatch.setattr(decoder, "predict", predict)
    monkeypatch.setattr(decoder, "mse_loss", loss)
    attack = Decoder(width=8, blocks=1, hidden=(0, 8), cycle=1, max_steps=1)
    (net,) = attack.fit(world(images(60), blurred(0.1))).nets_
    assert (net.wide is not None) == goes
