"""The nouns of a request: small immutable values that the stages hand on to each other.

Nothing here acts. `gateway.py` shows the order in which these values come into being.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Tier = Literal["simple", "complex"]
"""The class of difficulty. Ordinal: complex costs more and can do more."""

TIERS: Final[tuple[Tier, Tier]] = ("simple", "complex")

Status = Literal["ok", "error", "interrupted", "client_disconnected", "refused"]
"""What became of a completion request, as its usage row says it."""

Source = Literal["header", "override", "session", "surrogate", "teacher", "role", "default"]
"""What made a decision, as `X-Hermes-Decision` says it."""


class Secret:
    """A value that must not be printed: its text is only had by asking for it.

    >>> Secret("sk-123")
    Secret(***)
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one place that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a secret is never pickled")


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """A key towards a provider: the name of its environment variable, and its value."""

    env: str
    value: Secret


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in nano-USD (1e-9 USD) a million tokens; whole numbers, so that money never rounds away."""

    input_nanousd_per_mtok: int
    output_nanousd_per_mtok: int
    cached_input_nanousd_per_mtok: int | None = None
    """None: cached prompt tokens cost what the others cost."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model deployment at one provider, as an entry of a tier's cascade."""

    id: str
    """`model@host[:port]/path`, what breakers, rows and the admin API call it."""

    model: str
    base_url: str
    """As written, without trailing slashes; may hold a user or a query, so it is never shown: see `shown_url`."""

    shown_url: str
    """The base URL without user and query."""

    keys: tuple[ProviderKey, ...] = ()
    needs_key: bool = True
    """False where the operator said so: `api_key_env: ""` or `api_key_envs: []`."""

    region: str | None = None
    capabilities: frozenset[str] | None = None
    """None: everything."""

    context_window: int | None = None
    """Tokens; None: unknown."""

    price: Price | None = None
    """From the configuration; None: the price library is asked."""

    headers: tuple[tuple[str, Secret], ...] = ()
    timeout_s: float = 120.0
    """Bounds one attempt, its stream included."""


@dataclass(frozen=True, slots=True)
class Cascade:
    """A tier's endpoints in the order in which they are tried; the position is the fallback level."""

    tier: Tier
    endpoints: tuple[Endpoint, ...]
    timeout_s: float
    """Bounds a whole request of this tier, whatever it has tried."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request may go, as one residency rule says it: an endpoint of one of these regions, or one of these."""

    regions: frozenset[str] = frozenset()
    endpoints: frozenset[str] = frozenset()
    """By id or by model."""

    ids: frozenset[str] = frozenset()
    """Those of `endpoints` that are an endpoint's id. A pin may send a model of any name elsewhere, and no model of
    such a name is meant.
    """

    rule: int = 0
    """The number of the rule in the configuration, from 1; 0: no rule's."""

    def holds(self, endpoint: Endpoint) -> bool:
        """Whether the endpoint is there; one without a region is outside every region."""
        return (
            endpoint.region in self.regions
            or endpoint.id in self.endpoints
            or (endpoint.model in self.endpoints and endpoint.model not in self.ids)
        )


@dataclass(frozen=True, slots=True)
class Allowance:
    """Who may see what a request carries: residency's verdict, which every call that is made for it must pass."""

    places: tuple[Place, ...] = ()
    """Each of them must hold."""

    stores_text: bool = True
    """Whether anything of the texts may be kept: previews, shadow answers, labels."""

    def permits(self, endpoint: Endpoint) -> bool:
        """Whether the endpoint may be sent the request, or anything made of it."""
        return all(place.holds(endpoint) for place in self.places)

    def forbidden_by(self, endpoint: Endpoint) -> Place | None:
        """The first place that does not hold the endpoint; None where it is permitted."""
        return next((place for place in self.places if not place.holds(endpoint)), None)


ANYONE: Final = Allowance()
"""No rule is for the request."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """How much one caller may ask; 0 is no limit."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    concurrent: int = 0


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: an API key, and within it a user."""

    key_id: str | None = None
    """None: anonymous."""

    user_id: str | None = None
    identity: str = ""
    """Tells callers apart, anonymous ones with different dummy keys too; never a key itself."""

    is_admin: bool = False
    """Whether this is the operator's own key."""

    scopes: frozenset[str] = frozenset()
    """Of the API key: `router`, `gateway`, `admin`."""

    roles: frozenset[str] | None = None
    """The roles that may be asked for; None: every one."""

    limits: RateLimits | None = None
    """The API key's own; None: those of the configuration."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A classifier's answer for one text."""

    tier: Tier
    confidence: float | None = None
    """0..1; None where the classifier gives none."""

    raw: str = ""
    """The words it was read from, for the trace."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Which tier should answer, and why."""

    tier: Tier
    source: Source
    confidence: float | None = None
    session_key: str = ""
    strikes: int = 0
    """Consecutive broken streams of this session."""

    classifier_ms: float = 0.0
    """Time spent waiting for the teacher."""

    deviation: Literal["escalation", "de_escalation"] | None = None
    """A keyword spoke against the conversation's tier, in this direction."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer. `prompt_tokens` contains `cached_tokens`, `completion_tokens` contains
    `reasoning_tokens`.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Bill:
    """What a provider may charge for a call that gave no answer."""

    usage: object = None
    """As the provider has told it, or None: then the prompt is estimated."""

    text_bytes: int = 0
    """How much text has come, for that estimate."""


ANSWERED: Final = "answered"
"""An attempt's message where it gave the answer."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One upstream call, or an endpoint that was skipped (`called` false), as `error.attempts` and the receipt tell
    it.
    """

    endpoint: str
    model: str
    status: int | None
    message: str
    called: bool = True
    duration_ms: float = 0.0
    region: str | None = None
    """The endpoint's; None: outside every region."""

    bill: Bill | None = None
    """None: it was refused or never sent, which costs nothing; or it gave the answer, which is counted by itself."""

    def shown(self) -> dict[str, Any]:
        """The four fields of the public error."""
        return {"endpoint": self.endpoint, "model": self.model, "status": self.status, "message": self.message}


@dataclass(slots=True)
class UsageRecord:
    """One row of `ai_usage_logs`, with the names of its columns; filled in while the request runs, then never again."""

    request_id: str
    created_at: str
    """ISO 8601, UTC, milliseconds, `Z`."""

    route: str
    status: Status = "ok"
    function_name: str | None = None
    use_case: str | None = None
    user_id: str | None = None
    key_id: str | None = None
    session_key: str | None = None
    role: str | None = None
    tier: str | None = None
    model: str | None = None
    endpoint: str | None = None
    decision: str | None = None
    confidence: float | None = None
    stream: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_estimated: bool = False
    estimated_cost_usd: str | None = None
    """A decimal in text, exact to a nano-USD; None: the price is unknown, which is not zero."""

    duration_ms: float | None = None
    ttft_ms: float | None = None
    overhead_ms: float | None = None
    fallback_level: int | None = None
    attempts: int = 0
    error_message: str | None = None
    prompt_preview: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the receipt shows beyond the columns: the attempts one by one."""
