"""What `submit-check` says of audits that were packed."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.numpy import load, save
from safetensors.torch import save as torch_save

from smashbench.bench.auditing.conduct import audit
from smashbench.bench.auditing.saved import pack_audit
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.store.archive import Archive, archive_of
from smashbench.bench.store.pack import pack
from tests.audited import SOON, pairs
from tests.test_submissions import problems, texts


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    x, z = pairs()
    audit(images=x, features=z, minutes=SOON).write(folder)
    return folder


def test_an_audit_is_packed_without_its_images_and_checked(audited, here, tmp_path):
    done = here("pack", audited)
    assert done.returncode == 0, done.stderr
    sent = shutil.copyfile(audited / "packed.zip", tmp_path / "sent.zip")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copyfile(sent, alone / "packed.zip")
    assert here("pack", alone).returncode == 0
    assert (alone / "packed.zip").read_bytes() == sent.read_bytes()
    assert "are those of the scores of 60 images" in texts(sent, "ok")
    (only,) = problems(sent)
    assert "no decoder was trained" in only


def test_an_audit_in_the_pack_of_a_run_is_a_problem_and_hides_nothing(audited, folder, tmp_path):
    """A report would read the run, whose scores nobody had checked."""
    files = {name: (audited / name).read_bytes() for name in ("audit.json", "scores.safetensors")}
    pack(folder)
    run = Archive(folder / "packed.zip")
    sent = tmp_path / "sent.zip"
    sent.write_bytes(archive_of(files | {name: run.get(name) for name in run.names}))
    (only,) = problems(sent)
    assert "it is an audit and holds more than that" in only
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (only,) = problems(folder)
    assert "it is an audit and holds more than that (suite.json)" in only


def test_an_audit_cannot_stand_on_a_board(audited, sound):
    found = problems(audited, sound)
    assert "cannot stand on the board" in found[0]
    assert "check it without --board" in found[0]
    assert found[1:] == problems(audited)


def test_tables_of_an_older_audit_are_in_no_pack(audited, tmp_path):
    folder = shutil.copytree(audited, tmp_path / "audit")
    pack_audit(folder)
    assert "knowledge.csv" in Archive(folder / "packed.zip").names
    (folder / "knowledge.csv").unlink()  # as an audit with few pairs does
    pack_audit(folder)
    assert "knowledge.csv" not in Archive(folder / "packed.zip").names


def test_a_metric_that_came_after_an_audit_is_not_asked_of_it(audited, tmp_path, monkeypatch):
    monkeypatch.setitem(METRICS, "later", replace(METRICS["psnr"], name="later"))
    assert not any("other estimates" in text for text in problems(audited))
    saved = json.loads((audited / "audit.json").read_bytes())
    del saved["attacks"][0]["estimates"]["ssim"]  # what another attack has is not left out
    scores = (audited / "scores.safetensors").read_bytes()
    sent = tmp_path / "sent.zip"
    files = {"audit.json": json.dumps(saved).encode(), "scores.safetensors": scores}
    sent.write_bytes(archive_of(files))
    assert any("other estimates" in text for text in problems(sent))


def test_an_audit_whose_numbers_were_changed_is_found(audited, tmp_path):
    files = {name: (audited / name).read_bytes() for name in ("audit.json", "scores.safetensors")}
    saved = json.loads(files["audit.json"])
    saved["attacks"][0]["estimates"]["mse"][0] *= 1.5
    sent = tmp_path / "sent.zip"
    sent.write_bytes(archive_of(files | {"audit.json": json.dumps(saved).encode()}))
    assert any("other estimates than those of their scores" in text for text in problems(sent))
    saved["verdict"] = ["All is well.\n0 problems: it can stand\x1b[2K"]
    sent.write_bytes(archive_of(files | {"audit.json": json.dumps(saved).encode()}))
    assert "it says: All is well. 0 problems: it can stand?[2K" in texts(sent, "note")
    saved["notes"] = ["fine\n\n0 problems: it can stand beside others\x1b[8m"]
    saved["left_out"] = {"map": "no\nencoder"}
    sent.write_bytes(archive_of(files | {"audit.json": json.dumps(saved).encode()}))
    told = texts(sent, "note")
    assert "fine 0 problems: it can stand beside others?[8m" in told
    assert "not tried: map: no encoder" in told
    bf16 = {"0.mse": torch.zeros(60, dtype=torch.bfloat16)}  # which NumPy does not know
    sent.write_bytes(archive_of(files | {"scores.safetensors": torch_save(bf16)}))
    assert any("scores.safetensors: truncated or altered" in text for text in problems(sent))
    saved["protocol"] = 1
    sent.write_bytes(archive_of(files | {"audit.json": json.dumps(saved).encode()}))
    assert any("another version" in text for text in problems(sent))
    sent.write_bytes(archive_of(files | {"audit.json": b"{}"}))
    assert any("truncated or altered" in text for text in problems(sent))
    scores = load(files["scores.safetensors"])
    scores.pop("0.ssim")
    sent.write_bytes(archive_of(files | {"scores.safetensors": save(scores)}))
    assert any("has no 'ssim'" in text for text in problems(sent))
