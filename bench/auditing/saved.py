"""What an audit leaves to be checked by others: ``audit.json``, and the scores of every image."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Len, MinLen
from pydantic import StringConstraints, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from smashbench.bench.auditing.report import Report
from smashbench.bench.auditing.world import estimates
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.results import AttackResults, Floors
from smashbench.bench.frozen import Frozen, Name, Number, explain
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.report.verdict import listed
from smashbench.bench.store.archive import archive_of
from smashbench.bench.store.files import ALTERED, DamagedError, write_whole
from smashbench.bench.store.packs import PACK, packs_in
from smashbench.bench.store.store import Store
from smashbench.bench.suite.config import PROTOCOL

AUDIT, SCORES = "audit.json", "scores.safetensors"
TABLES = ("attacks.csv", "knowledge.csv", "what_if.csv")
GROUPS = "groups"
ALWAYS = ("mse", "ssim", "rank_1", "rank_5")
"""What every audit measured; other metrics came later."""
LONGEST = 3000
Sentence = Annotated[str, StringConstraints(max_length=LONGEST)]


class SavedAttack(Frozen):
    """An attack of an audit, and the mean and the ends of the interval of every metric."""

    name: Name
    pairs: Number
    seconds: Annotated[float, Ge(0)]
    results: AttackResults
    estimates: dict[Name, Annotated[tuple[float, ...], Len(3, 3)]]


class SavedAudit(Frozen):
    """What ``audit.json`` holds."""

    protocol: int
    images: Number
    image_shape: tuple[Number, Number, Number]
    feature_shape: tuple[Number, ...]
    aux: Annotated[Number, Gt(0)]
    test: Annotated[Number, Gt(0)]
    model: bool
    attacks: Annotated[tuple[SavedAttack, ...], MinLen(1)]
    left_out: dict[Name, Sentence]
    floors: Floors
    verdict: tuple[Sentence, ...]
    notes: tuple[Sentence, ...]


def save_audit(report: Report, folder: Path) -> list[Path]:
    """Writes what was found, and the scores that it follows from.

    Raises:
        BenchError: the folder cannot be written to.
    """
    facts, arrays = report.facts, {}
    for number, each in enumerate(report.attacks):
        for metric, values in each.scores.items():
            arrays[f"{number}.{metric}"] = np.ascontiguousarray(values, np.float32)
    if report.groups is not None:
        arrays[GROUPS] = np.ascontiguousarray(report.groups, np.int64)
    saved = SavedAudit(
        protocol=PROTOCOL,
        images=facts.images,
        image_shape=facts.image_shape,
        feature_shape=facts.feature_shape,
        aux=facts.aux,
        test=facts.test,
        model=facts.model,
        attacks=tuple(
            SavedAttack(
                name=each.name,
                pairs=each.pairs,
                seconds=each.seconds,
                results=each.results,
                estimates={name: tuple(found) for name, found in each.estimates.items()},
            )
            for each in report.attacks
        ),
        left_out={name: why[:LONGEST] for name, why in report.left_out.items()},
        floors=report.floors,
        verdict=tuple(each[:LONGEST] for each in report.verdict),
        notes=tuple(each[:LONGEST] for each in report.notes),
    )
    text = json.dumps(saved.model_dump(mode="json"), indent=1, allow_nan=False)
    write_whole(folder / AUDIT, text.encode() + b"\n")
    write_whole(folder / SCORES, save(arrays))
    for pack in packs_in(folder):  # of an earlier audit
        (folder / pack).unlink()
    return [folder / AUDIT, folder / SCORES]


def foreign(folder: Path) -> str:
    """What a folder, or the pack in it, holds that no audit made, such as the run of a suite;
    empty where there is nothing."""
    for name in ("suite.json", "leaderboard.csv"):
        if (folder / name).exists():
            return name
    if any(folder.glob("records/*.json")):
        return "records"
    if not (packs := packs_in(folder)):
        return ""
    names = Store(folder).packed_names()
    if AUDIT not in names or names - {AUDIT, SCORES, *TABLES}:
        what = ", ".join(packs)
        return f"{what} with {listed(sorted(names))}" if names else f"{what}, damaged"
    return ""


def check_folder(folder: Path) -> None:
    """Refuses to write an audit beside the run of a suite, whose pack its own would replace.

    Raises:
        BenchError: names what is there.
    """
    if found := foreign(folder):
        raise BenchError(
            f"{folder} holds something else than an audit ({found}), which the pack of an audit "
            "would replace: give another --out DIR"
        )


def is_audit(folder: Path) -> bool:
    """Whether a folder, or the pack that is in it, is an audit's."""
    return Store(folder).has(AUDIT)


def read_audit(folder: Path) -> tuple[SavedAudit, dict[str, np.ndarray]]:
    """What an audit left in a folder: what it says, and the scores.

    Raises:
        BenchError: it is of another protocol.
        DamagedError: it is altered, or no audit.
    """
    store = Store(folder)
    try:
        content = store.content(AUDIT)
        saved = SavedAudit.model_validate_json(content)
    except FileNotFoundError:
        raise DamagedError(folder / AUDIT, "is not there") from None
    except ValidationError as error:
        found = "; ".join(explain(error, "", SavedAudit)[:3])
        raise DamagedError(folder / AUDIT, f"{ALTERED} ({found})") from None
    if saved.protocol != PROTOCOL:
        raise BenchError(f"{folder / AUDIT} was made by another version; audit again")
    try:
        arrays: dict[str, Any] = load(store.content(SCORES))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DamagedError(folder / SCORES, f"{ALTERED} ({error})") from None
    return saved, arrays


def estimated_again(
    saved: SavedAudit, arrays: dict[str, np.ndarray], number: int
) -> dict[str, Estimate]:
    """The estimates of the ``number``-th attack, from the scores of its images.

    Raises:
        ValueError: the scores are not what such an attack has.
    """
    start = f"{number}."
    scores = {n.removeprefix(start): v for n, v in arrays.items() if n.startswith(start)}
    groups = arrays.get(GROUPS)
    for name, values in [*scores.items(), *([(GROUPS, groups)] if groups is not None else [])]:
        if values.shape != (saved.test,) or not np.isfinite(values).all():
            raise ValueError(f"{name!r} is not one number for each of {saved.test} images")
    if lacking := [name for name in ALWAYS if name not in scores]:
        raise ValueError(f"has no {lacking[0]!r}")
    return estimates(scores, saved.floors["mean_image"], groups)


def pack_audit(folder: Path) -> Path:
    """Puts what an audit found, its scores and its tables into one file, without any image;
    returns its path.

    Raises:
        BenchError: as ``read_audit``; there is the run of a suite, too, whose pack it would
            replace; the folder cannot be written to.
    """
    read_audit(folder)
    if found := foreign(folder):
        raise BenchError(
            f"{folder} holds more than an audit ({found}), which its pack would replace: move "
            f"{AUDIT}, {SCORES} and the tables of the audit to a folder of their own, and pack that"
        )
    store = Store(folder)
    packed = not (folder / AUDIT).exists()  # else tables in an older pack are of another audit
    there = [name for name in TABLES if (folder / name).exists() or (packed and store.has(name))]
    names = [AUDIT, SCORES, *there]
    path = folder / PACK
    write_whole(path, archive_of({name: store.content(name) for name in names}))
    return path
