"""The packs of a results folder: archives that hold what trials made, in place of single files.

``packed.zip`` has ``suite.json`` and what was packed last; beside it stand ``packed.1.zip``,
``packed.2.zip`` and so on once there is much, see ``store.pack``. ``weights.zip`` has the weights
of victims.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from smashbench.bench.store.archive import Archive
from smashbench.bench.store.files import DamagedError, Stamp, stamp_of

PACK, WEIGHTS = "packed.zip", "weights.zip"
PART = re.compile(r"packed\.([1-9][0-9]*)\.zip")
"""Names of the packs beside ``PACK``."""


class Packs:
    """The packs of one folder, each of which is opened once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._archives: dict[str, tuple[Stamp | None, Archive | None]] = {}
        """By name, each with the stamp of the file that was opened."""

    def opened(self, pack: str) -> Archive | None:
        """A pack; None where there is none.

        Raises:
            DamagedError: it is truncated or altered.
            BenchError: it is out of reach.
        """
        path = self._folder / pack
        before, archive = self._archives.get(pack, (None, None))
        if (stamp := stamp_of(path)) != before:  # another one than that which was opened
            archive = Archive(path) if stamp else None
            self._archives[pack] = stamp, archive
        return archive

    def holder(self, name: str) -> tuple[str, Archive] | None:
        """The pack that has the file of this name, and its own name; None where none has it.

        Raises:
            DamagedError, BenchError: as ``opened``; a pack that comes before it.
        """
        if name.startswith("victims/"):
            return self._in(WEIGHTS, name)
        if found := self._in(PACK, name):
            return found
        parts = (self._in(pack, name) for pack in parts_in(self._folder))
        return next(filter(None, parts), None)

    def _in(self, pack: str, name: str) -> tuple[str, Archive] | None:
        archive = self.opened(pack)
        return (pack, archive) if archive is not None and name in archive else None

    def names(self) -> set[str]:
        """The files in all packs but that of weights; none of a pack that cannot be read."""
        names: set[str] = set()
        for pack in packs_in(self._folder):
            with suppress(DamagedError):
                names |= archive.names if (archive := self.opened(pack)) else set()
        return names


def packs_in(folder: Path) -> list[str]:
    """Names of all packs of records and scores that are there."""
    return [PACK] * (folder / PACK).exists() + parts_in(folder)


def parts_in(folder: Path) -> list[str]:
    """Names of the packs beside ``PACK``, the oldest first."""
    names = (path.name for path in folder.glob("packed.*.zip"))
    return sorted(filter(PART.fullmatch, names), key=_number)


def new_parts(folder: Path) -> Iterator[str]:
    """Names for further packs beside ``PACK``."""
    parts = parts_in(folder)
    return map("packed.{}.zip".format, count(1 + max(map(_number, parts), default=0)))


def _number(pack: str) -> int:
    return int(pack.split(".")[1])
