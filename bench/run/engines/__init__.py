"""Where trials run. An engine starts attempts somewhere and tells how they ended.

It keeps no results and needs no state: attempts write their own records. To add one, write a
class with the methods of ``Engine`` and a line in ``ENGINES``.
"""

from smashbench.bench.run.engines.base import Engine, RunOptions
from smashbench.bench.run.engines.local import Local
from smashbench.bench.run.engines.ray import Ray
from smashbench.bench.run.engines.slurm import Slurm

ENGINES: dict[str, type[Engine]] = {"local": Local, "slurm": Slurm, "ray": Ray}

__all__ = ["ENGINES", "Engine", "RunOptions"]
