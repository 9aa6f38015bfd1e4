"""Every error that somebody catches or whose HTTP status differs.

    HermesError
    ├── InvalidRequest        400  the caller's request cannot be served as it is
    ├── Unauthorized          401  no key, or one that is not known
    ├── Forbidden             403  the key is known, but not for this
    ├── ForeignPage           403  a web page sends a form, or is of an origin that may not ask
    ├── ResidencyBlocked      403  no place that may see the request's data could answer it
    ├── NotFound              404
    ├── Conflict              409  it is not any more what it was when that was decided
    ├── BodyTimeout           408  the request's body came too slowly
    ├── PayloadTooLarge       413
    ├── UnsupportedMedia      415
    ├── RateLimited           429  a rate limit of the caller's is reached
    ├── BudgetExceeded        429  a budget is used up
    ├── UpstreamFailed        502  every endpoint was tried, none answered
    ├── CircuitsOpen          503  nothing was tried: every breaker is open
    ├── GatewayDisabled       503  the kill switch is thrown
    ├── Overloaded            503  more comes than can be done
    ├── BooksUnreadable       503  what was spent cannot be told, and the operator lets nobody pass then
    ├── DatabaseUnavailable   503  what was asked for is in the database, which does not answer
    ├── EmbedderFailed        503  no vectors could be had
    ├── DeadlineExceeded      504  the time for the whole request is over
    ├── ConfigurationInvalid  400  a list of problems, each with its place
    └── StartRefused               the process must not start like this
        └── DatabaseUnreachable    … yet: it may, as soon as its database is there
    ClientGone                     the caller has hung up; a BaseException, so that no `except Exception` eats it

The message is for the caller: what is wrong, where, what to do. It never holds a key, an internal address or a stack.
`web/answers.py` is the one place that turns these into HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hermes.types import Attempt


class HermesError(Exception):
    """An error with everything that its answer needs."""

    status: int = 500
    code: str = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.detail_code = code or self.code
        self.retry_after_s = retry_after_s
        self.should_retry = should_retry
        """False where repeating cannot cure it: `x-should-retry: false` keeps SDKs from trying."""
        self.headers: tuple[tuple[str, str], ...] = ()
        """Further headers of the answer."""

    def body(self) -> dict[str, Any]:
        """OpenAI's error object, without the request id, which the web layer knows."""
        return {"message": self.message, "type": self.code, "param": self.param, "code": self.detail_code}


class InvalidRequest(HermesError):
    """The caller's request cannot be served as it is."""

    status, code = 400, "invalid_request_error"


class Unauthorized(HermesError):
    """No key where one is needed, or one that is not known."""

    status, code = 401, "invalid_api_key"


class Forbidden(HermesError):
    """The key is known, but not for this."""

    status, code = 403, "insufficient_scope"


class ForeignPage(HermesError):
    """A web page of another origin sends a form, which browsers do without asking first."""

    status, code = 403, "origin_not_allowed"


class ResidencyBlocked(HermesError):
    """A residency rule keeps the request from everybody who could answer it; nothing was sent."""

    status, code = 403, "residency_blocked"

    def __init__(self, message: str) -> None:
        super().__init__(message, should_retry=False)


class NotFound(HermesError):
    """There is nothing at this address."""

    status, code = 404, "not_found"


class Conflict(HermesError):
    """What is to be changed is not any more what it was when that was decided."""

    status, code = 409, "conflict"


class BodyTimeout(HermesError):
    """The request's body came too slowly."""

    status, code = 408, "request_timeout"


class PayloadTooLarge(HermesError):
    """The request's body is larger than `server.max_body_mb`."""

    status, code = 413, "payload_too_large"


class UnsupportedMedia(HermesError):
    """The request's body is packed or typed in a way that is not read."""

    status, code = 415, "unsupported_media_type"


class RateLimited(HermesError):
    """A rate limit of the caller's is reached."""

    status, code = 429, "rate_limit_exceeded"


class BudgetExceeded(HermesError):
    """A budget is used up until its period ends."""

    status, code = 429, "budget_exceeded"


class BooksUnreadable(HermesError):
    """The usage log does not say what was spent."""

    status, code = 503, "budget_unavailable"


class DatabaseUnavailable(HermesError):
    """The database does not answer, or cannot do what it is asked. Its text tells the reason too, for logs."""

    status, code = 503, "database_unavailable"
    RETRY_AFTER_S = 2.0

    def __init__(self, reason: str, message: str = "The database cannot be used at the moment.") -> None:
        super().__init__(message, retry_after_s=self.RETRY_AFTER_S)
        self.reason = reason
        """The database's own words, which may name hosts: not for callers."""

    def __str__(self) -> str:
        return f"{self.message} ({self.reason})"


class EmbedderFailed(HermesError):
    """No vectors could be had; the text says why, and what to do."""

    status, code = 503, "embedder_unavailable"


class UpstreamFailed(HermesError):
    """Every endpoint of the cascade was skipped or failed."""

    status, code = 502, "upstream_error"

    def __init__(self, message: str, attempts: Sequence[Attempt], *, retry_after_s: float) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.attempts = tuple(attempts)

    def body(self) -> dict[str, Any]:
        return {**super().body(), "attempts": [attempt.shown() for attempt in self.attempts]}


class CircuitsOpen(UpstreamFailed):
    """Nothing was tried, because every endpoint's breaker is open."""

    status = 503


class GatewayDisabled(HermesError):
    """The kill switch is thrown: callers shall use a way of their own, and not ask again."""

    status, code = 503, "gateway_disabled"

    def __init__(self) -> None:
        super().__init__("The gateway is switched off. Call the provider directly meanwhile.", should_retry=False)


class Overloaded(HermesError):
    """More requests come than this process can do; in a moment there may be room."""

    status, code = 503, "overloaded"

    def __init__(
        self,
        message: str = "More requests come than can be answered at the moment; come again after Retry-After.",
        *,
        retry_after_s: float,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


class DeadlineExceeded(UpstreamFailed):
    """The time for the whole request is over."""

    status, code = 504, "timeout"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a configuration file."""

    path: str
    """Of the key: `models.simple.base_url`."""

    line: int | None
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigurationInvalid(HermesError):
    """A configuration file that must not be used, with all its problems at once."""

    status, code = 400, "invalid_configuration"

    def __init__(self, file: str, problems: Sequence[Problem], warnings: Sequence[str] = ()) -> None:
        self.file = file
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        """What would be told of the file even if it were good."""

        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """`FILE:LINE: path: message`, one a problem."""
        return [f"{self.file}:{p.line}: {p}" if p.line else f"{self.file}: {p}" for p in self.problems]


class StartRefused(Exception):
    """The process must not start like this; the text says why and what to do."""


class DatabaseUnreachable(StartRefused):
    """The database is not there; who has served before waits for it."""


class ClientGone(BaseException):
    """The caller has hung up. Nobody is left to answer; what was used is still accounted."""
