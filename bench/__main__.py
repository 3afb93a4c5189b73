"""``python -m smashbench.bench`` is the command ``smashbench``."""

import sys

from smashbench.bench.command import entry

if __name__ == "__main__":
    sys.exit(entry())
