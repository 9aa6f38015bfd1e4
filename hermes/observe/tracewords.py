"""What matters of a trace event, in words: for a terminal's line and for the dashboard's row.

What stands in an event was partly written by strangers. Nothing of it comes out that could move a cursor, change
colours, or turn the reading order.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

Event = Mapping[str, Any]

HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def said_of(event: Event) -> str:
    """What matters of an event, beyond when it was, what it is called, and whose it is.

    >>> said_of({"event": "circuit", "model": "m", "old_state": "closed", "new_state": "open", "failures": 3,
    ...     "base_url": "http://h"})
    'm: closed → open after 3 failures (http://h)'
    """
    return SAID.get(plain(event.get("event")), _others)(event)


def plain(value: object) -> str:
    r"""The value as text on one line, without anything that a terminal obeys.

    >>> plain("a\x1b[2Jb\r\nc\u202ed"), plain(None), plain(0.5), plain(True)
    ('a [2Jb c d', '', '0.5', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    shown = (" " if unicodedata.category(char) in HIDDEN_CATEGORIES else char for char in text)
    return " ".join("".join(shown).split())


def _classify(event: Event) -> str:
    confidence = f" {event['confidence']:.3f}" if isinstance(event.get("confidence"), float) else ""
    preview = plain(event.get("user_message_preview"))
    quoted = f'  "{preview}"' if preview else ""
    first = "first turn" if event.get("is_first") else "later turn"
    return f"{plain(event.get('source'))}{confidence} → {_model(event)}, {first}, {_ms(event)}{quoted}"


def _cache_hit(event: Event) -> str:
    age = event.get("age_sec")
    return f"{_model(event)}, classified {f'{age:.0f}' if isinstance(age, int | float) else '?'} s ago"


def _deviation(event: Event) -> str:
    return (
        f'{plain(event.get("direction"))} by "{plain(event.get("keyword"))}": '
        f"{plain(event.get('previous_tier'))} → {plain(event.get('new_tier'))} ({_model(event)})"
    )


def _route(event: Event) -> str:
    status = plain(event.get("upstream_status")) or "no answer"
    level, answered = event.get("fallback_level"), plain(event.get("fallback_model"))
    fallback = f", fallback {plain(level)}: {answered}" if answered else ""
    return f"{status}{' stream' if event.get('stream') else ''} from {_model(event)}{fallback}, {_ms(event)}"


def _circuit(event: Event) -> str:
    change = f"{plain(event.get('old_state'))} → {plain(event.get('new_state'))}"
    return f"{_model(event)}: {change} after {plain(event.get('failures'))} failures ({plain(event.get('base_url'))})"


def _key_rotation(event: Event) -> str:
    return f"{plain(event.get('base_url'))}: {plain(event.get('reason'))}"


def _stream_error(event: Event) -> str:
    count = f"{plain(event.get('failure_count'))} of {plain(event.get('max_failures'))}"
    return f"{_model(event)}: {plain(event.get('error'))} ({count})"


def _others(event: Event) -> str:
    """An event that this version has no words for: its fields."""
    known = ("ts", "event", "session_key", "tier", "request_id")
    return ", ".join(f"{plain(name)}={plain(value)}" for name, value in event.items() if name not in known)


def _model(event: Event) -> str:
    return plain(event.get("model")) or "?"


def _ms(event: Event) -> str:
    latency = event.get("latency_ms")
    return f"{latency:,.0f} ms" if isinstance(latency, int | float) else "? ms"


SAID: Final[Mapping[str, Callable[[Event], str]]] = {
    "classify": _classify,
    "cache_hit": _cache_hit,
    "deviation": _deviation,
    "route": _route,
    "circuit": _circuit,
    "key_rotation": _key_rotation,
    "stream_error": _stream_error,
}
"""What matters of each event."""
