"""Heads that an audit tunes."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from smashbench.bench import audit
from smashbench.bench.auditing.pairs import images_of, pairs_of
from smashbench.bench.auditing.prepare import prepared
from smashbench.bench.auditing.tuned import tuned_accuracy
from smashbench.bench.errors import BenchError
from tests.audited import DEALT, SOON, encoder, pairs


def test_a_head_is_tuned_to_what_leaves_the_client():
    """A head of random weights gets the labels that another one gave; the one that was given stays
    as it is."""
    x, z = pairs()
    with torch.no_grad():
        y = encoder(3)[2:](z).argmax(1)
    torch.manual_seed(1)
    head = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    before = deepcopy(head.state_dict())
    given = pairs_of(images_of(x, None, None), z, y, None, repeated=False)
    world, accuracy, _ = prepared(given, None, head, **DEALT)
    tuned = tuned_accuracy(world, None, 30)
    assert tuned.mean > max(0.6, accuracy.mean + 0.2)
    assert world.accuracy() == accuracy
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())


@pytest.mark.slow
def test_tuned_heads_have_a_column_and_need_a_module(tmp_path):
    x, z = pairs()
    y = encoder(3)[2:](z).argmax(1)
    found = audit(images=x, features=z, labels=y, head=encoder(3)[2:], tune_head=True, minutes=SOON)
    frame = found.what_if_frame()
    assert (frame.tuned_accuracy_low <= frame.tuned_accuracy).all()
    found.write(tmp_path)
    assert 'scope="col">tuned' in (tmp_path / "audit.html").read_text()
    for head in (None, lambda z: z.flatten(1)[:, :3]):
        with pytest.raises(BenchError, match=r"needs a --head that is a torch\.nn\.Module"):
            audit(images=x, features=z, labels=y, head=head, tune_head=True, minutes=SOON)
