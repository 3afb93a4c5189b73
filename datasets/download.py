"""Downloads that continue where they stopped, and never leave half a file under its name."""

import hashlib
import os
import shutil
from http.client import HTTPException
from pathlib import Path
from tarfile import TarError
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from zipfile import BadZipFile

from filelock import FileLock
from tqdm import tqdm

from smashbench.datasets.base import DatasetError

CHUNK = 1 << 20
NOTHING_LEFT = 416
"""HTTP status where a part is complete already."""


def md5_of(path: Path) -> str:
    """The MD5 sum that publishers of data sets give; it finds accidents, not attacks."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror})") from None
    with file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download(url: str, path: Path, md5: str) -> None:
    """Downloads ``url`` to ``path``, continuing an interrupted download; does nothing where the
    file is there.

    Raises:
        DatasetError: the connection fails (what has come is kept), or what came is another file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        with lock:  # of several at once, one downloads
            _download(url, path, md5)
    except OSError as error:
        raise DatasetError(f"{path} cannot be written ({error.strerror or error})") from None


def _download(url: str, path: Path, md5: str) -> None:
    if path.is_file() and md5_of(path) == md5:
        return
    part = path.with_name(f"{path.name}.part")
    try:
        complete = _receive(url, part)
    except (OSError, HTTPException, ValueError) as error:
        kept = "; what has come is kept, and the same command continues" if part.exists() else ""
        raise DatasetError(f"{url} could not be downloaded ({error}){kept}") from None
    if not complete:
        raise DatasetError(f"{url}: the connection ended early; the same command continues")
    if md5_of(part) != md5:
        part.unlink()
        raise DatasetError(
            f"{url} sent another file than expected (md5 differs), which was deleted; "
            "try again, or get it elsewhere"
        )
    os.replace(part, path)


def _receive(url: str, part: Path) -> bool:
    """Appends to ``part`` what is missing; False where the sender stopped before the end."""
    start = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urlopen(request, timeout=60)
    except HTTPError as error:
        if start and error.code == NOTHING_LEFT:
            return True
        raise
    with response:
        if response.status != 206:  # the server sends all of it
            start = 0
        total = start + int(response.headers.get("Content-Length") or 0)
        bar = tqdm(total=total, initial=start, unit="B", unit_scale=True, desc=part.stem)
        with open(part, "ab" if start else "wb") as file, bar:
            while content := response.read(CHUNK):
                file.write(content)
                bar.update(len(content))
            return file.tell() >= total


def unpack(archive: Path, name: str) -> Path:
    """Unpacks the folder ``name`` of an archive beside it; the folder appears complete or not at
    all. One that is there already becomes ``NAME.old``.

    Raises:
        DatasetError: the archive cannot be unpacked or holds no such folder.
    """
    folder = archive.parent / name
    part = archive.parent / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    try:
        shutil.unpack_archive(archive, part, filter=None if archive.suffix == ".zip" else "data")
        if folder.exists() and (part / name).exists():
            shutil.rmtree(old := folder.with_name(f"{name}.old"), ignore_errors=True)
            os.replace(folder, old)
        os.replace(part / name, folder)
    except (OSError, EOFError, shutil.ReadError, BadZipFile, TarError) as error:
        raise DatasetError(f"{archive} could not be unpacked ({error})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder
