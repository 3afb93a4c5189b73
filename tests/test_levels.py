"""The worst case by what the attacker may know."""

from itertools import pairwise

from smashbench.attacks import ATTACKS
from smashbench.attacks.base import GRANTS
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.levels import LEVELS, by_level, levels, levels_apart
from tests import forge
from tests.test_frontier import board, row


def attacked(defense, **fvus):
    """A row whose attacks are called by their grants, with _ between."""
    made = row(defense, None, 0.9, 0.01)
    made.attacks = {}
    for name, fvu in fvus.items():
        found = forge.attack_summary(dict.fromkeys(METRICS, fvu / 10) | {"fvu": fvu}, "trained")
        found.threat = found.threat.model_copy(update={"grants": name.split("_")})
        made.attacks[name] = found
    return made


def test_every_grant_belongs_to_a_level_and_levels_grow():
    assert set().union(*LEVELS.values()) == set(GRANTS)
    grants = list(LEVELS.values())
    assert all(less < more for less, more in pairwise(grants[:4]))
    assert LEVELS["repeats"] - LEVELS["pairs"] == {"repeats"}


def test_a_level_has_the_attacks_that_need_no_more():
    made = attacked(
        "cem", unpaired_architecture=0.9, pairs=0.4, pairs_client=0.5, pairs_repeats=0.1
    )
    names = levels_apart(board(made))
    assert names == ["releases", "pairs", "white box", "repeats"]
    found = {each.name: (each.attack, each.fvu.mean) for each in by_level(made, names)}
    assert found == {
        "releases": ("unpaired_architecture", 0.9),
        "pairs": ("pairs", 0.4),
        "white box": ("pairs", 0.4),  # who has more can do what others do
        "repeats": ("pairs_repeats", 0.1),
    }


def test_a_row_without_an_attack_at_a_level_has_no_line_for_it():
    whole = attacked("none", pairs=0.2, pairs_query=0.1)
    part = attacked("cem", pairs_query=0.3)
    frame = levels(board(whole, part))
    assert list(zip(frame.defense, frame.level, frame.fvu, strict=True)) == [
        ("none", "pairs", 0.2),
        ("none", "queries", 0.1),
        ("cem", "queries", 0.3),
    ]


def test_who_has_releases_alone_may_answer_the_mean_image_and_that_is_no_level_of_its_own():
    made = attacked("cem", unpaired_architecture=1.2, pairs=0.4)
    floor = forge.attack_summary(dict.fromkeys(METRICS, 0.1) | {"fvu": 1.0})
    floor.kind = "floor"
    floor.threat = floor.threat.model_copy(update={"grants": sorted(ATTACKS["mean"].needs)})
    made.attacks["mean"] = floor
    found = {each.name: each.attack for each in by_level(made, levels_apart(board(made)))}
    assert found == {"releases": "mean", "pairs": "pairs"}
    del made.attacks["unpaired_architecture"]
    assert levels_apart(board(made)) == []


def test_where_all_attacks_know_alike_there_is_no_table():
    assert levels(board(attacked("none", pairs=0.2, pairs_logits=0.3))).empty
