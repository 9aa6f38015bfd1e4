"""What an answer costs: a price is found once per endpoint, then each cost is a few integer operations.

A price comes from the configuration, else from genai-prices' list, offline. The list is searched provider by provider
as the base URL, a prefix of the model's name (`openai/gpt-4o`) or the name itself tells; within a provider the exact
name wins over a pattern, a longer pattern over a shorter, and a dated snapshot that the list does not know
(`…-2026-05-01`) costs what its model costs. Nothing shorter is accepted: gpt-4o-mini never costs what gpt-4o does. What
is not found is None, unknown, which is not zero.

Most prices are flat: a `Price`. Some depend on the prompt's length or the hour: a `Tariff`, which picks the `Price` in
force for each answer. Money is integer nano-USD, rounded up, so that rounding never spends more than a budget holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from hermes.types import Endpoint, Price, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider

NANOUSD_PER_USD: Final = 10**9
TOKENS_PER_MTOK: Final = 10**6

FLAT_UNITS = frozenset({"input_mtok", "output_mtok", "cache_read_mtok"})

CALLED_UNITS = frozenset({"requests_kcount", "output_reasoning_mtok"})
"""Units of the list that Hermes can count beside the flat ones. All others (images, hours, searches) are left out: no
usage object that Hermes reads tells their number."""

SNAPSHOT = re.compile(r"[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3}|latest)$")
"""What a provider puts behind a model's name to name one state of it."""

SIZE_TAG = re.compile(r":\d+(?:\.\d+)?[bm](?:$|-)")
"""`deepseek-r1:14b`: a tag of weights that one runs oneself, for which no list has a price."""

KNOWN_MAX = 4096
"""Models looked up and remembered; pins can name any number of them over the years."""


def cost_nanousd(price: Price, usage: Usage) -> int:
    """The cost at a flat price, rounded up to a whole nano-USD. Cached tokens are a part of the prompt's."""
    scaled = (
        usage.prompt_tokens * price.input_nanousd_per_mtok + usage.completion_tokens * price.output_nanousd_per_mtok
    )
    cached_price = price.cached_input_nanousd_per_mtok
    if cached_price is not None and usage.cached_tokens:
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        scaled += cached * (cached_price - price.input_nanousd_per_mtok)
    return -(-scaled // TOKENS_PER_MTOK)


def format_usd(nanousd: int) -> str:
    """Exact decimal text, never with an exponent.

    >>> format_usd(450_000), format_usd(0), format_usd(12_000_000_000)
    ('0.00045', '0', '12')
    """
    sign = "-" if nanousd < 0 else ""
    whole, fraction = divmod(abs(nanousd), NANOUSD_PER_USD)
    return f"{sign}{whole}.{fraction:09d}".rstrip("0").rstrip(".")


class Tariff:
    """A list price that depends on the answer: on the length of its prompt, the hour, or on being asked at all."""

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._flat: dict[tuple[int, int], Price | None] = {}

    def cost_nanousd(self, usage: Usage, now: datetime) -> int | None:
        """The cost of this answer at this time (UTC), or None where the list has no price for what was used."""
        listed = self._model.get_prices(now)
        extra = _extra_nanousd_by_mtok(listed, usage)
        price = self._flat_price(listed, usage.prompt_tokens)
        if price is None or (listed.output_mtok is None and usage.completion_tokens):
            return None
        return cost_nanousd(price, usage) - (-extra // TOKENS_PER_MTOK)

    def _flat_price(self, listed: ModelPrice, prompt_tokens: int) -> Price | None:
        # The list's objects live as long as the process, so their identity is a key.
        key = (id(listed), _tier(listed.input_mtok, prompt_tokens))
        if key not in self._flat:
            self._flat[key] = _flat_price(listed, prompt_tokens)
        return self._flat[key]


class PriceBook:
    """The prices of all endpoints in use."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._listed: dict[tuple[str, str], Price | Tariff | None] = {}

    def prepare(self, endpoints: Iterable[Endpoint]) -> None:
        """Looks up what the request path will ask for.

        Blocks the hub for about 200 ms the first time an endpoint has no price of its own (the list is loaded then),
        later for less than 1 ms an endpoint; so it is called when a policy is put in force.
        """
        for endpoint in endpoints:
            self.price(endpoint)

    def price(self, endpoint: Endpoint) -> Price | Tariff | None:
        """The endpoint's price: the configured one, else the list's, else None, which means unknown."""
        if endpoint.price is not None:
            return endpoint.price
        key = (endpoint.model, endpoint.shown_url)
        if key not in self._listed:
            if len(self._listed) >= KNOWN_MAX:
                self._listed.clear()
            self._listed[key] = _listed_price(endpoint.model, endpoint.shown_url, self._clock())
        return self._listed[key]

    def cost_nanousd(self, endpoint: Endpoint, usage: Usage) -> int | None:
        """What this answer of this endpoint costs, or None where its price is unknown."""
        price = self.price(endpoint)
        if price is None:
            return None
        if isinstance(price, Price):
            return cost_nanousd(price, usage)
        return price.cost_nanousd(usage, self._clock())

    def cost_of_all_nanousd(self, endpoint: Endpoint, total: Usage, answers: int) -> int | None:
        """What the tokens of several answers together cost at this endpoint, or None where its price is unknown.

        A price that depends on the answer is asked for an average one.
        """
        if answers < 1 or isinstance(self.price(endpoint), Price):
            return self.cost_nanousd(endpoint, total)
        names = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "reasoning_tokens")
        average = Usage(**{name: getattr(total, name) // answers for name in names})
        cost = self.cost_nanousd(endpoint, average)
        return None if cost is None else cost * answers


def _listed_price(model: str, base_url: str, now: datetime) -> Price | Tariff | None:
    # Loading the list takes 200 ms and brings an HTTP client along; who prices every endpoint needs none of it.
    from genai_prices.data_snapshot import get_snapshot

    providers = get_snapshot().providers
    # Google's OpenAI-compatible address takes `models/gemini-…` too.
    for provider, name in _possible_providers(model.strip().lower().removeprefix("models/"), base_url, providers):
        found = _find_model(name, [provider, *_lenders(provider, providers)])
        if found is not None:
            return _price_of(found, now)
    return None


def _possible_providers(model: str, base_url: str, providers: list[Provider]) -> list[tuple[Provider, str]]:
    """The providers that may mean this model by this name.

    A known address settles it: another provider's price would be a guess. A local proxy's address says nothing, so the
    name must.
    """
    by_address = [(provider, model) for provider in providers if re.match(provider.api_pattern, base_url)]
    if by_address:
        return by_address
    if SIZE_TAG.search(model):
        return []
    prefix, slash, rest = model.partition("/")
    if slash:
        return [(provider, rest) for provider in providers if _is_called(provider, prefix)]
    return [(p, model) for p in providers if p.model_match is not None and p.model_match.is_match(model)]


def _is_called(provider: Provider, prefix: str) -> bool:
    matches = provider.provider_match
    return provider.id == prefix or (matches is not None and matches.is_match(prefix))


def _lenders(provider: Provider, providers: list[Provider]) -> list[Provider]:
    """Those whose models this provider sells at their price, as Azure does OpenAI's."""
    return [p for name in provider.fallback_model_providers or () for p in providers if p.id == name]


def _find_model(name: str, providers: list[Provider]) -> ModelInfo | None:
    """The model of this name: exactly, else by the longest pattern, else without its snapshot's date."""
    for provider in providers:
        matches = [(_match_length(model.match, name), model) for model in provider.models if model.is_match(name)]
        if matches:
            return max(matches, key=lambda match: match[0])[1]
    shorter = SNAPSHOT.sub("", name)
    return _find_model(shorter, providers) if shorter != name else None


def _match_length(clause: Any, name: str) -> int:
    """How many characters of the name a clause of the list settles; an exact name settles one more than all."""
    parts = getattr(clause, "or_", None) or getattr(clause, "and_", None)
    if parts is not None:
        return max(_match_length(part, name) for part in parts if part.is_match(name))
    if hasattr(clause, "equals"):
        return len(name) + 1
    literal = next(
        (getattr(clause, kind) for kind in ("starts_with", "ends_with", "contains") if hasattr(clause, kind)), ""
    )
    return len(literal)


def _price_of(model: ModelInfo, now: datetime) -> Price | Tariff | None:
    """A flat price where nothing about it can change, else a tariff."""
    listed = model.get_prices(now)
    units = {unit: value for unit, value in vars(listed).items() if value is not None}
    if "input_mtok" not in units and "output_mtok" not in units:
        return None  # priced by the hour, the image, or not at all: tokens cannot tell its cost
    is_complete = {"input_mtok", "output_mtok"} <= units.keys() and not CALLED_UNITS & units.keys()
    has_tiers = any(not isinstance(value, Decimal) for unit, value in units.items() if unit in FLAT_UNITS)
    if is_complete and not has_tiers and _is_fixed(model, now):
        return _flat_price(listed, 0)
    return Tariff(model)


def _is_fixed(model: ModelInfo, now: datetime) -> bool:
    """Whether the model has one price, or none of its dated ones can come into force any more."""
    return not isinstance(model.prices, list) or all(
        dated.constraint is None or (hasattr(dated.constraint, "start_date") and dated.constraint.active(now))
        for dated in model.prices
    )


def _flat_price(listed: ModelPrice, prompt_tokens: int) -> Price | None:
    if listed.input_mtok is None:
        return None
    cached = listed.cache_read_mtok
    return Price(
        input_nanousd_per_mtok=_nanousd(_in_force(listed.input_mtok, prompt_tokens)),
        output_nanousd_per_mtok=_nanousd(_in_force(listed.output_mtok, prompt_tokens)),
        cached_input_nanousd_per_mtok=None if cached is None else _nanousd(_in_force(cached, prompt_tokens)),
    )


def _in_force(price: Any, prompt_tokens: int) -> Decimal:
    """A decimal, or the decimal of the tier that a prompt of this length is in."""
    if price is None or isinstance(price, Decimal):
        return price or Decimal(0)
    tier = _tier(price, prompt_tokens)
    found: Decimal = price.tiers[tier - 1].price if tier else price.base
    return found


def _tier(price: Any, prompt_tokens: int) -> int:
    """How many tiers' starts the prompt has passed: 0 is the base price."""
    return sum(prompt_tokens > tier.start for tier in getattr(price, "tiers", ()))


def _extra_nanousd_by_mtok(listed: ModelPrice, usage: Usage) -> int:
    """What the list charges for the call itself and, beyond the output's price, for reasoning; times 10^6."""
    extra = 0
    if listed.requests_kcount is not None:
        extra += _nanousd(_in_force(listed.requests_kcount, 0)) * TOKENS_PER_MTOK // 1000
    if listed.output_reasoning_mtok is not None and usage.reasoning_tokens:
        dearer = _in_force(listed.output_reasoning_mtok, 0) - _in_force(listed.output_mtok, usage.prompt_tokens)
        extra += min(usage.reasoning_tokens, usage.completion_tokens) * _nanousd(dearer)
    return extra


def _nanousd(usd: Decimal) -> int:
    """Whole nano-USD, rounded up. Every price of the list has at most nine decimals but for noise of floats."""
    return int((round(usd, 12) * NANOUSD_PER_USD).to_integral_value(rounding="ROUND_CEILING"))
