"""Signing in to the dashboard and out of it, by HTTP alone: no script is needed for any of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urlencode

import pytest

from tests.e2e.client import Answer
from tests.e2e.gateway import ADMIN_KEY, Gateway

PAGE = "/dashboard/circuits"
SIGN_IN = "/dashboard/sign-in"
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


class Caller:
    """A browser without script: cookies, forms, no redirects followed."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.cookies: dict[str, str] = {}

    def send(self, method: str, path: str, fields: dict[str, str] | None = None, **headers: str) -> Answer:
        sent = {**HTML, "Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()), **headers}
        body = None
        if fields is not None:
            sent["Content-Type"], body = "application/x-www-form-urlencoded", urlencode(fields).encode()
        answer = self.gateway.request(method, path, sent, body)
        for name, value in answer.pairs:
            if name.lower() == "set-cookie":
                cookie, _, rest = value.partition("=")
                self.cookies[cookie] = rest.partition(";")[0]
        return answer

    def sign_in(self, key: str = ADMIN_KEY, wanted: str = PAGE) -> Answer:
        form = self.send("GET", f"{SIGN_IN}?{urlencode({'next': wanted})}")
        return self.send("POST", SIGN_IN, {**hidden(form), "key": key})


def hidden(answer: Answer) -> dict[str, str]:
    """The hidden fields of the first form."""
    form = re.search(r'<form[^>]*action="/dashboard/sign-in".*?</form>', answer.body.decode(), re.S)
    assert form is not None
    return {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[0])}


def token_of(answer: Answer) -> str:
    """The token of a page's forms."""
    return re.findall(r'name="csrf" value="(\w+)"', answer.body.decode())[0]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """One for all: a good key makes it forget the tries that failed."""
    running = Gateway.start()
    yield running
    logs = running.logs()
    running.stop()
    assert "Traceback" not in logs
    assert ADMIN_KEY not in logs


@pytest.fixture
def guarded() -> Iterator[Gateway]:
    """A gateway of the test's own, which lets nobody in for a while afterwards."""
    running = Gateway.start()
    yield running
    logs = running.logs()
    running.stop()
    assert "Traceback" not in logs
    assert ADMIN_KEY not in logs


def audit(gateway: Gateway) -> list[tuple[str, str]]:
    """The last changes: action and actor, newest first."""
    return [(row["action"], row["actor"]) for row in gateway.admin("GET", "/admin/audit").json["entries"]]


def test_whoever_is_not_signed_in_is_led_to_the_form_and_back(gateway: Gateway) -> None:
    caller = Caller(gateway)

    led = caller.send("GET", f"{PAGE}?a=b")
    entered = caller.sign_in(wanted=f"{PAGE}?a=b")

    assert (led.status, led.headers["location"]) == (303, f"{SIGN_IN}?next=%2Fdashboard%2Fcircuits%3Fa%3Db")
    assert (entered.status, entered.headers["location"]) == (303, f"{PAGE}?a=b")
    assert caller.send("GET", PAGE).status == 200
    assert audit(gateway)[0] == ("dashboard.sign_in", "admin")


def test_the_session_is_kept_from_scripts_and_other_sites(gateway: Gateway) -> None:
    entered = Caller(gateway).sign_in()

    (cookie,) = [value for name, value in entered.pairs if value.startswith("hermes_session=")]
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert ADMIN_KEY not in cookie


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param("https://evil.example/dashboard", id="another host"),
        pytest.param("//evil.example/dashboard", id="without a scheme"),
        pytest.param("/\\evil.example/dashboard", id="a backslash"),
        pytest.param("javascript:alert(1)", id="a script"),
        pytest.param("/v1/models", id="no page of ours"),
        pytest.param("/dashboard/sign-in?next=/dashboard", id="round and round"),
        pytest.param("/dashboard\r\nSet-Cookie: a=b", id="a line more"),
    ],
)
def test_signing_in_leads_to_pages_of_ours_only(gateway: Gateway, wanted: str) -> None:
    assert Caller(gateway).sign_in(wanted=wanted).headers["location"] == "/dashboard/"


def test_a_wrong_key_opens_nothing_and_more_of_them_have_to_wait(guarded: Gateway) -> None:
    caller = Caller(guarded)

    statuses = [caller.sign_in(f"wrong-{number}").status for number in range(8)]

    assert statuses[:5] == [401] * 5
    assert statuses[5:].count(429) >= 2
    late = caller.sign_in()
    assert late.status == 429, "not even the right key is looked at during a pause"
    assert int(late.headers["retry-after"]) >= 1
    assert caller.send("GET", PAGE).status == 303


def test_a_form_without_its_token_changes_nothing(gateway: Gateway) -> None:
    caller = Caller(gateway)
    assert caller.send("POST", SIGN_IN, {"key": ADMIN_KEY}).status == 403
    caller.sign_in()

    for fields in ({}, {"csrf": "0" * 64}):
        assert caller.send("POST", "/dashboard/circuits/reset", fields).status == 403

    assert "circuit.reset" not in dict(audit(gateway))
    caller.send("POST", "/dashboard/circuits/reset", {"csrf": token_of(caller.send("GET", PAGE))})
    assert audit(gateway)[0] == ("circuit.reset", "admin")


def test_who_has_signed_out_has_no_session_even_with_a_copy_of_the_cookie(gateway: Gateway) -> None:
    caller = Caller(gateway)
    caller.sign_in()
    copy = dict(caller.cookies)

    out = caller.send("POST", "/dashboard/sign-out", {"csrf": token_of(caller.send("GET", PAGE))})

    assert (out.status, out.headers["location"]) == (303, SIGN_IN)
    caller.cookies = copy
    assert caller.send("GET", PAGE).status == 303


def test_another_admin_key_ends_every_session() -> None:
    gateway = Gateway.start(env={"HERMES_SECRET": "alike-before-and-after"})
    caller = Caller(gateway)
    caller.sign_in()
    assert caller.send("GET", PAGE).status == 200
    gateway.kill()

    gateway._env = {**gateway._env, "ROUTER_PROXY_API_KEY": "another-admin-key"}
    gateway.spawn()

    assert caller.send("GET", PAGE).status == 303
    gateway.stop()


def test_an_api_key_with_the_scope_admin_may_sign_in_until_it_is_revoked(gateway: Gateway) -> None:
    made = {
        scope: gateway.admin("POST", "/admin/keys", {"name": scope, "scopes": [scope]}).json
        for scope in ("admin", "router")
    }
    caller = Caller(gateway)

    assert Caller(gateway).sign_in(made["router"]["key"]).status == 403
    assert caller.sign_in(made["admin"]["key"]).status == 303

    assert caller.send("GET", PAGE).status == 200
    assert audit(gateway)[0] == ("dashboard.sign_in", f"key:{made['admin']['id']}")
    gateway.admin("DELETE", f"/admin/keys/{made['admin']['id']}")
    assert caller.send("GET", PAGE).status == 303


def test_without_an_admin_key_nobody_signs_in() -> None:
    gateway = Gateway.start(env={"ROUTER_PROXY_API_KEY": " "})

    page = Caller(gateway).send("GET", SIGN_IN)
    tried = Caller(gateway).send("POST", SIGN_IN, {"key": "", "csrf": ""})

    assert (page.status, tried.status) == (401, 401)
    assert b"ROUTER_PROXY_API_KEY" in page.body
    assert b'type="password"' not in page.body
    gateway.stop()


def test_a_signed_in_browser_may_read_the_admin_routes_but_not_change_anything_by_them(gateway: Gateway) -> None:
    caller = Caller(gateway)
    assert caller.send("GET", "/admin/usage.csv").headers["location"] == f"{SIGN_IN}?next=%2Fadmin%2Fusage.csv"
    assert caller.send("GET", "/admin/usage", Accept="application/json").status == 401
    caller.sign_in()

    assert caller.send("GET", "/admin/usage.csv").status == 200
    assert caller.send("GET", "/circuits").status == 200
    assert caller.send("POST", "/circuits/reset").status == 401
    assert caller.send("POST", "/reload").status == 401


def test_every_page_says_what_a_browser_may_do_with_it(gateway: Gateway) -> None:
    caller = Caller(gateway)
    caller.sign_in()

    for path in (SIGN_IN, PAGE, "/dashboard/ui/strip", "/dashboard/nowhere"):
        headers = Caller(gateway).send("GET", path).headers if path == SIGN_IN else caller.send("GET", path).headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"


def test_a_part_of_a_page_that_has_not_changed_is_not_sent_again(gateway: Gateway) -> None:
    caller = Caller(gateway)
    caller.sign_in()

    first = caller.send("GET", "/dashboard/ui/strip")
    again = caller.send("GET", "/dashboard/ui/strip", **{"If-None-Match": first.headers["etag"]})

    assert (first.status, again.status, again.body) == (200, 304, b"")


def test_a_part_of_a_page_leads_a_signed_out_browser_to_the_form(gateway: Gateway) -> None:
    current = f"http://127.0.0.1:{gateway.port}/dashboard/circuits?a=b"

    answer = Caller(gateway).send("GET", "/dashboard/ui/circuits", **{"HX-Request": "true", "HX-Current-URL": current})

    assert answer.status == 401
    assert answer.headers["hx-redirect"] == f"{SIGN_IN}?next=/dashboard/circuits?a%3Db"


def test_a_page_that_does_not_exist_is_an_answer_for_people(gateway: Gateway) -> None:
    caller = Caller(gateway)
    caller.sign_in()

    answer = caller.send("GET", "/dashboard/nowhere")

    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.request_id in answer.body.decode()
