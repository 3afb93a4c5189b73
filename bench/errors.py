"""Errors that a person can act on: one message, no traceback."""

import re
import traceback
from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 100
"""Most characters of an unknown name that an error repeats."""
SHOWN = 20
"""Most names that an error lists."""
POINT = re.compile(r"(?<![\w.])\.\d")
"""A number that begins with its point, which TOML does not know."""
WRITE_ZERO = "TOML writes 0.1, not .1"


class BenchError(Exception):
    """What was wrong and what to type instead; the command line prints it and exits with 2."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """``unknown defense 'nois'; did you mean 'noise'?``, or the list when nothing is close."""
    known = sorted(known)
    name = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
    if not known:
        return f"unknown {what} {name!r}; there is none"
    close = get_close_matches(name, known, n=1)
    listed = ", ".join(known[:SHOWN]) + (f", ... ({len(known)})" if len(known) > SHOWN else "")
    hint = f"did you mean {close[0]!r}?" if close else f"choose from {listed}"
    return f"unknown {what} {name!r}; {hint}"


def line_in(file: str, error: BaseException) -> int | None:
    """The line of a file that an error came through last, or where its syntax is wrong."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    trace = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(trace) if frame.filename == file), None)
