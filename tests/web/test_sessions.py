"""The sessions page in a real browser."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.gateway import Gateway

from .browser import Visit

PAGE = "/dashboard/sessions"


def begin(gateway: Gateway, name: str, user: str, text: str = "hello there") -> str:
    """A session; its key."""
    before = set(keys(gateway))
    gateway.chat(text, tier=None, user=user, headers={"X-Hermes-Session": name})
    (key,) = set(keys(gateway)) - before
    return key


def keys(gateway: Gateway) -> list[str]:
    """Of every session."""
    return list(gateway.admin("GET", "/admin/sessions").json["sessions"])


def test_a_session_is_evicted_and_comes_back(gateway: Gateway, visit: Visit) -> None:
    key = begin(gateway, "one", "anna")
    before = gateway.admin("GET", "/admin/sessions").json["sessions"][key]
    visit.sign_in(path=PAGE)

    row = visit.page.locator(f"#session-{key}")
    row.hover()
    row.get_by_role("button", name="Evict").click()
    row.wait_for(state="detached")
    assert key not in keys(gateway)
    visit.page.get_by_role("button", name="Undo").click()

    row.wait_for()
    after = gateway.admin("GET", "/admin/sessions").json["sessions"][key]
    assert (after["tier"], after["user_id"]) == (before["tier"], before["user_id"])
    assert after["age_sec"] >= before["age_sec"], "it is as old as it was"
    actions = [entry["action"] for entry in gateway.admin("GET", "/admin/audit").json["entries"]]
    assert actions[:2] == ["session.restore", "session.evict"]


def test_a_session_of_the_same_name_that_began_anew_is_not_replaced(gateway: Gateway, visit: Visit) -> None:
    key = begin(gateway, "two", "bert")
    visit.sign_in(path=PAGE)
    visit.page.locator(f"#session-{key}").hover()
    visit.page.locator(f"#session-{key}").get_by_role("button", name="Evict").click()
    visit.page.get_by_role("button", name="Undo").wait_for()

    gateway.chat("please debug my server", tier=None, user="bert", headers={"X-Hermes-Session": "two"})
    visit.page.get_by_role("button", name="Undo").click()

    visit.page.get_by_text("cannot be brought back").wait_for()
    assert gateway.admin("GET", "/admin/sessions").json["sessions"][key]["tier"] == "complex"
    visit.faults.clear()  # the browser itself tells of the 404


def test_the_search_is_in_the_address_and_survives_a_reload(gateway: Gateway, visit: Visit) -> None:
    wanted, other = begin(gateway, "three", "carla"), begin(gateway, "four", "dora")
    visit.sign_in(path=PAGE)

    visit.page.get_by_label("Search sessions").press_sequentially("carla")
    visit.page.locator(f"#session-{other}").wait_for(state="detached")

    expect(visit.page.locator(f"#session-{wanted}")).to_be_visible()
    visit.page.wait_for_url(f"**{PAGE}?q=carla")
    visit.page.reload()
    assert visit.page.get_by_label("Search sessions").input_value() == "carla"
    assert visit.page.locator("#rows tr").count() == 1


def test_typing_goes_on_while_the_page_refreshes(gateway: Gateway, visit: Visit) -> None:
    begin(gateway, "five", "emil")
    visit.sign_in(path=PAGE)
    field = visit.page.get_by_label("Search sessions")

    field.press_sequentially("em")
    with visit.page.expect_response(lambda answer: "/dashboard/ui/" in answer.url):
        field.press_sequentially("il")
    visit.page.wait_for_timeout(400)

    assert field.input_value() == "emil"
    assert visit.page.evaluate("document.activeElement.name") == "q"


def test_an_open_row_stays_open_and_tells_of_its_turns(gateway: Gateway, visit: Visit) -> None:
    key = begin(gateway, "six", "frida")
    gateway.chat("please debug my server", tier=None, user="frida", headers={"X-Hermes-Session": "six"})
    gateway.usage(2, user_id="frida")
    visit.sign_in(path=PAGE)

    visit.page.locator(f"#link-{key}").click()
    detail = visit.page.locator(f"#detail-{key}")
    detail.get_by_text("2 turns").wait_for()
    with visit.page.expect_response(lambda answer: "/dashboard/ui/sessions" in answer.url):
        begin(gateway, "seven", "gerd")

    expect(detail).to_be_visible()
    assert f"open={key}" in visit.page.url
    visit.page.locator(f"#link-{key}").click()
    detail.wait_for(state="detached")


def test_only_one_tier_is_shown_where_that_is_wanted(gateway: Gateway, visit: Visit) -> None:
    simple = begin(gateway, "eight", "hans")
    complex_ = begin(gateway, "nine", "hans", "please debug my server script")
    visit.sign_in(path=PAGE)

    visit.page.get_by_role("radio", name="Complex").check(force=True)

    visit.page.locator(f"#session-{simple}").wait_for(state="detached")
    visit.page.locator(f"#session-{complex_}").wait_for()


def test_all_sessions_are_evicted_after_a_yes(gateway: Gateway, visit: Visit) -> None:
    begin(gateway, "ten", "ida")
    visit.sign_in(path=PAGE)

    visit.page.get_by_role("button", name="Evict all").click()
    visit.page.locator("#confirm-yes").click()

    visit.page.get_by_text("No active sessions").wait_for()
    assert keys(gateway) == []


def test_signing_out_ends_at_the_form(visit: Visit) -> None:
    visit.sign_in(path=PAGE)

    visit.page.get_by_role("button", name="Sign out").first.click()

    visit.page.get_by_label("Admin key").wait_for()
    visit.go(PAGE)
    assert "/dashboard/sign-in" in visit.page.url
