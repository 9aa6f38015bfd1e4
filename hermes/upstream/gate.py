"""The one gate that every call made for a request must pass on its way out.

Whoever chooses an endpoint asks the allowance beforehand and goes another way. So nothing is ever refused here, unless
somebody forgot to ask; then nothing is sent, and the error says what to mend. The
client (`transport.py`) opens no connection for a request before it has been here.
"""

from __future__ import annotations

from hermes.types import Allowance, Endpoint


class GateClosed(RuntimeError):
    """A call was about to leave for an endpoint that may not see the request: a fault in this program."""


def check(endpoint: Endpoint, allowance: Allowance) -> None:
    """Lets a call pass.

    Raises:
        GateClosed: a residency rule does not permit the endpoint; nothing was sent.
    """
    if allowance.places and (place := allowance.forbidden_by(endpoint)) is not None:
        raise GateClosed(f"residency rule {place.rule} does not permit {endpoint.id}, and nobody asked beforehand")
