"""A stream is handed on as it is and as it comes, to any number of callers; what it used is known in any case."""

from __future__ import annotations

import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from . import replies
from .gateway import eventually
from .provider import Call
from .replies import DONE, ROLE, Reply, chunk, event, sse, stream, usage_chunk
from .world import World

ASKED: dict[str, Any] = {"stream_options": {"include_usage": True}}
BOM = b"\xef\xbb\xbf"
CALLS = [
    {"id": "t1", "type": "function", "function": {"name": "a", "arguments": '{"x":'}},
    {"id": "t2", "function": {}},
]
PRETTY = json.dumps(json.loads(chunk({"content": "!"}).removeprefix(b"data: ")), indent=1).encode()
PLAIN_PARTS = [
    b": OPENROUTER PROCESSING\n\n",
    event({"id": "", "prompt_filter_results": [{"prompt_index": 0}], "choices": []}),
    ROLE,
    b"retry: 3000\r\nid: 7\r\nevent: message\r\n" + chunk({"content": "crlf "})[:-2] + b"\r\n\r\n",
    chunk({"content": "cr "}).replace(b"\n", b"\r"),
    chunk({"content": "no space "}).replace(b"data: ", b"data:"),
    b"data: " + PRETTY.replace(b"\n", b"\ndata: ") + b"\n\n",
    chunk({"content": "안녕 \u2028\u2029\x85 😀 "}),
    b"x-vendor: 1\n:comment within\n" + chunk({"content": "é"}, x_vendor={"k": [1, None]}),
    chunk({"tool_calls": CALLS}, logprobs={"content": [{"token": "a", "bytes": [97]}]}),
    chunk({"reasoning_content": "hm", "content": None}),
    b": ping\n\n: pong\n\n",
    chunk({}, "stop"),
]
NASTY = b"".join([*PLAIN_PARTS, usage_chunk(), DONE])


BY_CHUNKS = [(1, "chunked"), (2, "chunked"), (3, "chunked"), (7, "chunked"), (64, "chunked"), (0, "chunked")]
BY_READS = [(7, "length"), (7, "close"), (0, "length"), (0, "close")]


@pytest.mark.parametrize(("split", "framing"), [*BY_CHUNKS, *BY_READS])
def test_every_byte_is_handed_on_however_it_comes(world: World, split: int, framing: Any) -> None:
    world.primary.script(sse(NASTY, split=split, framing=framing))

    got = world.gateway.chat(stream=True, **ASKED)

    assert got.body == NASTY
    assert got.problem is None
    assert got.done_count == 1
    row = world.gateway.row(got)
    assert (row["status"], row["prompt_tokens"], row["completion_tokens"]) == ("ok", 11, 7)
    assert row["usage_estimated"] in (False, 0)


@pytest.mark.parametrize("split", [1, 2, 5, 0])
def test_only_what_kills_sdks_and_what_nobody_asked_for_is_left_out(world: World, split: int) -> None:
    empty = b"data:\n\n"
    begin, end = b"".join(PLAIN_PARTS[:5]), b"".join(PLAIN_PARTS[5:])
    world.primary.script(sse(BOM + empty + begin + b"data: \n\n" + empty + end + usage_chunk() + DONE, split=split))

    got = world.gateway.chat(stream=True)

    assert got.body == begin + end + DONE
    assert world.primary.calls[0].json["stream_options"] == {"include_usage": True}
    assert world.gateway.row(got)["completion_tokens"] == 7


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_an_event_is_passed_on_the_moment_it_is_complete(world: World, framing: Any) -> None:
    world.primary.script(stream("t0", "t1", "t2", "t3", every_s=0.15, framing=framing))

    got = world.gateway.chat(stream=True, headers={"Accept-Encoding": "gzip"})

    sent_at = world.primary.calls[0].sent_at[2:6]
    delays = [got.arrived_at(f'"t{n}"'.encode()) - moment for n, moment in enumerate(sent_at)]
    assert max(delays) < 0.1
    assert got.headers["content-type"].startswith("text/event-stream")
    assert "no-cache" in got.headers["cache-control"]
    assert got.headers["x-accel-buffering"] == "no"
    assert not {"content-length", "content-encoding"} & set(got.headers)


def test_a_packed_stream_is_unpacked_event_by_event(world: World) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in (*PLAIN_PARTS, usage_chunk() + DONE)]
    headers = {**replies.EVENT_STREAM, "Content-Encoding": "gzip"}
    parts = [(0.03, part) for part in [*packed, packer.flush()]]
    world.primary.script(replies.in_pieces(parts, headers=headers))

    got = world.gateway.chat(stream=True, **ASKED)

    assert got.body == NASTY
    assert "content-encoding" not in got.headers
    assert len(got.arrivals) >= len(PLAIN_PARTS) - 3


def test_an_event_of_a_megabyte_goes_through(world: World) -> None:
    picture = chunk({"images": [{"image_url": {"url": "data:image/png;base64," + "iVBO" * 300_000}}]})
    world.primary.script(sse(picture + chunk({}, "stop") + DONE, split=50_000))

    got = world.gateway.chat(stream=True)

    assert got.body == picture + chunk({}, "stop") + DONE


def test_a_slow_reader_slows_its_provider_instead_of_filling_the_memory(world: World) -> None:
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(replies.endless_stream("x" * 60_000, every_s=0.0))
    exchange = world.gateway.open_chat(stream=True)
    exchange.read_until(b"xxx")

    def sent() -> int:
        before = len(world.primary.calls[0].sent)
        time.sleep(0.1)
        return len(world.primary.calls[0].sent) - before

    assert eventually(sent, lambda more: more == 0) == 0, "the provider has to wait"
    assert len(world.primary.calls[0].sent) < 40_000_000
    exchange.vanish()
    assert eventually(lambda: world.primary.calls_under_way, lambda n: n == 0, within_s=1) == 0


def test_answers_are_never_mixed_up(world: World) -> None:
    """Many at once, some of whom leave: everybody else gets their own words, whole."""

    def echo(call: Call) -> Reply:
        said = call.json["messages"][0]["content"]
        return stream(*[f"{said} "] * 20, every_s=0.005) if call.json.get("stream") else replies.chat(f"{said} " * 20)

    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(echo)

    def ask(number: int) -> None:
        if number % 5 == 0:
            with world.gateway.open_chat(f"left-{number}", stream=True) as exchange:
                exchange.read_until(b"left")
                exchange.vanish("rst")
        else:
            got = world.gateway.chat(f"mine-{number}", stream=number % 2 == 0)
            assert (got.status, got.problem, got.text) == (200, None, f"mine-{number} " * 20)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(ask, range(100)))
