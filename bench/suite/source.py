"""Which code made a record: edited code is other code."""

import hashlib
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache

from smashbench.attacks import ATTACKS
from smashbench.bench.suite.trial import Trial
from smashbench.defenses import DEFENSES

OWN = ("smashbench.attacks.", "smashbench.defenses.")


def source_of(trial: Trial) -> str | None:
    """A hash of the code of the defense or attack that a trial is about; None where this checkout
    lacks it."""
    table: Mapping[str, type] = ATTACKS if trial.attack else DEFENSES
    name = trial.attack.name if trial.attack else trial.victim.defense.name
    return source_of_component(table[name]) if name in table else None


@cache
def source_of_component(component: type) -> str:
    """A hash of the source of ``component``, of its bases, and of what they import from attacks
    and defenses."""
    modules = [base.__module__ for base in component.__mro__]
    sources: dict[str, str] = {}
    while modules:
        name = modules.pop()
        if name.startswith(OWN) and name not in sources:
            sources[name] = inspect.getsource(sys.modules[name])
            modules += re.findall(r"^from ([\w.]+) import", sources[name], flags=re.MULTILINE)
    content = "".join(sources[name] for name in sorted(sources))
    return hashlib.sha256(content.encode()).hexdigest()[:16]
