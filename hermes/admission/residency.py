"""Who may see a request, what of it is masked, whether it may go anywhere at all: the rules, applied to one request.

Every rule that is for the request binds it: where two name places, only endpoints of both may see it; one that blocks
is enough; texts are kept only where all let them be. What a request holds is looked for only where a rule that is
otherwise for it wants to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes.errors import ResidencyBlocked
from hermes.policy import ResidencyPolicy, ResidencyRule
from hermes.types import ANYONE, Allowance


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of a request without reading its texts."""

    use_case: str | None = None
    function_name: str | None = None
    data_classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """The rules that are for a request as far as its texts do not matter, and what to look for in those."""

    rules: tuple[ResidencyRule, ...]
    kinds: frozenset[str]
    """To be found."""

    masks: frozenset[str]
    """To be masked where found."""

    data_classes: tuple[str, ...] = ()
    """Those of the request that some rule names, in small letters; whatever else a caller says is of no consequence."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the rules say of one request."""

    allowance: Allowance = ANYONE
    rules: tuple[ResidencyRule, ...] = ()
    """Those that are for it."""

    found: Mapping[str, int] = field(default_factory=dict)
    """How often each kind of personal data is in it."""

    masked: Mapping[str, int] = field(default_factory=dict)
    """How many of them were masked."""

    data_classes: tuple[str, ...] = ()

    @property
    def blocked_by(self) -> ResidencyRule | None:
        """The rule that lets nobody see it."""
        return next((rule for rule in self.rules if rule.action == "block"), None)

    def check(self) -> None:
        """
        Raises:
            ResidencyBlocked: a rule blocks the request.
        """
        if (rule := self.blocked_by) is None:
            return
        kinds = sorted(rule.detected & self.found.keys()) if rule.detected is not None else []
        why = f" it holds {' or '.join(kinds)}" if kinds else " no model may see it"
        raise ResidencyBlocked(f"Residency {rule.called} blocks this request:{why}; nothing was sent.")

    def proof(self) -> dict[str, Any]:
        """What the usage row keeps: which rules, what they allow, what was masked; never a value."""
        return {
            "rules": [rule.shown() for rule in self.rules],
            "data_classes": list(self.data_classes),
            "found": dict(self.found),
            "masked": dict(self.masked),
            "stores_text": self.allowance.stores_text,
        }


def search_for(policy: ResidencyPolicy, subject: Subject) -> Search:
    """What has to be looked for before it can be said which rules are for the request."""
    classes = {name.casefold() for name in subject.data_classes}
    rules = tuple(rule for rule in policy.rules if _is_for(rule, subject, classes))
    every = frozenset(policy.detect)
    asked = _union(rule.detected for rule in rules if rule.detected is not None)
    masks = _union(every if rule.detected is None else rule.detected for rule in rules if rule.action == "redact")
    named = _union(rule.data_classes for rule in policy.rules if rule.data_classes is not None)
    return Search(rules, (asked | masks) & every, masks & every, tuple(sorted(classes & named)))


def rule_on(search: Search, subject: Subject, found: Mapping[str, int]) -> Ruling:
    """The ruling, now that the texts were looked through."""
    rules = tuple(rule for rule in search.rules if rule.detected is None or rule.detected & found.keys())
    allowance = Allowance(
        tuple(rule.place for rule in rules if rule.place is not None), all(rule.stores_text for rule in rules)
    )
    masked = {kind: number for kind, number in found.items() if kind in search.masks}
    return Ruling(allowance, rules, found, masked, search.data_classes)


def _is_for(rule: ResidencyRule, subject: Subject, classes: set[str]) -> bool:
    return (
        (rule.use_cases is None or (subject.use_case or "").casefold() in rule.use_cases)
        and (rule.functions is None or (subject.function_name or "").casefold() in rule.functions)
        and (rule.data_classes is None or not classes.isdisjoint(rule.data_classes))
    )


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)
