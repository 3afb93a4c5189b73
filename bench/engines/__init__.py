"""Where trials run. An engine starts attempts somewhere and tells how they ended.

It keeps no results and needs no state: attempts write their own records. To add one, write a
class with the methods of ``Engine`` and a line in ``ENGINES``.
"""

from bench.engines.base import Engine, Setting
from bench.engines.local import Local
from bench.engines.ray import Ray
from bench.engines.slurm import Slurm

ENGINES: dict[str, type[Engine]] = {"local": Local, "slurm": Slurm, "ray": Ray}

__all__ = ["ENGINES", "Engine", "Setting"]
