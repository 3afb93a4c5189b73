"""The command line: ``python -m bench``."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.errors import BenchError, unknown


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0, 1 when trials failed, 2 for bad input."""
    parser = _parser()
    choice = parser.parse_args(arguments)
    from datasets import DatasetError

    try:
        code: int = choice.command(choice)
    except (BenchError, DatasetError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Privacy attacks and defenses for split inference, benchmarked.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a suite, or continue it, and report")
    run.set_defaults(command=_run)
    run.add_argument("suite", help="name of a built-in suite or path of a TOML file")
    run.add_argument("--out", type=Path, metavar="DIR", help="default: results/SUITE")
    run.add_argument("--workers", type=int, metavar="N", help="processes; default: the cores")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="override a value of the suite, e.g. training.epochs=5 or seeds=[0]",
    )
    report = commands.add_parser("report", help="write tables and figures of a results folder")
    report.set_defaults(command=_report)
    report.add_argument("folder", type=Path, metavar="DIR")
    listing = commands.add_parser("list", help="defenses, attacks, datasets, models and suites")
    listing.set_defaults(command=_list)
    fetch = commands.add_parser("fetch", help="download a data set")
    fetch.set_defaults(command=_fetch)
    fetch.add_argument("dataset")
    for command in (run, fetch):
        command.add_argument(
            "--data", type=Path, metavar="DIR", help="data folder; default: SMASHBENCH_DATA"
        )
    return parser


def _data(choice: argparse.Namespace) -> Path | None:
    folder = choice.data or os.environ.get("SMASHBENCH_DATA")
    return Path(folder).resolve() if folder else None


def _run(choice: argparse.Namespace) -> int:
    from bench import engine, suite
    from bench.report import save_suite, write_report
    from datasets import DATASETS

    chosen = suite.load(choice.suite, choice.settings)
    workers = _cores() if choice.workers is None else choice.workers
    if workers < 1:
        raise BenchError(f"--workers {workers}: should be at least 1")
    folder: Path = (choice.out or Path("results") / chosen.name).resolve()
    dataset = chosen.victims[0].config["dataset"]
    DATASETS[dataset["name"]](**dataset["options"]).load(_data(choice))  # or a clear error, now
    save_suite(chosen, folder)
    failed = engine.run(chosen, folder, _data(choice), workers)
    if failed:
        print(f"{failed} trials failed: their records in {folder}/records say why")
    write_report(folder)
    return 1 if failed else 0


def _cores() -> int:
    """Cores this process may use; macOS and Windows only tell how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _report(choice: argparse.Namespace) -> int:
    from bench.report import write_report

    write_report(choice.folder)
    return 0


def _list(choice: argparse.Namespace) -> int:
    from attacks import ATTACKS
    from bench import suite
    from bench.models import MODELS
    from datasets import DATASETS
    from defenses import DEFENSES

    tables: Mapping[str, Mapping[str, object]] = {
        "defenses": DEFENSES,
        "attacks": ATTACKS,
        "datasets": DATASETS,
        "models": MODELS,
    }
    lines = {
        title: {name: (entry.__doc__ or "").split(".\n")[0] for name, entry in table.items()}
        for title, table in tables.items()
    }
    for title, entries in (lines | {"suites": suite.names()}).items():
        print(title)
        for name, text in entries.items():
            print(f"  {name:<16}{' '.join(text.split()).rstrip('.')}")
    return 0


def _fetch(choice: argparse.Namespace) -> int:
    from datasets import DATASETS

    if choice.dataset not in DATASETS:
        raise BenchError(unknown("dataset", choice.dataset, DATASETS))
    dataset = DATASETS[choice.dataset]()
    folder = _data(choice)
    if not dataset.needs_data:
        print(f"{choice.dataset} needs no download")
    elif folder is None:
        raise BenchError("where to? give --data DIR or SMASHBENCH_DATA")
    else:
        dataset.fetch(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
