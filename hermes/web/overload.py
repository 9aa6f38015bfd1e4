"""Refuses plain requests from their bytes, in a crowd: there most of all work is to refuse.

The answer is what the hot routes would say, from the same rules; they refuse all requests that are not plain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hermes.admission.crowd import Crowd
from hermes.errors import Overloaded
from hermes.web import answers, wire
from hermes.web.cors import Allowed
from hermes.web.http import new_request_id

A_NAME: Final = new_request_id()
"""Stands in a rendered answer where each request's own name goes."""


class TurnAway:
    """The whole answer to a request that comes when there is no room, on a connection that goes on."""

    def __init__(self, crowd: Crowd, origins: Iterable[str]) -> None:
        self._crowd = crowd
        self._allowed = Allowed(origins)
        self._rendered = lru_cache(maxsize=64)(self._render)

    def __call__(self, data: bytes | bytearray) -> bytes | None:
        """None where there is room, or these bytes are not just one plain request; see `wire.origin_of_plain`."""
        if not self._crowd.is_full():
            return None
        origin = wire.origin_of_plain(bytes(data))
        if origin is None:
            return None
        around = self._rendered(origin, math.ceil(self._crowd.turn_away()), int(time.time()))
        return new_request_id().encode("ascii").join(around)

    def _render(self, origin: str, retry_after_s: int, _second: int) -> list[bytes]:
        """What stands around the request's name."""
        status, headers, body = answers.parts(Overloaded(retry_after_s=retry_after_s), A_NAME)
        content = b"".join(body)
        headers += [("Content-Length", str(len(content))), *self._allowed.headers(origin)]
        whole = wire.head_of(answers.status_line(status), headers, keeps_open=True) + content
        return whole.split(A_NAME.encode("ascii"))
