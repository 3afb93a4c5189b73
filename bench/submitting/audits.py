"""A packed audit: does what it says follow from its scores, and was enough tried?"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from smashbench.bench.auditing.saved import ALWAYS, SavedAudit, estimated_again, read_audit
from smashbench.bench.report.verdict import listed
from smashbench.bench.submitting.finding import Finding


def check_audit(folder: Path) -> Iterator[Finding]:
    """Checks the folder of an audit.

    Raises:
        BenchError: it is none, one of another protocol, or damaged.
    """
    saved, arrays = read_audit(folder)
    for sentence in saved.verdict:
        yield Finding("note", f"it says: {sentence}")
    yield from _scores(saved, arrays)
    yield from _tried(saved)


def _scores(saved: SavedAudit, arrays: dict[str, np.ndarray]) -> Iterator[Finding]:
    wrong = []
    known = {name for attack in saved.attacks for name in attack.estimates} | {*ALWAYS}
    for number, attack in enumerate(saved.attacks):
        try:
            again = estimated_again(saved, arrays, number)
        except (ValueError, KeyError) as error:
            yield Finding("PROBLEM", f"the scores of {attack.name}: {error}")
            continue
        said = attack.estimates
        again = {name: each for name, each in again.items() if name in known}
        if said.keys() != again.keys() or not all(
            np.allclose(said[name], again[name], rtol=1e-5, atol=1e-7) for name in said
        ):
            wrong.append(attack.name)
    if wrong:
        yield Finding("PROBLEM", f"other estimates than those of their scores: {listed(wrong)}")
    else:
        text = f"estimates of {len(saved.attacks)} attacks are those of the scores of {saved.test}"
        yield Finding("ok", f"{text} images")


def _tried(saved: SavedAudit) -> Iterator[Finding]:
    trained = [attack for attack in saved.attacks if attack.results.kind == "trained"]
    if not trained:
        yield Finding("PROBLEM", "no decoder was trained: audit with a larger --budget")
    elif not any(attack.results.converged for attack in trained):
        yield Finding("note", "no decoder converged: an attacker with more time does better")
    for name, why in saved.left_out.items():
        yield Finding("note", f"not tried: {name}: {why}")
    for note in saved.notes:
        yield Finding("note", note)
    yield Finding(
        "note",
        "an audit is about its own images: it stands beside other audits, in no table of a suite",
    )
