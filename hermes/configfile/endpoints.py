"""One model at one provider: its address checked and named, its keys and headers read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from hermes.configfile import schema
from hermes.configfile.findings import Findings, Path
from hermes.configfile.keys import Environment
from hermes.types import Endpoint, Price, ProviderKey

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
NANO: Final = 1_000_000_000
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}")


@dataclass(frozen=True, slots=True)
class Address:
    """A base URL, taken apart."""

    base_url: str
    """As written, without the slashes at its path's end."""

    shown_url: str
    """Without user and query."""

    place: str
    """`host[:port]/path`, the port only where it is not the scheme's own."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An endpoint as the file describes it, in either form, with the place of each part."""

    section: schema.Provider
    model_at: Path
    url_at: Path
    at: Path
    keys: list[tuple[str, Path]] | None
    """Environment variables with their places; empty: needs no key; None: it needs one that the file does not name."""

    needed: bool
    """Whether a missing key is a problem; of a fallback it is a warning."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class Built:
    """An endpoint, and how the effective configuration shows it."""

    endpoint: Endpoint
    shown: Mapping[str, Any]


def address(text: str) -> Address | str:
    """The address, or a sentence that says what is wrong with it (and does not repeat it).

    >>> address("HTTPS://user:pw@Example.com:443/v1/?k=1").place
    'example.com/v1'
    >>> address("ftp://example.com")
    'must begin with http:// or https://'
    """
    if not text:
        return "is missing: the address of the provider, such as https://api.example.com/v1"
    if not all(" " < c <= "~" for c in text):
        return "must be a URL in ASCII without blanks"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "must be a URL such as https://api.example.com/v1; its host or port is not valid"
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        return "must begin with http:// or https://"
    if not _HOST.fullmatch(parts.hostname or "") or port == 0:
        return "must name a host, such as https://api.example.com/v1"
    if "#" in text:
        return "must not hold a #fragment: it would never be sent"
    return _taken_apart(text, parts, scheme, port)


def _taken_apart(text: str, parts: SplitResult, scheme: str, port: int | None) -> Address:
    before, mark, query = text.partition("?")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    shown_port = "" if port in (None, DEFAULT_PORTS[scheme]) else f":{port}"
    place = f"{host}{shown_port}{parts.path.rstrip('/')}"
    return Address(before.rstrip("/") + (mark + query if query else ""), f"{scheme}://{place}", place)


def build(draft: Draft, findings: Findings, environment: Environment) -> Built | None:
    """The endpoint; None where something without which it cannot be named is wrong, which `findings` then holds."""
    section = draft.section
    found = address(section.base_url)
    if isinstance(found, str):
        if not findings.is_broken(draft.url_at):
            findings.problem(draft.url_at, found)
    else:
        environment.remember_url(found.base_url)
        if found.place.endswith("/chat/completions"):
            findings.warn(draft.url_at, "Hermes adds /chat/completions itself; leave it out")
    if not section.model and not findings.is_broken(draft.model_at):
        findings.problem(draft.model_at, "is missing: the model's name, as the provider spells it")
    keys, needs_key = _keys(draft, findings, environment)
    headers = _headers(draft, findings, environment)
    if isinstance(found, str) or not section.model:
        return None
    entry = section if isinstance(section, schema.EndpointEntry) else schema.EndpointEntry()
    endpoint = Endpoint(
        id=f"{section.model}@{found.place}{_mark(found)}",
        model=section.model,
        base_url=found.base_url,
        shown_url=found.shown_url,
        keys=keys,
        needs_key=needs_key,
        region=section.region or None,
        capabilities=None if entry.capabilities is None else frozenset(entry.capabilities),
        context_window=entry.context_window,
        price=_price(entry.price),
        headers=headers,
        timeout_s=draft.timeout_s,
    )
    return Built(endpoint, shown(section, draft.keys or [], draft.timeout_s))


def _mark(found: Address) -> str:
    """Tells addresses apart whose difference may not be shown: a user, a query."""
    url = urlsplit(found.base_url)
    has_hidden = url.username is not None or bool(url.query)
    return "" if not has_hidden else f"#{hashlib.sha256(found.base_url.encode()).hexdigest()[:6]}"


def named_keys(section: schema.Provider, at: Path, findings: Findings) -> list[tuple[str, Path]] | None:
    """The environment variables of a section with `api_key_env` or `api_key_envs`; None: it has neither."""
    if section.api_key_env is not None and section.api_key_envs is not None:
        findings.problem((*at, "api_key_env"), "give api_key_env or api_key_envs, not both")
    if section.api_key_envs is not None:
        return [(name, (*at, "api_key_envs", index)) for index, name in enumerate(section.api_key_envs)]
    if section.api_key_env is not None:
        return [(section.api_key_env, (*at, "api_key_env"))] if section.api_key_env else []
    return None


def provider(section: schema.Provider, at: Path, timeout_s: float, findings: Findings, *, needed: bool) -> Draft:
    """The draft of a section that stands alone (teacher, judge, embedder); one that names no key needs none."""
    keys = named_keys(section, at, findings) or []
    return Draft(section, (*at, "model"), (*at, "base_url"), at, keys, needed, section.timeout_seconds or timeout_s)


def shown(section: schema.Provider, keys: list[tuple[str, Path]], timeout_s: float | None) -> dict[str, Any]:
    """What may be seen of an endpoint: names of variables, no values, no user or query of its URL."""
    found = address(section.base_url)
    masked = {name: value if value.startswith("env:") else "***" for name, value in section.headers.items()}
    return {
        **section.model_dump(exclude={"api_key_env"}),
        "base_url": "" if isinstance(found, str) else found.shown_url,
        "api_key_envs": [name for name, _ in keys],
        "headers": masked,
        "timeout_seconds": timeout_s,
    }


def _keys(draft: Draft, findings: Findings, environment: Environment) -> tuple[tuple[ProviderKey, ...], bool]:
    if draft.keys is None:
        return (), True
    return environment.provider_keys(draft.keys, draft.needed), bool(draft.keys)


def _headers(draft: Draft, findings: Findings, environment: Environment) -> tuple[tuple[str, Any], ...]:
    read = []
    seen: set[str] = set()
    for name, value in draft.section.headers.items():
        path = (*draft.at, "headers", name)
        if name.lower() in seen:
            findings.problem(path, "stands twice; headers do not tell upper from lower case")
        if name.lower() == "authorization" and draft.keys:
            findings.problem(path, "is set from the key; give api_key_env or this header, not both")
        seen.add(name.lower())
        secret = environment.header(name, value, path)
        if secret is not None:
            read.append((name, secret))
    return tuple(read)


def _price(price: schema.Price | None) -> Price | None:
    if price is None:
        return None
    cached = price.cached_input_per_mtok
    return Price(
        input_nanousd_per_mtok=nanousd(price.input_per_mtok),
        output_nanousd_per_mtok=nanousd(price.output_per_mtok),
        cached_input_nanousd_per_mtok=None if cached is None else nanousd(cached),
    )


def nanousd(usd: float) -> int:
    """An amount of the file in whole nano-USD."""
    # by way of the shortest decimal, so that 0.1 is 100,000,000 and nothing beside it
    return round(Decimal(str(usd)) * NANO)
