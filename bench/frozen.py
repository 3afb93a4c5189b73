"""What every configuration and every record is made of: frozen values, checked where they enter."""

from collections.abc import Iterable
from typing import Annotated, Any

from annotated_types import Ge, Le, Lt
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from smashbench.bench.errors import unknown

Share = Annotated[float, Ge(0), Le(1)]
"""From 0 to 1."""
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
"""16 hexadecimal digits."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=100)]
"""Of a component: lower case, digits and underscores."""
Number = Annotated[int, Ge(0), Lt(2**63)]
"""Of things, as large as tables and arrays can hold."""
WORDS = {
    "a valid tuple": "a list, e.g. [0, 1]",
    "tuple should have": "the list should have",
    " after validation": "",
}
"""Words of pydantic's messages, and what people write."""
LONGEST = 200
"""Most characters of a foreign value that a message repeats."""


class Frozen(BaseModel):
    """A value that cannot change. Unknown fields, other types and numbers that are not finite are
    errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def explain(error: ValidationError, where: str, known: type[BaseModel]) -> list[str]:
    """One line per mistake: field, value, what is allowed."""
    return [_line(item, where, known) for item in error.errors(include_url=False)]


def _line(item: Any, where: str, known: type[BaseModel]) -> str:
    field = ".".join([where, *map(str, item["loc"])]).strip(".")
    if item["type"] == "extra_forbidden":
        name = str(item["loc"][-1])
        return f"{field}: " + unknown("option", name, _fields(known, item["loc"][:-1]))
    if item["type"] == "missing":
        return f"{field}: is missing"
    message = item["msg"][0].lower() + item["msg"][1:]
    for pydantic, ours in WORDS.items():  # TOML and JSON have lists
        message = message.replace(pydantic, ours)
    value = repr(item["input"])
    short = value if len(value) <= LONGEST else value[:LONGEST] + "..."
    return f"{field} = {short}: {message}" if field else message


def _fields(model: Any, parents: Iterable[Any]) -> list[str]:
    """Names of the fields of the model below ``model`` at these places."""
    for parent in parents:
        field = getattr(model, "model_fields", {}).get(parent)
        model = field.annotation if field else None
    return list(getattr(model, "model_fields", {}))
