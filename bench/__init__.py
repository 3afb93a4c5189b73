"""The harness: suites to trials, trials to records, records to tables and curves; and audits."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smashbench.bench.auditing import audit as audit


def __getattr__(name: str) -> object:
    """``from smashbench.bench import audit``: imported when it is asked for, since it needs
    PyTorch and the help of the command does not."""
    if name == "audit":
        from smashbench.bench.auditing import audit

        return audit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
