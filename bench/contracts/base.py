"""What a contract is: checks that every component of a kind passes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import ValidationError

from smashbench.bench.errors import BenchError
from smashbench.bench.suite.options import options_of, place_in


class BrokenError(Exception):
    """What a component does that it should not, and what it should do instead."""


class UncheckedError(Exception):
    """Why a promise cannot be checked here."""


class Subject(NamedTuple):
    """What is checked.

    Args:
        name: of the component in its table.
        component: the class or, of metrics, the value.
        data: the data folder, for data sets that need one.
    """

    name: str
    component: Any
    data: Path | None = None

    def made(self, *arguments: Any, options: Mapping[str, Any]) -> Any:
        """The component, with those of ``options`` that it has, and can have."""
        fitting = {n: v for n, v in options.items() if self._takes(n, v)}
        return self.component(*arguments, **fitting)

    def _takes(self, name: str, value: Any) -> bool:
        known = options_of(self.component)
        if name not in known.model_fields:
            return False
        try:
            known.model_validate({name: value})
        except ValidationError as error:
            return all(each["loc"][0] != name for each in error.errors())
        return True


@dataclass(frozen=True)
class Check:
    """One promise of a contract.

    Args:
        title: the promise, in words.
        run: raises ``BrokenError`` where it is not kept; any other error breaks it, too.
    """

    title: str
    run: Callable[[Subject], None]


def require(kept: bool, otherwise: str) -> None:
    """Raises ``BrokenError`` with this message if a promise is not kept."""
    if not kept:
        raise BrokenError(otherwise)


def failure_of(check: Check, subject: Subject) -> str | None:
    """Why a component breaks a promise; None where it keeps it. Seeded: the same every time.

    Raises:
        UncheckedError: that cannot be told here.
    """
    torch.manual_seed(0)
    try:
        check.run(subject)
    except UncheckedError:
        raise
    except (BrokenError, BenchError) as error:
        return str(error)
    except SystemExit as error:
        return f"it ends the program, by sys.exit({error}): raise an error that says why instead"
    except Exception as error:
        text = f"{type(error).__name__}: {error}{place_in(subject.component, error)}"
        begun = "_modules" not in str(error) and "Module.__init__()" not in str(error)
        return text if begun else f"{text}; call super().__init__(shape, classes) first"
    return None
