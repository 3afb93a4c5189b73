"""The command line: ``smashbench``."""

import argparse
import os
import shlex
import signal
import sys
from pathlib import Path

from smashbench.bench import commands as do
from smashbench.bench.errors import BenchError


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0, 1 when trials failed or rows moved, 2 for
    bad input."""
    parser = _parser()
    choice = parser.parse_args(arguments)
    try:
        code: int = choice.command(choice)
    except Exception as error:
        datasets = sys.modules.get("smashbench.datasets")  # imports PyTorch: not always needed
        if not isinstance(error, BenchError | (datasets.DatasetError if datasets else BenchError)):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        again = shlex.join(sys.argv[1:] if arguments is None else arguments)
        print(f"\ninterrupted; to continue: smashbench {again}", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="smashbench",
        description="Privacy attacks and defenses for split inference, benchmarked.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a suite, or continue it, and report")
    run.set_defaults(command=do.run)
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
    rerun.set_defaults(command=do.rerun)
    rerun.add_argument("folder", type=Path, metavar="DIR")
    rerun.add_argument("--failed", action="store_true", help="only the trials that failed")
    rescore = commands.add_parser("rescore", help="measure again with changed or added metrics")
    rescore.set_defaults(command=do.rescore)
    rescore.add_argument("folder", type=Path, metavar="DIR")
    trial = commands.add_parser("trial", help="run single trials, for a scheduler of your own")
    trial.set_defaults(command=do.trial)
    trial.add_argument("keys", nargs="+", metavar="KEY", help="as `run --dry-run` lists them")
    trial.add_argument("--out", type=Path, metavar="DIR", required=True, help="results folder")
    trial.add_argument("--suite", help="where the keys are from; default: the folder's suite")
    status = commands.add_parser("status", help="what is done, failed and missing, and why")
    status.set_defaults(command=do.status)
    status.add_argument("folder", type=Path, metavar="DIR")
    report = commands.add_parser("report", help="write tables and figures of a results folder")
    report.set_defaults(command=do.report)
    report.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="several: one board")
    report.add_argument("--out", type=Path, metavar="DIR", help="default: the folder itself")
    pack = commands.add_parser("pack", help="records and scores into one file: to share, for speed")
    pack.set_defaults(command=do.pack)
    pack.add_argument("folder", type=Path, metavar="DIR")
    pack.add_argument(
        "--reconstructions", action="store_true", help="pack these, too: large, for new metrics"
    )
    compare = commands.add_parser("compare", help="rows that moved beyond their intervals")
    compare.set_defaults(command=do.compare)
    compare.add_argument("before", type=Path, metavar="DIR_A")
    compare.add_argument("after", type=Path, metavar="DIR_B")
    listing = commands.add_parser("list", help="defenses, attacks, datasets, models and suites")
    listing.set_defaults(command=do.list_all)
    check = commands.add_parser("check", help="test the components of plug-ins, and explain")
    check.set_defaults(command=do.check)
    check.add_argument("files", type=Path, nargs="+", metavar="FILE", help="e.g. my_defense.py")
    fetch = commands.add_parser("fetch", help="download a data set")
    fetch.set_defaults(command=do.fetch)
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
        command.add_argument(
            "--keep-outdated",
            action="store_true",
            help="keep records that were made by code that has changed since; the report says so",
        )
    rescore.set_defaults(keep_outdated=True)  # it makes nothing anew
    for command in (run, rerun, rescore, trial, status, report, compare, listing, fetch):
        command.add_argument(
            "--plugin",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            dest="plugins",
            help="a Python file with components of one's own; docs/extending.md",
        )
    for command in (run, rerun, rescore):
        command.add_argument(
            "--engine", default="local", metavar="NAME", help="local, slurm or ray; default: local"
        )
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
    for command in (run, rerun, rescore, trial):
        command.add_argument(
            "--time-limit", type=float, default=240, metavar="MINUTES", help="of a trial; 240"
        )
    for command in (run, rerun, rescore, trial, check, fetch):
        command.add_argument(
            "--data", type=Path, metavar="DIR", help="data folder; default: SMASHBENCH_DATA"
        )
    return parser


def entry() -> int:
    """The process ``smashbench``."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be stopped is to be interrupted
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
