"""Attackers who have fewer pairs, and the curve of what each number of them is worth."""

import numpy as np
import pytest
import torch
from torch import nn

from smashbench.attacks import Attack
from smashbench.attacks.base import AttackError
from smashbench.attacks.unsplit import UnSplit
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.attack_victim import Target, attack_victim
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.models import Model, SplitModel
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.report.figures.knowledge import KNOWLEDGE
from smashbench.bench.report.knowledge import by_pairs, by_releases, knowledge
from smashbench.bench.store.record import AttackRecord, parse
from smashbench.bench.suite import toml as suite
from smashbench.bench.suite.config import AttackChoice, canonical
from smashbench.defenses import Defense
from tests import forge
from tests.fitted import victim_of
from tests.inside import cells_inside
from tests.test_frontier import board, row

SMOKE = ["attacks={mean={},few={use='knn',pairs=50},knn={}}", "defenses={none={}}"]


class Seen(Attack):
    """Keeps what it was granted."""

    kind = "closed_form"

    def fit(self, knowledge):
        self.images_ = knowledge.images
        self.released_ = knowledge.draw(torch.arange(len(knowledge.images)))
        type(self).last = self
        return self

    def reconstruct(self, z):
        return self.images_[:1].expand(len(z), -1, -1, -1)


@pytest.fixture(scope="module")
def target(photos):
    victim = victim_of("small", "none", {}, photos.shape, photos.classes)
    return Target(victim, victim.encode(photos.aux.x), victim.encode(photos.test.x))


def seen(target, photos, pairs):
    floor = {"mse": 0.1, "ssim": 0.1}
    with cells_inside():
        done = attack_victim(target, Seen(), "seen", photos, floor, [0], pairs)
    return done.results, Seen.last


def test_what_ran_before_in_the_process_does_not_matter(target, photos):
    """An attack that begins with a client of other weights draws them by its own seed."""
    floor, found = {"mse": 0.1, "ssim": 0.1}, []
    for before in (1, 2):
        torch.rand(before)
        with cells_inside():
            done = attack_victim(target, UnSplit(rounds=1, steps=3), "unsplit", photos, floor, [0])
        found.append(done.scores["mse"])
    assert np.array_equal(*found)


class Tokens(Model):
    """A client with weights and statistics that no layer knows how to draw anew."""

    def build(self, image_shape, classes):
        layer = nn.TransformerEncoderLayer(3, 1, 4, batch_first=True)
        layer.register_parameter("place", nn.Parameter(torch.zeros(3)))
        layer.register_buffer("seen", torch.zeros(3))
        encoder = nn.Sequential(nn.Flatten(2), Transposed(), layer, nn.Sigmoid())
        return SplitModel(encoder, nn.Sequential(nn.Flatten(), nn.LazyLinear(classes)))


class Transposed(nn.Module):
    def forward(self, x):
        return x.mT


def test_who_knows_the_architecture_gets_nothing_of_the_trained_client():
    victim = Victim(Tokens(), Defense, (3, 4, 4), 2)
    with torch.no_grad():
        for each in (*victim.encoder.parameters(), *victim.encoder.buffers()):
            each.fill_(7.0)
    given = victim.untrained()
    for each in (*given.parameters(), *given.buffers()):
        assert not (each == 7).any()
    assert given.state_dict().keys() == victim.encoder.state_dict().keys()
    assert all(p.requires_grad for p in given.parameters())


def test_fewer_pairs_are_some_of_more_and_keep_their_releases(target, photos):
    few, many = (seen(target, photos, n) for n in (20, 40))
    assert few[0].threat_model.aux_images == len(few[1].images_) == 20
    assert torch.equal(many[1].images_[:20], few[1].images_)
    whole = {x.numpy().tobytes(): z for x, z in zip(photos.aux.x, target.z_aux, strict=True)}
    for x, z in zip(few[1].images_, few[1].released_, strict=True):
        assert torch.equal(whole[x.numpy().tobytes()], z)
    everything = seen(target, photos, None)
    assert torch.equal(everything[1].images_, photos.aux.x)
    assert everything[0].threat_model.aux_images == len(photos.aux.x)


def test_more_pairs_than_there_are_is_an_error(target, photos):
    with pytest.raises(AttackError, match=f"the attacker has {len(photos.aux.x)} images"):
        seen(target, photos, 10**6)


def test_the_keys_of_attacks_with_all_pairs_are_as_before():
    choice = AttackChoice(label="knn", name="knn", options={})
    assert canonical(choice) == '{"label":"knn","name":"knn","options":{}}'
    few = AttackChoice(label="knn", name="knn", options={}, pairs=50)
    assert canonical(few) == '{"label":"knn","name":"knn","options":{},"pairs":50}'
    found = suite.load("smoke", SMOKE)
    assert [trial.attack.pairs for trial in found.attacks] == [None, 50, None]
    trial = found.attacks[1]
    record = forge.attack_record(trial)
    again = parse(record.model_dump_json().encode())
    assert isinstance(again, AttackRecord)
    assert again.config.attack.pairs == 50


@pytest.mark.parametrize("value", ["1", "0.5", "true", "'x'"])
def test_a_number_that_cannot_be_is_named(value):
    with pytest.raises(BenchError, match=r"attacks\.few\.pairs = .*whole number from 2"):
        suite.load("smoke", [f"attacks={{few={{use='knn',pairs={value}}}}}"])


def attacked(accuracy, **fvus):
    """A row whose attacks are called a{pairs}_{releases}."""
    made = row("none", None, accuracy, 0.01)
    for name, fvu in fvus.items():
        values = dict.fromkeys(METRICS, fvu / 10) | {"fvu": fvu}
        found = forge.attack_summary(values, "knn")
        pairs, releases = map(int, name[1:].split("_"))
        changes = {"aux_images": pairs, "releases_per_image": releases}
        found.threat = found.threat.model_copy(update=changes)
        made.attacks[name] = found
    del made.attacks["gmm"]
    return made


def test_the_strongest_with_each_number_counts():
    made = attacked(0.9, a100_1=0.5, a300_1=0.4, a300_4=0.2, a1000_1=0.3, a1000_16=0.1)
    made.attacks["again"] = made.attacks["a300_1"]
    assert [(each.pairs, each.fvu.mean) for each in by_pairs(made)] == [
        (100, 0.5), (300, 0.4), (1000, 0.3)
    ]  # fmt: skip
    assert [(each.releases, each.fvu.mean) for each in by_releases(made)] == [(1, 0.3), (16, 0.1)]
    frame = knowledge(board(made))
    assert list(frame.aux_images) == [100, 300, 300, 1000, 1000]
    assert list(frame.fvu) == [0.5, 0.4, 0.2, 0.3, 0.1]


def test_images_without_releases_are_no_pairs():
    made = attacked(0.9, a100_1=0.5, a1000_1=0.3, a5000_1=0.2)
    shadow = made.attacks["a5000_1"]
    grants = ["unpaired", "architecture"]
    shadow.threat = shadow.threat.model_copy(update={"grants": grants})
    assert [each.pairs for each in by_pairs(made)] == [100, 1000]


def test_a_board_of_one_number_has_no_curve():
    made = board(row("none", None, 0.9, 0.01))
    assert knowledge(made).empty
    assert not KNOWLEDGE.applies(made)


def test_a_row_that_is_not_shown_has_no_curve():
    """Only what costs little is; what was varied for others leaves nothing to draw."""
    costly = attacked(0.9, a30_1=0.9, a1000_1=0.2)
    costly.accuracy = costly.accuracy._replace(mean=0.5)
    made = board(row("none", None, 0.9, 0.01), costly)
    assert not knowledge(made).empty
    assert not KNOWLEDGE.applies(made)


def test_the_curve_says_how_many_are_enough():
    made = attacked(0.9, a30_1=0.9, a100_1=0.5, a1000_1=0.2, a1000_4=0.1)
    drawn = KNOWLEDGE.draw(board(made))
    assert len(drawn.axes) == 2
    assert "100 of 1,000 pairs rebuild 50% of the variance, all of them 80%" in " ".join(
        drawn.get_suptitle().split()
    )
    (line,) = [each for each in drawn.axes[0].lines if len(each.get_xdata()) == 3]
    assert list(line.get_ydata()) == [0.9, 0.5, 0.2]


def test_where_no_number_is_enough_the_curve_says_so():
    drawn = KNOWLEDGE.draw(board(attacked(0.9, a30_1=1.3, a100_1=1.2, a1000_1=1.1)))
    title = " ".join(drawn.get_suptitle().split())
    assert "1,000 of 1,000 pairs rebuild 0% of the variance, all of them 0%" in title
