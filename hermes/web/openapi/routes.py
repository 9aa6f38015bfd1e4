"""Every route and method of the HTTP surface, a value each; the dashboard's pages are for people, and not here.

A new route is one more value, with its bodies' shapes in `shapes`; `tests/unit/test_openapi.py` says what is missing.
"""

from __future__ import annotations

from typing import Final

from hermes.observe.tracewords import SAID
from hermes.storage.usage_filter import CHOICES, UsageFilter
from hermes.web.openapi import shadow
from hermes.web.openapi.route import JSON, STREAM, Query, Route, act, completion, json_of, public, read
from hermes.web.openapi.schema import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    WORD,
    Schema,
    between,
    by_name,
    closed,
    fields,
    one_of,
    open_object,
    ref,
    said,
    some,
)

LIMIT: Final = Query("limit", between(1, 1000), "100 where none is given")
EVENTS: Final[Schema] = said(TEXT, "Server-sent events, each a chunk of OpenAI's; `[DONE]` is the last one.")
COMPLETIONS: Final = (
    completion(
        "/v1/chat/completions",
        "A routed completion: JSON, or events where `stream` is true",
        "optional client",
        "ChatRequest",
        {JSON: ref("Completion"), STREAM: EVENTS},
    ),
    completion(
        "/v1/completions",
        "A completion by a role's pinned model, for an organisation's own functions",
        "gateway",
        "ContractRequest",
        {JSON: ref("Completion")},
    ),
    completion("/v1/completions/stream", "The same as events", "gateway", "ContractRequest", {STREAM: EVENTS}),
    completion(
        "/v1/embeddings",
        "Embeddings, from a configured endpoint or made on this machine",
        "optional client",
        "EmbeddingRequest",
        {JSON: ref("Embeddings")},
    ),
    Route(
        "GET",
        "/v1/models",
        "What may be asked for: `auto`, the tiers, the roles, the configured models",
        "optional client",
        json_of({"object": one_of("list"), "data": some(ref("Model"))}),
        errors=(401, 403),
        tag="completions",
    ),
    Route(
        "GET",
        "/v1/models/{name}",
        "One of them",
        "optional client",
        {JSON: ref("Model")},
        errors=(401, 403, 404),
        tag="completions",
    ),
    Route(
        "GET",
        "/v1/pins",
        "The roles' models and the switch, for clients to cache",
        "gateway",
        {JSON: said(open_object({"ai.gateway.enabled": FLAG}), "And `model.ROLE` of each role: the model's name.")},
        errors=(401, 403, 503),
        tag="completions",
    ),
)

READY: Final[Schema] = fields(
    {
        "status": one_of("ready", "not ready"),
        **dict.fromkeys(("database", "state", "spool", "endpoints", "drain"), TEXT),
    }
)
ALIVE: Final[Schema] = fields({"status": one_of("ok"), "sessions": WHOLE})
HEALTH: Final = (
    public("/health", "Whether it lives", ALIVE),
    public(
        "/health/ready",
        "Whether it can serve; each part is `ok`, `degraded: …`, or what is wrong, which makes it a 503",
        READY,
    ),
    public("/openapi.json", "This document", {"type": "object", "additionalProperties": True}),
)

DIRECTORY: Final = (
    read("/admin/keys", "API keys, without the keys themselves", json_of({"keys": some(ref("ApiKey"))})),
    act(
        "POST",
        "/admin/keys",
        "Makes an API key",
        {JSON: ref("MadeApiKey")},
        ref("NewApiKey"),
        errors=(400,),
        status=201,
    ),
    act("DELETE", "/admin/keys/{key_id}", "Revokes an API key for ever", {JSON: ref("ApiKey")}, errors=(404,)),
    read("/admin/pins", "The pins that are set", json_of({"pins": some(ref("Pin"))})),
    read("/admin/pins/{key}", "One of them", {JSON: ref("Pin")}, errors=(400, 404)),
    act(
        "PUT",
        "/admin/pins/{key}",
        "Sets a pin: `model.ROLE`, `model.ROLE.target`, `model.ROLE.target.sample_rate`, `ai.gateway.enabled`",
        {JSON: ref("SetPin")},
        fields({"value": said(WORD, 'Always a text: `"false"`, `"0.1"`.'), "reason?": TEXT}),
        errors=(400,),
    ),
    act("DELETE", "/admin/pins/{key}", "Takes a pin away", json_of({"deleted": TEXT}), errors=(400, 404)),
    read(
        "/admin/budgets",
        "Budgets, and what is spent of each",
        json_of({"budgets": some(ref("SpentBudget"))}),
    ),
    act("PUT", "/admin/budgets", "Sets a budget", {JSON: ref("Budget")}, ref("Budget"), errors=(400,)),
    act(
        "DELETE",
        "/admin/budgets",
        "Takes a budget away, named by the address or by a body of the same members",
        json_of({"deleted": ref("BudgetName")}),
        query=(Query("scope", TEXT), Query("id", TEXT), Query("period", TEXT)),
        errors=(400, 404),
    ),
    read(
        "/admin/audit",
        "Who has changed what, the newest first",
        json_of({"entries": some(ref("AuditEntry"))}),
        [LIMIT],
        errors=(400,),
    ),
)

_MEANT: Final = {
    "fallback": "`1`: only what another endpoint than the first one has answered",
    "from": "ISO 8601",
    "to": "ISO 8601; a date means its whole day",
}
_NUMBERS: Final = ("min_duration_ms", "page")
ROWS: Final = (
    LIMIT,
    *(
        Query(
            name,
            one_of(*CHOICES[name]) if name in CHOICES else between(1, 1_000_000) if name in _NUMBERS else TEXT,
            _MEANT.get(name, ""),
        )
        for name in (*UsageFilter.EXACT, *UsageFilter.OTHERS)
        if name != LIMIT.name
    ),
)

OPERATIONS: Final = (
    read("/metrics", "Prometheus's text", {"text/plain": TEXT}),
    act(
        "POST",
        "/reload",
        "Reads the configuration anew; a file with problems changes nothing",
        json_of({"status": one_of("reloaded"), "source": TEXT, "warnings": some(TEXT)}),
        errors=(400,),
    ),
    read(
        "/admin/config",
        "The configuration in force; names of environment variables, never values",
        json_of({"source": TEXT, "warnings": some(TEXT), "config": {"type": "object", "additionalProperties": True}}),
    ),
    read(
        "/admin/sessions",
        "Conversations and their tiers",
        json_of({"count": WHOLE, "session_timeout_minutes": NUMBER, "sessions": by_name(ref("Session"))}),
    ),
    act("DELETE", "/admin/sessions/{key}", "Forgets a conversation", json_of({"evicted": TEXT}), errors=(404,)),
    read("/circuits", "The breaker of every endpoint", json_of({"circuits": some(ref("Circuit"))})),
    act(
        "POST",
        "/circuits/reset",
        "Closes every circuit, or one",
        json_of({"reset": some(TEXT)}),
        query=(Query("endpoint", TEXT, "Its id, as `/circuits` has it"),),
        errors=(404,),
    ),
    read("/admin/usage", "The usage log, the newest first", json_of({"rows": some(ref("UsageRow"))}), ROWS, (400,)),
    read("/admin/usage.csv", "The same as a table, whatever its length", {"text/csv": TEXT}, ROWS, (400,)),
    read("/admin/usage/{request_id}", "One request's receipt", {JSON: ref("Receipt")}, errors=(404,)),
    read(
        "/admin/traces",
        "The last trace events, the newest first",
        json_of({"events": some(ref("TraceEvent"))}),
        [
            Query("event", one_of(*SAID)),
            Query("session_key", TEXT, "The beginning of the conversation's key will do"),
            Query("request_id", TEXT),
            LIMIT,
        ],
        (400,),
    ),
    read(
        "/classifier/report",
        "How the router decides, and how well",
        {JSON: ref("ClassifierReport"), "text/html": said(TEXT, "The page, for a browser that has signed in.")},
        [
            Query("hours", {**NUMBER, "exclusiveMinimum": 0}, "How far back; a week where nothing is said"),
            Query("format", one_of("json", "html")),
        ],
        (400,),
    ),
)

GONE: Final = json_of({"deleted": some(ref("Document"))})
KNOWLEDGE: Final = (
    read(
        "/admin/knowledge",
        "The documents that models answer from",
        json_of({"documents": some(ref("Document")), "chunks": WHOLE, "enabled": FLAG}),
    ),
    act(
        "POST",
        "/admin/knowledge",
        "Takes a document in, in the place of the one of its name; also the file itself, its names in the address",
        {JSON: ref("Document")},
        ref("NewDocument"),
        query=tuple(
            Query(name, TEXT, "Where the body is the file") for name in ("use_case", "entity", "source", "format")
        ),
        errors=(400, 413),
        status=201,
    ),
    act(
        "DELETE",
        "/admin/knowledge",
        "Removes documents, named by the address or by a body of the same members",
        GONE,
        query=tuple(Query(name, TEXT) for name in ("id", "use_case", "entity", "source")),
        errors=(400, 404),
    ),
    act("DELETE", "/admin/knowledge/{document_id}", "Removes a document", GONE, errors=(404,)),
    act(
        "POST",
        "/admin/knowledge/{document_id}/again",
        "Gives a document the vectors of the embedder in force",
        {JSON: ref("Document")},
        errors=(400, 404),
        status=201,
    ),
    act(
        "POST",
        "/admin/knowledge/search",
        "What a question would find",
        json_of({"hits": some(ref("Hit"))}),
        closed(
            {
                "query": WORD,
                "use_case?": TEXT,
                "entity?": TEXT,
                "top_k?": between(1, 50),
                "min_score?": {**NUMBER, "minimum": 0, "maximum": 1},
            }
        ),
        errors=(400,),
    ),
)

ROUTES: Final = (*COMPLETIONS, *HEALTH, *DIRECTORY, *shadow.ROUTES, *OPERATIONS, *KNOWLEDGE)
