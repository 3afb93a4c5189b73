"""Every attack on bad input, and on what it may see."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from smashbench.attacks import ATTACKS
from smashbench.attacks.base import AttackError, held_groups, releases
from smashbench.attacks.decoder import Decoder
from smashbench.bench.experiment.attack_victim import Target, attack_victim
from smashbench.bench.experiment.wall import grant
from tests.fitted import victim_of
from tests.worlds import LEARNING, PAIRED, SMALL, blurred, images, served, world

QUERYING = {name for name, attack in ATTACKS.items() if "query" in attack.needs}
"""Attacks that are fitted to releases of images that they make up."""


@pytest.mark.parametrize("name", sorted({*LEARNING} & {*PAIRED} - QUERYING))
def test_attacks_see_fresh_releases_and_shuffled_images(name):
    """Every pass draws new noise; the class-sorted order of the images is not kept."""
    seen: list[Tensor] = []
    x = images(60)

    def draw(index: Tensor) -> Tensor:
        seen.append(index)
        return blurred(0.1)(x[index])

    knowledge = served(world(x, blurred(0.1)), draw=draw)
    ATTACKS[name](**SMALL.get(name, {})).fit(knowledge)
    assert len(seen) > 2
    assert any(not torch.equal(index, index.sort().values) for index in seen)
    if ATTACKS[name].kind == "trained":  # every image is released anew in every epoch
        assert torch.cat(seen).bincount(minlength=60).sort().values[20:].min() > 3


def test_the_attackers_validation_images_are_not_those_it_fits_on():
    fit, val = world(images(60), blurred(0.1)).parts(0.15)
    assert len(val) == 9
    assert sorted(torch.cat([fit, val]).tolist()) == list(range(60))


def test_images_of_one_group_are_all_fitted_on_or_all_held_out():
    x = images(60)
    known = replace(world(x, blurred(0.1)), groups=torch.arange(60) // 5 * 7)
    fit, val = known.parts(0.2)
    assert sorted([*fit.tolist(), *val.tolist()]) == list(range(60))
    assert len(val) == 15  # a group of 5 more than 12 images
    assert not set((fit // 5).tolist()) & set((val // 5).tolist())
    torch.manual_seed(17)
    assert torch.equal(val, known.parts(0.2)[1])  # whatever the seed: fits can be compared
    alone = replace(known, groups=torch.arange(60))  # as if there were none
    assert len(alone.parts(0.2)[1]) == 12
    with pytest.raises(AttackError, match="60 aux images of 1 groups are too few to hold out 20%"):
        replace(known, groups=torch.zeros(60)).parts(0.2)


@pytest.mark.parametrize("place", range(5))
def test_a_group_of_most_images_is_fitted_on(place):
    sizes = torch.full((5,), 10)
    sizes[place] = 1000
    for seed in range(5):
        held = held_groups(sizes, 156, torch.Generator().manual_seed(seed))
        assert held.tolist() == [size == 10 for size in sizes.tolist()]
    held = held_groups(torch.tensor([300, 200, 250]), 20, torch.Generator().manual_seed(0))
    assert held.tolist() == [False, True, False]  # all are too large: the smallest


@pytest.mark.parametrize(
    "name", [name for name in LEARNING if name not in {"reference_decoder", "unsplit"}]
)
def test_too_few_images_are_a_clear_error(name):
    with pytest.raises(AttackError, match="too few to hold out"):
        ATTACKS[name](**SMALL.get(name, {})).fit(world(images(3), blurred(0.1)))


@pytest.mark.parametrize("name", [name for name in ATTACKS if name != "mean"])
def test_features_that_are_not_finite_are_a_clear_error(name):
    def release(x: Tensor) -> Tensor:
        z = blurred(0.0)(x)
        z[-1] = torch.nan  # the last of every batch, not the first
        return z

    x = images(40)
    with pytest.raises(AttackError, match="not finite"):
        ATTACKS[name](**SMALL.get(name, {})).fit(world(x, release)).reconstruct(release(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*PAIRED} - {"reference_decoder"}))  # as published
def test_the_unit_in_which_features_are_sent_hides_nothing(name):
    x, test = images(60), images(5)
    guesses = []
    for unit in (1.0, 2.0**-30, 2.0**20):
        torch.manual_seed(0)

        def release(x: Tensor, unit: float = unit) -> Tensor:
            return unit * blurred(0.02)(x)

        known = world(x, release)
        known = served(known, predict=partial(_sent_in, unit, known.predict))
        attack = ATTACKS[name](**SMALL.get(name, {})).fit(known)
        torch.manual_seed(1)
        guesses.append(attack.reconstruct(release(test)))
    for guess in guesses[1:]:
        torch.testing.assert_close(guess, guesses[0], atol=1e-3, rtol=0)


def _sent_in(unit: float, predict: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    return predict(z / unit)


SAMPLED = "flow"
"""Its mean is that of a few samples: tests/test_flow.py."""


@pytest.mark.parametrize("name", sorted({*PAIRED} - {"reference_decoder", SAMPLED}))
def test_features_that_say_nothing_give_the_mean_image(name):
    x = images(200)
    x[:, :, :4] *= 0.5  # a mean image that is not flat
    attack = ATTACKS[name](**SMALL.get(name, {}))
    attack.fit(world(x, lambda x: torch.full((len(x), 3, 4, 4), 0.5)))
    guess = attack.reconstruct(torch.full((5, 3, 4, 4), 0.5))
    torch.testing.assert_close(guess, x.mean(0).expand(5, -1, -1, -1), rtol=0, atol=0.03)


@pytest.mark.parametrize("name", LEARNING)
def test_images_of_one_colour_are_no_special_case(name):
    x = torch.rand(100, 3, 1, 1).expand(-1, -1, 8, 8).contiguous()
    release = blurred(0.01)
    attack = ATTACKS[name](**SMALL.get(name, {})).fit(world(x, release))
    guess = attack.reconstruct(release(x[:20]))
    assert guess.isfinite().all()
    if name in PAIRED and name != "reference_decoder":  # two epochs teach it nothing
        assert float((guess - x[:20]).square().mean()) < 0.02


@pytest.mark.parametrize("name", sorted(set(ATTACKS) - {"unsplit", "reference_decoder"}))
def test_the_same_image_again_and_again_is_reconstructed(name):
    x = torch.full((60, 3, 8, 8), 0.25)
    attack = ATTACKS[name](**SMALL.get(name, {})).fit(world(x, blurred(0.05)))
    guess = attack.reconstruct(blurred(0.05)(x[:3]))
    torch.testing.assert_close(guess, x[:3], rtol=0, atol=0.05)


def test_the_reference_decoder_says_what_it_cannot_do():
    with pytest.raises(AttackError, match="too few"):
        ATTACKS["reference_decoder"]().fit(world(images(1), blurred(0.1)))
    big = world(images(4), lambda x: x.repeat(1, 1, 2, 2))
    with pytest.raises(AttackError, match="no power of two"):
        ATTACKS["reference_decoder"]().fit(big)
    with pytest.raises(AttackError, match=r"features \(192,\) are no map"):
        ATTACKS["reference_decoder"]().fit(world(images(4), lambda x: x.flatten(1)))


@pytest.mark.parametrize(("name", "missing"), [("query_decoder", "query"), ("map", "client")])
def test_an_attack_without_its_knowledge_says_what_it_needs(name, missing):
    blind = grant(ATTACKS[name]().needs - {missing}, world(images(60), blurred(0.1)))
    with pytest.raises(AttackError, match=f"needs the grant {missing!r}"):
        ATTACKS[name](**SMALL[name]).fit(blind)


def test_several_releases_need_their_grant(photos):
    """An instance may ask for more than its class declares; never for more than it names."""

    class Greedy(ATTACKS["knn"]):
        releases = 4

    victim = victim_of("small", "none", {}, photos.shape, photos.classes)
    target = Target(victim, victim.encode(photos.aux.x), victim.encode(photos.test.x))
    with pytest.raises(AttackError, match="name the grant 'repeats' in needs"):
        attack_victim(target, Greedy(), "greedy", photos, {"mse": 0.1, "ssim": 0.1}, [0])


def test_one_release_is_enough_where_nothing_is_random():
    knowledge = world(images(20), blurred(0.0))
    index = torch.arange(20)
    assert len(releases(knowledge, index, 4)[0]) == 20
    noisy = world(images(20), blurred(0.1))
    z, x = releases(noisy, index, 4)
    assert len(z) == len(x) == 80
    assert torch.equal(x[:20], x[60:])


def test_a_decoder_is_judged_on_images_that_it_is_not_fitted_to():
    """Noise for images and noise for releases: what is learned of one says nothing of others."""
    x, z = torch.rand(60, 3, 8, 8), torch.rand(60, 3, 4, 4)
    known = served(world(x, lambda x: x), draw=lambda index: z[index])
    decoder = Decoder(width=8, blocks=1, hidden=(0,), cycle=20, max_steps=60).fit(known)
    fit, val = known.parts(decoder.val_share)
    errors = [
        float((decoder.reconstruct(z[part]) - x[part]).square().mean()) for part in (val, fit)
    ]
    assert min(decoder.history_) == pytest.approx(errors[0], rel=1e-5)
    assert errors[1] < 0.95 * errors[0]
