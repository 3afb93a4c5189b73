"""What a contract is: checks that every component of a kind passes."""

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from smashbench.bench.errors import BenchError


class BrokenError(Exception):
    """What a component does that it should not, and what it should do instead."""


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
    """Why a component breaks a promise; None where it keeps it. Seeded: the same every time."""
    torch.manual_seed(0)
    try:
        check.run(subject)
    except BrokenError as broken:
        return str(broken)
    except BenchError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}{_place(error, subject.component)}"
    return None


def _place(error: Exception, component: Any) -> str:
    """The line of the component's own file that an error came through last."""
    module = sys.modules.get(getattr(component, "__module__", ""))
    file = getattr(module, "__file__", None)
    lines = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == file]
    return f" ({Path(str(file)).name}, line {lines[-1].lineno})" if lines else ""
