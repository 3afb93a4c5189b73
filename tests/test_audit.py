"""Audits of small worlds: the numbers are those of suites, and what cannot be run is said."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from smashbench.attacks.ridge import Ridge
from smashbench.bench import audit
from smashbench.bench.auditing import budget, plan
from smashbench.bench.auditing.budget import Clock, Pace
from smashbench.bench.auditing.limits import check
from smashbench.bench.auditing.saved import pack_audit
from smashbench.bench.auditing.settings import SWEPT
from smashbench.bench.auditing.verdict import RANKS, verdict
from smashbench.bench.auditing.world import World
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.attack_victim import Target, attack_victim
from smashbench.bench.experiment.measure import floors_of
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.images import by_group
from smashbench.bench.report.statistics import Estimate, means
from smashbench.bench.store.packs import packs_in
from tests.audited import SOON, encoder, pairs
from tests.fitted import victim_of
from tests.inside import cells_inside


@pytest.fixture(scope="module")
def world():
    return pairs()


@pytest.fixture(scope="module")
def report(world):
    x, z = world
    torch.manual_seed(1)
    head = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    labels = head(z).argmax(1)
    with cells_inside():
        return audit(features=z.numpy(), images=x.numpy(), head=head, labels=labels, minutes=SOON)


def suites_ridge(photos):
    """A victim of a suite, and what the suite says of an attack on it."""
    victim = victim_of("small", "noise", {}, photos.shape, photos.classes)
    target = Target(victim, victim.encode(photos.aux.x), victim.encode(photos.test.x))
    floors = floors_of(photos)
    floor = floors["mean_image"]
    return target, floors, attack_victim(target, Ridge(), "ridge", photos, floor, [0])


@pytest.mark.slow
def test_an_attack_in_an_audit_is_the_attack_in_a_suite(photos):
    """The same parts, defense and seed give the same numbers to the last bit."""
    with cells_inside():
        (victim, z_aux, z_test), floors, ours = suites_ridge(photos)
        world = World(photos, z_aux, z_test, False, victim.encoder, victim.head, floors, 0)
        found = world.attack("ridge", Ridge(), victim.defense)
    assert found.results.metrics == ours.results.metrics
    assert np.array_equal(found.scores["mse"], ours.scores["mse"])
    assert found.estimates["mse"].mean == pytest.approx(ours.results.metrics["mse"].mean)


@pytest.mark.slow
def test_an_audit_of_a_suites_victim_gives_the_suites_number(photos):
    """Other images are scored, so both have an interval. What is audited is what leaves the
    client, noise and all."""
    x = torch.cat([photos.aux.x, photos.test.x])
    groups = torch.cat([photos.aux.groups, photos.test.groups])
    with cells_inside():
        target, _, ours = suites_ridge(photos)
        suites = interval_of(ours, photos)
        for given in ({"model": target.victim.release}, {"features": target.victim.release(x)}):
            share = len(photos.test.x) / len(x)
            found = audit(images=x, groups=groups, test_share=share, minutes=SOON, **given)
            (ridge,) = (each for each in found.attacks if each.name == "ridge")
            assert not suites.apart(ridge.estimates["mse"])
            assert ridge.estimates["mse"].mean == pytest.approx(suites.mean, rel=0.3)


def interval_of(ours, photos):
    """The mean squared error with its interval, as a report of the suite has it."""
    table = by_group(ours.scores["mse"][None, None, None].astype(float), photos.test.groups.numpy())
    return means(table)[0]


def test_values_are_means_over_the_scored_images(report):
    assert report.facts.aux == 140
    assert report.facts.test == len(report.originals) == 60
    assert [each.name for each in report.attacks] == ["mean", "class_mean", "ridge", "knn"]
    worst = report.worst
    truth = report.originals.astype(np.float64) / 255
    error = np.square(truth - worst.reconstructions / 255).mean((1, 2, 3))
    assert worst.estimates["mse"].mean == pytest.approx(error.mean(), abs=2e-5)
    fvu = error.mean() / report.floors["mean_image"]["mse"]
    assert worst.estimates["fvu"].mean == pytest.approx(fvu, abs=1e-3)
    frame = report.to_frame()
    assert frame.attack[0] == worst.name
    assert (frame.mse_low <= frame.mse).all()
    mean = frame[frame.attack == "mean"].iloc[0]
    assert mean.rank_1 == pytest.approx(1 / 60)
    assert mean.rank_5 == pytest.approx(5 / 60)


def test_accuracy_and_what_would_be_lost(report):
    """The labels are what the head says, undefended."""
    assert report.accuracy.mean == 1
    frame = report.what_if_frame()
    assert frame.accuracy[0] == 1
    assert frame.defense[0] == "none"
    noise = frame[frame.defense == "noise"]
    assert list(noise.setting) == ["0.3 sd"]  # one of each, when the time is up
    assert list(frame.defense) == ["none", "noise", "quantise", "projection"]
    assert (frame.accuracy[1:] < 1).any()
    assert (frame.fvu[1:] > frame.fvu[0]).all()


def test_more_pairs_leave_less(report):
    errors = [each.estimates["mse"].mean for each in report.knowledge]
    assert [each.pairs for each in report.knowledge] == [16, 64]
    assert errors[0] > errors[1] > report.worst.estimates["mse"].mean


def test_what_was_not_run_says_why(report):
    assert "give a larger --budget" in report.left_out["decoder"]
    assert "give a larger --budget" in report.left_out["gmm"]
    assert "give --model" in report.left_out["map"]
    assert "give --repeated" in report.left_out["averaging"]
    assert "decoder" in report.short["knowledge"]


def test_the_verdict_counts_what_was_found(report):
    told = " ".join(report.verdict)
    explained = 1 - report.worst.estimates["fvu"].mean
    assert f"rebuilds {round(100 * explained)} % [" in told
    assert "An attacker with 140 images" in told
    shares = {what: report.value(name).mean for name, what in RANKS.items()}
    best = max(shares, key=shares.__getitem__)
    assert f"{round(100 * shares[best])} % [" in told
    assert f"of 60 images are re-identified by the {best} of their reconstruction by " in told
    assert "(chance 1.7 %)" in told


def test_limits_are_kept_by_the_whole_interval(report):
    fvu, rank = report.value("fvu"), report.value("rank_1")
    report = replace(report, facts=replace(report.facts, aux=500))
    (told,) = check(report, [("fvu", fvu.low)])
    assert told.startswith("no decoder was trained, so no limit is shown to be kept")
    assert check(report, []) == []
    trained = [
        each._replace(results=each.results.model_copy(update={"kind": "trained"}))
        for each in report.attacks
    ]
    budget_out = [
        each._replace(results=each.results.model_copy(update={"converged": False}))
        for each in trained
    ]
    (told,) = check(replace(report, attacks=budget_out), [("fvu", fvu.low)])
    assert "has not converged: a longer one would get further" in told
    report = replace(report, attacks=trained)
    assert check(report, [("fvu", fvu.low), ("rank_1", rank.high)]) == []
    (told,) = check(report, [("fvu", fvu.mean)])
    assert told.startswith("fvu = ")
    assert check(report, [("rank_1", rank.high - 1e-6)])
    few = replace(report, facts=replace(report.facts, groups=4), groups=np.arange(60) % 4)
    (told,) = check(few, [("fvu", fvu.low)])
    assert told.startswith("the scored images are of 4 groups, which say as much as 4.0 of one")
    with pytest.raises(BenchError, match="unknown metric 'fvx'; did you mean 'fvu'"):
        report.value("fvx")


def test_the_page_has_it_all_and_old_tables_go(report, tmp_path):
    (tmp_path / "what_if.csv").write_text("old")
    names = [path.name for path in report.write(tmp_path)]
    assert names[0] == "audit.html"
    assert {"attacks.csv", "knowledge.csv", "gallery.png", "knowledge.png"} < set(names)
    text = (tmp_path / "audit.html").read_text()
    for sentence in report.verdict:
        assert sentence in text
    assert text.count("<tr>") >= len(report.attacks) + len(report.knowledge)
    assert "http" not in text.replace("http-equiv", "")
    lines = (tmp_path / "attacks.csv").read_text().splitlines()
    assert len(lines) == 1 + len(report.attacks)
    assert set(report.figures) == {name.removesuffix(".png") for name in names if "png" in name}


def test_a_page_may_show_no_images(report, tmp_path):
    report.write(tmp_path)
    pack_audit(tmp_path)
    names = [path.name for path in report.write(tmp_path, gallery=False)]
    assert "gallery.png" not in names
    assert not packs_in(tmp_path)  # of the audit before
    assert not (tmp_path / "gallery.png").exists()
    assert "rebuilds best" not in (tmp_path / "audit.html").read_text()


def test_every_metric_of_the_suites_is_measured(report):
    assert set(report.metrics) == set(METRICS)


def test_a_decoder_gets_the_steps_that_fit():
    pace = Pace(prepare=0.001, step=0.01, fixed=1.0)
    assert pace.within(5.0, 1000) is None  # 3 s: 37 steps of 8 images
    assert pace.within(12.0, 1000) == (125, 8)
    assert pace.within(1000.0, 1000) == (1559, 64)
    assert pace.within(1000.0, 16) == (400, 16)  # 400 times 16 images


def test_a_clock_says_what_is_left(capsys):
    clock = Clock(2, shown=True)
    clock.say("attack ridge")
    assert capsys.readouterr().err == "[0:00, 1:59 left] attack ridge\n"
    assert Clock(1e-9, shown=False).left == 0


@pytest.mark.slow
def test_with_time_and_an_encoder_there_are_queries_gradients_and_decoders(world, monkeypatch):
    """Hours, in which no decoder takes more than 80 steps."""
    monkeypatch.setattr(budget, "MOST_STEPS", 80)
    monkeypatch.setattr(plan, "pace_of", lambda z, x, width: Pace(0.0, 0.01, 0.0))
    with cells_inside():
        found = audit(images=world[0], model=encoder(), minutes=300)
    names = {each.name for each in found.attacks}
    assert {"decoder", "query_decoder", "map", "gmm"} <= names
    assert set(found.left_out) == {"class_mean", "averaging"}
    assert found.short == {"knowledge": "", "what_if": ""}
    assert {each.defense for each in found.what_if} == {"none", *SWEPT}
    knows = set(found.to_frame().knows)
    assert knows == {"images of its own", "pairs", "pairs + query", "pairs + query + client"}


@pytest.mark.parametrize(
    ("share", "words"), [(0.4, "tell images apart all the same"), (0.01, "hide")]
)
def test_a_poor_reconstruction_that_tells_whose_it_is_is_no_good_news(share, words):
    """Of 100 images one is the nearest by chance."""
    values = {"fvu": Estimate(0.97, 0.95, 0.99), "rank_1": Estimate(share, share / 2, 2 * share)}
    worst = SimpleNamespace(name="ridge", estimates=values, results=SimpleNamespace(converged=True))
    facts = SimpleNamespace(aux=200, test=100, grouped=False)
    known = {"metrics": values, "value": values.get, "without_result": [], "trained": None}
    made = SimpleNamespace(worst=worst, facts=facts, worst_of=lambda _: worst, **known)
    text = " ".join(verdict(made))
    assert "of their reconstruction by ridge (chance 1.0 %)" in text
    assert "No attack came much closer than the mean image" in text
    assert words in text
    assert f"{'40' if share == 0.4 else '1.0'} % [" in text
