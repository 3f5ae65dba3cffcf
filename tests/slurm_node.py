"""Run a command inside a one-node Slurm that lives for that command alone: slurm_node.py snakemake --profile ...

Needs root and Debian's slurmctld, slurmd, slurm-client and munge. There is no accounting database. Ends with the
command's status, or with 77 and the reason where Slurm cannot run here.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CANNOT_RUN = 77
#: Not SLURM_CONF: the executor removes SLURM_* from a job's environment, and Slurm's tools then look here.
CONFIG = Path("/etc/slurm/slurm.conf")
MARK = "# Written by slurm_node.py; removed when its command ends.\n"
MUNGE_FOLDERS = {"/run/munge": 0o755, "/var/lib/munge": 0o700, "/var/log/munge": 0o700}
SETTINGS = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MinJobAge=3600
SchedulerParameters=sched_interval=1,sched_min_interval=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE DefMemPerCPU=500 State=UP
"""


class CannotRunError(Exception):
    """Slurm cannot run on this machine; the text says why."""


def check_machine() -> None:
    """Refuse a machine that lacks Slurm, or that has its own."""
    missing = [name for name in ("slurmctld", "slurmd", "sbatch", "munged") if shutil.which(name) is None]
    if missing:
        raise CannotRunError(f"{', '.join(missing)} not installed")
    if os.geteuid() != 0:
        raise CannotRunError("slurmctld and slurmd need root")
    if CONFIG.exists() and not CONFIG.read_text(encoding="utf-8").startswith(MARK):
        raise CannotRunError(f"{CONFIG} belongs to another Slurm")
    if CONFIG.exists() and succeeds("scontrol", "ping", saying="UP"):
        raise CannotRunError("another slurm_node.py is at work")


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def succeeds(*command: str, saying: str = "") -> bool:
    """Whether a command ends well and says the given text."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return result.returncode == 0 and saying in result.stdout


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise CannotRunError(f"{what} did not come up in {seconds:g} s")
        time.sleep(0.1)


@contextlib.contextmanager
def daemon(command: list[str], log: Path, user: str | None = None) -> Iterator[None]:
    """A process in the foreground of a thread of ours, ended by its own id."""
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, user=user, group=user
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def munge(log: Path) -> Iterator[None]:
    """The authentication daemon: one that runs already is used and left alone."""
    if succeeds("munge", "-n"):
        yield
        return
    owner = pwd.getpwnam("munge")
    for name, mode in MUNGE_FOLDERS.items():
        Path(name).mkdir(exist_ok=True)
        os.chown(name, owner.pw_uid, owner.pw_gid)
        Path(name).chmod(mode)
    with daemon(["munged", "--foreground", "--force"], log, user="munge"):
        wait_for(lambda: succeeds("munge", "-n"), "munged")
        yield


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[None]:
    """Controller and node, up for as long as the context."""
    host = socket.gethostname().partition(".")[0]
    cpus = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 - 500
    ports = {"controller": free_port(), "daemon": free_port()}
    for name in ("state", "spool"):
        (folder / name).mkdir()
    created = not CONFIG.parent.exists()
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text(MARK + SETTINGS.format(host=host, folder=folder, cpus=cpus, memory=memory, **ports), "utf-8")
    try:
        with munge(folder / "munged.out"), daemon(["slurmctld", "-D", "-i"], folder / "slurmctld.out"):
            wait_for(lambda: succeeds("scontrol", "ping", saying="UP"), "slurmctld")
            with daemon(["slurmd", "-D"], folder / "slurmd.out"):
                wait_for(lambda: succeeds("sinfo", "-h", "-o", "%T", saying="idle"), "slurmd")
                try:
                    yield
                finally:
                    for options in (["--full", "--signal=KILL"], []):
                        succeeds("scancel", "--user=root", *options)
                    wait_for(lambda: succeeds("sinfo", "-h", "-o", "%T", saying="idle"), "an idle node")
    finally:
        CONFIG.unlink(missing_ok=True)
        if created:
            CONFIG.parent.rmdir()


def main() -> None:
    """Start, run, stop."""
    if len(sys.argv) < 2:
        sys.exit("usage: slurm_node.py COMMAND ...")
    os.environ.pop("SLURM_CONF", None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        check_machine()
        with tempfile.TemporaryDirectory(prefix="slurm-node-") as folder:
            Path(folder).chmod(0o755)
            with slurm(Path(folder)):
                status = subprocess.run(sys.argv[1:], check=False).returncode
    except CannotRunError as error:
        sys.stderr.write(f"no Slurm here: {error}\n")
        sys.exit(CANNOT_RUN)
    sys.exit(status)


if __name__ == "__main__":
    main()
