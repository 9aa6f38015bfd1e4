"""What one worker announces, every other hears once."""

from __future__ import annotations

from itertools import count

from hermes.state.announcement import Announcement
from hermes.state.store import MemoryStore

names = count(1)


def listener(store: MemoryStore) -> Announcement:
    return Announcement(store, "news:reloaded", lambda: f"word-{next(names)}")


def test_the_others_hear_it_once_and_the_speaker_never() -> None:
    store = MemoryStore()
    one, two, three = (listener(store) for _ in range(3))
    assert not two.is_new()

    one.say()

    assert [two.is_new(), two.is_new()] == [True, False]
    assert [three.is_new(), three.is_new()] == [True, False]
    assert not one.is_new()


def test_each_word_is_news_and_of_several_only_the_last_counts() -> None:
    store = MemoryStore()
    one, two = listener(store), listener(store)

    one.say()
    two.is_new()
    one.say()
    one.say()

    assert [two.is_new(), two.is_new()] == [True, False]


def test_what_was_said_before_a_worker_started_is_no_news_for_it() -> None:
    store = MemoryStore()
    listener(store).say()

    assert not listener(store).is_new()


def test_a_store_that_has_lost_the_word_says_nothing() -> None:
    store = MemoryStore()
    one, two = listener(store), listener(store)
    one.say()
    two.is_new()

    store.delete("news:reloaded")

    assert not one.is_new()
    assert not two.is_new()
