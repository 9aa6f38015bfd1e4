"""The operator's own system text goes with every call of the gateway contract, and with no other."""

from __future__ import annotations

from typing import Any

import pytest

from . import replies
from .client import Answer
from .replies import chat, completion
from .world import World

VOICE = "You speak for the house."
VOICED = {"role": "system", "content": VOICE}
METADATA = {"functionName": "ai-assistant"}
HI = {"role": "user", "content": "hi there"}


@pytest.fixture(scope="module")
def key(running_world: World) -> str:
    made = running_world.gateway.admin("POST", "/admin/keys", {"name": "f", "scopes": ["gateway", "router"]})
    return str(made.json["key"])


def with_voice(world: World, voice: str = VOICE, **changes: Any) -> None:
    world.configure(gateway={"roles": {"chat": "simple", "reasoning": "complex"}, "house_voice": voice}, **changes)


def complete(world: World, key: str, path: str = "/v1/completions", **body: Any) -> Answer:
    return world.gateway.request("POST", path, {"Authorization": f"Bearer {key}"}, {"metadata": METADATA, **body})


def messages_sent(world: World) -> list[Any]:
    return [call.json["messages"] for provider in world.providers for call in provider.calls]


@pytest.mark.parametrize(
    ("path", "body", "after"),
    [
        pytest.param("/v1/completions", {"messages": [HI]}, [HI], id="a whole answer"),
        pytest.param("/v1/completions", {"messages": [HI], "stream": True}, [HI], id="a stream by the body"),
        pytest.param("/v1/completions/stream", {"messages": [HI]}, [HI], id="a stream by the route"),
        pytest.param("/api/v1/completions", {"messages": [HI]}, [HI], id="by the other address"),
        pytest.param("/v1/completions", {"prompt": "hi there"}, [HI], id="a prompt"),
        pytest.param("/v1/completions/stream", {"prompt": "hi there"}, [HI], id="a prompt, streamed"),
        pytest.param("/v1/completions", {"messages": [HI], "role": "reasoning"}, [HI], id="the other role"),
        pytest.param(
            "/v1/completions",
            {"messages": [{"role": "system", "content": "Be brief."}, HI]},
            [{"role": "system", "content": "Be brief."}, HI],
            id="before the caller's own system message",
        ),
    ],
)
def test_it_is_the_first_message(world: World, key: str, path: str, body: dict[str, Any], after: list[Any]) -> None:
    with_voice(world)
    for provider in (world.primary, world.lone):
        provider.script(replies.stream("ok").only(has="stream"), chat("ok"))

    assert complete(world, key, path, **body).status == 200

    assert messages_sent(world) == [[VOICED, *after]]


def test_every_attempt_has_it(world: World, key: str) -> None:
    with_voice(world)
    world.primary.script(replies.error(500))

    assert complete(world, key, messages=[HI]).status == 200

    assert messages_sent(world) == [[VOICED, HI]] * 2


@pytest.mark.parametrize("model", ["auto", "simple", "chat"])
def test_the_router_s_own_route_does_not_have_it(world: World, key: str, model: str) -> None:
    with_voice(world)

    got = world.gateway.chat(model=model, headers={"Authorization": f"Bearer {key}"}, tier=None)

    assert got.status == 200
    assert messages_sent(world) == [[{"role": "user", "content": "hello"}]]


def test_a_reload_changes_it(world: World, key: str) -> None:
    for voice in ("One.", "Two.", ""):
        with_voice(world, voice)
        complete(world, key, messages=[HI])

    assert messages_sent(world) == [
        [{"role": "system", "content": "One."}, HI],
        [{"role": "system", "content": "Two."}, HI],
        [HI],
    ]


def test_its_tokens_count_and_its_text_is_nobodys_preview(world: World, key: str) -> None:
    """As it is sent, it is paid for; but the user has not said it."""
    world.primary.script(replies.answer(200, {**completion("ok"), "usage": None}))
    rows = []
    for voice in ("", VOICE * 200):
        with_voice(world, voice)
        rows.append(world.gateway.row(complete(world, key, messages=[HI])))

    plain, voiced = rows
    assert voiced["usage_estimated"]
    assert voiced["prompt_tokens"] > plain["prompt_tokens"] + 500
    assert plain["prompt_preview"] == voiced["prompt_preview"] == "hi there"


def test_an_endpoint_whose_window_it_does_not_fit_is_passed_over(world: World, key: str) -> None:
    small = world.endpoint(world.primary, context_window=200)
    with_voice(world, VOICE * 200, simple=[small, world.endpoint(world.fallback)])

    got = complete(world, key, messages=[HI])

    assert (got.status, world.calls()) == (200, ["fallback"])
