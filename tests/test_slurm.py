"""The SLURM engine on a real SLURM: controller and one node of two cores, on this machine."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.commands import bench, started
from tests.survivors import PART, records, same_as_uninterrupted, until

pytestmark = pytest.mark.slow
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
CONFIG = """
ClusterName=smashbench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=2000
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=5000 State=UNKNOWN
PartitionName=short Nodes=ALL Default=YES MaxTime=60 State=UP
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Starts a cluster; the value is the environment of its commands."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=_path())]
    if missing:
        pytest.skip(f"SLURM is not installed ({', '.join(missing)}): apt install slurm-wlm munge")
    if os.geteuid() != 0:
        pytest.skip("starting SLURM's daemons needs root")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    config = folder / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    config.write_text(CONFIG.format(host=host, folder=folder, ports=free_ports()))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    folder.chmod(0o755)
    environment = {"SLURM_CONF": str(config), "PATH": _path()}
    munge = ["munged", "--foreground", "--force", f"--key-file={key}"]
    munge += [f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid"]
    munge += [f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log"]
    with ExitStack() as daemons:  # they end, the last first, also where one does not start
        for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D"]):
            daemon = subprocess.Popen(
                command,
                env=os.environ | environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            daemons.callback(daemon.wait)
            daemons.callback(daemon.terminate)
            until(lambda: (folder / "munge.socket").exists(), 20)
        until(lambda: "idle" in ask(environment, "sinfo", "--noheader", "--format=%T"), 60)
        yield environment
        ask(environment, "scancel", "--user=root")


def free_ports() -> list[int]:
    """Two that nobody listens on."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("", 0))
        return [each.getsockname()[1] for each in (one, other)]


def _path() -> str:
    return os.environ["PATH"] + ":/usr/sbin:/sbin"


def ask(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return done.stdout


def running(environment: dict[str, str]) -> list[str]:
    return ask(environment, "squeue", "--noheader", "--states=running", "--format=%A").split()


def test_a_cluster_that_loses_a_job(slurm, run, tmp_path):
    here = ("--engine", "slurm", "--time-limit", 10)
    process = started("run", "smoke", "--out", tmp_path, *here, *PART, **slurm)
    until(lambda: process.poll() is not None or running(slurm))
    ask(slurm, "scancel", *running(slurm))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1, err
    failed = {k: r["error"] for k, r in records(tmp_path).items() if r["status"] == "failed"}
    causes = {error.splitlines()[-1] for error in failed.values()}
    cancelled = [cause for cause in causes if cause.startswith("its SLURM job")]
    assert cancelled
    assert all(cause.endswith("ended: CANCELLED") and cause in out for cause in cancelled)
    again = bench("rerun", tmp_path, *here, **slurm)
    assert again.returncode == 0, again.stderr
    same_as_uninterrupted(tmp_path, run)


def test_an_interruption_cancels_the_jobs(slurm, tmp_path):
    here = ("--engine", "slurm", "--time-limit", 10)
    process = started("run", "smoke", "--out", tmp_path, *here, **slurm)
    until(lambda: process.poll() is not None or running(slurm))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    active = ("squeue", "--noheader", "--states=running,pending", "--format=%A")
    until(lambda: not ask(slurm, *active), 60)


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("mem=100G", "Requested node configuration is not available"),
        ("cpus-per-task=64", "Requested node configuration is not available"),
        ("gres=gpu:1", "gres"),
        ("partition=gpu", "invalid partition specified: gpu"),
        ("time=600", "longer than the partition allows (short 1:00:00); see --time-limit"),
        ("tyme=6", "unrecognized option '--tyme=6'"),
    ],
)
def test_an_impossible_request_is_an_error_at_once(slurm, tmp_path, resource, words):
    here = ("--engine", "slurm", "--time-limit", 10, "--resource", resource)
    done = bench("run", "smoke", "--out", tmp_path, *here, **slurm)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "logs" / "slurm").exists()


def test_without_slurm_the_error_says_so(tmp_path, refused, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(tmp_path)))
    asked = ["run", "smoke", "--out", tmp_path / "out", "--engine", "slurm"]
    refused(asked, "there is no sbatch on this machine")
