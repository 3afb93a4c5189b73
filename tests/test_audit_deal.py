"""What an audit deals to the attacker and to the test: nothing that is alike goes to both."""

import pytest
import torch

from smashbench.bench.auditing.pairs import Images, Pairs
from smashbench.bench.auditing.prepare import _groups
from smashbench.bench.auditing.world import dealt


@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_on_both_sides_and_every_image_on_one(seed):
    groups = torch.randint(0, 30, (300,), generator=torch.Generator().manual_seed(seed))
    aux, test = dealt(groups, 0.3, seed)
    assert sorted([*aux.tolist(), *test.tolist()]) == list(range(300))
    assert not set(groups[aux].tolist()) & set(groups[test].tolist())
    assert 90 <= len(test) < 90 + groups.bincount().max()
    again = dealt(groups, 0.3, seed)
    assert torch.equal(again[0], aux)
    assert not torch.equal(dealt(groups, 0.3, seed + 1)[1], test)


def test_equal_images_belong_together_and_so_do_their_groups():
    """4 equals 1, and 5 equals 2: with groups, those of 0, 1 and 4 are one, by way of 4."""
    x = torch.rand(6, 3, 8, 8)
    x[4], x[5] = x[1], x[2]
    same = torch.tensor([[0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]]).bool()
    found, (note,) = _groups(Pairs(Images(x)))
    assert note.startswith("2 of 6 images equal an earlier one")
    assert len(found.unique()) == 4
    assert all(len(found[each].unique()) == 1 for each in same)
    groups = torch.tensor([0, 1, 2, 3, 0, 4])
    found, _ = _groups(Pairs(Images(x), groups=groups))
    assert len(found.unique()) == 3
    for together in ([0, 1, 4], [2, 5], [3]):
        assert len(found[together].unique()) == 1
    assert _groups(Pairs(Images(x[:4]))) == (None, [])
