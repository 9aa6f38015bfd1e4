"""Trace files: whole lines from any number of processes, rotated once, and never a reason to fail a request."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hermes.observe.redact import Redactor
from hermes.observe.trace import TraceLog
from hermes.settings import ROOT

NOW = 1_778_419_980.1239  # 2026-05-10 13:33:00 UTC
NAME = "router-trace-20260510.jsonl"

WRITER = """
import sys
from pathlib import Path
from hermes.observe.trace import TraceLog
trace = TraceLog(Path(sys.argv[1]), max_bytes=4096, backups=100000)
for number in range(int(sys.argv[3])):
    trace.emit("route", {"request_id": f"{sys.argv[2]}-{number}", "filler": "x" * (number % 90)})
assert trace.failures == 0
"""


class Clock:
    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "traces"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_an_event_is_one_line_with_time_name_and_fields(folder: Path) -> None:
    trace = TraceLog(folder, clock=Clock())

    trace.emit("route", {"request_id": "r-1", "tier": "simple", "stream": False, "fallback_model": None})
    trace.emit("cache_hit", {"request_id": "r-2", "note": "two\nlines — é"})

    assert lines(folder / NAME) == [
        {
            "ts": "2026-05-10T13:33:00.123Z",
            "event": "route",
            "request_id": "r-1",
            "tier": "simple",
            "stream": False,
            "fallback_model": None,
        },
        {"ts": "2026-05-10T13:33:00.123Z", "event": "cache_hit", "request_id": "r-2", "note": "two\nlines — é"},
    ]


def test_the_file_changes_with_the_utc_day(folder: Path) -> None:
    clock = Clock()
    trace = TraceLog(folder, clock=clock)
    trace.emit("route", {"request_id": "r-1"})

    clock.now += 86_400
    trace.emit("route", {"request_id": "r-2"})

    assert [line["request_id"] for line in lines(folder / "router-trace-20260511.jsonl")] == ["r-2"]
    assert [line["request_id"] for line in lines(folder / NAME)] == ["r-1"]


def test_strings_are_cleaned_at_any_depth(folder: Path) -> None:
    trace = TraceLog(folder, clean=Redactor({"up-SECRET-key"}).clean, clock=Clock())

    trace.emit("route", {"request_id": "r-1", "deep": [{"text": "up-SECRET-key"}, ("Bearer abcdefgh",)]})

    assert lines(folder / NAME)[0]["deep"] == [{"text": "***"}, ["Bearer ***"]]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("half \ud800 pair", "half \ud800 pair", id="half a surrogate pair"),
        pytest.param(2**70, 2**70, id="a number beyond 64 bits"),
        pytest.param(Path("/x"), "/x", id="something without a form in JSON"),
        pytest.param({1: "a"}, {"1": "a"}, id="a key that is no text"),
    ],
)
def test_a_strange_value_still_gives_a_line(folder: Path, value: object, written: object) -> None:
    TraceLog(folder, clock=Clock()).emit("route", {"request_id": "r-1", "value": value})

    assert lines(folder / NAME)[0]["value"] == written


def test_a_full_file_is_moved_away_and_the_oldest_are_dropped(folder: Path) -> None:
    trace = TraceLog(folder, max_bytes=1, backups=2, clock=Clock())  # each line fills a file

    for number in range(5):
        trace.emit("route", {"request_id": number})

    kept = {path.name: lines(path)[0]["request_id"] for path in folder.glob(f"{NAME}*")}
    assert kept == {f"{NAME}.1": 4, f"{NAME}.2": 3}


def test_without_backups_a_full_file_is_dropped(folder: Path) -> None:
    trace = TraceLog(folder, max_bytes=200, backups=0, clock=Clock())

    for number in range(50):
        trace.emit("route", {"request_id": number})

    assert [path.name for path in folder.glob(f"{NAME}*")] == [NAME]
    assert (folder / NAME).stat().st_size < 400


def test_fewer_backups_than_before_drop_the_rest(folder: Path) -> None:
    folder.mkdir()
    for number in range(1, 8):
        (folder / f"{NAME}.{number}").write_text("{}\n")
    trace = TraceLog(folder, max_bytes=1, backups=2, clock=Clock())

    trace.emit("route", {"request_id": "r-1"})

    assert sorted(path.name for path in folder.glob(f"{NAME}*")) == [f"{NAME}.1", f"{NAME}.2"]


def test_a_file_that_another_process_moved_is_opened_anew_within_a_second(folder: Path) -> None:
    clock = Clock()
    trace = TraceLog(folder, clock=clock)
    trace.emit("route", {"request_id": "r-1"})

    (folder / NAME).rename(folder / f"{NAME}.1")
    trace.emit("route", {"request_id": "r-2"})
    clock.now += 1
    trace.emit("route", {"request_id": "r-3"})

    assert [line["request_id"] for line in lines(folder / f"{NAME}.1")] == ["r-1", "r-2"]
    assert [line["request_id"] for line in lines(folder / NAME)] == ["r-3"]


def test_many_processes_lose_no_line_and_mix_none(folder: Path) -> None:
    """Four real processes write 2,000 lines and rotate some fifty times between them."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(n), "500"], cwd=ROOT, stderr=subprocess.PIPE)
        for n in range(4)
    ]

    errors = [writer.communicate()[1] for writer in writers]

    assert errors == [b""] * 4
    files = list(folder.glob("router-trace-*.jsonl*"))
    ids = [line["request_id"] for path in files for line in lines(path)]
    assert len(files) > 20
    assert sorted(ids) == sorted(f"{n}-{number}" for n in range(4) for number in range(500))


def test_a_folder_that_cannot_be_made_is_one_warning_and_a_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    trace = TraceLog(blocker / "traces", clock=Clock())

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            trace.emit("route", {"request_id": "r-1"})

    assert trace.failures == 3
    assert len(caplog.records) == 1
    blocker.unlink()
    trace.emit("route", {"request_id": "r-2"})
    assert [line["request_id"] for line in lines(blocker / "traces" / NAME)] == ["r-2"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_never_raises(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.mkdir()
    (folder / NAME).symlink_to("/dev/full")
    trace = TraceLog(folder, clock=Clock())

    trace.emit("route", {"request_id": "r-1"})

    assert trace.failures == 1
    assert "No space left" in caplog.text


def test_switched_off_it_writes_nothing(folder: Path) -> None:
    TraceLog(folder, enabled=False, clock=Clock()).emit("route", {"request_id": "r-1"})

    assert not folder.exists()


def test_old_days_can_be_dropped_with_their_backups(folder: Path) -> None:
    folder.mkdir()
    for name in ("router-trace-20260401.jsonl", "router-trace-20260401.jsonl.1", NAME, "notes.txt"):
        (folder / name).write_text("{}\n")

    dropped = TraceLog(folder, clock=Clock()).drop_before(date(2026, 5, 10))

    assert dropped == 2
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", NAME]
