"""Rows, worst cases, flags and matched accuracies from records made by hand."""

import numpy as np
import pytest
import torch
from safetensors.torch import save

from bench import leaderboard, matched, strength, tables
from bench.board import METRICS, Board, Row
from bench.errors import BenchError
from bench.lines import QUANTILES
from bench.stats import Estimate
from bench.store import Store
from bench.trials import Suite, Trial, key_of

FLOORS = {"mean_image": {"mse": 0.1, "ssim": 0.1}, "class_mean": {"mse": 0.08, "ssim": 0.2}}
KINDS = {"mean": "floor", "gmm": "closed_form", "decoder": "trained", "averaging": "trained"}


def finish(store, record, arrays):
    store.finish(record, {name: save(values) for name, values in arrays.items()})


def built(suite, store):
    work = leaderboard.Work(suite, store)
    return leaderboard.board_of(suite, work.rows(range(len(work.groups))))


def world(
    folder, attacks, accuracy=0.9, seeds=(0, 1), defense="noise", converged=True, lost=(), **facts
):
    """A store with one defense: ``attacks`` maps a name to its MSE and SSIM on every image."""
    store, victims, trials = Store(folder), [], []
    for seed in seeds:
        config = {
            "defense": {"label": defense, "strength": 1.0, "name": defense, "options": {}},
            "seed": seed,
        }
        victim = Trial(key_of(config), config, None)
        victims.append(victim)
        record = {
            "key": victim.key,
            "status": "ok",
            "data_hash": "d",
            "config": config,
            "metrics": {"accuracy": accuracy, "chance": 0.1},
            "floors": FLOORS,
            "randomized": defense != "none",
            "bound": facts.get("bound"),
            "optimum": facts.get("optimum"),
            "payload": 8,
            "client_parameters": 3,
            "history": [{"class_variance": 0.5}, {"class_variance": 0.25, "surrogate": 2.0}],
            "seconds": {"train": 1.5 + seed},
        }
        correct = torch.zeros(10)
        correct[: round(10 * accuracy)] = 1
        images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
        finish(store, record, {"scores": {"correct": correct}, "samples": {"samples": images}})
        for name, (error, similarity) in attacks.items():
            config = {"victim": victim.config, "attack": {"label": name}, "seed": 0}
            trial = Trial(key_of(config), config, victim.key)
            trials.append(trial)
            if (name, seed) in lost:
                continue
            record = {"key": trial.key, "status": "ok", "config": config, "parent": victim.key}
            fvu = error / FLOORS["mean_image"]["mse"]
            record |= {
                "data_hash": facts.get("data_hash", "d"),
                "kind": KINDS[name],
                "converged": converged,
                "flags": ["attack_failed"] if fvu > 0.95 else [],
                "metrics": {metric: dict.fromkeys(QUANTILES, error) for metric in METRICS[:3]},
                "seconds": {"fit": 2.0, "reconstruct": 0.5},
                "threat_model": {
                    "releases_per_image": 4 if name == "averaging" else 1,
                    "knowledge": "pairs",
                },
            }
            scores = {"mse": torch.full((10,), error), "ssim": torch.full((10,), similarity)}
            finish(store, record, {"scores": scores, "samples": {"samples": images}})
    return built(Suite("hand", "", tuple(victims), tuple(trials)), store)


def test_worst_cases_are_lowest_mse_and_highest_ssim(tmp_path):
    board = world(tmp_path, {"mean": (0.1, 0.1), "gmm": (0.02, 0.5), "decoder": (0.01, 0.4)})
    (row,) = board.rows
    assert (row.worst_attack, row.worst_ssim_attack) == ("decoder", "gmm")
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


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"converged": False}, "not_converged"),
        ({"attacks": {"mean": (0.1, 0.1), "decoder": (0.096, 0.1)}}, "attack_failed"),
        ({"attacks": {"gmm": (0.01, 0.5), "decoder": (0.02, 0.5)}}, "simple_beats_strong"),
        ({"accuracy": 0.2}, "utility_collapse"),
        ({"bound": {"mse": 0.011}}, "bound_violated"),
        ({"optimum": {"mse": 0.011}}, "bound_violated"),
        ({}, "no_control"),
        ({"attacks": {"decoder": (0.06, 0.2)}, "defense": "none"}, "control_failed"),
    ],
)
def test_flags(tmp_path, changes, flag):
    plain = {"attacks": {"mean": (0.1, 0.1), "gmm": (0.02, 0.5), "decoder": (0.01, 0.6)}}
    plain |= {"bound": {"mse": 0.009}, "optimum": {"mse": 0.01}}
    if flag != "no_control":
        assert flag not in world(tmp_path / "plain", **plain).rows[0].flags
    assert flag in world(tmp_path / "changed", **(plain | changes)).rows[0].flags


def test_a_quarter_right_of_ten_classes_is_a_collapse(tmp_path):
    """24 % on CIFAR-10 has been published as a defense."""
    board = world(tmp_path, {"decoder": (0.01, 0.5)}, accuracy=0.2)
    assert "utility_collapse" in board.rows[0].flags


def test_missing_trials_are_counted_and_never_averaged_away(tmp_path):
    attacks = {"gmm": (0.02, 0.5), "decoder": (0.01, 0.6)}
    board = world(tmp_path, attacks, lost={("decoder", 1)})
    (row,) = board.rows
    assert row.missing == 1
    assert row.worst_attack == "gmm"  # the decoder did not attack every victim
    assert "decoder" not in row.attacks
    assert "(1 trials missing)" in tables.as_text(board)
    assert "incomplete" in row.flags
    assert not board.complete  # its strongest attack may be the missing one


def test_the_csv_has_an_empty_field_where_nothing_was_measured(tmp_path):
    board = world(tmp_path, {"gmm": (0.02, 0.5)}, seeds=(0,))
    tables.write_csv(tables.leaderboard(board), tmp_path / "board.csv")
    head, line = (tmp_path / "board.csv").read_text().splitlines()
    values = dict(zip(head.split(","), line.split(","), strict=True))
    assert values["gmm_mse"] == "0.02"
    assert values["surrogate"] == "2"
    assert values["effective_samples"] == ""
    assert values["flags"] == "randomized no_control"
    assert values["bound_mse"] == ""


def row_at(accuracy: float, error: float) -> Row:
    exact = {name: Estimate(error, error, error) for name in METRICS}
    row = Row("noise", 1.0, accuracy=Estimate(accuracy, accuracy, accuracy))
    row.attacks, row.worst_attack, row.worst_ssim_attack = {"gmm": exact}, "gmm", "gmm"
    row.history = {"class_variance": np.array([9.0, 10 * error])}
    return row


def test_matched_accuracy_interpolates_and_never_extrapolates():
    rows = [row_at(0.8, 0.03), row_at(0.9, 0.01)]
    found = matched.at_accuracy(rows, 0.85)
    assert found["worst_mse"] == pytest.approx(0.02)
    assert found["class_variance"] == pytest.approx(0.2)
    assert "surrogate" not in found
    assert matched.at_accuracy(rows, 0.95) is None
    assert matched.at_accuracy(rows, 0.79) is None
    assert matched.at_accuracy(rows[:1], 0.8) is None


def test_the_control_is_the_undefended_component_whatever_its_label(tmp_path):
    weak = {"decoder": (0.06, 0.2)}
    assert world(tmp_path / "a", weak, defense="none").controls
    assert not world(tmp_path / "b", weak, defense="noise").controls


def test_intervals_print_without_leading_zeros_only():
    assert tables._interval(Estimate(0.5, 0.25, 10.02), 2) == ".50 [.25, 10.02]"


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
    return built(Suite("hand", "", victims, attacks), Store(folder))


@pytest.mark.parametrize("broken", [(), (0,), (1,), (0, 1)])
def test_a_control_fails_for_the_rows_of_its_own_seed(tmp_path, broken):
    board = two_boards(tmp_path, broken)
    for row in board.rows:
        assert ("control_failed" in row.flags) == bool(broken)
        assert "no_control" not in row.flags
    (control,) = board.controls
    assert {seed for seed, fvu in control.broken.items() if fvu > 0.5} == set(broken)
    alone = Row("noise", 1.0, seeds=[1])
    leaderboard._flag_controls([alone, control])
    assert ("control_failed" in alone.flags) == (1 in broken)


def test_repeated_releases_are_shown_and_never_the_worst_case(tmp_path):
    attacks = {"decoder": (0.02, 0.5), "averaging": (0.001, 0.9)}
    (row,) = world(tmp_path, attacks).rows
    assert (row.worst_attack, row.worst_ssim_attack) == ("decoder", "decoder")
    assert row.attacks["averaging"]["mse"].mean == pytest.approx(0.001)
    assert row.repeats == {"averaging"}


def test_costs_add_up(tmp_path):
    board = world(tmp_path, {"gmm": (0.02, 0.5), "decoder": (0.01, 0.5)})
    tables.write_csv(strength.costs(board), tmp_path / "costs.csv")
    head, line = (tmp_path / "costs.csv").read_text().splitlines()
    values = dict(zip(head.split(","), line.split(","), strict=True))
    assert values == {
        "defense": "noise",
        "strength": "1",
        "train": "2.00",
        "gmm": "2.50",
        "decoder": "2.50",
        "attacks": "5.00",
        "attacks_over_train": "2.50",
    }


def test_a_suite_of_repeats_alone_says_so(tmp_path):
    board = world(tmp_path, {"averaging": (0.01, 0.5)})
    assert "no attack on one release" in tables.as_text(board)


def test_records_of_different_images_are_no_board(tmp_path):
    with pytest.raises(BenchError, match=r"made from different images \(d, e\)"):
        world(tmp_path, {"decoder": (0.01, 0.5)}, data_hash="e")
