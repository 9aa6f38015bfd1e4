"""The shape of router_config.yaml: every key once, with its kind and its default.

`docs/configuration.md` has a row for each; a test walks this schema (`walk.py`) and compares. Values arrive as `Scalar`
leaves and are read by `leaves.py`; a key whose value is empty counts as not given; an unknown key is an error.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from hermes import defaults
from hermes.configfile import leaves
from hermes.configfile.leaves import (
    ACapability,
    APersonalData,
    ATier,
    Attempts,
    Count,
    EnvName,
    Flag,
    GivenEnvName,
    HeaderName,
    Host,
    Line,
    Megabytes,
    Minutes,
    Multiple,
    Pause,
    Port,
    Positive,
    Prose,
    Ratio,
    RoleName,
    Seconds,
    Target,
    TimeZone,
    Usd,
    Word,
)
from hermes.configfile.tree import Scalar


class Part(BaseModel):
    """A mapping of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_means_not_given(cls, given: Any) -> Any:
        if isinstance(given, Scalar) and given.is_null:
            return {}
        if isinstance(given, dict):
            return {key: value for key, value in given.items() if not (key in cls.model_fields and _is_null(value))}
        return given


def _is_null(value: object) -> bool:
    return isinstance(value, Scalar) and value.is_null


class Server(Part):
    """`server`"""

    host: Host = "127.0.0.1"
    port: Port = 8766
    max_body_mb: Megabytes = 64


class Auth(Part):
    """`auth`"""

    api_key_env: EnvName = "ROUTER_PROXY_API_KEY"
    require_client_key: Flag = False


class Provider(Part):
    """What every place that names a model somewhere has."""

    model: Line = ""
    base_url: Line = ""
    api_key_env: EnvName | None = None
    api_key_envs: list[GivenEnvName] | None = None
    region: Line | None = None
    headers: dict[HeaderName, Line] = Field(default_factory=dict)
    timeout_seconds: Seconds | None = None


class Price(Part):
    """`price`: US dollars for a million tokens."""

    input_per_mtok: Usd
    output_per_mtok: Usd
    cached_input_per_mtok: Usd | None = None


class EndpointEntry(Provider):
    """An entry of `models.<tier>.endpoints`."""

    capabilities: list[ACapability] | None = None
    context_window: Positive | None = None
    price: Price | None = None


class TierModels(Part):
    """`models.<tier>`, in either form: `endpoints`, or the flat keys."""

    endpoints: list[EndpointEntry] | None = None
    model: Line = ""
    base_url: Line = ""
    api_key_env: EnvName | None = None
    alternate_key_env: EnvName = ""
    fallback_model: Line = ""
    fallback_base_url: Line = ""
    fallback_key_env: EnvName | None = None
    fallback_alternate_key_env: EnvName = ""
    fallback2_model: Line = ""
    fallback2_base_url: Line = ""
    fallback2_key_env: EnvName | None = None
    fallback2_alternate_key_env: EnvName = ""
    timeout_seconds: Seconds | None = None


class Models(Part):
    """`models`"""

    simple: TierModels | None = None
    complex: TierModels | None = None


class Surrogate(Part):
    """`classifier.surrogate`"""

    enabled: Flag = True
    path: Line = "data/surrogate"
    confidence_threshold: Ratio | None = None
    target: Target = 0.95
    audit_rate: Ratio = 0.03


class Classifier(Provider):
    """`classifier`: the teacher, the sessions and the surrogate."""

    timeout_seconds: Seconds = 15.0
    system_prompt: Prose = defaults.SYSTEM_PROMPT
    profile_hint: Prose = ""
    session_timeout_minutes: Minutes = 5
    default_tier: ATier = "simple"
    surrogate: Surrogate = Surrogate()


class CircuitBreaker(Part):
    """`circuit_breaker`"""

    failure_threshold: Positive = 3
    recovery_timeout_sec: Seconds = 30
    window_sec: Seconds = 60


class Retry(Part):
    """`retry`"""

    backoff_503_sec: Annotated[list[Pause], Field(max_length=10)] = Field(default_factory=lambda: [2.0, 4.0, 8.0])
    transport_attempts: Attempts = 3
    transport_backoff_sec: Pause = 1


class Streaming(Part):
    """`streaming`"""

    on_break: Annotated[Literal["done", "error"], BeforeValidator(leaves.choice("done", "error"))] = "done"
    strikes_before_fallback: Positive = 3
    idle_timeout_sec: Seconds = 120


class OverrideKeywords(Part):
    """`routing.override_keywords`"""

    complex: list[Word] = Field(default_factory=lambda: list(defaults.OVERRIDE_COMPLEX))
    simple: list[Word] = Field(default_factory=lambda: list(defaults.OVERRIDE_SIMPLE))


class Routing(Part):
    """`routing`"""

    override_keywords: OverrideKeywords = Field(default_factory=OverrideKeywords)
    escalation_keywords: list[Word] = Field(default_factory=lambda: list(defaults.ESCALATION))
    de_escalation_keywords: list[Word] = Field(default_factory=lambda: list(defaults.DE_ESCALATION))


class Persona(Part):
    """`persona`"""

    user_path: Line = "~/.hermes/USER.md"
    memory_path: Line = "~/.hermes/MEMORY.md"
    soul_path: Line = ""
    max_context_chars: Count = 800


ROLES: dict[str, leaves.TierName] = {"chat": "simple", "reasoning": "complex"}


class Gateway(Part):
    """`gateway`"""

    roles: dict[RoleName, ATier] = Field(default_factory=lambda: dict(ROLES))
    house_voice: Prose = ""

    @field_validator("roles")
    @classmethod
    def _keep_the_contract(cls, given: dict[str, leaves.TierName]) -> dict[str, leaves.TierName]:
        # `chat` and `reasoning` are promised to every caller; a file may move them, not lose them
        return {**ROLES, **given}


class Limit(Part):
    """`limits.per_user`, `limits.per_key`; 0 is no limit."""

    requests_per_minute: Count = 0
    tokens_per_minute: Count = 0
    concurrent: Count = 0


class Limits(Part):
    """`limits`"""

    per_user: Limit = Limit()
    per_key: Limit = Limit()


class Budgets(Part):
    """`budgets`"""

    timezone: TimeZone = "UTC"
    on_store_failure: Annotated[Literal["open", "closed"], BeforeValidator(leaves.choice("open", "closed"))] = "open"
    unpriced_reserve_usd: Usd = 0.01


class Embedder(Provider):
    """`knowledge.embedder`: the word `local`, or a model somewhere."""

    @model_validator(mode="before")
    @classmethod
    def _local(cls, given: Any) -> Any:
        if isinstance(given, Scalar):
            if given.text != "local":
                raise leaves.fault("must be local, or a mapping with model, base_url and api_key_env")
            return {}
        return given


class Knowledge(Part):
    """`knowledge`"""

    enabled: Flag = False
    use_cases: list[Line] = Field(default_factory=list)
    top_k: Positive = 4
    min_score: Ratio = 0.3
    max_chars: Positive = 6000
    embedder: Embedder = Embedder()


class Match(Part):
    """`residency.rules[].match`; a rule without it is for every request."""

    use_case: Annotated[list[Line], BeforeValidator(leaves.one_or_more)] | None = None
    function_name: Annotated[list[Line], BeforeValidator(leaves.one_or_more)] | None = None
    data_classes: Annotated[list[Line], BeforeValidator(leaves.one_or_more)] | None = None
    detected: Annotated[list[APersonalData], BeforeValidator(leaves.one_or_more)] | None = None


Action = Literal["allow", "redact", "block"]


class Rule(Part):
    """An entry of `residency.rules`."""

    name: Line = ""
    match: Match = Match()
    regions: list[Line] | None = None
    endpoints: list[Line] | None = None
    action: Annotated[Action, BeforeValidator(leaves.choice(*get_args(Action)))] = "allow"
    store_text: Flag = True


class Residency(Part):
    """`residency`"""

    detect: list[APersonalData] = Field(default_factory=lambda: list(get_args(leaves.PersonalData)))
    rules: list[Rule] = Field(default_factory=list)


class Gate(Part):
    """`shadow.gate`"""

    min_samples: Positive = 50
    min_win_or_tie: Ratio = 0.9
    max_cost_ratio: Multiple = 1.0
    max_p95_latency_ratio: Multiple = 1.5
    max_error_rate: Ratio = 0.1


class Shadow(Part):
    """`shadow`"""

    max_parallel: Positive = 4
    daily_usd: Usd = 5
    auto_promote: Flag = False
    judge: Provider | None = None
    gate: Gate = Gate()


StorePrompts = Literal["none", "preview", "full"]


class Logging(Part):
    """`logging`"""

    store_prompts: Annotated[StorePrompts, BeforeValidator(leaves.choice(*get_args(StorePrompts)))] = "preview"
    retention_days: Positive = 90


class Root(Part):
    """The whole file."""

    server: Server = Server()
    auth: Auth = Auth()
    classifier: Classifier | None = None
    models: Models = Models()
    circuit_breaker: CircuitBreaker = CircuitBreaker()
    retry: Retry = Retry()
    streaming: Streaming = Streaming()
    routing: Routing = Field(default_factory=Routing)
    persona: Persona = Persona()
    gateway: Gateway = Field(default_factory=Gateway)
    limits: Limits = Limits()
    budgets: Budgets = Budgets()
    knowledge: Knowledge = Field(default_factory=Knowledge)
    residency: Residency = Field(default_factory=Residency)
    shadow: Shadow = Shadow()
    logging: Logging = Logging()
