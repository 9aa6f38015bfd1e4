"""A tier's cascade, from either form of the file: a list of endpoints, or flat keys of a primary and two fallbacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from hermes.configfile import schema
from hermes.configfile.endpoints import Built, Draft, address, build, named_keys
from hermes.configfile.findings import Findings, Path, dotted
from hermes.configfile.keys import Environment
from hermes.types import Cascade, Tier

DEFAULT_TIMEOUT_S: Final[dict[Tier, float]] = {"simple": 120.0, "complex": 300.0}
FLAT_KEYS: Final = frozenset(schema.TierModels.model_fields) - {"endpoints", "timeout_seconds"}

LEVELS: Final = (("", "api_key_env"), ("fallback_", "fallback_key_env"), ("fallback2_", "fallback2_key_env"))
"""Prefix of the flat keys, and the one that names the key."""


@dataclass(frozen=True, slots=True)
class TierBuilt:
    """A cascade, and how the effective configuration shows it."""

    cascade: Cascade
    shown: dict[str, Any]


def build_tier(tier: Tier, models: schema.Models, findings: Findings, environment: Environment) -> TierBuilt | None:
    """The tier's cascade; None where `findings` says why there is none."""
    at: Path = ("models", tier)
    section: schema.TierModels | None = getattr(models, tier)
    if findings.is_broken(at):
        return None
    if section is None:
        findings.problem(at, f"is missing: both tiers, simple and complex, need a model (add models.{tier})")
        return None
    flat = section.model_fields_set & FLAT_KEYS
    is_list = section.endpoints is not None or findings.is_broken((*at, "endpoints"))
    if is_list and flat:
        findings.problem(at, f"mixes both forms: keep `endpoints`, or the flat keys ({', '.join(sorted(flat))})")
    if is_list:
        return _from_list(tier, section, findings, environment)
    return _from_flat(tier, section, findings, environment)


def _from_list(
    tier: Tier, section: schema.TierModels, findings: Findings, environment: Environment
) -> TierBuilt | None:
    if section.endpoints is None:
        return None
    if not section.endpoints:
        findings.problem(("models", tier, "endpoints"), "must hold at least one endpoint")
        return None
    built: dict[str, tuple[Path, Built]] = {}
    for draft in _list_drafts(tier, section, section.endpoints, findings):
        one = build(draft, findings, environment)
        if one is None:
            continue
        if one.endpoint.id in built:
            _complain_of_twin(draft.at, built[one.endpoint.id][0], findings)
        built[one.endpoint.id] = (draft.at, one)
    made = [one for _, one in built.values()]
    return _tier(tier, made, section.timeout_seconds or sum(one.endpoint.timeout_s for one in made))


def _list_drafts(
    tier: Tier, section: schema.TierModels, entries: list[schema.EndpointEntry], findings: Findings
) -> Iterator[Draft]:
    default_s = section.timeout_seconds or DEFAULT_TIMEOUT_S[tier]
    for index, entry in enumerate(entries):
        at: Path = ("models", tier, "endpoints", index)
        keys = named_keys(entry, at, findings)
        if keys is None:
            _complain_of_no_key(at, findings, is_problem=True)
        timeout_s = entry.timeout_seconds or default_s
        yield Draft(entry, (*at, "model"), (*at, "base_url"), at, keys, index == 0, timeout_s)


def _complain_of_no_key(at: Path, findings: Findings, *, is_problem: bool) -> None:
    if any(findings.is_broken((*at, name)) for name in ("api_key_env", "api_key_envs")):
        return
    sentence = 'names no key: give the environment variable that holds it, or write "" if none is needed'
    if is_problem:
        findings.problem(at, sentence)
    else:
        findings.warn(at, sentence + "; until then this endpoint is skipped")


def _complain_of_twin(at: Path, first: Path, findings: Findings) -> None:
    findings.problem(
        at,
        f"is the same model at the same address as {dotted(first)} (line {findings.line(first)}): the two would share "
        "one breaker and fail together; put their keys into one api_key_envs",
    )


def _from_flat(
    tier: Tier, section: schema.TierModels, findings: Findings, environment: Environment
) -> TierBuilt | None:
    timeout_s = section.timeout_seconds or DEFAULT_TIMEOUT_S[tier]
    built: dict[str, Built] = {}
    for draft in _flat_drafts(tier, section, timeout_s, findings):
        one = build(draft, findings, environment)
        if one is None:
            continue
        twin = built.get(one.endpoint.id)
        if twin is not None:
            # today's files give a model a second account in this way; as a key of the first it does what was meant
            findings.warn(draft.model_at, "is the same model at the same address again: its keys join those before")
            one = _joined(twin, one)
        built[one.endpoint.id] = one
    return _tier(tier, list(built.values()), timeout_s * len(built))


def _joined(first: Built, second: Built) -> Built:
    keys = {key.value: key for key in (*first.endpoint.keys, *second.endpoint.keys)}
    names = dict.fromkeys([*first.shown["api_key_envs"], *second.shown["api_key_envs"]])
    needs_key = first.endpoint.needs_key and second.endpoint.needs_key
    endpoint = replace(first.endpoint, keys=tuple(keys.values()), needs_key=needs_key)
    return Built(endpoint, {**first.shown, "api_key_envs": list(names)})


def _flat_drafts(tier: Tier, section: schema.TierModels, timeout_s: float, findings: Findings) -> list[Draft]:
    at: Path = ("models", tier)
    drafts: list[Draft] = []
    for prefix, key_field in LEVELS:
        model: str = getattr(section, f"{prefix}model")
        url: str = getattr(section, f"{prefix}base_url")
        if prefix and not model:
            _complain_of_headless(at, prefix, section, findings)
            continue
        keys = _flat_keys(at, prefix, key_field, section)
        if drafts and not url and not findings.is_broken((*at, f"{prefix}base_url")):
            url = section.base_url
        if keys is None and drafts and _same_place(url, section.base_url):
            keys = drafts[0].keys
        elif keys is None:
            # a fallback of another provider would get no key; today's files are still loaded
            _complain_of_no_key((*at, key_field), findings, is_problem=not prefix)
        entry = schema.EndpointEntry.model_construct(model=model, base_url=url)
        model_at, url_at = (*at, f"{prefix}model"), (*at, f"{prefix}base_url")
        drafts.append(Draft(entry, model_at, url_at, (*at, key_field), keys, not prefix, timeout_s))
    return drafts


def _flat_keys(at: Path, prefix: str, key_field: str, section: schema.TierModels) -> list[tuple[str, Path]] | None:
    first: str | None = getattr(section, key_field)
    second: str = getattr(section, f"{prefix}alternate_key_env")
    named = [(first, (*at, key_field)), (second, (*at, f"{prefix}alternate_key_env"))]
    keys = [(name, path) for name, path in named if name]
    return None if first is None and not keys else keys


def _complain_of_headless(at: Path, prefix: str, section: schema.TierModels, findings: Findings) -> None:
    """Warns of a fallback's keys whose model is not given; empty ones are the template's own blanks."""
    for name in sorted(section.model_fields_set):
        alone = name.startswith(prefix) and getattr(section, name)
        if alone and not findings.is_broken((*at, f"{prefix}model")):
            findings.warn((*at, name), f"has no effect without {prefix}model")


def _same_place(one: str, other: str) -> bool:
    first, second = address(one), address(other)
    return not isinstance(first, str) and not isinstance(second, str) and first.base_url == second.base_url


def _tier(tier: Tier, built: list[Built], timeout_s: float) -> TierBuilt | None:
    if not built:
        return None
    endpoints = tuple(one.endpoint for one in built)
    entries = [dict(one.shown) for one in built]
    return TierBuilt(Cascade(tier, endpoints, timeout_s), {"timeout_seconds": timeout_s, "endpoints": entries})
