"""Shadow runs in the document: their shapes, and the routes that read and change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from hermes.evaluation.gate import Standing
from hermes.trials import OPINIONS, Answerer, Kind, State
from hermes.web.openapi.route import JSON, Query, act, json_of, read
from hermes.web.openapi.schema import (
    FLAG,
    NUMBER,
    TEXT,
    TIME,
    WHOLE,
    WORD,
    Schema,
    between,
    by_name,
    closed,
    fields,
    maybe,
    one_of,
    ref,
    said,
    some,
)

STANDING: Final = one_of(*get_args(Standing))
OPINION: Final = maybe(one_of(*OPINIONS))
CRITERION: Final = fields(
    {
        "name": TEXT,
        "standing": STANDING,
        "value": maybe(NUMBER),
        "lower": maybe(NUMBER),
        "upper": maybe(NUMBER),
        "rule": NUMBER,
        "sentence": TEXT,
    }
)
RUN: Final = fields(
    {
        "id": WHOLE,
        "role": TEXT,
        "primary": said(TEXT, "The pinned model."),
        "target": TEXT,
        "kind": one_of(*get_args(Kind)),
        "state": one_of(*get_args(State)),
        "began_at": TIME,
        "ended_at": maybe(TIME),
        "ended_by": maybe(TEXT),
        "reason": maybe(TEXT),
        "samples": WHOLE,
        "verdicts": by_name(WHOLE),
        "gate": fields({"standing": STANDING, "sentence": TEXT, "criteria": some(CRITERION)}),
    }
)
SIDE: Final = fields(
    {
        "model": TEXT,
        "endpoint": TEXT,
        "answer": said(maybe(TEXT), "As far as it may be kept."),
        "latency_ms": maybe(NUMBER),
        "ttft_ms": maybe(NUMBER),
        "prompt_tokens": maybe(WHOLE),
        "completion_tokens": maybe(WHOLE),
        "cost_usd": maybe(NUMBER),
        "error": maybe(TEXT),
    }
)
JUDGE: Final = fields(
    {
        "verdict": OPINION,
        "by": maybe(one_of(*get_args(Answerer))),
        "orders": some(one_of("pt", "tp")),
        "reason": maybe(TEXT),
        "error": maybe(TEXT),
        "cost_usd": maybe(NUMBER),
    }
)
SAMPLE: Final = fields(
    {
        "id": WHOLE,
        "run": WHOLE,
        "created_at": TIME,
        "request_id": TEXT,
        "role": TEXT,
        "function_name": maybe(TEXT),
        "stream": FLAG,
        "prompt": maybe(TEXT),
        "primary": SIDE,
        "target": SIDE,
        "similarity": maybe(NUMBER),
        "verdict": OPINION,
        "judge": JUDGE,
        "person": maybe(fields({"verdict": one_of(*OPINIONS), "by": TEXT})),
    }
)
SHAPES: Final[Mapping[str, Schema]] = {"ShadowRun": RUN, "ShadowSample": SAMPLE}

ROLE: Final = fields({"pin": maybe(TEXT), "target": maybe(TEXT), "sample_rate": NUMBER})
NAMED: Final[Mapping[str, Schema]] = {
    "run?": between(0, 2**53),
    "role?": said(WORD, "Instead of a run: the role's own one."),
    "force?": FLAG,
    "reason?": WORD,
}
ERRORS: Final = (400, 404, 409)

ROUTES: Final = (
    read(
        "/admin/shadow",
        "Targets that are compared with pinned models",
        json_of(
            {
                "auto_promote": FLAG,
                "judge": maybe(TEXT),
                "roles": by_name(ROLE),
                "runs": some(ref("ShadowRun")),
                "queue": fields({"depth": WHOLE, "dropped": by_name(WHOLE)}),
                "spent_today_usd": NUMBER,
                "daily_usd": NUMBER,
                "samples?": some(ref("ShadowSample")),
            }
        ),
        [
            Query("run", between(0, 2**53), "Whose samples are wanted too"),
            Query("verdict", one_of(*OPINIONS, "none", "error"), "Only samples with it"),
            Query("limit", between(0, 200), "20 where none is given"),
            Query("offset", between(0, 2**53)),
        ],
        (400,),
    ),
    *(
        act("POST", f"/admin/shadow/{name}", does, {JSON: ref("ShadowRun")}, closed(NAMED), errors=ERRORS)
        for name, does in (
            ("promote", "Moves a target into the pin, if the gate has passed"),
            ("reject", "Takes a target away, or ends a watch"),
            ("rollback", "Takes a promotion back"),
        )
    ),
    act(
        "POST",
        "/admin/shadow/verdict",
        "A person's verdict on a sample; null takes it back",
        {JSON: ref("ShadowSample")},
        closed({"id": between(0, 2**53), "verdict?": OPINION}),
        errors=(400, 404),
    ),
)
