"""Damaged files and options that would do nothing, in an audit: one error each."""

import zipfile

import numpy as np
import pytest
import torch

from smashbench.bench import audit
from smashbench.bench.auditing import prepare
from smashbench.bench.auditing.pairs import images_of
from smashbench.bench.auditing.tensors import tensor_of
from smashbench.bench.errors import BenchError
from tests.audited import SOON, encoder, pairs


@pytest.fixture(scope="module")
def world():
    return pairs()


def test_bytes_that_are_no_array_are_one_error(tmp_path):
    """NumPy reads the header of an array as Python, with its errors."""
    path, archive = tmp_path / "z.npy", tmp_path / "x.npz"
    np.save(path, np.zeros((50, 8)))
    content = path.read_bytes()
    refused = 0
    for at in range(10, 80):
        for bit in (1, 16):
            path.write_bytes(content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :])
            try:
                tensor_of(str(path), "features")
            except BenchError:
                refused += 1
    assert refused > 100
    np.savez(archive, x=np.zeros(3))
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("readme.txt", "text")
    with pytest.raises(BenchError, match=r"x.npz holds something that is no array"):
        tensor_of(f"{archive}:readme.txt", "images")


def test_options_that_are_about_something_else_are_refused(world, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(BenchError, match=r"--layout is of arrays, and .*folder is a folder"):
        audit(images=tmp_path / "folder", features=world[1], layout="NHWC", minutes=SOON)
    with pytest.raises(BenchError, match="--trust-order is of --features: leave it out"):
        audit(images=world[0], model=encoder(), trust_order=True, minutes=SOON)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros((9, 16, 16)), r"of grey images \(N, H, W\) make \(N, 1, H, W\)"),
        (np.zeros((9, 16)), r"should be \(N, C, H, W\) or \(N, H, W, C\)"),
        (np.zeros((9, 3, 16, 3)), "say which it is, --layout NCHW or --layout NHWC"),
        (np.zeros((9, 16, 16, 4)), "no axis has 1 or 3 channels"),
        (np.full((9, 3, 16, 16), 200.0), r"span \[200, 200\].*divide them by 255"),
        (np.full((9, 3, 16, 16), -1.0), "undo the normalisation"),
        (np.full((9, 3, 16, 16), 7), "images are int64: should be uint8"),
    ],
)
def test_arrays_that_are_no_images(x, words):
    with pytest.raises(BenchError, match=words):
        images_of(x, None, None)


def test_images_that_memory_leaves_of_one_group_cannot_be_scored(world, monkeypatch):
    """Every sixth image is taken, and none of these is the one of the other group."""
    monkeypatch.setattr(prepare, "room", lambda *_: (100, 20))
    dealt = torch.arange(40), torch.arange(60, 181)
    monkeypatch.setattr(prepare, "dealt", lambda *_: dealt)
    groups = (torch.arange(200) == 100).long()
    with pytest.raises(BenchError, match=r"the 20 images that fit to be scored are of one group"):
        audit(images=world[0], model=encoder(), groups=groups, minutes=SOON)
