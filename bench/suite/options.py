"""Hyper-parameters of components: read from signatures, checked once, at the boundary."""

import inspect
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, create_model

from smashbench.bench.errors import line_in
from smashbench.bench.frozen import Frozen

FOREIGN = ("builtins", "abc", "torch")
"""Packages of base classes that are no components."""


@cache
def options_of(component: type) -> type[BaseModel]:
    """A model of the keyword-only arguments of ``component`` and, where its constructor passes
    ``**options`` on, of its bases; a subclass's default wins."""
    fields: dict[str, Any] = {}
    for base in reversed(component.__mro__):
        if base.__module__.partition(".")[0] in FOREIGN or "__init__" not in vars(base):
            continue
        constructor = vars(base)["__init__"]
        hints = get_type_hints(constructor, include_extras=True)
        parameters = inspect.signature(constructor).parameters.values()
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            fields = {}
        for p in parameters:
            if p.kind is p.KEYWORD_ONLY:
                fields[p.name] = (hints[p.name], ... if p.default is p.empty else p.default)
    return create_model(component.__name__, __base__=Frozen, **fields)


def resolve(component: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of ``component``, defaults filled in, as plain JSON values.

    Raises:
        ValidationError: an unknown option, a wrong type or a value out of range.
    """
    return options_of(component).model_validate(tuples(options)).model_dump(mode="json")


def place_in(component: Any, error: BaseException) -> str:
    """`` (mine.py, line 3)``: the line of a component's own file that an error came through last;
    empty where it came through none."""
    module = sys.modules.get(getattr(component, "__module__", ""))
    file = str(getattr(module, "__file__", ""))
    line = line_in(file, error)
    return f" ({Path(file).name}, line {line})" if line else ""


def is_number(value: object) -> bool:
    """Whether a value can be a strength: a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, at every depth: TOML and JSON have only lists, options only tuples."""

    def convert(value: Any) -> Any:
        return tuple(map(convert, value)) if isinstance(value, list) else value

    return {name: convert(value) for name, value in options.items()}
