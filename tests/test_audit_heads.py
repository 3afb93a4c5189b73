"""Heads that an audit tunes."""

from copy import deepcopy
from threading import Lock

import pytest
import torch
from torch import nn

from smashbench.attacks.class_mean import ClassMean
from smashbench.bench import audit
from smashbench.bench.auditing.pairs import images_of, pairs_of
from smashbench.bench.auditing.prepare import prepared
from smashbench.bench.auditing.tuned import tuned_accuracy
from smashbench.bench.errors import BenchError
from tests.audited import DEALT, SOON, encoder, pairs
from tests.inside import cells_inside


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


class Frozen(nn.Module):
    """No gradient reaches what it has."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 3)

    @torch.inference_mode()
    def forward(self, z):
        return self.linear(z.flatten(1))


def test_a_head_that_no_gradient_reaches_is_refused_before_anything_runs():
    x, z = pairs()
    with pytest.raises(BenchError, match="no gradient reaches the parameters of the --head; take"):
        audit(
            images=x,
            features=z,
            labels=torch.arange(200) % 3,
            head=Frozen(),
            tune_head=True,
            minutes=SOON,
        )


class Locked(nn.Module):
    """Has what cannot be copied."""

    def __init__(self):
        super().__init__()
        self.linear, self.lock = nn.Linear(32, 3), Lock()

    def forward(self, z):
        return self.linear(z.flatten(1))


def test_a_head_that_cannot_be_copied_cannot_be_tuned():
    x, z = pairs()
    known = {"images": x, "features": z, "labels": torch.arange(200) % 3, "head": Locked()}
    with pytest.raises(
        BenchError, match=r"the --head cannot be copied .*; it is trained as a copy"
    ):
        audit(**known, tune_head=True, minutes=SOON)


@pytest.mark.parametrize("labels", [None, torch.arange(200) % 3])
def test_a_head_may_have_more_classes_than_labels_say(labels):
    """The floor of the class means is that of all classes that it tells apart."""
    x, z = pairs()
    torch.manual_seed(0)
    head = nn.Sequential(nn.Flatten(), nn.Linear(32, 12))
    world, *_ = prepared(pairs_of(images_of(x, None, None), z, labels, None), None, head, **DEALT)
    assert world.split.classes == 12
    with torch.no_grad():
        assert head(world.z_test).argmax(1).max() > 2
    with cells_inside():
        found = world.attack("class_mean", ClassMean())
    assert found.results.kind == "floor"


@pytest.mark.slow
def test_more_classes_than_memory_holds_leave_their_means_out():
    """140 pairs of images of 768 numbers by 160,000 classes, in double precision: 1.1 GiB."""
    x, z = pairs()
    head = nn.Sequential(nn.Flatten(), nn.Linear(32, 160_000))
    with cells_inside():
        found = audit(images=x, features=z, head=head, memory=4.0, minutes=SOON)
    why = "would need 1.1 GiB for so many classes, more than a quarter of --memory 4: give a "
    assert found.left_out["class_mean"] == f"{why}larger one"
    assert {"ridge", "knn"} <= {each.name for each in found.attacks}


def test_classes_that_no_image_is_of_take_no_memory():
    """The floors of sparse labels are those of the same labels, numbered."""
    x, z = pairs()
    sparse = torch.tensor([5, 700_000, 999_999])[torch.arange(200) % 3]
    found = [
        prepared(pairs_of(images_of(x, None, None), z, labels, None), None, None, **DEALT)[0].floors
        for labels in (sparse, torch.arange(200) % 3)
    ]
    assert found[0] == found[1]
