"""The command line: ``python -m bench``."""

import argparse
import gc
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import BenchError, unknown

if TYPE_CHECKING:
    from bench.execute import How
    from bench.models import Model

ENGINES = ("local", "slurm", "ray")


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0, 1 when trials failed or rows moved, 2 for
    bad input."""
    parser = _parser()
    choice = parser.parse_args(arguments)
    try:
        code: int = choice.command(choice)
    except Exception as error:
        datasets = sys.modules.get("datasets")  # imports PyTorch, which not all commands need
        if not isinstance(error, BenchError | (datasets.DatasetError if datasets else BenchError)):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        again = shlex.join(sys.argv[1:] if arguments is None else arguments)
        print(f"\ninterrupted; to continue: python -m bench {again}", file=sys.stderr)
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
    run.add_argument("--dry-run", action="store_true", help="list the trials and stop")
    run.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="run only these, e.g. defense=noise; fields: defense, strength, attack, seed",
    )
    run.add_argument("--limit", type=int, metavar="N", help="run at most N trials, then report")
    rerun = commands.add_parser("rerun", help="continue whatever suite a folder holds")
    rerun.set_defaults(command=_rerun)
    rerun.add_argument("folder", type=Path, metavar="DIR")
    rerun.add_argument("--failed", action="store_true", help="only the trials that failed")
    trial = commands.add_parser("trial", help="run single trials, for a scheduler of your own")
    trial.set_defaults(command=_trial)
    trial.add_argument("keys", nargs="+", metavar="KEY", help="as `run --dry-run` lists them")
    trial.add_argument("--out", type=Path, metavar="DIR", required=True, help="results folder")
    trial.add_argument("--suite", help="where the keys are from; default: the folder's suite")
    status = commands.add_parser("status", help="what is done, failed and missing, and why")
    status.set_defaults(command=_status)
    status.add_argument("folder", type=Path, metavar="DIR")
    report = commands.add_parser("report", help="write tables and figures of a results folder")
    report.set_defaults(command=_report)
    report.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="several: one board")
    report.add_argument("--out", type=Path, metavar="DIR", help="default: the folder itself")
    pack = commands.add_parser("pack", help="records and scores into one file: to share, for speed")
    pack.set_defaults(command=_pack)
    pack.add_argument("folder", type=Path, metavar="DIR")
    compare = commands.add_parser("compare", help="rows that moved beyond their intervals")
    compare.set_defaults(command=_compare)
    compare.add_argument("before", type=Path, metavar="DIR_A")
    compare.add_argument("after", type=Path, metavar="DIR_B")
    listing = commands.add_parser("list", help="defenses, attacks, datasets, models and suites")
    listing.set_defaults(command=_list)
    fetch = commands.add_parser("fetch", help="download a data set")
    fetch.set_defaults(command=_fetch)
    fetch.add_argument("dataset")
    for command in (run, trial):
        command.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            dest="settings",
            help="override a value of the suite, e.g. training.epochs=5 or seeds=[0]",
        )
    for command in (run, rerun):
        command.add_argument("--engine", choices=ENGINES, default="local", help="default: local")
        command.add_argument(
            "--workers", type=int, metavar="N", help="most trials at once; default: the cores"
        )
        command.add_argument(
            "--resource",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            dest="resources",
            help="what a trial needs: sbatch options for slurm, num_cpus, num_gpus, memory for ray",
        )
    for command in (run, rerun, trial):
        command.add_argument(
            "--time-limit", type=float, default=240, metavar="MINUTES", help="of a trial; 240"
        )
    for command in (run, rerun, trial, fetch):
        command.add_argument(
            "--data", type=Path, metavar="DIR", help="data folder; default: SMASHBENCH_DATA"
        )
    return parser


def _data(choice: argparse.Namespace) -> Path | None:
    folder = choice.data or os.environ.get("SMASHBENCH_DATA")
    return Path(folder).resolve() if folder else None


def _run(choice: argparse.Namespace) -> int:
    from bench import suite
    from bench.execute import execute, listing

    chosen = suite.load(choice.suite, choice.settings)
    how = _how(choice, choice.out or Path("results") / chosen.name)
    if choice.limit is not None and choice.limit < 1:
        raise BenchError(f"--limit {choice.limit}: should be at least 1")
    if choice.dry_run:
        print(listing(chosen, how, only=choice.only, limit=choice.limit))
        return 0
    return execute(chosen, how, only=choice.only, limit=choice.limit)


def _rerun(choice: argparse.Namespace) -> int:
    from bench.execute import execute
    from bench.saved import read_suite

    suite = read_suite(choice.folder, current=True)
    return execute(suite, _how(choice, choice.folder), failed=choice.failed)


def _how(choice: argparse.Namespace, folder: Path) -> "How":
    from bench.execute import How

    resources = {}
    for text in choice.resources:
        name, sign, value = text.partition("=")
        if not sign:
            raise BenchError(f"--resource {text!r}: write name=value, e.g. --resource mem=4G")
        resources[name] = value
    if choice.workers is not None and choice.workers < 1:
        raise BenchError(f"--workers {choice.workers}: should be at least 1")
    minutes = _minutes(choice)
    return How(folder.resolve(), _data(choice), choice.engine, choice.workers, minutes, resources)


def _minutes(choice: argparse.Namespace) -> float:
    minutes: float = choice.time_limit
    if not 0 < minutes < 1e6:
        raise BenchError(f"--time-limit {minutes:g}: should be minutes, more than 0")
    return minutes


def _trial(choice: argparse.Namespace) -> int:
    from bench import suite
    from bench.execute import check_keys, run_single
    from bench.saved import read_suite, save_suite

    folder: Path = choice.out.resolve()
    if choice.suite:
        chosen = suite.load(choice.suite, choice.settings)
        check_keys(chosen, choice.keys)
        if (folder / "suite.json").exists():
            if {t.key for t in read_suite(folder).trials} != {t.key for t in chosen.trials}:
                raise BenchError(
                    f"{folder} holds another suite: leave out --suite, or another --out"
                )
        else:
            save_suite(chosen, folder)
    elif choice.settings:
        raise BenchError("--set needs --suite: without it, the folder's suite is meant as it is")
    else:
        chosen = read_suite(folder, current=True)
    return run_single(chosen, choice.keys, folder, _data(choice), _minutes(choice))


def _status(choice: argparse.Namespace) -> int:
    from bench.execute import status
    from bench.saved import read_suite

    print(status(read_suite(choice.folder), choice.folder))
    return 0


def _report(choice: argparse.Namespace) -> int:
    from bench.report import write_report

    if len(choice.folders) > 1 and choice.out is None:
        raise BenchError("a report of several folders needs --out DIR, a folder of its own")
    write_report(choice.folders, choice.out or choice.folders[0])
    return 0


def _pack(choice: argparse.Namespace) -> int:
    from bench.pack import pack

    print(f"{pack(choice.folder)} trials are in {choice.folder / 'packed.safetensors'}")
    return 0


def _compare(choice: argparse.Namespace) -> int:
    from bench.compare import compare
    from bench.leaderboard import read
    from bench.merge import merge

    merge([choice.before, choice.after])  # or why they cannot be compared
    lines, moved = compare(read([choice.before])[0], read([choice.after])[0])
    print("\n".join(lines))
    return 1 if moved else 0


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
    }
    lines = {
        title: {name: (entry.__doc__ or "").split(".\n")[0] for name, entry in table.items()}
        for title, table in tables.items()
    }
    lines["models"] = {name: _described(model) for name, model in MODELS.items()}
    for title, entries in (lines | {"suites": suite.names()}).items():
        print(title)
        for name, text in entries.items():
            print(f"  {name:<16}{' '.join(text.split()).rstrip('.')}")
    return 0


def _described(model: "Model") -> str:
    """What the client of a model sends and holds, for 32x32 images."""
    from math import prod

    import torch

    with torch.device("meta"):  # shapes alone
        split = model((3, 32, 32), 10)
        shape = split.feature_shape((3, 32, 32))
    parameters = sum(p.numel() for p in split.encoder.parameters())
    sent = "x".join(map(str, shape))
    return f"sends {sent} = {prod(shape)} numbers, {parameters:,} client parameters"


def _fetch(choice: argparse.Namespace) -> int:
    from datasets import DATASETS, DatasetError

    if choice.dataset not in DATASETS:
        raise BenchError(unknown("dataset", choice.dataset, DATASETS))
    dataset = DATASETS[choice.dataset]()
    folder = _data(choice)
    if not dataset.needs_data:
        print(f"{choice.dataset} needs no download")
    elif folder is None:
        raise BenchError("where to? give --data DIR or SMASHBENCH_DATA")
    else:
        try:
            dataset.load(folder)
        except DatasetError:
            dataset.fetch(folder)
            dataset.load(folder)
        print(f"{choice.dataset} is in {folder}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be stopped is to be interrupted
    code = main()
    if "torch" not in sys.modules:  # parts of it complain
        gc.freeze()  # the interpreter ends sooner if it does not look through all that was read
    sys.exit(code)
