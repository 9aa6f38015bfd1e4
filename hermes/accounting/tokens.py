"""Tokens, as far as Hermes must know them itself: an estimate of texts, and a distrustful reader of providers' figures.

Providers send what they counted; that is what is billed. The estimate is for answers that come without, and for
reservations before the answer. It needs no vocabulary: a token of today's models is about four bytes of UTF-8, and a
word is at least one. Long texts and long conversations are judged by an even sample, and the more texts there are the
less is looked at of each, so that the cost of estimating is bounded: a body of 64 MB takes a few milliseconds of the
event loop, not seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from hermes.types import Usage

BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
"""The role and the marks around a message."""

TOKENS_PER_IMAGE = 765
"""What OpenAI counts for a 1024 x 1024 image in high detail."""

TOKENS_PER_AUDIO = 600
"""One minute of speech at ten tokens a second."""

TOKENS_PER_FILE = 2000
"""A few pages; the file itself is base64, whose length says little."""

MAX_TOKENS = 10**9
"""No request has more; a larger figure is a mistake of the provider's."""

EXACT_CHARS = 8192
"""Texts up to here are measured whole, 10 to 60 µs."""

SLICE_CHARS = 512
"""Longer ones are measured in slices of so much."""

EXACT_ITEMS = 512
"""Lists (messages, parts, calls) up to here are counted whole, where there are not too many lists."""

MOST_ITEMS = 4096
MOST_CHARS = 512 * 1024
"""Of a whole conversation; each message gets its share, and each of its parts a share of that."""

FEWEST_ITEMS = 8
FEWEST_CHARS = 64
"""No share is smaller."""

TokensOf = Callable[[Any, int, int], int]
"""Estimates an item, looking at so many further items and so many characters."""


def estimate_tokens(text_bytes: int, words: int) -> int:
    """The estimate for a text of this many UTF-8 bytes and words between white space."""
    return max(-(-text_bytes // BYTES_PER_TOKEN), words)


def tokens_of_text(text: str, chars: int = EXACT_CHARS) -> int:
    """Estimated tokens of a text, of which `chars` characters at most are looked at: less than 0.1 ms."""
    chars = min(chars, EXACT_CHARS)
    if len(text) <= chars:
        return _tokens_of_short(text)
    slices = max(1, chars // SLICE_CHARS)
    step, width = len(text) // slices, chars // slices
    sample = "".join(text[start : start + width] for start in range((step - width) // 2, step * slices, step))
    return math.ceil(_tokens_of_short(sample) * len(text) / len(sample))


def tokens_of_messages(messages: object) -> int:
    """Estimated tokens of OpenAI's `messages`; what is not one counts nothing, so any JSON value may be given.

    Texts, names and tool calls are counted by their length; an image, a recording and a file by a flat figure, never by
    their base64.
    """
    return _sum_of(messages, _tokens_of_message, MOST_ITEMS, MOST_CHARS)


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


def _tokens_of_short(text: str) -> int:
    text_bytes = _utf8_bytes(text)
    # Splitting costs ten times what counting does, and words matter only where they are shorter than three letters.
    if text.count(" ") + text.count("\n") + text.count("\t") < text_bytes // BYTES_PER_TOKEN:
        return estimate_tokens(text_bytes, 0)
    return estimate_tokens(text_bytes, len(text.split()))


def _tokens_of_message(message: object, items: int, chars: int) -> int:
    if not isinstance(message, Mapping):
        return 0
    tokens = TOKENS_PER_MESSAGE + _tokens_of_content(message.get("content"), items, chars)
    for key in ("name", "refusal", "reasoning_content"):
        if value := message.get(key):
            tokens += _tokens_of_value(value, chars)
    if calls := message.get("tool_calls"):
        tokens += _sum_of(calls, _tokens_of_call, items, chars)
    if call := message.get("function_call"):
        tokens += _tokens_of_call({"function": call}, items, chars)
    return tokens


def _tokens_of_content(content: object, items: int, chars: int) -> int:
    if isinstance(content, str):
        return tokens_of_text(content, chars)
    return _sum_of(content, _tokens_of_part, items, chars)


def _tokens_of_part(part: object, items: int, chars: int) -> int:
    if isinstance(part, str):
        return tokens_of_text(part, chars)
    if not isinstance(part, Mapping):
        return 0
    kind = part.get("type")
    if kind in ("image_url", "input_image", "image"):
        return TOKENS_PER_IMAGE
    if kind in ("input_audio", "audio"):
        return TOKENS_PER_AUDIO
    if kind in ("file", "input_file"):
        return TOKENS_PER_FILE
    return _tokens_of_value(part.get("text"), chars) + _tokens_of_value(part.get("refusal"), chars)


def _tokens_of_call(call: object, items: int, chars: int) -> int:
    """A tool call: `function` with name and arguments, or `custom` with name and input."""
    if not isinstance(call, Mapping):
        return 0
    tokens = 0
    for key, text in (("function", "arguments"), ("custom", "input")):
        what = call.get(key)
        if isinstance(what, Mapping):
            tokens += _tokens_of_value(what.get("name"), chars) + _tokens_of_value(what.get(text), chars)
    return tokens


def _tokens_of_value(value: object, chars: int) -> int:
    return tokens_of_text(value, chars) if isinstance(value, str) else 0


def _sum_of(listed: object, tokens_of: TokensOf, items: int, chars: int) -> int:
    """The sum over all items of a list, looking at so many items and characters; of long lists, over an even sample,
    scaled. What is no list counts nothing.
    """
    if not isinstance(listed, (list, tuple)) or not listed:
        return 0
    step = -(-len(listed) // min(items, EXACT_ITEMS))
    sample = listed[::step] if step > 1 else listed
    number = len(sample)
    share, chars_share = max(items // number, FEWEST_ITEMS), max(chars // number, FEWEST_CHARS)
    tokens = sum([tokens_of(item, share, chars_share) for item in sample])
    return tokens if step == 1 else math.ceil(tokens * len(listed) / number)


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
