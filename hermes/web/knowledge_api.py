"""The operator's documents, for scripts: giving, listing, searching and removing them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import gevent
from flask import Blueprint, Response, jsonify, request

from hermes.admission.fields import Fields
from hermes.chatrequest import read_object
from hermes.documents import NewDocument
from hermes.errors import InvalidRequest
from hermes.instance import Hermes
from hermes.knowledge.library import MOST_QUESTION_CHARS, clean_name, named
from hermes.knowledge.reader import MOST_BYTES
from hermes.knowledge.reading import TYPES
from hermes.knowledge.selection import Selection
from hermes.turns import MOMENT_S
from hermes.web.caller import operator
from hermes.web.http import read_body

MOST_BODY_BYTES: Final = 2 * MOST_BYTES
"""A file as base64 is a third longer, and as escaped JSON up to twice as long."""

MOST_TOP_K: Final = 50
PIECE_CHARS: Final = 4 * 256 * 1024
NEW: Final = ("use_case", "entity", "source", "text", "content_base64", "format")
SEARCH: Final = ("query", "use_case", "entity", "top_k", "min_score")
NAME: Final = ("id", "use_case", "entity", "source")


def add_routes(bp: Blueprint, hermes: Hermes) -> None:
    """`/admin/knowledge`."""

    @bp.get("/admin/knowledge")
    def documents() -> Response:
        found = hermes.library.documents()
        ready = [document for document in found if document.state == "ready"]
        return jsonify(
            {
                "documents": [document.shown() for document in found],
                "chunks": sum(document.chunks for document in ready),
                "enabled": hermes.policies.current().knowledge.enabled,
            }
        )

    @bp.post("/admin/knowledge")
    def add() -> tuple[Response, int]:
        raw, name = _sent(request.args)
        return jsonify(hermes.library.add(raw, name, operator(hermes)).shown()), 201

    @bp.delete("/admin/knowledge")
    def delete() -> Response:
        fields = Fields(request.args.to_dict() or _json(), NAME)
        if fields.has("id"):
            gone = [hermes.library.delete_one(_number(fields.get("id")), operator(hermes))]
        else:
            use_case = clean_name(fields.get("use_case"), "use_case")
            gone = hermes.library.delete(use_case, fields.get("entity"), fields.get("source"), operator(hermes))
        return jsonify({"deleted": [document.shown() for document in gone]})

    @bp.delete("/admin/knowledge/<int:document_id>")
    def delete_one(document_id: int) -> Response:
        return jsonify({"deleted": [hermes.library.delete_one(document_id, operator(hermes)).shown()]})

    @bp.post("/admin/knowledge/<int:document_id>/again")
    def again(document_id: int) -> tuple[Response, int]:
        actor = operator(hermes)
        return jsonify(hermes.library.go_on(hermes.library.again(document_id, actor), actor).shown()), 201

    _add_search(bp, hermes)


def _add_search(bp: Blueprint, hermes: Hermes) -> None:
    @bp.post("/admin/knowledge/search")
    def search() -> Response:
        fields = Fields(_json(), SEARCH)
        knowledge = hermes.policies.current().knowledge
        top_k, min_score = fields.get("top_k"), fields.get("min_score")
        top_k = knowledge.top_k if top_k is None else top_k
        min_score = knowledge.min_score if min_score is None else min_score
        if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MOST_TOP_K:
            raise InvalidRequest(f"top_k must be a whole number from 1 to {MOST_TOP_K}.", param="top_k")
        if isinstance(min_score, bool) or not isinstance(min_score, int | float) or not 0 <= min_score <= 1:
            raise InvalidRequest("min_score must be a number from 0 to 1.", param="min_score")
        selection = Selection(
            clean_name(fields.get("use_case"), "use_case") if fields.has("use_case") else None,
            clean_name(fields.get("entity"), "entity") if fields.has("entity") else None,
        )
        question = fields.get("query")
        if not isinstance(question, str) or not 0 < len(question.strip()) <= MOST_QUESTION_CHARS:
            raise InvalidRequest(f"query must be a text of {MOST_QUESTION_CHARS:,} characters at most.", param="query")
        hits = hermes.library.search(question, selection, top_k, float(min_score))
        return jsonify({"hits": [hit.shown() for hit in hits]})


def _sent(args: Mapping[str, str]) -> tuple[bytes, NewDocument]:
    """The document of a request: JSON that holds it, or the file itself with its names in the query."""
    media_type = (request.content_type or "").partition(";")[0].strip().lower()
    if media_type in TYPES:
        raw = read_body(request.environ, MOST_BYTES)
        fields = Fields(args, NEW)
        return raw, named(
            fields.get("use_case"), fields.get("entity"), fields.get("source"), raw,
            media_type=media_type, fmt=fields.get("format"),
        )  # fmt: skip
    fields = Fields(_json(), NEW)
    raw = _content(fields)
    return raw, named(fields.get("use_case"), fields.get("entity"), fields.get("source"), raw, fmt=fields.get("format"))


def _content(fields: Fields) -> bytes:
    text, packed = fields.get("text"), fields.get("content_base64")
    if isinstance(text, str) and packed is None:
        return text.encode("utf-8", "replace")
    if isinstance(packed, str) and text is None:
        return _unpacked(packed)
    raise InvalidRequest("Either text or content_base64 must be given, as a text.", param="text")


def _unpacked(packed: str) -> bytes:
    """A file that came as base64, piece by piece: others have their turns meanwhile."""
    pieces = []
    try:
        for start in range(0, len(packed), PIECE_CHARS):
            pieces.append(base64.b64decode(packed[start : start + PIECE_CHARS], validate=True))
            gevent.sleep(MOMENT_S)
    except ValueError:  # binascii's is one; so is that of signs that are not ASCII
        raise InvalidRequest("content_base64 must be base64, without line ends.", param="content_base64") from None
    return b"".join(pieces)


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidRequest("id must be a document's number.", param="id") from None


def _json() -> Any:
    raw = read_body(request.environ, MOST_BODY_BYTES)
    return read_object(raw)[0]
