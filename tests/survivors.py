"""What is left of a run, and whether it equals that of a run that nothing happened to."""

import json
import time
from pathlib import Path

PART = (
    *("--set", "defenses={none={},noise={strengths=[0.3]}}"),
    *("--set", "attacks={mean={},gmm={components=[2],draws=1}}"),
)
"""A part of `smoke`: the same trials, and so the same records."""


def records(folder: Path) -> dict[str, dict]:
    found = {}
    for path in (folder / "records").glob("*.json"):
        record = json.loads(path.read_text())
        for name in ("seconds", "machine", "sha256"):
            record.pop(name, None)
        found[path.stem] = record
    return found


def times(folder: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_mtime_ns
        for path in (folder / "records").glob("*.json")
        if json.loads(path.read_text())["status"] == "ok"
    }


def until(condition, seconds: float = 120) -> None:
    """Waits until something is true, or fails."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def same_as_uninterrupted(folder: Path, reference: Path) -> None:
    """The records of a part of a suite equal those of the whole, uninterrupted one, and with the
    hashes of scores, reconstructions and weights so does all that they stand for."""
    ours, theirs = records(folder), records(reference)
    assert ours == {key: theirs[key] for key in ours}
    assert not list(folder.rglob(".*.part"))
