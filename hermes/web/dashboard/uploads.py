"""Files that operators send: how large they may be, and that others have their turns while they are taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import gevent
from flask import Request
from werkzeug.datastructures import FileStorage

from hermes.knowledge.reader import MOST_BYTES
from hermes.turns import MOMENT_S

TAKEN_AT: Final = "/dashboard/knowledge"
"""The one address that takes files."""

MOST_BODY_BYTES: Final = MOST_BYTES + 1024 * 1024
MOST_TEXT_BYTES: Final = 4 * 1024 * 1024
PIECE_BYTES: Final = 64 * 1024
MOST_FILES: Final = 50


def prepare(request: Request) -> None:
    """Sets the bounds of a request that may bring files, before anybody looks into its form."""
    if request.path.rstrip("/") == TAKEN_AT:
        request.max_content_length = MOST_BODY_BYTES
        request.max_form_memory_size = MOST_TEXT_BYTES
        request.max_form_parts = MOST_FILES + 20
        request.environ["wsgi.input"] = _Patient(request.environ["wsgi.input"])


def content_of(file: FileStorage) -> bytes:
    """A file's bytes."""

    def pieces() -> Iterator[bytes]:
        while piece := file.stream.read(16 * PIECE_BYTES):
            yield piece
            gevent.sleep(MOMENT_S)

    return b"".join(pieces())


class _Patient:
    """A body that is read in pieces, with a pause after each."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        piece: bytes = self._stream.read(PIECE_BYTES if size < 0 else min(size, PIECE_BYTES))
        gevent.sleep(MOMENT_S)
        return piece

    def readline(self, size: int = -1) -> bytes:
        line: bytes = self._stream.readline(size)
        return line
