"""Yesterday's traffic under another configuration or surrogate: which requests would go elsewhere, and what it costs.

Each recorded request is decided anew by the router itself, at the time and in the conversation in which it came. The
teacher is not asked: what it is known to have said of a text counts, and where it has said nothing the surrogate's
best guess or the default tier stands in, as when a teacher fails. What the caller forced stays as it was. Requests
whose text was not stored, or was cut to a preview, cannot be judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from hermes.accounting.prices import NANOUSD_PER_USD, PriceBook
from hermes.learning.traffic import PREVIEW_CHARS
from hermes.policy import Policy, TeacherPolicy
from hermes.routing.deciders import SurrogateOf
from hermes.routing.router import Asked, Router
from hermes.routing.sessions import Sessions
from hermes.routing.teacher import TeacherUnavailable
from hermes.state.store import MemoryStore
from hermes.storage.recorded import Recorded
from hermes.types import TIERS, Allowance, Decision, Principal, Usage, Verdict

FORCED: Final = ("header", "role")


@dataclass(slots=True)
class Replayed:
    """What would have become of the traffic."""

    requests: int = 0
    unjudged: int = 0
    """Requests without their text."""

    forced: int = 0
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests by the tier that they had and the one that they would have."""

    decided_before: Counter[str] = field(default_factory=Counter)
    decided_after: Counter[str] = field(default_factory=Counter)
    teacher_before: int = 0
    teacher_after: int = 0
    guessed: int = 0
    """Of the teacher's calls: what it would say is not known."""

    unpriced: int = 0
    """Judged requests whose cost is not known on both sides; they are in neither sum."""

    before_usd: float = 0.0
    after_usd: float = 0.0

    def shown(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "requests": self.requests,
            "unjudged": self.unjudged,
            "forced": self.forced,
            "tiers": {was: {now: self.moved[was, now] for now in TIERS} for was in TIERS},
            "moved": sum(count for (was, now), count in self.moved.items() if was != now),
            "decided_by": {"before": dict(self.decided_before), "after": dict(self.decided_after)},
            "teacher_calls": {"before": self.teacher_before, "after": self.teacher_after, "guessed": self.guessed},
            "cost_usd": {
                "before": round(self.before_usd, 6),
                "after": round(self.after_usd, 6),
                "unpriced": self.unpriced,
            },
        }


class Replay:
    """Decides recorded requests anew."""

    def __init__(self, policy: Policy, surrogate_of: SurrogateOf, verdicts: Mapping[str, str]) -> None:
        """
        Args:
            verdicts: what the teacher is known to have said of texts.
        """
        self._policy = policy
        self._now_s = 0.0
        self._teacher = _Remembered(verdicts)
        self._sessions = Sessions(MemoryStore(lambda: self._now_s), lambda: self._now_s)
        self._router = Router(self._sessions, self._teacher, surrogate_of, lambda event, fields: None)
        self._prices = PriceBook()
        self._keys: dict[str, str] = {}
        """The router's key of each recorded conversation."""

    def run(self, requests: Iterable[Recorded]) -> Replayed:
        """Decides all of them; they come in the order in which they came.

        Blocks: 0.2 ms a request.
        """
        found = Replayed()
        for recorded in requests:
            found.requests += 1
            found.decided_before[recorded.decision] += 1
            found.teacher_before += recorded.decision == "teacher"
            if recorded.decision in FORCED:
                found.forced += 1
            elif not recorded.text or len(recorded.text) == PREVIEW_CHARS:
                found.unjudged += 1
            else:
                decision = self._decide(recorded, recorded.text)
                found.moved[recorded.tier, decision.tier] += 1
                found.decided_after[decision.source] += 1
                self._count_cost(found, recorded, decision)
        found.teacher_after, found.guessed = self._teacher.calls, self._teacher.unknown
        return found

    def _decide(self, recorded: Recorded, text: str) -> Decision:
        self._now_s = datetime.fromisoformat(recorded.created_at).timestamp()
        self._teacher.recorded = recorded.tier if recorded.decision == "teacher" else None
        principal = Principal(key_id=recorded.key_id, identity=recorded.key_id or "anonymous")
        conversation = recorded.session_key or text
        asked = Asked(principal, [{"role": "user", "content": text}], named_session=conversation)
        if recorded.decision != "session" and not recorded.deviated:  # a conversation began, or was forgotten
            self._sessions.evict(self._keys.get(conversation, ""))
        decision = self._router.decide(self._policy, asked)
        self._keys[conversation] = decision.session_key
        return decision

    def _count_cost(self, found: Replayed, recorded: Recorded, decision: Decision) -> None:
        after = recorded.cost_usd
        endpoint = self._policy.cascades[decision.tier].endpoints[0]
        if decision.tier != recorded.tier or endpoint.model != recorded.model:
            prompt, completion = recorded.prompt_tokens or 0, recorded.completion_tokens or 0
            usage = Usage(prompt, completion, prompt + completion, cached_tokens=recorded.cached_tokens or 0)
            nanousd = self._prices.cost_nanousd(endpoint, usage) if recorded.prompt_tokens is not None else None
            after = None if nanousd is None else nanousd / NANOUSD_PER_USD
        if recorded.cost_usd is None or after is None:
            found.unpriced += 1
            return
        found.before_usd += recorded.cost_usd
        found.after_usd += after


class _Remembered:
    """A teacher who says only what is known that it has said."""

    def __init__(self, verdicts: Mapping[str, str]) -> None:
        self.recorded: str | None = None
        """What it said of this very request."""

        self.calls = self.unknown = 0
        self._verdicts = verdicts

    def classify(
        self, policy: TeacherPolicy, text: str, patience_s: float | None = None, *, allowance: Allowance
    ) -> Verdict | None:
        self.calls += 1
        for tier in TIERS:
            if tier == (self.recorded or self._verdicts.get(text)):
                return Verdict(tier)
        self.unknown += 1
        raise TeacherUnavailable("it is not known what the teacher would say")
