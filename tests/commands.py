"""Commands as a person types them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def bench(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    process = started(*arguments, **environment)
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def started(*arguments: object, **environment: str) -> "subprocess.Popen[str]":
    """Starts a command and returns at once."""
    return subprocess.Popen(
        [sys.executable, "-m", "smashbench.bench", *map(str, arguments)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "SMASHBENCH_DATA"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_listen,
    )


def _listen() -> None:
    """Ctrl-C reaches the command even where the tests themselves run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
