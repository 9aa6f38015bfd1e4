"""The two halves of the product, where they differ: what they read of a request, and how they choose who answers.

The router reads a conversation and decides by its text. The gateway contract reads a role and obeys its pin. Everything
before and after is the same way, in `gateway.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from hermes.admission.auth import require_role, with_user
from hermes.chatrequest import ChatRequest
from hermes.contractrequest import ContractRequest, with_house_voice
from hermes.directory import Directory, Scope
from hermes.embeddingrequest import EmbeddingRequest
from hermes.errors import InvalidRequest
from hermes.metadata import classes_of, name_of, session_of
from hermes.policy import Policy
from hermes.routing.router import Asked, Router, named_tier
from hermes.types import ANYONE, Allowance, Cascade, Decision, Endpoint, Price, Principal, Tier
from hermes.upstream.catalog import pinned


@dataclass(frozen=True, slots=True)
class Incoming:
    """What is read of a request."""

    chat: ChatRequest | EmbeddingRequest
    principal: Principal
    """With the user that the request names."""

    role: str | None = None
    function_name: str | None = None
    use_case: str | None = None
    context_hint: str | None = None
    data_classes: tuple[str, ...] = ()
    named_session: str | None = None
    forced_tier: str | None = None
    is_legacy: bool = False
    first_text: str | None = None
    """The first user message as the caller wrote it, where something is masked in `chat`."""


LOCAL_EMBEDDER: Final = Endpoint(
    "local-embedder", "multilingual-e5-small", "", "this machine", needs_key=False, price=Price(0, 0)
)
"""Stands for the model that makes embeddings in this process."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the headers of a request say beside its body."""

    tier: str | None = None
    session: str | None = None
    user: str = ""
    wants_stream: bool = False
    """The route itself asks for a stream."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a choice must keep to."""

    downgrade: bool = False
    """A budget allows the simple tier only."""

    patience_s: float | None = None
    """How long the teacher may be waited for."""

    preview: str | None = None
    """What may be kept of the message."""

    allowance: Allowance = ANYONE
    """Who may see the request."""


class Half(Protocol):
    """One half of the product."""

    scope: Scope

    def read(self, raw: bytes, said: Said, principal: Principal, policy: Policy) -> Incoming:
        """Reads the request's bytes. Raises `InvalidRequest`."""

    def choose(
        self, incoming: Incoming, policy: Policy, directory: Directory, bounds: Bounds
    ) -> tuple[Decision | None, Cascade]:
        """Who shall answer, and why (None: there was nothing to decide)."""

    def could_answer(self, incoming: Incoming, policy: Policy, directory: Directory) -> list[Endpoint]:
        """Whoever may answer, also in another's place: nothing is decided yet, and a budget must hold for the dearest.
        A budget may still move the request to the simple tier.
        """

    def reachable(self, incoming: Incoming, policy: Policy, directory: Directory) -> list[Endpoint]:
        """Whoever may be asked at all, whatever is decided."""


class RouterHalf:
    """`/v1/chat/completions`: the text decides."""

    scope: Scope = "router"

    def __init__(self, router: Router) -> None:
        self._router = router

    def read(self, raw: bytes, said: Said, principal: Principal, policy: Policy) -> Incoming:
        chat = ChatRequest.parse(raw)
        metadata = chat.body.get("metadata")
        known = metadata if isinstance(metadata, Mapping) else {}
        return Incoming(
            chat=chat,
            principal=with_user(principal, chat.body, said.user),
            data_classes=classes_of(known),
            named_session=said.session or session_of(known),
            forced_tier=said.tier,
        )

    def choose(
        self, incoming: Incoming, policy: Policy, directory: Directory, bounds: Bounds
    ) -> tuple[Decision, Cascade]:
        asked = Asked(
            principal=incoming.principal,
            messages=incoming.chat.messages,
            requested_model=incoming.chat.model,
            forced_tier_header="simple" if bounds.downgrade else incoming.forced_tier,
            named_session=incoming.named_session,
            preview=bounds.preview or "",
            patience_s=bounds.patience_s,
            allowance=bounds.allowance,
            first_text=incoming.first_text,
        )
        decision = self._router.decide(policy, asked)
        if decision.source == "role":
            require_role(incoming.principal, incoming.chat.model)
            return decision, pinned(policy, decision.tier, directory.pins.get(f"model.{incoming.chat.model}"))
        return decision, policy.cascades[decision.tier]

    def could_answer(self, incoming: Incoming, policy: Policy, directory: Directory) -> list[Endpoint]:
        named = named_tier(policy, incoming.forced_tier, incoming.chat.model)
        if named is None:
            return [endpoint for cascade in policy.cascades.values() for endpoint in cascade.endpoints]
        tier, source = named
        if source == "role":
            return _of_role(policy, directory, tier, incoming.chat.model)
        return _of_role(policy, directory, tier, None)

    def reachable(self, incoming: Incoming, policy: Policy, directory: Directory) -> list[Endpoint]:
        return [*policy.endpoints().values(), *_pinned_first(policy, directory, incoming.chat.model)]


class ContractHalf:
    """`/v1/completions`: the role decides."""

    scope: Scope = "gateway"

    def read(self, raw: bytes, said: Said, principal: Principal, policy: Policy) -> Incoming:
        request = ContractRequest.parse(raw, stream=said.wants_stream)
        if request.role not in policy.gateway.roles:
            known = ", ".join(sorted(policy.gateway.roles))
            raise InvalidRequest(f"There is no role {request.role}; the roles are: {known}.", param="role")
        require_role(principal, request.role)
        return Incoming(
            chat=with_house_voice(request.chat, policy.gateway.house_voice),
            principal=replace(principal, user_id=request.user_id or name_of({"user": said.user}, "user")),
            role=request.role,
            function_name=request.function_name,
            use_case=request.use_case,
            context_hint=request.context_hint,
            data_classes=request.data_classes,
            is_legacy=request.is_legacy,
        )

    def choose(
        self, incoming: Incoming, policy: Policy, directory: Directory, bounds: Bounds
    ) -> tuple[Decision, Cascade]:
        role = incoming.role or ""
        if bounds.downgrade:
            return Decision("simple", "role"), policy.cascades["simple"]
        tier = policy.gateway.roles[role]
        return Decision(tier, "role"), pinned(policy, tier, directory.pins.get(f"model.{role}"))

    def could_answer(self, incoming: Incoming, policy: Policy, directory: Directory) -> list[Endpoint]:
        role = incoming.role or ""
        return _of_role(policy, directory, policy.gateway.roles[role], role)

    def reachable(self, incoming: Incoming, policy: Policy, directory: Directory) -> list[Endpoint]:
        return [*policy.endpoints().values(), *_pinned_first(policy, directory, incoming.role or "")]


class EmbeddingHalf:
    """`/v1/embeddings`: the model that is asked for, else the configured embedder, which may be this machine."""

    scope: Scope = "router"

    def read(self, raw: bytes, said: Said, principal: Principal, policy: Policy) -> Incoming:
        request = EmbeddingRequest.parse(raw)
        metadata = request.body.get("metadata")
        return Incoming(
            chat=request,
            principal=with_user(principal, request.body, said.user),
            data_classes=classes_of(metadata) if isinstance(metadata, Mapping) else (),
        )

    def choose(
        self, incoming: Incoming, policy: Policy, directory: Directory, bounds: Bounds
    ) -> tuple[Decision | None, Cascade]:
        endpoint = _embedder(incoming, policy)
        return None, Cascade("simple", (endpoint,), endpoint.timeout_s)

    def could_answer(self, incoming: Incoming, policy: Policy, directory: Directory) -> list[Endpoint]:
        return [_embedder(incoming, policy)]

    def reachable(self, incoming: Incoming, policy: Policy, directory: Directory) -> list[Endpoint]:
        # What is computed here goes nowhere, so no rule about places is for it.
        return [
            endpoint for endpoint in self.could_answer(incoming, policy, directory) if endpoint is not LOCAL_EMBEDDER
        ]


def _of_role(policy: Policy, directory: Directory, tier: Tier, role: str | None) -> list[Endpoint]:
    """The tier's endpoints with a role's pin, and those of the simple tier."""
    pin = directory.pins.get(f"model.{role}") if role is not None else None
    endpoints = pinned(policy, tier, pin).endpoints
    return [*endpoints, *policy.cascades["simple"].endpoints] if tier != "simple" else list(endpoints)


def _pinned_first(policy: Policy, directory: Directory, role: str) -> list[Endpoint]:
    tier = policy.gateway.roles.get(role)
    return [] if tier is None else [pinned(policy, tier, directory.pins.get(f"model.{role}")).endpoints[0]]


def _embedder(incoming: Incoming, policy: Policy) -> Endpoint:
    asked = (e for e in policy.endpoints().values() if e.model == incoming.chat.model)
    return next(asked, policy.embedder or LOCAL_EMBEDDER)
