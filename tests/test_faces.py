"""Images of none of the classes: attacked and not classified, and who is on them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from smashbench.bench.experiment import inferred as inference
from smashbench.bench.experiment.inferred import inferred
from smashbench.bench.experiment.measure import correct_share, floors_of, measure_victim
from smashbench.bench.report.attributes import attribute_estimates
from smashbench.bench.report.images import by_group, of_some, spread
from smashbench.bench.report.statistics import means
from smashbench.bench.run.perform import load_data
from smashbench.bench.store.pack import pack
from smashbench.bench.submitting.check import check
from smashbench.bench.suite.config import Component
from smashbench.datasets import DatasetError, Part, Split
from smashbench.datasets.faces import Faces
from tests.commands import bench
from tests.fitted import victim_of


def test_the_others_are_attacked_and_have_no_class(sets):
    split = Faces(folder="facescrub", others=2, size=32).load(sets)
    assert split.classes == 3
    sizes = {name: len(getattr(split, name).y) for name in ("train", "val", "aux", "test")}
    assert sizes == {"train": 24, "val": 6, "aux": 18 + 20, "test": 12 + 20}
    for part in (split.train, split.val):
        assert part.y.unique().tolist() == [0, 1, 2]
    for part in (split.aux, split.test):
        assert part.y.unique().tolist() == [-1, 0, 1, 2]
        who = part.attributes[:, 0]
        assert torch.equal(who >= 0, part.y < 0)
        assert who[who >= 0].bincount().tolist() == [10, 10]
        assert part.groups.unique().tolist() == [0, 1, 2, 3, 4]
        people = [part.groups[who == number].unique() for number in range(2)]
        assert [each.tolist() for each in people] == [[3], [4]]
    seen = torch.cat([getattr(split, name).x.flatten(1) for name in sizes])
    assert len(seen.unique(dim=0)) == 100  # every image is in one part


def test_too_few_people_or_images_are_named(sets):
    with pytest.raises(DatasetError, match="5 people and others = 4"):
        Faces(folder="facescrub", others=4).load(sets)
    with pytest.raises(DatasetError, match="fewer than 8 images"):
        Faces(folder="facescrub", others=2, per_class=7).load(sets)


def test_only_aux_and_test_may_have_images_of_no_class(photos):
    parts = {name: getattr(photos, name) for name in ("train", "val", "aux", "test")}
    none = torch.full_like(photos.test.y, -1)
    with pytest.raises(DatasetError, match="'test' has no image of any class"):
        Split.build(parts | {"test": Part(photos.test.x, none)}, photos.classes)
    wrong = Part(photos.val.x, photos.val.y - 1)
    with pytest.raises(DatasetError, match=r"'val' has a label outside 0\.\.9"):
        Split.build(parts | {"val": wrong}, photos.classes)


@pytest.fixture
def partly(photos) -> Split:
    """Every third test image is of no class, and shows one of two people; so do some of aux."""

    def marked(part: Part) -> Part:
        number = torch.arange(len(part.y))
        outside, bright = number % 3 == 0, number % 2
        x = part.x.clone()
        x[:, :, :12, :12] = bright[:, None, None, None].float()
        who = torch.where(outside, bright, -1)[:, None]
        return part._replace(x=x, y=part.y.where(~outside, -1), attributes=who, groups=None)

    return replace(photos, aux=marked(photos.aux), test=marked(photos.test))


@pytest.mark.slow
def test_utility_is_of_the_images_that_have_a_class(partly, monkeypatch):
    monkeypatch.setattr(inference, "STEPS", 20)
    victim = victim_of("small", "none", {}, partly.shape, partly.classes)
    found = measure_victim(victim, partly, 0, [{"loss": 1.0}])
    judged = partly.test.y >= 0
    some = correct_share(victim, victim.encode(partly.test.x[judged]), partly.test.y[judged], 0)
    assert found.results.metrics.accuracy == pytest.approx(float(some.mean()), abs=1e-6)
    counts = partly.test.y[judged].bincount()
    assert found.results.metrics.chance == pytest.approx(float(counts.max() / counts.sum()))
    assert torch.equal(found.scores["judged"], judged.float())
    assert torch.equal(found.scores["attributed"], 1 - judged.float())
    assert not found.scores["correct"][~judged].any()


def test_the_floor_of_an_image_of_no_class_is_the_mean_image(partly):
    x, mean = partly.test.x, partly.train.x.mean(0)
    guess = torch.stack(
        [
            mean if label < 0 else partly.train.x[partly.train.y == label].mean(0)
            for label in partly.test.y
        ]
    )
    expected = float((guess - x).square().mean())
    assert floors_of(partly)["class_mean"]["mse"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_people_are_inferred_where_somebody_is_known(partly, monkeypatch):
    monkeypatch.setattr(inference, "STEPS", 60)
    victim = victim_of("small", "none", {}, partly.shape, partly.classes)
    found = inferred(victim, partly, victim.encode(partly.test.x), 0)
    assert torch.equal(found.attributed, partly.test.y < 0)
    shown = found.shares["from_release"]
    assert not shown[~found.attributed].any()
    assert shown[found.attributed].mean() > 0.95


@pytest.mark.parametrize("groups", [None, np.arange(40) // 4])
def test_intervals_over_some_images_are_of_those_alone(groups):
    """Eight of 40 images count; two groups of ten where there are groups."""
    rng = np.random.default_rng(0)
    values, mask = rng.random((1, 3, 1, 40)), np.tile(np.float32(np.arange(40) < 8), (3, 1))
    some = None if groups is None else groups[:8]
    expected = means(by_group(values[..., :8], some))
    assert means(of_some(values, groups, mask)) == expected
    again = values.copy()
    again[..., 8:] = 7  # what does not count is no evidence
    assert means(of_some(again, groups, mask)) == expected
    spread_out = spread(values, mask)
    assert spread_out.mean() == pytest.approx(expected[0].mean)


def test_attributes_of_some_images_are_a_share_of_those():
    right = np.float32([[1, 0, 1, 1, 0, 0, 0, 0]])
    scores = {
        "attribute_from_release": right,
        "attribute_from_prediction": 0 * right,
        "attributed": np.float32([[1, 1, 1, 1, 0, 0, 0, 0]]),
    }
    assert attribute_estimates(scores, None)["attribute"].mean == pytest.approx(0.75)


def test_too_few_attributes_are_named_before_anything_is_trained(photos, monkeypatch):
    few = torch.full((len(photos.test.y), 1), -1)
    few[:9] = 0
    split = replace(
        photos,
        aux=photos.aux._replace(attributes=torch.zeros(len(photos.aux.y), 1).long()),
        test=photos.test._replace(attributes=few),
    )
    monkeypatch.setattr(Faces, "load", lambda self, root: split)
    component = Component(name="faces", options={})
    with pytest.raises(DatasetError, match="'test' has 9 images with attributes"):
        load_data(component, None, torch.device("cpu"))


@pytest.mark.slow
def test_the_suite_runs_and_its_numbers_are_those_of_its_scores(sets, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    # under the name that the suite has: the check loads no other folder
    (data / "orl_faces").symlink_to(sets / "facescrub")
    settings = [
        *("dataset.others=2", "dataset.size=32"),
        *("training.epochs=2", "seeds=[0]", "attacks={mean={},ridge={}}"),
        "defenses={noise={strengths=[0.3]}}",
    ]
    words = [word for setting in settings for word in ("--set", setting)]
    out = tmp_path / "faces"
    done = bench("run", "faces", *words, "--out", out, "--data", data)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    pack(out, reconstructions=True)
    found = [(each.kind, each.text) for each in check(out / "packed.zip", None, data=data)]
    assert ("ok", "every mean is that of the scores of the single images") in found
    assert any("were scored again, and agree" in text for _, text in found), found
    assert not [text for kind, text in found if kind == "PROBLEM"]
