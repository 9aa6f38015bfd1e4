"""Parts of a page that stand for themselves: what cannot be read says so in its own cell, and the others go on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from hermes.errors import HermesError

log = logging.getLogger("hermes-router.web")

Value = TypeVar("Value")


def attempted(make: Callable[[], Value]) -> tuple[Value | None, str]:
    """What `make` gives, or None and a sentence that says why not."""
    try:
        return make(), ""
    except HermesError as error:
        return None, error.message
    except Exception as error:  # noqa: BLE001  (an edge: whatever the database does, the rest of the page is shown)
        log.warning("A part of the dashboard cannot be shown: %s: %s", type(error).__name__, error)
        return None, "The usage log cannot be read at the moment."
