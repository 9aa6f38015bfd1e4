"""A gateway between its providers: the plain configuration of these tests, and a clean start for each of them.

Two tiers, so that most tests need no configuration of their own: *simple* has a primary and a fallback, *complex* has
one endpoint alone. Waits are scaled to fractions of a second. Every provider key is a canary: a word that must turn up
nowhere.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .gateway import Gateway
from .provider import Provider
from .replies import chat

ATTEMPT_S = 0.6
"""`timeout_seconds` of every endpoint, where nothing else is wanted."""

FILLING_S = 10.0
"""The same where a counter of a budget is filled from the usage log first: several workers take most of a second."""

EVERYWHERE_S = 1.0
"""When every worker knows of a change, as is promised."""

KEYS = {f"PROVIDER_KEY_{number}": f"canary-{number}-{secrets.token_hex(8)}" for number in range(300)}
PRICE = {"input_per_mtok": 1.0, "output_per_mtok": 2.0}


class World:
    """A gateway and four providers: primary, fallback, lone and teacher."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        env: Mapping[str, str | None] | None = None,
        attempt_s: float = ATTEMPT_S,
    ) -> None:
        """`attempt_s` is the `timeout_seconds` of its endpoints."""
        self.primary, self.fallback, self.lone, self.teacher = (Provider() for _ in range(4))
        self._names = itertools.cycle(KEYS)
        self._config = config or {}
        self._attempt_s = attempt_s
        self._changed = False
        self.gateway = Gateway.start(self.config(), {**KEYS, **(env or {})})

    @property
    def providers(self) -> tuple[Provider, ...]:
        """All of them."""
        return self.primary, self.fallback, self.lone, self.teacher

    def endpoint(self, provider: Provider, keys: int = 1, **more: Any) -> dict[str, Any]:
        """An endpoint's entry, with provider keys that no test has used before."""
        name = next(name for name in ("primary", "fallback", "lone", "teacher") if getattr(self, name) is provider)
        names = [next(self._names) for _ in range(keys)]
        plain = {"model": f"{name}-model", "base_url": provider.base_url, "api_key_envs": names, "price": PRICE}
        return {**plain, "timeout_seconds": self._attempt_s, **more}

    def config(
        self,
        simple: Sequence[Mapping[str, Any]] | None = None,
        complex: Sequence[Mapping[str, Any]] | None = None,
        **sections: Any,
    ) -> dict[str, Any]:
        """The plain configuration with other endpoints or sections."""
        simple = simple or [self.endpoint(self.primary), self.endpoint(self.fallback)]
        plain = {
            "models": {
                "simple": {"endpoints": list(simple)},
                "complex": {"endpoints": list(complex or [self.endpoint(self.lone)])},
            },
            "circuit_breaker": {"failure_threshold": 3, "recovery_timeout_sec": 0.5, "window_sec": 60},
            "retry": {"backoff_503_sec": [0.05, 0.1, 0.15], "transport_attempts": 3, "transport_backoff_sec": 0.05},
        }
        return {**plain, **self._config, **sections}

    def configure(self, **changes: Any) -> None:
        """Puts `config(**changes)` in force until the test ends."""
        self._changed = True
        answer = self.gateway.reload(self.config(**changes))
        assert answer.status == 200, answer.body

    @staticmethod
    def until_every_worker_knows() -> None:
        """Waits until what an operator has changed is in force everywhere.

        By the clock: an idle server may give a hundred requests in a row to one and the same worker, so asking proves
        nothing.
        """
        time.sleep(EVERYWHERE_S)

    def begin(self) -> None:
        """Makes everything as at the start: healthy providers, closed breakers, keys that nobody has limited."""
        limited = any(b" 4" in call.sent[:12] for provider in self.providers for call in provider.calls)
        for provider in self.providers:
            provider.script(chat())
        if self._changed or limited:
            self.configure()
            self._changed = False
        self.gateway.close_circuits()

    def calls(self) -> list[str]:
        """Who was called, in the order of arrival."""
        names = {id(provider): name for name, provider in vars(self).items() if isinstance(provider, Provider)}
        calls = [(call.at, names[id(provider)]) for provider in self.providers for call in provider.calls]
        return [name for _, name in sorted(calls)]

    def close(self) -> None:
        """Ends everything."""
        self.gateway.stop()
        for provider in self.providers:
            provider.close()
