"""What an operator configures, as one immutable picture that is swapped whole.

A request takes `PolicyBox.current()` once and keeps it to its end, so that a reload never changes a request in flight.
`configfile.py` makes a Policy of a file; nothing else does, except the demo and tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hermes.types import Cascade, Endpoint, Place, RateLimits, Secret, Tier


@dataclass(frozen=True, slots=True)
class ServerPolicy:
    """Where it listens, what it takes."""

    host: str = "127.0.0.1"
    port: int = 8766
    max_body_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AuthPolicy:
    """Who may call."""

    admin_key_env: str = "ROUTER_PROXY_API_KEY"
    admin_key: Secret | None = None
    """None: every admin route answers 401."""

    require_client_key: bool = False


@dataclass(frozen=True, slots=True)
class TeacherPolicy:
    """The model that classifies."""

    endpoint: Endpoint
    """Its `timeout_s` is `classifier.timeout_seconds`."""

    system_prompt: str
    profile_hint: str = ""


@dataclass(frozen=True, slots=True)
class SurrogatePolicy:
    """The learned classifier."""

    enabled: bool = True
    path: str = "data/surrogate"
    confidence_threshold: float | None = None
    target: float = 0.95
    audit_rate: float = 0.03


@dataclass(frozen=True, slots=True)
class RoutingPolicy:
    """How a tier is chosen."""

    default_tier: Tier = "simple"
    session_timeout_s: float = 300.0
    override_keywords: Mapping[Tier, tuple[str, ...]] = field(default_factory=dict)
    escalation_keywords: tuple[str, ...] = ()
    de_escalation_keywords: tuple[str, ...] = ()
    teacher: TeacherPolicy | None = None
    surrogate: SurrogatePolicy = field(default_factory=SurrogatePolicy)


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When an endpoint is left alone."""

    failure_threshold: int = 3
    recovery_timeout_s: float = 30.0
    window_s: float = 60.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When an endpoint is asked again."""

    backoff_503_s: tuple[float, ...] = (2.0, 4.0, 8.0)
    transport_attempts: int = 3
    transport_backoff_s: float = 1.0


@dataclass(frozen=True, slots=True)
class StreamingPolicy:
    """What happens to a stream that breaks."""

    on_break: str = "done"
    """`done` or `error`."""

    strikes_before_fallback: int = 3
    idle_timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class GatewayPolicy:
    """The service contract's half."""

    roles: Mapping[str, Tier] = field(default_factory=lambda: {"chat": "simple", "reasoning": "complex"})
    house_voice: str = ""


@dataclass(frozen=True, slots=True)
class LimitsPolicy:
    """How much one caller may ask."""

    per_user: RateLimits = field(default_factory=RateLimits)
    per_key: RateLimits = field(default_factory=RateLimits)
    """Of keys that have no limits of their own."""


@dataclass(frozen=True, slots=True)
class BudgetsPolicy:
    """How budgets are counted; the budgets themselves are in the directory."""

    timezone: str = "UTC"
    """Where days, weeks and months begin."""

    on_store_failure: Literal["open", "closed"] = "open"
    unpriced_reserve_nanousd: int = 10_000_000
    """Set aside for a request to a model without a known price."""


@dataclass(frozen=True, slots=True)
class KnowledgePolicy:
    """Which calls get passages of the operator's documents, and how much of them."""

    enabled: bool = False
    use_cases: tuple[str, ...] = ()
    """Calls of these get knowledge without asking for it."""

    top_k: int = 4
    min_score: float = 0.3
    max_chars: int = 6000


@dataclass(frozen=True, slots=True)
class PersonaPolicy:
    """The files that describe the person behind the conversations."""

    user_path: str = "~/.hermes/USER.md"
    memory_path: str = "~/.hermes/MEMORY.md"
    soul_path: str = ""
    max_context_chars: int = 800


@dataclass(frozen=True, slots=True)
class ResidencyRule:
    """Which requests a rule is for, and what it asks. Conditions are compared without regard to case; every one that
    is given must hold, and one holds where any of its words does.
    """

    number: int
    """Its place in the configuration, from 1."""

    name: str = ""
    use_cases: frozenset[str] | None = None
    functions: frozenset[str] | None = None
    data_classes: frozenset[str] | None = None
    detected: frozenset[str] | None = None
    """Kinds of personal data."""

    place: Place | None = None
    """Where the request may go; None: anywhere."""

    action: Literal["allow", "redact", "block"] = "allow"
    stores_text: bool = True

    @property
    def called(self) -> str:
        """How the rule is named to people."""
        return f"rule {self.number} ({self.name})" if self.name else f"rule {self.number}"

    def shown(self) -> dict[str, Any]:
        """What a receipt and the dashboard say of it: JSON."""
        place = self.place
        return {
            "rule": self.number,
            "name": self.name,
            "action": self.action,
            "regions": None if place is None else sorted(place.regions),
            "endpoints": None if place is None else sorted(place.endpoints),
            "detected": None if self.detected is None else sorted(self.detected),
            "why": self._why(),
        }

    def _why(self) -> str:
        """The conditions of which all must hold."""
        parts = (
            ("use case", self.use_cases),
            ("function", self.functions),
            ("data class", self.data_classes),
            ("detected", self.detected),
        )
        told = "; ".join(f"{name} {' or '.join(sorted(words))}" for name, words in parts if words is not None)
        return told or "every request"


@dataclass(frozen=True, slots=True)
class ResidencyPolicy:
    """Who may see what a request carries."""

    detect: tuple[str, ...] = ("email", "phone", "iban", "credit_card", "national_id")
    """Kinds of personal data that are looked for, where a rule wants to know."""

    rules: tuple[ResidencyRule, ...] = ()


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """What a target must show before it takes the pin's place."""

    min_samples: int = 50
    """Answers with a verdict."""

    min_win_or_tie: float = 0.9
    max_cost_ratio: float = 1.0
    """Of the target's cost to the pinned model's."""

    max_p95_latency_ratio: float = 1.5
    max_error_rate: float = 0.1


@dataclass(frozen=True, slots=True)
class ShadowPolicy:
    """How targets are compared with the pinned models."""

    max_parallel: int = 4
    """In each worker."""

    daily_nanousd: int = 5_000_000_000
    auto_promote: bool = False
    judge: Endpoint | None = None
    """None: only people judge, beside what is equal or has failed."""

    gate: GatePolicy = field(default_factory=GatePolicy)


@dataclass(frozen=True, slots=True)
class LoggingPolicy:
    """Which texts are kept."""

    store_prompts: str = "preview"
    """`none`, `preview` (120 characters) or `full`."""

    retention_days: int = 90


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything an operator configures."""

    cascades: Mapping[Tier, Cascade]
    server: ServerPolicy = field(default_factory=ServerPolicy)
    auth: AuthPolicy = field(default_factory=AuthPolicy)
    routing: RoutingPolicy = field(default_factory=RoutingPolicy)
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    streaming: StreamingPolicy = field(default_factory=StreamingPolicy)
    gateway: GatewayPolicy = field(default_factory=GatewayPolicy)
    limits: LimitsPolicy = field(default_factory=LimitsPolicy)
    budgets: BudgetsPolicy = field(default_factory=BudgetsPolicy)
    knowledge: KnowledgePolicy = field(default_factory=KnowledgePolicy)
    persona: PersonaPolicy = field(default_factory=PersonaPolicy)
    residency: ResidencyPolicy = field(default_factory=ResidencyPolicy)
    shadow: ShadowPolicy = field(default_factory=ShadowPolicy)
    logging: LoggingPolicy = field(default_factory=LoggingPolicy)
    embedder: Endpoint | None = None
    """None: embeddings are computed here, or by a configured endpoint that is asked for by its model."""

    source: str = ""
    """The file's path, or `demo`."""

    document: Mapping[str, Any] = field(default_factory=dict)
    """The configuration with its defaults, names of environment variables but never a value: what `/admin/config`
    shows.
    """

    warnings: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()
    """Every secret text this policy knows, for the redaction of logs, traces and errors."""

    def endpoints(self) -> dict[str, Endpoint]:
        """Every endpoint by its id, in the order of the tiers; one that two tiers share stands once."""
        return {e.id: e for cascade in self.cascades.values() for e in cascade.endpoints}


class PolicyBox:
    """Holds the policy in force; a swap is one assignment, so a reader sees the old picture or the new one, never a
    mix.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._listeners: list[Callable[[Policy], None]] = []

    def current(self) -> Policy:
        """The policy in force now."""
        return self._policy

    def swap(self, policy: Policy) -> None:
        """Puts a checked policy in force, then tells those who keep something derived from it."""
        self._policy = policy
        for listener in self._listeners:
            listener(policy)

    def on_swap(self, listener: Callable[[Policy], None]) -> None:
        """Calls `listener` now and after every swap."""
        self._listeners.append(listener)
        listener(self._policy)
