"""Log lines of the whole process, gunicorn's included, in one of two forms, on stderr.

Plain: `2026-05-10 13:33:00,123 [router] INFO message`. JSON: one object a line. In both a record is one line, because
control characters are escaped (nobody forges a line through a user name), and secrets are hidden after formatting, so
that no logger of any library is an exception. Only a plain traceback has lines of its own, which are indented.
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from typing import Any, Final, TextIO

from pythonjsonlogger.json import JsonFormatter

from hermes.errors import StartRefused
from hermes.observe.outlet import Outlet, outlet_of
from hermes.observe.redact import Redactor
from hermes.observe.trace import utc_ms

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
FORMATS: Final = ("plain", "json")
NO_REQUEST: Final = ""

request_id_var: ContextVar[str] = ContextVar("request_id", default=NO_REQUEST)
"""The id of the request that the current greenlet serves."""

_SOURCE_FILE = logging._srcfile
_CONTROL = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
_CONTROL_BUT_NEWLINE = {code: text for code, text in _CONTROL.items() if code not in (9, 10)}


def configure(level: str, fmt: str, redactor: Redactor, stream: TextIO | None = None) -> None:
    """Makes one handler on the root logger the only one; may be called again.

    Raises:
        StartRefused: `LOG_LEVEL` or `LOG_FORMAT` is none that is known.
    """
    check(level, fmt)
    handler = _Lines(outlet_of(stream or sys.stderr))
    handler.setFormatter(_Json(redactor) if fmt.lower() == "json" else _Plain(redactor))
    root = logging.getLogger()
    for old in root.handlers:
        if isinstance(old, _Lines):
            old.close()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("gunicorn", "gunicorn.error", "gunicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    # What it warns of when a statement has failed in a pipeline is raised as well, and told once by whoever meets it.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    logging.captureWarnings(True)
    _collect_only_what_is_shown(is_json=fmt.lower() == "json")


def _collect_only_what_is_shown(*, is_json: bool) -> None:
    """Neither form shows threads or processes, and the plain one no places in the code: not looking makes a line cheap.

    Source: the standard library's logging HOWTO, "Optimization".
    """
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = _SOURCE_FILE if is_json else None


def check(level: str, fmt: str) -> None:
    """Refuses a level or a format that is not known, with a sentence.

    Raises:
        StartRefused: it is not.
    """
    if level.upper() not in LEVELS:
        raise StartRefused(f"LOG_LEVEL must be one of {', '.join(LEVELS)}")
    if fmt.lower() not in FORMATS:
        raise StartRefused(f"LOG_FORMAT must be one of {', '.join(FORMATS)}")


def one_line(text: str) -> str:
    r"""The text with its control characters escaped.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return text.translate(_CONTROL)


def short_name(logger: str) -> str:
    """The name in the brackets of a plain line.

    >>> short_name("hermes-router.trace"), short_name("gunicorn.error"), short_name("urllib3.connectionpool")
    ('router', 'gunicorn', 'urllib3.connectionpool')
    """
    head = logger.partition(".")[0]
    return {"hermes-router": "router", "gunicorn": "gunicorn"}.get(head, logger)


class _Lines(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes lines, and says so when some could not be written."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        lost = self.stream.take_lost() if isinstance(self.stream, Outlet) else 0
        if lost:
            text = f"{lost} log lines were lost here, as nobody has read what was written"
            super().emit(logging.LogRecord("hermes-router", logging.WARNING, __file__, 0, text, None, None))

    def close(self) -> None:
        super().close()
        if isinstance(self.stream, Outlet):
            self.stream.close()


class _Plain(logging.Formatter):
    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.formatTime(record)} [{short_name(record.name)}] {record.levelname} "
        line += one_line(self._redactor.clean(record.getMessage()))
        if record.exc_info:
            line += _indented(self._redactor.clean(self.formatException(record.exc_info)))
        if record.stack_info:
            line += _indented(self._redactor.clean(self.formatStack(record.stack_info)))
        return line


class _Json(JsonFormatter):
    """Fields that a call gives as `extra` stand beside the fixed ones."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(
            ["timestamp", "levelname", "name", "module", "lineno", "message", "request_id"],
            rename_fields={"levelname": "level", "name": "logger", "lineno": "line", "exc_info": "exception"},
            json_ensure_ascii=False,
        )
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        record.timestamp = utc_ms(record.created)
        record.request_id = request_id_var.get()
        return str(super().format(record))

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return {name: self._cleaned(value) for name, value in log_data.items()}

    def _cleaned(self, value: Any) -> Any:
        """The encoder escapes control characters, but the two line ends beyond ASCII only if they are gone before."""
        if isinstance(value, str):
            return self._redactor.clean(value.translate({0x2028: "\\u2028", 0x2029: "\\u2029", 0x85: "\\x85"}))
        return value if isinstance(value, bool | int | float | None) else self._cleaned(str(value))


def _indented(text: str) -> str:
    return "".join(f"\n  {line}" for line in text.translate(_CONTROL_BUT_NEWLINE).split("\n"))
