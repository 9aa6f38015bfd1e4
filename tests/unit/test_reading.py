"""What is read of a provider's JSON is never nested so deep that whoever goes through it fails."""

from __future__ import annotations

import pytest

from hermes.jsonmap import LARGE_BYTES
from hermes.upstream.outcome import ProviderError
from hermes.upstream.reading import carried_bytes, read
from hermes.upstream.tolerant import MOST_NESTED


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def answer(content: bytes, padding: int = 0) -> bytes:
    return b'{"padding":"%s","choices":[{"message":{"content":%s}}]}' % (b"x" * padding, content)


@pytest.mark.parametrize("padding", [0, LARGE_BYTES], ids=["small", "large"])
@pytest.mark.parametrize("depth", [MOST_NESTED + 1, 300, 900, 1020, 5000])
def test_what_is_nested_deeper_than_any_answer_is_none(depth: int, padding: int) -> None:
    assert read(answer(nested(depth), padding)) is None


@pytest.mark.parametrize("padding", [0, LARGE_BYTES], ids=["small", "large"])
def test_what_is_nested_a_little_is_one(padding: int) -> None:
    whole = read(answer(nested(MOST_NESTED - 4), padding))

    assert carried_bytes(whole["choices"][0]["message"]) >= 1


@pytest.mark.parametrize("padding", [0, LARGE_BYTES], ids=["small", "large"])
def test_brackets_in_texts_are_no_nesting(padding: int) -> None:
    text = rb'"%s\"[[[[ \\"' % (b"[{" * 1000)

    assert carried_bytes(read(answer(text, padding))["choices"][0]["message"]) >= 2000


def test_many_lists_beside_each_other_are_no_nesting() -> None:
    assert read(answer(b"[%s]" % b",".join([b"[{}]"] * 10_000))) is not None


@pytest.mark.parametrize("depth", [300, 900, 1000, 1020, 5000])
def test_an_error_may_say_what_it_likes(depth: int) -> None:
    assert ProviderError.read(b'{"error":{"message":%s}}' % nested(depth)) == ProviderError()
    assert ProviderError.read(b'{"error":{"message":"m","code":%s}}' % (b"9" * 5000)).is_quota is False
