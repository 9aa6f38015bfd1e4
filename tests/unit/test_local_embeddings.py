"""The one thread of the local embedding model: its callers take turns, and nobody has it for longer than they wait."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import gevent
import numpy as np
import pytest

from hermes.errors import ClientGone, DeadlineExceeded
from hermes.knowing import Knowing
from hermes.knowledge.vectors import LocalModel
from hermes.settings import ROOT
from hermes.upstream.lifeline import Lifeline

LONG = "a" * 30_000
MARKS = 4


class HeldModel:
    """Computes nothing while it is held; a token is a character."""

    sha256 = "fake"

    def __init__(self, *, is_held: bool = False) -> None:
        self.texts: list[str] = []
        self.free = threading.Event()
        if not is_held:
            self.free.set()

    def plain(self, text: str, most_tokens: int = 10**9) -> tuple[Any, int]:
        if len(text) + MARKS > most_tokens:
            return None, len(text) + MARKS
        self.texts.append(text)
        self.free.wait(30)
        time.sleep(0.005)
        return np.array([text.count("a") > 0, text.count("b") > 0], np.float32), len(text) + MARKS

    def query(self, text: str) -> Any:
        return self.plain(text)[0]

    passage = query


@pytest.fixture
def held() -> Any:
    model = HeldModel(is_held=True)
    yield model
    model.free.set()


def asked(local: LocalModel, text: str, seconds: float, lifeline: Lifeline) -> Any:
    exchange = SimpleNamespace(turned_to=lambda *_: None, settle=lambda *_, **__: None)
    incoming = SimpleNamespace(chat=SimpleNamespace(body={"input": text}))
    knowing = Knowing(cast("Any", None), local)
    return knowing.embedded(cast("Any", incoming), cast("Any", exchange), [], lifeline, time.monotonic() + seconds)


def until(condition: Any) -> None:
    with gevent.Timeout(20):
        while not condition():
            gevent.sleep(0.005)


def test_a_request_ends_with_its_time_while_the_model_computes_and_so_does_one_that_waits(held: HeldModel) -> None:
    local = LocalModel(lambda: held)
    both = [gevent.spawn(asked, local, text, 0.2, Lifeline()) for text in (LONG, "hi")]
    with gevent.Timeout(10):
        gevent.wait(both)
    assert [type(one.exception) for one in both] == [DeadlineExceeded, DeadlineExceeded]

    held.free.set()
    assert local.embed("after")[1] == len("after") + MARKS
    assert held.texts[1:] == ["after"]  # nothing more of those who are gone


def test_a_caller_who_leaves_takes_no_more_of_the_thread(held: HeldModel) -> None:
    local, line = LocalModel(lambda: held), Lifeline()
    long = gevent.spawn(asked, local, LONG, 60, line)
    until(lambda: held.texts)
    line.hang_up()
    with gevent.Timeout(10):
        gevent.wait([long])
    assert isinstance(long.exception, ClientGone)

    held.free.set()
    local.embed("after")
    assert held.texts[1:] == ["after"]


@pytest.mark.parametrize("way", ["embeddings", "passages"])
def test_others_have_their_turn_between_two_pieces(held: HeldModel, way: str) -> None:
    local = LocalModel(lambda: held)
    slow = (lambda: local.embed(LONG)) if way == "embeddings" else (lambda: list(local.passages(["a"] * 50)))
    long = gevent.spawn(slow)
    until(lambda: held.texts)
    short = gevent.spawn(local.question, "hi")
    gevent.sleep(0)
    held.free.set()
    with gevent.Timeout(20):
        short.get()
        assert not long.ready()
        long.get()
    assert held.texts.index("hi") <= 2


def test_a_long_text_is_the_mean_of_its_pieces_and_all_of_it_counts() -> None:
    model = HeldModel()
    text = "a" * 600 + "b" * 600 + " " * 2000
    vector, tokens = LocalModel(lambda: model).embed(text)

    assert "".join(model.texts) == text
    assert tokens == len(text) + MARKS
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert vector[0] == pytest.approx(vector[1], rel=0.5)
    assert LocalModel(lambda: model).embed("a b")[0].tolist() == [1, 1]  # a short one is left as it is


def test_no_character_ends_the_process() -> None:
    """U+FDFA becomes 18 characters under NFKC, for which the engine had no room: it ended the server."""
    program = (
        "from hermes.embedding.models import E5, open_embedder; print(open_embedder(E5).tokens('\\ufdfa' * 100) > 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=55, check=False
    )

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr[-500:]
