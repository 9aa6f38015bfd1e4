"""Configuration: what runs, what would change, and loading it."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Final

from flask import Blueprint, Response, request

from hermes.errors import ConfigurationInvalid, DatabaseUnavailable
from hermes.storage import record
from hermes.web.dashboard.frame import Toast
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.config import ConfigView, config_view
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.strip import Count
from hermes.web.dashboard.watch import Watch

PAGE: Final = "/dashboard/config"
PART: Final = "/dashboard/ui/config"
LOADS: Final = "config.reload"
SHOWN_LOADS: Final = 20
VIEW_S: Final = 2.0
TAIL_CHARS: Final = 4
LONG_CHARS: Final = 20
"""Of a shorter secret not even the end is shown."""

NAMES: Final = re.compile(r"\w+")


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/config` and what belongs to it."""
    watch = Watch(site.hermes)
    view = Kept(lambda: _view(site, watch), VIEW_S)
    site.figures.count("config", lambda: _count(view.get()))

    def values() -> dict[str, Any]:
        return {"view": view.get(), "wants_table": request.values.get("view") == "table"}

    def acted(text: str, kind: str) -> Response:
        view.forget()
        return site.frame.acted(Toast(text, kind), PAGE, "_config.html", **values())

    @bp.get(PAGE)
    def config() -> Response:
        watch.forget()
        view.forget()
        return site.frame.page("config.html", **values())

    @bp.get(PART)
    def config_part() -> Response:
        response = site.frame.shared("_config.html", request.args.get("view", "")[:10], values)
        if "push" in request.args:
            response.headers["HX-Push-Url"] = f"{PAGE}?view=table" if request.args.get("view") == "table" else PAGE
        return response

    @bp.post(f"{PAGE}/check")
    def check() -> Response:
        problems = len(watch.again().problems)
        return acted(f"The file has {_some(problems)}", "warn") if problems else acted("The file can be used", "ok")

    @bp.post(f"{PAGE}/load")
    def load() -> Response:
        return acted(*_load(site, watch))


def _load(site: Site, watch: Watch) -> tuple[str, str]:
    """Loads the file, if it is the one that was looked at; what to say of it, and its kind."""
    seen = request.form.get("version")
    if seen is not None and seen != watch.again().version:
        return "The file has changed once more. Look at what it says now, then load it", "warn"
    try:
        site.hermes.reload(site.actor())
    except ConfigurationInvalid as invalid:
        said = f"The file has {_some(len(invalid.problems))}. What runs goes on", "bad"
    else:
        said = "The configuration is loaded", "ok"
    watch.again()
    return said


def _view(site: Site, watch: Watch) -> ConfigView:
    hermes = site.hermes
    directory = hermes.directories.current()
    try:
        loads = record.of_kind(hermes.database, LOADS, SHOWN_LOADS)
    except DatabaseUnavailable:
        loads = None
    return config_view(
        hermes.policies.current(),
        watch.look(),
        directory.pins,
        loads,
        {key.id: key.name for key in directory.keys.values()},
        hermes.loaded_at,
        hint_of,
        time.time(),
    )


def hint_of(value: str) -> str:
    """What is said of the environment variables that a line names: whether they are set, never what they hold."""
    return ", ".join(_said(name) for name in NAMES.findall(value))


def _said(name: str) -> str:
    text = os.environ.get(name, "").strip()
    if not text:
        return "not set"
    return f"set, ends in {text[-TAIL_CHARS:]}" if len(text) >= LONG_CHARS else "set"


def _count(view: ConfigView) -> Count | None:
    if view.state == "invalid":
        return Count("invalid", "bad")
    return Count(f"{view.changed_lines or 1} new") if view.state == "changed" else None


def _some(problems: int) -> str:
    return f"{problems} problem{'' if problems == 1 else 's'}"
