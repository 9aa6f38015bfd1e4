"""What an operator learns of the upstream side while it happens: trace events, metrics, log lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from hermes.observe.metrics import Metrics
from hermes.observe.redact import Redactor
from hermes.types import Endpoint, ProviderKey, Tier

log = logging.getLogger("hermes-router.upstream")

Emit = Callable[[str, Mapping[str, Any]], None]

WHAT_TO_DO = {
    401: "the provider does not accept our key",
    402: "the provider asks for payment",
    403: "the provider does not let our key use this model",
    404: "the provider does not know this path or model",
}


class OperatorNotes:
    """Implements what the cascade and the breakers tell."""

    def __init__(self, emit: Emit, metrics: Metrics, redactor: Redactor) -> None:
        self._emit = emit
        self._metrics = metrics
        self._redactor = redactor

    def limited(self, endpoint: Endpoint, key: ProviderKey | None, tier: Tier, rest_s: float) -> None:
        """A 429 has put a key to rest."""
        self._metrics.limited(tier)
        log.info("%s rests for up to %.0f s at %s", key.env if key else "Calling without a key", rest_s, endpoint.id)

    def attempt_failed(self, endpoint: Endpoint, status: int | None, message: str, then: str) -> None:
        """A call gave no answer; `then` says what is done about it."""
        log.warning("Attempt at %s failed (status %s): %s; %s", endpoint.id, status or "none", message, then)

    def refused_the_caller(self, endpoint: Endpoint, message: str) -> None:
        """A provider does not take the caller's request."""
        log.info("%s refused a request, and its caller is told: %s", endpoint.id, message)

    def key_rotated(self, endpoint: Endpoint, tier: Tier, reason: str) -> None:
        """The next key of an endpoint is asked."""
        self._emit("key_rotation", {"base_url": endpoint.shown_url, "tier": tier, "reason": reason})

    def misconfigured(self, endpoint: Endpoint, status: int) -> None:
        """A provider refuses our key, path or model."""
        keys = ", ".join(key.env for key in endpoint.keys) or "no key"
        what = WHAT_TO_DO.get(status, "the provider does not take requests of this kind")
        log.error("%s answered %d: %s. Check models and %s in the configuration.", endpoint.id, status, what, keys)

    def circuit_changed(self, endpoint: Endpoint, old: str, new: str, failures: int) -> None:
        """An endpoint's breaker has changed its state."""
        self._emit(
            "circuit",
            {
                "base_url": endpoint.shown_url,
                "model": endpoint.model,
                "old_state": old,
                "new_state": new,
                "failures": failures,
            },
        )
        level = logging.WARNING if new == "open" else logging.INFO
        log.log(level, "Circuit of %s: %s → %s (%d failures)", endpoint.id, old, new, failures)

    def fit_to_show(self, message: str) -> str:
        """A provider's words without secrets, addresses and markup."""
        return self._redactor.public_message(message) if message else ""
