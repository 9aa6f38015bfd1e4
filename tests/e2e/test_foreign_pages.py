"""No answer becomes a page of this server in a browser, whatever a provider calls it; no foreign form is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import replies
from .gateway import ADMIN_KEY, CHAT, Gateway
from .provider import Provider
from .test_refusals import raw
from .world import World

PAGE = "<script>steal()</script>"
APP = "https://app.example"
EVIL = "https://evil.example"
FORM_TYPES = ["text/plain", "text/plain;charset=UTF-8", "Application/X-WWW-Form-Urlencoded", "multipart/form-data", ""]
REQUEST = b'{"messages":[{"role":"user","content":"hi"}]}'
ROUTES = ["/", "/health", "/v1/models", "/api/v1/models", "/metrics", "/circuits", "/openapi.json", "/nowhere"]
FAULTS = [b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", b"GET /health HTTP/1.1\r\n\r\n"]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def named(provider: Provider) -> Iterator[Gateway]:
    """A gateway that only pages of one origin may call."""
    plain = {"model": "m", "base_url": provider.base_url, "api_key_env": ""}
    config = {"models": {"simple": {"endpoints": [plain]}, "complex": {"endpoints": [plain]}}}
    gateway = Gateway.start(config, {"CORS_ORIGINS": APP})
    yield gateway
    gateway.stop()


def is_guarded(headers: dict[str, str]) -> bool:
    """Whether a browser runs nothing that is in such an answer."""
    policy = headers.get("content-security-policy", "")
    return headers.get("x-content-type-options") == "nosniff" and "default-src 'none'" in policy


@pytest.mark.parametrize(
    "said", ["text/html", "text/html; charset=utf-8", "image/svg+xml", "application/json, text/html"]
)
@pytest.mark.parametrize("status", [200, 400])
def test_a_whole_answer_is_json_whatever_its_provider_calls_it(world: World, said: str, status: int) -> None:
    whole = replies.completion(PAGE) if status == 200 else {"error": {"message": PAGE}}
    world.primary.script(replies.answer(status, whole, headers={"Content-Type": said}))

    got = world.gateway.chat()

    assert (got.status, got.headers["content-type"]) == (status, "application/json")
    assert is_guarded(got.headers)


def test_a_stream_is_called_what_it_is(world: World) -> None:
    said = {"Content-Type": "text/event-stream; x=<script>"}
    world.primary.script(
        replies.in_pieces([(0.0, replies.chunk({"content": "a"}, "stop") + replies.DONE)], headers=said)
    )

    got = world.gateway.chat(stream=True)

    assert (got.status, got.headers["content-type"]) == (200, "text/event-stream")
    assert is_guarded(got.headers)


def test_what_only_begins_like_the_name_of_an_event_stream_is_none(world: World) -> None:
    said = {"Content-Type": "text/event-stream-not"}
    world.primary.script(
        replies.in_pieces([(0.0, replies.chunk({"content": "a"}, "stop") + replies.DONE)], headers=said)
    )
    world.fallback.script(replies.stream("b"))

    assert world.gateway.chat(stream=True).text == "b"


@pytest.mark.parametrize("path", ROUTES)
def test_no_route_gives_a_browser_something_to_guess(world: World, path: str) -> None:
    for headers in ({}, {"Authorization": f"Bearer {ADMIN_KEY}"}):
        got = world.gateway.request("GET", path, headers)

        assert is_guarded(got.headers), got.headers


@pytest.mark.parametrize("fault", FAULTS, ids=["no version", "no host"])
def test_nor_does_what_is_no_request(world: World, fault: bytes) -> None:
    head = raw(world, fault[:-2] + b"Connection: close\r\n\r\n").partition(b"\r\n\r\n")[0].decode()

    assert is_guarded({name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n"))})


@pytest.mark.parametrize("media_type", FORM_TYPES)
def test_a_form_of_another_origin_is_refused(named: Gateway, provider: Provider, media_type: str) -> None:
    provider.script(replies.chat())
    for origin in (EVIL, "null"):
        got = named.request("POST", CHAT, {"Origin": origin, "Content-Type": media_type}, REQUEST)

        assert (got.status, got.error["code"]) == (403, "origin_not_allowed")
        assert is_guarded(got.headers)
    assert provider.calls == []


def test_a_form_is_refused_where_any_page_may_call(world: World) -> None:
    """A browser says that it will show the answer as a page."""
    headers = {"Origin": EVIL, "Content-Type": "text/plain", "Sec-Fetch-Mode": "navigate"}

    assert world.gateway.request("POST", CHAT, headers, REQUEST).status == 403
    assert world.calls() == []


def test_who_is_no_foreign_page_may_send_any_type(named: Gateway, provider: Provider) -> None:
    provider.script(replies.chat())
    own = f"http://127.0.0.1:{named.port}"
    form, json = "application/x-www-form-urlencoded", "application/json"
    senders = [{"Content-Type": form}, {"Content-Type": json, "Origin": EVIL}]
    senders += [{"Content-Type": form, "Origin": origin} for origin in (APP, own)]

    assert [named.request("POST", CHAT, headers, REQUEST).status for headers in senders] == [200] * 4
