"""Attacks whose reconstructions have no score: left out, said, and never taken for privacy."""

import re
from dataclasses import replace

import pytest
import torch

from smashbench.attacks.base import Attack, OversizedError
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.mask_decoder import MaskDecoder
from smashbench.attacks.mean import Mean
from smashbench.bench import audit
from smashbench.bench.auditing import curves, plan
from smashbench.bench.auditing.budget import Clock, Fit, Pace
from smashbench.bench.auditing.checks import check_features
from smashbench.bench.auditing.limits import check
from smashbench.bench.auditing.pairs import images_of, pairs_of
from smashbench.bench.auditing.plan import Situation
from smashbench.bench.auditing.prepare import prepared
from smashbench.bench.auditing.saved import read_audit
from smashbench.bench.auditing.settings import SWEPT
from smashbench.bench.auditing.world import LeftOutError
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from tests.audited import DEALT, SOON, pairs
from tests.inside import cells_inside


class Lost(Attack):
    """Ends in numbers that are none."""

    kind = "closed_form"
    needs = ("pairs",)

    def fit(self, knowledge):
        self.shape_ = knowledge.images.shape[1:]
        return self

    def reconstruct(self, z):
        return torch.full((len(z), *self.shape_), torch.nan)


@pytest.mark.slow
def test_reconstructions_that_are_not_finite_leave_an_attack_out(monkeypatch, tmp_path):
    """The audit goes on, and says that no limit is shown to be kept."""
    x, z = pairs()
    monkeypatch.setitem(plan.PLANNED, "ridge", lambda now: Lost())
    with cells_inside():
        report = audit(images=x, features=z, minutes=SOON)
    assert {each.name for each in report.attacks} == {"mean", "knn"}
    assert report.left_out["ridge"].startswith("what it rebuilds cannot be scored: reconstruction")
    assert report.without_result == ["ridge"]
    assert "Without a result ended ridge, so that the encoder may leak more than this" in (
        " ".join(report.verdict)
    )
    results = report.worst.results.model_copy(update={"kind": "trained", "converged": True})
    sure = replace(report, attacks=[each._replace(results=results) for each in report.attacks])
    sure = replace(sure, facts=replace(sure.facts, aux=500))
    (told,) = check(sure, [("fvu", 0.01)])
    assert told.startswith("these attacks ended without a result, so that no limit is shown")
    assert check(replace(sure, left_out={}), [("fvu", 0.01)]) == []
    endless = replace(report, left_out={"ridge": "no " * 2000})  # as an exception may say
    endless.write(tmp_path)
    assert len(read_audit(tmp_path)[0].left_out["ridge"]) == 3000
    report.write(tmp_path)
    assert "cannot be scored" in (tmp_path / "audit.html").read_text()


def test_an_audit_of_which_nothing_is_left_says_why(monkeypatch):
    x, z = pairs()
    monkeypatch.setattr(plan, "PLANNED", {"mean": lambda now: Lost(), "knn": lambda now: "no time"})
    with (
        cells_inside(),
        pytest.raises(BenchError, match=r"could be run, .* mean: what it .* knn: no time"),
    ):
        audit(images=x, features=z, minutes=SOON)


def test_decoders_without_a_result_are_missed_in_every_curve(monkeypatch):
    """They alone see what is missing: without them, settings that leave something out are left
    out, and the other points say that attackers can do better."""
    x, z = pairs()
    world, *_ = prepared(pairs_of(images_of(x, None, None), z, None, None), None, None, **DEALT)
    asked = []

    def trained(fit, *, masks=False):
        asked.append(masks)
        (name,) = plan.trained(fit, masks=masks)
        return {name: Lost()}

    monkeypatch.setattr(curves, "trained", trained)
    monkeypatch.setattr(plan, "pace_of", lambda z, x, width: Pace(0.0, 0.01, 0.0))
    now = Situation(world, Clock(300, shown=False), False, 4.0)
    with cells_inside():
        points, short = curves.knowledge(now)
        rows, short_too = curves.what_if(now)
    why = r" \(what it rebuilds cannot be scored: .*\): attackers can do better\."
    assert re.fullmatch(f"There is no decoder at 2 of 2 points{why}", short)
    kept = {name for name, swept in SWEPT.items() if not swept.masks}
    assert len(points) == 2
    assert {each.defense for each in rows} == {"none", *kept}
    assert re.match(f"There is no decoder at {len(rows)} of {len(rows)} settings{why}", short_too)
    assert asked.count(True) == sum(len(s.values) for s in SWEPT.values() if s.masks)
    for left_out in ("topk 50% dropped", "topk 90% dropped", "dropout 50% dropped"):
        assert left_out in short_too
    assert short_too.endswith("since closed forms do not see which features are missing.")


def test_flattened_maps_that_no_decoder_holds_are_named(monkeypatch):
    """More time would change nothing: the reason stands in the curves and in the limits."""

    def large(z, x, width):
        raise OversizedError("a map would need 8.8 GiB, more than 4")

    x, z = pairs()
    monkeypatch.setattr(plan, "pace_of", large)
    with cells_inside():
        report = audit(images=x, features=z.flatten(1), minutes=SOON)
    why = "a map would need 8.8 GiB, more than 4; maps and tokens should be given as such, not"
    assert report.left_out["decoder"].startswith(why)
    assert f"There is no decoder at 2 of 2 points ({why}" in report.short["knowledge"]
    told, few = check(report, [("fvu", 0.001)])
    assert few.startswith("the attacker had 140 pairs")
    assert told.startswith(f"no decoder was trained, so no limit is shown to be kept: {why}")


def rounded(x, guess):
    """As the similarity of two bright images of almost one colour, in single precision."""
    return torch.full((len(x),), 1.0004)


def test_a_metric_that_is_rounded_beyond_its_bounds_leaves_an_attack_out(monkeypatch):
    x, z = pairs()
    world, *_ = prepared(pairs_of(images_of(x, None, None), z, None, None), None, None, **DEALT)
    monkeypatch.setitem(METRICS, "ssim", replace(METRICS["ssim"], score=rounded))
    with cells_inside(), pytest.raises(LeftOutError, match="be scored: metric 'ssim' gives values"):
        world.attack("mean", Mean())


def test_images_that_no_metric_can_score_are_counted(monkeypatch):
    """Of almost one colour are all from the 150th on: they differ in one pixel by 1 or 2 of 255."""
    x, z = pairs()
    x[150:] = 244 / 255
    x[150:].flatten(1)[torch.arange(50), torch.arange(50)] += (1 + torch.arange(50) % 2) / 255
    monkeypatch.setitem(METRICS, "ssim", replace(METRICS["ssim"], score=rounded))
    given = pairs_of(images_of(x, None, None), z, None, None)
    with pytest.raises(BenchError, match=r"'ssim' .*: \d+ are of one colour, image 15\d the first"):
        prepared(given, None, None, **DEALT)


@pytest.mark.parametrize(("unit", "how"), [(1e18, "divide"), (1e-20, "multiply")])
def test_features_whose_squares_are_lost_are_refused(unit, how):
    """Every attack on them ends at the mean image, which would look like privacy."""
    _, z = pairs()
    with pytest.raises(BenchError, match=f"squares of such numbers are lost, .*; {how} them all"):
        check_features(z * unit)
    assert check_features(z * unit**0.5) == []


def test_a_decoder_of_a_curve_sees_gaps_where_there_are_some():
    fit = Fit(steps=400, batch=16)
    assert isinstance(plan.trained(fit, masks=True)["mask_decoder"], MaskDecoder)
    assert type(plan.trained(fit)["decoder"]) is Decoder
    assert plan.trained(None, masks=True) == {}
