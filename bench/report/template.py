"""Pages from templates."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from smashbench.bench.report.text import number, signed


def rendered(template: Path, **values: Any) -> str:
    """A template with its values filled in: text is escaped, and a value that is not there is an
    error. ``number`` and ``signed`` are filters."""
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, signed=signed)
    return environment.get_template(template.name).render(**values)
