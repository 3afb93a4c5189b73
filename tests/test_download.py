"""Downloads, from a server on this machine: continued, verified, never half-written."""

import hashlib
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.fetching import fetch
from smashbench.datasets import DATASETS, DatasetError
from smashbench.datasets import download as downloads
from smashbench.datasets.cifar10 import Cifar10
from smashbench.datasets.download import download, unpack

CONTENT = bytes(range(256)) * 20_000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(BaseHTTPRequestHandler):
    """Sends CONTENT, or what is below ``folder``; ``ranges``: from where it is asked for;
    ``stop``: the connection ends after so many bytes."""

    ranges, stop, asked, folder = True, None, [], None

    def do_GET(self):
        Server.asked.append(self.headers.get("Range"))
        content = (Server.folder / self.path[1:]).read_bytes() if Server.folder else CONTENT
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(wanted[1]) if wanted and Server.ranges else 0
        if wanted and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if wanted and Server.ranges else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : Server.stop])

    def log_message(self, *_):
        pass


@pytest.fixture
def url(monkeypatch):
    for name, value in {"ranges": True, "stop": None, "asked": [], "folder": None}.items():
        monkeypatch.setattr(Server, name, value)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_download_appears_whole_and_once(url, tmp_path):
    path = tmp_path / "new" / "file"
    download(f"{url}/x", path, MD5)
    assert path.read_bytes() == CONTENT
    download(f"{url}/x", path, MD5)
    assert Server.asked == [None]
    assert [p.name for p in path.parent.iterdir() if p.suffix != ".lock"] == ["file"]


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_continues(url, tmp_path, ranges):
    Server.stop, Server.ranges = 3_000_000, ranges
    path = tmp_path / "file"
    with pytest.raises(DatasetError, match="the same command continues"):
        download(f"{url}/x", path, MD5)
    assert not path.exists()
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:3_000_000]
    Server.stop = None
    download(f"{url}/x", path, MD5)
    assert path.read_bytes() == CONTENT
    assert Server.asked == [None, "bytes=3000000-"]


def test_a_part_that_is_complete_is_taken(url, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    download(f"{url}/x", tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_another_file_is_refused_and_deleted(url, tmp_path):
    with pytest.raises(DatasetError, match="another file than expected"):
        download(f"{url}/x", tmp_path / "file", "0" * 32)
    assert not [p for p in tmp_path.iterdir() if p.suffix != ".lock"]


def test_no_server_is_one_message(tmp_path):
    with pytest.raises(DatasetError, match="could not be downloaded") as caught:
        download("http://127.0.0.1:9/x", tmp_path / "file", MD5)
    assert "continues" not in str(caught.value)  # nothing has come


def test_two_downloads_at_once_share_the_work(url, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(lambda _: download(f"{url}/x", tmp_path / "file", MD5), range(2)):
            pass
    assert Server.asked == [None]
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["gztar", "zip"])
def test_an_archive_is_unpacked_whole(tmp_path, kind):
    (tmp_path / "source" / "name").mkdir(parents=True)
    (tmp_path / "source" / "name" / "file").write_text("x")
    archive = shutil.make_archive(str(tmp_path / "a"), kind, tmp_path / "source")
    (tmp_path / ".name.part").mkdir()  # of an interrupted unpacking
    (tmp_path / "name").mkdir()  # damaged, or it would not be fetched again
    (tmp_path / "name" / "file").write_text("y")
    folder = unpack(tmp_path / archive, "name")
    assert (folder / "file").read_text() == "x"
    assert (tmp_path / "name.old" / "file").read_text() == "y"
    assert not (tmp_path / ".name.part").exists()
    with pytest.raises(DatasetError, match="could not be unpacked"):
        unpack(tmp_path / archive, "other")
    assert not (tmp_path / "other").exists()


def test_fetched_cifar10_is_loaded_and_repaired(url, sets, tmp_path, monkeypatch, here):
    import torchvision.datasets

    archive = shutil.make_archive(str(tmp_path / "served"), "gztar", sets / "CIFAR10")
    source = torchvision.datasets.CIFAR10
    monkeypatch.setattr(Server, "folder", tmp_path)
    monkeypatch.setattr(source, "url", f"{url}/served.tar.gz")
    monkeypatch.setattr(source, "tgz_md5", downloads.md5_of(tmp_path / archive))
    data = tmp_path / "data"
    assert here("fetch", "cifar10", "--data", data).returncode == 0
    assert Cifar10().load(data).hash == Cifar10().load(sets).hash
    batch = data / "CIFAR10" / source.base_folder / "data_batch_2"
    batch.write_bytes(b"")
    assert here("fetch", "cifar10", "--data", data).stdout == f"cifar10 is in {data}\n"
    assert Cifar10().load(data).hash == Cifar10().load(sets).hash
    Server.asked.clear()
    assert here("fetch", "cifar10", "--data", data).returncode == 0
    assert not Server.asked


def test_a_python_that_cannot_unpack_safely_downloads_nothing(tmp_path, monkeypatch):
    """As 3.11.2 of Debian 12; what is there already is there."""
    monkeypatch.setattr(shutil, "unpack_archive", lambda archive, folder: None)
    with pytest.raises(BenchError, match=r"unpacked safely from Python 3\.11\.4 on, and this is"):
        fetch(Cifar10(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_of_two_that_fetch_at_once_one_does(url, sets, tmp_path, monkeypatch):
    import torchvision.datasets

    archive = shutil.make_archive(str(tmp_path / "served"), "gztar", sets / "CIFAR10")
    source = torchvision.datasets.CIFAR10
    monkeypatch.setattr(Server, "folder", tmp_path)
    monkeypatch.setattr(source, "url", f"{url}/served.tar.gz")
    monkeypatch.setattr(source, "tgz_md5", downloads.md5_of(tmp_path / archive))
    unpacked = []
    monkeypatch.setattr(
        "smashbench.datasets.cifar10.unpack", lambda *these: unpacked.append(unpack(*these))
    )
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(lambda _: fetch(Cifar10(), tmp_path / "data"), range(2)):
            pass
    assert len(unpacked) == 1
    assert Cifar10().load(tmp_path / "data").hash == Cifar10().load(sets).hash


def test_fetched_fashion_mnist_is_loaded(url, sets, tmp_path, monkeypatch):
    import torchvision.datasets

    monkeypatch.setattr(Server, "folder", sets / "FashionMNIST" / "raw")
    monkeypatch.setattr(torchvision.datasets.FashionMNIST, "mirrors", [f"{url}/"])
    fashion = DATASETS["fashion_mnist"]()
    fashion.fetch(tmp_path)
    assert fashion.load(tmp_path).hash == fashion.load(sets).hash


def test_fetched_tiny_imagenet_is_loaded(url, sets, tmp_path, monkeypatch):
    from smashbench.datasets import tiny_imagenet

    archive = shutil.make_archive(
        str(tmp_path / "served"), "zip", sets, base_dir="tiny-imagenet-200"
    )
    monkeypatch.setattr(Server, "folder", tmp_path)
    monkeypatch.setattr(tiny_imagenet, "URL", f"{url}/served.zip")
    monkeypatch.setattr(tiny_imagenet, "MD5", downloads.md5_of(tmp_path / archive))
    tiny = DATASETS["tiny_imagenet"]()
    tiny.fetch(tmp_path / "data")
    assert tiny.load(tmp_path / "data").hash == tiny.load(sets).hash


def test_faces_cannot_be_fetched_and_that_says_what_to_do(tmp_path):
    for name, folder in (("facescrub", "facescrub"), ("image_folder", "images")):
        with pytest.raises(DatasetError, match=f"put images in {tmp_path / folder}"):
            DATASETS[name]().fetch(tmp_path)
