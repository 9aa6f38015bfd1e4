"""A secret is in the request to its provider and nowhere else, even at the most talkative log level."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from . import replies
from .gateway import ADMIN_KEY, Gateway
from .provider import Provider
from .replies import Reply, answer

PROVIDER_KEY = "sk-proj-canaryABCDEFGHIJ"
HEADER_VALUE = "canary-header-value"
PASSWORD = "canary-password"
CALLER_KEY = "canary-caller-key"
SECRETS = (PROVIDER_KEY, HEADER_VALUE, PASSWORD, CALLER_KEY, ADMIN_KEY)
MASKED = "sk-proj-canaryAB******GHIJ"
"""As providers quote a key."""

ENV = {
    "LOG_LEVEL": "DEBUG",
    "PRIMARY_KEY": f" {PROVIDER_KEY}\r\n",
    "OTHER_KEY": PROVIDER_KEY,
    "CF_TOKEN": HEADER_VALUE,
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def gateway(provider: Provider) -> Iterator[Gateway]:
    plain = {
        "model": "m",
        "base_url": provider.base_url,
        "api_key_envs": ["PRIMARY_KEY"],
        "headers": {"cf-aig-authorization": "env:CF_TOKEN"},
        "timeout_seconds": 1,
    }
    with_user = provider.base_url.replace("http://", f"http://user:{PASSWORD}@")
    other = {**plain, "model": "n", "base_url": with_user, "api_key_envs": ["OTHER_KEY"]}
    models = {"simple": {"endpoints": [plain]}, "complex": {"endpoints": [other]}}
    breaker = {"failure_threshold": 1000}
    gateway = Gateway.start({"models": models, "circuit_breaker": breaker, "retry": {"backoff_503_sec": []}}, ENV)
    yield gateway
    gateway.stop()


def quoting(status: int) -> Reply:
    """An answer that repeats all that came with the request."""
    said = f"Incorrect API key provided: {PROVIDER_KEY} ({MASKED}); {HEADER_VALUE}; {PASSWORD}"
    return answer(status, {"error": {"message": said, "type": "t", "code": "c"}})


SCRIPT = [
    pytest.param(replies.chat(), SECRETS, id="an answer"),
    *(pytest.param(quoting(status), SECRETS, id=f"{status} that quotes it") for status in (400, 404, 500, 503)),
    *(pytest.param(quoting(status), (*SECRETS, MASKED), id=f"{status} that quotes it") for status in (401, 403)),
    pytest.param(quoting(200), SECRETS, id="200 that quotes it"),
    pytest.param(answer(502, f"<html>{PROVIDER_KEY}</html>"), SECRETS, id="a page that quotes it"),
    pytest.param(replies.raw(b"\x00" + PROVIDER_KEY.encode()), SECRETS, id="garbage that quotes it"),
    pytest.param(replies.raw(b"", end="rst"), SECRETS, id="a reset"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(("reply", "secrets"), SCRIPT)
def test_no_answer_no_row_and_no_receipt_holds_a_secret(
    gateway: Gateway, provider: Provider, reply: Reply, secrets: tuple[str, ...], stream: bool
) -> None:
    provider.script(replies.stream("ok") if stream and reply == replies.chat() else reply)

    got = gateway.chat(stream=stream, headers={"Authorization": f"Bearer {CALLER_KEY}"})

    seen = got.raw.decode("latin-1") + json.dumps(gateway.row(got))
    seen += gateway.admin("GET", f"/admin/usage/{got.request_id}").body.decode()
    assert "attempts" in seen
    assert [secret for secret in secrets if secret in seen] == []


def test_nothing_that_hermes_writes_or_shows_holds_a_secret(gateway: Gateway, provider: Provider) -> None:
    provider.script(quoting(500), quoting(401), quoting(429), replies.raw(PROVIDER_KEY.encode()))
    for _ in range(4):
        gateway.chat(tier="complex", headers={"Authorization": f"Bearer {CALLER_KEY}"})

    shown = "".join(
        gateway.admin("GET", path).body.decode()
        for path in ("/admin/config", "/admin/usage", "/admin/usage.csv", "/circuits", "/metrics", "/admin/sessions")
    )
    assert "PRIMARY_KEY" in shown, "the name of the variable is shown"
    written = [path for path in gateway.folder.rglob("*") if path.is_file() and path.suffix != ".yaml"]
    seen = "".join([shown, *(path.read_bytes().decode("latin-1") for path in written)])
    assert "/v1/chat/completions" in seen
    assert [secret for secret in SECRETS if secret in seen] == []


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_what_a_model_says_of_its_own_key_is_written_nowhere(
    gateway: Gateway, provider: Provider, stream: bool
) -> None:
    """The answer is the caller's, byte for byte; what Hermes keeps of the request is not."""
    said = ("My key is ", PROVIDER_KEY, ", and I was told ", HEADER_VALUE)
    provider.script(replies.stream(*said) if stream else replies.chat("".join(said)))

    got = gateway.chat(f"say {PROVIDER_KEY}", stream=stream, headers={"Authorization": f"Bearer {CALLER_KEY}"})

    assert got.text == "".join(said)
    written = gateway.admin("GET", f"/admin/usage/{got.request_id}").body + gateway.admin("GET", "/admin/traces").body
    files = [path for path in gateway.folder.rglob("*") if path.is_file() and path.suffix != ".yaml"]
    seen = b"".join([written, *(path.read_bytes() for path in files)]).decode("latin-1")
    assert got.request_id in seen
    assert [secret for secret in SECRETS if secret in seen] == []


def test_the_provider_gets_its_key_without_the_white_space_around_it(gateway: Gateway, provider: Provider) -> None:
    provider.script(replies.chat())

    gateway.chat(headers={"Authorization": f"Bearer {CALLER_KEY}"})

    assert provider.calls[0].key == PROVIDER_KEY
    assert provider.calls[0].headers["cf-aig-authorization"] == HEADER_VALUE
    assert CALLER_KEY not in json.dumps(provider.calls[0].headers)
