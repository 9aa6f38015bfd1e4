"""The form of a new API key: its fields as they came, and as the editor takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from werkzeug.datastructures import MultiDict

from hermes.admission.keys import LIMITS

NUMBER_CHARS: Final = 12


@dataclass(frozen=True, slots=True)
class Form:
    """What somebody has filled in."""

    name: str = ""
    scopes: tuple[str, ...] = ("gateway",)
    roles: tuple[str, ...] = ()
    """None: every role."""

    expires_at: str = ""
    limits: tuple[str, ...] = ("",) * len(LIMITS)
    """In the order of `LIMITS`."""

    @classmethod
    def of(cls, fields: MultiDict[str, str]) -> Form:
        """From what a browser sends."""
        return cls(
            fields.get("name", ""),
            tuple(fields.getlist("scopes")),
            tuple(fields.getlist("roles")),
            fields.get("expires_at", "").strip(),
            tuple(fields.get(name, "").strip() for name in LIMITS),
        )


def key_of(form: Form) -> dict[str, Any]:
    """The body of `POST /admin/keys` that the form means.

    >>> key_of(Form("a", ("router",), limits=("60", "", "")))
    {'name': 'a', 'scopes': ['router'], 'limits': {'requests_per_minute': 60}}
    """
    body: dict[str, Any] = {"name": form.name, "scopes": list(form.scopes)}
    if form.roles:
        body["roles"] = list(form.roles)
    if form.expires_at:
        body["expires_at"] = form.expires_at
    limits = {name: _number(text) for name, text in zip(LIMITS, form.limits, strict=True) if text}
    if limits:
        body["limits"] = limits
    return body


def _number(text: str) -> int | str:
    """A whole number, or what stands there instead, for the editor to name it."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= NUMBER_CHARS else text
