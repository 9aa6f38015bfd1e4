"""The document of the HTTP surface is OpenAPI, and describes what the application has: all of it and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from openapi_spec_validator import OpenAPIV31SpecValidator

from hermes import bootstrap
from hermes.settings import Settings
from hermes.web.application import create_app
from hermes.web.openapi.document import document, known_errors
from hermes.web.openapi.routes import ROUTES

FOR_PEOPLE = ("/dashboard", "/static/")
IMPLIED = {"HEAD", "OPTIONS"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    folder = tmp_path_factory.mktemp("openapi")
    settings = Settings(database_url=f"sqlite:///{folder / 'hermes.db'}", trace_log_dir=str(folder / "traces"))
    hermes = bootstrap.build(settings)
    yield create_app(hermes)
    hermes.close()


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return document()


def test_every_route_and_method_is_described_and_nothing_else(app: Flask) -> None:
    """What is missing wants a `Route` in `hermes/web/openapi/routes.py`."""
    there = {
        (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        if not rule.rule.startswith(FOR_PEOPLE)
        for method in (rule.methods or set()) - IMPLIED
    }

    assert {(route.method, route.path) for route in ROUTES} == there
    assert len(ROUTES) == len(there)


def test_it_is_openapi(whole: dict[str, Any]) -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(whole).iter_errors()] == []


def test_it_is_served_to_everybody(app: Flask, whole: dict[str, Any]) -> None:
    answer = app.test_client().get("/openapi.json", headers={"Host": "h"})

    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert answer.json == whole


def test_every_shape_is_used_and_every_one_used_is_there(whole: dict[str, Any]) -> None:
    used = set(re.findall(r"#/components/(\w+/[\w-]+)", str(whole)))
    there = {f"{kind}/{name}" for kind in ("schemas", "responses", "headers") for name in whole["components"][kind]}

    assert used <= there
    assert {name for name in there - used if name.startswith("schemas/")} == set()


def test_every_code_of_an_error_is_named(whole: dict[str, Any]) -> None:
    kinds = whole["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["type"]["anyOf"][0]["enum"]

    assert set(kinds) == {kind.code for kinds in known_errors().values() for kind in kinds}
    assert {"invalid_api_key", "budget_exceeded", "gateway_disabled", "method_not_allowed"} <= set(kinds)


@pytest.mark.parametrize("route", [pytest.param(route, id=f"{route.method} {route.path}") for route in ROUTES])
def test_who_may_ask_is_said(whole: dict[str, Any], route: Any) -> None:
    """Operators' paths are closed by their beginning, so what is below them must say so; and nothing else may."""
    operation = whole["paths"][route.path][route.method.lower()]
    is_closed = route.path.startswith(("/admin", "/circuits", "/classifier", "/metrics", "/reload"))

    assert ({"adminKey": []} in operation["security"]) == is_closed
    assert ("401" in operation["responses"]) == (operation["security"] != [])
