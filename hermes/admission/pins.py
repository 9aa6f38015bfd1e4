"""Pins: which values operators may set while Hermes runs, and what holds at the moment.

A pin is a text under a key. `model.<role>` is the model that serves a role, `model.<role>.target` the candidate that is
compared with it, `model.<role>.target.sample_rate` the share of calls that are compared; `ai.gateway.enabled` is the
kill switch.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

from hermes.admission.fields import Fields, clean_text
from hermes.configfile.findings import nearest
from hermes.directory import ENABLED_KEY, Directory
from hermes.errors import InvalidRequest
from hermes.policy import Policy

MODEL: Final = "model."
TARGET: Final = ".target"
SAMPLE_RATE: Final = ".target.sample_rate"
FORMS: Final = ("model.<role>", "model.<role>.target", "model.<role>.target.sample_rate", ENABLED_KEY)
WORDS: Final = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
FIELDS: Final = ("value", "reason")
MODEL_CHARS: Final = 200
REASON_CHARS: Final = 200
SHOWN_CHARS: Final = 100
SHOWN_MODELS: Final = 12


def model_key(role: str) -> str:
    """The pin that says which model serves a role.

    >>> model_key("chat")
    'model.chat'
    """
    return f"{MODEL}{role}"


def check_key(key: str, roles: Collection[str] | None) -> None:
    """Lets the key of a pin pass.

    Args:
        roles: those that there are; None lets every role pass.

    Raises:
        InvalidRequest: there is no such pin; the message lists those that are.
    """
    if key == ENABLED_KEY:
        return
    role = _role_of(key)
    if role is None or not role.isprintable():
        forms = ", ".join(FORMS)
        raise InvalidRequest(f"There is no pin {key[:SHOWN_CHARS]!r}; pins are {forms}.", param="key")
    if roles is not None and role not in roles:
        known = ", ".join(roles)
        raise InvalidRequest(f"There is no role {role[:SHOWN_CHARS]!r}; roles are {known}.", param="key")


def checked_value(key: str, value: object) -> str:
    """The value as it is stored, for a key that `check_key` has let pass.

    Raises:
        InvalidRequest: it is no text, or none that this pin can have.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest(
            'value must be a text that is not empty; numbers and flags too: "0.1", "false".', param="value"
        )
    text = clean_text(value, "value", MODEL_CHARS)
    if key == ENABLED_KEY:
        if text.lower() not in WORDS:
            raise InvalidRequest('value must be "true" or "false".', param="value")
        return "true" if WORDS[text.lower()] else "false"
    if key.endswith(SAMPLE_RATE) and not _is_share(text):
        raise InvalidRequest('value must be a number from "0" to "1".', param="value")
    return text


def parse_value(key: str, body: object) -> str:
    """The value of `{"value": "…", "reason"?: "…"}`, as it is stored.

    Raises:
        InvalidRequest: naming the field.
    """
    return checked_value(key, Fields(body, FIELDS).get("value"))


def parse_reason(body: object) -> str:
    """Why, for the record; empty where nobody says.

    Raises:
        InvalidRequest: it is no text, or one that the record cannot take.
    """
    value = Fields(body, FIELDS).get("reason")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest("reason must be a text.", param="reason")
    return clean_text(value, "reason", REASON_CHARS)


def remark(key: str, value: str, policy: Policy) -> str | None:
    """What whoever sets this pin should know: that no endpoint has the model, as a slip of the pen would look alike."""
    role = _role_of(key)
    models = list(dict.fromkeys(endpoint.model for endpoint in policy.endpoints().values()))
    if role is None or role not in policy.gateway.roles or key.endswith(SAMPLE_RATE) or value in models:
        return None
    tier = policy.gateway.roles[role]
    known = ", ".join(models[:SHOWN_MODELS]) + (", …" if len(models) > SHOWN_MODELS else "")
    meant = nearest(value, models)
    return (
        f"No configured endpoint has the model {value}; they have {known}. "
        f"Requests go to {policy.cascades[tier].endpoints[0].shown_url}, the {tier} tier's primary, with this name."
        + (f" Did you mean {meant}?" if meant else "")
    )


def in_force(policy: Policy, directory: Directory, *, is_enabled: bool) -> dict[str, Any]:
    """What clients cache: the model of each role (its pin, else its tier's first endpoint) and the switch."""
    models = {
        model_key(role): directory.pins.get(model_key(role)) or policy.cascades[tier].endpoints[0].model
        for role, tier in policy.gateway.roles.items()
    }
    return {**models, ENABLED_KEY: is_enabled}


def _role_of(key: str) -> str | None:
    """The role in a key, or None where the key has another form.

    >>> [_role_of(key) for key in ("model.chat", "model.chat.target.sample_rate", "model.", "chat")]
    ['chat', 'chat', None, None]
    """
    if not key.startswith(MODEL):
        return None
    rest = key.removeprefix(MODEL)
    return rest.removesuffix(SAMPLE_RATE if rest.endswith(SAMPLE_RATE) else TARGET) or None


def _is_share(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and 0 <= number <= 1 and text.isascii() and "_" not in text
