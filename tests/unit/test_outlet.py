"""Log lines never wait for their reader."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pty
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.observe import logs, outlet
from hermes.observe.outlet import Outlet, outlet_of
from hermes.observe.redact import Redactor

LINE = "x" * 999 + "\n"


@pytest.fixture(params=["a pipe", "a socket", "a terminal"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Where is read, and where is written."""
    if request.param == "a socket":
        ours, theirs = socket.socketpair()
        reads, writes = ours.detach(), theirs.detach()
    else:
        reads, writes = os.pipe() if request.param == "a pipe" else pty.openpty()
    yield reads, writes
    os.close(reads)
    os.close(writes)


def read_now(fd: int) -> str:
    """All that is there."""
    os.set_blocking(fd, False)
    data = b""
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(fd, 65536):
            data += piece
    return data.decode().replace("\r\n", "\n")


def test_a_line_goes_out_at_once(ends: tuple[int, int]) -> None:
    out = Outlet(ends[1])

    out.write("grüß\n")

    assert read_now(ends[0]) == "grüß\n"
    out.close()


def test_who_does_not_read_holds_nobody_up_and_gets_the_oldest_lines_whole(ends: tuple[int, int]) -> None:
    out = Outlet(ends[1])
    began = time.monotonic()

    for number in range(5000):
        out.write(f"{number:04d}{LINE[4:]}")

    assert time.monotonic() - began < 1.0
    assert out.take_lost() == 0, "told of when the others are out"
    seen = ""
    while not (lost := out.take_lost()):
        seen += read_now(ends[0])
        out.flush()
    seen += read_now(ends[0])
    lines = seen.splitlines()
    told = [line[:4] for line in lines]
    # A terminal takes a little more meanwhile, when the kernel gets round to it: a gap may come before the last ones.
    assert told[:1000] == [f"{number:04d}" for number in range(1000)]
    assert told == sorted(set(told))
    assert {len(line) for line in lines} == {999}
    assert lost == 5000 - len(lines)
    out.close()


def test_a_reader_who_has_gone_is_no_error() -> None:
    reads, writes = os.pipe()
    out = Outlet(writes)
    os.close(reads)

    for _ in range(3):
        out.write(LINE)

    assert out._waiting_bytes == 0
    os.close(writes)


def test_what_never_waits_stays_as_it_is(tmp_path: Path) -> None:
    with open(tmp_path / "log", "w", encoding="utf-8") as file:
        assert outlet_of(file) is file
    buffer = io.StringIO()
    assert outlet_of(buffer) is buffer


def test_lines_that_were_lost_are_told_of_in_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "KEPT_BYTES", 2000)
    root = logging.getLogger()
    before = root.handlers[:]
    reads, writes = os.pipe()
    with os.fdopen(writes, "w") as stream:
        logs.configure("INFO", "plain", Redactor(()), stream)
        log = logging.getLogger("hermes-router")
        for number in range(200):
            log.info("%d %s", number, "x" * 990)
        text = read_now(reads)
        log.info("after")
        text += read_now(reads)
        root.handlers[0].close()
        root.handlers[:] = before
    os.close(reads)
    logging.captureWarnings(False)

    told = [line for line in text.splitlines() if "log lines were lost here" in line]
    assert len(told) == 1
    assert "WARNING" in told[0]
