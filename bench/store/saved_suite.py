"""The suite of a results folder, ``suite.json``: which trials its tables are about."""

import hashlib
import json
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field, StringConstraints, ValidationError

from smashbench.bench.errors import BenchError
from smashbench.bench.frozen import Frozen, Hash, Sha256, explain
from smashbench.bench.store.files import DamagedError, words, write_whole
from smashbench.bench.store.store import Store
from smashbench.bench.suite.columns import ambiguous
from smashbench.bench.suite.config import PROTOCOL, AttackChoice, Description, VictimConfig
from smashbench.bench.suite.kinds import KINDS
from smashbench.bench.suite.options import resolve
from smashbench.bench.suite.trial import LONGEST, Plugin, Suite, Trial, attack_trials, victim_trial

MOST_NAMES = 5
"""Of rows and attacks that leave the tables, in a message."""


class SavedPlugin(Frozen):
    """A plug-in that a run was made with."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*$", max_length=200)]
    sha256: Sha256


class SavedSuite(Frozen):
    """What ``suite.json`` holds."""

    name: Annotated[str, StringConstraints(pattern=r"^[^\p{C}]*$", max_length=300)]
    description: Description
    command: Annotated[str, StringConstraints(max_length=LONGEST)]
    attack_seeds: Annotated[int, Ge(1), Le(1000)]
    victims: tuple[VictimConfig, ...] = Field(min_length=1)
    attacks: tuple[AttackChoice, ...] = Field(min_length=1)
    plugins: tuple[SavedPlugin, ...] = ()
    of_other_code: tuple[Hash, ...] = ()
    kept: tuple[Hash, ...] = ()


def save_suite(suite: Suite, folder: Path) -> None:
    """Writes ``suite.json``: which trials belong to this folder's tables; and the source of its
    plug-ins.

    Raises:
        BenchError: the folder cannot be written, or is not the suite's, see ``check_folder``.
    """
    check_folder(suite, folder)
    keep_sources(suite, folder)
    first = [trial for trial in suite.attacks if trial.parent == suite.victims[0].key]
    saved = SavedSuite(
        name=suite.name,
        description=suite.description,
        command=suite.command,
        attack_seeds=1 + max(trial.config.seed for trial in first),
        victims=tuple(trial.victim for trial in suite.victims),
        attacks=tuple(t.attack for t in first if t.attack and t.config.seed == 0),
        plugins=tuple(SavedPlugin(name=p.name, sha256=p.sha256) for p in suite.plugins),
        of_other_code=tuple(sorted(suite.of_other_code)),
        kept=tuple(sorted(suite.kept)),
    )
    content = json.dumps(saved.model_dump(mode="json"), indent=1, allow_nan=False)
    write_whole(folder / "suite.json", content.encode() + b"\n")


def check_folder(suite: Suite, folder: Path) -> None:
    """Refuses the folder of something else.

    Raises:
        BenchError: it is an audit's, whose packs have the same name, or has the run of a suite of
            another name, whose tables would be lost.
    """
    check_no_audit(folder)
    if (name := _name(folder)) not in (None, suite.name):
        raise BenchError(f"{folder} holds a run of the suite {name}: give another --out")


def check_no_audit(folder: Path) -> None:
    """Refuses the folder of an audit, some of whose files have the names of a report's.

    Raises:
        BenchError: it is one.
    """
    if (folder / "audit.json").exists() or "audit.json" in Store(folder).packed_names():
        raise BenchError(f"{folder} holds an audit: give another --out")


def check_no_run(folder: Path) -> None:
    """Refuses a folder with the run of a suite, whose tables would be lost.

    Raises:
        BenchError: it has one.
    """
    if Store(folder).has("suite.json"):
        raise BenchError(f"{folder} holds a run of its own: give another --out")


def _name(folder: Path) -> str | None:
    """Of the suite that a folder holds; None where there is none, or one that is altered."""
    try:
        return SavedSuite.model_validate_json(Store(folder).content("suite.json")).name
    except (BenchError, OSError, ValidationError):
        return None


def keep_sources(suite: Suite, folder: Path) -> None:
    """Writes the source of a suite's plug-ins; another one that was kept stays beside it, since
    records may have been made by it."""
    for plugin in suite.plugins:
        path = folder / plugin.stored_at
        if not plugin.source:
            continue
        if path.exists() and (before := path.read_bytes()) != plugin.source:
            number = hashlib.sha256(before).hexdigest()[:8]
            write_whole(path.parent / "before" / f"{path.stem}_{number}.py", before)
        write_whole(path, plugin.source)


def read_suite(folder: Path) -> Suite:
    """The suite of a results folder, or of the pack in it.

    Raises:
        BenchError: not a results folder, one that was altered, or one of another version.
    """
    path = folder / "suite.json"
    try:
        content = Store(folder).content(path.name)
    except FileNotFoundError:
        hint = "run a suite first: smashbench run quick"
        if (folder / "leaderboard.csv").exists():
            hint = "it has tables alone, and not the records that they were made from"
        raise BenchError(f"{folder} is no results folder: it has no suite.json; {hint}") from None
    except OSError as error:
        raise BenchError(f"{path}: {words(error)}") from None
    try:
        saved = SavedSuite.model_validate_json(content)
    except ValidationError as error:
        found = "; ".join(explain(error, "", SavedSuite)[:3])
        raise BenchError(f"{path} is altered ({found}); run the suite again") from None
    if any(config.protocol != PROTOCOL for config in saved.victims):
        raise BenchError(f"{folder} was made by another version; run the suite again")
    if wrong := ambiguous(saved.victims, saved.attacks):
        raise BenchError(f"{path} is altered ({'; '.join(wrong[:3])}); run the suite again")
    victims = tuple(map(victim_trial, saved.victims))
    attacks = attack_trials(victims, saved.attacks, saved.attack_seeds)
    suite = Suite(
        saved.name,
        saved.description,
        victims,
        attacks,
        _harmless(saved.command),
        tuple(Plugin(plugin.name, plugin.sha256) for plugin in saved.plugins),
        frozenset((*saved.of_other_code, *saved.kept)),
        frozenset(saved.kept),
    )
    if len({trial.key for trial in suite.trials}) < len(suite.trials):
        raise BenchError(f"{path} is altered (it has a trial twice); run the suite again")
    return suite


def left_out_of(suite: Suite, folder: Path) -> str:
    """What to say of finished trials that the tables of a folder show and this run's will not."""
    try:
        before = read_suite(folder)
    except BenchError:  # there is none, or none that could be shown
        return ""
    now, store = {trial.key for trial in suite.trials}, Store(folder)
    gone = []
    for trial in before.trials:
        with suppress(DamagedError):
            if trial.key not in now and store.finished(trial.key):
                gone.append(trial)
    if not gone:
        return ""
    shown = {each for trial in suite.trials for each in _names(trial)}
    names = dict.fromkeys(name for t in gone for name in _names(t) if name not in shown)
    few = ", ".join([*list(names)[:MOST_NAMES], "..."][: len(names)])
    return (
        f"{len(gone)} finished trials in {folder} are not of this run, and its tables leave them "
        f"out{f' ({few})' * bool(few)}; their records stay: to see both, run both at once, with "
        f"the settings of this run and of: {before.command or 'the run before'}"
    )


def _names(trial: Trial) -> tuple[str, ...]:
    """Its row and its attack, for a person."""
    return (trial.row, *([trial.attack.label] if trial.attack else []))


def _harmless(command: str) -> str:
    """What a page may tell people to type: a run of this program, quoted; else nothing."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    mine = words[:2] == ["smashbench", "run"] and command.isprintable()
    return shlex.join(words) if mine else ""


def check_current(suite: Suite, folder: Path) -> None:
    """Refuses a suite whose trials cannot be run.

    Raises:
        BenchError: a component, or one of its options, is not that of this checkout.
    """
    trials = (*suite.victims, *suite.attacks)
    components = [each for trial in trials for each in trial.components]
    # what is not there comes first, since it says more than an option that differs
    for title, config in sorted(components, key=lambda e: e[1].name in KINDS[e[0]].table()):
        what, table = KINDS[title].word, KINDS[title].table()
        if config.name not in table:
            raise BenchError(
                f"{folder}: there is no {what} {config.name!r} here; if it is a plug-in's, give "
                "--plugin FILE"
            )
        try:
            same = resolve(table[config.name], config.options) == config.options
        except ValidationError:
            same = False
        if not same:
            raise BenchError(
                f"{folder} was made by another version: the options of the {what} "
                f"{config.name!r} are not those of this checkout; run the suite again"
            )
