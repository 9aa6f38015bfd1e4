"""The configuration page in a real browser: what would change, loading it, a file that cannot be used, no secrets."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.gateway import Gateway

from .browser import Visit
from .pages import HOSTILE

PAGE = "/dashboard/config"
PASSWORD = "canary-url-password"
HEADER = "canary-header-value"
KEY = "sk-canary-provider-key-0123456789-4f1c"
SHORT_KEY = "canary-short"
SECRETS = (PASSWORD, HEADER, KEY, SHORT_KEY, "canary-admin-key")

CONFIG: dict[str, Any] = {
    "models": {
        "simple": {
            "endpoints": [
                {"model": "small", "base_url": "http://127.0.0.1:9/v1", "api_key_envs": ["KEY_A"]},
                {
                    "model": "spare",
                    "base_url": f"http://user:{PASSWORD}@127.0.0.1:9/v1?token={PASSWORD}",
                    "api_key_env": "",
                    "headers": {"x-team": HEADER},
                },
            ]
        },
        "complex": {
            "endpoints": [
                {
                    "model": "large",
                    "base_url": "http://127.0.0.1:9/v1",
                    "api_key_env": "KEY_B",
                    "price": {"input_per_mtok": 0.5, "output_per_mtok": 2},
                }
            ]
        },
    },
    "circuit_breaker": {"failure_threshold": 5, "recovery_timeout_sec": 30},
    "routing": {"escalation_keywords": ["debug", HOSTILE]},
    "gateway": {"house_voice": f"{HOSTILE}\nsecond line"},
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A server with a file of its own."""
    running = Gateway.start(CONFIG, env={"KEY_A": KEY, "KEY_B": SHORT_KEY})
    yield running
    logs = running.logs()
    running.stop()
    assert "Traceback" not in logs


@pytest.fixture(autouse=True)
def as_it_was(gateway: Gateway) -> Iterator[None]:
    """Each test begins and ends with the file as it was, and that in force."""
    yield
    assert gateway.reload(CONFIG).status == 200


def changed(**sections: Any) -> dict[str, Any]:
    """The configuration with other sections."""
    return {**copy.deepcopy(CONFIG), **sections}


def cheaper() -> dict[str, Any]:
    """A breaker that waits less, a dearer model, one fallback less, a limit."""
    config = changed(circuit_breaker={"failure_threshold": 5, "recovery_timeout_sec": 20})
    config["models"]["complex"]["endpoints"][0]["price"]["output_per_mtok"] = 3
    del config["models"]["simple"]["endpoints"][1]
    config["limits"] = {"per_user": {"requests_per_minute": 60}}
    return config


def test_a_changed_file_is_seen_weighed_and_loaded(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)
    page = visit.page
    page.get_by_text("What runs is what the file says").wait_for()

    gateway.write_config(cheaper())
    page.get_by_text("The file changed").wait_for(timeout=20_000)
    diff = page.locator(".diff")
    expect(diff).to_contain_text("-      - model: spare")
    expect(diff).to_contain_text("+  recovery_timeout_sec: 20")
    effects = page.locator(".effects")
    expect(effects).to_contain_text("The simple tier loses spare at 127.0.0.1:9/v1")
    expect(effects).to_contain_text("large costs $0.50 in and $3.00 out a million tokens, not $0.50 in and $2.00 out")
    expect(effects).to_contain_text("Each user may ask for 60 requests a minute, not any number")
    expect(page.locator("#count-config")).to_contain_text("new", timeout=20_000)
    assert gateway.admin("GET", "/admin/config").json["config"]["circuit_breaker"]["recovery_timeout_sec"] == 30

    page.locator("#load").click()
    page.get_by_text("The configuration is loaded").wait_for()
    page.get_by_text("What runs is what the file says").wait_for()
    assert gateway.admin("GET", "/admin/config").json["config"]["circuit_breaker"]["recovery_timeout_sec"] == 20
    expect(page.locator("#loads tbody tr").first).to_contain_text("Admin key")
    expect(page.locator("#loads tbody tr").first).to_contain_text("and")
    entry = gateway.admin("GET", "/admin/audit").json["entries"][0]
    assert (entry["action"], entry["actor"]) == ("config.reload", "admin")
    assert entry["after"]["circuit_breaker.recovery_timeout_sec"] == 20


def test_a_file_that_cannot_be_used_is_told_with_its_lines_and_nothing_changes(gateway: Gateway, visit: Visit) -> None:
    gateway.reload(CONFIG)
    gateway.write_config(json.dumps(changed(circuit_braker={}, limits={"per_user": {"concurrent": "many"}}), indent=1))

    visit.sign_in(path=PAGE)

    page = visit.page
    page.get_by_text("The file has 2 problems").wait_for()
    page.get_by_text("keeps running").wait_for()
    problems = page.locator(".problems li")
    assert problems.count() == 2
    expect(problems.first).to_contain_text("line ")
    expect(page.locator(".problems")).to_contain_text("did you mean circuit_breaker?")
    assert page.locator("#load").count() == 0
    expect(page.locator("#count-config")).to_have_text("invalid", timeout=20_000)

    gateway.write_config(CONFIG)
    page.locator("#check").click()
    page.get_by_text("The file can be used").wait_for()
    page.get_by_text("What runs is what the file says").wait_for()


def test_a_file_that_has_changed_once_more_is_not_loaded_unseen(gateway: Gateway, visit: Visit) -> None:
    gateway.write_config(cheaper())
    visit.sign_in(path=PAGE)
    visit.page.locator("#load").wait_for()

    gateway.write_config(changed(models={}))
    visit.page.locator("#load").click()

    visit.page.get_by_text("The file has changed once more").wait_for()
    visit.page.get_by_text("keeps running").wait_for()
    assert gateway.admin("GET", "/admin/config").json["config"]["circuit_breaker"]["recovery_timeout_sec"] == 30


def test_it_is_read_checked_and_loaded_without_script(gateway: Gateway, browser: Browser) -> None:
    window = Visit(browser, gateway, java_script_enabled=False)
    gateway.write_config(cheaper())
    window.sign_in(path=PAGE)

    window.page.get_by_role("button", name="Check again").click()
    window.page.get_by_text("The file can be used").wait_for()
    window.page.locator("#load").click()
    window.page.get_by_text("The configuration is loaded").wait_for()
    window.page.get_by_role("link", name="Table").click()
    window.page.locator(".code-room").get_by_text("circuit_breaker.recovery_timeout_sec").wait_for()
    window.close()


@pytest.mark.parametrize("query", ["", "?view=table"])
def test_no_secret_of_any_kind_leaves_the_server(gateway: Gateway, visit: Visit, query: str) -> None:
    other = cheaper()
    other["models"]["simple"]["endpoints"].append(
        {
            "model": "new",
            "base_url": f"http://u:{PASSWORD}@127.0.0.1:9/v1",
            "headers": {"x-a": HEADER},
            "api_key_env": "",
        }
    )
    gateway.write_config(other)

    visit.sign_in(path=f"{PAGE}{query}")
    visit.page.locator("#config").wait_for()
    html = visit.page.content()

    assert [secret for secret in SECRETS if secret in html] == []
    assert "KEY_A" in html
    if not query:
        visit.page.get_by_text("set, ends in 4f1c").wait_for()
        assert "set, ends in hort" not in html, "of a short secret not even the end is shown"
    gateway.reload(other)
    visit.page.reload()
    assert [secret for secret in SECRETS if secret in visit.page.content()] == []


def test_a_secret_that_is_another_one_is_told_without_being_shown(gateway: Gateway, visit: Visit) -> None:
    config = changed()
    config["models"]["simple"]["endpoints"][1]["headers"]["x-team"] = "canary-other-header"
    gateway.write_config(config)

    visit.sign_in(path=PAGE)

    visit.page.get_by_text("Only secrets differ").wait_for()
    assert "canary-other-header" not in visit.page.content()


def test_markup_in_the_file_is_text(gateway: Gateway, visit: Visit) -> None:
    visit.sign_in(path=PAGE)

    expect(visit.page.locator("pre.code-room")).to_contain_text(HOSTILE)
    assert visit.page.locator("main img").count() == 0


def test_a_file_that_is_gone_is_told(gateway: Gateway, visit: Visit) -> None:
    (gateway.folder / "router_config.yaml").unlink()

    visit.sign_in(path=PAGE)

    visit.page.get_by_text("does not exist").wait_for()
    visit.page.get_by_text("keeps running").wait_for()


def test_the_demo_says_how_to_begin(browser: Browser) -> None:
    gateway = Gateway.start()
    window = Visit(browser, gateway)

    window.sign_in(path=PAGE)

    window.page.get_by_text("The demo's own configuration runs").wait_for()
    window.page.get_by_text("Nobody has loaded a configuration").wait_for()
    assert window.faults == []
    window.close()
    gateway.stop()
