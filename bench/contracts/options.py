"""What every component promises: a name, and options that a suite can set."""

import inspect
import re
from difflib import get_close_matches
from typing import get_type_hints

from smashbench.bench.contracts.base import BrokenError, Check, Subject, require
from smashbench.bench.suite.kinds import KINDS, unusable
from smashbench.bench.suite.options import options_of
from smashbench.defenses import Defense

LONGEST = 300
"""Most characters of the first sentence of a description, which `smashbench list` shows."""
ALIKE = 0.85
"""Similarity of two names from which one is taken for the other, misspelt."""


def _described(subject: Subject) -> None:
    require(
        re.fullmatch(r"[a-z][a-z0-9_]*", subject.name) is not None,
        f"its name {subject.name!r} should be lower case, digits and underscores",
    )
    text = vars(subject.component).get("__doc__") or ""
    require(bool(text.strip()), "it has no docstring; say in one sentence what it is")
    require(
        len(text.split(".\n")[0]) < LONGEST,
        f"the first sentence of its docstring is longer than {LONGEST} characters",
    )


def _keyword_only(subject: Subject) -> None:
    """Positional are the shape and the classes of a defense alone."""
    wanted = ["shape", "classes"] if issubclass(subject.component, Defense) else []
    parameters = inspect.signature(subject.component).parameters.values()
    found = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    require(
        found == wanted,
        f"its constructor takes {found or 'nothing'} by position instead of {wanted or 'nothing'}; "
        "write `*,` before its options",
    )
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY:
            require(p.default is not p.empty, f"its option {p.name!r} has no default")
            require(
                p.name in get_type_hints(subject.component.__init__),
                f"its option {p.name!r} has no type; write e.g. `{p.name}: float = 0.1`",
            )


def usable(subject: Subject) -> None:
    """Whatever else it does, it can be loaded from a plug-in."""
    why = unusable(subject.component)
    require(not why, f"it {why}")


def _overriding(subject: Subject) -> None:
    base = next(
        kind.base() for kind in KINDS.values() if issubclass(subject.component, kind.base())
    )
    own = [name for name, value in vars(subject.component).items() if callable(value)]
    left = [name for name in dir(base) if not name.startswith("_") and name not in own]
    for name in own:
        if not hasattr(base, name) and (close := get_close_matches(name, left, 1, ALIKE)):
            raise BrokenError(
                f"{name!r} overrides nothing: is {close[0]!r} meant? If not, rename it"
            )


def _documented(subject: Subject) -> None:
    usable(subject)
    documented = "".join(base.__doc__ or "" for base in subject.component.__mro__)
    for option in options_of(subject.component).model_fields:
        require(
            re.search(rf"\b{option}\b", documented) is not None,
            f"its option {option!r} is not in its docstring",
        )


OPTIONS = (
    Check("it has a name and says what it is", _described),
    Check("its options are keyword-only, with types and defaults", _keyword_only),
    Check("every option is documented", _documented),
    Check("no method is a misspelt one of its base", _overriding),
    Check("a suite can make it, with its defaults", usable),
)
