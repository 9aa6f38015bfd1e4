"""Log lines: one shape for everybody, one line a record, no secrets."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from hermes.errors import StartRefused
from hermes.observe import logs
from hermes.observe.redact import Redactor

PLAIN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")


@pytest.fixture(autouse=True)
def other_logging() -> Iterator[None]:
    """Puts back what `configure` changes for the whole process."""
    loggers = [logging.getLogger(name) for name in (None, "gunicorn", "gunicorn.error", "gunicorn.access")]
    before = [(logger, logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    yield
    logging.captureWarnings(False)
    for logger, level, handlers, propagate in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.propagate = propagate


@pytest.fixture
def redactor() -> Redactor:
    return Redactor({"up-SECRET-key"})


def configured(redactor: Redactor, fmt: str = "plain", level: str = "INFO") -> io.StringIO:
    stream = io.StringIO()
    logs.configure(level, fmt, redactor, stream)
    return stream


@pytest.mark.parametrize(
    ("logger", "shown"),
    [
        pytest.param("hermes-router", "router", id="the router"),
        pytest.param("hermes-router.trace", "router", id="a part of the router"),
        pytest.param("gunicorn.error", "gunicorn", id="gunicorn"),
        pytest.param("urllib3.connectionpool", "urllib3.connectionpool", id="a library"),
    ],
)
def test_a_plain_line_has_time_name_level_and_message(redactor: Redactor, logger: str, shown: str) -> None:
    stream = configured(redactor)

    logging.getLogger(logger).info("Routing session %s → %s (%s)", "a1b2c3", "simple", "deepseek-v4-flash")

    line = stream.getvalue()
    assert PLAIN.match(line)
    assert PLAIN.sub("", line) == f"[{shown}] INFO Routing session a1b2c3 → simple (deepseek-v4-flash)\n"


def test_a_json_line_has_every_field(redactor: Redactor) -> None:
    stream = configured(redactor, "json")
    token = logs.request_id_var.set("r-1")

    logging.getLogger("hermes-router").warning("é %d", 7, extra={"tier": "simple"})
    logs.request_id_var.reset(token)

    found = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("timestamp"))
    assert isinstance(found.pop("line"), int)
    assert found == {
        "level": "WARNING",
        "logger": "hermes-router",
        "module": "test_logs",
        "message": "é 7",
        "request_id": "r-1",
        "tier": "simple",
    }


@pytest.mark.parametrize("fmt", logs.FORMATS)
def test_nobody_forges_a_line(redactor: Redactor, fmt: str) -> None:
    stream = configured(redactor, fmt)

    logging.getLogger("hermes-router").info(
        "user %s", "x\r\n2026-05-10 13:33:00,123 [router] INFO forged\x1b[2K\u2028\x85"
    )

    written = stream.getvalue()
    assert len(written.splitlines()) == 1
    assert "\x1b" not in written


def test_a_traceback_is_indented_and_clean(redactor: Redactor) -> None:
    stream = configured(redactor)

    try:
        raise ValueError("bad up-SECRET-key\n2026-05-10 13:33:00,123 [router] INFO forged")
    except ValueError:
        logging.getLogger("hermes-router").exception("It failed")

    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("[router] ERROR It failed")
    assert rest[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in rest)
    assert "SECRET" not in stream.getvalue()


def test_a_json_traceback_is_one_field(redactor: Redactor) -> None:
    stream = configured(redactor, "json")

    try:
        raise ValueError("bad up-SECRET-key")
    except ValueError:
        logging.getLogger("hermes-router").exception("It failed", stack_info=True)

    found = json.loads(stream.getvalue())
    assert found["exception"].endswith("ValueError: bad ***")
    assert found["message"] == "It failed"


@pytest.mark.parametrize("fmt", logs.FORMATS)
@pytest.mark.parametrize("logger", ["hermes-router", "urllib3.connectionpool", "gunicorn.error", "anything"])
def test_no_logger_shows_a_secret(redactor: Redactor, fmt: str, logger: str) -> None:
    stream = configured(redactor, fmt, "DEBUG")

    logging.getLogger(logger).debug("headers %s", {"Authorization": "Bearer gw-user-SECRET", "x": "up-SECRET-key"})
    logging.getLogger(logger).debug("two\nBearer gw-user-SECRET")
    logging.getLogger(logger).debug("m", extra={"header": "up-SECRET-key", "odd": ["up-SECRET-key"]})

    assert stream.getvalue().count("\n") == 3
    assert "SECRET" not in stream.getvalue()


def test_a_secret_learned_later_is_hidden_too(redactor: Redactor) -> None:
    stream = configured(redactor)

    redactor.learn(frozenset({"another-secret"}))
    logging.getLogger("hermes-router").info("another-secret")

    assert stream.getvalue().endswith("INFO ***\n")


@pytest.mark.parametrize(("level", "lines"), [("DEBUG", 4), ("INFO", 3), ("warning", 2), ("ERROR", 1)])
def test_the_level_counts(redactor: Redactor, level: str, lines: int) -> None:
    stream = configured(redactor, level=level)

    for name in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("hermes-router"), name)("m")

    assert len(stream.getvalue().splitlines()) == lines


def test_what_the_database_driver_raises_it_does_not_tell_beside_that(redactor: Redactor) -> None:
    """A table that takes no rows would else be thousand lines a day."""
    stream = configured(redactor)

    logging.getLogger("psycopg").warning("error ignored terminating <Pipeline>: permission denied")

    assert stream.getvalue() == ""


def test_configuring_twice_does_not_double_the_lines(redactor: Redactor) -> None:
    configured(redactor)
    stream = configured(redactor)

    logging.getLogger("gunicorn.error").info("once")

    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    ("level", "fmt", "named"),
    [("loud", "plain", "LOG_LEVEL"), ("INFO", "xml", "LOG_FORMAT")],
)
def test_an_unknown_level_or_format_is_refused(redactor: Redactor, level: str, fmt: str, named: str) -> None:
    with pytest.raises(StartRefused, match=named):
        logs.configure(level, fmt, redactor)
