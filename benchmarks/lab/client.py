"""A caller who takes note of every answer, and may leave at any moment."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lab.native import ROUTE
from lab.servers import ADMIN_KEY

TIMEOUT_S = 30.0
LOST = (OSError, http.client.HTTPException)
"""What a caller meets when the other side goes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What has come back; whole where its last byte has."""

    status: int
    request_id: str
    body: bytes

    @property
    def is_done(self) -> bool:
        """Whether a stream has said its last word."""
        return b"data: [DONE]" in self.body

    @property
    def was_cut(self) -> bool:
        """Whether a stream says that its provider broke off."""
        return b": hermes stream interrupted" in self.body


class Caller:
    """Asks one question at a time, on a connection that is kept while both sides keep it."""

    def __init__(self, port: int, user: str) -> None:
        self.session = ""
        """The conversation that the next questions belong to; empty: the text tells."""

        self._port = port
        self._user = user
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, text: str, **fields: Any) -> Answer:
        """A whole answer, or a stream to its end.

        Raises:
            OSError, http.client.HTTPException: the connection was lost before the last byte.
        """
        try:
            self._post(text, fields)
            response = self._opened().getresponse()
            body = response.read()
        except LOST:
            self.hang_up()
            raise
        return Answer(response.status, response.getheader("X-Request-Id", ""), body)

    def leave_after(self, seconds: float, text: str, **fields: Any) -> None:
        """Asks, reads what comes in this time, and hangs up."""
        until = time.monotonic() + seconds
        with suppress(*LOST):
            self._post(text, fields).settimeout(seconds)
            response = self._opened().getresponse()
            while time.monotonic() < until and response.readline():
                pass
        self.hang_up()

    def hang_up(self) -> None:
        """Closes the connection; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, text: str, fields: dict[str, Any]) -> Any:
        body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": text}], **fields})
        headers = {"Content-Type": "application/json", "X-Hermes-User": self._user}
        if self.session:
            headers["X-Hermes-Session"] = self.session
        connection = self._opened()
        connection.request("POST", ROUTE, body, headers)
        return connection.sock

    def _opened(self) -> http.client.HTTPConnection:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        return self._connection


def admin_get(port: int, path: str) -> bytes:
    """What an admin route answers.

    Raises:
        OSError, http.client.HTTPException: nobody answers.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {ADMIN_KEY}"})
        return connection.getresponse().read()
    finally:
        connection.close()
