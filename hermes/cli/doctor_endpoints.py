"""What `doctor` asks over the network: every endpoint for one token with each of its keys, and the running server.

All at once, each in a thread of its own: the slowest one settles how long it takes. Nothing of the environment is
trusted (a proxy or a `.netrc` would replace the provider's key), redirects are not followed, and the authorities are
those that the server trusts: the system's and Mozilla's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
import requests
from urllib3.exceptions import HTTPError

from hermes.cli.doctor_words import CALLERS, Said, judged, told
from hermes.cli.findings import Finding
from hermes.cli.start import Start
from hermes.observe.redact import Redactor
from hermes.policy import Policy
from hermes.types import Endpoint, ProviderKey
from hermes.upstream.cold import address, new_session
from hermes.upstream.outcome import ProviderError

EMBEDDER: Final = "embedder"
QUESTION: Final = {"messages": [{"role": "user", "content": "Say yes."}]}
TO_EMBED: Final = {"input": "yes"}
READ_BYTES_MAX: Final = 256 * 1024
LIST_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of a list of models; those who sell hundreds of them describe each at length."""

NEWER_LIMIT_TOKENS: Final = 16
"""Models that know `max_completion_tokens` only are no friends of a single token either."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """One question to one endpoint with one key."""

    endpoint: Endpoint
    key: ProviderKey | None
    places: tuple[str, ...]
    """Where the endpoint is used: `simple`, `complex fallback 1`, `teacher`, `embedder`."""

    @property
    def is_embedder(self) -> bool:
        """Whether it is asked for an embedding instead of a token."""
        return EMBEDDER in self.places

    @property
    def name(self) -> str:
        several = f", {self.key.env}" if self.key is not None and len(self.endpoint.keys) > 1 else ""
        return f"{self.endpoint.id} ({', '.join(self.places)}{several})"


def examine(start: Start, *, is_offline: bool, timeout_s: float) -> list[Finding]:
    """A finding for each endpoint and key, the teacher's and the embedder's included."""
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
    answers = at_once([partial(_ask, probe, timeout_s, redactor) for probe in probes], 4 * timeout_s)
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
        asked_alike: object = (endpoint.id, endpoint.base_url, endpoint.keys, endpoint.headers, place == EMBEDDER)
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
    if policy.embedder is not None:
        yield policy.embedder, EMBEDDER


def at_once(
    questions: Sequence[Callable[[], Said]], limit_s: float, fix: str = "check the host in base_url"
) -> list[Said]:
    """All answers in their order. Threads that are still busy at the end of the time are left to die with the process:
    looking up a name knows no timeout.

    Args:
        fix: what to do about one that is not there in time.
    """
    answers: list[Said] = [("fail", f"no answer within {limit_s:g} s", fix)] * len(questions)

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
        status, body = _answer(probe, TO_EMBED if probe.is_embedder else {**QUESTION, "max_tokens": 1}, timeout_s)
        error = ProviderError.read(body)
        if status in CALLERS and "max_completion_tokens" in error.message:
            status, body = _answer(probe, {**QUESTION, "max_completion_tokens": NEWER_LIMIT_TOKENS}, timeout_s)
            error = ProviderError.read(body)
    except (OSError, ValueError, HTTPError) as trouble:
        return "fail", *told(trouble, timeout_s)
    if status == 200 and _is_answer(_json(body), "data" if probe.is_embedder else "choices"):
        return "ok", f"answers in {(time.monotonic() - began) * 1000:.0f} ms", ""
    return judged(status, redactor.public_message(error.message), probe.key.env if probe.key else "")


def _answer(probe: _Probe, question: dict[str, Any], timeout_s: float) -> tuple[int, bytes]:
    body = orjson.dumps({"model": probe.endpoint.model, **question})
    route = "embeddings" if probe.is_embedder else "chat/completions"
    return _call(probe.endpoint, probe.key, "POST", route, body, timeout_s)


def models(endpoint: Endpoint, key: ProviderKey | None, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of what an endpoint's provider says of its models, which costs nothing.

    Raises:
        requests.RequestException, ValueError: there is no answer, or none in time.
    """
    return _call(endpoint, key, "GET", "models", None, timeout_s, LIST_BYTES_MAX)


def _call(
    endpoint: Endpoint,
    key: ProviderKey | None,
    method: str,
    route: str,
    body: bytes | None,
    timeout_s: float,
    most_bytes: int = READ_BYTES_MAX,
) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key.value.reveal()}"
    own = {name.lower() for name, _ in endpoint.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in own}
    headers |= {name: value.reveal() for name, value in endpoint.headers}
    has_own = any(name.lower() == "authorization" for name in headers)
    url = address(endpoint.base_url, route, keep_user=not has_own)
    return _request(method, url, headers, body, timeout_s, most_bytes)


def _request(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes | None,
    timeout_s: float,
    most_bytes: int = READ_BYTES_MAX,
) -> tuple[int, bytes]:
    """Status and body, of which no more is read than is wanted.

    Raises:
        requests.RequestException, ValueError: there is no answer, or none in time.
    """
    until = time.monotonic() + timeout_s
    with new_session() as session:
        response = session.request(
            method, url, headers=headers, data=body, timeout=timeout_s, allow_redirects=False, stream=True
        )
        read = bytearray()
        for piece in response.iter_content(None):
            read += piece
            if time.monotonic() > until:
                raise requests.ReadTimeout
            if len(read) >= most_bytes:
                break
        return response.status_code, bytes(read)


def _is_answer(whole: Any, member: str) -> bool:
    return isinstance(whole, dict) and bool(whole.get(member)) and not whole.get("error")


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
