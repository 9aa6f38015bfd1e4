"""What `doctor` says of an endpoint that does not answer as it should: what was seen, and what to do. Pure."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from typing import Final

import requests
from urllib3.exceptions import NameResolutionError

from hermes.cli.findings import Level

KEY_REFUSED: Final = (401, 403)
CALLERS: Final = (400, 413, 422)

Said = tuple[Level, str, str]
"""Level, what was seen, what to do."""


def judged(status: int, message: str, key_env: str) -> Said:
    """What an answer that is no completion means. Pure: one table, one test."""
    said = f"it answers {status}{f': {message}' if message else ''}"
    table: dict[int, Said] = {
        200: (
            "fail",
            "it answers 200, but with no completion",
            "see that base_url is an API's address, often with /v1",
        ),
        402: ("fail", said, "pay the provider"),
        404: ("fail", said, "compare model and base_url with the provider's documentation; Hermes adds no /v1"),
        405: ("fail", said, "see that base_url is an API's address, often with /v1"),
        429: ("warn", said, "wait, or ask the provider for more"),
    }
    if status in table:
        return table[status]
    if status in KEY_REFUSED:
        key = f"put a valid key into {key_env}" if key_env else "name the variable of a key in api_key_env"
        return "fail", f"{said}; the key is not accepted", key
    if status in CALLERS:
        return "warn", f"it can be reached, but {said.removeprefix('it ')}", "see that it knows the model"
    if 300 <= status < 400:
        return "fail", f"{said}, a redirect, which is not followed", "write the address that it leads to into base_url"
    return "fail", said, "see the provider's status page, and try again" if status >= 500 else "ask the provider"


def told(error: Exception, timeout_s: float) -> tuple[str, str]:
    """Why there was no answer, and what to do; in words that hold no address and no secret."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not accepted ({cause.verify_message})",
                "see that base_url has the host's right name; an authority of your own belongs into the system's store",
            )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return "no TLS connection comes about", "write http:// into base_url where the endpoint speaks no TLS"
    if any(isinstance(cause, NameResolutionError) for cause in causes):
        return "its host's name is not known here (DNS)", "check the host in base_url, and this machine's name service"
    if isinstance(error, requests.ConnectTimeout):
        return f"it accepts no connection within {timeout_s:g} s", "check host and port in base_url, and the firewall"
    if isinstance(error, requests.Timeout):
        return (
            f"it says nothing for {timeout_s:g} s",
            "where a model of your own is still being loaded, ask again, or with --timeout 60",
        )
    numbers = {cause.errno for cause in causes if isinstance(cause, OSError)}
    if errno.ECONNREFUSED in numbers:
        return "the connection is refused: nothing listens there", "start the provider, or check the port in base_url"
    if numbers & {errno.ENETUNREACH, errno.EHOSTUNREACH}:
        return "no way leads there", "check this machine's network, and the host in base_url"
    if isinstance(error, requests.ConnectionError):
        return "the connection was lost before an answer", "check the provider's log, and the port in base_url"
    return f"it cannot be asked: {type(error).__name__}", "check base_url"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all that it was made of."""
    waiting, seen = [error], set()
    while waiting:
        cause = waiting.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        inner = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
        waiting.extend(part for part in inner if isinstance(part, BaseException))
