"""Has documents read by a process of its own, so that no file can stop or fill the one that serves."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from typing import Final

import gevent
import orjson
from gevent.lock import BoundedSemaphore

from hermes.errors import InvalidRequest, PayloadTooLarge
from hermes.knowledge.blocks import Unreadable
from hermes.knowledge.chunking import Passage
from hermes.knowledge.reading import FORMATS, READ_HERE, read_passages
from hermes.settings import ROOT

log = logging.getLogger("hermes-router")

MOST_BYTES: Final = 32 * 1024 * 1024
SMALL_BYTES: Final = 16 * 1024
"""Up to here plain text is cut at once: a millisecond or two."""

TIMEOUT_S: Final = 300.0
MOST_SAID: Final = 500
LINES_IN_A_ROW: Final = 500
MOST_AT_ONCE: Final = 2

_at_once = BoundedSemaphore(MOST_AT_ONCE)
"""Fifty files that come together must not become fifty processes."""


def read(raw: bytes, fmt: str, source: str) -> list[Passage]:
    """The passages of a document.

    Raises:
        InvalidRequest: it cannot be read; the text says why.
        PayloadTooLarge: it is too large a file.
    """
    if len(raw) > MOST_BYTES:
        raise too_large(source)
    try:
        if fmt in READ_HERE and len(raw) <= SMALL_BYTES:
            return read_passages(raw, fmt)
        return _read_elsewhere(raw, fmt)
    except Unreadable as error:
        raise InvalidRequest(f"{source} cannot be read: {error}.", param="source") from None


def too_large(source: str) -> PayloadTooLarge:
    """The refusal of a document."""
    return PayloadTooLarge(f"{source} is larger than {MOST_BYTES // 1024**2} MB; cut it into several documents.")


def known_formats() -> str:
    """What can be read, for refusals."""
    return ", ".join(endings[0] for endings in FORMATS.values())


def _read_elsewhere(raw: bytes, fmt: str) -> list[Passage]:
    with _at_once:
        return _read_by_process(raw, fmt)


def _read_by_process(raw: bytes, fmt: str) -> list[Passage]:
    command = [sys.executable, "-m", "hermes.knowledge.reading", fmt]
    process = subprocess.Popen(  # noqa: S603  (our own program; the format is one of ours)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    try:
        with gevent.Timeout(TIMEOUT_S, Unreadable(f"reading it takes longer than {TIMEOUT_S:.0f} s")):
            told, said = process.communicate(raw)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode == -signal.SIGXCPU:
        raise Unreadable("reading it takes too long; cut it into several documents, or save it as plain text")
    if process.returncode:
        log.warning(
            "A document's reader ended with %s: %s", process.returncode, said[-MOST_SAID:].decode(errors="replace")
        )
        raise Unreadable("its reader came to a bad end; the file is damaged, or made to be hard to read")
    passages: list[Passage] = []
    for line in told.splitlines():
        passage = orjson.loads(line)
        if isinstance(passage, str):
            raise Unreadable(passage)
        passages.append(Passage(*passage))
        if len(passages) % LINES_IN_A_ROW == 0:
            gevent.sleep(0)
    return passages
