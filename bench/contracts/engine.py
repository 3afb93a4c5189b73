"""What an engine promises: no more than its methods."""

from smashbench.bench.contracts.base import Check
from smashbench.bench.contracts.options import usable

ENGINE = (Check("it has all methods of an engine", usable),)
