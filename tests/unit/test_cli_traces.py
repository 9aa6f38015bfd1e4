"""`traces tail`: one line an event that tells what matters, and nothing that a terminal would obey."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from hermes.cli.main import main
from hermes.cli.traceline import line_of
from hermes.observe.trace import TraceLog
from hermes.settings import ROOT

HEAD = {"ts": "2026-05-10T13:33:00.123Z", "request_id": "req_1", "session_key": "a1b2c3d4e5", "model": "m1"}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TraceLog:
    """The traces that the command will find."""
    monkeypatch.setenv("TRACE_LOG_DIR", str(tmp_path / "traces"))
    return TraceLog(tmp_path / "traces", clock=lambda: 1778419980.123)


def write(log: TraceLog, count: int, **fields: Any) -> None:
    for number in range(count):
        log.emit("route", {"request_id": f"req_{number}", "session_key": "abc", **fields})
    log.close()


@pytest.mark.parametrize(
    ("event", "fields", "line"),
    [
        pytest.param(
            "classify",
            {
                "source": "surrogate",
                "confidence": 0.93,
                "tier": "complex",
                "latency_ms": 12.4,
                "is_first": True,
                "user_message_preview": "fix\nit",
            },
            'classify      a1b2c3d4  complex  surrogate 0.930 → m1, first turn, 12 ms  "fix it"  req_1',
            id="classify",
        ),
        pytest.param(
            "classify",
            {"source": "default", "confidence": None, "tier": "simple", "latency_ms": 0.1, "user_message_preview": ""},
            "classify      a1b2c3d4  simple   default → m1, later turn, 0 ms  req_1",
            id="classify without a text",
        ),
        pytest.param(
            "deviation",
            {
                "keyword": "debug",
                "direction": "escalation",
                "previous_tier": "simple",
                "new_tier": "complex",
            },
            'deviation     a1b2c3d4  complex  escalation by "debug": simple → complex (m1)  req_1',
            id="deviation",
        ),
        pytest.param(
            "route",
            {
                "tier": "simple",
                "upstream_status": 200,
                "stream": True,
                "latency_ms": 1812.0,
                "fallback_level": 1,
                "fallback_model": "m2",
            },
            "route         a1b2c3d4  simple   200 stream from m1, fallback 1: m2, 1,812 ms  req_1",
            id="route by a fallback",
        ),
        pytest.param(
            "route",
            {"tier": "simple", "upstream_status": None, "stream": False, "latency_ms": 5.0, "fallback_model": None},
            "route         a1b2c3d4  simple   no answer from m1, 5 ms  req_1",
            id="route to nobody",
        ),
        pytest.param(
            "circuit",
            {
                "session_key": None,
                "old_state": "closed",
                "new_state": "open",
                "failures": 3,
                "base_url": "https://h/v1",
            },
            "circuit       -         -        m1: closed → open after 3 failures (https://h/v1)  req_1",
            id="circuit",
        ),
        pytest.param(
            "key_rotation",
            {"session_key": None, "tier": "simple", "base_url": "https://h/v1", "reason": "the provider answered 429"},
            "key_rotation  -         simple   https://h/v1: the provider answered 429  req_1",
            id="key_rotation",
        ),
        pytest.param(
            "stream_error",
            {"error": "lost", "failure_count": 1, "max_failures": 3},
            "stream_error  a1b2c3d4  -        m1: lost (1 of 3)  req_1",
            id="stream_error",
        ),
        pytest.param(
            "brand_new",
            {"a": 1, "b": [True]},
            "brand_new     a1b2c3d4  -        model=m1, a=1, b=[True]  req_1",
            id="new",
        ),
        pytest.param(
            "route", {"model": None}, "route         a1b2c3d4  -        no answer from ?, ? ms  req_1", id="bare"
        ),
    ],
)
def test_every_event_has_its_line(event: str, fields: dict[str, Any], line: str) -> None:
    shown = click.unstyle(line_of({**HEAD, "event": event, **fields}))

    assert shown == f"2026-05-10 13:33:00.123Z  {line}"


def test_an_event_that_lacks_everything_still_has_a_line() -> None:
    assert "-" in click.unstyle(line_of({}))


@pytest.mark.parametrize("evil", ["\x1b[2J", "\x9b2J", "\r", "\u202e", "\u2028", "\x07", "\ud800"])
def test_what_strangers_wrote_cannot_reach_the_terminal(evil: str) -> None:
    preview = {"event": "classify", "user_message_preview": f"a{evil}b", "model": evil, "session_key": evil}

    assert evil not in click.unstyle(line_of({**HEAD, **preview}))
    assert evil not in click.unstyle(line_of({"event": evil, "ts": evil, "request_id": evil, "x": {"y": evil}}))


def test_the_last_ones_are_shown(log: TraceLog, capsys: pytest.CaptureFixture[str]) -> None:
    write(log, 25)

    assert main(["traces", "tail", "-n", "3"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(maxsplit=1)[1] for line in lines] == ["req_22", "req_23", "req_24"]
    assert all("\x1b" not in line for line in lines), "no colours where nobody sees them"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        pytest.param([], ["req_0", "req_1", "req_0", "req_0"], id="all"),
        pytest.param(["--event", "circuit"], ["req_0"], id="an event"),
        pytest.param(["--event", "circuit", "--event", "route"], ["req_0", "req_1", "req_0", "req_0"], id="two events"),
        pytest.param(["--session", "ab"], ["req_0", "req_1"], id="the beginning of a session's key"),
        pytest.param(["--session", "abcd"], [], id="another session"),
        pytest.param(["--request", "req_0"], ["req_0", "req_0", "req_0"], id="a request"),
        pytest.param(
            ["--request", "req_0", "--event", "route", "--session", "abc"], ["req_0"], id="everything at once"
        ),
    ],
)
def test_filters(log: TraceLog, arguments: list[str], wanted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write(log, 2)
    log.emit("circuit", {"request_id": "req_0"})
    write(log, 1, session_key="other")

    assert main(["traces", "tail", "--json", *arguments]) == 0

    captured = capsys.readouterr()
    assert [json.loads(line)["request_id"] for line in captured.out.splitlines()] == wanted
    assert ("No event" in captured.err) == (not wanted)


def test_a_missing_folder_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACE_LOG_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("TRACE_LOG_ENABLED", "false")

    assert main(["traces", "tail"]) != 0

    said = capsys.readouterr().err
    assert "TRACE_LOG_DIR" in said
    assert "TRACE_LOG_ENABLED" in said


def test_lines_that_are_no_events_are_counted(log: TraceLog, capsys: pytest.CaptureFixture[str]) -> None:
    write(log, 1)
    (file,) = Path(os.environ["TRACE_LOG_DIR"]).glob("*.jsonl")
    file.write_bytes(file.read_bytes() + b"torn\n")

    assert main(["traces", "tail"]) == 0

    assert "passed over, as they are no events: 1" in capsys.readouterr().err


def test_following_goes_on_until_it_is_interrupted(log: TraceLog, tmp_path: Path) -> None:
    """Even where the folder is not there yet. Ctrl-C is how one ends it, so it is no failure."""
    command = [sys.executable, "-m", "hermes", "traces", "tail", "--follow", "--json"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    # A child inherits an ignored signal, as `nohup make test &` ignores this one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout is not None
        write(log, 1)
        first = json.loads(process.stdout.readline())
        write(log, 1, n=2)
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)

    assert (first["request_id"], second["n"]) == ("req_0", 2)
    assert process.returncode == 0
    assert b"Traceback" not in said
