"""The store of a run: one JSON record per trial that ended, written whole or not at all.

A results folder holds ``suite.json`` (the resolved suite) and, by the key of a trial,
``records/KEY.json`` with ``scores/KEY.safetensors`` (per image), ``samples/KEY.safetensors``
(images) and of an attack ``reconstructions/KEY.safetensors`` (of all images, to be scored again),
``victims/KEY.safetensors`` and ``logs/KEY.log``; ``locks/`` while something runs,
``checkpoints/KEY.pt`` of a training that has not ended, ``set_aside/`` when something was damaged,
and ``packed.zip`` and ``weights.zip`` when it was packed (``store.packs``).
"""

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load

from smashbench.bench.store.files import (
    ALTERED,
    DamagedError,
    sha256_of,
    take_next,
    unread,
    unwritable,
    write_next,
    write_whole,
)
from smashbench.bench.store.locks import is_locked, lock
from smashbench.bench.store.packs import Packs
from smashbench.bench.store.record import (
    Arrays,
    AttackRecord,
    FinishedRecord,
    Record,
    VictimRecord,
    check_reconstructions,
    check_samples,
    check_scores,
    parse,
    sealed,
    unsealed,
)

ARRAYS = ("scores", "samples")
"""The files of arrays that every finished trial has."""
RECONSTRUCTIONS = "reconstructions"
"""The file that an attack has beside them, until somebody needs the space."""
CHECKS = {"scores": check_scores, "samples": check_samples, RECONSTRUCTIONS: check_reconstructions}
"""Of what the files of arrays hold."""
STALE = 3600
"""Seconds after which a half-written file that belongs to no trial is an interrupted run's."""


class Store:
    """The records of one results folder."""

    ASIDE = "set_aside"
    """The folder of what is out of the way, and there to be looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packs = Packs(folder)

    def record_name(self, key: str) -> str:
        return f"records/{key}.json"

    def arrays_name(self, key: str, name: str) -> str:
        """Of the ``scores``, ``samples`` or ``reconstructions`` of a trial."""
        return f"{name}/{key}.safetensors"

    def record_path(self, key: str) -> Path:
        return self.folder / self.record_name(key)

    def arrays_path(self, key: str, name: str) -> Path:
        return self.folder / self.arrays_name(key, name)

    def victim_name(self, key: str) -> str:
        """Of the weights of a victim."""
        return f"victims/{key}.safetensors"

    def victim_path(self, key: str) -> Path:
        return self.folder / self.victim_name(key)

    def checkpoint_path(self, key: str) -> Path:
        """Of a training that has not ended."""
        return self.folder / "checkpoints" / f"{key}.pt"

    def log_path(self, key: str) -> Path:
        return self.folder / "logs" / f"{key}.log"

    def content(self, name: str) -> bytes:
        """The content of the file of this name below the folder, else of the packed one.

        Raises:
            OSError: there is neither, or it cannot be read.
            DamagedError: the pack is truncated or altered.
            BenchError: the pack is out of reach.
        """
        try:
            with open(f"{self.folder}/{name}", "rb") as file:  # in half the time of a Path
                return file.read()
        except FileNotFoundError:
            if (packed := self._packed(name)) is None:
                raise
            return packed

    def _packed(self, name: str) -> bytes | None:
        if (holder := self._packs.holder(name)) is None:
            return None
        pack, archive = holder
        try:
            return archive.get(name)
        except DamagedError as damage:  # of one trial alone: the pack is no reason to redo others
            raise DamagedError(self.folder / name, f"{damage.reason} in {pack}") from None

    def packed_names(self) -> set[str]:
        """The files in the packs of records and scores, as far as these can be read."""
        return self._packs.names()

    def has(self, name: str) -> bool:
        """Whether there is a file of this name, or a packed one."""
        return (self.folder / name).exists() or self._packs.holder(name) is not None

    def read(self, key: str) -> Record | None:
        """The record of a trial, of whatever status; None where there is none.

        Raises:
            DamagedError: it is truncated or altered, another trial's, or says what cannot be.
        """
        try:
            content = self.content(self.record_name(key))
            if (text := unsealed(content)) is None:
                raise DamagedError(self.record_path(key), ALTERED)
            record = parse(text)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unread(self.record_path(key), error) from None
        except ValueError as error:
            raise DamagedError(self.record_path(key), f"is no valid record: {error}") from None
        if record.key != key:
            raise DamagedError(self.record_path(key), "does not belong to its name")
        return record

    def finished(self, key: str) -> FinishedRecord | None:
        """The record of a trial that succeeded; else None."""
        record = self.read(key)
        return record if record and record.status == "ok" else None

    def victim(self, key: str) -> VictimRecord | None:
        """The record of a victim that was trained; else None."""
        record = self.finished(key)
        return record if isinstance(record, VictimRecord) else None

    def attack(self, key: str) -> AttackRecord | None:
        """The record of an attack that succeeded; else None."""
        record = self.finished(key)
        return record if isinstance(record, AttackRecord) else None

    def arrays(self, record: FinishedRecord, name: str) -> Arrays:
        """The per-image ``scores`` of a finished trial, or images: its ``samples`` or all
        ``reconstructions``.

        Raises:
            DamagedError: the file is missing, truncated or altered, or holds what cannot be.
        """
        try:
            arrays: Arrays = load(self._verified(*self._arrays_file(record, name)))
            CHECKS[name](record, arrays)
        except (ValueError, KeyError, TypeError, SafetensorError) as error:
            path = self.arrays_path(record.key, name)
            raise DamagedError(path, f"is not what it should be: {error}") from None
        return arrays

    def check_arrays(self, record: FinishedRecord) -> None:
        """Verifies the arrays that a finished trial must have; a packed one may have lost its
        samples.

        Raises:
            DamagedError: a file is missing, truncated or altered.
        """
        for name in ARRAYS:
            if name != "samples" or self.has_samples(record):
                self._verified(*self._arrays_file(record, name))

    def has_samples(self, record: FinishedRecord) -> bool:
        """Whether sample images are there, or should be: not where a pack came without them."""
        if self.arrays_path(record.key, "samples").exists():
            return True
        return self._packed(self.record_name(record.key)) is None

    def can_rescore(self, record: FinishedRecord, *, deep: bool) -> bool:
        """Whether what was scored is still there: an attack's reconstructions, a victim's weights.

        Args:
            record: of the trial.
            deep: whether they are whole, too.
        """
        if isinstance(record, VictimRecord):
            name, sha256 = self.victim_name(record.key), record.checkpoint_sha256
        else:
            name, sha256 = self._arrays_file(record, RECONSTRUCTIONS)
        try:
            return bool(self._verified(name, sha256)) if deep else self.has(name)
        except DamagedError:
            return False

    def _arrays_file(self, record: FinishedRecord, name: str) -> tuple[str, str]:
        """The name of a file of arrays, and the SHA-256 that it should have."""
        return self.arrays_name(record.key, name), record.arrays.get(name, "")

    def _verified(self, name: str, sha256: str) -> bytes:
        """The content of a file that must have this SHA-256.

        Raises:
            DamagedError: it is missing, truncated or altered.
        """
        try:
            content = self.content(name)
        except OSError as error:
            problem = unread(self.folder / name, error)
        else:
            if sha256_of(content) == sha256:
                return content
            problem = DamagedError(self.folder / name, ALTERED)
        if (following := take_next(self.folder / name, sha256)) is not None:
            return following
        raise problem

    def weights(self, key: str, sha256: str) -> bytes:
        """The weights of a victim.

        Raises:
            DamagedError: the file is missing, truncated or altered.
        """
        return self._verified(self.victim_name(key), sha256)

    def write_weights(self, key: str, content: bytes) -> str:
        """Writes the weights of a victim; returns their SHA-256."""
        write_whole(self.victim_path(key), content)
        return sha256_of(content)

    def write_arrays(
        self, key: str, arrays: Mapping[str, bytes], *, beside: bool = False
    ) -> dict[str, str]:
        """Writes the arrays of a trial; returns their SHA-256, for its record.

        Args:
            key: of the trial.
            arrays: contents of the files, by name.
            beside: leave those that are there in their place until a record with the new SHA-256
                is read with its arrays. Whatever happens in between, one of the two has its own.
        """
        for name, content in arrays.items():
            (write_next if beside else write_whole)(self.arrays_path(key, name), content)
        return {name: sha256_of(content) for name, content in arrays.items()}

    def write(self, record: Record) -> None:
        """Writes a record, sealed with the hash of its text."""
        text = json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False)
        write_whole(self.record_path(record.key), sealed(text.encode()))

    def set_aside(self, path: Path) -> None:
        """Moves a damaged file to ``set_aside/``: out of the way, and there to be looked at; not
        over a success that a failure stands in for."""
        aside = self.folder / self.ASIDE / path.relative_to(self.folder)
        aside = aside.with_name(f"{aside.name}.damaged") if aside.exists() else aside
        try:
            aside.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, aside)
        except FileNotFoundError:
            pass  # gone already
        except OSError as error:
            raise unwritable(aside, error) from None

    def claim(self, key: str) -> AbstractContextManager[bool]:
        """True while this process alone works on a trial, False where another one does."""
        return lock(self.folder / "locks" / key)

    def claimed(self, key: str) -> bool:
        """Whether another process works on a trial now."""
        return is_locked(self.folder / "locks" / key)

    def sweep(self) -> None:
        """Deletes what interrupted processes left half-written; a pack that was, ``pack`` does."""
        for part in [*self.folder.glob(".*.part"), *self.folder.glob("*/.*.part")]:
            with suppress(FileNotFoundError):
                old = time.time() - part.stat().st_mtime > STALE
                of_trial = re.match(r"\.([0-9a-f]{16})\.", part.name)
                if old or (of_trial and not self.claimed(of_trial[1])):
                    part.unlink()
