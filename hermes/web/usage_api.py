"""The usage log over HTTP: a page of it as JSON, all of it as a CSV file, the receipt of one request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import orjson
from flask import Blueprint, Response, jsonify, request

from hermes.instance import Hermes
from hermes.storage.export import csv_lines
from hermes.web.lasting import CSV, Exports

NAME_CHARS: Final = 40
"""How much of a filter's value the file's name shows."""


def add_routes(bp: Blueprint, hermes: Hermes, exports: Exports, watch: Callable[[], Callable[[], bool]]) -> None:
    """Adds the routes to the operators' blueprint, which closes them.

    Args:
        watch: gives a function that tells whether who asks now is still let in.
    """

    @bp.get("/admin/usage")
    def usage() -> Response:
        # Not by `jsonify`, to which a thousand rows are 20 ms of the event loop's time: this takes 2.
        rows = orjson.dumps({"rows": hermes.usage_rows(request.args)})
        return Response(rows, content_type="application/json")

    @bp.get("/admin/usage.csv")
    def usage_csv() -> Response:
        response = exports.answer(lambda: _csv(hermes.usage_pages(request.args)), watch(), CSV)
        response.headers["Content-Disposition"] = disposition(file_name(request.args))
        response.headers["Cache-Control"] = "no-store"
        return response

    @bp.get("/admin/usage/<request_id>")
    def one_request(request_id: str) -> Response:
        return jsonify(hermes.receipt(request_id))


def file_name(filters: Mapping[str, str]) -> str:
    """The name under which a browser keeps the file, with the filters in it, so that two files are told apart.

    >>> file_name({"status": "error", "from": "2026-05-01T00:00Z", "model": "../a b"})
    'hermes-usage_status-error_from-2026-05-01T00-00Z_model-a-b.csv'
    """
    shown = ((name, re.sub(r"[^\w.@]+", "-", value)[:NAME_CHARS].strip("-.")) for name, value in filters.items())
    return "_".join(["hermes-usage", *(f"{name}-{value}" for name, value in shown if value)]) + ".csv"


def disposition(name: str) -> str:
    """The header that names a file. Headers are ASCII, so a name that is not is told twice: for old browsers without
    what they could not read, for all others encoded.

    >>> print(disposition("usage.csv"))
    attachment; filename="usage.csv"
    >>> print(disposition("用户.csv"))
    attachment; filename="--.csv"; filename*=UTF-8''%E7%94%A8%E6%88%B7.csv

    Source: RFC 6266, appendix D.
    """
    plain = re.sub(r"[^\w.@-]", "-", name, flags=re.ASCII)
    encoded = f"; filename*=UTF-8''{quote(name, safe='')}" if plain != name else ""
    return f'attachment; filename="{plain}"{encoded}'


def _csv(pages: Iterable[list[dict[str, Any]]]) -> Iterator[str]:
    """The file page by page, each 2 ms of the event loop's time; an abandoned download leaves nothing behind."""
    yield from csv_lines(())
    for page in pages:
        yield "".join(csv_lines(page, header=False))
