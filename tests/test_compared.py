"""What `smashbench compare` says of two boards."""

import pytest

from smashbench.bench.report.compare import compare
from smashbench.bench.report.statistics import Estimate
from tests.test_frontier import board, row


def of(*flags, error=0.02):
    """A row of a defense with these flags, whose errors are known to a tenth of them."""
    made = row("cem", 5.0, 0.8, error)
    made.flags = list(flags)
    estimates = made.attacks["gmm"].estimates
    estimates |= {
        name: Estimate(e.mean, 0.9 * e.mean, 1.1 * e.mean) for name, e in estimates.items()
    }
    return made


def test_flags_that_come_and_go_are_named():
    lines, moved = compare(board(of("attack_failed")), board(of("randomized", "not_converged")))
    assert moved
    assert lines == [
        "cem 5: flag attack_failed is gone",
        "cem 5: flag not_converged is new",
        "cem 5: flag randomized is new",
        "1 row in both: 1 moved",
    ]


@pytest.mark.parametrize(("flag", "counts"), [("control_failed", False), ("not_converged", True)])
def test_a_flag_that_other_rows_decide_says_nothing_where_those_differ(flag, counts):
    """Without the undefended row, nothing can fail to be rebuilt there."""
    none, noise = row("none", None, 0.9, 0.01), row("noise", 0.1, 0.85, 0.02)
    flagged, plain = of(flag), of()
    lines, moved = compare(board(none, flagged), board(noise, plain))
    assert moved == counts
    assert (f"cem 5: flag {flag} is gone" in lines) == counts
    assert lines[-2:] == [
        "only in the first, not compared: none",
        "only in the second, not compared: noise 0.1",
    ]
    lines, moved = compare(board(none, flagged), board(none, plain))
    assert lines == [f"cem 5: flag {flag} is gone", "2 rows in both: 1 moved"]
    assert moved


def test_a_row_that_was_not_begun_has_appeared_when_it_is_there():
    waiting = of()
    waiting.seeds, waiting.attacks = [], {}
    lines, moved = compare(board(waiting), board(of()))
    assert moved
    assert lines[0] == "cem 5: accuracy is only in the second"
    assert "cem 5: worst MSE is only in the second" in lines
    assert compare(board(waiting), board(waiting)) == (["1 row in both: none moved"], False)


@pytest.mark.parametrize(("error", "apart"), [(0.024, False), (0.025, True), (0.016, True)])
def test_a_worst_case_moves_when_its_intervals_do_not_overlap(error, apart):
    """One ends at .022; the others begin at .0216 and .0225, and end at .0176."""
    lines, moved = compare(board(of()), board(of(error=error)))
    assert moved == apart == any("worst MSE .0200" in line for line in lines)
