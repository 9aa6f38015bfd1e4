"""Whatever bytes providers send, the caller gets whole HTTP: an answer, a stream with its end, or an error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.skim import MAX_STEPS

from . import replies
from .gateway import eventually
from .world import World

TIMES = 150
"""Of each kind, in one run; the same ones in every run."""

GROWTH_MB = 16.0
SEED = 20261201
TOKENS = [
    b"\r\n", b"\n", b"data:", b"{", b"}", b"[", b"]", b'"', b"\x00", b"\xff\xfe", b"0\r\n\r\n", b"[DONE]", b"NaN",
    b"1e999", b"\\ud800", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1 200 OK\r\n", b"null",
    b"-1", b"event: error\n", b"\xef\xbb\xbf", b"ffffffffffffffff\r\n", b"Content-Encoding: gzip\r\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def running_world() -> Iterator[World]:
    """With breakers that never open, so that every mutation is met."""
    world = World({"circuit_breaker": {"failure_threshold": 1_000_000}})
    yield world
    logs = world.gateway.logs()
    world.close()
    assert "Traceback" not in logs


def mutated(rng: random.Random, whole: bytes) -> bytes:
    """With one to four bytes or pieces changed, left out, put in or repeated."""
    data = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        at, how = rng.randrange(len(data)), rng.randrange(4)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at : at + rng.randint(1, 30)]
        elif how == 2:
            data[at:at] = rng.choice(TOKENS)
        else:
            start = rng.randrange(len(data))
            data[at:at] = data[start : start + rng.randint(1, 60)]
    return bytes(data)


@pytest.mark.parametrize("stream", [False, True], ids=["an answer", "a stream"])
def test_garbage_in_and_http_out(world: World, stream: bool) -> None:
    rng = random.Random(SEED)
    said = replies.stream("one", "zwölf", "three") if stream else replies.chat("zwölf")
    before, counts = resident_mb(world), {200: 0, 502: 0}

    for _ in range(TIMES):
        for provider in (world.primary, world.fallback):
            provider.script(replies.raw(mutated(rng, replies.wire(said))))
        got = world.gateway.chat(stream=stream)

        assert got.problem is None, got.raw
        counts[got.status] += 1
        if got.status == 502:
            assert got.error["attempts"], got.body
        elif stream:  # what events say is handed on as it is; that an end is told is Hermes's
            assert got.is_stream
            assert got.body.endswith(b"data: [DONE]\n\n") or b'"finish_reason":"stop"' in got.body, got.body
        else:
            assert isinstance(got.json["choices"], list)

    assert min(counts.values()) > 0, "some pass and some do not"
    assert resident_mb(world) - before < GROWTH_MB
    assert eventually(lambda: gap_and_depth(world), lambda seen: seen == [0, 0], 5) == [0, 0]


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def completion(content: bytes, more: bytes = b"") -> bytes:
    usage = b'"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'
    choice = b'{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"%s}' % (content, more)
    return b'{"id":"c1","object":"chat.completion","choices":[%s],%s}' % (choice, usage)


@pytest.mark.parametrize("form", ["messages", "prompt"])
@pytest.mark.parametrize("stream", [False, True], ids=["an answer", "a stream"])
@pytest.mark.parametrize(
    ("body", "status", "got"),
    [
        pytest.param(completion(b'"hello"', b',"logprobs":[%s0]' % (b"0," * 400_001)), 200, 200, id="many values"),
        pytest.param(completion(nested(600)), 200, 502, id="a deep text"),
        pytest.param(completion(nested(1000)).replace(b'"usage"', b'"used"'), 200, 502, id="a deep text, no usage"),
        pytest.param(completion(b'"hello"').replace(b"3", nested(1000)), 200, 502, id="deep usage"),
        pytest.param(completion(b'"hello"').replace(b'"index":0', b'"index":[0]'), 200, 200, id="an index in a list"),
        pytest.param(b'{"error":{"message":%s}}' % nested(1000), 400, 400, id="a deep error"),
        pytest.param(b'{"error":{"message":"\\ud800"}}', 400, 400, id="half a surrogate pair in an error"),
    ],
)
def test_answers_of_odd_shapes_are_no_fault_of_the_gateway(
    world: World, body: bytes, status: int, got: int, stream: bool, form: str
) -> None:
    """Neither in the form of chats nor in the legacy one."""
    world.configure(simple=[world.endpoint(world.primary)], circuit_breaker={"failure_threshold": 1_000_000})
    key = world.gateway.admin("POST", "/admin/keys", {"name": "odd", "scopes": ["gateway", "router"]}).json["key"]
    asked = {"prompt": "hi"} if form == "prompt" else {"messages": [{"role": "user", "content": "hi"}]}
    if stream:
        sent = b"data: " + body.replace(b'"message":{', b'"delta":{') + b"\n\ndata: [DONE]\n\n"
        world.primary.script(replies.sse(sent))
    else:
        head = b"HTTP/1.1 %d Said\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        world.primary.script(replies.raw(head + body))

    answer = world.gateway.request(
        "POST",
        "/v1/completions" if form == "prompt" else "/v1/chat/completions",
        {"Authorization": f"Bearer {key}", "X-Hermes-Tier": "simple"},
        {"model": "auto", "stream": stream, **asked},
        30.0,
    )

    assert answer.problem is None
    assert answer.status == (502 if stream and got == 400 else got), answer.body[:500]
    if form == "prompt" and answer.status == 200:
        assert b'"object":"text_completion"' in answer.body
        assert b'"text":"hello"' in answer.body


def test_an_answer_that_no_legacy_one_can_be_made_of_is_paid_for(world: World) -> None:
    key = world.gateway.admin("POST", "/admin/keys", {"name": "odd", "scopes": ["gateway"]}).json["key"]
    body = completion(b'"hello"').replace(b'"role"', b'"a":0,' * (MAX_STEPS + 1) + b'"role"')
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    world.primary.script(replies.raw(head + body))
    metadata = {"function_name": "paid"}

    answer = world.gateway.request(
        "POST", "/v1/completions", {"Authorization": f"Bearer {key}"}, {"prompt": "hi", "metadata": metadata}, 60.0
    )

    assert (answer.status, answer.error["code"]) == (502, "upstream_error")
    (row,) = world.gateway.usage(1, function_name="paid")
    assert (row["status"], row["total_tokens"]) == ("interrupted", 5)


def gap_and_depth(world: World) -> list[float]:
    lines = dict(line.rsplit(" ", 1) for line in world.gateway.admin("GET", "/metrics").body.decode().splitlines())
    return [float(lines[name]) for name in ("hermes_ledger_gap", "hermes_spool_depth")]


def resident_mb(world: World) -> float:
    (pid,) = world.gateway.workers()
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
