"""Attacks on releases with gaps, on several of them, and on rounded ones; and where bounds hold."""

import pytest
import torch
from torch.nn.functional import avg_pool2d

from smashbench.attacks.averaging import Averaging
from smashbench.attacks.base import WhiteBox
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.gaps import SEEN, Gaps
from smashbench.attacks.map import Map
from smashbench.attacks.mask_decoder import MaskDecoder
from smashbench.attacks.set_decoder import SetDecoder
from smashbench.bench.experiment.bounds import _is_known, lower_bound
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.victim import Victim
from smashbench.defenses import DEFENSES
from smashbench.defenses.dropout import Dropout
from smashbench.defenses.quantise import Quantise
from smashbench.defenses.stack import Stack
from tests.fitted import victim_of
from tests.worlds import blurred, images, served, world

SMALL = {"width": 16, "blocks": 1, "cycle": 40, "max_steps": 120, "batch_size": 32}
ENCODED = (3, 4, 4)


def encode(x):
    return avg_pool2d(x, 2)


def of(defense, x):
    """A world whose client averages 2x2 pixels and defends them."""
    return world(x, lambda x: defense(encode(x)).detach())


def gaps_of(z):
    return Gaps(served(world(torch.rand(len(z), 3, 8, 8), encode), draw=lambda index: z[index]))


def test_what_is_usual_is_learned_from_images_of_every_class():
    """Stored class by class, as folders of images are: the last third alone sends channel 1."""
    z = torch.rand(3 * SEEN, 2, 1, 1) + 0.5
    z[: 2 * SEEN, 1] = 0
    gaps = gaps_of(z)
    assert not gaps.never.any()
    assert gaps.mean[1] == pytest.approx(1.0, abs=0.05)


def test_gaps_are_filled_and_shown_by_hand():
    z = torch.tensor([[0.2, 0.0], [0.4, 0.5], [0.0, 0.7]])[..., None, None]
    gaps = gaps_of(z)
    shown = gaps.shown(z)[..., 0, 0]
    expected = torch.tensor([[0.2, 0.6, 1, 0], [0.4, 0.5, 1, 1], [0.3, 0.7, 0, 1]])
    torch.testing.assert_close(shown, expected)
    beyond = gaps.shown(torch.tensor([[9.0, -9.0]])[..., None, None])[..., 0, 0]
    torch.testing.assert_close(beyond, torch.tensor([[0.4, 0.5, 1, 1]]))  # as far as was seen


def test_several_releases_are_a_union_and_a_set():
    z = torch.tensor([[0.2, 0.0], [0.4, 0.0], [0.0, 0.0], [0.6, 0.8]])[..., None, None]
    gaps = gaps_of(z)
    united = gaps.united(z[None, :3])[0, :, 0, 0]
    # means over those that were sent (no second feature was: its usual mean), spreads, shares
    expected = torch.tensor([0.3, 0.8, 0.02**0.5, 0, 2 / 3, 0])
    torch.testing.assert_close(united, expected)
    torch.testing.assert_close(gaps.united(z[None, [2, 0, 1]]), gaps.united(z[None, :3]))


def test_a_channel_that_is_hardly_ever_sent_does_not_blow_up():
    """Its spread over the attacker's releases is nothing, and a victim's release has it."""
    x = images(120)
    z = encode(x)
    z[:, 0] = 0.25  # constant for the attacker
    knowledge = served(world(x, encode), draw=lambda index: z[index])
    attack = MaskDecoder(**SMALL | {"max_steps": 40}).fit(knowledge)
    strange = z[:5].clone()
    strange[:, 0] = 0.75
    guess, usual = attack.reconstruct(strange), attack.reconstruct(z[:5])
    torch.testing.assert_close(guess, usual)


def test_a_zero_by_rounding_is_no_gap():
    """Of a hundred million noisy features one is zero. As a gap in a channel that never had one
    it would be a million standard deviations from usual, and one such step ruins a fit."""
    z = 0.5 + 0.1 * torch.randn(1500, 3, 4, 4)
    gaps = gaps_of(z)
    assert gaps.always.all()
    rare = z[:2].clone()
    rare[0, 0, 0, 0] = 0.0
    shown = gaps.shown(rare)
    assert shown[:, 3:].min() == 1
    assert shown[0, 0, 0, 0] == gaps.low[0, 0, 0]  # a feature like others, as low as was seen
    assert gaps.united(rare[None])[:, 6:].min() == 1

    unusual = torch.zeros(1500, 1, 1, 1)
    unusual[0] = 0.5
    gaps = gaps_of(unusual)
    assert gaps.never.all()
    assert gaps.shown(unusual[:1])[0, 1] == 0
    assert gaps.united(unusual[None, :2])[0, 1:].abs().max() == 0


@pytest.mark.slow
def test_a_fit_that_draws_such_a_zero_is_like_others():
    x = images(200)
    drawn = []

    def fitted(zero: bool) -> MaskDecoder:
        def draw(index):
            drawn.append(len(index))
            z = encode(x)[index] + 0.5
            if zero and len(drawn) == 20:  # amid the training
                z[0, 0, 0, 0] = 0.0
            return z

        drawn.clear()
        torch.manual_seed(0)
        return MaskDecoder(**SMALL).fit(served(world(x, encode), draw=draw))

    usual, other = (fitted(zero).history_[-1] for zero in (False, True))
    assert len(drawn) > 20
    assert other == pytest.approx(usual, rel=0.05)


@pytest.mark.slow
def test_masks_tell_a_decoder_more_than_zeros_and_a_union_more_than_a_mean():
    torch.manual_seed(0)
    x = images(600)
    defense = Dropout(ENCODED, 2, rate=0.5)

    def error(attack) -> float:
        torch.manual_seed(1)
        attack.fit(of(defense, x[:500]))
        z = [defense(encode(x[500:])) for _ in range(attack.releases)]
        guess = attack.reconstruct(z[0] if len(z) == 1 else torch.stack(z, 1))
        return float((guess - x[500:]).square().mean())

    assert error(MaskDecoder(**SMALL)) < 0.95 * error(Decoder(**SMALL))
    assert error(SetDecoder(releases=4, **SMALL)) < 0.8 * error(Averaging(releases=4, **SMALL))


def test_map_moves_images_through_rounding():
    """By a straight-through estimate of the gradient, without which they would stand still."""
    x = images(200)
    defense = Quantise(ENCODED, 2, bits=3)
    client = WhiteBox(encode, defense, defense.transform, random=False)
    moved = x[:4].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(client.transform(client.encoder(moved)).sum(), moved)
    torch.testing.assert_close(gradient, torch.full_like(gradient, 0.25))
    attack = Map(steps=10, **SMALL | {"max_steps": 40})
    attack.expected_ = lambda x: client.transform(client.encoder(x))
    attack.v_, attack.rho_ = 1e-3, 0.1
    z, start = defense(encode(x[:20])), (x[:20] + 0.1).clamp(0, 1)
    found = attack._optimise(z, start, 0.03, 0.0)
    far, near = ((z - attack.expected_(each)).square().mean() for each in (start, found))
    assert near < 0.5 * far


BOUNDED = {"noise": {"noise": 0.2}, "local_dp": {"epsilon": 300.0}}
UNBOUNDED = {
    "laplace": {"noise": 0.2},
    "matched_noise": {"noise": 0.2},
    "quantise": {},
    "topk": {},
    "projection": {},
    "vib": {},
    "disco": {},
    "channel_dropout": {},
    "dropout": {},
    "shredder": {},
}


@pytest.mark.parametrize("name", [*BOUNDED, *UNBOUNDED])
def test_a_bound_is_claimed_only_for_independent_gaussian_noise_on_a_smooth_transform(name, photos):
    split = photos
    options = BOUNDED.get(name) or UNBOUNDED[name]
    victim = victim_of("small", name, options, split.shape, split.classes)
    assert (bool(victim.defense.noise) and _is_known(victim)) == (name in BOUNDED)
    if name in UNBOUNDED:
        assert lower_bound(victim, split) is None


def test_every_defense_that_rounds_drops_or_prunes_says_so():
    found = {name: each((8, 4, 4), 5).transform_is for name, each in DEFENSES.items()}
    rough = {name for name, kind in found.items() if kind == "rough"}
    random = {name for name, kind in found.items() if kind == "random"}
    assert rough == {"quantise", "topk", "disco"}
    assert random == {"dropout", "channel_dropout", "vib"}
    assert Quantise((4,), 2, dithered=True).transform_is == "random"


def test_a_set_is_of_releases_of_one_image():
    attack = SetDecoder(releases=3, width=8, blocks=1, max_steps=1).fit(
        world(images(100), blurred(0.0))
    )
    assert attack.history_[0] < 1e-3


@pytest.mark.parametrize(
    ("parts", "gaussian", "transform"),
    [
        (("laplace", "noise"), False, "smooth"),
        (("topk", "noise"), True, "rough"),
        (("nopeek", "noise"), True, "smooth"),
    ],
)
def test_a_stack_has_a_bound_only_where_all_of_it_allows_one(photos, parts, gaussian, transform):
    def made(shape, classes):
        return Stack({name: DEFENSES[name](shape, classes) for name in parts})

    victim = Victim(MODELS["small"](), made, photos.shape, photos.classes)
    assert (victim.defense.gaussian, victim.defense.transform_is) == (gaussian, transform)
    known = gaussian and transform == "smooth"
    assert (lower_bound(victim, photos) is not None) == known
