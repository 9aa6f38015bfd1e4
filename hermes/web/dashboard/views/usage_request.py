"""One request in the drawer: how it was decided, who was asked, where its time went, what it cost, what was kept.

Made of the receipt alone, so that it tells the same as `GET /admin/usage/{request_id}`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from hermes.observe.tracewords import plain
from hermes.web.dashboard.views.usage import STATES

JOINERS: Final = frozenset("\u200c\u200d")
HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
MOST_CHARS: Final = 20_000
SCALE_STEPS: Final = (1, 2, 5)
MOST_MARKS: Final = 4.5

PASSED: Final[tuple[tuple[str, str, str], ...]] = (
    ("override", "Override keyword", "None in the message"),
    ("session", "Session cache", "No tier that could be kept"),
    ("surrogate", "Surrogate", "Not in use, or not sure enough"),
    ("teacher", "Teacher", "Not in use, or gave no answer"),
)
"""The stages in their order: what each is called, and what is known of it where a later one has decided."""

FORCED: Final[Mapping[str, str]] = {"header": "The caller", "role": "Role", "default": "Default tier"}


@dataclass(frozen=True, slots=True)
class Step:
    """A station of the decision."""

    name: str
    said: str
    kind: str = ""
    """`hit`: it has decided; `end`: who answered; `fail`: nobody did."""

    percent: float | None = None
    """Its confidence."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a line of the waterfall, in percent of the whole."""

    kind: str
    """`gw`, `wait`, `run`, `fail`."""

    start: float
    length: float


@dataclass(frozen=True, slots=True)
class Track:
    """A line of the waterfall."""

    name: str
    stretches: tuple[Stretch, ...]
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Where the time went."""

    tracks: tuple[Track, ...]
    marks: tuple[tuple[float, str], ...]
    """The scale: places in percent, and what stands there."""


@dataclass(frozen=True, slots=True)
class Tried:
    """An endpoint that was asked, or passed over."""

    model: str
    endpoint: str
    mark: str
    said: str
    duration_ms: float | None
    was_called: bool


@dataclass(frozen=True, slots=True)
class RequestView:
    """All of the drawer."""

    row: Mapping[str, Any]
    request_id: str
    mark: str
    status: str
    steps: tuple[Step, ...]
    attempts: tuple[Tried, ...]
    waterfall: Waterfall | None
    policy: tuple[tuple[str, str], ...]
    prompt: str | None
    other_tier: Mapping[str, Any] | None
    json: str

    def text(self, name: str) -> str:
        """A column's text on one line, without anything hidden in it."""
        return plain(self.row[name])


def request_view(receipt: Mapping[str, Any]) -> RequestView:
    """
    Args:
        receipt: as `hermes.accounting.receipt` makes it.
    """
    row = receipt["row"]
    mark, word = STATES.get(row["status"], ("idle", plain(row["status"])))
    return RequestView(
        row,
        row["request_id"],
        mark,
        word,
        _steps(row, receipt["decision"]),
        tuple(_tried(attempt) for attempt in receipt["attempts"]),
        _waterfall(row, receipt["attempts"]),
        (*_policy(row, receipt["masked"], receipt["residency"]), *_known(receipt.get("knowledge"))),
        None if row["prompt_preview"] is None else visible(row["prompt_preview"][:MOST_CHARS]),
        receipt["other_tier"],
        visible(orjson.dumps(receipt, option=orjson.OPT_INDENT_2).decode()[:MOST_CHARS]),
    )


def visible(text: str) -> str:
    r"""The text with its lines, and with a name in place of each sign that one does not see or that turns the order.

    >>> visible("a\x1b[2Jb\ncd\u202ee\tf")
    'a‹U+001B›[2Jb\ncd‹U+202E›e\tf'
    """
    return "".join(f"‹U+{ord(char):04X}›" if _is_hidden(char) else char for char in text.replace("\r\n", "\n"))


def _is_hidden(char: str) -> bool:
    return char not in "\n\t" and char not in JOINERS and unicodedata.category(char) in HIDDEN


def _steps(row: Mapping[str, Any], told: Sequence[str]) -> tuple[Step, ...]:
    decision = row["decision"] or ""
    percent = None if row["confidence"] is None else row["confidence"] * 100
    chosen = plain(told[0])
    rest = [plain(sentence) for sentence in told[1:]]
    end = _end(row, rest)
    if decision in FORCED and decision != "default":
        return (Step(FORCED[decision], chosen, "hit"), *end)
    steps: list[Step] = []
    for stage, name, passed in PASSED:
        if stage == decision:
            return (*steps, Step(name, chosen, "hit", percent), *end)
        steps.append(Step(name, passed))
    if decision == "default":
        return (*steps, Step(FORCED[decision], chosen, "hit"), *end)
    return (Step("No decision", chosen), *end)


def _end(row: Mapping[str, Any], told: list[str]) -> tuple[Step, ...]:
    is_answered = row["status"] in ("ok", "interrupted", "client_disconnected") and row["model"]
    if is_answered:
        return (Step(plain(row["model"]), told[-1] if told else "", "end"),)
    return (Step("Nobody answered", told[-1] if told else plain(row["error_message"]), "fail"),)


def _tried(attempt: Mapping[str, Any]) -> Tried:
    status, called = attempt["status"], attempt["called"]
    is_fine = attempt["message"] == "answered"
    mark = "ok" if is_fine else "bad" if called else "idle"
    word = plain(attempt["message"]).removeprefix("skipped: ")
    said = f"{status}" if is_fine and status else word
    return Tried(plain(attempt["model"]), plain(attempt["endpoint"]), mark, said, attempt["duration_ms"], called)


def _waterfall(row: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> Waterfall | None:
    total = float(row["duration_ms"] or 0)
    if total <= 0:
        return None
    at = min(float(row["overhead_ms"] or 0), total)
    tracks = [Track("Hermes itself", (_stretch("gw", 0, at, total),), at)]
    called = [attempt for attempt in attempts if attempt["called"]]
    for number, attempt in enumerate(called, 1):
        is_answer = attempt["message"] == "answered" and number == len(called)
        end = total if is_answer else min(total, at + float(attempt["duration_ms"] or 0))
        first = min(max(float(row["ttft_ms"] or end), at), end) if is_answer else end
        parts = [_stretch("wait" if is_answer else "fail", at, first, total)]
        if first < end:
            parts.append(_stretch("run", first, end, total))
        tracks.append(Track(plain(attempt["model"]), tuple(parts), end - at))
        at = end
    return Waterfall(tuple(tracks), _marks(total))


def _stretch(kind: str, start: float, end: float, total: float) -> Stretch:
    return Stretch(kind, round(start / total * 100, 2), round(max(0.0, end - start) / total * 100, 2))


def _marks(total: float) -> tuple[tuple[float, str], ...]:
    """The scale's places.

    >>> _marks(4270)
    ((0.0, '0'), (23.4, '1 s'), (46.8, '2 s'), (70.3, '3 s'), (93.7, '4 s'))
    """
    steps = (factor * 10.0**power for power in range(-3, 9) for factor in SCALE_STEPS)
    step = next(step for step in steps if total / step < MOST_MARKS)
    return tuple((round(n * step / total * 100, 1), _mark_name(n * step)) for n in range(int(total / step) + 1))


def _mark_name(milliseconds: float) -> str:
    if not milliseconds:
        return "0"
    return f"{milliseconds / 1000:g} s" if milliseconds >= 1000 else f"{milliseconds:g} ms"


def _bounds(residency: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Which residency rules were for the request, and what they allowed."""
    facts = []
    for rule in (residency or {}).get("rules", ()):
        places = [*(rule["regions"] or ()), *(rule["endpoints"] or ())]
        where = "anywhere" if rule["regions"] is None and rule["endpoints"] is None else ", ".join(places) or "nowhere"
        name = f"Rule {rule['rule']}" + (f", {rule['name']}" if rule["name"] else "")
        facts.append((plain(name), plain(f"{rule['why']}: {rule['action']}, {where}")))
    if facts and residency is not None and "region" in residency:
        facts.append(("Answered in", plain(residency["region"] or "no region")))
    return facts


def _known(knowledge: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """What the request was given to know: which passages, and how near they were."""
    if not knowledge:
        return ()
    said = [f"{plain(one['source'])} #{one['chunk']} ({one['score']:.2f})" for one in knowledge.get("chunks") or ()]
    if note := knowledge.get("note"):
        said.append(plain(note))
    return (("Knowledge", ", ".join(said)),)


def _policy(
    row: Mapping[str, Any], masked: Sequence[Any], residency: Mapping[str, Any] | None
) -> tuple[tuple[str, str], ...]:
    facts = [
        ("Error", plain(row["error_message"])),
        ("Role", plain(row["role"])),
        ("Use case", plain(row["use_case"])),
        ("Key", plain(row["key_id"])),
        *_bounds(residency),
        ("Masked", ", ".join(f"{plain(one['kind'])} × {one['count']} (rule {one['rule']})" for one in masked)),
        ("Tokens", "estimated, the provider did not say" if row["usage_estimated"] else ""),
        ("From cache", f"{row['cached_tokens']:,} tokens" if row["cached_tokens"] else ""),
        ("Reasoning", f"{row['reasoning_tokens']:,} tokens" if row["reasoning_tokens"] else ""),
        ("Answer", "streamed" if row["stream"] else "in one piece"),
        ("Called", plain(row["route"])),
    ]
    return tuple((name, value) for name, value in facts if value)
