"""Hyper-parameters of components: read from signatures, checked once, at the boundary."""

import hashlib
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from bench.errors import unknown


@cache
def options_of(component: type) -> type[BaseModel]:
    """A model of the keyword-only arguments of ``component`` and, where its constructor passes
    ``**options`` on, of its bases; a subclass's default wins."""
    fields: dict[str, Any] = {}
    for base in reversed(component.__mro__):
        if base.__module__.split(".")[0] not in ("attacks", "defenses", "datasets", "tests"):
            continue
        if "__init__" not in vars(base):
            continue
        constructor = vars(base)["__init__"]
        hints = get_type_hints(constructor, include_extras=True)
        parameters = inspect.signature(constructor).parameters.values()
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            fields = {}
        for p in parameters:
            if p.kind is p.KEYWORD_ONLY:
                fields[p.name] = (hints[p.name], p.default)
    config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    return create_model(component.__name__, __config__=config, **fields)


@cache
def source_of(component: type) -> str:
    """A hash of the source of ``component``, of its bases, and of what they import from attacks
    and defenses: edited code is other code."""
    modules = [base.__module__ for base in component.__mro__]
    sources: dict[str, str] = {}
    while modules:
        name = modules.pop()
        if name.split(".")[0] in ("attacks", "defenses") and name not in sources:
            sources[name] = inspect.getsource(sys.modules[name])
            modules += re.findall(r"^from ([a-z_.]+) import", sources[name], flags=re.MULTILINE)
    content = "".join(sources[name] for name in sorted(sources))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def resolve(component: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of ``component``, defaults filled in, as plain JSON values.

    Raises:
        ValidationError: an unknown option, a wrong type or a value out of range.
    """
    return options_of(component).model_validate(tuples(options)).model_dump(mode="json")


def tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, at every depth: TOML and JSON have only lists, options only tuples."""

    def convert(value: Any) -> Any:
        return tuple(map(convert, value)) if isinstance(value, list) else value

    return {name: convert(value) for name, value in options.items()}


def explain(error: ValidationError, where: str, known: type[BaseModel]) -> list[str]:
    """One line per mistake: field, value, what is allowed."""
    lines = []
    for item in error.errors(include_url=False):
        field = ".".join([where, *map(str, item["loc"])]).strip(".")
        if item["type"] == "extra_forbidden":
            *parents, name = map(str, item["loc"])
            model = known
            for parent in parents:
                model = model.model_fields[parent].annotation  # type: ignore[assignment]
            lines.append(f"{field}: " + unknown("option", name, model.model_fields))
        elif item["type"] == "missing":
            lines.append(f"{field}: is missing")
        else:
            message = item["msg"][0].lower() + item["msg"][1:]
            lines.append(f"{field} = {item['input']!r}: {message}")
    return lines
