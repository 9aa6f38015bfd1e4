"""What residency rules make of a request: who may see it, what of it goes on, what may be kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hermes.accounting.exchange import preview_of
from hermes.admission.masking import mask
from hermes.admission.residency import Ruling, Subject, rule_on, search_for
from hermes.errors import DeadlineExceeded
from hermes.halves import Incoming
from hermes.policy import Policy
from hermes.routing.conversation import first_user_text, last_user_text
from hermes.types import ANYONE, Allowance
from hermes.upstream.lifeline import NEVER
from hermes.upstream.restoring import Placeholders

RETRY_AFTER_S: Final = 1.0


def preview_for(incoming: Incoming, policy: Policy, allowance: Allowance = ANYONE) -> str | None:
    """What may be kept of the message."""
    if not allowance.stores_text:
        return None
    return preview_of(last_user_text(incoming.chat.messages) or "", policy.logging.store_prompts)


def ruled(
    incoming: Incoming, policy: Policy, until: float = NEVER, clock: Callable[[], float] = time.monotonic
) -> tuple[Incoming, Placeholders | None, Ruling]:
    """The request as it may go on, what its placeholders stand for where it has any, and what residency rules say.

    Args:
        until: when the request is over, on the clock. What is not looked through by then must not go on.

    Raises:
        DeadlineExceeded: that moment has come.
        InvalidRequest: it cannot be masked.
    """

    def check() -> None:
        if clock() > until:
            raise DeadlineExceeded(
                "The time for this request is over: it could not be looked through for personal data.",
                (),
                retry_after_s=RETRY_AFTER_S,
            )

    subject = Subject(incoming.use_case, incoming.function_name, incoming.data_classes)
    search = search_for(policy.residency, subject)
    if not search.kinds:
        return incoming, None, rule_on(search, subject, {})
    masked = mask(incoming.chat, incoming.context_hint, search.kinds, search.masks, check)
    ruling = rule_on(search, subject, masked.found)
    if not masked.placeholders:
        return incoming, None, ruling
    first_text = first_user_text(incoming.chat.messages)
    going_on = replace(incoming, chat=masked.request, context_hint=masked.hint, first_text=first_text)
    return going_on, Placeholders(masked.placeholders), ruling
