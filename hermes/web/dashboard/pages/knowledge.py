"""Knowledge: which documents there are, giving and removing them, and what a question would find."""

from __future__ import annotations

import time
from typing import Any, Final
from urllib.parse import urlencode

import gevent
from flask import Blueprint, Response, redirect, request

from hermes.documents import NewDocument
from hermes.errors import HermesError, InvalidRequest
from hermes.knowledge.library import named
from hermes.knowledge.selection import Selection
from hermes.storage.uses import uses_since
from hermes.web.dashboard.attempted import attempted
from hermes.web.dashboard.frame import Toast
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.uploads import MOST_FILES, content_of
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.knowledge import Tested, Wanted, found_by, knowledge_view

PAGE: Final = "/dashboard/knowledge"
PART: Final = "/dashboard/ui/knowledge"
USES_S: Final = 60.0
DAY_S: Final = 86_400.0
KEPT_S: Final = 1.0
FORM_FIELDS: Final = ("use_case", "entity", "source", "text")

Values = dict[str, Any]


def add_routes(bp: Blueprint, site: Site) -> None:
    """`/dashboard/knowledge` and what belongs to it."""
    uses = Kept(lambda: uses_since(site.hermes.database, time.time() - DAY_S), USES_S)
    _add_pages(bp, site, uses)
    _add_acts(bp, site, uses)


def _add_pages(bp: Blueprint, site: Site, uses: Kept[dict[int, int]]) -> None:
    @bp.get(PAGE)
    def knowledge() -> Response:
        return site.frame.page("knowledge.html", **_values(site, uses, Wanted.parse(request.args)))

    @bp.get(PART)
    def knowledge_part() -> Response:
        wanted = Wanted.parse(request.args)
        response = site.frame.shared("_knowledge.html", address(wanted), lambda: _documents(site, uses, wanted), KEPT_S)
        if "push" in request.args:
            response.headers["HX-Push-Url"] = address(wanted)
        return response

    @bp.get(f"{PART}/test")
    def test_retrieval() -> Response:
        wanted = Wanted.parse(request.args)
        response = site.frame.fragment("_knowledge_hits.html", wanted=wanted, **_test(site, wanted))
        response.headers["HX-Push-Url"] = address(wanted)
        return response

    @bp.get(f"{PAGE}/<int:document_id>/remove")
    def remove_document_asked(document_id: int) -> Response:
        document = next((one for one in site.hermes.library.documents() if one.id == document_id), None)
        return site.frame.page(
            "confirm.html",
            title="Remove this document?",
            text=f"{document.source if document else 'It'} is not found any more from then on. "
            "It must be given again to be known again.",
            label="Remove",
            action=f"{PAGE}/{document_id}/remove",
            back=PAGE,
        )


def _add_acts(bp: Blueprint, site: Site, uses: Kept[dict[int, int]]) -> None:
    library = site.hermes.library

    def answered(toast: Toast, wanted: Wanted) -> Response:
        return site.frame.acted(toast, address(wanted), "_knowledge.html", **_documents(site, uses, wanted))

    @bp.post(PAGE)
    def add_documents() -> Response:
        form = {name: request.form.get(name, "") for name in FORM_FIELDS}
        try:
            given = _given(form)
        except HermesError as error:
            values = _values(site, uses, Wanted(is_new=True))
            return site.frame.page("knowledge.html", status=422, **{**values, "form": form, "fault": error.message})
        for raw, name in given:
            gevent.spawn(library.take, raw, name, site.actor())
        gevent.sleep(0.05)  # so that their lines are there when the page is
        response: Any = redirect(PAGE, 303)
        text = given[0][1].source if len(given) == 1 else f"{len(given)} documents"
        site.frame.leave_toast(response, Toast(f"{text}: being read"))
        return response  # type: ignore[no-any-return]

    @bp.post(f"{PAGE}/<int:document_id>/again")
    def reindex_document(document_id: int) -> Response:
        begun = library.again(document_id, site.actor())
        gevent.spawn(_quietly, library.go_on, begun, site.actor())
        return answered(Toast("It gets new vectors, from the passages that are kept"), _wanted())

    @bp.post(f"{PAGE}/reindex")
    def reindex_documents() -> Response:
        actor = site.actor()
        outdated = [one for one in library.documents() if library.is_outdated(one)]
        for document in outdated:
            gevent.spawn(_quietly, library.go_on, library.again(document.id, actor), actor)
        return answered(Toast(f"{len(outdated)} documents get new vectors"), _wanted())

    @bp.post(f"{PAGE}/<int:document_id>/remove")
    def remove_document(document_id: int) -> Response:
        document = library.delete_one(document_id, site.actor())
        return answered(Toast(f"{document.source} removed"), _wanted())

    def _wanted() -> Wanted:
        wanted = Wanted.parse(request.values)
        return Wanted(wanted.text, 0, question=wanted.question, place=wanted.place)


def address(wanted: Wanted, **changes: Any) -> str:
    """The page's address for what is wanted.

    >>> address(Wanted(text="a b"), open=3)
    '/dashboard/knowledge?q=a+b&open=3'
    """
    query = urlencode(wanted.query(**changes))
    return f"{PAGE}?{query}" if query else PAGE


def part_address(wanted: Wanted, **changes: Any) -> str:
    """The same of the page's live part."""
    query = urlencode(wanted.query(**changes))
    return f"{PART}?{query}" if query else PART


def _given(form: Values) -> list[tuple[bytes, NewDocument]]:
    """The documents of a form: its files, or the text that was pasted.

    Raises:
        InvalidRequest: one of them cannot be taken; then none is.
    """
    files = [file for file in request.files.getlist("files") if file.filename]
    if not files and not form["text"].strip():
        raise InvalidRequest("Choose a file, or paste a text.")
    if len(files) > MOST_FILES:
        raise InvalidRequest(f"{MOST_FILES} files at once at most.")
    found = []
    for file in files:
        raw = content_of(file)
        name = (file.filename or "").replace("\\", "/").rpartition("/")[2]
        found.append((raw, named(form["use_case"], form["entity"], name, raw, media_type=file.mimetype)))
    if form["text"].strip():
        raw = form["text"].encode()
        found.append((raw, named(form["use_case"], form["entity"], form["source"], raw, media_type="text/markdown")))
    return found


def _values(site: Site, uses: Kept[dict[int, int]], wanted: Wanted) -> Values:
    return {**_documents(site, uses, wanted), **_test(site, wanted), "form": dict.fromkeys(FORM_FIELDS, "")}


def _documents(site: Site, uses: Kept[dict[int, int]], wanted: Wanted) -> Values:
    library = site.hermes.library
    documents, trouble = attempted(library.documents)
    identity, embedder_trouble = attempted(library.identity)
    used, _ = attempted(uses.get)
    view = knowledge_view(
        documents or (),
        wanted,
        identity=identity,
        uses=used or {},
        is_enabled=site.hermes.policies.current().knowledge.enabled,
        now=time.time(),
        trouble=trouble,
        embedder_trouble=embedder_trouble,
    )
    return {"view": view, "wanted": wanted, "address": address, "part_address": part_address}


def _test(site: Site, wanted: Wanted) -> Values:
    if not wanted.question:
        return {"tested": None, "test_trouble": "", "address": address}
    result, trouble = attempted(lambda: _found(site, wanted))
    return {"tested": result, "test_trouble": trouble, "address": address}


def _found(site: Site, wanted: Wanted) -> Tested:
    """What a call with this question would get, and what just misses."""
    library, knowledge = site.hermes.library, site.hermes.policies.current().knowledge
    selection = Selection(wanted.place or None)
    began = time.perf_counter()
    hits = library.search(wanted.question, selection, knowledge.top_k, 0.0)
    duration_ms = (time.perf_counter() - began) * 1000
    return found_by(wanted.question, hits, library.chunks_in(selection), duration_ms, knowledge.min_score)


def _quietly(act: Any, *args: Any) -> None:
    """What goes wrong is told in the document's own line."""
    attempted(lambda: act(*args))
