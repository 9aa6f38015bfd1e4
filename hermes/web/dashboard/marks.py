"""How numbers, times and small figures are written on every page. Pure; `templates/dashboard/_macros.html` draws."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from hermes.observe.tracewords import plain

SPARK_ROOM: Final = 4.0
"""How much of a sparkline's height stays free, so that its line is not cut."""

ID_PREFIX: Final = "req_"
ID_CHARS: Final = 12

LEVELS: Final = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"))


def ago_text(seconds: float) -> str:
    """How long ago, in one unit.

    >>> ago_text(4.2), ago_text(200), ago_text(7300), ago_text(200_000)
    ('4 s', '3 min', '2 h', '2 d')
    """
    whole = max(0, int(seconds))
    for end, size, unit in LEVELS:
        if whole < end:
            return f"{whole // size} {unit}"
    return f"{whole // 86_400} d"


def left_text(seconds: float) -> str:
    """How long still, in two units where that helps.

    >>> left_text(44.2), left_text(269), left_text(300), left_text(7300)
    ('44 s', '4 min 29 s', '5 min', '2 h 1 min')
    """
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    big, unit, small, rest = (whole // 60, "min", "s", whole % 60)
    if whole >= 3600:
        big, unit, small, rest = (whole // 3600, "h", "min", whole % 3600 // 60)
    return f"{big} {unit} {rest} {small}" if rest else f"{big} {unit}"


def duration_text(milliseconds: float) -> str:
    """A duration: milliseconds under a second, else seconds with two digits.

    >>> duration_text(388.4), duration_text(4270), duration_text(74_000)
    ('388 ms', '4.27 s', '74.0 s')
    """
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def money_text(usd: float) -> str:
    """An amount; small ones with the digits that tell them apart.

    >>> money_text(41.268), money_text(0.0153), money_text(0.00021), money_text(0.000001), money_text(0)
    ('$41.27', '$0.0153', '$0.00021', '<$0.00001', '$0.00')
    """
    if 0 < usd < 0.000_01:
        return "<$0.00001"
    if usd == 0 or abs(usd) >= 0.1:
        return f"${usd:,.2f}"
    return f"${usd:.4f}" if abs(usd) >= 0.001 else f"${usd:.5f}"


def share_text(share: float) -> str:
    """A share in percent.

    >>> share_text(0.0019), share_text(0.284), share_text(1.0)
    ('0.19%', '28%', '100%')
    """
    percent = share * 100
    if percent == 0 or percent >= 10:
        return f"{percent:.0f}%"
    return f"{percent:.2f}%" if percent < 1 else f"{percent:.1f}%"


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a UTC date and time."""
    return datetime.fromtimestamp(seconds, UTC)


def seconds_since(at: float, now: float | None = None) -> float:
    """How long ago a moment was."""
    return (time.time() if now is None else now) - at


def spark_path(values: Sequence[float], width: float, height: float) -> str:
    """The path of a sparkline, between the least and the greatest value.

    >>> spark_path([0, 2, 1], 20, 14)
    'M0.0 10.0L10.0 0.0L20.0 5.0'
    """
    if not values:
        return ""
    low, high = min(values), max(values)
    span = high - low or 1
    room = height - SPARK_ROOM
    last = len(values) - 1 or 1
    points = (f"{i * width / last:.1f} {room - (value - low) / span * room:.1f}" for i, value in enumerate(values))
    return "M" + "L".join(points)


def request_name(request_id: str) -> str:
    """A request's id as far as it tells requests apart in a row.

    >>> request_name("req_7f3a91c2b5d04e6f8a1b"), request_name("mine")
    ('7f3a91c2b5d0', 'mine')
    """
    return plain(request_id).removeprefix(ID_PREFIX)[:ID_CHARS]  # ids begin with the time: less would be alike


FILTERS: Final = {
    "ago": ago_text,
    "left": left_text,
    "duration": duration_text,
    "money": money_text,
    "share": share_text,
    "request_name": request_name,
    "commas": lambda number: f"{number:,}",
}
"""What templates may call on a number."""
