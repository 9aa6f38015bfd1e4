"""Puts the values back for their placeholders in an answer: in a whole one, and in a stream whose pieces cut them.

Of a stream only that is held back which may still become a placeholder: from a bracket on, for as long as what follows
is the beginning of one. Each text of each choice is followed by itself. What is still held when a choice, or the
stream, ends goes out in an event of its own before that end.

The values hold no character that JSON would escape (`personal_data` finds letters, digits and a few marks), so they can
stand wherever a placeholder stood, in the arguments of a tool call too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hermes import largejson
from hermes.jsonmap import LARGE_BYTES
from hermes.turns import Turn
from hermes.upstream.eventstream import DONE
from hermes.upstream.sse import data_of, lines_of, split
from hermes.upstream.tolerant import tolerantly

_FORM: Final = r"\[(?:[A-Z]|\\{0,4}_){4,16}\\{0,4}_[1-9][0-9]{0,8}\\{0,4}\]"
_IN_TEXT = re.compile(_FORM)
_IN_BYTES = re.compile(_FORM.encode())
_ESCAPES = re.compile(r"\\{1,4}(?=[_\]]|\Z)")
"""Of Markdown, as models write it: `[EMAIL\\_1]`; within JSON that is a text of JSON there are four."""

_NUMBER = re.compile("(?:[1-9][0-9]{0,8})?")

MOST_ESCAPED: Final = 3
"""So many times as long as without its escapes no placeholder is."""

WRITTEN_AS: Final = 5
"""So many bytes each character takes at most, with its escapes in JSON."""

NO_TEXTS: Final = frozenset({"role", "id", "type", "name"})

Path = tuple[Any, ...]
"""Of a text in an event: the choice's index, then keys and, in lists, the items' own index."""


class Placeholders:
    """What each placeholder of one request stands for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._names = {placeholder.rpartition("_")[0] for placeholder in values}
        self._beginnings = {name[:length] for name in self._names for length in range(1, len(name) + 1)}
        self._longest = max(map(len, values), default=0)

    def whole(self, body: bytes) -> bytes:
        """The bytes with every value in its place; all other bytes as they were."""
        if len(body) <= LARGE_BYTES:
            return self._restored(body)
        pieces, at = [], 0
        with Turn() as turn:
            while at < len(body):
                end = min(at + LARGE_BYTES, len(body))
                cut = body.rfind(b"[", max(at + 1, end - self._longest * WRITTEN_AS), end) if end < len(body) else -1
                end = end if cut < 0 else cut  # what may be cut in two goes with what follows
                pieces.append(self._restored(body[at:end]))
                at = end
                turn.pause()
        return b"".join(pieces)

    def _restored(self, body: bytes) -> bytes:
        return _IN_BYTES.sub(lambda match: self._value(match[0].decode()).encode(), body)

    def text(self, text: str) -> str:
        """The same of a text."""
        return _IN_TEXT.sub(lambda match: self._value(match[0]), text)

    def _value(self, found: str) -> str:
        return self._values.get(found.replace("\\", ""), found)

    def unfinished(self, text: str) -> int:
        """Where something stands at the text's end that may become a placeholder; the text's length where nothing
        does.
        """
        at = text.rfind("[")
        if at < 0 or len(text) - at >= self._longest * MOST_ESCAPED:
            return len(text)
        plain = _ESCAPES.sub("", text[at:])
        if len(plain) >= self._longest:
            return len(text)
        name, mark, number = plain.rpartition("_")
        may_become = plain in self._beginnings or (
            bool(mark) and name in self._names and _NUMBER.fullmatch(number) is not None
        )
        return at if may_become else len(text)


class StreamRestorer:
    """One stream's way through."""

    def __init__(self, placeholders: Placeholders) -> None:
        self._placeholders = placeholders
        self._held: dict[Path, str] = {}
        self._envelope: dict[str, Any] = {}
        """The last event's own fields, for those that are made here."""

    def block(self, block: bytes) -> bytes:
        """The events of a block, their texts restored; an event in which nothing is to be done stays as it came."""
        if not self._held and b"[" not in block.replace(b'"choices":[', b"") and b"\\u005" not in block:
            return block
        return b"".join([self._event(event) for event in split(block)])

    def flush(self, choice: Any = None) -> bytes:
        """Events with all that is still held, of one choice or of every one."""
        paths = [path for path in self._held if choice is None or path[0] == choice]
        return b"".join(self._made(path, self._held.pop(path)) for path in paths)

    def _event(self, event: bytes) -> bytes:
        data = data_of(event)
        if data is None:
            return event
        if data.strip() == DONE:
            return self.flush() + event
        if len(data) > LARGE_BYTES:
            return self.flush() + self._placeholders.whole(event)
        whole = tolerantly(data)
        if not isinstance(whole, dict):
            return event
        choices = whole.get("choices")
        if whole.get("error") or not isinstance(choices, list):
            return (self.flush() if whole.get("error") else b"") + event
        self._envelope = {name: value for name, value in whole.items() if name not in ("choices", "usage")}
        before, restored = b"", []
        for position, choice in enumerate(choices):
            made, after = self._choice(choice, position) if isinstance(choice, dict) else (b"", choice)
            before += made
            restored.append(after)
        if all(new is old for new, old in zip(restored, choices, strict=True)):
            return before + event
        return before + _rewritten(event, {**whole, "choices": restored})

    def _choice(self, choice: dict[str, Any], position: int) -> tuple[bytes, dict[str, Any]]:
        """What must go out before this choice's event, and the choice as it goes out."""
        index = _place(choice, position)
        is_end = bool(choice.get("finish_reason"))
        delta = choice.get("delta")
        restored = self._restored(delta, (index,), is_end=is_end)
        before = self.flush(index) if is_end else b""
        return before, choice if restored is delta else {**choice, "delta": restored}

    def _restored(self, value: Any, path: Path, *, is_end: bool) -> Any:
        """The value with its texts restored; the very same object where nothing is to be done."""
        if isinstance(value, str):
            return value if path[-1] in NO_TEXTS else self._text(value, path, is_end=is_end)
        if isinstance(value, dict):
            items = {name: self._restored(item, (*path, name), is_end=is_end) for name, item in value.items()}
            return items if any(items[name] is not value[name] for name in value) else value
        if isinstance(value, list):
            listed = [
                self._restored(item, (*path, _place(item, number)), is_end=is_end) for number, item in enumerate(value)
            ]
            return listed if any(new is not old for new, old in zip(listed, value, strict=True)) else value
        return value

    def _text(self, piece: str, path: Path, *, is_end: bool) -> str:
        held = self._held.pop(path, "")
        if not held and "[" not in piece:
            return piece
        text = held + piece
        cut = len(text) if is_end else self._placeholders.unfinished(text)
        if cut < len(text):
            self._held[path] = text[cut:]
        restored = self._placeholders.text(text[:cut])
        return piece if restored == piece else restored

    def _made(self, path: Path, text: str) -> bytes:
        """An event that carries a text to the place of its path."""
        carried: Any = text
        for step in reversed(path[1:]):
            if isinstance(step, int):
                carried = [{"index": step, **carried} if isinstance(carried, dict) else carried]
            else:
                carried = {step: carried}
        choice = {"index": path[0], "delta": carried, "finish_reason": None}
        return b"data: " + largejson.written({**self._envelope, "choices": [choice]}) + b"\n\n"


def _place(item: Any, number: int) -> int:
    index = item.get("index") if isinstance(item, dict) else None
    return index if isinstance(index, int) else number


def _rewritten(event: bytes, whole: dict[str, Any]) -> bytes:
    """The event with other data; its name, id and comments stay."""
    others = [line for line in lines_of(event) if line and not line.startswith(b"data")]
    return b"\n".join([*others, b"data: " + largejson.written(whole)]) + b"\n\n"
