"""How often an address may try a key: a few times at once, then after pauses that double.

Tries are counted in the state store before the key is looked at, so that a thousand at once, over many workers, are not
a thousand guesses. Whoever comes during a pause is sent away and not counted.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from typing import Final

from hermes.state.pauses import Pauses
from hermes.state.store import StateStore

FREE_TRIES: Final = 5
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
MEMORY_S: Final = 15 * 60.0
"""How long tries are remembered."""

NETWORK_BITS: Final = 64
"""Of an IPv6 address: one subscriber has all addresses of such a network."""


class Throttle:
    """Tries to sign in, by address."""

    def __init__(self, store: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._pauses = Pauses(store, clock)

    def wait_s(self, address: str) -> float:
        """Counts a try; 0 where it may be made, else how long to wait."""
        name = network_of(address)
        left_s = self._pause_left_s(name)
        if left_s > 0:
            return left_s
        tries = self._store.add(f"sign-in:{name}", 1, MEMORY_S)
        if tries <= FREE_TRIES:
            return 0.0
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(tries - FREE_TRIES - 1, 16), LONGEST_PAUSE_S)
        if self._pauses.begin_new(f"sign-in-pause:{name}", pause_s):
            return 0.0
        return max(self._pause_left_s(name), FIRST_PAUSE_S)

    def succeeded(self, address: str) -> None:
        """Somebody at this address has a good key: forget the tries."""
        name = network_of(address)
        for noun in ("sign-in", "sign-in-pause"):
            self._store.delete(f"{noun}:{name}")

    def _pause_left_s(self, name: str) -> float:
        return self._pauses.left_s(f"sign-in-pause:{name}")


def network_of(address: str) -> str:
    """The part of an address that one visitor cannot choose.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3:4:5:6"), network_of("")
    ('192.0.2.7', '2001:db8:1:2::', 'unknown')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, NETWORK_BITS), strict=False).network_address)
