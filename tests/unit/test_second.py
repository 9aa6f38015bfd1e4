"""The second look: in a thread of its own, for a short queue, and never for long."""

from __future__ import annotations

import os
import sys
import threading
import time

import gevent
import numpy as np
import pytest

from hermes.embedding.models import E5, MINILM, EmbedderMissing, Vector, open_embedder
from hermes.routing.second import MOST_WAITING, NICER, EmbeddingThread


class FakeEmbedder:
    """Takes its time, in whichever thread it is called."""

    name = "fake"
    sha256 = "0"

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s = takes_s
        self.texts: list[str] = []
        self.threads: set[int] = set()
        self.niceness: set[int] = set()

    def embed(self, text: str) -> Vector:
        self.texts.append(text)
        self.threads.add(threading.get_ident())
        self.niceness.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        time.sleep(self.takes_s)
        if text == "bad":
            raise ValueError(text)
        return np.full(384, len(text), np.float32)


def test_it_computes_in_a_thread_of_its_own_while_others_go_on() -> None:
    embedder = FakeEmbedder(takes_s=0.05)
    thread, ticks = EmbeddingThread(embedder), []

    def tick() -> None:
        for _ in range(5):
            ticks.append(time.monotonic())
            gevent.sleep(0.005)

    ticking = gevent.spawn(tick)
    vector = thread.embed("hello")
    during = len(ticks)
    ticking.join()

    assert vector is not None
    assert vector[0] == 5
    assert during == 5
    assert threading.get_ident() not in embedder.threads


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness of their own on Linux")
def test_on_a_shared_core_streams_go_first() -> None:
    embedder = FakeEmbedder()
    thread, mine = EmbeddingThread(embedder), os.getpriority(os.PRIO_PROCESS, 0)

    for number in range(3):
        thread.embed(f"text {number}")

    assert embedder.niceness == {min(mine + NICER, 19)}
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == mine


def test_the_same_text_is_embedded_once() -> None:
    embedder = FakeEmbedder()
    thread = EmbeddingThread(embedder)

    assert thread.embed("hello") is thread.embed("hello")
    assert embedder.texts == ["hello"]


def test_nobody_waits_longer_than_agreed() -> None:
    thread = EmbeddingThread(FakeEmbedder(takes_s=0.1), wait_s=0.01)
    began = time.monotonic()

    assert thread.embed("hello") is None
    assert time.monotonic() - began < 0.08
    assert thread.skipped == 1


def test_whoever_finds_the_queue_full_does_without() -> None:
    thread = EmbeddingThread(FakeEmbedder(takes_s=0.005), wait_s=1.0)

    asked = [gevent.spawn(thread.embed, f"text {number}") for number in range(MOST_WAITING + 3)]
    gevent.joinall(asked)

    assert sum(one.value is None for one in asked) == 3
    assert thread.embed("later") is not None


def test_a_text_that_a_model_cannot_read_is_no_error() -> None:
    assert EmbeddingThread(FakeEmbedder()).embed("bad") is None


# -- the models themselves


MODELS = [MINILM, E5]


@pytest.mark.parametrize("name", MODELS)
def test_what_means_the_same_is_near(name: str) -> None:
    embedder = open_embedder(name)
    password, forgot, cat = map(
        embedder.embed, ("How do I reset my password?", "I forgot my password, what now?", "The cat sat on the mat")
    )

    assert float(password @ forgot) > float(password @ cat) + 0.05
    assert float(password @ password) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("text", ["", "\0", "\ud83d", "a" * 5000, "中" * 5000, "مرحبا", "😀"])
@pytest.mark.parametrize("name", MODELS)
def test_any_text_has_a_vector(name: str, text: str) -> None:
    vector = open_embedder(name).embed(text)

    assert vector.shape == (384,)
    assert np.isfinite(vector).all()


def test_other_weights_than_those_it_was_fitted_with_are_refused() -> None:
    with pytest.raises(EmbedderMissing, match="not the one that it was fitted with"):
        open_embedder(MINILM, sha256="0" * 64)


def test_a_model_that_nobody_knows_is_refused() -> None:
    with pytest.raises(EmbedderMissing, match="no embedding model 'glove'; known are: minilm, e5"):
        open_embedder("glove")
