"""What bodies look like, as JSON Schema (2020-12, which OpenAPI 3.1 speaks).

An object that says nothing of further members has none: a test holds answers to that. What is a provider's own, or
grows with the configuration, is `open_object`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from hermes.directory import Action, BudgetScope, Period, Scope
from hermes.observe.tracewords import SAID
from hermes.types import TIERS, Source, Status
from hermes.web.openapi import shadow
from hermes.web.openapi.schema import (
    ANYTHING,
    FLAG,
    NUMBER,
    TEXT,
    TIME,
    WHOLE,
    WORD,
    Schema,
    by_name,
    closed,
    fields,
    maybe,
    one_of,
    open_object,
    ref,
    said,
    several,
    some,
)

MESSAGE: Final = open_object({"role": TEXT, "content?": said(ANYTHING, "A text, content parts, or null.")})
METADATA: Final = open_object(
    {
        "user_id?": TEXT,
        "session_id?": said(TEXT, "Names the conversation."),
        "data_classes?": some(TEXT),
    }
)
CHAT_REQUEST: Final = said(
    open_object(
        {
            "messages": several(ref("Message")),
            "model?": said(TEXT, "`simple`, `complex` or a role's name force the tier; all else is like `auto`."),
            "stream?": FLAG,
            "user?": TEXT,
            "metadata?": METADATA,
        }
    ),
    "All that OpenAI's chat API takes; what Hermes does not read goes on to the provider byte for byte.",
)
CONTRACT_METADATA: Final = said(
    open_object(
        {
            "function_name?": said(WORD, "Which function calls; needed with `messages`. Or `functionName`."),
            "use_case?": said(TEXT, "Or `useCase`."),
            "user_id?": said(TEXT, "Or `userId`."),
            "data_classes?": some(TEXT),
        }
    ),
    "Hermes's own: not sent to the provider.",
)
CONTRACT_REQUEST: Final = open_object(
    {
        "messages?": several(ref("Message")),
        "prompt?": said(ANYTHING, "Instead of `messages`: OpenAI's legacy completion."),
        "role?": said(TEXT, "`chat` or `reasoning`, or another that is configured; `chat` where none is named."),
        "response_format?": {"anyOf": [one_of("json_object", "text"), {"type": "object"}]},
        "tools?": some({"type": "object"}),
        "tool_choice?": ANYTHING,
        "temperature?": NUMBER,
        "max_tokens?": WHOLE,
        "context_hint?": said(TEXT, "Which knowledge is wanted: a use case, `use_case/entity`, or words."),
        "metadata?": CONTRACT_METADATA,
    }
)
USAGE: Final = open_object({"prompt_tokens": WHOLE, "completion_tokens": WHOLE, "total_tokens": WHOLE})
COMPLETION: Final = said(
    open_object(
        {
            "id?": TEXT,
            "model": TEXT,
            "choices": some(open_object({"message?": ref("Message"), "text?": TEXT, "finish_reason?": maybe(TEXT)})),
            "usage?": USAGE,
        }
    ),
    "The provider's own body. `choices[].text` stands in answers to a `prompt`, `choices[].message` in all others.",
)
EMBEDDINGS: Final = open_object(
    {"data": some(open_object({"index": WHOLE, "embedding": ANYTHING})), "model": TEXT, "usage?": ANYTHING}
)

TIER: Final = one_of(*TIERS)
NAMES: Final = ("function_name", "use_case", "user_id", "key_id", "session_key", "role", "model", "endpoint")
COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "reasoning_tokens")
ROW: Final = fields(
    {
        "id": WHOLE,
        "created_at": TIME,
        "request_id": TEXT,
        "route": said(TEXT, "The request's path."),
        **dict.fromkeys(NAMES, maybe(TEXT)),
        "tier": maybe(TIER),
        "decision": maybe(one_of(*get_args(Source))),
        "confidence": maybe(NUMBER),
        "stream": FLAG,
        **dict.fromkeys(COUNTS, maybe(WHOLE)),
        "usage_estimated": said(FLAG, "The provider did not state its tokens."),
        "estimated_cost_usd": said(maybe(NUMBER), "Null where the model's price is not known."),
        **dict.fromkeys(("duration_ms", "ttft_ms", "overhead_ms"), maybe(NUMBER)),
        "status": one_of(*get_args(Status)),
        "fallback_level": maybe(WHOLE),
        "attempts": said(WHOLE, "Calls of providers."),
        "error_message": maybe(TEXT),
        "prompt_preview": maybe(TEXT),
    }
)
ATTEMPT: Final[Mapping[str, Schema]] = {
    "endpoint": TEXT,
    "model": TEXT,
    "status": said(maybe(WHOLE), "Null where there was no answer."),
    "message": TEXT,
}
RESIDENCY: Final = open_object(
    {
        "rules": some(
            fields(
                {
                    "rule": said(WHOLE, "Its place in the configuration, from 1."),
                    "name": TEXT,
                    "action": one_of("allow", "redact", "block"),
                    **dict.fromkeys(("regions", "endpoints", "detected"), maybe(some(TEXT))),
                    "why": said(TEXT, "The conditions that hold."),
                }
            )
        ),
        "data_classes": some(TEXT),
        "found": said(ANYTHING, "How much of each kind of personal data."),
        "masked": said(ANYTHING, "How much of each kind was masked."),
        "stores_text": FLAG,
        "region?": said(maybe(TEXT), "Of the endpoint that answered."),
        "blocked?": FLAG,
    }
)
RECEIPT: Final = fields(
    {
        "row": ref("UsageRow"),
        "decision": said(some(TEXT), "Step by step, in sentences."),
        "attempts": some(
            fields(
                {
                    **ATTEMPT,
                    "called": FLAG,
                    "duration_ms": maybe(NUMBER),
                    "region?": maybe(TEXT),
                    "billed_tokens?": NUMBER,
                }
            )
        ),
        "residency": said(maybe(RESIDENCY), "What residency rules said of the request; null where none was for it."),
        "masked": said(
            some(fields({"kind": TEXT, "count": WHOLE, "rule": WHOLE, "why": TEXT})),
            "What was hidden from the provider, and which rule asked for it; never the value.",
        ),
        "price": maybe(fields({"model": maybe(TEXT), "usd": maybe(NUMBER)})),
        "other_tier": maybe(fields({"tier": TIER, "model": TEXT, "usd": maybe(NUMBER)})),
        "knowledge?": said(open_object({"chunks": some(ref("KnownChunk"))}), "Where a call asked for knowledge."),
    }
)
DOCUMENT_NAME: Final[Mapping[str, Schema]] = {"use_case": WORD, "entity?": maybe(TEXT), "source": WORD}
FORMATS: Final = one_of("markdown", "text", "html", "pdf", "csv")
DOCUMENT: Final = fields(
    {
        "id": WHOLE,
        "use_case": TEXT,
        "entity": maybe(TEXT),
        "source": TEXT,
        "format": FORMATS,
        "state": one_of("indexing", "ready", "failed"),
        "note": said(maybe(TEXT), "Why it failed."),
        "chunks": WHOLE,
        "done": said(WHOLE, "How many of them have a vector."),
        "chars": WHOLE,
        "embedder": maybe(TEXT),
        "created_at": TIME,
        "updated_at": TIME,
        "created_by": TEXT,
    }
)
HIT: Final = fields(
    {
        "id": WHOLE,
        "document_id": WHOLE,
        "use_case": TEXT,
        "entity": maybe(TEXT),
        "source": TEXT,
        "chunk": WHOLE,
        "heading": maybe(TEXT),
        "score": said(NUMBER, "0 to 1."),
        "text": TEXT,
    }
)

SCOPES: Final = several(one_of(*get_args(Scope)))
LIMITS: Final[Mapping[str, Schema]] = {
    "requests_per_minute?": said(WHOLE, "0 is no limit."),
    "tokens_per_minute?": WHOLE,
    "concurrent?": WHOLE,
}
KEY: Final[Mapping[str, Schema]] = {
    "id": TEXT,
    "name": TEXT,
    "prefix": said(TEXT, "How the key begins."),
    "scopes": SCOPES,
    "roles": said(maybe(some(TEXT)), "Null: every role."),
    "limits": maybe(fields(LIMITS)),
    "created_at": TIME,
    "created_by": TEXT,
    **dict.fromkeys(("expires_at", "revoked_at", "last_used_at"), maybe(TIME)),
}
PIN: Final[Mapping[str, Schema]] = {"key": TEXT, "value": TEXT, "updated_at": TIME, "updated_by": TEXT}
BUDGET_NAME: Final[Mapping[str, Schema]] = {
    "scope": one_of(*get_args(BudgetScope)),
    "id?": said(TEXT, "Whose; `*` means each one of the scope by itself. Left out for `global`."),
    "period": one_of(*get_args(Period)),
}
BUDGET: Final[Mapping[str, Schema]] = {
    **BUDGET_NAME,
    "limit_usd?": said(NUMBER, "Exactly one of the three limits is given."),
    "limit_tokens?": WHOLE,
    "limit_requests?": WHOLE,
    "action?": said(one_of(*get_args(Action)), "At the limit; `block` where none is named."),
    "warn_share?": NUMBER,
}
SPENT: Final[Mapping[str, Schema]] = {
    "spent_usd": NUMBER,
    "spent_tokens": WHOLE,
    "spent_requests": WHOLE,
    "period_start": TIME,
    "resets_at": TIME,
    "most_used_by?": said(TEXT, "With the id `*`: whose figures these are."),
}
CIRCUIT: Final = fields(
    {
        "endpoint": TEXT,
        "base_url": TEXT,
        "model": TEXT,
        "state": one_of("closed", "open", "half_open"),
        "failures": WHOLE,
        "opened_at": maybe(TIME),
        "retry_in_sec": NUMBER,
    }
)
SESSION: Final = fields(
    {"tier": TIER, "age_sec": NUMBER, "remaining_sec": NUMBER, "user_id": maybe(TEXT), "model": maybe(TEXT)}
)
AUDIT_ENTRY: Final = fields(
    {
        "id": WHOLE,
        "at": TIME,
        "actor": TEXT,
        "action": TEXT,
        "target": TEXT,
        **dict.fromkeys(("before", "after"), maybe({"type": "object", "additionalProperties": True})),
    }
)
TRACE_EVENT: Final = said(
    open_object({"ts": TIME, "event": one_of(*SAID), "request_id?": TEXT, "session_key?": maybe(TEXT)}),
    "With further members, by event: docs/operations.md.",
)
MODEL: Final = fields({"id": TEXT, "object": one_of("model"), "created": WHOLE, "owned_by": TEXT})

AGREEMENT: Final[Mapping[str, Schema]] = {
    "audited": WHOLE,
    "agreed": WHOLE,
    "lower": maybe(NUMBER),
    "upper": maybe(NUMBER),
}
REPORT: Final = fields(
    {
        "generated_at": TIME,
        "since": TIME,
        "surrogate": fields(
            {
                "enabled": FLAG,
                "model": maybe(TEXT),
                "state": TEXT,
                "says": TEXT,
                "total_classifications": WHOLE,
                "surrogate_hits": WHOLE,
                "llm_deferrals": WHOLE,
                "coverage_pct": NUMBER,
                "confidence": fields(
                    {**dict.fromkeys(("mean", "min", "max"), maybe(NUMBER)), "distribution": by_name(WHOLE)}
                ),
                "threshold": maybe(NUMBER),
                "thresholds": maybe(by_name(NUMBER)),
                "target": NUMBER,
                "audit_rate": NUMBER,
                "agreement": fields(
                    {
                        **AGREEMENT,
                        "by_hour": some(fields({"hour": TIME, **AGREEMENT})),
                        "by_source": some(fields({"source": TEXT, **AGREEMENT})),
                    }
                ),
                "teacher": said(
                    fields(
                        {
                            "asked_again": WHOLE,
                            "same": WHOLE,
                            **dict.fromkeys(("lower", "upper", "ceiling"), maybe(NUMBER)),
                        }
                    ),
                    "How far the teacher agrees with itself.",
                ),
                "mistakes": fields(
                    {
                        "under_routed": WHOLE,
                        "under_routed_requests": maybe(WHOLE),
                        "overpaid": WHOLE,
                        "overpaid_requests": maybe(WHOLE),
                        "overpaid_usd": maybe(NUMBER),
                    }
                ),
                "about": said(maybe({"type": "object", "additionalProperties": True}), "How it was fitted."),
            }
        ),
        "classification_sources": fields(
            dict.fromkeys(
                ("override", "surrogate", "llm_classifier", "default", "cache_hits", "keyword_deviations"), WHOLE
            )
        ),
        "routing": fields(
            {
                **dict.fromkeys(("total_route_events", "fallback_tier1", "fallback_tier2"), WHOLE),
                "model_distribution": by_name(WHOLE),
            }
        ),
        "models": some(
            fields(
                {
                    "model": TEXT,
                    "tier": maybe(TIER),
                    "requests": WHOLE,
                    "errors": WHOLE,
                    **dict.fromkeys(("p50_ms", "p95_ms", "cost_usd"), maybe(NUMBER)),
                }
            )
        ),
        "errors": fields({"stream_errors": WHOLE}),
        "drift": fields(
            {"hourly": some(fields({"hour": TIME, "surrogate_pct": NUMBER, "total_classifications": WHOLE}))}
        ),
    }
)

SHAPES: Final[Mapping[str, Schema]] = {
    "Message": MESSAGE,
    "ChatRequest": CHAT_REQUEST,
    "ContractRequest": CONTRACT_REQUEST,
    "Completion": COMPLETION,
    "EmbeddingRequest": open_object({"input": said(ANYTHING, "A text, or texts or tokens."), "model?": TEXT}),
    "Embeddings": EMBEDDINGS,
    "Model": MODEL,
    "UsageRow": ROW,
    "Receipt": RECEIPT,
    "ApiKey": fields(KEY),
    "NewApiKey": closed(
        {"name": WORD, "scopes": SCOPES, "roles?": several(TEXT), "expires_at?": TIME, "limits?": closed(LIMITS)}
    ),
    "MadeApiKey": fields({"key": said(TEXT, "The only time that anybody sees it."), **KEY}),
    "Pin": fields(PIN),
    "SetPin": fields({**PIN, "warning?": said(TEXT, "No configured endpoint has this model.")}),
    "Budget": closed(BUDGET),
    "SpentBudget": fields({**BUDGET, **SPENT}),
    "BudgetName": closed(BUDGET_NAME),
    "Circuit": CIRCUIT,
    "Session": SESSION,
    "AuditEntry": AUDIT_ENTRY,
    "TraceEvent": TRACE_EVENT,
    "ClassifierReport": REPORT,
    "Document": DOCUMENT,
    "NewDocument": closed({**DOCUMENT_NAME, "text?": TEXT, "content_base64?": TEXT, "format?": FORMATS}),
    "Hit": HIT,
    "KnownChunk": fields({"id": WHOLE, "document": WHOLE, "source": TEXT, "chunk": WHOLE, "score": NUMBER}),
    **shadow.SHAPES,
}
"""By the names that the document gives them; the errors are `document`'s."""
