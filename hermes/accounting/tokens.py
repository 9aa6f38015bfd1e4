"""Tokens, as far as Hermes must know them itself: an estimate of texts, and a distrustful reader of providers' figures.

Providers send what they counted; that is what is billed. The estimate is for answers that come without, and for
reservations before the answer. It needs no vocabulary: a token of today's models is about four bytes of UTF-8, and a
word is at least one. The length of every text counts, so nothing is left out; how many tokens that length is, is judged
by a sample in long texts and long conversations, at places that are drawn by lot: no caller knows where it will look.
So the cost of estimating is bounded: a body of 64 MB takes a few milliseconds of the event loop, not seconds.

Two figures are told of a prompt. The likely one is of what is known to be text, name, call or picture, as prose. The
other is what a provider may bill at most, and is set aside: of what is no prose every digit and sign counts (see
`density`), of pictures the size is that of large ones, and parts and fields that nobody has heard of count as well.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Any, Final, NamedTuple

from hermes import largejson
from hermes.accounting.density import dense_tokens
from hermes.jsonmap import Member
from hermes.types import Usage

BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
"""The role and the marks around a message."""

TOKENS_PER_IMAGE = 765
"""What OpenAI counts for a 1024 x 1024 image in high detail."""

LARGE_IMAGE_TOKENS = 5_000
"""What a picture is billed at most that is made smaller first, as nearly all providers do: 4,800 at Anthropic, 3,800 at
OpenAI, 1,120 at Google."""

ORIGINAL_IMAGE_TOKENS = 15_000
"""OpenAI's for ten thousand patches, where the caller wants the picture read in its `original` size."""

TOKENS_PER_AUDIO = 600
"""One minute of speech at ten tokens a second."""

TOKENS_PER_FILE = 2000
"""A few pages; the file itself is base64, whose length says little."""

MAX_TOKENS = 10**9
"""No request has more; a larger figure is a mistake of the provider's."""

SLICE_CHARS = 512
"""Longer ones are measured in slices of so much."""

AUDIO_CHARS_PER_TOKEN = 1000
"""Base64 of speech at 64 kbit a second, ten tokens a second; what is less compressed is shorter than it looks."""

FILE_CHARS_PER_TOKEN = 6
"""Base64 of text, three quarters of it bytes. A file may be nothing else."""

UNKNOWN_TOKENS_MAX = 2_000_000
"""Set aside for what nobody has heard of, which may be a film in base64; few models read more."""

PICTURES: Final = frozenset({"image_url", "input_image", "image"})
RECORDINGS: Final = frozenset({"input_audio", "audio"})
FILES: Final = frozenset({"file", "input_file"})
PAYLOADS: Final = frozenset(
    {"image_url", "image", "input_audio", "audio", "file", "file_data", "source", "data", "type"}
)
"""Where a part of these kinds has its base64."""

TEXTS_OF_MESSAGE: Final = frozenset({"name", "refusal", "reasoning_content"})
TEXTS_OF_PART: Final = frozenset({"text", "refusal"})
MARKS: Final = frozenset({"role", "type", "id", "tool_call_id", "index", "detail"})
"""Never billed for their length, as long as it is what it should be."""

MARK_CHARS = 128
MOST_CALLS = 512
"""Of tools, in one message; a longer list is judged by its length as JSON."""

UNBILLED_FIELDS: Final = frozenset({"messages", "model", "metadata", "user", "logit_bias", "stream_options"})
"""Of a request: what no model reads, and what is counted by itself."""


_lot: Final = Random().random  # noqa: S311 — seeded by the system; nobody sees enough of it to tell what comes


class Measure(NamedTuple):
    """How texts are measured, and how much of them is looked at."""

    tokens: Callable[[str], int]
    tokens_of_bytes: Callable[[bytes], int]

    exact_chars: int
    """Texts up to here are measured whole."""

    exact_texts: int
    """So many texts are each looked at; of more, this many places."""

    most_chars: int
    """Looked at of a whole conversation; each text gets its share."""


class PromptSize:
    """What a list of messages holds; nothing is measured before it is asked for."""

    __slots__ = ("_flat", "_larger", "_texts", "_unknown", "_unknown_texts", "_unknown_tokens")

    def __init__(self, messages: object) -> None:
        """Takes OpenAI's `messages`; what is not one counts nothing, so any JSON value may be given."""
        self._flat = 0
        self._larger = 0
        self._texts: list[str] = []
        self._unknown: list[Any] = []
        self._unknown_texts: list[str] = []
        self._unknown_tokens = 0
        for message in _listed(messages):
            if isinstance(message, dict):
                self._add_message(message)

    def tokens(self) -> int:
        """Of all texts, names and tool calls by their length; of pictures, recordings and files a flat figure."""
        return self._flat + tokens_of_texts(self._texts)

    def most_tokens(self) -> int:
        """What a provider may bill: texts that are no prose, large pictures, and what is not known."""
        return self._flat + self._larger + tokens_of_texts(self._texts, AT_MOST) + self.unknown_tokens()

    def unknown_tokens(self) -> int:
        """What may be billed for what is not known, by its length, and for long recordings and files."""
        tokens = self._unknown_tokens
        if self._unknown_texts:
            tokens += tokens_of_texts(self._unknown_texts, AT_MOST)
        if self._unknown:
            tokens += tokens_of_json(self._unknown, AT_MOST)
        return min(tokens, UNKNOWN_TOKENS_MAX)

    def _add_message(self, message: Mapping[str, Any]) -> None:
        self._flat += TOKENS_PER_MESSAGE
        for key, value in message.items():
            if key == "content":
                self._add_content(value)
            elif key in MARKS and isinstance(value, str) and len(value) <= MARK_CHARS:
                continue
            elif key == "tool_calls" and isinstance(value, list) and len(value) <= MOST_CALLS:
                for call in value:
                    self._add_call(call)
            elif key == "function_call" and isinstance(value, dict):
                self._add_call({"function": value})
            else:
                self._add_value(key, value, is_text=key in TEXTS_OF_MESSAGE)

    def _add_content(self, content: Any) -> None:
        if isinstance(content, str):
            if content:
                self._texts.append(content)
        elif isinstance(content, list):
            for part in content:
                self._add_part(part)
        else:
            self._add_value("content", content, is_text=False)

    def _add_part(self, part: Any) -> None:
        if not isinstance(part, dict):
            self._add_value("", part, is_text=True)
            return
        kind = part.get("type")
        if kind == "text" and len(part) == 2 and isinstance(text := part.get("text"), str):
            if text:
                self._texts.append(text)
            return
        if not isinstance(kind, str) or not self._add_media(kind, part):
            for key, value in part.items():
                self._add_value(key, value, is_text=key in TEXTS_OF_PART)

    def _add_media(self, kind: str, part: Mapping[str, Any]) -> bool:
        """A picture, a recording or a file; False where it is none of them."""
        if kind in PICTURES:
            self._flat += TOKENS_PER_IMAGE
            self._larger += _picture_tokens(part) - TOKENS_PER_IMAGE
        elif kind in RECORDINGS:
            self._flat += TOKENS_PER_AUDIO
            self._unknown_tokens += max(0, _payload_chars(part) // AUDIO_CHARS_PER_TOKEN - TOKENS_PER_AUDIO)
        elif kind in FILES:
            self._flat += TOKENS_PER_FILE
            self._unknown_tokens += max(0, _payload_chars(part) // FILE_CHARS_PER_TOKEN - TOKENS_PER_FILE)
        else:
            return False
        for key, value in part.items():
            if key not in PAYLOADS:
                self._add_value(key, value, is_text=False)
        return True

    def _add_call(self, call: Any) -> None:
        """A tool call: `function` with name and arguments, or `custom` with name and input."""
        if not isinstance(call, dict):
            self._add_value("", call, is_text=False)
            return
        for key, value in call.items():
            if key in {"function", "custom"} and isinstance(value, dict):
                for name, said in value.items():
                    self._add_value(name, said, is_text=name in {"name", "arguments", "input"})
            else:
                self._add_value(key, value, is_text=False)

    def _add_value(self, key: str, value: Any, *, is_text: bool) -> None:
        if not value or isinstance(value, (bool, int, float)):
            return
        if is_text and isinstance(value, str):
            self._texts.append(value)
        elif not isinstance(value, str):
            self._unknown.append(value)
        elif key not in MARKS or len(value) > MARK_CHARS:
            self._unknown_texts.append(value)


def estimate_tokens(text_bytes: int, words: int) -> int:
    """The estimate for a text of this many UTF-8 bytes and words between white space."""
    return max(-(-text_bytes // BYTES_PER_TOKEN), words)


def tokens_of_text(text: str, measure: Measure | None = None, chars: int | None = None) -> int:
    """Estimated tokens of a text, of which `chars` characters at most are looked at: about 0.1 ms.

    Args:
        measure: `LIKELY` where none is given.
    """
    measure = measure or LIKELY
    chars = measure.exact_chars if chars is None else min(chars, measure.exact_chars)
    if len(text) <= chars:
        return measure.tokens(text)
    sample = "".join(text[start:end] for start, end in _slices(len(text), chars))
    return math.ceil(measure.tokens(sample) * len(text) / len(sample))


def tokens_of_texts(texts: Sequence[str], measure: Measure | None = None) -> int:
    """Estimated tokens of all the texts. Where they are very many, places are drawn by lot among their characters, so
    that a text is looked at as often as it is long: a few milliseconds.
    """
    measure = measure or LIKELY
    places = measure.exact_texts
    if len(texts) <= places:
        chars = measure.most_chars // max(1, len(texts))
        return sum([tokens_of_text(text, measure, chars) for text in texts])
    ends = list(accumulate(map(len, texts)))
    step = ends[-1] / places
    tokens_per_char = 0.0
    for stratum in range(places):
        place = min(int((stratum + _lot()) * step), ends[-1] - 1)
        text = texts[bisect_right(ends, place)]
        start = int(_lot() * (len(text) - SLICE_CHARS)) if len(text) > SLICE_CHARS else 0
        piece = text[start : start + SLICE_CHARS]
        tokens_per_char += measure.tokens(piece) / len(piece)
    return math.ceil(tokens_per_char * step)


def tokens_of_json(value: object, measure: Measure | None = None) -> int:
    """Estimated tokens of any JSON value, as long as it is when it is written without blanks."""
    return tokens_of_text(value if isinstance(value, str) else largejson.written(value).decode(), measure)


def tokens_of_messages(messages: object) -> int:
    """Estimated tokens of OpenAI's `messages`; what is not one counts nothing, so any JSON value may be given.

    Texts, names and tool calls are counted by their length; an image, a recording and a file by a flat figure, never by
    their base64.
    """
    return PromptSize(messages).tokens()


def tokens_of_fields(
    raw: bytes,
    body: Mapping[str, Any],
    members: Iterable[Member] | None,
    counted: str = "messages",
    measure: Measure | None = None,
) -> int:
    """Estimated tokens of what a provider bills beside the messages: tools, schemas and every field that is not known.

    Args:
        raw: the request's bytes.
        body: what they mean.
        members: where the fields stand in them, where that is known: then a field of any length takes 0.1 ms at most.
        counted: a further field that is counted already.
    """
    larger = [
        name
        for name, value in body.items()
        if isinstance(value, (dict, list, str)) and value and name not in UNBILLED_FIELDS and name != counted
    ]
    if not larger:
        return 0
    if members is None:
        return sum([tokens_of_json(body[name], measure) for name in larger])
    names, measure = frozenset(larger), measure or LIKELY
    return sum([_tokens_of_bytes(raw, m.value_start, m.value_end, measure) for m in members if m.key in names])


def usage_from(payload: object) -> Usage | None:
    """The figures of an OpenAI `usage` object, or None where they cannot be trusted and an estimate must serve.

    Read are `prompt_tokens`/`completion_tokens` or `input_tokens`/`output_tokens`, the cached and reasoning tokens of
    their `_details`, and DeepSeek's `prompt_cache_hit_tokens`. A negative, fractional, absurd (over 10^9) or textual
    figure spoils the whole; so do zeros throughout. A total that is missing or too small is summed anew. Where
    reasoning tokens stand beside the completion's (total = prompt + completion + reasoning) they are added to it,
    since they are billed as output.
    """
    if not isinstance(payload, Mapping):
        return None
    prompt = _first_count(payload, "prompt_tokens", "input_tokens")
    completion = _first_count(payload, "completion_tokens", "output_tokens")
    total = _count(payload.get("total_tokens"))
    if completion is None and not _has_any(payload, "completion_tokens", "output_tokens") and prompt is not None:
        completion = total - prompt if total is not None and total >= prompt else None  # embeddings name no output
    if prompt is None or completion is None or prompt + completion == 0:
        return None
    cached = _detail(payload, "cached_tokens", "prompt_tokens_details", "input_tokens_details")
    if not cached:
        cached = _count(payload.get("prompt_cache_hit_tokens")) or 0
    reasoning = _detail(payload, "reasoning_tokens", "completion_tokens_details", "output_tokens_details")
    if reasoning and total == prompt + completion + reasoning:
        completion += reasoning
    if total is None or total < prompt + completion:
        total = prompt + completion
    return Usage(prompt, completion, total, min(cached, prompt), min(reasoning, completion))


def sum_of(usages: Sequence[Usage]) -> Usage:
    """What several calls have used; estimated if a part of it is."""
    return Usage(
        sum([usage.prompt_tokens for usage in usages]),
        sum([usage.completion_tokens for usage in usages]),
        sum([usage.total_tokens for usage in usages]),
        sum([usage.cached_tokens for usage in usages]),
        sum([usage.reasoning_tokens for usage in usages]),
        estimated=any(usage.estimated for usage in usages),
    )


def _likely_tokens(text: str) -> int:
    text_bytes = _utf8_bytes(text)
    # Splitting costs ten times what counting does, and words matter only where they are shorter than three letters.
    if text.count(" ") + text.count("\n") + text.count("\t") < text_bytes // BYTES_PER_TOKEN:
        return estimate_tokens(text_bytes, 0)
    return estimate_tokens(text_bytes, len(text.split()))


def _likely_tokens_of_bytes(text: bytes) -> int:
    return estimate_tokens(len(text), len(text.split()))


def _most_tokens(text: str) -> int:
    return max(_likely_tokens(text), dense_tokens(text.encode("utf-8", "surrogatepass")))


def _most_tokens_of_bytes(text: bytes) -> int:
    return max(_likely_tokens_of_bytes(text), dense_tokens(text))


LIKELY: Final = Measure(_likely_tokens, _likely_tokens_of_bytes, 8192, 512, 512 * 1024)
"""As prose; 10 to 60 µs for a text, two milliseconds for a conversation."""

AT_MOST: Final = Measure(_most_tokens, _most_tokens_of_bytes, 4096, 128, 64 * 1024)
"""What is no prose counts as that; 10 to 100 µs for a text, three milliseconds for a conversation. A byte costs four
times what it does with `LIKELY`, so less is looked at."""


def _tokens_of_bytes(raw: bytes, start: int, end: int, measure: Measure) -> int:
    """Estimated tokens of JSON in its bytes, of which some are looked at."""
    size, exact = end - start, measure.exact_chars
    if size <= exact:
        return measure.tokens_of_bytes(raw[start:end])
    sample = b"".join(raw[start + first : start + last] for first, last in _slices(size, exact))
    return math.ceil(measure.tokens_of_bytes(sample) * size / len(sample))


def _slices(length: int, chars: int) -> Iterable[tuple[int, int]]:
    """Where to look at something longer than `chars`: in each of its equal parts at one place, drawn by lot."""
    number = max(1, chars // SLICE_CHARS)
    step, width = length // number, chars // number
    for begin in range(0, step * number, step):
        start = begin + int(_lot() * (step - width + 1))
        yield start, start + width


def _picture_tokens(part: Mapping[str, Any]) -> int:
    """What a picture may be billed. `low` says nothing of it: not every provider heeds that."""
    held = part.get("image_url")
    details = (part.get("detail"), held.get("detail") if isinstance(held, dict) else None)
    return ORIGINAL_IMAGE_TOKENS if "original" in details else LARGE_IMAGE_TOKENS


def _payload_chars(part: Mapping[str, Any]) -> int:
    """How much base64 there is in a recording or a file."""
    held = [value for key, value in part.items() if key in PAYLOADS and key != "type"]
    texts = [text for value in held for text in (value.values() if isinstance(value, dict) else (value,))]
    return sum(len(text) for text in texts if isinstance(text, str))


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _count(value: object) -> int | None:
    """A plausible number of tokens, else None. 12.0 is one (some servers count in floats), True and "12" are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 <= value <= MAX_TOKENS or value != int(value):  # the first comparison is false for NaN
        return None
    return int(value)


def _first_count(payload: Mapping[Any, Any], *names: str) -> int | None:
    """The count under the first of the names that is there and not null."""
    for name in names:
        if payload.get(name) is not None:
            return _count(payload[name])
    return None


def _has_any(payload: Mapping[Any, Any], *names: str) -> bool:
    return any(payload.get(name) is not None for name in names)


def _detail(payload: Mapping[Any, Any], name: str, *groups: str) -> int:
    """A count inside the first group that holds one; 0 where there is none."""
    for group in groups:
        details = payload.get(group)
        count = _count(details.get(name)) if isinstance(details, Mapping) else None
        if count is not None:
            return count
    return 0
