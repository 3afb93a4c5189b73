"""What the verdict of an audit says."""

from types import SimpleNamespace

from smashbench.bench.auditing.verdict import half, verdict
from smashbench.bench.report.statistics import Estimate


def said(fvu, share, converged=True, points=()):
    values = {"fvu": fvu, "rank_1": share}
    threat = SimpleNamespace(grants=["pairs"])
    results = SimpleNamespace(converged=converged, threat_model=threat)
    worst = SimpleNamespace(name="ridge", estimates=values, results=results)
    facts = SimpleNamespace(aux=200, test=100, grouped=False)
    curve = [SimpleNamespace(pairs=n, estimates={"fvu": Estimate(v, v, v)}) for n, v in points]
    known = {"metrics": values, "value": values.get, "knowledge": curve, "without_result": []}
    known |= {"trained": worst, "worst_of": lambda _: worst, "on_pairs": worst}
    return SimpleNamespace(worst=worst, facts=facts, **known)


def test_images_are_told_apart_where_the_whole_interval_says_so():
    made = said(Estimate(0.97, 0.95, 0.99), Estimate(0.02, 0.01, 0.04))
    assert "hide the image" in " ".join(verdict(made))
    made = said(Estimate(0.97, 0.95, 0.99), Estimate(0.04, 0.02, 0.08))
    assert "tell images apart" in " ".join(verdict(made))


def test_half_of_what_is_rebuilt_needs_fewer_pairs():
    points = [(16, 0.7), (64, 0.6), (256, 0.3)]
    made = said(Estimate(0.2, 0.15, 0.25), Estimate(0.5, 0.4, 0.6), points=points)
    assert half(made) == 64
    told = " ".join(verdict(made))
    assert "rebuilds 80 % [75, 85] of the variance" in told
    assert "64 pairs are enough for half of that variance." in told
    assert "Another image" not in told
    made.facts.grouped = True
    assert "Another image of the same group counts as a miss" in verdict(made)[-1]
    few = said(Estimate(0.2, 0.15, 0.25), Estimate(0.5, 0.4, 0.6), points=points[:1])
    assert "16 pairs are not enough for half of that variance." in verdict(few)
    assert half(said(Estimate(0.2, 0.15, 0.25), Estimate(0.5, 0.4, 0.6), points=points[:1])) is None


def test_a_decoder_that_had_not_converged_is_named():
    """Also where a closed form is the strongest."""
    made = said(Estimate(0.2, 0.15, 0.25), Estimate(0.5, 0.4, 0.6))
    assert not any("had not converged" in each for each in verdict(made))
    made.trained = SimpleNamespace(name="decoder", results=SimpleNamespace(converged=False))
    assert verdict(made)[-1].startswith("The attack decoder had not converged when it ended")


def test_what_the_strongest_attack_has_beside_pairs_is_said():
    """The curve is of pairs alone: 256 of them leave .5, half of what they rebuild in all."""
    made = said(Estimate(0.2, 0.1, 0.3), Estimate(0.5, 0.4, 0.6), points=[(16, 0.9), (256, 0.7)])
    assert "of its own and their features rebuilds 80 % [70, 90]" in verdict(made)[0]
    alone = {"fvu": Estimate(0.5, 0.4, 0.6)}
    made.on_pairs = SimpleNamespace(name="decoder", estimates=alone)
    for grants, words in (
        (["pairs", "query", "client"], "features, and a copy of the encoder, rebuilds 80 %"),
        (["pairs", "query"], "features, and answers of the encoder to images of its choice, rebu"),
    ):
        made.worst.results.threat_model.grants = grants
        told = verdict(made)
        assert words in told[0]
        assert told[1] == "With pairs alone, decoder rebuilds 50 % [40, 60] of it."
        assert told[2] == "256 pairs are enough for half of that variance."
