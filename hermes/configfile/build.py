"""From the checked file to the policy: each section once, in the order of the file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from hermes.configfile import schema
from hermes.configfile.document import effective
from hermes.configfile.endpoints import Built, build, nanousd, provider
from hermes.configfile.findings import Findings, Path
from hermes.configfile.keys import Environment
from hermes.configfile.residency import check_residency, residency_of
from hermes.configfile.tiers import TierBuilt, build_tier
from hermes.defaults import SYSTEM_PROMPT
from hermes.policy import (
    AuthPolicy,
    BreakerPolicy,
    BudgetsPolicy,
    GatePolicy,
    GatewayPolicy,
    KnowledgePolicy,
    LimitsPolicy,
    LoggingPolicy,
    PersonaPolicy,
    Policy,
    RetryPolicy,
    RoutingPolicy,
    ServerPolicy,
    ShadowPolicy,
    StreamingPolicy,
    SurrogatePolicy,
    TeacherPolicy,
)
from hermes.types import TIERS, Endpoint, RateLimits, Tier

PICKLES: Final = (".pkl", ".pickle", ".joblib")

JUDGE_TIMEOUT_S: Final = 60.0
EMBEDDER_TIMEOUT_S: Final = 30.0


def policy_of(root: schema.Root, findings: Findings, environment: Environment) -> Policy:
    """The policy; of use only while `findings` holds no problem."""
    auth_at: Path = ("auth", "api_key_env")
    admin_key = environment.admin_key(root.auth.api_key_env, auth_at)
    tiers: dict[Tier, TierBuilt] = {}
    for tier in TIERS:
        built = build_tier(tier, root.models, findings, environment)
        if built is not None:
            tiers[tier] = built
    routing = _routing(root, findings, environment)
    judge, embedder = _judge_and_embedder(root, findings, environment)
    _check_persona(root.persona, findings)
    beside = [e for e in (routing.teacher.endpoint if routing.teacher else None, judge, embedder) if e is not None]
    known = [*(e for built in tiers.values() for e in built.cascade.endpoints), *beside]
    check_residency(root.residency, known, findings)
    return Policy(
        cascades={tier: built.cascade for tier, built in tiers.items()},
        server=ServerPolicy(root.server.host, root.server.port, int(root.server.max_body_mb * 1024 * 1024)),
        auth=AuthPolicy(root.auth.api_key_env, admin_key, root.auth.require_client_key),
        routing=routing,
        breaker=_breaker(root.circuit_breaker),
        retry=_retry(root.retry),
        streaming=_streaming(root.streaming),
        gateway=GatewayPolicy(dict(root.gateway.roles), root.gateway.house_voice),
        limits=LimitsPolicy(_limits(root.limits.per_user), _limits(root.limits.per_key)),
        budgets=_budgets(root.budgets),
        knowledge=_knowledge(root.knowledge),
        persona=_persona(root.persona),
        residency=residency_of(root.residency, known),
        shadow=_shadow(root.shadow, judge),
        logging=LoggingPolicy(root.logging.store_prompts, root.logging.retention_days),
        embedder=embedder,
        source=findings.file,
        document=effective(root, {tier: built.shown for tier, built in tiers.items()}),
        warnings=tuple(findings.warnings),
        secrets=frozenset(environment.secrets),
    )


def _breaker(part: schema.CircuitBreaker) -> BreakerPolicy:
    return BreakerPolicy(part.failure_threshold, part.recovery_timeout_sec, part.window_sec)


def _retry(part: schema.Retry) -> RetryPolicy:
    return RetryPolicy(tuple(part.backoff_503_sec), part.transport_attempts, part.transport_backoff_sec)


def _streaming(part: schema.Streaming) -> StreamingPolicy:
    return StreamingPolicy(part.on_break, part.strikes_before_fallback, part.idle_timeout_sec)


def _limits(part: schema.Limit) -> RateLimits:
    return RateLimits(part.requests_per_minute, part.tokens_per_minute, part.concurrent)


def _budgets(part: schema.Budgets) -> BudgetsPolicy:
    return BudgetsPolicy(part.timezone, part.on_store_failure, nanousd(part.unpriced_reserve_usd))


def _knowledge(part: schema.Knowledge) -> KnowledgePolicy:
    return KnowledgePolicy(part.enabled, _distinct(part.use_cases), part.top_k, part.min_score, part.max_chars)


def _persona(part: schema.Persona) -> PersonaPolicy:
    return PersonaPolicy(part.user_path, part.memory_path, part.soul_path, part.max_context_chars)


def _surrogate(part: schema.Surrogate) -> SurrogatePolicy:
    return SurrogatePolicy(part.enabled, part.path, part.confidence_threshold, part.target, part.audit_rate)


def _routing(root: schema.Root, findings: Findings, environment: Environment) -> RoutingPolicy:
    classifier = root.classifier or schema.Classifier()
    words = root.routing
    overrides: dict[Tier, tuple[str, ...]] = {
        "simple": _distinct(words.override_keywords.simple),
        "complex": _distinct(words.override_keywords.complex),
    }
    _check_surrogate(classifier.surrogate, findings)
    return RoutingPolicy(
        default_tier=classifier.default_tier,
        session_timeout_s=classifier.session_timeout_minutes * 60,
        override_keywords=overrides,
        escalation_keywords=_distinct(words.escalation_keywords),
        de_escalation_keywords=_distinct(words.de_escalation_keywords),
        teacher=_teacher(root.classifier, findings, environment) if root.classifier else None,
        surrogate=_surrogate(classifier.surrogate),
    )


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _teacher(classifier: schema.Classifier, findings: Findings, environment: Environment) -> TeacherPolicy | None:
    built = _alone(classifier, ("classifier",), classifier.timeout_seconds, findings, environment, needed=True)
    if built is None:
        return None
    prompt = classifier.system_prompt if classifier.system_prompt.strip() else SYSTEM_PROMPT
    if "{message}" not in prompt:
        findings.warn(("classifier", "system_prompt"), "has no {message}: the user's text is put at its end")
        prompt = f"{prompt.rstrip()}\n\n{{message}}"
    return TeacherPolicy(built.endpoint, prompt, classifier.profile_hint.strip())


def _alone(
    section: schema.Provider,
    at: Path,
    timeout_s: float,
    findings: Findings,
    environment: Environment,
    *,
    needed: bool,
) -> Built | None:
    """A model outside the tiers; None where neither model nor address is given, or where something is wrong."""
    is_named = [bool(section.model) or findings.is_broken((*at, "model"))]
    is_named += [bool(section.base_url) or findings.is_broken((*at, "base_url"))]
    if not any(is_named):
        return None
    return build(provider(section, at, timeout_s, findings, needed=needed), findings, environment)


def _shadow(part: schema.Shadow, judge: Endpoint | None) -> ShadowPolicy:
    gate = GatePolicy(**part.gate.model_dump())
    return ShadowPolicy(part.max_parallel, nanousd(part.daily_usd), part.auto_promote, judge, gate)


def _judge_and_embedder(
    root: schema.Root, findings: Findings, environment: Environment
) -> tuple[Endpoint | None, Endpoint | None]:
    judge = root.shadow.judge or schema.Provider()
    judging = _alone(judge, ("shadow", "judge"), JUDGE_TIMEOUT_S, findings, environment, needed=False)
    at: Path = ("knowledge", "embedder")
    built = _alone(root.knowledge.embedder, at, EMBEDDER_TIMEOUT_S, findings, environment, needed=False)
    return (None if judging is None else judging.endpoint), (None if built is None else built.endpoint)


def _check_surrogate(surrogate: schema.Surrogate, findings: Findings) -> None:
    path = os.path.expanduser(surrogate.path)
    if surrogate.enabled and (path.endswith(PICKLES) or _holds_only_a_pickle(path)):
        findings.warn(
            ("classifier", "surrogate", "path"),
            "holds a pickled model, which is never loaded: run `python -m hermes surrogate fit`",
        )


def _holds_only_a_pickle(folder: str) -> bool:
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return "manifest.json" not in names and any(PurePath(name).suffix in PICKLES for name in names)


def _check_persona(persona: schema.Persona, findings: Findings) -> None:
    """A file that is not there means no hint; one that is there and cannot be read is a mistake somebody made."""
    for name in ("user_path", "memory_path", "soul_path"):
        path = os.path.expanduser(getattr(persona, name))
        if path and os.path.exists(path) and not (os.path.isfile(path) and os.access(path, os.R_OK)):
            findings.warn(("persona", name), "is not a file that can be read; it gives no hint")
