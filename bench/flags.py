"""The flags of a row, in words."""

FLAGS = {
    "incomplete": "A trial of the row is missing, perhaps its strongest attack: the row is not "
    "drawn and not compared.",
    "not_converged": "Its strongest trained attack ended on its budget, before its own validation "
    "error stopped improving.",
    "attack_failed": "The worst case is within 5 % of the mean image: a perfect defense, or a poor "
    "attack.",
    "simple_beats_strong": "A closed form beats the trained decoder: distrust the decoder.",
    "control_failed": "For a seed of the row, the attacks do not break the undefended model "
    "either: the row says nothing about privacy.",
    "no_control": "For a seed of the row, nothing undefended was attacked.",
    "bound_violated": "An attack is better than the lower bound or the known optimum allow: a "
    "mistake somewhere.",
    "fewer_attacks": "Other rows were attacked in more ways: their worst cases are not alike.",
    "utility_collapse": "Accuracy is near chance, for a seed of the row at least.",
    "randomized": "Two releases of one image differ.",
}
QUALIFIERS = ("randomized", "utility_collapse")
"""Flags that qualify a row and are no reason to distrust its numbers."""
