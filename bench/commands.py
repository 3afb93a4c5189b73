"""What each command does; imports wait until it is known which one was typed."""

import gc
import os
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.plugged import plug

if TYPE_CHECKING:
    from smashbench.bench.run.engines import RunOptions
    from smashbench.bench.suite.trial import Suite


def run(choice: Namespace) -> int:
    """Runs a suite, or lists what that would be."""
    if sys.stderr.isatty():  # the imports take seconds
        print(f"{choice.suite}: reading the suite and its images", file=sys.stderr)
    from smashbench.bench.run.status import listing
    from smashbench.bench.suite import toml

    plug(choice.plugins)
    suite = toml.load(choice.suite, choice.settings, choice.plugins)
    options = _options(choice, choice.out or Path("results") / suite.name)
    if choice.limit is not None and choice.limit < 1:
        raise BenchError(f"--limit {choice.limit}: should be at least 1")
    if choice.dry_run:
        keep = choice.keep_outdated
        print(listing(suite, options.folder, keep=keep, only=choice.only, limit=choice.limit))
        return 0
    return _executed(suite, options, choice)


def rerun(choice: Namespace) -> int:
    """Continues the suite of a folder."""
    suite = _saved(choice, choice.folder)
    return _executed(suite, _options(choice, choice.folder), choice)


def rescore(choice: Namespace) -> int:
    """Measures what is finished again."""
    from smashbench.bench.report.write import write_report
    from smashbench.bench.run.execute import rescore

    suite = _saved(choice, choice.folder)
    options = _options(choice, choice.folder)
    text, left = rescore(suite, options)
    print(text)
    write_report([options.folder], options.folder)
    return 1 if left else 0


def _saved(choice: Namespace, folder: Path) -> "Suite":
    """The suite of a folder, to be run."""
    from smashbench.bench.store.saved_suite import check_current, read_suite
    from smashbench.bench.suite.plugins import renewed

    plug(choice.plugins)
    suite = renewed(read_suite(folder), folder)
    check_current(suite, folder)
    return suite


def _executed(suite: "Suite", options: "RunOptions", choice: Namespace) -> int:
    """Runs and reports; returns the exit code."""
    from smashbench.bench.report.write import write_report
    from smashbench.bench.run.execute import execute
    from smashbench.bench.store.store import Store

    chosen = {name: value for name, value in vars(choice).items() if name in SELECTION}
    failures = execute(suite, options, **chosen)
    store = Store(options.folder)
    if any(store.finished(victim.key) for victim in suite.victims):
        write_report([options.folder], options.folder)
    else:
        print(f"{options.folder}: no victim is trained yet, so that there is nothing to report")
    return 1 if failures else 0


SELECTION = ("only", "failed", "limit")
"""What ``run`` and ``rerun`` may ask for."""


def _options(choice: Namespace, folder: Path) -> "RunOptions":
    from smashbench.bench.run.engines import ENGINES, RunOptions

    if choice.engine not in ENGINES:
        raise BenchError(f"--engine: {unknown('engine', choice.engine, ENGINES)}")
    resources = {}
    for text in choice.resources:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise BenchError(f"--resource {text!r}: write name=value, e.g. --resource mem=4G")
        resources[name] = value
    if choice.workers is not None and choice.workers < 1:
        raise BenchError(f"--workers {choice.workers}: should be at least 1")
    return RunOptions(
        folder=folder.resolve(),
        data=_data(choice),
        engine=choice.engine,
        workers=choice.workers,
        minutes=_minutes(choice),
        keep_outdated=choice.keep_outdated,
        resources=resources,
    )


def _data(choice: Namespace) -> Path | None:
    folder = choice.data or os.environ.get("SMASHBENCH_DATA")
    return Path(folder).resolve() if folder else None


def _minutes(choice: Namespace) -> float:
    minutes: float = choice.time_limit
    if not 0 < minutes < 1e6:
        raise BenchError(f"--time-limit {minutes:g}: should be minutes, more than 0")
    return minutes


def trial(choice: Namespace) -> int:
    """Runs single trials."""
    from smashbench.bench.run.engines import RunOptions
    from smashbench.bench.run.execute import check_keys, run_single
    from smashbench.bench.store.saved_suite import keep_sources, read_suite, save_suite
    from smashbench.bench.store.store import Store
    from smashbench.bench.suite import toml

    folder: Path = choice.out.resolve()
    if choice.suite:
        plug(choice.plugins)
        chosen = toml.load(choice.suite, choice.settings, choice.plugins)
        check_keys(chosen, choice.keys)  # before anything is written
        if Store(folder).has("suite.json"):
            if {t.key for t in read_suite(folder).trials} != {t.key for t in chosen.trials}:
                raise BenchError(
                    f"{folder} holds another suite: leave out --suite, or another --out"
                )
        else:
            save_suite(chosen, folder)
    elif choice.settings:
        raise BenchError("--set needs --suite: without it, the folder's suite is meant as it is")
    else:
        chosen = _saved(choice, folder)
        check_keys(chosen, choice.keys)
    options = RunOptions(folder, _data(choice), workers=1, minutes=_minutes(choice))
    keep_sources(chosen, folder)  # its process loads them from there
    failures = run_single(chosen, choice.keys, options)
    return 1 if failures else 0


def status(choice: Namespace) -> int:
    """Says how far a folder is."""
    from smashbench.bench.run.status import status
    from smashbench.bench.store.saved_suite import read_suite

    plug(choice.plugins)
    print(status(read_suite(choice.folder), choice.folder))
    return 0


def report(choice: Namespace) -> int:
    """Writes tables, figures and the page."""
    from smashbench.bench.report.write import write_report

    plug(choice.plugins)
    if len(choice.folders) > 1 and choice.out is None:
        raise BenchError("a report of several folders needs --out DIR, a folder of its own")
    if choice.replace and len(choice.folders) < 2:
        raise BenchError("--replace is about several folders: name the one with newer rows last")
    gc.disable()  # next to nothing here is garbage, and to look for it is a tenth of the time
    try:
        write_report(choice.folders, choice.out or choice.folders[0], newer=choice.replace)
    finally:
        gc.enable()
    return 0


def figure(choice: Namespace) -> int:
    """Draws figures."""
    from smashbench.bench.report.write import write_figures

    plug(choice.plugins)
    out = choice.out or choice.folder / choice.style
    for path in write_figures(choice.folder, out, choice.names, choice.style):
        print(path)
    return 0


def pack(choice: Namespace) -> int:
    """Packs a folder."""
    from smashbench.bench.store.pack import pack, pack_weights
    from smashbench.bench.store.packs import WEIGHTS, packs_in
    from smashbench.bench.store.store import Store

    if Store(choice.folder).has("audit.json"):
        for name in ("weights", "reconstructions"):
            if getattr(choice, name):
                raise BenchError(
                    f"--{name}: {choice.folder} is an audit, which has none: leave it out"
                )
        from smashbench.bench.auditing.saved import pack_audit

        print(f"the audit is in {pack_audit(choice.folder)}, without its images")
        return 0
    packed = pack(choice.folder, reconstructions=choice.reconstructions)
    packs = ", ".join(str(choice.folder / name) for name in packs_in(choice.folder))
    print(f"{packed} trials are in {packs}")
    if choice.weights:
        packed = pack_weights(choice.folder)
        print(f"the weights of {packed} victims are in {choice.folder / WEIGHTS}")
    return 0


def submit_check(choice: Namespace) -> int:
    """Says whether a submission can stand on a board."""
    from smashbench.bench.submitting.check import check

    plug(choice.plugins)
    found = check(choice.file, choice.board, _data(choice))
    for finding in found:
        print(f"{finding.kind:8}{finding.text}")
    problems = sum(finding.kind == "PROBLEM" for finding in found)
    told = f"{problems} problem{'' if problems == 1 else 's'}"
    print(f"\n{told}: {choice.file} can{'not' if problems else ''} stand beside others")
    return 1 if problems else 0


def compare(choice: Namespace) -> int:
    """Says which rows moved."""
    from smashbench.bench.report.compare import compare
    from smashbench.bench.report.rows import read
    from smashbench.bench.store.merge import check_comparable

    plug(choice.plugins)
    check_comparable([choice.before, choice.after])
    lines, moved = compare(read(choice.before), read(choice.after))
    print("\n".join(lines))
    return 1 if moved else 0


def audit(choice: Namespace) -> int:
    """Audits an encoder, or features."""
    from smashbench.bench.auditing.command import run

    return run(choice)


def list_all(choice: Namespace) -> int:
    """Lists every component."""
    from smashbench.bench.listing import listed

    plug(choice.plugins)
    print(listed())
    return 0


def check(choice: Namespace) -> int:
    """Tests the components of plug-ins."""
    from smashbench.bench.contracts import CONTRACTS, outcomes
    from smashbench.bench.suite.kinds import KINDS

    counts: Counter[str] = Counter()
    for loaded in plug(choice.files, lenient=True):
        parts = [(title, name) for title, names in loaded.tables.items() for name in names]
        for title, name in parts:
            print(f"{loaded.plugin.name}: {KINDS[title].word} {name}")
            if title not in CONTRACTS:
                print("  is of the right type; it has no contract beyond that")
            for promise, state, why in outcomes(title, name, _data(choice)):
                counts[state] += 1
                print(f"  {state:6}  {promise}{f': not checked, {why}' if state == '-' else ''}")
                if state == "FAILED":
                    print(f"          {why}")
    print(f"{counts['ok']} promises kept, {counts['FAILED']} broken")
    return 1 if counts["FAILED"] else 0


def fetch(choice: Namespace) -> int:
    """Downloads a data set."""
    from smashbench.bench.fetching import fetch
    from smashbench.datasets import DATASETS

    plug(choice.plugins)
    if choice.dataset not in DATASETS:
        raise BenchError(unknown("dataset", choice.dataset, DATASETS))
    dataset = DATASETS[choice.dataset]()
    folder = _data(choice)
    if not dataset.needs_data:
        print(f"{choice.dataset} needs no download")
    elif folder is None:
        raise BenchError("where to? give --data DIR or SMASHBENCH_DATA")
    else:
        fetch(dataset, folder)
        print(f"{choice.dataset} is in {folder}")
    return 0
