"""Options of plug-ins that no suite could set."""

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.plugged import plug
from smashbench.bench.suite import toml
from smashbench.bench.suite.plugins import LOADED
from tests.plugged import ATTACK, DEFENSE

pytestmark = pytest.mark.usefixtures("clean")
WORD = "a word that suites use otherwise; rename it"
UNWRITABLE = "has an option that no suite could set:"


def defense(option: str) -> str:
    return DEFENSE.replace("by: float", f"{option}, by: float")


def attack(option: str) -> str:
    return ATTACK.replace("    def fit", f"    def __init__(self, *, {option}): ...\n\n    def fit")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (attack("pairs: int = 50"), f"has an option 'pairs', {WORD}"),
        (defense("strength: float = 1.0"), f"has an option 'strength', {WORD}"),
        (defense("more: dict = {}"), f"{UNWRITABLE} .*'more' is no number, text, truth value or"),
        (defense("more: set = {1}"), rf"{UNWRITABLE} more = \(1,\): .* valid set; use numbers"),
    ],
)
def test_an_option_that_no_suite_could_set_is_refused(write, source, words):
    with pytest.raises(BenchError, match=words):
        plug([write(source)])
    assert not LOADED


def test_an_option_may_have_a_word_that_suites_use_otherwise_for_other_kinds_alone(write):
    plug([write(defense("pairs: int = 50") + attack("strength: float = 1.0"))])
    assert LOADED


def test_a_defense_may_sweep_an_option_that_is_called_strength(write):
    path = write(DEFENSE.replace("by", "strength"))
    suite = toml.load("smoke", ["defenses.shift.strengths=[0.25, 0.5]"], [path])
    found = [victim.victim.defense for victim in suite.victims]
    assert {each.strength for each in found if each.name == "shift"} == {0.25, 0.5}


def test_what_a_defense_refuses_for_few_features_alone_is_left_to_the_trial(write, refused, here):
    """Trial pieces have 8 and 64 channels, and a network may have 16."""
    check = "self.by = by\n        if by > shape[0]:\n            raise ValueError('too few')"
    path = write(DEFENSE.replace("self.by = by", check))
    command = ["run", "smoke", "--plugin", path, "--dry-run", "--set"]
    assert here(*command, "defenses={none={},shift={strengths=[12]}}").returncode == 0
    refused([*command, "defenses={none={},shift={strengths=[65]}}"], "defenses.shift: too few")
