"""The control: no defense."""

from smashbench.defenses.base import Defense


class NoDefense(Defense):
    """No defense: the features leave the client as they are."""

    role = "control"
    group = "baseline"
