"""Whether intervals hold the truth as often as they say, in worlds made up for it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.comparisons import against_noise, by_defense
from smashbench.bench.report.images import by_group
from smashbench.bench.report.statistics import freedom, interval, jointly, means, resample
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests import forge

pytestmark = pytest.mark.slow
SPREADS = [(1, 0, 0, 3), (0.3, 1, 0.1, 1), (0.05, 1, 0.05, 0.5), (0, 1, 0, 1)]
"""Standard deviations of effects of seed, image, repeat, and all else."""


def both_ways(values: np.ndarray) -> list[np.ndarray]:
    """Intervals (worlds, 3) of values (worlds, seeds, repeats, images), in closed form and from
    draws."""
    free = freedom(values.shape[1:])
    pairs = zip(values.mean((1, 2, 3)), resample(values), strict=True)
    return [np.array(means(values)), np.array([interval(*pair, free) for pair in pairs])]


def covered(intervals: np.ndarray) -> float:
    return float(np.mean((intervals[:, 1] <= 0) & (intervals[:, 2] >= 0)))


@pytest.mark.parametrize(("seeds", "repeats"), [(1, 1), (2, 1), (3, 1), (3, 3), (5, 2)])
@pytest.mark.parametrize("spread", SPREADS)
def test_intervals_cover_the_truth(seeds, repeats, spread):
    """400 worlds whose truth is 0. Two seeds cannot say how much seeds matter, so that theirs are
    wide where seeds do not."""
    worlds, images = 400, 200
    if seeds == 1:  # one seed says nothing about seeds
        spread = (0, *spread[1:2], 0, *spread[3:])
    rng = np.random.default_rng(1)
    shapes = [(seeds, 1, 1), (1, 1, images), (seeds, repeats, 1), (seeds, repeats, images)]
    values = sum(
        rng.normal(0, std, (worlds, *shape)) for std, shape in zip(spread, shapes, strict=True)
    )
    most = {1: 0.975, 2: 1.0, 3: 0.99, 5: 0.98}[seeds]
    for found in both_ways(values):
        assert 0.93 <= covered(found) <= most
        width, needed = (
            np.median(found[:, 2] - found[:, 1]),
            2 * 1.96 * values.mean((1, 2, 3)).std(),
        )
        assert width < (5 if seeds < 3 else 2) * needed  # and are not just wide


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_intervals_of_paired_differences_cover_the_truth(seeds):
    """Images decide each row and cancel in the difference, which seeds decide."""
    rng, worlds, images = np.random.default_rng(0), 400, 100
    shared = rng.normal(0, 1, (worlds, 1, 1, images))
    rows = []
    for _ in range(2):
        own = rng.normal(0, 0.1, (worlds, seeds, 1, 1))
        rows.append(shared + own + rng.normal(0, 0.05, (worlds, seeds, 1, images)))
    draws = resample(rows[0]) - resample(rows[1])
    free = freedom((seeds, 1, images))
    pairs = zip((rows[0] - rows[1]).mean((1, 2, 3)), draws, strict=True)
    assert 0.93 <= covered(np.array([interval(*pair, free) for pair in pairs])) <= 0.97


@pytest.mark.parametrize("share", [0.5, 0.8, 0.97, 1.0])
def test_differences_of_a_defense_and_noise_cover_the_truth(share):
    """Three trainings of each; the defense has this share of the variance. Where it has nearly all
    of it, Satterthwaite's degrees of freedom are a little too many."""
    rng, worlds, images = np.random.default_rng(3), 600, 100
    sides = (share, "defense"), (1 - share, "baseline")
    hard = rng.normal(0, 1, (worlds, 1, 1, images))
    rows = [v**0.5 * rng.normal(0, 1, (worlds, 3, 1, 1)) + hard for v, _ in sides]
    found = [resample(row, role) for row, (_, role) in zip(rows, sides, strict=True)]
    pairs = zip((rows[0] - rows[1]).mean((1, 2, 3)), found[0] - found[1], strict=True)
    held = np.array([interval(*pair, freedom((3, 1, images))) for pair in pairs])
    assert 0.93 <= covered(held) <= 0.98


@pytest.mark.parametrize("spread", [0.0, 0.7, 1.4])
def test_joint_intervals_hold_at_once_where_trainings_of_rows_vary_more_or_less(spread):
    """Twelve defenses against the same noise, three trainings of each, whose variances differ by
    factors of e to such a normal variable: in 95 of 100 boards no interval leaves out the truth."""
    rng, worlds, images = np.random.default_rng(4), 300, 100
    roles = ["baseline", *12 * ["defense"]]
    wrong = 0
    for _ in range(worlds):
        seeds = np.exp(spread / 2 * rng.normal(0, 1, len(roles)))
        hard = 0.5 * rng.normal(0, 1, (1, 1, images))
        rows = seeds[:, None, None, None] * rng.normal(0, 1, (len(roles), 3, 1, 1)) + hard
        pairs = zip(rows, roles, strict=True)
        noise, *others = (resample(row[None], role)[0] for row, role in pairs)
        mean = rows.mean((1, 2, 3))
        compared = {
            n: (mean[n + 1] - mean[0], draws - noise, freedom(rows.shape[1:]))
            for n, draws in enumerate(others)
        }
        wrong += any(each.low > 0 or each.high < 0 for each in jointly(compared).values())
    assert wrong <= 0.06 * worlds


@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_cover_the_truth_where_images_come_in_groups(seeds):
    """60 groups of one to twenty images that share most of their errors; without the groups the
    same intervals are wrong."""
    rng, worlds = np.random.default_rng(2), 400
    sizes = rng.integers(1, 21, 60)
    groups = np.repeat(np.arange(60), sizes)
    shared = rng.normal(0, 0.9, (worlds, 1, 1, 60))[..., groups]
    own = rng.normal(0, 0.4, (worlds, 1, 1, len(groups)))
    values = shared + own + rng.normal(0, 0.05, (worlds, seeds, 1, 1))
    for found in both_ways(by_group(values, groups)):
        assert 0.925 <= covered(found) <= 0.98
    if seeds == 1:
        assert covered(np.array(means(values))) < 0.6


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_joint_intervals_of_twenty_rows_hold_at_once(share):
    """Three seeds have this share of the variance of each row's mean; images, which rows share in
    half, have the rest. With seeds drawn together for all rows 7 % of these boards were wrong."""
    rng, worlds, rows, seeds, images = np.random.default_rng(0), 150, 20, 3, 500
    wrong = 0
    for _ in range(worlds):
        hard = rng.normal(0, 0.7, (1, 1, 1, images)) + rng.normal(0, 0.714, (rows, 1, 1, images))
        own = (share * seeds / images) ** 0.5 * rng.normal(0, 1, (rows, seeds, 1, 1))
        rest = rng.normal(0, 0.05, (rows, seeds, 1, images))
        values = (1 - share) ** 0.5 * hard + own + rest
        pairs = enumerate(zip(values.mean((1, 2, 3)), resample(values), strict=True))
        free = freedom(values.shape[1:])
        found = jointly({n: (float(mean), draws, free) for n, (mean, draws) in pairs})
        wrong += any(each.low > 0 or each.high < 0 for each in found.values())
    assert wrong <= 0.055 * worlds


CURVE = {"accuracy": lambda u: 0.9 - 0.15 * u**2, "fvu": lambda u: 0.1 + 0.5 * u}
"""What strengths u from 0 to 1 cost and buy, of whatever label."""
STRAIGHT = CURVE | {"accuracy": lambda u: 0.9 - 0.15 * u}
"""The same on a straight frontier, which interpolation between levels of noise meets exactly."""
SWEEPS = {
    "noise": (0.05, 0.3, 0.6, 0.95),
    "the same, elsewhere": (0.2, 0.45, 0.8),
    "the same, less far": (0.1, 0.3, 0.5),
    "the same, in one place": (0.5, 0.55, 0.6),
    "the same, further": (0.3, 0.7, 1.3),
}


def world(
    rng: np.random.Generator,
    seeds: int,
    groups: np.ndarray,
    sweeps: dict[str, tuple[float, ...]] = SWEEPS,
    curve: dict[str, Callable[[float], float]] = CURVE,
) -> Board:
    """Families that are the same thing under other labels. Victims differ by seed, whole groups of
    images are difficult, and every row adds errors of its own."""
    count, wide = len(groups), rng.normal(0, 1, groups.max() + 1)
    hard = 0.6 * wide[groups] + 0.8 * rng.normal(0, 1, count)
    rows = []
    for name, sweep in sweeps.items():
        for u in sweep:
            role = {"noise": "baseline", "none": "control"}.get(name, "defense")
            row = Row(name, u, role, seeds=list(range(seeds)))
            kinds = {"accuracy": (0.2, 0.008), "fvu": (0.1 + 0.3 * u, 0.01)}
            for metric, (by_image, by_seed) in kinds.items():
                values = curve[metric](u) + by_image * (hard + 0.5 * rng.normal(0, 1, count))
                values = values + by_seed * rng.normal(0, 1, (1, seeds, 1, 1))
                table = by_group(values + 0.05 * rng.normal(0, 1, (1, seeds, 1, count)), groups)
                row.draws[metric] = resample(table, role)[0]
                estimate = means(table)[0]
                if metric == "accuracy":
                    row.accuracy, row.freedom = estimate, freedom(table.shape[1:])
                else:
                    summary = forge.attack_summary(dict.fromkeys(METRICS, 0.1))
                    summary.estimates["fvu"] = estimate
                    row.attacks, row.draws["mse"] = {"gmm": summary}, row.draws["fvu"]
            rows.append(row)
    return Board(Suite("hand", "", (), ()), rows, {}, Store(Path()))


@pytest.mark.parametrize(("seeds", "curve"), [(2, CURVE), (3, CURVE), (5, STRAIGHT)])
def test_a_family_does_not_beat_itself(seeds, curve):
    """Twelve rows at once: in 95 of 100 boards none of them beats noise, and no family does, and
    none ranks above another. With five seeds intervals are so narrow that the straight lines
    between levels of noise show: on the curve some row beats noise in 7 of 100 boards."""
    rng, worlds = np.random.default_rng(seeds), 100
    groups = np.repeat(np.arange(80), rng.integers(1, 10, 80))
    rows = families = ranked = 0
    each = []
    for _ in range(worlds):
        board = world(rng, seeds, groups, curve=curve)
        found = [values for values in against_noise(board).values() if values["fvu_over_noise"]]
        rows += any(v["fvu_over_noise_joint"].low > 0 for v in found)
        each += [v["fvu_over_noise"].low <= 0 <= v["fvu_over_noise"].high for v in found]
        table = by_defense(board)
        families += bool((table.fvu_over_noise_joint_low > 0).any())
        ranked += bool((table.rank_best > 1).any())
    assert rows <= 0.05 * worlds
    assert families <= 0.05 * worlds
    assert ranked <= 0.05 * worlds
    assert 0.93 <= np.mean(each) <= 0.99


@pytest.mark.parametrize("seeds", [2, 3])
def test_rows_as_accurate_as_the_best_of_noise_are_neither_better_nor_worse(seeds):
    """In many draws such a row is the most accurate of all. Compared in the others alone, one in
    seven was called worse where it was the same."""
    rng, worlds = np.random.default_rng(seeds), 150
    sweeps = {"noise": SWEEPS["noise"], "the same, hardly": (0.1, 0.2)}
    below = above = compared = 0
    for _ in range(worlds):
        board = world(rng, seeds, np.arange(300), sweeps)
        for values in against_noise(board).values():
            if estimate := values["fvu_over_noise"]:
                compared += 1
                below += estimate.high < 0
                above += estimate.low > 0
    assert compared > worlds
    assert below <= 0.05 * compared
    assert above <= 0.05 * compared


@pytest.mark.slow
def test_families_as_accurate_as_the_best_of_noise_are_compared_in_all_draws():
    """In the draws alone in which they are less accurate, one in ten of those with one strength was
    called worse where it was the same."""
    rng, worlds = np.random.default_rng(5), 200
    sweeps = {"none": (0.0,), "noise": SWEEPS["noise"], "one": (0.02,), "two": (0.01, 0.06)}
    compared, worse, better = dict.fromkeys(sweeps, 0), 0, 0
    for _ in range(worlds):
        table = by_defense(world(rng, 3, np.arange(300), sweeps, STRAIGHT)).set_index("defense")
        for name in ("one", "two"):
            line = table.loc[name]
            compared[name] += np.isfinite(line.fvu_over_noise)
            worse += line.fvu_over_noise_high < 0
            better += line.fvu_over_noise_low > 0
    assert compared["one"] > 0.5 * worlds
    assert compared["two"] > 0.7 * worlds
    total = compared["one"] + compared["two"]
    assert worse <= 0.05 * total
    assert better <= 0.05 * total


@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_at_a_loss_hold_where_a_defense_is_hardly_accurate_enough(seeds):
    """Its first strength truly loses three quarters of a point. In worlds in which it came out
    accurate enough, its interval at a loss of one point lies above the truth in 4 %; one of the
    resamples alone in which it is that accurate would in 7 %."""
    rng, worlds = np.random.default_rng(1), 150
    sweeps = {"none": (0.0,), "noise": (0.1, 0.3, 0.6, 1.0), "the same": (0.05, 0.3)}
    truth = STRAIGHT["fvu"](0.01 / 0.15)
    found = []
    for _ in range(worlds):
        one = world(rng, seeds, np.arange(300), sweeps, STRAIGHT).losses[0]
        found += [each for each in one.defenses if each.role == "defense"]
    assert len(found) > worlds / 3
    assert np.mean([each.reached < 0.9 for each in found]) > 0.3
    assert np.mean([each.fvu.low > truth for each in found]) <= 0.05
    assert np.mean([each.fvu.high < truth for each in found]) <= 0.05


@pytest.mark.parametrize("seeds", [3, 5])
def test_rows_at_the_last_level_of_noise_are_better_a_little_too_often(seeds):
    """Such a row is compared only where it came out more accurate than noise: where the straight
    frontier flatters it. Single intervals of the same call it better in up to 9 %, joint ones in
    up to 6."""
    rng, worlds = np.random.default_rng(seeds), 150
    sweeps = {"noise": (0.05, 0.3, 0.6, 0.95), "the same, at the end": (0.85, 0.92)}
    alone = jointly_ = compared = 0
    for _ in range(worlds):
        found = against_noise(world(rng, seeds, np.arange(300), sweeps, STRAIGHT)).values()
        for values in (each for each in found if each["fvu_over_noise"]):
            compared += 1
            alone += values["fvu_over_noise"].low > 0
            jointly_ += values["fvu_over_noise_joint"].low > 0
            assert values["fvu_over_noise"].high >= 0
    assert compared > 0.5 * worlds
    assert alone <= 0.1 * compared
    assert jointly_ <= 0.07 * compared
