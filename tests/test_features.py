"""Features of any shape: maps, vectors, tokens; and what a part knows of its images."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from smashbench.attacks import ATTACKS
from smashbench.attacks.network import as_map
from smashbench.bench.experiment.watch import capacity, class_variance
from smashbench.datasets import DatasetError, Part, Split
from smashbench.datasets.photos import Photos
from smashbench.defenses import DEFENSES
from tests.fitted import step_of
from tests.worlds import PAIRED, SMALL, images, world

SHAPES = {"vector": (24,), "tokens": (4, 6), "odd_tokens": (3, 8), "map": (6, 2, 2)}


def test_tokens_lie_on_a_square_and_anything_else_at_one_place():
    z = torch.arange(24.0).view(1, 4, 6)
    found = as_map(z, (8, 8))
    assert found.shape == (1, 6, 2, 2)
    assert torch.equal(found[0, :, 0, 1], z[0, 1])
    first = torch.arange(30.0).view(1, 5, 6)  # a token of no place, and four on a square
    found = as_map(first, (8, 8))
    assert found.shape == (1, 12, 2, 2)
    assert torch.equal(found[0, :6, 1, 0], first[0, 3])
    assert torch.equal(found[0, 6:, 1, 1], first[0, 0])
    assert as_map(torch.rand(2, 3, 8), (8, 8)).shape == (2, 24, 1, 1)
    assert as_map(torch.rand(2, 24), (8, 8)).shape == (2, 24, 1, 1)
    assert as_map(torch.rand(2, 6, 2, 2), (8, 8)).shape == (2, 6, 2, 2)


def test_tokens_of_wide_images_lie_on_a_wide_grid():
    """Those of square patches: 16 tokens of 16x64 pixels are 2x8, although 16 is a square."""
    x = torch.rand(2, 3, 16, 64)
    patches = torch.nn.functional.pixel_unshuffle(x, 8)
    tokens = patches.flatten(2).mT
    assert torch.equal(as_map(tokens, (16, 64)), patches)
    with_class = torch.cat([tokens.mean(1, keepdim=True), tokens], 1)
    found = as_map(with_class, (16, 64))
    assert torch.equal(found[:, : patches.shape[1]], patches)
    assert found.shape == (2, 2 * patches.shape[1], 2, 8)


def release(shape):
    """The means of 2x2 pixels of 4x4 images' channels, mixed linearly, in some shape."""
    mix = torch.randn(12, 24, generator=torch.Generator().manual_seed(0)) / 12**0.5

    def released(x):
        z = torch.nn.functional.avg_pool2d(x, 4).flatten(1) @ mix
        return (z + 0.01 * torch.randn_like(z)).view(-1, *shape)

    return released


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", [name for name in ATTACKS if name != "reference_decoder"])
def test_every_attack_takes_features_of_any_shape(name, shape):
    """And learns something: features that say much leave less than the mean image."""
    shaped = nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.Unflatten(1, shape))
    torch.manual_seed(0)
    x = images(120, size=8)
    known = replace(world(x, release(shape)), untrained=shaped)
    attack = ATTACKS[name](**SMALL.get(name, {})).fit(known)
    z = release(shape)(x[:7])
    guess = attack.reconstruct(z if attack.releases == 1 else z[:, None])
    assert guess.shape == (7, 3, 8, 8)
    if attack.kind != "floor" and name in PAIRED:
        floor = (x.mean(0) - x[:7]).square().mean()
        assert (guess - x[:7]).square().mean() < 0.9 * floor


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", DEFENSES)
def test_every_defense_takes_features_of_any_shape(name, shape):
    defense = DEFENSES[name](shape, 3)
    z, y = torch.rand(30, *shape, requires_grad=True), torch.arange(30) % 3
    assert defense(z).shape == z.shape
    for defense.epoch in range(7):
        if defense.wants_refresh:
            defense.refresh(z.detach(), y)
    loss, _ = defense.penalty(step_of(z, y))
    assert loss.isfinite()
    assert 0 < defense.payload(z) <= 32 * 24


def test_diagnostics_are_those_of_the_flat_features():
    z, y = torch.rand(30, 24), torch.arange(30) % 3
    for shape in SHAPES.values():
        assert class_variance(z.view(-1, *shape), y, 3) == pytest.approx(class_variance(z, y, 3))
        found = capacity(z.view(-1, *shape), y, 3, 0.1)
        assert found == pytest.approx(capacity(z, y, 3, 0.1))


def test_patches_know_their_region_and_no_region_is_in_two_parts():
    photos = Photos(train=200, val=50, aux=200, test=100).load()
    seen: set[int] = set()
    for part in (photos.train, photos.val, photos.aux, photos.test):
        assert part.groups is not None
        assert len(part.groups) == len(part.x)
        groups = set(part.groups.tolist())
        assert not groups & seen
        seen |= groups
        for group in list(groups)[:5]:  # a region belongs to one photograph
            assert len(part.y[part.groups == group].unique()) == 1
    assert photos.to("cpu").aux.groups is not None
    assert len(photos.test.groups.unique()) < len(photos.test.x)


def parts(**known) -> dict[str, Part]:
    x, y = torch.rand(4, 1, 4, 4), torch.tensor([0, 1, 0, 1])
    return {name: Part(x, y, **known) for name in ("train", "val", "aux", "test")}


def test_what_a_part_knows_is_carried_hashed_and_as_long_as_its_images():
    plain = Split.build(parts(), 2)
    people = torch.tensor([7, 7, 8, 9])
    known = Split.build(parts(identities=people, attributes=torch.zeros(4, 2)), 2)
    assert known.hash != plain.hash
    assert known.test.identities.tolist() == [7, 7, 8, 9]
    assert known.test.groups is None
    assert replace(known).to("cpu").aux.attributes.shape == (4, 2)
    with pytest.raises(DatasetError, match="part 'train' has 3 groups of 4 images"):
        Split.build(parts(groups=torch.zeros(3)), 2)
