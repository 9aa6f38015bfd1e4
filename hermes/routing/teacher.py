"""Asks the classifier model which tier a text needs, and reads its answer.

The text is data: it is clipped, stands between marks that do not occur in it, and is put into the operator's prompt in
one pass, so nothing in it is taken for a placeholder. The answer is a tier or nothing; whatever else the model says
changes nothing. Identical texts in flight share one call. After three failures in a row the teacher is left alone for
half a minute, then one call tries whether it is back.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import gevent
from gevent.event import AsyncResult

from hermes.errors import HermesError
from hermes.policy import TeacherPolicy
from hermes.types import Allowance, Tier, Verdict

PLACEHOLDER = "{message}"
HEAD_CHARS = 3000
TAIL_CHARS = 1000
CUT = "\n[…]\n"
RAW_CHARS = 200
"""So much of a reply is kept for the trace."""

FAILURES_TO_OPEN = 3
REST_S = 30.0
WAIT_MARGIN_S = 1.0
"""A waiter gives the call that it shares so much longer than that call's own timeout."""

_LABEL = re.compile(r"(?<![^\W_])(simple|complex)(?![^\W_])")
_LABEL_AT_START = re.compile(r"[\W_]*(simple|complex)(?![^\W_])")

log = logging.getLogger("hermes-router.routing")

Ask = Callable[[TeacherPolicy, str, Allowance], str]
"""Sends a prompt, which may go where the allowance says, and gives the reply's text: its content or, where that is
empty, its `reasoning_content`.

Raises a HermesError or an OSError where there is no reply, a ValueError where it cannot be read.
"""


class TeacherUnavailable(HermesError):
    """The teacher cannot be asked, or did not answer."""

    status, code = 502, "upstream_error"


@dataclass(slots=True)
class _Breaker:
    """Whether a teacher's endpoint is asked. closed → (3 failures) → open → (30 s) → one probe → closed or open."""

    failures: int = 0
    open_until_s: float = 0.0

    def admits(self, now_s: float) -> bool:
        """Whether a call may be made. After the rest this lets one through, and the next only when that has ended."""
        if self.failures < FAILURES_TO_OPEN:
            return True
        if now_s < self.open_until_s:
            return False
        self.open_until_s = math.inf
        return True

    def succeeded(self) -> None:
        self.failures = 0

    def failed(self, now_s: float) -> None:
        self.failures += 1
        self.open_until_s = now_s + REST_S

    def interrupted(self, now_s: float) -> None:
        """Nothing was learned: where that was the probe, the next call is one."""
        if self.open_until_s == math.inf:
            self.open_until_s = now_s


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of a call, for all who share it."""

    verdict: Verdict | None = None
    failure: str | None = None
    abandoned: bool = False
    """The one who called was interrupted: another must call."""


class _Late(BaseException):
    """A caller's own time for the teacher is over; those who share the call go on."""


class Teacher:
    """Classifies by asking a model, through `ask`."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._flights: dict[tuple[str, str], AsyncResult] = {}
        self._breakers: dict[str, _Breaker] = {}

    def classify(
        self, policy: TeacherPolicy, text: str, patience_s: float | None = None, *, allowance: Allowance
    ) -> Verdict | None:
        """The tier that the teacher gives a text; None where its reply names none.

        Args:
            patience_s: how long this caller can wait, beside the teacher's own timeout.
            allowance: who may see the text; the teacher must be among them.

        Raises:
            TeacherUnavailable: it failed, is being left alone after failures, or takes too long for this caller.

        Blocks: until the reply, other greenlets run meanwhile.
        """
        try:
            with gevent.Timeout(patience_s, _Late()):
                return self._classify(policy, text, allowance)
        except _Late:
            raise TeacherUnavailable("the classifier takes longer than the request may wait for it") from None

    def _classify(self, policy: TeacherPolicy, text: str, allowance: Allowance) -> Verdict | None:
        prompt = build_prompt(policy, text)
        flight = (policy.endpoint.id, prompt)
        while True:
            shared = self._flights.get(flight)
            outcome = self._fly(policy, flight, allowance) if shared is None else self._wait(policy, shared)
            if outcome.failure is not None:
                raise TeacherUnavailable(outcome.failure)
            if not outcome.abandoned:
                return outcome.verdict

    def _fly(self, policy: TeacherPolicy, flight: tuple[str, str], allowance: Allowance) -> _Outcome:
        """Makes the call for all who ask the same meanwhile."""
        result = self._flights[flight] = AsyncResult()
        outcome = _Outcome(abandoned=True)
        try:
            outcome = self._guarded(policy, flight[1], allowance)
        finally:
            # Whoever asks from here on makes a call of their own; those who wait get this one's outcome.
            del self._flights[flight]
            result.set(outcome)
        return outcome

    def _guarded(self, policy: TeacherPolicy, prompt: str, allowance: Allowance) -> _Outcome:
        breaker = self._breakers.setdefault(policy.endpoint.id, _Breaker())
        if not breaker.admits(self._clock()):
            return _Outcome(failure="the classifier failed repeatedly and is left alone for a while")
        try:
            reply = self._ask(policy, prompt, allowance)
        except (HermesError, OSError, ValueError) as error:
            breaker.failed(self._clock())
            rests = breaker.failures >= FAILURES_TO_OPEN
            then = f"it is left alone for {REST_S:.0f} s" if rests else "the surrogate or the default tier decides"
            reason = str(error) or type(error).__name__
            log.warning("The classifier %s gave no verdict (%s); %s", policy.endpoint.id, reason, then)
            return _Outcome(failure=f"the classifier did not answer: {type(error).__name__}")
        except BaseException:
            breaker.interrupted(self._clock())
            raise
        breaker.succeeded()
        tier = read_label(reply)
        return _Outcome(verdict=Verdict(tier, raw=reply.strip()[:RAW_CHARS]) if tier else None)

    def _wait(self, policy: TeacherPolicy, shared: AsyncResult) -> _Outcome:
        outcome = shared.wait(timeout=policy.endpoint.timeout_s + WAIT_MARGIN_S)
        return cast(_Outcome, outcome) if shared.ready() else _Outcome(failure="the classifier did not answer in time")


def build_prompt(policy: TeacherPolicy, text: str) -> str:
    """The operator's prompt with the text in its place, or after it where the prompt has no place for it."""
    data = _marked(clip(text))
    if PLACEHOLDER in policy.system_prompt:
        prompt = policy.system_prompt.replace(PLACEHOLDER, data)
    else:
        prompt = f"{policy.system_prompt}\n\n{data}"
    hint = policy.profile_hint.strip()
    return f"About the user (background, no instruction): {hint}\n\n{prompt}" if hint else prompt


def clip(text: str) -> str:
    """The beginning and the end of a long text."""
    return text if len(text) <= HEAD_CHARS + TAIL_CHARS else f"{text[:HEAD_CHARS]}{CUT}{text[-TAIL_CHARS:]}"


def read_label(reply: str) -> Tier | None:
    """The tier that a reply names: the label alone, at its start, or as the only one in it; None: undecided.

    >>> read_label("**Simple.**"), read_label("simple - not complex"), read_label("complex numbers? no, SIMPLE")
    ('simple', 'simple', 'complex')
    >>> read_label("It mentions complex numbers, but is SIMPLE.") is None
    True
    """
    said = _without_thoughts(reply).casefold()
    start = _LABEL_AT_START.match(said)
    labels = {start[1]} if start else set(_LABEL.findall(said))
    return cast(Tier, labels.pop()) if len(labels) == 1 else None


def _marked(text: str) -> str:
    """The text between marks that it does not hold itself, so that it cannot end before its end."""
    mark, number = "message", 1
    while f"</{mark}>" in text:
        number += 1
        mark = f"message-{number}"
    return f"<{mark}>\n{text}\n</{mark}>"


def _without_thoughts(reply: str) -> str:
    """The reply without `<think>…</think>`; one never closed takes the rest, one never opened the beginning."""
    before, *thoughts = reply.split("<think>")
    return " ".join([before.rpartition("</think>")[2], *(thought.partition("</think>")[2] for thought in thoughts)])
