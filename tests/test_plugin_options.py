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
