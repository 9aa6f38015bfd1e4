"""Rate limits: requests and tokens a minute, and requests under way at once, of a user and of an API key.

Minutes are fixed windows of the wall clock, one counter each, so that every process means the same one: a caller can
have twice its limit around the turn of a minute, never more. A request sets aside the tokens it may use and gives back
at its end what it did not use. One that may use more than the whole limit passes in a fresh minute, for else it could
never pass.

Requests under way hold a *slot* each: a counter of its own with a limit of one, which lives no longer than any request
may. So what a killed process held frees itself, which a common counter cannot do. A process knows its own slots and
tries none of them; only processes that share a store ever meet at one.

Who names no user counts as the user of their key, or of the word they sent instead of one.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from hermes.admission.claims import storable
from hermes.admission.estimate import Estimate
from hermes.errors import RateLimited
from hermes.policy import LimitsPolicy
from hermes.state.store import Claim, StateStore
from hermes.types import Principal, RateLimits, Usage

Kind = Literal["requests", "tokens"]
Who = tuple[str, str]
"""`user` or `key`, and its name."""

WINDOW_S: Final = 60
WINDOW_TTL_S: Final = 2 * WINDOW_S
"""A counter outlives its minute, as the clocks of machines differ."""

SLOT_TRIES: Final = 32
"""Slots asked for at most, a round trip each: processes that share a limit over 32 may not find the last free ones."""

LEASE_MARGIN_S: Final = 60.0


class Window:
    """A part of one minute's requests or tokens."""

    def __init__(self, kind: Kind, who: Who, limit: int, amount: int, clock: Callable[[], float]) -> None:
        now = clock()
        self.kind = kind
        self.limit = limit
        self._who = who
        self._clock = clock
        self._minute = int(now // WINDOW_S)
        self._left_s = (self._minute + 1) * WINDOW_S - now
        self._key = f"rate:{kind}:{self._minute}:{who[0]}:{who[1]}"
        self._amount = min(amount, limit)
        self.claims = (Claim(self._key, self._amount, limit, WINDOW_TTL_S),)

    def refused(self, position: int) -> None:
        """The store has refused the claim.

        Raises:
            RateLimited: always, since only time cures it.
        """
        whole_s = math.ceil(self._left_s)
        raise RateLimited(
            f"Rate limit reached for this {self._who[0]}: {self.limit} {self.kind} per minute. "
            f"Please try again in {whole_s}s.",
            retry_after_s=whole_s,
        )

    def granted(self) -> None:
        """There is nothing more to do."""

    def settle(self, store: StateStore, usage: Usage | None, cost_nanousd: int | None) -> None:
        """Corrects the tokens while their minute lasts; a request that was let in stays counted."""
        used = usage.total_tokens if usage is not None else 0
        is_now = int(self._clock() // WINDOW_S) == self._minute
        if self.kind == "tokens" and is_now and used != self._amount:
            store.add(self._key, used - self._amount, WINDOW_TTL_S)

    def left(self, store: StateStore) -> int:
        """What is left of the limit in this minute."""
        return max(0, self.limit - int(store.get(self._key) or 0))

    def reset(self) -> str:
        """How long the minute lasts from the claim on, as OpenAI writes it: `12s`, `350ms`."""
        return f"{math.ceil(self._left_s)}s" if self._left_s >= 1 else f"{math.ceil(self._left_s * 1000)}ms"


class Slot:
    """A place among the requests that a caller may have under way at once."""

    def __init__(
        self, own: dict[Who, set[int]], who: Who, limit: int, lease_s: float, first: int, monotonic: Callable[[], float]
    ) -> None:
        """Chooses a slot that this process does not use.

        Args:
            own: this process's slots; kept by what is granted and settled.
            first: the slot to begin looking at.

        Raises:
            RateLimited: this process alone uses them all.
        """
        self._own = own
        self._who = who
        self._limit = limit
        self._lease_s = lease_s
        self._monotonic = monotonic
        self._numbers = ((first + step) % limit for step in range(limit))
        self._tries_left = SLOT_TRIES
        self._turn_to_next()

    def refused(self, position: int) -> None:
        """Turns to the next slot: this one is another process's.

        Raises:
            RateLimited: none is left to ask for.
        """
        self._turn_to_next()

    def granted(self) -> None:
        """The slot is this request's."""
        self._own.setdefault(self._who, set()).add(self._number)
        self._ends_at = self._monotonic() + self._lease_s

    def settle(self, store: StateStore, usage: Usage | None, cost_nanousd: int | None) -> None:
        """Frees the slot."""
        own = self._own[self._who]
        own.discard(self._number)
        if not own:
            del self._own[self._who]
        if self._monotonic() < self._ends_at:  # else it may be somebody else's by now
            store.delete(self._key)

    def _turn_to_next(self) -> None:
        own = self._own.get(self._who, ())
        number = next((number for number in self._numbers if number not in own), None)
        # After a reload that has lowered the limit, the requests of before still count.
        if number is None or self._tries_left == 0 or len(own) >= self._limit:
            raise RateLimited(
                f"Rate limit reached for this {self._who[0]}: {self._limit} requests at once. "
                "Please try again when one of them has ended.",
                retry_after_s=1,
            )
        self._tries_left -= 1
        self._number = number
        self._key = f"slot:{self._who[0]}:{number}:{self._who[1]}"
        self.claims = (Claim(self._key, 1, 1, self._lease_s),)


class Limits:
    """Makes the claims of requests; knows this process's slots."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._rng = rng or random.Random()  # noqa: S311  (spreads processes over the slots, no secret)
        self._own: dict[Who, set[int]] = {}

    @staticmethod
    def concern(principal: Principal, policy: LimitsPolicy) -> bool:
        """Whether anything limits this caller."""
        return _is_any(policy.per_user) or (principal.key_id is not None and _is_any(_of_key(principal, policy)))

    def windows(self, principal: Principal, policy: LimitsPolicy, estimate: Estimate) -> list[Window]:
        """The claims on this minute's requests and tokens."""
        windows = []
        for who, limits in _limits(principal, policy):
            if limits.requests_per_minute:
                windows.append(Window("requests", who, limits.requests_per_minute, 1, self._clock))
            if limits.tokens_per_minute:
                tokens = estimate.usage().total_tokens
                windows.append(Window("tokens", who, limits.tokens_per_minute, tokens, self._clock))
        return windows

    def slots(self, principal: Principal, policy: LimitsPolicy, longest_s: float) -> list[Slot]:
        """The claims on slots.

        Args:
            longest_s: how long a request may take.

        Raises:
            RateLimited: this process alone uses all of them.
        """
        lease_s = longest_s + LEASE_MARGIN_S
        return [
            Slot(self._own, who, limits.concurrent, lease_s, self._rng.randrange(limits.concurrent), self._monotonic)
            for who, limits in _limits(principal, policy)
            if limits.concurrent
        ]


def headers(windows: Sequence[Window], store: StateStore) -> tuple[tuple[str, str], ...]:
    """`x-ratelimit-…` of requests and of tokens, each of the window with the least left."""
    shown: list[tuple[str, str]] = []
    for kind in ("requests", "tokens"):
        left = [(window.left(store), window.limit, window) for window in windows if window.kind == kind]
        if left:
            remaining, limit, window = min(left, key=lambda figures: figures[:2])
            shown += [
                (f"x-ratelimit-limit-{kind}", str(limit)),
                (f"x-ratelimit-remaining-{kind}", str(remaining)),
                (f"x-ratelimit-reset-{kind}", window.reset()),
            ]
    return tuple(shown)


def _limits(principal: Principal, policy: LimitsPolicy) -> Iterator[tuple[Who, RateLimits]]:
    user = f"named:{principal.user_id}" if principal.user_id else f"unnamed:{principal.identity}"
    yield ("user", storable(user)), policy.per_user
    if principal.key_id is not None:
        yield ("key", principal.key_id), _of_key(principal, policy)


def _of_key(principal: Principal, policy: LimitsPolicy) -> RateLimits:
    return principal.limits if principal.limits is not None else policy.per_key


def _is_any(limits: RateLimits) -> bool:
    return bool(limits.requests_per_minute or limits.tokens_per_minute or limits.concurrent)
