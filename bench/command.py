"""The command line: ``smashbench``."""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from smashbench.bench import commands as do
from smashbench.bench.errors import BenchError
from smashbench.bench.output import patient


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0; 1 when trials failed or could not be scored again,
    rows moved, a promise is broken, a submission has problems or an audit found too much; 2 for bad
    input; 130 when it was interrupted."""
    choice = parser().parse_args(arguments)
    os.environ["PYTHONSAFEPATH"] = "1"  # processes import nothing from where the command was typed
    try:
        return choice.command(choice)
    except OSError as error:  # whatever a path meets that nobody thought of
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    except Exception as error:
        datasets = sys.modules.get("smashbench.datasets")  # imports PyTorch: not always needed
        if not isinstance(error, BenchError | (datasets.DatasetError if datasets else BenchError)):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        again = shlex.join(sys.argv[1:] if arguments is None else arguments)
        words = "to continue" if again.partition(" ")[0] in CONTINUED else "to begin again"
        print(f"\ninterrupted; {words}: smashbench {again}", file=sys.stderr)
        return 130


CONTINUED = ("run", "rerun", "rescore", "trial", "fetch")
"""The commands that go on where they were interrupted."""
EXAMPLES = {
    "run": """
  smashbench run quick
  smashbench run zoo --data ~/data
  smashbench run quick --only defense=noise --only seed=0 --dry-run
  smashbench run quick --set 'seeds=[0,1,2]' --set training.epochs=20 --out results/longer""",
    "rerun": """
  smashbench rerun results/quick
  smashbench rerun results/quick --failed""",
    "rescore": """
  smashbench rescore results/quick --plugin my_metric.py""",
    "trial": """
  smashbench trial 0123456789abcdef --out results/quick --suite quick""",
    "status": """
  smashbench status results/zoo""",
    "report": """
  smashbench report results/zoo --out again
  smashbench report results/quick theirs --out both --replace""",
    "figure": """
  smashbench figure results/zoo --out figures
  smashbench figure results/zoo tradeoff_fvu attacks --out ~/paper/figures""",
    "pack": """
  smashbench pack results/quick
  smashbench pack audit""",
    "submit-check": """
  smashbench submit-check results/mine/packed.zip
  smashbench submit-check mine/packed.zip --board results/zoo --plugin my_defense.py""",
    "compare": """
  smashbench compare results/quick longer""",
    "audit": """
  smashbench audit --features z.npy --images x.npy
  smashbench audit --model mine.py:encoder --images DIR --fail-below fvu=.5""",
    "list": """
  smashbench list
  smashbench list --plugin my_defense.py""",
    "check": """
  smashbench check my_defense.py""",
    "fetch": """
  smashbench fetch cifar10 --data ~/data""",
}
"""What people type, by command; a test parses each."""


def parser() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(
        prog="smashbench",
        description="Privacy attacks and defenses for split inference, benchmarked.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, does: Callable[[argparse.Namespace], int], about: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=about,
            epilog=f"examples:{EXAMPLES[name]}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(command=does)
        return command

    run = add("run", do.run, "run a suite, or continue it, and report")
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
    rerun = add("rerun", do.rerun, "continue whatever suite a folder holds")
    rerun.add_argument("folder", type=Path, metavar="DIR")
    failed = "only what failed or was left out for memory"
    rerun.add_argument("--failed", action="store_true", help=failed)
    rescore = add("rescore", do.rescore, "measure again with changed or added metrics")
    rescore.add_argument("folder", type=Path, metavar="DIR")
    trial = add("trial", do.trial, "run single trials, for a scheduler of your own")
    trial.add_argument("keys", nargs="+", metavar="KEY", help="as `run --dry-run` lists them")
    trial.add_argument("--out", type=Path, metavar="DIR", required=True, help="results folder")
    trial.add_argument("--suite", help="where the keys are from; default: the folder's suite")
    status = add("status", do.status, "what is done, failed and missing, and why")
    status.add_argument("folder", type=Path, metavar="DIR")
    report = add("report", do.report, "write tables and figures of a results folder")
    report.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="several: one board")
    report.add_argument("--out", type=Path, metavar="DIR", help="default: the folder itself")
    report.add_argument(
        "--replace",
        action="store_true",
        help="a defense that a later folder has, too, has its rows alone",
    )
    figure = add("figure", do.figure, "draw figures for a paper, in a column's width")
    figure.add_argument("folder", type=Path, metavar="DIR")
    figure.add_argument("names", nargs="*", metavar="NAME", help="e.g. tradeoff_fvu; default: all")
    figure.add_argument(
        "--style",
        choices=("paper", "web", "screen"),
        default="paper",
        help="PDF, SVG or PNG; default: paper",
    )
    figure.add_argument("--out", type=Path, metavar="DIR", help="default: DIR/STYLE")
    pack = add("pack", do.pack, "records and scores into one file: to share, for speed")
    pack.add_argument("folder", type=Path, metavar="DIR")
    pack.add_argument(
        "--reconstructions", action="store_true", help="pack these, too: large, for new metrics"
    )
    pack.add_argument(
        "--weights", action="store_true", help="the victims' into weights.zip, for other attacks"
    )
    submit = add("submit-check", do.submit_check, "may a packed run or audit stand on a board?")
    submit.add_argument("file", type=Path, metavar="FILE", help="of `pack`; or a results folder")
    submit.add_argument(
        "--board", type=Path, metavar="DIR", help="the results that it is to stand beside"
    )
    compare = add("compare", do.compare, "rows that moved beyond their intervals")
    compare.add_argument("before", type=Path, metavar="DIR_A")
    compare.add_argument("after", type=Path, metavar="DIR_B")
    audit = add("audit", do.audit, "attack an encoder of your own, or its features")
    _audit_options(audit)
    listing = add("list", do.list_all, "every component, and the suites")
    check = add("check", do.check, "test the components of plug-ins, and explain")
    check.add_argument("files", type=Path, nargs="+", metavar="FILE", help="e.g. my_defense.py")
    fetch = add("fetch", do.fetch, "download a data set")
    fetch.add_argument("dataset")
    for command in (run, trial):
        command.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            dest="settings",
            help="override a value of the suite, e.g. training.epochs=5 or 'seeds=[0]'",
        )
    for command in (run, rerun):
        command.add_argument(
            "--keep-outdated",
            action="store_true",
            help="keep records that were made by code that has changed since; the report says so",
        )
    rescore.set_defaults(keep_outdated=True)  # it makes nothing anew
    reading = (status, report, figure, compare, submit, listing, fetch)
    for command in (run, rerun, rescore, trial, *reading):
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
            "--workers",
            type=int,
            metavar="N",
            help="most trials at once; default: cores, four for each GPU, hundreds on a cluster",
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
    for command in (run, rerun, rescore, trial, check, submit, fetch):
        command.add_argument(
            "--data", type=Path, metavar="DIR", help="data folder; default: SMASHBENCH_DATA"
        )
    return parser


def _audit_options(audit: argparse.ArgumentParser) -> None:
    what = audit.add_argument_group("what is audited (files: npy, npz, safetensors; FILE:ARRAY)")
    what.add_argument("--images", required=True, metavar="FILE", help="or a folder of image files")
    what.add_argument("--features", metavar="FILE", help="what leaves the client, in their order")
    what.add_argument("--model", metavar="FILE.py:NAME", help="or the encoder itself")
    what.add_argument("--head", metavar="FILE.py:NAME", help="the server's part: logits")
    what.add_argument("--labels", metavar="FILE", help="classes, from 0; or the word folders")
    what.add_argument("--groups", metavar="FILE", help="e.g. persons; or the word folders")
    what.add_argument("--layout", choices=("NCHW", "NHWC"), help="of images in a file")
    what.add_argument("--size", type=int, metavar="PIXELS", help="of image files; default: 64")
    what.add_argument(
        "--repeated", action="store_true", help="the features' second axis counts releases"
    )
    what.add_argument(
        "--trust-order",
        action="store_true",
        help="skip the checks of order and of --repeated",
    )
    how = audit.add_argument_group("how")
    how.add_argument(
        "--tune-head", action="store_true", help="tune a copy of the head to each what-if defense"
    )
    how.add_argument("--test-share", type=float, default=0.3, metavar="SHARE", help="default: .3")
    how.add_argument(
        "--budget",
        type=float,
        default=5,
        metavar="MINUTES",
        dest="minutes",
        help="about; default: 5",
    )
    how.add_argument("--memory", type=float, default=4, metavar="GIB", help="default: 4")
    how.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    how.add_argument(
        "--out", type=Path, default=Path("audit"), metavar="DIR", help="default: audit"
    )
    how.add_argument(
        "--no-gallery", action="store_false", dest="gallery", help="show no images on the page"
    )
    for option, what_for in (("below", "fvu=.5"), ("above", "rank_1=.1")):
        how.add_argument(
            f"--fail-{option}",
            action="append",
            default=[],
            metavar="METRIC=VALUE",
            help=f"exit with 1 where the interval reaches {option} it, e.g. {what_for}",
        )


def entry() -> int:
    """The process ``smashbench``."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be stopped is to be interrupted
    with patient() as output:
        code = main()
    return code or (2 if output.full else 0)
