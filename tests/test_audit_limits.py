"""What keeps a limit of an audit from being kept."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from smashbench.attacks.decoder import Decoder
from smashbench.attacks.ridge import Ridge
from smashbench.bench.auditing.budget import ENOUGH_STEPS
from smashbench.bench.auditing.checks import check_features
from smashbench.bench.auditing.figures import exposure
from smashbench.bench.auditing.limits import check
from smashbench.bench.auditing.plan import _converged_if_long
from smashbench.bench.auditing.report import Report
from smashbench.bench.auditing.world import BROKE_OFF, AuditedAttack
from smashbench.bench.errors import BenchError
from smashbench.bench.report.statistics import Estimate
from tests import forge


def attack(name, fvu, kind="trained", converged=True, one_release=True, **others):
    """With an FVU and other metrics, each (mean, low, high)."""
    threat = SimpleNamespace(one_release=one_release)
    results = SimpleNamespace(kind=kind, converged=converged, threat_model=threat)
    known = {"fvu": fvu, "mse": tuple(0.1 * each for each in fvu), **others}
    estimates = {metric: Estimate(*value) for metric, value in known.items()}
    return SimpleNamespace(name=name, results=results, estimates=estimates)


def report(*attacks, groups=None, test=600, without_result=(), aux=1400, grouped=False):
    number = None if groups is None else len(set(groups))
    return Report(
        facts=SimpleNamespace(aux=aux, test=test, groups=number, grouped=grouped),
        attacks=list(attacks),
        left_out=dict.fromkeys(without_result, f"{BROKE_OFF}: out of memory"),
        floors={},
        knowledge=[],
        what_if=[],
        accuracy=None,
        originals=np.zeros(0),
        groups=groups,
    )


GOOD = attack("decoder", (0.6, 0.55, 0.65))
LIMIT = [("fvu", 0.5)]


def test_a_limit_is_kept_by_every_attack_on_one_release():
    mean = attack("mean", (1.0, 0.4, 1.6), kind="floor")
    several = attack("averaging", (0.2, 0.1, 0.3), one_release=False)
    assert check(report(GOOD, mean, several), LIMIT) == []
    wide = attack("knn", (0.62, 0.49, 0.75), kind="closed_form")  # not the strongest by its mean
    (told,) = check(report(GOOD, mean, wide), LIMIT)
    assert told == "fvu = 0.62 [0.49, 0.75] for knn: the interval reaches 0.49, below 0.5"


def test_each_metric_has_its_own_strongest_attack():
    good = attack("decoder", (0.6, 0.55, 0.65), fvu_worst_5=(0.3, 0.25, 0.35))
    copies = attack("knn", (0.7, 0.65, 0.75), kind="closed_form", fvu_worst_5=(0.002, 0.001, 0.003))
    assert check(report(good), [("fvu_worst_5", 0.2)]) == []
    (told,) = check(report(good, copies), [("fvu_worst_5", 0.2)])
    assert "for knn" in told
    (few,) = check(report(good, test=100), [("fvu_worst_5", 0.2)])
    assert few.startswith("fvu_worst_5 is of one image in twenty")


def test_the_strongest_trained_attack_has_to_have_converged():
    open_ = attack("decoder", (0.55, 0.52, 0.58), converged=False)
    weaker = attack("query_decoder", (0.7, 0.65, 0.75))
    (told,) = check(report(open_, weaker), LIMIT)
    assert told.startswith("decoder, the strongest attack that is trained, has not converged")
    several = attack("averaging", (0.6, 0.55, 0.65), one_release=False)
    closed = attack("ridge", (0.6, 0.55, 0.65), kind="closed_form")
    (told,) = check(report(closed, several), LIMIT)
    assert told.startswith("no decoder was trained")
    assert told.endswith("give a larger --budget")
    large = {"decoder": "17,000 features need 8.8 GiB; maps should be given as such"}
    (told,) = check(replace(report(closed), left_out=large), LIMIT)
    assert told == f"no decoder was trained, so no limit is shown to be kept: {large['decoder']}"


def test_of_few_pairs_no_limit_is_kept():
    """They may be what was left of many, by --memory."""
    assert check(report(GOOD, aux=500), LIMIT) == []
    (told,) = check(report(GOOD, aux=499), LIMIT)
    assert told.startswith("the attacker had 499 pairs, and would get further with more")


def test_where_images_come_in_groups_ranks_have_no_limit():
    """Of 20 frames of a person, 19 are misses in which the person is recognised."""
    low = attack("decoder", (0.6, 0.55, 0.65), rank_1=(0.04, 0.03, 0.05))
    limits = [*LIMIT, ("rank_1", 0.1)]
    assert check(report(low), limits) == []
    assert check(report(low, grouped=True), LIMIT) == []
    (told,) = check(report(low, grouped=True), limits)
    assert told.startswith("another image of the right group counts as a miss in rank_1, so")


def test_an_attack_without_a_result_keeps_no_limit():
    (told,) = check(report(GOOD, without_result=["map"]), LIMIT)
    assert told == (
        "these attacks ended without a result, so that no limit is shown to be kept: map; the page "
        "says why"
    )


@pytest.mark.parametrize(("sizes", "kept"), [([30] * 10, True), ([150] + [15] * 10, False)])
def test_groups_count_by_their_sizes(sizes, kept):
    """300 in 11 groups, one of which has half of them, say as much as 3.6 groups of one size."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    found = check(report(GOOD, groups=groups, test=300), LIMIT)
    assert (found == []) == kept
    assert kept or "11 groups, which say as much as 3.6 of one size" in found[0]


def test_a_share_has_its_exact_end():
    """One of 600: the variance alone reaches .0049, Clopper and Pearson .0093."""
    one = attack("decoder", (0.6, 0.55, 0.65), rank_1=(1 / 600, 0.0, 0.0049))
    high = binomtest(1, 600).proportion_ci().high
    (told,) = check(report(one), [("rank_1", 0.005)])
    assert f"reaches {high:.3g}, above 0.005" in told
    assert check(report(one), [("rank_1", 0.0094)]) == []


@pytest.mark.parametrize(("steps", "converged"), [(ENOUGH_STEPS, True), (80, False)])
def test_a_fit_of_few_steps_has_not_converged(steps, converged):
    cycle = steps // 8
    results = forge.attack_summary({"mse": 0.02}, "decoder").record  # it gained nothing
    done = AuditedAttack("decoder", 100, results, {}, {}, np.zeros(0), 1.0)
    fit = Decoder(cycle=cycle, max_steps=steps - cycle)
    assert _converged_if_long(done, fit).results.converged == converged
    assert _converged_if_long(done, Ridge()).results.converged


@pytest.mark.parametrize(("mask", "told"), [(-1e3, "clipped"), (-9.0, "")])
def test_a_few_values_that_hide_the_others_are_no_privacy(mask, told):
    torch.manual_seed(0)
    z = torch.randn(100, 4, 8, 8)
    z[::8, 0, 0, 0] = mask
    (note,) = check_features(z) or [""]
    assert told in note
    assert bool(note) == bool(told)
    z[::8, 0, 0, 0] = -1e9
    with pytest.raises(BenchError, match=r"reach 1e[+]09, where 90% of them are below .* a mask"):
        check_features(z)


def test_the_best_rebuilt_image_is_shown_first():
    """Errors of .02, .01 and .03, over variances of .04, .01 and .09: shares of a half, all and a
    third."""
    ups = np.array([0.2, 0.1, 0.3])[:, None] * np.array([1, -1])
    originals = np.round(255 * (0.5 + ups)).astype(np.uint8)[:, None, None]
    worst = attack("decoder", (0.6, 0.55, 0.65))
    worst.scores = {"mse": np.array([2, 1, 3]) / 100}
    made = replace(report(worst), originals=originals)
    assert exposure(made).tolist() == [2, 0, 1]
