"""A page somewhere else makes an operator's browser send a form, and a provider answers with a page of its making."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e import replies
from tests.e2e.gateway import CHAT, Gateway
from tests.e2e.provider import Provider

from .browser import Visit

ELSEWHERE = "http://evil.example/"
RUNS = "<script>document.title = 'ran on ' + location.origin</script>"
FORM = """<form method=post enctype=text/plain action="{url}"><input name='{begin}' value='"}}'></form>
<script>document.forms[0].submit()</script>"""
BEGIN = '{"messages":[{"role":"user","content":"hi"}],"user":"'


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    said = {"Content-Type": "text/html"}
    with Provider(replies.answer(200, replies.completion(RUNS), headers=said)) as provider:
        yield provider


@pytest.fixture(scope="module")
def gateway(provider: Provider) -> Iterator[Gateway]:
    plain = {"model": "m", "base_url": provider.base_url, "api_key_env": ""}
    running = Gateway.start({"models": {tier: {"endpoints": [plain]} for tier in ("simple", "complex")}})
    yield running
    running.stop()


def test_a_form_of_another_page_runs_nothing_here(browser: Browser, gateway: Gateway, provider: Provider) -> None:
    window = Visit(browser, gateway)
    window.sign_in()
    page = window.context.new_page()
    form = FORM.format(url=window.base + CHAT, begin=BEGIN)
    page.route(ELSEWHERE, lambda route: route.fulfill(content_type="text/html", body=form))

    with page.expect_response(lambda response: response.url.endswith(CHAT)) as answered:
        page.goto(ELSEWHERE)
    page.wait_for_load_state()

    assert answered.value.status == 403
    assert provider.calls == []
    assert "ran on" not in page.title()
    window.close()


def test_an_answer_runs_nothing_where_a_browser_shows_it(browser: Browser, gateway: Gateway) -> None:
    """A browser that does not say how it will use an answer."""
    window = Visit(browser, gateway)
    page = window.context.new_page()
    answer = gateway.chat()
    assert RUNS.encode() in answer.body
    page.route(
        window.base + CHAT, lambda route: route.fulfill(headers=answer.headers, body=answer.body.decode(), status=200)
    )

    page.goto(window.base + CHAT)

    assert "ran on" not in page.title()
    window.close()
