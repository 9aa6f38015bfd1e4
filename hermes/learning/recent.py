"""From when on the traffic counts: what was said before a surrogate stepped back may be what nobody says any more.

While it accepts, old and new traffic are alike as far as anybody knows, and all of it counts. When audits have made it
step back, traffic or teacher has changed. Then what has come since is worth more than all that came before, once there
is enough of it; and it stays so for the versions that come after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hermes.routing.standing import Judged, Standing, assurance
from hermes.routing.surrogate import TfidfSurrogate
from hermes.storage.labels import Audit

ENOUGH_SINCE: Final = 500
"""Texts since a surrogate stepped back: with so many, these alone are learned from. With fewer nothing much could be
certified on them.
"""


def stepped_back_at(live: TfidfSurrogate, audits: Sequence[Audit], target: float) -> str:
    """When audits made it step back, as `created_at` has it; empty: they did not.

    Args:
        audits: of this version, the oldest first.
    """
    standing = Standing(live.evidence, target)
    for audit in audits:
        standing.take(Judged(assurance(audit.surrogate_tier, audit.confidence, live.simple_cost), audit.agrees))
        if standing.level > 1:
            return audit.created_at
    return ""


def counts_from(live: TfidfSurrogate) -> str:
    """From when on traffic counts as long as nothing has changed; empty: all of it does."""
    return str(live.manifest.get("learned_since", ""))
