"""What the operator's keyword lists say about a new user message."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.policy import RoutingPolicy
from hermes.routing.keywords import KeywordSet, keyword_set
from hermes.routing.reading import Reading
from hermes.types import Tier

SMALL_TALK_CHARS = 200
WORDS_BESIDE = 1
"""A message that is little more than a phrase has so many words beside it and the fillers."""

_FILLERS = """
a all an and are again at doing everybody everyone for from good great guys hey i im in is it its just lot man mate me
much my now of oh quite really so that the then there these this those to today too u very was well with you your
你 您 你们 大家 了 啊 呀 哦 呢 吧 です ね よ ございます 요 합니다 습니다 입니다 ครับ ค่ะ คะ นะ
"""
FILLERS = frozenset(_FILLERS.split())
"""Words that carry no task of their own, folded as a reading folds them."""


@dataclass(frozen=True, slots=True)
class RoutingKeywords:
    """The keyword lists of a policy, made ready."""

    complex: KeywordSet
    simple: KeywordSet
    escalation: KeywordSet
    de_escalation: KeywordSet
    overrides: KeywordSet
    """`complex` and `simple` in one: most messages have none of either, and are looked through once."""

    @classmethod
    def of(cls, routing: RoutingPolicy) -> RoutingKeywords:
        """Costs a few microseconds for lists that have been made ready before; hashing them does."""
        to_complex = tuple(routing.override_keywords.get("complex", ()))
        to_simple = tuple(routing.override_keywords.get("simple", ()))
        return cls(
            keyword_set(to_complex),
            keyword_set(to_simple),
            keyword_set(tuple(routing.escalation_keywords)),
            keyword_set(tuple(routing.de_escalation_keywords)),
            keyword_set(to_complex + to_simple),
        )

    def override(self, message: Reading) -> tuple[Tier, str] | None:
        """The tier that a message's own words settle, and the keyword. Complex wins where both kinds occur."""
        if self.overrides.find(message) is None:
            return None
        if keyword := self.complex.find(message):
            return "complex", keyword
        keyword = self.simple.find(message)
        return ("simple", keyword) if keyword and self._is_small_talk(message) else None

    def against(self, tier: Tier, message: Reading) -> str | None:
        """The keyword in a message that speaks against the conversation's tier."""
        return (self.escalation if tier == "simple" else self.de_escalation).find(message)

    def _is_small_talk(self, message: Reading) -> bool:
        """Whether it is little more than a simple phrase: not *thanks, now write the migration*.

        At most one word stands beside the phrases and fillers, and that one asks for no task.
        """
        if len(message.normal) > SMALL_TALK_CHARS:
            return False
        beside = self.simple.left_over(message, FILLERS)
        return len(beside) <= WORDS_BESIDE and self.escalation.find(" ".join(beside)) is None
