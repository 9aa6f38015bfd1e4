"""What `doctor` asks over the network: every endpoint for one token with each of its keys, and the running server.

All at once, each in a thread of its own: the slowest one settles how long it takes. Nothing of the environment is
trusted (a proxy or a `.netrc` would replace the provider's key), redirects are not followed, and the authorities are
those that the server trusts: the system's and Mozilla's.
"""

from __future__ import annotations

import errno
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import orjson
import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, NameResolutionError

from hermes.cli.findings import Finding, Level
from hermes.cli.start import Start
from hermes.observe.redact import Redactor
from hermes.policy import Policy
from hermes.types import Endpoint, ProviderKey
from hermes.upstream.outcome import ProviderError

QUESTION: Final = {"messages": [{"role": "user", "content": "Say yes."}]}
READ_BYTES_MAX: Final = 256 * 1024
NEWER_LIMIT_TOKENS: Final = 16
"""Models that know `max_completion_tokens` only are no friends of a single token either."""

KEY_REFUSED: Final = (401, 403)
CALLERS: Final = (400, 413, 422)

Said = tuple[Level, str, str]
"""Level, what was seen, what to do."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """One question to one endpoint with one key."""

    endpoint: Endpoint
    key: ProviderKey | None
    places: tuple[str, ...]
    """Where the endpoint is used: `simple`, `complex fallback 1`, `teacher`."""

    @property
    def name(self) -> str:
        several = f", {self.key.env}" if self.key is not None and len(self.endpoint.keys) > 1 else ""
        return f"{self.endpoint.id} ({', '.join(self.places)}{several})"


def examine(start: Start, *, is_offline: bool, timeout_s: float) -> list[Finding]:
    """A finding for each endpoint and key, the teacher's included."""
    policy = start.policy
    if policy is None:
        why = (
            "they are the embedded demo provider's" if start.settings.wants_demo() else "the configuration comes first"
        )
        return [Finding("endpoints", "skip", why)]
    if is_offline:
        return [Finding("endpoints", "skip", "not asked (--offline)")]
    probes = list(_probes(policy))
    redactor = Redactor(policy.secrets)
    answers = _at_once([partial(_ask, probe, timeout_s, redactor) for probe in probes], 4 * timeout_s)
    return [
        Finding("endpoint", level, f"{probe.name}: {seen}", fix)
        for probe, (level, seen, fix) in zip(probes, answers, strict=True)
    ]


def running_server(start: Start, timeout_s: float) -> Finding:
    """What a server that runs at the configured address says of itself."""
    if start.bind.startswith(("unix:", "/", "fd://")):
        return Finding("server", "skip", f"it listens on {start.bind}, which is not looked at")
    try:
        status, body = _request("GET", f"{start.url}/health/ready", {}, None, timeout_s)
    except requests.ConnectionError:
        return Finding("server", "skip", f"none runs at {start.url}")
    except requests.RequestException as error:
        return Finding("server", "warn", f"what listens at {start.url} does not answer: {type(error).__name__}")
    checks = _json(body)
    if not isinstance(checks, dict) or "status" not in checks:
        return Finding(
            "server",
            "warn",
            f"another program listens at {start.url}",
            "end it, or let Hermes listen elsewhere: server.port or HERMES_BIND",
        )
    if status == 200:
        return Finding("server", "ok", f"runs at {start.url} and is ready")
    amiss = [f"{name}: {state}" for name, state in checks.items() if name != "status" and state != "ok"]
    return Finding("server", "fail", f"runs at {start.url} and is not ready ({'; '.join(amiss)})", "see its log")


def _probes(policy: Policy) -> Iterator[_Probe]:
    """One for each endpoint that is another one, wherever it stands, and for each of its keys."""
    endpoints: dict[object, Endpoint] = {}
    places: dict[object, list[str]] = {}
    for endpoint, place in _places(policy):
        asked_alike: object = (endpoint.id, endpoint.base_url, endpoint.keys, endpoint.headers)
        endpoints.setdefault(asked_alike, endpoint)
        places.setdefault(asked_alike, []).append(place)
    for asked_alike, endpoint in endpoints.items():
        for key in endpoint.keys or (None,):
            yield _Probe(endpoint, key, tuple(places[asked_alike]))


def _places(policy: Policy) -> Iterator[tuple[Endpoint, str]]:
    for tier, cascade in policy.cascades.items():
        for level, endpoint in enumerate(cascade.endpoints):
            yield endpoint, f"{tier} fallback {level}" if level else tier
    if policy.routing.teacher is not None:
        yield policy.routing.teacher.endpoint, "teacher"


def _at_once(questions: Sequence[Callable[[], Said]], limit_s: float) -> list[Said]:
    """All answers in their order. Threads that are still busy at the end of the time are left to die with the process:
    looking up a name knows no timeout.
    """
    answers: list[Said] = [("fail", f"no answer within {limit_s:g} s", "check the host in base_url")] * len(questions)

    def run(number: int) -> None:
        answers[number] = questions[number]()

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(questions))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return list(answers)


def _ask(probe: _Probe, timeout_s: float, redactor: Redactor) -> Said:
    endpoint = probe.endpoint
    if endpoint.needs_key and probe.key is None:
        return "warn", "not asked, as it has no key", "set the variable that the configuration names"
    began = time.monotonic()
    try:
        status, body = _complete(probe, {"max_tokens": 1}, timeout_s)
        error = ProviderError.read(body)
        if status in CALLERS and "max_completion_tokens" in error.message:
            status, body = _complete(probe, {"max_completion_tokens": NEWER_LIMIT_TOKENS}, timeout_s)
            error = ProviderError.read(body)
    except (OSError, ValueError, HTTPError) as trouble:
        return "fail", *told(trouble, timeout_s)
    if status == 200 and _is_answer(_json(body)):
        return "ok", f"answers in {(time.monotonic() - began) * 1000:.0f} ms", ""
    return judged(status, redactor.public_message(error.message), probe.key.env if probe.key else "")


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


def _complete(probe: _Probe, limit: dict[str, int], timeout_s: float) -> tuple[int, bytes]:
    endpoint = probe.endpoint
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if probe.key is not None:
        headers["Authorization"] = f"Bearer {probe.key.value.reveal()}"
    own = {name.lower() for name, _ in endpoint.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in own}
    headers |= {name: value.reveal() for name, value in endpoint.headers}
    body = orjson.dumps({"model": endpoint.model, **QUESTION, **limit})
    has_own = any(name.lower() == "authorization" for name in headers)
    return _request("POST", address(endpoint.base_url, keep_user=not has_own), headers, body, timeout_s)


def address(base_url: str, *, keep_user: bool) -> str:
    """Where completions are asked for. A key goes before the URL's user, as in the server; the library has it reversed.

    >>> address("https://me:pw@host/v1?api-version=7", keep_user=False)
    'https://host/v1/chat/completions?api-version=7'
    """
    url = urlsplit(base_url)
    place = url.netloc if keep_user else url.netloc.rpartition("@")[2]
    return urlunsplit((url.scheme, place, f"{url.path.rstrip('/')}/chat/completions", url.query, ""))


def _request(method: str, url: str, headers: dict[str, str], body: bytes | None, timeout_s: float) -> tuple[int, bytes]:
    """Status and body, which is cut at 256 KiB.

    Raises:
        requests.RequestException, ValueError: there is no answer, or none in time.
    """
    until = time.monotonic() + timeout_s
    with requests.Session() as session:
        session.trust_env = False
        session.mount("https://", _SystemTrust())
        response = session.request(
            method, url, headers=headers, data=body, timeout=timeout_s, allow_redirects=False, stream=True
        )
        read = bytearray()
        for piece in response.iter_content(None):
            read += piece
            if time.monotonic() > until:
                raise requests.ReadTimeout
            if len(read) >= READ_BYTES_MAX:
                break
        return response.status_code, bytes(read)


class _SystemTrust(HTTPAdapter):
    """Trusts the system's authorities; `requests` adds Mozilla's."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=ssl.create_default_context(), **kwargs)


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


def _is_answer(whole: Any) -> bool:
    return isinstance(whole, dict) and bool(whole.get("choices")) and not whole.get("error")


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
