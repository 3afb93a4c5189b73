"""Rows, worst cases, flags and matched accuracies from records made by hand."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.results import Bound, VictimSeconds
from smashbench.bench.report import tables
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.comparisons import at_accuracy
from smashbench.bench.report.flags import raise_flags
from smashbench.bench.report.rows import board_of, read
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.report.text import estimate
from smashbench.bench.report.write import write_report
from smashbench.bench.run.attempt import failure
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests.forge import HASH, attack_summary, attack_trial, keep_attack, keep_victim, victim_trial


def world(
    folder,
    attacks,
    *,
    accuracy=0.9,
    seeds=(0, 1),
    defense="noise",
    converged=True,
    lost=(),
    bound=None,
    optimum=None,
    **changes,
) -> Board:
    """A store with one defense: ``attacks`` maps a name to its MSE and SSIM on every image,
    ``changes`` are of their records."""
    store, victims, trials = Store(folder), [], []
    facts = {
        "bound": None if bound is None else Bound(mse=bound, prior=1.0),
        "optimum": None if optimum is None else {"mse": optimum},
    }
    for seed in seeds:
        victims.append(victim := victim_trial(defense, seed=seed))
        seconds = VictimSeconds(train=1.5 + seed, total=9.0)
        keep_victim(store, victim, accuracy, seconds=seconds, **facts)
        for name, (error, similarity) in attacks.items():
            trials.append(trial := attack_trial(victim, name))
            if (name, seed) not in lost:
                keep_attack(store, trial, error, similarity, converged=converged, **changes)
    return board_of(Suite("hand", "", tuple(victims), tuple(trials)), store)


def test_worst_cases_are_lowest_mse_and_highest_ssim(tmp_path):
    board = world(tmp_path, {"mean": (0.1, 0.1), "gmm": (0.02, 0.5), "decoder": (0.01, 0.4)})
    (row,) = board.rows
    worst = {"mse": "decoder", "ssim": "gmm", "psnr": "decoder", "fvu": "decoder"}
    worst["fvu_worst_5"] = "decoder"  # derived of the MSE
    scored = dict.fromkeys(METRICS, "")  # others were not scored
    assert {name: row.worst_attack(name) for name in METRICS} == scored | worst
    assert row.worst("mse") == pytest.approx((0.01, 0.01, 0.01))
    assert row.worst("ssim").mean == pytest.approx(0.5)
    assert row.worst("fvu").mean == pytest.approx(0.1)
    assert row.worst("psnr").mean == pytest.approx(20)
    assert row.accuracy.mean == pytest.approx(0.9)
    assert row.accuracy.low < 0.9 < row.accuracy.high
    assert row.train_seconds == 2.0
    np.testing.assert_array_equal(row.history["class_variance"], [0.5, 0.25])
    assert row.history["surrogate"][-1] == 2.0
    assert row.flags == ["randomized", "no_control"]
    assert row.doubts == ["no_control"]


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"converged": False}, "not_converged"),
        ({"attacks": {"mean": (0.1, 0.1), "decoder": (0.096, 0.1)}}, "attack_failed"),
        ({"attacks": {"gmm": (0.01, 0.5), "decoder": (0.02, 0.5)}}, "simple_beats_strong"),
        ({"accuracy": 0.2}, "utility_collapse"),
        ({"bound": 0.011}, "bound_violated"),
        ({"optimum": 0.011}, "bound_violated"),
        ({}, "no_control"),
        ({"attacks": {"decoder": (0.06, 0.2)}, "defense": "none"}, "control_failed"),
    ],
)
def test_flags(tmp_path, changes, flag):
    plain = {"attacks": {"mean": (0.1, 0.1), "gmm": (0.02, 0.5), "decoder": (0.01, 0.6)}}
    plain |= {"bound": 0.009, "optimum": 0.01}
    if flag != "no_control":
        assert flag not in world(tmp_path / "plain", **plain).rows[0].flags
    assert flag in world(tmp_path / "changed", **(plain | changes)).rows[0].flags


def test_a_quarter_right_of_ten_classes_is_a_collapse(tmp_path):
    """24 % on CIFAR-10 has been published as a defense."""
    board = world(tmp_path, {"decoder": (0.01, 0.5)}, accuracy=0.24)
    assert "utility_collapse" in board.rows[0].flags


def test_an_attack_on_other_weights_than_the_rows_is_missing(tmp_path):
    """The accuracy is of one training, and the error of another: they are no row."""
    board = world(tmp_path, {"gmm": (0.02, 0.5)}, victim_sha256=64 * "1")
    (row,) = board.rows
    assert (row.missing, row.attacks, row.flags) == (2, {}, ["incomplete"])


def test_missing_trials_are_counted_and_never_averaged_away(tmp_path):
    attacks = {"gmm": (0.02, 0.5), "decoder": (0.01, 0.6)}
    board = world(tmp_path, attacks, lost={("decoder", 1)})
    (row,) = board.rows
    assert row.missing == 1
    assert row.worst_attack() == "gmm"  # the decoder did not attack every victim
    assert "decoder" not in row.attacks
    assert "(missing trials: 1)" in tables.as_text(board)
    assert "incomplete" in row.flags
    assert not board.complete  # its strongest attack may be the missing one


def written(frame, path) -> dict[str, str]:
    """The only line of a table, as it is written."""
    head, line = tables.write_csv(frame, path).read_text().splitlines()
    return dict(zip(head.split(","), line.split(","), strict=True))


def test_the_csv_has_an_empty_field_where_nothing_was_measured(tmp_path):
    board = world(tmp_path, {"gmm": (0.02, 0.5)}, seeds=(0,))
    values = written(tables.leaderboard(board), tmp_path / "board.csv")
    assert values["gmm_mse"] == "0.02"
    assert values["surrogate"] == "2"
    assert values["effective_samples"] == ""
    assert values["flags"] == "randomized no_control"
    assert values["bound_mse"] == ""


def row_at(accuracy: float, error: float) -> Row:
    row = Row("noise", 1.0, accuracy=Estimate(accuracy, accuracy, accuracy))
    row.attacks = {"gmm": attack_summary(dict.fromkeys(METRICS, error))}
    row.history = {"class_variance": np.array([9.0, 10 * error])}
    return row


def test_matched_accuracy_interpolates_and_never_extrapolates():
    rows, names = [row_at(0.8, 0.03), row_at(0.9, 0.01)], ["class_variance", "surrogate"]
    found = at_accuracy(rows, 0.85, names)
    assert found["worst_mse"] == pytest.approx(0.02)
    assert found["class_variance"] == pytest.approx(0.2)
    assert "surrogate" not in found
    assert at_accuracy(rows, 0.95, names) is None
    assert at_accuracy(rows, 0.79, names) is None
    assert at_accuracy(rows[:1], 0.8, names) is None
    del rows[0].attacks["gmm"].estimates["ssim"]  # of other code, which has no such metric
    assert at_accuracy(rows, 0.85, names) == pytest.approx(
        {"worst_mse": 0.02, "class_variance": 0.2}
    )


def test_the_control_is_the_undefended_component_whatever_its_label(tmp_path):
    weak = {"decoder": (0.06, 0.2)}
    assert world(tmp_path / "a", weak, defense="none").controls
    assert not world(tmp_path / "b", weak, defense="noise").controls


def test_intervals_print_without_leading_zeros_only():
    assert estimate(Estimate(0.5, 0.25, 10.02), 2) == ".50 [.25, 10.02]"


def two_boards(folder, broken: tuple[int, ...]) -> Board:
    """Noise and nothing, two seeds; the attack fails on the undefended victim of some seeds."""
    suites = []
    for defense in ("noise", "none"):
        for seed in (0, 1):
            error = 0.08 if defense == "none" and seed in broken else 0.01
            attacks = {"decoder": (error, 0.5)}
            board = world(folder, attacks, defense=defense, seeds=(seed,))
            suites.append(board.suite)
    victims = tuple(v for suite in suites for v in suite.victims)
    attacks = tuple(a for suite in suites for a in suite.attacks)
    return board_of(Suite("hand", "", victims, attacks), Store(folder))


@pytest.mark.parametrize("broken", [(), (0,), (1,), (0, 1)])
def test_a_control_fails_for_the_rows_of_its_own_seed(tmp_path, broken):
    board = two_boards(tmp_path, broken)
    for row in board.rows:
        assert ("control_failed" in row.flags) == bool(broken)
        assert "no_control" not in row.flags
    (control,) = board.controls
    assert {seed for seed, fvu in control.broken.items() if fvu > 0.5} == set(broken)
    alone = Row("noise", 1.0, seeds=[1], attacks=board.rows[0].attacks)
    raise_flags(Board(board.suite, [alone, control], {}, board.store))
    assert ("control_failed" in alone.flags) == (1 in broken)


def test_repeated_releases_are_shown_and_never_the_worst_case(tmp_path):
    attacks = {"decoder": (0.02, 0.5), "averaging": (0.001, 0.9)}
    (row,) = world(tmp_path, attacks).rows
    assert (row.worst_attack(), row.worst_attack("ssim")) == ("decoder", "decoder")
    assert row.attacks["averaging"].estimates["mse"].mean == pytest.approx(0.001)
    assert [name for name, attack in row.attacks.items() if not attack.threat.one_release] == [
        "averaging"
    ]


def test_costs_add_up(tmp_path):
    board = world(tmp_path, {"gmm": (0.02, 0.5), "decoder": (0.01, 0.5)})
    assert written(tables.costs(board), tmp_path / "costs.csv") == {
        "defense": "noise",
        "strength": "1",
        "train": "2",
        "gmm": "2.5",
        "decoder": "2.5",
        "attacks": "5",
        "attacks_over_train": "2.5",
    }


def test_a_suite_of_repeats_alone_says_so(tmp_path):
    board = world(tmp_path, {"averaging": (0.01, 0.5)})
    assert "no attack on one release" in tables.as_text(board)


def test_records_of_different_images_are_no_board(tmp_path):
    with pytest.raises(BenchError, match=rf"made from different images \({HASH}, {16 * 'e'}\)"):
        world(tmp_path, {"decoder": (0.01, 0.5)}, data_hash=16 * "e")


def test_a_table_that_has_become_empty_is_deleted_where_a_report_wrote_it(tmp_path):
    """Else somebody's own file of that name would be."""
    table, nothing = pd.DataFrame({"fvu": [0.25]}), pd.DataFrame()
    (tmp_path / "mine.csv").write_text("mine")
    (written,) = tables.write_tables({"matched": table, "levels": nothing}, tmp_path, again=False)
    assert written.read_text() == "fvu\n0.25\n"
    for again, left in ((False, ["matched.csv", "mine.csv"]), (True, ["mine.csv"])):
        assert tables.write_tables({"matched": nothing}, tmp_path, again=again) == []
        assert sorted(path.name for path in tmp_path.iterdir()) == left


@pytest.mark.slow
def test_a_row_whose_trainings_failed_stands_on_every_table_without_a_number(tmp_path):
    board = world(tmp_path, {"gmm": (0.02, 0.5)})
    lost = victim_trial("laplace")
    board.store.write(failure(lost, "out of memory"))
    save_suite(replace(board.suite, victims=(*board.suite.victims, lost)), tmp_path)
    (_, row) = read(tmp_path).rows
    assert (row.missing, row.seeds, row.attacks) == (2, [], {})  # with its attack
    write_report([tmp_path], tmp_path / "out")
    for name in ("report.html", "leaderboard.md", "leaderboard.csv", "leaderboard.tex"):
        text = (tmp_path / "out" / name).read_text()
        assert "laplace" in text, name
        assert not re.search(r"\bnan\b", text), name
