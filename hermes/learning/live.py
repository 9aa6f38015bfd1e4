"""Learning inside a running server: it follows new surrogates and audits, and reports. It never fits anything.

What computes or reads files runs in gevent's native threads, where it neither logs nor takes a lock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import gevent

from hermes.errors import DatabaseUnavailable
from hermes.learning.report import Itself, Live, report
from hermes.policy import RoutingPolicy, SurrogatePolicy
from hermes.routing.audit import Accepted, judge_name
from hermes.routing.surrogate import TfidfSurrogate
from hermes.routing.surrogates import Surrogates
from hermes.routing.trust import Trust, says
from hermes.storage.classified import ClassifiedRepository
from hermes.storage.labels import Audit, LabelRepository
from hermes.storage.usage_filter import utc_text
from hermes.types import TIERS, Verdict

log = logging.getLogger("hermes-router.routing")

REPORT_HOURS: Final = 24.0 * 7
AUDITS_EVERY_S: Final = 4.0

SHOWN: Final = (
    "method",
    "made_at",
    "learned_since",
    "counts",
    "cross_validation",
    "certificate",
    "gate",
    "data_sha256",
    "embedding",
)
"""Of a manifest, in reports."""

NO_TEACHER: Final = "There is no teacher: the surrogate decides alone, and nothing can be learned or audited"
UNAUDITED: Final = (
    "Audits are switched off (classifier.surrogate.audit_rate is 0): nobody would notice if the surrogate {version} "
    "did not agree with the teacher any more"
)
BORROWED: Final = "{sentence}. It ships with Hermes and was not fitted on this traffic (python -m hermes surrogate fit)"
PREVIEWS: Final = "logging.store_prompts is not full: this traffic cannot be learned from"


class Learning:
    """What a server does about its surrogate beside using it."""

    def __init__(
        self,
        surrogates: Surrogates,
        labels: LabelRepository,
        classified: ClassifiedRepository,
        clean: Callable[[str], str] = lambda text: text,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.surrogates = surrogates
        """Of the policies in force."""

        self._labels = labels
        self._classified = classified
        self._clean = clean
        self._clock = clock
        self._trust = Trust(labels.audits, _aside)
        self._looked_at = 0.0
        self._version: str | None = None

    def keep(self, accepted: Accepted, verdict: Verdict) -> None:
        """Stores an audit."""
        text = None if accepted.kept_text is None else self._clean(accepted.kept_text)
        self._labels.add(
            Audit(
                created_at=self._utc(self._clock()),
                request_id=accepted.request_id,
                surrogate=accepted.surrogate,
                caller=accepted.caller,
                surrogate_tier=accepted.verdict.tier,
                teacher_tier=verdict.tier,
                confidence=accepted.verdict.confidence or 0.0,
                rate=accepted.rate,
                text=text,
            )
        )

    def follow(self, policy: SurrogatePolicy) -> None:
        """Takes up what was fitted, and what was audited, since the last call."""
        change = gevent.get_hub().threadpool.apply(self.surrogates.refresh, (policy,))
        if change is not None and change.is_other:
            log.info("The surrogate %s decides from now on", change.version)
        if change is not None and change.warning:
            log.warning("%s", change.warning)
        surrogate = self.surrogates.of(policy)
        version = surrogate.version if surrogate is not None else None
        now = self._clock()
        if version != self._version or now - self._looked_at >= AUDITS_EVERY_S:
            self._version, self._looked_at = version, now
            # A database that is away is told elsewhere; until it is back the surrogate stands as it stood.
            with suppress(DatabaseUnavailable):
                if sentence := self._trust.look(surrogate, policy.target):
                    log.warning("%s", sentence)

    def report(self, routing: RoutingPolicy, hours: float) -> dict[str, Any]:
        """The classifier's report of the last hours."""
        now = self._clock()
        since = self._utc(now - hours * 3600)
        live, audits = self.standing(routing)
        return report(self._classified.since(since), audits, live, now=self._utc(now), since=since)

    def standing(self, routing: RoutingPolicy) -> tuple[Live, Sequence[Audit]]:
        """The surrogate that decides at the moment, and its audits, the oldest first."""
        surrogate = self.surrogates.of(routing.surrogate)
        audits: Sequence[Audit] = self._labels.audits(surrogate.version) if surrogate is not None else ()
        return self._live(routing, surrogate), audits

    def _live(self, routing: RoutingPolicy, surrogate: TfidfSurrogate | None) -> Live:
        policy = routing.surrogate
        if surrogate is None:
            return Live(policy.enabled, None, policy.target, says="No surrogate decides")
        state, sentence = self._state(routing, surrogate)
        return Live(
            enabled=policy.enabled,
            version=surrogate.version,
            target=policy.target,
            thresholds={tier: surrogate.threshold_of(tier, policy.confidence_threshold) for tier in TIERS},
            state=state,
            says=sentence,
            audit_rate=policy.audit_rate,
            about=shown(surrogate.manifest),
            itself=self._itself(routing),
        )

    def _itself(self, routing: RoutingPolicy) -> Itself:
        """How far the teacher agrees with itself."""
        again = self._labels.audits(judge_name(routing.teacher)) if routing.teacher is not None else ()
        return Itself(len(again), sum(audit.agrees for audit in again))

    def _state(self, routing: RoutingPolicy, surrogate: TfidfSurrogate) -> tuple[str, str]:
        standing = self._trust.standing
        if routing.teacher is None:
            return "alone", NO_TEACHER
        if standing is None:  # the first look is about to come
            return "certified" if "certificate" in surrogate.manifest else "borrowed", ""
        sentence = says(standing, surrogate.version)
        if not routing.surrogate.audit_rate and not standing.audited:
            sentence = UNAUDITED.format(version=surrogate.version)
        if standing.level > 1:
            return "stepped_back", sentence
        if standing.is_raised:
            return "raised", sentence
        if "certificate" in surrogate.manifest:
            return "certified", sentence
        return "borrowed", BORROWED.format(sentence=sentence)

    def _utc(self, seconds: float) -> str:
        return utc_text(datetime.fromtimestamp(seconds, UTC))


def shown(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a manifest that people want to see."""
    return {name: manifest[name] for name in SHOWN if name in manifest}


def _aside(work: Callable[[], None]) -> None:
    gevent.get_hub().threadpool.apply(work)
