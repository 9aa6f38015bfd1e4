"""Pins and keys: which model answers a name, the kill switch, API keys, who may sign in, the record of changes."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from hermes.admission.pins import MODEL_CHARS, SAMPLE_RATE, TARGET, check_key, checked_value, model_key
from hermes.directory import ENABLED_KEY
from hermes.errors import DatabaseUnavailable, HermesError, InvalidRequest
from hermes.storage import record
from hermes.web.dashboard.frame import Toast
from hermes.web.dashboard.pages.keys import Form, key_of
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.settings import Stored, Switch, Wanted, settings_view

PAGE: Final = "/dashboard/settings"
PART: Final = "/dashboard/ui/settings"
STORED_S: Final = 2.0
RECORD_ROWS: Final = 20
MOST_KEYS: Final = 1000
ONCE: Final = "key-form:"
ONCE_S: Final = 24 * 3600.0
PINS: Final = "pin.set"
LOADS: Final = "config.reload"
SIGN_INS: Final = "dashboard.sign_in"
SYNTAX: Final = re.compile(r"[\^$\\.*+?()\[\]{}|/]")
"""What means something in a browser's pattern; anything else may not be escaped there."""


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/settings` and what belongs to it."""
    page = _Page(site)
    _add_page(bp, page)
    _add_pins(bp, page)
    _add_switch(bp, page)
    _add_keys(bp, page)


class _Page:
    """What the routes share."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._stored = Kept(self._read, STORED_S)

    def values(self, wanted: Wanted, **more: Any) -> dict[str, Any]:
        """What the templates need."""
        hermes = self.site.hermes
        policy = hermes.policies.current()
        stored = self._stored.get()
        if wanted.before is not None and not stored.trouble:
            stored = replace(stored, record=record.page(hermes.database, RECORD_ROWS + 1, wanted.before))
        stopping = hermes.switch.stopping_file()
        switch = Switch(not hermes.switch.is_stopped(), str(hermes.switch.file), stopping is not None, None, "", "")
        view = settings_view(
            policy,
            hermes.directories.current(),
            stored,
            wanted,
            switch,
            lambda endpoint: str(hermes.breakers.circuit(endpoint, policy.breaker).state),
            time.time(),
            RECORD_ROWS,
        )  # fmt: skip
        strip = self.site.figures.strip()
        return {
            "view": view,
            "address": address,
            "part_address": part_address,
            "place_name": self.site.frame.place(),
            "place_pattern": SYNTAX.sub(r"\\\g<0>", self.site.frame.place()),
            "base_url": request.host_url.rstrip("/"),
            "per_minute": strip.per_minute,
            "once": secrets.token_hex(8),
            "form": Form(),
            "fault": "",
            **more,
        }

    def opened(self, wanted: Wanted) -> Response:
        """The whole page, as things are now: with a form open it is not renewed by itself."""
        self._stored.forget()
        return self.site.frame.page("settings.html", **self.values(wanted))

    def acted(self, text: str, undo_url: str = "", kind: str = "ok") -> Response:
        """After an act."""
        self._stored.forget()
        response = self.site.frame.acted(Toast(text, kind, undo_url), PAGE, "_settings.html", **self.values(Wanted()))
        response.headers["HX-Replace-Url"] = PAGE
        return response

    def shown(self, wanted: Wanted, status: int = 200, **more: Any) -> Response:
        """The page at once, with a form's fault or a new key."""
        self._stored.forget()
        return self.site.frame.answered("settings.html", "_settings.html", status=status, **self.values(wanted, **more))

    def _read(self) -> Stored:
        hermes = self.site.hermes
        now = datetime.now(UTC)
        try:
            loads, last = record.of_kind(hermes.database, LOADS, 1)
            return Stored(
                keys=hermes.api_keys(),
                pins=hermes.directory.get_pins(),
                seen=record.last_of_each(hermes.database, SIGN_INS),
                record=record.page(hermes.database, RECORD_ROWS + 1),
                loads=loads,
                load=last[0] if last else None,
                pinned=record.of_kind(hermes.database, PINS, RECORD_ROWS)[1],
                requests={
                    name: sums.requests
                    for name, sums in hermes.reports.top(now - timedelta(days=1), now, "key", MOST_KEYS, "requests")
                },
            )
        except DatabaseUnavailable:
            return Stored(trouble="The database does not answer: keys and the record cannot be read or changed now.")


def _add_page(bp: Blueprint, page: _Page) -> None:
    site = page.site

    @bp.get(PAGE)
    def settings() -> Response:
        return page.opened(Wanted.parse(request.args))

    @bp.get(PART)
    def settings_part() -> Response:
        wanted = Wanted.parse(request.args)
        if wanted.is_still:  # somebody's own form
            response = site.frame.fragment("_settings.html", **page.values(wanted))
        else:
            key = f"{request.host}|{wanted.revoked}"
            response = site.frame.shared("_settings.html", key, lambda: page.values(wanted, once=""))
        if "push" in request.args:
            response.headers["HX-Push-Url"] = address(**wanted.query())
        return response


def _add_pins(bp: Blueprint, page: _Page) -> None:
    site = page.site

    @bp.post(f"{PAGE}/pins")
    def set_pins() -> Response:
        key = model_key(request.form.get("role", ""))
        wished = {key: "model", f"{key}{TARGET}": "target", f"{key}{SAMPLE_RATE}": "rate"}
        values = {name: request.form.get(field, "").strip() for name, field in wished.items()}
        given = {field: values[name] for name, field in wished.items()}
        try:
            check_key(key, site.hermes.policies.current().gateway.roles)
            changed = _changed(site, values)
        except InvalidRequest as refusal:
            return page.shown(Wanted(edit=key), 422, pin_form=given, fault=refusal.message)
        old = site.hermes.directories.current().pins.get(key, "")
        for name, value in changed.items():
            _put(site, name, value)
        if not changed:
            return page.acted(f"{key} is as it was")
        return page.acted(f"{key} changed", _undo(key, old) if list(changed) == [key] else "")

    @bp.post(f"{PAGE}/pins/restore")
    def restore_pin() -> Response:
        key = request.args.get("key", "")
        _put(site, key, request.args.get("value", "")[:MODEL_CHARS])
        return page.acted(f"{key} is as it was")

    @bp.post(f"{PAGE}/pins/remove")
    def remove_pin() -> Response:
        key = request.form.get("key", "")
        old = site.hermes.directories.current().pins.get(key, "")
        site.hermes.editor.delete_pin(key, site.actor())
        is_known = key in map(model_key, site.hermes.policies.current().gateway.roles)
        return page.acted(f"{key[:80]} removed", _undo(key, old) if is_known else "")


def _changed(site: Site, values: dict[str, str]) -> dict[str, str]:
    """The pins whose values are to be others, all of them checked; an empty value takes a pin away."""
    pins = site.hermes.directories.current().pins
    checked = {name: checked_value(name, value) if value else "" for name, value in values.items()}
    return {name: value for name, value in checked.items() if value != pins.get(name, "")}


def _undo(key: str, value: str) -> str:
    return f"{PAGE}/pins/restore?{urlencode({'key': key, 'value': value})}"


def _put(site: Site, key: str, value: str) -> None:
    if value:
        site.hermes.editor.set_pin(key, {"value": value}, site.actor())
    elif key in site.hermes.directories.current().pins:
        site.hermes.editor.delete_pin(key, site.actor())


def _add_switch(bp: Blueprint, page: _Page) -> None:
    site = page.site

    @bp.get(f"{PAGE}/stop")
    def stop_asked() -> Response:
        return site.frame.page("stop.html", **page.values(Wanted()))

    @bp.post(f"{PAGE}/stop")
    def stop() -> Response:
        place = site.frame.place()
        reason = request.form.get("reason", "").strip()
        if request.form.get("word", "").strip() != place:
            values = page.values(Wanted(), fault=f"Type {place} to confirm. Nothing was stopped.", reason=reason)
            return site.frame.page("stop.html", status=422, **values)
        site.hermes.editor.set_pin(ENABLED_KEY, {"value": "false", "reason": reason}, site.actor())
        return page.acted("The gateway is stopped", kind="warn")

    @bp.post(f"{PAGE}/start")
    def start() -> Response:
        site.hermes.editor.set_pin(ENABLED_KEY, {"value": "true"}, site.actor())
        if site.hermes.switch.is_stopped():
            return page.acted(f"It stays stopped while the file {site.hermes.switch.file} is there", kind="bad")
        return page.acted("The gateway is on again")


def _add_keys(bp: Blueprint, page: _Page) -> None:
    site = page.site

    @bp.post(f"{PAGE}/keys")
    def create_key() -> Response:
        form = Form.of(request.form)
        try:
            body = key_of(form)
            if not site.hermes.store.claim(f"{ONCE}{request.form.get('once', '')[:32]}", ONCE_S):
                raise InvalidRequest("This form has made a key already. Send it once more for another one.")
            made = site.hermes.editor.create_key(body, site.actor())
        except HermesError as refusal:
            if not isinstance(refusal, InvalidRequest):
                raise
            return page.shown(Wanted(new_key=True), 422, form=form, fault=refusal.message)
        return page.shown(Wanted(), 201, made=made)

    @bp.get(f"{PAGE}/keys/<key_id>/revoke")
    def revoke_asked(key_id: str) -> Response:
        name = _name(site, key_id)
        return site.frame.page(
            "confirm.html",
            title=f"Revoke the key {name}?",
            text="Its clients get 401 at once. A revoked key never comes back.",
            label="Revoke",
            action=f"{PAGE}/keys/{key_id}/revoke",
            back=PAGE,
        )

    @bp.post(f"{PAGE}/keys/<key_id>/revoke")
    def revoke(key_id: str) -> Response:
        line = site.hermes.editor.revoke_key(key_id, site.actor())
        return page.acted(f"Key {line['name']} revoked")


def _name(site: Site, key_id: str) -> str:
    names = (key.name for key in site.hermes.directories.current().keys.values() if key.id == key_id)
    return next(names, key_id[:40])


def address(**wanted: Any) -> str:
    """The page's address.

    >>> address(edit="model.chat"), address()
    ('/dashboard/settings?edit=model.chat', '/dashboard/settings')
    """
    return _with(PAGE, wanted)


def part_address(**wanted: Any) -> str:
    """The same of the page's live part."""
    return _with(PART, wanted)


def _with(path: str, wanted: dict[str, Any]) -> str:
    query = urlencode({name: value for name, value in wanted.items() if value})
    return f"{path}?{query}" if query else path
