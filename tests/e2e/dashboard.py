"""Who has signed in to the dashboard, as far as requests tell."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlencode

from .client import Answer
from .gateway import ADMIN_KEY, Gateway

HTML = {"Accept": "text/html"}
SIGN_IN = "/dashboard/sign-in"


def signed_in(gateway: Gateway, key: str = ADMIN_KEY) -> dict[str, str]:
    """The headers of somebody who has just signed in, with the admin key if with no other."""
    form = gateway.request("GET", SIGN_IN, HTML)
    hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form.body.decode())
    fields = {name: unescape(value) for name, value in hidden}
    body = urlencode({**fields, "key": key}).encode()
    kinds = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": _cookies(form)}
    answer = gateway.request("POST", SIGN_IN, {**HTML, **kinds}, body)
    assert answer.status == 303, answer.body
    return {**HTML, "Cookie": _cookies(answer)}


def _cookies(answer: Answer) -> str:
    """What a browser sends back."""
    return "; ".join(value.partition(";")[0] for name, value in answer.pairs if name.lower() == "set-cookie")
