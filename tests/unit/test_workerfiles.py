"""The folder of the workers' counts: empty at the start, gone at the end, and never taken from another server."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from hermes.observe.workerfiles import LOCK, PREFIX, WorkerFiles

KILLED_MASTER = """
import os, signal, sys
from pathlib import Path
from hermes.observe.workerfiles import WorkerFiles
WorkerFiles(None, Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_is_made_and_removed(tmp_path: Path) -> None:
    files = WorkerFiles(None, tmp_path)
    assert [path.name for path in files.folder.iterdir()] == [LOCK]

    files.remove()
    files.remove()

    assert list(tmp_path.iterdir()) == []


def test_servers_beside_each_other_have_folders_of_their_own(tmp_path: Path) -> None:
    """One that takes the place of another (SIGUSR2) finds that one's folder in its environment."""
    old = WorkerFiles(None, tmp_path)
    new = WorkerFiles(str(old.folder), tmp_path)

    assert old.folder != new.folder
    assert old.folder.exists()
    new.remove()
    old.remove()


def test_the_folder_of_a_killed_server_is_removed_by_the_next(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED_MASTER, str(tmp_path)], check=False, timeout=20)
    (left,) = tmp_path.iterdir()
    being_made = tmp_path / f"{PREFIX}being-made"
    being_made.mkdir()

    files = WorkerFiles(None, tmp_path)

    assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted([being_made, files.folder])
    files.remove()


def test_a_folder_of_the_operator_is_emptied_and_kept(tmp_path: Path) -> None:
    wanted = tmp_path / "metrics"
    wanted.mkdir()
    (wanted / "counter_17.db").touch()
    (wanted / "notes.txt").touch()

    files = WorkerFiles(str(wanted))
    files.remove()

    assert [path.name for path in wanted.iterdir()] == ["notes.txt"]


def test_a_worker_that_has_ended_leaves_its_counts_and_takes_its_present_state(tmp_path: Path) -> None:
    files = WorkerFiles(str(tmp_path / "metrics"))
    for name in (
        "counter_17.db",
        "histogram_17.db",
        "gauge_livesum_17.db",
        "gauge_livemin_17.db",
        "gauge_livesum_1.db",
    ):
        (files.folder / name).touch()

    files.forget(17)

    left = sorted(path.name for path in files.folder.iterdir())
    assert left == ["counter_17.db", "gauge_livesum_1.db", "histogram_17.db"]


def test_the_lock_is_held_from_the_start(tmp_path: Path) -> None:
    files = WorkerFiles(None, tmp_path)
    lock = os.open(files.folder / LOCK, os.O_RDWR)

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        is_held = True
    else:
        is_held = False

    os.close(lock)
    files.remove()
    assert is_held
