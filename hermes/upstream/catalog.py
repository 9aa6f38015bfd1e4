"""Which endpoints may answer, in which order, where a role's pin has its say.

A pin that names the model of a configured endpoint means that endpoint. Any other name goes to the base URL of the
tier's primary with that model, which is how a gateway in front of many providers serves them all. Behind the pin
stands the rest of the role's tier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hermes.policy import Policy
from hermes.types import Cascade, Endpoint, Tier


def pinned(policy: Policy, tier: Tier, model: str | None) -> Cascade:
    """The tier's cascade, with the pinned model first."""
    cascade = policy.cascades[tier]
    if not model or model == cascade.endpoints[0].model:
        return cascade
    first = _named(policy.cascades, tier, model) or _at_primary(cascade.endpoints[0], model)
    others = tuple(endpoint for endpoint in cascade.endpoints if endpoint.id != first.id)
    return replace(cascade, endpoints=(first, *others), timeout_s=max(cascade.timeout_s, first.timeout_s))


def _named(cascades: Mapping[Tier, Cascade], tier: Tier, model: str) -> Endpoint | None:
    """The configured endpoint of this model, in the tier itself before any other."""
    own_first = [cascades[tier], *(cascade for name, cascade in cascades.items() if name != tier)]
    return next((e for cascade in own_first for e in cascade.endpoints if e.model == model), None)


def _at_primary(primary: Endpoint, model: str) -> Endpoint:
    """Another model at the primary's provider. What the configuration says of the primary's model is not true of it."""
    _, at, place = primary.id.partition(f"{primary.model}@")
    return replace(
        primary, id=f"{model}@{place if at else primary.shown_url}", model=model, price=None, capabilities=None,
        context_window=None,
    )  # fmt: skip
