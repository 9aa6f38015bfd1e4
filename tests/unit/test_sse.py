"""Where events end, whatever the line ends and wherever the network cuts."""

from __future__ import annotations

import collections
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.upstream import sse
from hermes.upstream.sse import EventSplitter, EventTooLarge, data_of, name_of, split


def fed(chunks: list[bytes]) -> tuple[bytes, list[bytes], bytes]:
    """All that comes out, the blocks one by one, and what is left."""
    splitter = EventSplitter()
    blocks = [block for chunk in chunks if (block := splitter.feed(chunk))]
    return b"".join(blocks), blocks, splitter.torso


STREAMS = [
    pytest.param(b"data: 1\n\ndata: 2\n\n", id="LF"),
    pytest.param(b"data: 1\r\n\r\ndata: 2\r\n\r\n", id="CRLF"),
    pytest.param(b"data: 1\r\rdata: 2\r\r", id="CR"),
    pytest.param(b"data: 1\n\r\ndata: 2\r\n\n", id="mixed"),
    pytest.param(b": c\n\nid: 7\nevent: x\ndata: {\ndata: }\n\n\n\ndata: 2\n\n", id="fields, comments, blank lines"),
    pytest.param("data: a\u2028b\u0085c\n\ndata: 안녕\n\n".encode(), id="unicode line ends are ordinary"),
]


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_every_byte_comes_out_whole_wherever_the_network_cuts(stream: bytes, size: int) -> None:
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]

    out, _, torso = fed(chunks)

    assert out + torso == stream
    assert not torso.strip(b"\r\n")


@given(st.lists(st.sampled_from([b"\r\n", b"\n", b"\r", b"data: x", b"data:", b": c"]), max_size=30), st.data())
def test_cuts_change_nothing_about_which_data_is_seen(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts) + b"\n\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    whole, _, _ = fed([stream])
    cut, _, _ = fed([chunk for chunk in chunks if chunk])

    def seen(block: bytes) -> list[bytes]:
        return [found for event in split(block) if (found := data_of(event)) is not None]

    assert seen(whole) == seen(cut)


def test_an_event_is_passed_on_the_moment_its_blank_line_is_there() -> None:
    splitter = EventSplitter()

    assert splitter.feed(b"data: 1\r\n") == b""
    assert splitter.feed(b"\r") == b"data: 1\r\n\r"
    assert splitter.feed(b"\ndata: 2\r\n\r\n") == b"\ndata: 2\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_one_leading_byte_order_mark_is_taken_away(size: int) -> None:
    stream = sse.BOM + b"data: 1\n\n" + b"data: \xef\xbb\xbf\n\n"

    out, _, _ = fed([stream[at : at + size] for at in range(0, len(stream), size)])

    assert out == b"data: 1\n\ndata: \xef\xbb\xbf\n\n"


def test_an_event_without_an_end_is_refused_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    splitter = EventSplitter()
    splitter.feed(b"data: " + b"x" * 900)

    with pytest.raises(EventTooLarge):
        splitter.feed(b"y" * 200)


@pytest.mark.parametrize(
    ("event", "data", "name"),
    [
        pytest.param(b"data:1\n\n", b"1", b"", id="no space after the colon"),
        pytest.param(b"data:  1\n\n", b" 1", b"", id="one space is dropped"),
        pytest.param(b"data: {\ndata:  }\n\n", b"{\n }", b"", id="several lines"),
        pytest.param(b"event: error\r\ndata: x\r\n\r\n", b"x", b"error", id="named"),
        pytest.param(b": comment\n\n", None, b"", id="comment"),
        pytest.param(b"data\n\n", b"", b"", id="data without a colon"),
        pytest.param(b"data:\n\n", b"", b"", id="empty data"),
        pytest.param(b"database: x\n\n", None, b"", id="another field"),
        pytest.param(b"\ndata: 1\n\n", b"1", b"", id="after a left-over line end"),
    ],
)
def test_the_fields_of_an_event(event: bytes, data: bytes | None, name: bytes) -> None:
    assert data_of(event) == data
    assert name_of(event) == name


@pytest.mark.parametrize("line", [b"data:\n", b"data:\r\n", b":\r", b"\n:"], ids=["LF", "CRLF", "CR", "comments"])
def test_an_event_of_endless_lines_is_refused(line: bytes) -> None:
    splitter = EventSplitter()
    splitter.feed(b"data: 1\n\ndata: x\n")

    with pytest.raises(EventTooLarge):
        collections.deque(map(splitter.feed, [line * 1000] * 30), maxlen=0)


def test_many_short_events_are_no_event_of_many_lines() -> None:
    splitter = EventSplitter()
    block = b": x\n\n" * 20_000

    assert splitter.feed(b": y") + b"".join(splitter.feed(b"\n\n" + block + b": z") for _ in range(3)) != b""


@pytest.mark.parametrize("seed", range(50))
def test_line_ends_of_every_kind_cut_events_alike(seed: int) -> None:
    chance = random.Random(seed)
    block = b"".join(chance.choice([b"a", b"data: b", b"\n", b"\r", b"\r\n", b"\n\n"]) for _ in range(40))
    plain = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
    wanted, start = [], 0
    for found in plain.finditer(block):
        wanted.append(block[start : found.end()])
        start = found.end()

    assert split(block) == [*wanted, *([block[start:]] if start < len(block) else [])]
    assert sse.lines_of(block) == re.split(rb"\r\n|\n|\r", block)
