"""What `doctor` looks at beside the callers' path: judge, targets that are compared, models on this machine.

Nothing of it costs money: providers are asked for their lists of models and for no completion. Each question has its
own time, and all are asked at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
from urllib3.exceptions import HTTPError

from hermes.cli import doctor_endpoints
from hermes.cli.doctor_words import Said, judged, told
from hermes.cli.findings import Finding
from hermes.cli.start import Start
from hermes.errors import StartRefused
from hermes.observe.redact import Redactor
from hermes.policy import Policy
from hermes.types import Endpoint, ProviderKey
from hermes.upstream.catalog import pinned
from hermes.upstream.outcome import ProviderError

EMBEDDING: Final = "embedding"
LOADING_S: Final = 20.0
"""For a model on this machine; a second is usual."""

NO_LIST: Final = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class _Question:
    """One thing that takes time to look at."""

    check: str
    name: str
    ask: Callable[[], Said]


def examine(start: Start, *, is_offline: bool, timeout_s: float) -> list[Finding]:
    """A finding for the judge, each target, the local embedding model and the operator's own surrogate; none for what
    is not configured.
    """
    policy = start.policy
    if policy is None:
        return []
    redactor = Redactor(policy.secrets)
    questions = [
        *_judge(policy, timeout_s, redactor),
        *_targets(policy, start.settings.database_url, timeout_s, redactor),
    ]
    found = [Finding(one.check, "skip", f"{one.name}: not asked (--offline)") for one in questions]
    if not is_offline:
        found = _answered(questions, 2 * timeout_s, "check the host in base_url")
    local = [*_local(policy, start.settings.database_url), *_surrogate(policy)]
    return found + _answered(local, LOADING_S, "see what else this machine does")


def _answered(questions: list[_Question], limit_s: float, fix: str) -> list[Finding]:
    answers = doctor_endpoints.at_once([one.ask for one in questions], limit_s, fix)
    return [
        Finding(one.check, level, f"{one.name}: {seen}", fix)
        for one, (level, seen, fix) in zip(questions, answers, strict=True)
    ]


# -- who is asked over the network ------------------------------------------------------------------------


def _judge(policy: Policy, timeout_s: float, redactor: Redactor) -> Iterator[_Question]:
    judge = policy.shadow.judge
    if judge is not None:
        yield from _listed("judge", judge.id, judge, timeout_s, redactor)


def _targets(policy: Policy, database_url: str, timeout_s: float, redactor: Redactor) -> Iterator[_Question]:
    # Only what reads rows needs the database's library, which takes a tenth of a second to load.
    from hermes.storage.look import targets

    try:
        pins = targets(database_url)
    except StartRefused:
        return  # what is wrong with the database is a finding of its own
    for role, tier in policy.gateway.roles.items():
        model = pins.get(f"model.{role}.target")
        if model is None:
            continue
        target = pinned(policy, tier, model).endpoints[0]
        if target.id in policy.endpoints():
            seen: Said = ("ok", "it is an endpoint of the configuration, which is looked at above", "")
            yield _Question("target", f"{target.id} ({role})", partial(lambda said: said, seen))
        else:
            yield from _listed("target", f"{target.id} ({role})", target, timeout_s, redactor)


def _listed(check: str, name: str, endpoint: Endpoint, timeout_s: float, redactor: Redactor) -> Iterator[_Question]:
    """A question for each key."""
    for key in endpoint.keys or (None,):
        several = f", {key.env}" if key is not None and len(endpoint.keys) > 1 else ""
        yield _Question(check, f"{name}{several}", partial(_ask, endpoint, key, timeout_s, redactor))


def _ask(endpoint: Endpoint, key: ProviderKey | None, timeout_s: float, redactor: Redactor) -> Said:
    if endpoint.needs_key and key is None:
        return "warn", "not asked, as it has no key", "set the variable that the configuration names"
    began = time.monotonic()
    try:
        status, body = doctor_endpoints.models(endpoint, key, timeout_s)
    except (OSError, ValueError, HTTPError) as trouble:
        return "fail", *told(trouble, timeout_s)
    took = f"in {(time.monotonic() - began) * 1000:.0f} ms"
    names = _names(body) if status == 200 else None
    if names is not None and endpoint.model in names:
        return "ok", f"its provider lists it, {took}", ""
    if names is not None:
        fix = "compare the model's name with the provider's documentation"
        return "warn", f"its provider answers {took}, and does not list this model among {len(names)}", fix
    if status == 200 or status in NO_LIST:
        return "ok", f"its provider answers {took}, but has no list of its models", ""
    said = redactor.public_message(ProviderError.read(body).message)
    return judged(status, said, key.env if key else "")


def _names(body: bytes) -> set[str] | None:
    """The models of a list, in OpenAI's shape; None where it is none."""
    try:
        whole: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    listed = whole.get("data") if isinstance(whole, dict) else None
    if not isinstance(listed, list):
        return None
    return {str(one["id"]) for one in listed if isinstance(one, dict) and "id" in one}


# -- what is on this machine ------------------------------------------------------------------------------


def _local(policy: Policy, database_url: str) -> Iterator[_Question]:
    if policy.knowledge.enabled and policy.embedder is None:
        from hermes.knowledge.vectors import LOCAL

        yield _Question(EMBEDDING, LOCAL, partial(_look_at_local, database_url))


def _look_at_local(database_url: str) -> Said:
    from hermes.embedding.centred import CentredE5
    from hermes.embedding.models import EmbedderMissing
    from hermes.knowledge.vectors import LOCAL
    from hermes.storage.look import embedded_by

    try:
        sha = CentredE5().sha256
    except EmbedderMissing as missing:
        return "fail", str(missing), "install Hermes's dependencies anew, or name a model in knowledge.embedder"
    except Exception as error:  # noqa: BLE001  (whatever a damaged file does to the engine)
        return "fail", f"it cannot be loaded ({type(error).__name__})", "install its package anew"
    try:
        others = sum(number for by, number in embedded_by(database_url).items() if by != (LOCAL, sha))
    except StartRefused:
        others = 0
    if others:
        fix = "`python -m hermes knowledge reindex` gives them vectors of this one"
        return "warn", f"it can be loaded, but was not used for {others} of the documents, which are never found", fix
    return "ok", f"it can be loaded, its SHA-256 begins with {sha[:12]}", ""


def _surrogate(policy: Policy) -> Iterator[_Question]:
    """The operator's own, where there is one; the starter comes with Hermes."""
    from pathlib import Path

    chosen = policy.routing.surrogate
    if chosen.enabled and chosen.path and Path(chosen.path).expanduser().exists():
        yield _Question("surrogate", chosen.path, partial(_look_at_surrogate, policy))


def _look_at_surrogate(policy: Policy) -> Said:
    from hermes.routing.surrogates import load_surrogate

    choice = load_surrogate(policy.routing.surrogate)
    if choice.warning:
        return "warn", choice.warning, "install what is missing, or fit it anew: `python -m hermes surrogate fit`"
    return "ok", "it can be loaded and decides", ""
