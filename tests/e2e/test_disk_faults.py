"""A disk that takes nothing, a damaged database file and a log that nobody reads cost no answer and no row."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator

import pytest

from .client import Answer
from .gateway import Gateway, StartFailed, eventually

REFUSED = 3
PAGE_BYTES = 4096


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway.start()
    gateway.row(gateway.chat())
    yield gateway
    logs = gateway.logs()
    gateway.stop()
    assert "Traceback" not in logs


def asked(gateway: Gateway, times: int = 10) -> list[Answer]:
    answers = [gateway.chat(stream=bool(number % 2)) for number in range(times)]
    assert [answer.status for answer in answers] == [200] * times
    return answers


def files_may_have(gateway: Gateway, limit: str) -> None:
    """Of every worker, in bytes; 0 is a disk that is full for everything: database, spool, traces, log."""
    for pid in gateway.workers():
        subprocess.run(["prlimit", f"--pid={pid}", f"--fsize={limit}:unlimited"], check=True)


def test_a_disk_that_takes_nothing_at_all(gateway: Gateway) -> None:
    files_may_have(gateway, "0")

    answers = asked(gateway)

    state = gateway.request("GET", "/health/ready")
    assert (state.status, "held in memory" in state.json["spool"]) == (200, True)
    files_may_have(gateway, "unlimited")
    assert [gateway.row(answer)["status"] for answer in answers] == ["ok"] * len(answers)
    assert eventually(lambda: gateway.request("GET", "/health/ready").json["spool"], lambda said: said == "ok") == "ok"


def test_a_database_file_that_is_damaged(gateway: Gateway) -> None:
    file = gateway.folder / "hermes.db"
    backup = gateway.folder / "backup.db"
    with sqlite3.connect(file) as source, sqlite3.connect(backup) as target:
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        source.backup(target)
    with open(file, "r+b") as damaged:
        for start in range(PAGE_BYTES, file.stat().st_size, PAGE_BYTES):
            damaged.seek(start)
            damaged.write(b"\xa5" * (PAGE_BYTES // 2))

    answers = asked(gateway)

    said = eventually(gateway.logs, lambda logs: "malformed" in logs)
    assert "malformed" in said
    gateway.sigterm()
    assert gateway.wait_exit(20) is not None
    with pytest.raises(StartFailed, match=r"is damaged.*restore a backup"):
        gateway.spawn()
    assert gateway.wait_exit() == REFUSED

    for end in ("-wal", "-shm"):
        (gateway.folder / f"hermes.db{end}").unlink(missing_ok=True)
    shutil.copy(backup, file)
    gateway.spawn()
    assert [gateway.row(answer)["status"] for answer in answers] == ["ok"] * len(answers)


def test_a_log_that_nobody_reads() -> None:
    reads, writes = os.pipe()
    gateway = Gateway(None, {"LOG_LEVEL": "DEBUG"})
    gateway.logs_to = writes
    try:
        gateway.spawn()
        os.close(writes)
        answers = [gateway.chat() for _ in range(100)]  # a pipe takes 64 KiB, which is the lines of about sixty
        os.close(reads)
        answers += asked(gateway, 3)
        assert {answer.status for answer in answers} == {200}
        assert gateway.row(answers[-1])["status"] == "ok"
    finally:
        gateway.stop()
