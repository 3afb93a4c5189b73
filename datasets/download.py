"""Downloads that continue where they stopped, and never leave half a file under its name."""

import hashlib
import os
import shutil
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm import tqdm

from datasets.base import DatasetError

CHUNK = 1 << 20
NOTHING_LEFT = 416
"""HTTP status where a part is complete already."""


def md5_of(path: Path) -> str:
    """The MD5 sum that publishers of data sets give; it finds accidents, not attacks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download(url: str, path: Path, md5: str) -> None:
    """Downloads ``url`` to ``path``, continuing an interrupted download; does nothing where the
    file is there.

    Raises:
        DatasetError: the connection fails (what has come is kept), or what came is another file.
    """
    if path.is_file() and md5_of(path) == md5:
        return
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        complete = _receive(url, part)
    except (OSError, HTTPException) as error:
        raise DatasetError(
            f"{url} could not be downloaded to {part} ({error}); the same command continues"
        ) from None
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
    all.

    Raises:
        DatasetError: the archive cannot be unpacked or holds no such folder.
    """
    folder = archive.parent / name
    if folder.is_dir():
        return folder
    part = archive.parent / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    try:
        shutil.unpack_archive(archive, part, filter=None if archive.suffix == ".zip" else "data")
        os.replace(part / name, folder)
    except (OSError, shutil.ReadError) as error:
        raise DatasetError(f"{archive} could not be unpacked ({error})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder
