"""``smashbench submit-check``: opens a submission, of whichever kind, and checks it."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from smashbench.bench.auditing.saved import foreign, is_audit
from smashbench.bench.errors import BenchError
from smashbench.bench.store.archive import Archive
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.packs import PACK, packs_in, parts_in
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.submitting.audits import check_audit
from smashbench.bench.submitting.finding import Finding
from smashbench.bench.submitting.suites import check_suite


def check(path: Path, board: Path | None = None, data: Path | None = None) -> list[Finding]:
    """What there is to say of a submission; it can stand where nothing is a ``PROBLEM``.

    Nothing in it is run: a plug-in that it needs has to be loaded before.

    Args:
        path: a file that ``smashbench pack`` wrote, or the folder of a run or an audit.
        board: the results folder beside whose rows it is to stand.
        data: the data folder, for scoring reconstructions again.

    Raises:
        BenchError: there is no such file or folder, or ``board`` is no results folder.
    """
    if board:
        read_suite(board)
    findings: list[Finding] = []
    with _opened(path) as folder:
        try:
            for pack in packs_in(folder):
                Archive(folder / pack).verify()
            findings.extend(_found(folder, board, data))
        except DamagedError as error:
            text = f"{error.path}: {error.reason}; have it packed and sent again"
            findings.append(Finding("PROBLEM", text))
        except BenchError as error:
            findings.append(Finding("PROBLEM", str(error)))
        except Exception as error:  # whatever somebody else's file brings about
            text = f"nothing else could be checked: {type(error).__name__}: {error}"
            findings.append(Finding("PROBLEM", text))
        names = {}
        if path.is_file():
            parts = {folder / part: path.parent / part for part in parts_in(folder)}
            names = {**parts, folder / PACK: path, folder: path}
    return [each._replace(text=_shown(each.text, names)) for each in findings]


def _found(folder: Path, board: Path | None, data: Path | None) -> Iterator[Finding]:
    """What there is to say of the run, or of the audit, in a folder that may not hold both: a
    report would read the run, whatever was said of the audit."""
    if not is_audit(folder):
        yield from check_suite(folder, board, data)
    elif more := foreign(folder):
        yield Finding(
            "PROBLEM",
            f"it is an audit and holds more than that ({more}), of which nothing was checked: "
            "put run and audit into folders of their own, and pack and send each by itself",
        )
    else:
        if board:
            yield Finding(
                "PROBLEM",
                f"an audit is about its own images and cannot stand on the board {board}: check "
                "it without --board",
            )
        yield from check_audit(folder)


def _shown(text: str, names: Mapping[Path, Path]) -> str:
    """A sentence on one line, without control characters: it may repeat words of whoever sent the
    file. Temporary places have the names of what was given."""
    for place, name in names.items():
        text = text.replace(str(place), str(name))
    return "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """The folder of a submission; of a packed one, a folder that has nothing else."""
    if path.is_dir():
        yield path
    elif path.is_file():
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / path.stem
            folder.mkdir()
            shutil.copyfile(path, folder / PACK)
            for part in parts_in(path.parent) if path.name == PACK else ():
                shutil.copyfile(path.parent / part, folder / part)
            yield folder
    else:
        raise BenchError(
            f"{path}: no such file or folder; give a {PACK}, which `smashbench pack DIR` "
            "writes, or the folder of a run"
        )
