"""Where an audit is written, and what it is read from: nothing is lost, and paths are named."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smashbench.bench import audit
from smashbench.bench.auditing.pairs import images_of, pairs_of
from smashbench.bench.auditing.saved import pack_audit
from smashbench.bench.auditing.tensors import tensor_of
from smashbench.bench.command import main
from smashbench.bench.errors import BenchError
from smashbench.bench.store.archive import Archive, archive_of
from tests.audited import SOON, pairs
from tests.inside import cells_inside

SUITE = {"suite.json": b"{}", "records/0123456789abcdef.json": b"{}"}


@pytest.fixture(scope="module")
def report():
    x, z = pairs()
    with cells_inside():
        return audit(images=x, features=z, minutes=SOON)


def test_folders_that_are_links_are_followed_once(tmp_path):
    """A link to a folder of a class is that class; one that leads back is not followed."""
    for place in ("photographs/cat", "elsewhere"):
        (tmp_path / place).mkdir(parents=True)
        for n in range(3):
            Image.new("RGB", (16, 16), (40 * n + 40, len(place), 9)).save(
                tmp_path / place / f"{n}.png"
            )
    top = tmp_path / "photographs"
    (top / "dog").symlink_to(tmp_path / "elsewhere")
    (top / "cat" / "back").symlink_to(top)
    found = images_of(str(top), None, 16)
    assert found.folders.tolist() == [0, 0, 0, 1, 1, 1]
    given = pairs_of(found, None, "folders", "folders")
    assert given.labels.tolist() == given.groups.tolist() == [0, 0, 0, 1, 1, 1]
    ids = np.array([7, 7, -3, 9, 7, -3])  # any numbers
    assert pairs_of(found, None, None, ids).groups.tolist() == [1, 1, 0, 2, 1, 0]


def test_one_of_several_arrays_is_named(tmp_path):
    path = tmp_path / "z.npz"
    np.savez(path, a=np.ones(3), b=np.zeros(3))
    assert tensor_of(f"{path}:b", "features").tolist() == [0, 0, 0]
    with pytest.raises(BenchError, match=r"holds the arrays a, b: name one, e\.g\. .*:a"):
        tensor_of(str(path), "features")
    with pytest.raises(BenchError, match="unknown array 'c'; choose from a, b"):
        tensor_of(f"{path}:c", "features")


def suites(folder: Path, how: str) -> Path:
    """A folder with what a suite leaves: both files, its records alone, or packed."""
    if how == "packed":
        (folder / "packed.zip").write_bytes(archive_of(SUITE))
    elif how == "damaged":
        (folder / "packed.zip").write_bytes(archive_of(SUITE)[:-30])
    elif how.endswith(".csv"):  # as a report of several folders does
        (folder / how).write_text("defense")
    else:
        (folder / "records").mkdir()
        for name, content in SUITE.items():
            if how == "loose" or name.startswith(how):
                (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("loose", r"\(suite\.json\)"),
        ("leaderboard.csv", r"\(leaderboard\.csv\)"),
        ("records", r"\(records\)"),
        ("packed", r"\(packed\.zip with records/0123456789abcdef\.json, suite\.json\)"),
        ("damaged", r"\(packed\.zip, damaged\)"),
    ],
)
def test_an_audit_is_not_written_into_a_suites_folder(report, tmp_path, capsys, how, words):
    suites(tmp_path, how)
    before = sorted(tmp_path.rglob("*"))
    assert main(["audit", "--images", "none.npy", "--model", "m.py:f", "--out", str(tmp_path)]) == 2
    told = f"error: {tmp_path} holds something else than an audit"
    assert capsys.readouterr().err.startswith(told)
    with pytest.raises(BenchError, match=rf"{words}, .* would replace: give another --out DIR"):
        report.write(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_pack_with_the_records_of_a_suite_is_kept(report, tmp_path):
    """Where both are in one folder already."""
    report.write(tmp_path)
    suites(tmp_path, "packed")
    with pytest.raises(BenchError, match=r"more than an audit .* move audit\.json, scores\.safe"):
        pack_audit(tmp_path)
    assert Archive(tmp_path / "packed.zip").names == set(SUITE)


def test_an_audit_is_written_where_the_pack_of_another_is(report, tmp_path):
    report.write(tmp_path)
    pack_audit(tmp_path)
    report.write(tmp_path)
    pack_audit(tmp_path)
    assert "audit.json" in Archive(tmp_path / "packed.zip").names


def test_a_pack_of_an_audit_has_no_weights_and_no_reconstructions(report, tmp_path, capsys):
    report.write(tmp_path)
    for option in ("--weights", "--reconstructions"):
        assert main(["pack", str(tmp_path), option]) == 2
        assert (
            f"{option}: {tmp_path} is an audit, which has none: leave it out"
            in capsys.readouterr().err
        )
    assert not (tmp_path / "packed.zip").exists()


def test_what_cannot_be_looked_at_is_named(tmp_path, monkeypatch):
    """As of another user, where root could read it."""
    secret = tmp_path / "secret"
    secret.mkdir()
    stat = os.stat

    def refuse(path, *arguments, **options):
        if not isinstance(path, int) and str(path).startswith(f"{secret}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refuse)
    for what, read in (("features", tensor_of), ("images", lambda p, _: images_of(p, None, None))):
        with pytest.raises(BenchError, match=f"{what}: {secret}/x.npy cannot be read .Permission"):
            read(str(secret / "x.npy"), "features")


def test_a_folder_of_images_that_cannot_be_read_is_named_and_not_left_out(tmp_path, monkeypatch):
    for name in ("open", "shut"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((16, 16), 99, np.uint8)).save(tmp_path / name / "0.png")
    assert len(images_of(tmp_path, None, 16)) == 2
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(BenchError, match=f"images: {tmp_path}/shut cannot be read .Permission"):
        images_of(tmp_path, None, 16)


def test_an_empty_path_is_not_the_folder_that_one_is_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.full((16, 16), 99, np.uint8)).save("0.png")
    with pytest.raises(BenchError, match="images: the path is empty; give the file"):
        images_of("", None, None)
    assert len(images_of(".", None, 16)) == 1


@pytest.mark.parametrize("file", [False, True])
def test_images_in_bytes_that_were_never_scaled_up_are_refused(tmp_path, file):
    """Floats in [0, 1] that were cast to bytes are 0 and 1."""
    x = pairs()[0].round().byte()
    assert set(x.unique().tolist()) == {0, 1}
    if file:
        Image.fromarray(x[0].permute(1, 2, 0).numpy()).save(tmp_path / "0.png")
    with pytest.raises(BenchError, match=r"images span \[0, 1\] of 255: all are black; save those"):
        images_of(tmp_path if file else x, None, None)
    x[0, 0, 0, 0] = 3
    assert torch.equal(images_of(x, None, None).stored, x)
