"""The residency rules of a file: what they mean, and names in them that mean nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hermes.configfile import schema
from hermes.configfile.findings import Findings, Path, nearest
from hermes.policy import ResidencyPolicy, ResidencyRule
from hermes.types import Endpoint, Place


def residency_of(part: schema.Residency, endpoints: Sequence[Endpoint]) -> ResidencyPolicy:
    """The section's policy.

    Args:
        endpoints: every one of the file.
    """
    ids = frozenset(endpoint.id for endpoint in endpoints)
    rules = (_rule(number, rule, ids) for number, rule in enumerate(part.rules, start=1))
    return ResidencyPolicy(tuple(dict.fromkeys(part.detect)), tuple(rules))


def check_residency(part: schema.Residency, endpoints: Sequence[Endpoint], findings: Findings) -> None:
    """Warns of names that no endpoint has: such a rule keeps requests from everybody, which is seldom meant.

    Args:
        endpoints: every one that may be sent a request, or anything of it: teacher, judge and embedder too.
    """
    names = {name for endpoint in endpoints for name in (endpoint.id, endpoint.model)}
    regions = {endpoint.region for endpoint in endpoints if endpoint.region}
    for index, rule in enumerate(part.rules):
        at: Path = ("residency", "rules", index)
        for kind in rule.match.detected or ():
            if kind not in part.detect:
                findings.warn((*at, "match", "detected"), f"{kind} is not in residency.detect, so it is never found")
        _check(rule.endpoints, names, (*at, "endpoints"), "names no endpoint or model of this file", findings)
        _check(rule.regions, regions, (*at, "regions"), "is the region of no endpoint", findings)
        if rule.regions == [] and not rule.endpoints:
            findings.warn((*at, "regions"), "is empty: nobody may see the requests of this rule")


def _check(given: list[str] | None, known: Iterable[str], at: Path, what: str, findings: Findings) -> None:
    for number, name in enumerate(given or ()):
        if name not in known:
            meant = nearest(name, known)
            findings.warn((*at, number), f"{what}; did you mean {meant}?" if meant else what)


def _rule(number: int, rule: schema.Rule, ids: frozenset[str]) -> ResidencyRule:
    match = rule.match
    is_bound = rule.regions is not None or rule.endpoints is not None
    endpoints = frozenset(rule.endpoints or ())
    place = Place(frozenset(rule.regions or ()), endpoints, endpoints & ids, number)
    return ResidencyRule(
        number=number,
        name=rule.name,
        use_cases=_folded(match.use_case),
        functions=_folded(match.function_name),
        data_classes=_folded(match.data_classes),
        detected=None if match.detected is None else frozenset(match.detected),
        place=place if is_bound else None,
        action=rule.action,
        stores_text=rule.store_text,
    )


def _folded(words: list[str] | None) -> frozenset[str] | None:
    return None if words is None else frozenset(word.casefold() for word in words)
