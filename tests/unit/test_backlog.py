"""What waits in a spool can be counted from outside, while its owner goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes.accounting.backlog import Backlog, backlog
from hermes.accounting.spool import Spool

ROW = {"request_id": "r", "status": "ok"}


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_waits_in_an_empty_or_a_missing_folder(tmp_path: Path, exists: bool) -> None:
    assert backlog(tmp_path if exists else tmp_path / "none") == Backlog()


def test_rows_of_every_process_are_counted(tmp_path: Path) -> None:
    first, second = Spool(tmp_path, clock=lambda: 1.0), Spool(tmp_path, clock=lambda: 2.0)
    for spool, rows in ((first, 2), (second, 3)):
        for _ in range(rows):
            spool.append(ROW)

    found = backlog(tmp_path)

    assert found.rows == 5
    assert found.size_bytes == first.waiting_bytes()
    assert [first.depth(), second.depth()] == [2, 3], "looking changes nothing"
    first.close()
    second.close()


def test_the_oldest_file_says_for_how_long_rows_wait(tmp_path: Path) -> None:
    for name, changed in (("usage-1-1-000001.jsonl", 100.0), ("usage-2-1-000001.jsonl", 400.0)):
        (tmp_path / name).write_bytes(b"{}\n")
        os.utime(tmp_path / name, (changed, changed))
    (tmp_path / "usage-3-1-000001.jsonl").touch()

    assert backlog(tmp_path, now=500.0) == Backlog(rows=2, size_bytes=6, oldest_s=400.0)


def test_what_was_set_aside_is_counted_by_itself(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.set_aside(b"no row\n")

    assert backlog(tmp_path) == Backlog(set_aside=1)
    spool.close()
