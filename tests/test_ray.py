"""The Ray engine on a real Ray cluster of two nodes, all on this machine."""

import os
import re
import signal
import time

import pytest

from tests.commands import bench, started
from tests.survivors import records, same_as_uninterrupted, until

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray>=2.40'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


def test_a_cluster_that_loses_a_worker_and_a_node(cluster, run, tmp_path):
    address = {"RAY_ADDRESS": cluster.address}
    process = started("run", "smoke", "--out", tmp_path, "--engine", "ray", **address)
    until(lambda: process.poll() is not None or any(tmp_path.glob("logs/*")))
    log = next(tmp_path.glob("logs/*"))
    until(lambda: "process " in log.read_text())
    os.kill(int(re.search(r"process (\d+)", log.read_text())[1]), signal.SIGKILL)
    until(lambda: len(records(tmp_path)) > 5)
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    _, err = process.communicate(timeout=900)
    assert process.returncode == 1, err
    failed = {k: r["error"] for k, r in records(tmp_path).items() if r["status"] == "failed"}
    assert log.stem in failed
    assert "died" in failed[log.stem]
    assert len(records(tmp_path)) == 42  # the node that was left did the rest
    again = bench("rerun", tmp_path, "--failed", "--engine", "ray", **address)
    assert again.returncode == 0, again.stderr
    same_as_uninterrupted(tmp_path, run)
    assert (tmp_path / "leaderboard.csv").read_bytes() == (run / "leaderboard.csv").read_bytes()


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("num_gpus=2", "no node of the cluster can run a trial with num_cpus=1, num_gpus=2"),
        ("num_cpus=64", "no node of the cluster can run a trial with num_cpus=64"),
        ("num_gpu=1", "unknown resource 'num_gpu'; did you mean 'num_gpus'?"),
        ("memory=much", "memory=much: should be a number"),
    ],
)
def test_an_impossible_request_is_an_error_at_once(cluster, tmp_path, resource, words):
    begin = time.monotonic()
    address = {"RAY_ADDRESS": cluster.address}
    asked = ("--engine", "ray", "--resource", resource)
    done = bench("run", "smoke", "--out", tmp_path, *asked, **address)
    assert done.returncode == 2
    assert words in done.stderr
    assert not records(tmp_path)
    assert time.monotonic() - begin < 60
