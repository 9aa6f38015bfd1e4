"""What the cascade tells the operator while it works, declared as narrow as it needs it; `gateway` has the real one."""

from __future__ import annotations

from typing import Protocol

from hermes.types import Endpoint, ProviderKey, Tier


class Notes(Protocol):
    """Traces, metrics and log lines of upstream calls."""

    def limited(self, endpoint: Endpoint, key: ProviderKey | None, tier: Tier, rest_s: float) -> None:
        """A 429 has put a key to rest."""

    def attempt_failed(self, endpoint: Endpoint, status: int | None, message: str, then: str) -> None:
        """A call gave no answer; `then` says what is done about it."""

    def refused_the_caller(self, endpoint: Endpoint, message: str) -> None:
        """A provider does not take the caller's request, and the caller is told so."""

    def key_rotated(self, endpoint: Endpoint, tier: Tier, reason: str) -> None:
        """The next key of an endpoint is asked."""

    def misconfigured(self, endpoint: Endpoint, status: int) -> None:
        """A provider refuses our key, path or model: only the operator can mend that."""

    def fit_to_show(self, message: str) -> str:
        """A provider's words without secrets, addresses and markup; empty where nothing is left."""
