"""Records: what is kept of a trial, as frozen, validated values."""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Literal

import numpy as np
from annotated_types import MinLen
from pydantic import StringConstraints, ValidationError
from pydantic_core import from_json

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.results import (
    IMAGES,
    SLACK,
    USERS,
    VICTIM,
    AttackResults,
    AttackSeconds,
    Text,
    VictimResults,
    VictimSeconds,
)
from smashbench.bench.frozen import Frozen, Hash, Name, Sha256, explain
from smashbench.bench.suite.config import AttackConfig, VictimConfig, keys_of

Arrays = dict[str, np.ndarray]


class _Done(Frozen):
    """What every finished trial says."""

    key: Hash
    status: Literal["ok"] = "ok"
    source: Hash
    """Hash of the code that trained the victim, or attacked it."""
    scoring: Annotated[dict[Name, Hash], MinLen(1)]
    """Hash of the code of every metric, and of a victim of what else was measured."""
    data_hash: Hash
    machine: dict[Text, Text]
    """Device, Python and the packages that numbers depend on."""
    arrays: dict[Name, Sha256]
    """Hashes of the files of arrays beside the record."""

    @property
    def claims(self) -> dict[str, str]:
        """What all records of a board must agree on, as far as they have it: the images and the
        metrics."""
        measures = {name: self.scoring[name] for name in self.scoring.keys() - {VICTIM, IMAGES}}
        codes = {f"the code of {name}": code for name, code in sorted(measures.items())}
        return {"data_hash": self.data_hash, **codes}


class VictimRecord(_Done, VictimResults):
    """A victim that was trained."""

    config: VictimConfig
    parent: Hash | None = None
    checkpoint_sha256: Sha256
    """Of its weights."""
    start_sha256: Sha256 | None = None
    """Of the weights that it began with."""
    seconds: VictimSeconds

    @property
    def own_weights(self) -> str | None:
        """SHA-256 of the weights that it made."""
        return self.checkpoint_sha256

    @property
    def parent_weights(self) -> str | None:
        """SHA-256 of the weights that it began with, if any."""
        return self.start_sha256

    @property
    def parent_source(self) -> str | None:
        """None: what it began with is weights alone."""
        return None


class AttackRecord(_Done, AttackResults):
    """An attack that was run."""

    config: AttackConfig
    parent: Hash
    victim_sha256: Sha256
    """Of the weights of the victim that was attacked."""
    victim_source: Hash | None = None
    """Hash of the code of that victim, which decides what is released, too; records that were made
    before this was kept have none."""
    seconds: AttackSeconds

    @property
    def own_weights(self) -> str | None:
        """None: it makes no weights."""
        return None

    @property
    def parent_weights(self) -> str | None:
        """SHA-256 of the weights that were attacked."""
        return self.victim_sha256

    @property
    def parent_source(self) -> str | None:
        """Hash of the code of the victim that was attacked, if it is known."""
        return self.victim_source


class FailedRecord(Frozen):
    """A trial that failed; the last line of ``error`` is its shortest form."""

    key: Hash
    status: Literal["failed"] = "failed"
    config: VictimConfig | AttackConfig
    parent: Hash | None
    error: Annotated[str, StringConstraints(min_length=1)]
    left_out: bool = False
    """Whether it was not begun, because it could not fit in memory."""

    @property
    def cause(self) -> str:
        """The last line of ``error``, without control characters."""
        return "".join(filter(str.isprintable, (self.error.splitlines() or [""])[-1]))


FinishedRecord = VictimRecord | AttackRecord
Record = FinishedRecord | FailedRecord


def was_left_out(record: Record | None) -> bool:
    """Whether a trial was not begun, because it could not fit in memory."""
    return isinstance(record, FailedRecord) and record.left_out


def agreed(records: Iterable[FinishedRecord], which: str) -> dict[str, str]:
    """What all these records claim.

    Args:
        records: of one board.
        which: how a message calls them.

    Raises:
        BenchError: they do not agree.
    """
    facts: dict[str, str] = {}
    for record in records:
        for what, value in record.claims.items():
            if (ours := facts.setdefault(what, value)) == value:
                continue
            if what == "data_hash":
                raise BenchError(
                    f"{which} were made from different images ({ours}, {value}): files were "
                    "changed between their trials; start anew with another --out"
                )
            raise BenchError(
                f"{which} do not agree on {what} ({ours}, {value}): `smashbench rescore DIR` "
                "measures those again that can be, `smashbench rerun DIR` the others, too"
            )
    return facts


def sealed(text: bytes) -> bytes:
    """The JSON of a record with the SHA-256 of what is before it as its last field."""
    text = text.removesuffix(b"\n}")
    return text + SEAL + hashlib.sha256(text).hexdigest().encode() + b'"\n}\n'


def unsealed(content: bytes) -> bytes | None:
    """The JSON of a record without its seal; None where that is not its seal."""
    text = content[: content.rfind(SEAL)] + b"\n}"
    return text if content == sealed(text) else None


def parse(text: bytes) -> Record:
    """The record in this JSON.

    Raises:
        ValueError: it is none; the message names every field that is wrong.
    """
    head = from_json(text)
    if not isinstance(head, dict):
        raise ValueError("is no record")
    config = head.get("config")
    attacks = isinstance(config, dict) and "attack" in config
    kind: type[Record] = AttackRecord if attacks else VictimRecord
    if head.get("status") == "failed":
        kind = FailedRecord
    try:
        record = kind.model_validate_json(text)
    except ValidationError as error:
        raise ValueError("; ".join(explain(error, "", kind))) from None
    key, victim = keys_of(record.config)
    if record.key != key:
        raise ValueError("key is not the hash of config")
    if record.parent != victim:
        raise ValueError("parent is not the hash of the victim that config names")
    return record


SEAL = b',\n "sha256": "'
"""What separates the text of a record from the SHA-256 of that text."""
MASKS = ("judged", "attributed")
"""Scores of a victim that say which images others are of: 1 for these."""


def check_scores(record: FinishedRecord, arrays: Arrays) -> None:
    """Refuses scores that are not what such a record has: shares of correct releases per image and
    which group it is of, or every metric per image, in its bounds.

    Raises:
        ValueError: names the array and what is wrong with it.
    """
    is_victim = isinstance(record, VictimRecord)
    wanted = "correct" if is_victim else "mse"
    if wanted not in arrays:
        raise ValueError(f"has no {wanted!r}")
    for name, values in arrays.items():
        if values.ndim != 1 or len(values) != len(arrays[wanted]) or not len(values):
            raise ValueError(f"{name!r} has the shape {values.shape}: not one value per image")
        wants = np.int64 if is_victim and name == "group" else np.float32
        if values.dtype != wants:
            raise ValueError(f"{name!r} has the type {values.dtype} instead of {wants.__name__}")
        if wants is np.int64:
            continue
        if is_victim:
            low, high = 0.0, 1.0
        elif name in METRICS:
            low, high = METRICS[name].bounds
        else:
            continue  # of a metric that this checkout lacks
        if name in MASKS and is_victim and not values.any():
            raise ValueError(f"{name!r} leaves no image")
        if not (values.min() >= low - SLACK and values.max() <= high + SLACK):  # NaN fails too
            raise ValueError(f"{name!r} has values outside [{low:g}, {high:g}]")
        if not np.isfinite(values).all():
            raise ValueError(f"{name!r} has values that are not finite")


def check_samples(record: FinishedRecord, arrays: Arrays) -> None:
    """Refuses samples that are not what such a record has: images, all of one shape.

    Raises:
        ValueError: names the array and what is wrong with it.
    """
    users = ("users", "users_original") if isinstance(record, AttackRecord) else ()
    for name in ("samples", *users):
        if name not in arrays:
            raise ValueError(f"has no {name!r}")
    for name, images in arrays.items():
        shape = f"{name!r} is {images.dtype} of shape {images.shape}"
        if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1] not in (1, 3):
            raise ValueError(f"{shape} instead of images (n, C, H, W), uint8")
        if not images.size or images.shape[1:] != arrays["samples"].shape[1:]:
            raise ValueError(f"{shape} beside 'samples' of shape {arrays['samples'].shape}")
        if name in users and len(images) != len(USERS):
            raise ValueError(f"{shape} instead of {len(USERS)} images")


def check_reconstructions(record: FinishedRecord, arrays: Arrays) -> None:
    """Refuses what are no reconstructions (N, C, H, W), uint8.

    Raises:
        ValueError: says what is wrong.
    """
    if set(arrays) != {"reconstructions"}:
        raise ValueError(f"has {sorted(arrays)} instead of 'reconstructions'")
    (images,) = arrays.values()
    if images.ndim != 4 or images.dtype != np.uint8 or not images.size:
        raise ValueError(f"'reconstructions' is {images.dtype} of shape {images.shape}")
