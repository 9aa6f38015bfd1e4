"""What an answer costs, by the configuration's price and by the list's."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from hermes.accounting.prices import NANOUSD_PER_USD, PriceBook, Tariff, cost_nanousd, format_usd
from hermes.types import Endpoint, Price, Usage

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SOMEWHERE = "http://127.0.0.1:9000/v1"
THOUSAND = Usage(prompt_tokens=1000, completion_tokens=500, total_tokens=1500)


def an_endpoint(model: str, base_url: str = SOMEWHERE, price: Price | None = None) -> Endpoint:
    return Endpoint(id=f"{model}@{base_url}", model=model, base_url=base_url, shown_url=base_url, price=price)


def a_book(now: datetime = NOON) -> PriceBook:
    return PriceBook(clock=lambda: now)


@pytest.mark.parametrize(
    ("model", "input_usd", "output_usd"),
    [
        pytest.param("gpt-4o-mini", "0.15", "0.6", id="a model whose name contains another's"),
        pytest.param("gpt-4o", "2.5", "10", id="the other"),
        pytest.param("GPT-4o-Mini", "0.15", "0.6", id="whatever the case"),
        pytest.param("openai/gpt-4o", "2.5", "10", id="with the provider's prefix"),
        pytest.param("openrouter/openai/gpt-4o", "2.5", "10", id="with a seller's and a maker's prefix"),
        pytest.param("gpt-4o-mini-2024-07-18", "0.15", "0.6", id="a snapshot the list knows"),
        pytest.param("gpt-4o-2024-05-13", "5", "15", id="a snapshot with a price of its own"),
        pytest.param("gpt-4o-mini-2031-01-01", "0.15", "0.6", id="a snapshot the list does not know"),
    ],
)
def test_a_listed_model_costs_its_own_list_price(model: str, input_usd: str, output_usd: str) -> None:
    price = a_book().price(an_endpoint(model))

    assert isinstance(price, Price)
    assert Decimal(price.input_nanousd_per_mtok) / NANOUSD_PER_USD == Decimal(input_usd)
    assert Decimal(price.output_nanousd_per_mtok) / NANOUSD_PER_USD == Decimal(output_usd)


def test_a_providers_address_settles_what_a_name_means() -> None:
    book = a_book()
    tuned = "ft:gpt-4o-mini-2024-07-18:acme::x1"

    assert book.price(an_endpoint(tuned, "https://api.openai.com/v1")) == Price(300_000_000, 1_200_000_000)
    assert book.price(an_endpoint(tuned, "https://api.mistral.ai/v1")) is None


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        pytest.param("brand-new-model-x", SOMEWHERE, id="a name nobody lists"),
        pytest.param("gpt-4o-ultra", SOMEWHERE, id="a listed name with a word behind it is another model"),
        pytest.param("my-gpt-4o", SOMEWHERE, id="a listed name with a word before it"),
        pytest.param("qwen2.5:3b", "http://localhost:11434/v1", id="a local model"),
        pytest.param("deepseek-r1:14b", "http://localhost:11434/v1", id="a local model of a listed family"),
        pytest.param("gpt-4o", "https://api.mistral.ai/v1", id="a provider that does not sell it"),
        pytest.param("whisper-1", "https://api.openai.com/v1", id="a model priced by the hour"),
        pytest.param("omni-moderation-latest", "https://api.openai.com/v1", id="a model the list has no price for"),
        pytest.param("", SOMEWHERE, id="no name"),
        pytest.param("/", SOMEWHERE, id="a name of nothing"),
    ],
)
def test_an_unknown_price_is_none_and_never_zero(model: str, base_url: str) -> None:
    book = a_book()

    assert book.price(an_endpoint(model, base_url)) is None
    assert book.cost_nanousd(an_endpoint(model, base_url), THOUSAND) is None


def test_the_configured_price_wins_even_when_it_is_zero() -> None:
    free = an_endpoint("gpt-4o", price=Price(0, 0))

    assert a_book().cost_nanousd(free, THOUSAND) == 0


def test_two_endpoints_of_one_model_keep_their_own_configured_prices() -> None:
    """A reload that changes a price must not bill the request in flight by the new one."""
    book = a_book()
    before, after = an_endpoint("m", price=Price(1_000_000, 0)), an_endpoint("m", price=Price(2_000_000, 0))

    assert (book.cost_nanousd(before, THOUSAND), book.cost_nanousd(after, THOUSAND)) == (1000, 2000)


def test_cached_tokens_are_a_part_of_the_prompt_and_cost_less() -> None:
    """(2006 - 1920) * 2.50e-6 + 1920 * 1.25e-6 + 300 * 10e-6 = 0.005615 USD."""
    price = Price(2_500_000_000, 10_000_000_000, 1_250_000_000)

    cost = cost_nanousd(price, Usage(2006, 300, 2306, cached_tokens=1920))

    assert format_usd(cost) == "0.005615"


def test_more_cached_tokens_than_prompt_tokens_cannot_lower_the_cost_further() -> None:
    price = Price(2_000_000, 0, 1_000_000)

    assert cost_nanousd(price, Usage(1000, 0, 1000, cached_tokens=5000)) == 1000


def test_without_a_cached_price_cached_tokens_cost_what_the_others_cost() -> None:
    assert cost_nanousd(Price(1_000_000, 0), Usage(1000, 0, 1000, cached_tokens=900)) == 1000


def test_a_cost_is_rounded_up_to_the_next_nano_usd() -> None:
    assert cost_nanousd(Price(1, 0), Usage(1, 0, 1)) == 1


@pytest.mark.parametrize(
    ("nanousd", "text"),
    [
        pytest.param(450_000, "0.00045", id="small"),
        pytest.param(0, "0", id="zero"),
        pytest.param(1, "0.000000001", id="one nano-USD, no exponent"),
        pytest.param(12_000_000_000, "12", id="whole"),
        pytest.param(100_000_000_000, "100", id="zeros before the point stay"),
        pytest.param(-1_500_000_000, "-1.5", id="a correction"),
    ],
)
def test_money_is_shown_exactly(nanousd: int, text: str) -> None:
    assert format_usd(nanousd) == text


def test_a_long_prompt_costs_the_tier_it_is_in() -> None:
    """gpt-5.5: 5 and 30 USD a million up to 272,000 prompt tokens, more beyond."""
    book, endpoint = a_book(), an_endpoint("gpt-5.5")

    short = book.cost_nanousd(endpoint, Usage(272_000, 0, 272_000))
    long = book.cost_nanousd(endpoint, Usage(272_001, 0, 272_001))

    assert isinstance(book.price(endpoint), Tariff)
    assert short == 272_000 * 5_000
    assert long is not None
    assert long > 1.5 * short


def test_the_hour_is_the_answers_not_the_starts() -> None:
    """DeepSeek charges by the hour of the day; a price fixed at start would be wrong half of the time."""
    hours = iter([NOON.replace(hour=2), NOON.replace(hour=2), NOON.replace(hour=20)])
    book, endpoint = PriceBook(clock=lambda: next(hours)), an_endpoint("deepseek-v4-flash")
    book.prepare([endpoint])

    at_two = book.cost_nanousd(endpoint, THOUSAND)
    at_twenty = book.cost_nanousd(endpoint, THOUSAND)

    assert at_two is not None
    assert at_twenty is not None
    assert at_two != at_twenty


def test_a_fee_for_the_call_itself_is_charged() -> None:
    """sonar-pro: 3 and 15 USD a million tokens, and 14 USD for a thousand requests."""
    cost = a_book().cost_nanousd(an_endpoint("sonar-pro", "https://api.perplexity.ai"), THOUSAND)

    assert cost is not None
    assert format_usd(cost) == "0.0245"


def test_an_embedding_costs_its_input_and_has_no_output_price() -> None:
    book, endpoint = a_book(), an_endpoint("text-embedding-3-small", "https://api.openai.com/v1")

    assert book.cost_nanousd(endpoint, Usage(1_000_000, 0, 1_000_000)) == 20_000_000
    assert book.cost_nanousd(endpoint, THOUSAND) is None


@pytest.mark.parametrize("prompt_tokens", [1_000, 150_000, 900_000])
def test_every_listed_model_costs_what_the_library_says(prompt_tokens: int) -> None:
    """Hermes computes by itself, because the library takes 0.1 ms a cost; so it is held against the library."""
    from genai_prices import Usage as LibraryUsage
    from genai_prices.data_snapshot import get_snapshot

    usage = Usage(prompt_tokens, 700, prompt_tokens + 700, cached_tokens=400, reasoning_tokens=100)
    theirs = LibraryUsage(
        input_tokens=prompt_tokens, output_tokens=700, cache_read_tokens=400, output_reasoning_tokens=100
    )
    compared = 0
    for provider in get_snapshot().providers:
        for model in provider.models:
            ours = Tariff(model).cost_nanousd(usage, NOON)
            if ours is None:
                continue
            expected = model.calc_price(theirs, provider, genai_request_timestamp=NOON).total_price * NANOUSD_PER_USD
            assert abs(ours - expected) <= 2, f"{provider.id}/{model.id}"
            compared += 1
    assert compared > 2000


def test_the_list_is_not_loaded_where_every_price_is_configured() -> None:
    """It takes 200 ms and 20 MB."""
    program = (
        "import sys\n"
        "from hermes.accounting.prices import PriceBook\n"
        "from hermes.types import Endpoint, Price\n"
        "book = PriceBook()\n"
        "book.prepare([Endpoint('m@h', 'm', 'http://h', 'http://h', price=Price(1, 1))])\n"
        "assert 'genai_prices' not in sys.modules\n"
        "book.prepare([Endpoint('m@h', 'm', 'http://h', 'http://h')])\n"
        "assert 'genai_prices' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
