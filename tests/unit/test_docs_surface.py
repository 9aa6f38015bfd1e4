"""Routes, error codes and metrics stand in the documents as they are in the code: all of them, and no others."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hermes.observe.metrics import Metrics
from hermes.settings import ROOT
from hermes.web.openapi.document import known_errors
from hermes.web.openapi.routes import ROUTES

PAGES = {path.name: path.read_text(encoding="utf-8") for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]}
TABLE_OF_ROUTES = PAGES["api.md"].partition("\n## ")[0]
TABLE_OF_ERRORS = PAGES["api.md"].partition("\n## Errors")[2].partition("\n## ")[0]
TABLE_OF_METRICS = PAGES["operations.md"].partition("\n## Metrics")[2].partition("\n## ")[0]

OURS = r"/(?:v1|admin|circuits|classifier|health|metrics|reload|openapi\.json)\b"
PATH = re.compile(rf"(?<![\w.…/]){OURS}[\w/{{}}.-]*(?![\w/…*-])")
METHOD = re.compile(rf"\b(GET|POST|PUT|DELETE) ({OURS}[\w/{{}}.-]*)")
PREFIXES = {"/v1", "/admin"}
"""What is said of many routes at once, and as a client's base URL."""

PICTURE_MAX_BYTES = 200_000

SHOWN = {"upstream_error": {502, 503}, "invalid_request_error": {400, 414, 417, 431, 501}}
"""Codes with more than one status: by a subclass of the error, or by what Flask or gunicorn refuse."""

UNSAID = {"internal_error", "invalid_configuration"}
"""A fault of ours is in no table; what `/reload` answers stands with it."""


def patterns() -> dict[str, re.Pattern[str]]:
    return {route.path: re.compile(re.sub(r"{\w+}", r"[^/]+", route.path)) for route in ROUTES}


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_a_route_stands_in_the_table_with_its_methods(path: str) -> None:
    rows = [line for line in TABLE_OF_ROUTES.splitlines() if f"`{path}`" in line]
    methods = {route.method for route in ROUTES if route.path == path}

    assert len(rows) == 1, f"docs/api.md: one row for {path}"
    assert methods <= set(re.findall(r"[A-Z]{3,}", rows[0].split("|")[2]))


@pytest.mark.parametrize("page", sorted(PAGES))
def test_no_page_names_a_route_that_is_not_there(page: str) -> None:
    named = {path.rstrip(".") for path in PATH.findall(PAGES[page])} - PREFIXES
    unknown = [path for path in named if not any(pattern.fullmatch(path) for pattern in patterns().values())]
    asked = {(method, path.rstrip(".")) for method, path in METHOD.findall(PAGES[page])}
    by_path = [(route.method, patterns()[route.path]) for route in ROUTES]

    assert unknown == []
    assert [ask for ask in asked if not any(ask[0] == m and p.fullmatch(ask[1]) for m, p in by_path)] == []


def test_the_table_of_errors_has_each_code_with_its_status_and_no_other() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| (`[^|]+`) \|", TABLE_OF_ERRORS, re.MULTILINE)
    told: dict[str, set[int]] = {}
    for statuses, names in rows:
        codes = re.findall(r"`(\w+)`", names)
        numbers = [int(number) for number in statuses.split(",")]
        pairs = zip(codes, numbers, strict=True) if len(codes) > 1 else [(codes[0], number) for number in numbers]
        for code, number in pairs:
            told.setdefault(code, set()).add(number)

    there = {kind.code: {kind.status} for kinds in known_errors().values() for kind in kinds}
    assert told == {code: SHOWN.get(code, statuses) for code, statuses in there.items() if code not in UNSAID}


def test_the_table_of_metrics_has_each_name_and_no_other() -> None:
    exposition = Metrics("1").exposition().decode()
    families = text_string_to_metric_families(exposition)
    there = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}

    assert set(re.findall(r"\bhermes_\w+", TABLE_OF_METRICS)) == there
    elsewhere = {name for page in PAGES.values() for name in re.findall(r"`(hermes_\w+?)[`{]", page)}
    assert elsewhere - there == set()


def test_every_picture_is_there_and_small() -> None:
    pictures = {
        ROOT / "docs" / "pictures" / name for name in re.findall(r"\]\(docs/pictures/(\S+)\)", PAGES["README.md"])
    }

    assert pictures == set((ROOT / "docs" / "pictures").iterdir())
    assert [path.name for path in pictures if path.stat().st_size > PICTURE_MAX_BYTES] == []
