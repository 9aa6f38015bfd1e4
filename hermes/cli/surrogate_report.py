"""The classifier's report as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def lines(content: Mapping[str, Any], versions: Sequence[str], remark: str | None) -> Iterator[str]:
    """What `surrogate report` prints."""
    surrogate, sources = content["surrogate"], content["classification_sources"]
    yield f"Surrogate    {surrogate['model'] or 'none'} ({surrogate['state'].replace('_', ' ')})"
    if surrogate["says"]:
        yield f"             {surrogate['says']}."
    if surrogate["thresholds"]:
        shown = ", ".join(_threshold(tier, value) for tier, value in surrogate["thresholds"].items())
        yield f"Decides      {shown}; target {surrogate['target']:.0%}"
    yield f"Since        {content['since']}"
    yield (
        f"Coverage     {surrogate['coverage_pct']:.1f} %: {surrogate['surrogate_hits']} decided, "
        f"{surrogate['llm_deferrals']} left to the teacher or the default tier"
    )
    yield f"Sources      {', '.join(f'{name} {count}' for name, count in sources.items())}"
    yield f"Agreement    {_agreement(surrogate['agreement'])}"
    for one in surrogate["agreement"]["by_source"]:
        yield f"             {one['source']}: {_agreement(one)}"
    if surrogate["teacher"]["asked_again"]:
        yield f"Teacher      {_itself(surrogate['teacher'], surrogate['target'])}"
    yield f"Mistakes     {_mistakes(surrogate['mistakes'])}"
    yield f"Versions     {', '.join(versions) or 'only the one that ships with Hermes'}"
    if remark:
        yield f"Learning     {remark}"


def _threshold(tier: str, value: float) -> str:
    return f"nothing as {tier}" if value > 1 else f"{tier} from {value:.2f}"


def _agreement(agreement: Mapping[str, Any]) -> str:
    audited, agreed = agreement["audited"], agreement["agreed"]
    if not audited:
        return "not audited yet"
    share = agreed / audited
    return f"{agreed} of {audited} audited, {share:.1%} (between {agreement['lower']:.1%} and {agreement['upper']:.1%})"


def _itself(teacher: Mapping[str, Any], target: float) -> str:
    text = f"said the same in {teacher['same']} of {teacher['asked_again']} cases when it was asked again"
    if teacher["ceiling"] < target:
        text += (
            f": nobody can agree with it in more than {teacher['ceiling']:.1%}, so lower the target or mend the teacher"
        )
    return text


def _mistakes(mistakes: Mapping[str, Any]) -> str:
    if mistakes["under_routed_requests"] is None:
        return "unknown without audits"
    cost = "" if mistakes["overpaid_usd"] is None else f" (${mistakes['overpaid_usd']:.2f} too much)"
    return (
        f"about {mistakes['under_routed_requests']} requests went to too cheap a model, "
        f"{mistakes['overpaid_requests']} to too dear a one{cost}"
    )
