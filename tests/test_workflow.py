"""The workflow that checks submissions in a pull request does what docs/submit.md says."""

import subprocess
from pathlib import Path

import yaml

from smashbench.bench.command import parser

ROOT = Path(__file__).parent.parent
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "submission.yml").read_text())
STUB = '#!/bin/sh\necho "$@" >> typed\ncase "$2" in *poor*) exit 1 ;; esac\n'


def git(folder: Path, *words: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def test_every_pack_that_is_new_is_checked_and_merged_with_its_plugins(tmp_path):
    (script,) = [s["run"] for s in WORKFLOW["jobs"]["check"]["steps"] if s.get("name") == "check"]
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    stub = tmp_path / ".venv" / "bin" / "smashbench"
    stub.write_text(STUB)
    stub.chmod(0o755)
    old = tmp_path / "results" / "submissions" / "fashion_mnist" / "old"
    old.mkdir(parents=True)
    (old / "packed.zip").write_bytes(b"old")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "before")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    for name in ("poor", "good"):
        (old.parent / name).mkdir()
        (old.parent / name / "packed.zip").write_bytes(b"new")
    (old.parent / "good" / "packed.1.zip").write_bytes(b"new")  # of the same submission
    (old.parent / "good" / "my_defense.py").write_text("")
    audit = old.parent.parent / "audits" / "mine"
    audit.mkdir(parents=True)
    (audit / "packed.zip").write_bytes(b"audit")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "after")
    text = script.replace("${{ github.base_ref }}", "main")
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", text], cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 1  # since one is poor, and the other is checked all the same
    lines = (tmp_path / "typed").read_text().splitlines()
    checked = [line for line in lines if line.startswith("submit-check")]
    merged = [line for line in lines if line.startswith("report")]
    assert checked.pop(0) == "submit-check results/submissions/audits/mine/packed.zip"
    assert len(checked) == len(merged) == 2  # of an audit there is no table to merge with
    good, board = "results/submissions/fashion_mnist/good", "results/fashion_mnist"
    assert f"{good}/packed.zip --board {board} --plugin {good}/my_defense.py" in checked[0]
    assert f"report {board} {good} --replace --out board/fashion_mnist/good" in merged[0]
    assert not any("old" in line for line in lines)
    for line in lines:
        parser().parse_args(line.split())


def test_it_has_no_rights_but_to_read():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW[True].keys() == {"pull_request"}  # YAML reads the word on as true
