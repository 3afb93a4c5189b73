"""Standard output that ends nothing: a reader who leaves, or a full disk, costs what is printed."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Output(io.FileIO):
    """Standard output. Once it cannot be written to, what is printed goes nowhere."""

    full = False
    """Whether something is missing from what was printed that somebody may have wanted."""

    def write(self, data) -> int:  # type: ignore[no-untyped-def]
        try:
            return super().write(data)
        except BrokenPipeError:  # `| head` has seen enough
            pass
        except OSError as error:
            self.full = True
            print(f"error: standard output: {error.strerror}", file=sys.stderr)
        _lead_nowhere(self.fileno())
        return len(data)


@contextmanager
def patient() -> Iterator[Output]:
    """Prints to such an output, which spells what the terminal cannot show."""
    before = sys.stdout
    if before is None:  # was closed: `>&-`
        _lead_nowhere(1)
    else:
        before.flush()
    output = Output(1, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=before.encoding if before else "utf-8",
        errors="backslashreplace",
        line_buffering=output.isatty(),
    )
    try:
        yield output
    finally:
        sys.stdout.flush()
        sys.stdout = before


def _lead_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
