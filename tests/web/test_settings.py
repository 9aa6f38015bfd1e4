"""Pins and keys in a real browser: the kill switch, API keys, pins, the record of changes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.gateway import Gateway, eventually

from .browser import Visit
from .pages import HOSTILE
from .test_circuits import open_a_circuit

PAGE = "/dashboard/settings"
KEY = re.compile(r"^hk_[\w-]{43}$")


@pytest.fixture(autouse=True)
def as_it_was(gateway: Gateway) -> Iterator[None]:
    """Each test leaves the gateway on and without pins and keys."""
    yield
    for pin in gateway.admin("GET", "/admin/pins").json["pins"]:
        gateway.admin("DELETE", f"/admin/pins/{pin['key']}")
    for key in gateway.admin("GET", "/admin/keys").json["keys"]:
        gateway.admin("DELETE", f"/admin/keys/{key['id']}")


@pytest.fixture
def plain(browser: Browser, gateway: Gateway) -> Iterator[Visit]:
    """A window without script that somebody has signed in with."""
    window = Visit(browser, gateway, java_script_enabled=False)
    window.sign_in(path=PAGE)
    yield window
    window.close()


def make_key(gateway: Gateway, name: str, **fields: object) -> dict[str, str]:
    """An API key, made by the admin API."""
    made: dict[str, str] = gateway.admin("POST", "/admin/keys", {"name": name, "scopes": ["gateway"], **fields}).json
    return made


def pins(gateway: Gateway) -> dict[str, str]:
    """The pins that are set."""
    return {pin["key"]: pin["value"] for pin in gateway.admin("GET", "/admin/pins").json["pins"]}


def keys(gateway: Gateway, name: str) -> list[dict[str, Any]]:
    """The API keys of this name, revoked ones too."""
    return [key for key in gateway.admin("GET", "/admin/keys").json["keys"] if key["name"] == name]


def last(gateway: Gateway) -> dict[str, object]:
    """The newest row of the record."""
    row: dict[str, object] = gateway.admin("GET", "/admin/audit").json["entries"][0]
    return row


# -- the kill switch


def test_the_gateway_is_stopped_only_by_its_name_and_started_again(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    page = visit.page
    stop = page.locator("#stop")

    page.locator("#stop-button").click()
    stop.get_by_label("Type demo to confirm").fill("prod")
    stop.get_by_role("button", name="Stop the gateway").click()
    expect(stop).to_be_visible()  # the wrong word stops nothing
    assert gateway.chat().status == 200
    stop.get_by_label("Type demo to confirm").fill("demo")
    stop.get_by_label("Reason, for the record").fill("INC-42")
    stop.get_by_role("button", name="Stop the gateway").click()

    page.get_by_text("The gateway is stopped").wait_for()
    expect(stop).to_be_hidden()
    page.locator("#strip").get_by_text("Gateway stopped").wait_for()
    page.locator("#kill").get_by_text("INC-42").wait_for()
    assert gateway.chat().status == 503
    assert last(gateway)["after"] == {"value": "false", "reason": "INC-42"}

    page.get_by_role("button", name="Start the gateway").click()
    page.locator("#strip").get_by_text("Gateway on").wait_for()
    assert gateway.chat().status == 200


def test_the_gateway_is_stopped_and_started_without_script(gateway: Gateway, plain: Visit) -> None:
    page = plain.page

    page.get_by_role("link", name="Stop the gateway").click()
    page.get_by_label("Type demo to confirm").fill("prod")
    page.get_by_role("button", name="Stop the gateway").click()
    page.get_by_text("Nothing was stopped").wait_for()
    page.get_by_label("Type demo to confirm").fill("demo")
    page.get_by_role("button", name="Stop the gateway").click()

    assert page.url.endswith(PAGE)
    assert gateway.chat().status == 503
    page.get_by_role("button", name="Start the gateway").click()
    page.get_by_text("The gateway is on again").wait_for()
    assert gateway.chat().status == 200


def test_a_gateway_that_a_file_has_stopped_says_which_and_offers_no_button(gateway: Gateway, visit: Visit) -> None:
    file = gateway.folder / "data" / "gateway.off"
    file.parent.mkdir(exist_ok=True)
    visit.sign_in(path=PAGE)

    file.touch()
    visit.page.locator("#kill").get_by_text(str(file)).wait_for()
    assert visit.page.get_by_role("button", name="Start the gateway").count() == 0

    file.unlink()
    visit.page.locator("#stop-button").wait_for()


def test_the_palette_leads_to_the_kill_switch_from_everywhere(visit: Visit) -> None:
    visit.sign_in(path="/dashboard/circuits")

    visit.page.keyboard.press("Control+k")
    visit.page.keyboard.type("stop the")
    visit.page.keyboard.press("Enter")

    visit.page.wait_for_url(f"**{PAGE}/stop")
    visit.go(PAGE)
    visit.page.keyboard.press("Control+k")
    visit.page.keyboard.type("stop the")
    visit.page.keyboard.press("Enter")
    visit.page.locator("#stop").get_by_label("Type demo to confirm").wait_for()
    visit.page.get_by_role("button", name="Cancel").click()
    expect(visit.page.locator("#stop")).not_to_be_visible()


# -- API keys


def test_a_key_is_shown_once_and_revoked_after_a_yes(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    page = visit.page

    page.get_by_role("link", name="New key").click()
    page.get_by_label("Name, of who or what uses it").fill("svc-intranet")
    page.get_by_label("chat", exact=True).check()
    page.get_by_label("Requests a minute").fill("60")
    with page.expect_response(lambda answer: answer.url.endswith(f"{PAGE}/keys")) as caught:
        page.get_by_role("button", name="Create the key").click()
    page.locator("#new-key").wait_for()
    key = page.locator("#new-key").inner_text()

    assert KEY.match(key)
    assert caught.value.headers["cache-control"] == "no-store"
    assert key not in page.url
    (line,) = keys(gateway, "svc-intranet")
    assert (line["name"], line["roles"], line["limits"]["requests_per_minute"]) == ("svc-intranet", ["chat"], 60)
    page.wait_for_timeout(200)
    page.get_by_role("link", name="I have saved it").click()
    page.locator("#new-key").wait_for(state="detached")
    assert page.url.endswith(PAGE)

    row = page.locator(f"#key-{line['id']}")
    row.hover()
    row.get_by_role("button", name="Revoke").click()
    page.locator("#confirm").get_by_role("button", name="Cancel").click()
    assert keys(gateway, "svc-intranet")[0]["revoked_at"] is None
    row.get_by_role("button", name="Revoke").click()
    page.locator("#confirm-yes").click()

    page.get_by_text("Key svc-intranet revoked").wait_for()
    row.wait_for(state="detached")
    assert keys(gateway, "svc-intranet")[0]["revoked_at"] is not None
    page.get_by_role("link", name="Show revoked").click()
    row.get_by_text("revoked").wait_for()


def test_a_new_key_is_in_no_page_that_comes_back(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=f"{PAGE}?new=key")
    page = visit.page
    page.get_by_label("Name, of who or what uses it").fill("once")
    page.get_by_role("button", name="Create the key").click()
    page.locator("#new-key").wait_for()
    key = page.locator("#new-key").inner_text()

    visit.go("/dashboard/circuits")
    page.go_back()
    page.locator("#settings").wait_for()

    assert key not in page.content()
    assert "svc" not in page.url
    visit.go(PAGE)
    assert key not in page.content()
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])").count(key[:12]) == 0


def test_a_key_is_created_and_revoked_without_script(gateway: Gateway, plain: Visit) -> None:
    page = plain.page

    page.get_by_role("link", name="New key").click()
    page.get_by_label("Name, of who or what uses it").fill("plain")
    page.get_by_role("button", name="Create the key").click()
    assert KEY.match(page.locator("#new-key").inner_text())
    page.reload()  # the browser sends the form once more
    page.get_by_text("This form has made a key already").wait_for()
    assert len(keys(gateway, "plain")) == 1

    plain.go(PAGE)
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("heading", name="Revoke the key plain?").wait_for()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("Key plain revoked").wait_for()


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        pytest.param("Expires on", "2020-01-01", "expires_at must be in the future", id="an end that is over"),
        pytest.param("Tokens a minute", "many", "limits.tokens_per_minute must be a whole number", id="no number"),
    ],
)
def test_a_key_that_cannot_be_is_told_in_the_form_which_keeps_what_was_typed(
    visit: Visit, field: str, value: str, told: str
) -> None:
    visit.sign_in(path=f"{PAGE}?new=key")
    page = visit.page

    page.get_by_label("Name, of who or what uses it").fill("typed before")
    page.get_by_label(field).fill(value)
    page.get_by_role("button", name="Create the key").click()

    page.locator("#key-fault").get_by_text(told).wait_for()
    assert page.get_by_label("Name, of who or what uses it").input_value() == "typed before"
    visit.faults.clear()  # the browser itself tells of the 422


def test_a_half_typed_key_outlives_the_refresh(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=f"{PAGE}?new=key")
    name = visit.page.get_by_label("Name, of who or what uses it")

    name.press_sequentially("half ")
    visit.page.get_by_label("the router").check()
    visit.page.locator("h1").click()
    with visit.page.expect_response(lambda answer: "/dashboard/ui/" in answer.url):
        make_key(gateway, "another")
    visit.page.wait_for_timeout(300)

    assert name.input_value() == "half "
    assert visit.page.get_by_label("the router").is_checked()


# -- pins


def test_a_pin_is_changed_and_taken_back(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    page = visit.page
    chat = page.locator("#pin-0")

    chat.get_by_role("link", name="Edit").click()
    page.locator("#pin-model").fill("demo-large")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("model.chat changed").wait_for()
    expect(chat.locator(".node").first).to_contain_text("demo-large")
    assert pins(gateway) == {"model.chat": "demo-large"}
    assert page.url.endswith(PAGE)

    page.get_by_role("button", name="Undo").click()
    page.get_by_text("model.chat is as it was").wait_for()
    expect(chat.locator(".node").first).to_contain_text("demo-small")
    assert pins(gateway) == {}


def test_a_pin_gets_a_target_and_is_removed_without_script(gateway: Gateway, plain: Visit) -> None:
    page = plain.page
    gateway.admin("PUT", "/admin/pins/model.reasoning", {"value": "demo-small"})

    plain.go(f"{PAGE}?edit=model.reasoning")
    page.get_by_label("Target").fill("demo-large-b")
    page.get_by_label("Share of calls").fill("0.1")
    page.get_by_role("button", name="Save").click()
    wanted = {
        "model.reasoning": "demo-small",
        "model.reasoning.target": "demo-large-b",
        "model.reasoning.target.sample_rate": "0.1",
    }
    assert eventually(lambda: pins(gateway), lambda found: found == wanted) == wanted

    plain.go(f"{PAGE}?edit=model.reasoning")
    page.get_by_role("button", name="Remove the pin").click()
    page.get_by_text("model.reasoning removed").wait_for()
    assert "model.reasoning" not in pins(gateway)


def test_a_pin_that_cannot_be_changes_nothing_at_all(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=f"{PAGE}?edit=model.chat")

    visit.page.locator("#pin-model").fill("demo-large")
    visit.page.get_by_label("Share of calls").fill("2")
    visit.page.get_by_role("button", name="Save").click()

    visit.page.locator("#pin-fault").get_by_text("from").wait_for()
    assert visit.page.locator("#pin-model").input_value() == "demo-large"
    assert pins(gateway) == {}
    visit.faults.clear()


def test_a_pin_that_no_endpoint_has_is_told(gateway: Gateway, visit: Visit) -> None:
    gateway.admin("PUT", "/admin/pins/model.chat", {"value": "demo-smal"})

    visit.sign_in(path=PAGE)

    visit.page.locator("#pin-0").get_by_text("Did you mean demo-small?").wait_for()


def test_a_circuit_that_opens_is_seen_in_the_chain(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    visit.page.locator("#pin-0 .node .state.ok").first.wait_for()

    open_a_circuit(gateway)

    visit.page.locator("#pin-0 .node .state.bad").wait_for()


# -- the record


def test_the_record_says_who_has_changed_what_and_goes_back_page_by_page(gateway: Gateway, visit: Visit) -> None:
    for number in range(25):
        gateway.admin("PUT", "/admin/pins/model.chat", {"value": f"model-{number}"})
    visit.sign_in(path=PAGE)
    record = visit.page.locator("#record")

    record.get_by_text("model-23 → model-24").wait_for()
    assert record.locator("tbody tr").count() == 20
    record.get_by_role("link", name="Older").click()
    record.get_by_text("model-0 → model-1", exact=True).wait_for()
    assert "before=" in visit.page.url
    record.get_by_role("link", name="Newest").click()
    record.get_by_text("model-23 → model-24").wait_for()


def test_hostile_names_are_text_everywhere(gateway: Gateway, visit: Visit) -> None:
    make_key(gateway, HOSTILE)
    make_key(gateway, "x" * 100)
    make_key(gateway, "=HYPERLINK(1) \u202egnirts", expires_at="2099-01-01")
    gateway.admin("PUT", "/admin/pins/model.chat", {"value": HOSTILE, "reason": HOSTILE})

    visit.sign_in(path=f"{PAGE}?edit={quote(HOSTILE)}")

    assert visit.page.locator("main img").count() == 0
    visit.page.locator("td", has_text=HOSTILE).first.wait_for()
    width = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0


def test_without_a_database_the_page_says_what_still_works(browser: Browser) -> None:
    gateway = Gateway.start()
    window = Visit(browser, gateway)
    window.sign_in(path=PAGE)

    with closing(sqlite3.connect(gateway.folder / "hermes.db")) as database:
        database.execute("ALTER TABLE hermes_api_keys RENAME TO elsewhere")
    window.page.get_by_text("keys and the record cannot be read").wait_for()

    window.page.get_by_text("Without the database the switch is a file").wait_for()
    window.page.locator("#pin-0").wait_for()
    assert window.page.get_by_role("link", name="New key").count() == 0
    window.close()
    gateway.stop()
