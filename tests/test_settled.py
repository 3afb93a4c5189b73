"""Rows that were attacked less than noise are not shown to protect anything."""

from smashbench.bench.report.losses import at_losses, to_take
from smashbench.bench.report.verdict import answers, verdict
from tests.test_frontier import board
from tests.test_losses import control_and_noise, sure


def test_an_attack_that_noise_met_and_a_row_did_not_leaves_it_open_what_the_row_protects():
    """Attacks that only other defenses met do not matter: noise has not met them either."""
    strengths = ((1, 0.93, 0.045), (9, 0.89, 0.06))
    rows = [*control_and_noise(), *(sure("cem", *each, jitter=0.0001) for each in strengths)]
    rows[-1].attacks["own"] = rows[-1].attacks["gmm"]
    made = board(*rows)
    assert [each.defense for each in at_losses(made)[1].winners] == ["cem"]
    assert to_take(made, 0.02) is rows[-2]
    rows = [*control_and_noise(), *(sure("cem", *each, jitter=0.0001) for each in strengths)]
    rows[1].attacks["knn"] = rows[1].attacks["gmm"]
    made = board(*rows)
    assert [each.winners for each in at_losses(made)] == [[], [], []]
    assert to_take(made, 0.02) is rows[1]
    assert answers(made)[1].details[0].startswith("the row to take: noise 0.1")
    assert verdict(made)[-1] == (
        "Above noise, too, and not shown to be better, since their strongest attack had not "
        "converged, or attacks that noise or the undefended model met were not run on them: cem 1, "
        "cem 9, cem."
    )
