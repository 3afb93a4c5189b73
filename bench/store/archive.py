"""Many files in one: a zip archive that lists itself.

The archive's entry ``manifest.json`` has the SHA-256 of every other entry, so that a damaged
directory is noticed, too: a name that changed is one that should be there and is not.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from smashbench.bench.store.files import ALTERED, DamagedError, unread

MANIFEST = "manifest.json"


class Archive:
    """Files by name in one archive.

    Raises:
        DamagedError: it is truncated or altered.
        BenchError: it is out of reach.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._archive = ZipFile(path)
            manifest = json.loads(self._archive.read(MANIFEST))
            whole = isinstance(manifest, dict) and sorted(self._archive.namelist()) == sorted(
                [MANIFEST, *manifest]
            )
        except OSError as error:
            raise unread(path, error) from None
        except Exception:  # whatever a flipped bit makes of an archive
            whole = False
        if not whole:
            raise DamagedError(path, ALTERED)
        self._hashes: dict[str, str] = manifest

    @property
    def names(self) -> set[str]:
        """Of all files."""
        return set(self._hashes)

    def __contains__(self, name: str) -> bool:
        return name in self._hashes

    def holds(self, name: str, content: bytes) -> bool:
        """Whether a file of this name has this content, as far as the archive's list says."""
        return self._hashes.get(name) == hashlib.sha256(content).hexdigest()

    def verify(self) -> None:
        """Reads every file.

        Raises:
            DamagedError: one was altered.
        """
        for name in self._hashes:
            self.get(name)

    def get(self, name: str) -> bytes | None:
        """The content of a file; None where there is none of this name.

        Raises:
            DamagedError: it was altered.
        """
        if name not in self._hashes:
            return None
        try:
            content = self._archive.read(name)
        except OSError as error:
            raise unread(self._path, error) from None
        except Exception:  # as above
            raise DamagedError(self._path, ALTERED) from None
        if hashlib.sha256(content).hexdigest() != self._hashes[name]:
            raise DamagedError(self._path, ALTERED)
        return content


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """The archive of these files: the same files, the same bytes."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_DEFLATED) as archive:
        for name, content in {MANIFEST: json.dumps(hashes).encode(), **files}.items():
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)  # dated 1980, always
    return stream.getvalue()
