"""What the demo models say. The same question always gets the same answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hermes.demo.request import TEACHER, DemoRequest, text_of
from hermes.demo.schema import filled

GIST_CHARS: Final = 120
LONG_CHARS: Final = 400
FRAGMENT_CHARS: Final = 8

_MESSAGE = re.compile(r"<(message[\w-]*)>(.*)</\1>", re.DOTALL)
_SUM = re.compile(r"(?<![\w.])(-?\d{1,12}(?:\.\d{1,6})?)\s*([-+*/×÷x])\s*(-?\d{1,12}(?:\.\d{1,6})?)(?![\w.])")
_GREETING = re.compile(
    r"\s*(?:hi|hello|hey|hola|salut|bonjour|hallo|good (?:morning|evening|day))\b.{0,30}", re.I | re.S
)
_THANKS = re.compile(r"\s*(?:thanks|thank you|thx|merci|gracias|danke)\b.{0,30}", re.I | re.S)
_USE_TOOLS = re.compile(r"\buse (?:the |your |a )?tools?\b", re.IGNORECASE)
_TASK = re.compile(
    r"\b(?:implement|debug|refactor|design|architect|deploy|optimi[sz]e|analy[sz]e|prove|derive|compare|evaluate|migrate"
    r"|write (?:a|an|the|me)|explain (?:why|how)|step by step|plan|essay|algorithm|stack ?trace|traceback|sql|regex)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice: a text, or calls of tools."""

    text: str | None
    calls: tuple[tuple[str, str], ...] = ()
    """(name, arguments as JSON) of each."""

    finish_reason: str = "stop"

    @property
    def pieces(self) -> list[str]:
        """The text in the pieces that a stream sends, one token each."""
        return re.findall(r"\s*\S+|\s+$", self.text or "")

    @property
    def tokens(self) -> int:
        """What it counts as."""
        return len(self.pieces) + sum(4 + len(fragments(arguments)) for _, arguments in self.calls)


def answer(request: DemoRequest, choice: int = 0) -> Answer:
    """What the model of a request answers as one of its choices."""
    calls = _tool_calls(request)
    if calls:
        return Answer(None, calls, "tool_calls")
    text = _text(request) if choice == 0 else f"{_text(request)} (Choice {choice + 1}.)"
    whole = Answer(text)
    if request.max_tokens is None or whole.tokens <= request.max_tokens:
        return whole
    return Answer("".join(whole.pieces[: request.max_tokens]), finish_reason="length")


def fragments(arguments: str) -> list[str]:
    """The parts in which a stream sends a tool's arguments."""
    return [arguments[at : at + FRAGMENT_CHARS] for at in range(0, len(arguments), FRAGMENT_CHARS)]


def label(text: str) -> str:
    """The teacher's verdict, by plain signs: length, code, the verbs of tasks.

    >>> label("hi, how are you?"), label("Implement a queue in Rust")
    ('simple', 'complex')
    """
    is_complex = len(text) > LONG_CHARS or "```" in text or text.count("?") > 2 or _TASK.search(text) is not None
    return "complex" if is_complex else "simple"


def gist(text: str) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= GIST_CHARS else line[:GIST_CHARS].rsplit(" ", 1)[0] + " …"


def _text(request: DemoRequest) -> str:
    if request.model == TEACHER:
        asked = _MESSAGE.search(request.question)
        return label(asked[2] if asked else request.question)
    kind = (request.response_format or {}).get("type")
    if kind == "json_schema":
        wanted = (request.response_format or {}).get("json_schema")
        return json.dumps(filled(wanted.get("schema") if isinstance(wanted, Mapping) else {}), ensure_ascii=False)
    if kind == "json_object":
        return json.dumps({"answer": _prose(request), "model": request.model}, ensure_ascii=False)
    return _prose(request)


def _prose(request: DemoRequest) -> str:
    said = _small_talk(request)
    if request.images:
        said = f"I see {request.images} image{'s' if request.images > 1 else ''}. {said}"
    return said


def _small_talk(request: DemoRequest) -> str:
    question, model = request.question, request.model
    if request.messages[-1]["role"] in ("tool", "function"):
        return f"{model}: the tool says “{gist(text_of(request.messages[-1]))}”."
    if _GREETING.fullmatch(question):
        return f"Hello! I am {model}, a model of the demo provider. Ask me something."
    if _THANKS.fullmatch(question):
        return f"You are welcome! ({model})"
    sum_asked = _SUM.search(question)
    if sum_asked:
        return f"{_calculated(sum_asked)} ({model})"
    return _long(request) if request.is_large else _short(request)


def _short(request: DemoRequest) -> str:
    return (
        f"This is {request.model} of the demo provider. You said: “{gist(request.question)}”. "
        "A real model would answer that; router_config.yaml is where you name one."
    )


def _long(request: DemoRequest) -> str:
    return f"""\
This is {request.model} of the demo provider, which gets the harder questions.

**Your task:** {gist(request.question)}

1. **Understand.** Say what is given, what is wanted, and what would count as done.
2. **Plan.** Cut it into steps that can be checked one by one, the riskiest first.
3. **Do.** Take the smallest step that teaches something, and look at the result.
4. **Check.** Try the cases at the edge: nothing, one, very many, twice.

A real model would fill these steps with substance; router_config.yaml is where you name one."""


def _calculated(asked: re.Match[str]) -> str:
    left, sign, right = asked.groups()
    a, b = (float(number) if "." in number else int(number) for number in (left, right))
    if sign in "/÷":
        if b == 0:
            return f"{left} {sign} {right} has no result: nothing can be divided by zero."
        result = a / b
    else:
        result = {"+": a + b, "-": a - b}.get(sign, a * b)
    return (
        f"{left} {sign} {right} = {result:.10g}." if isinstance(result, float) else f"{left} {sign} {right} = {result}."
    )


def _tool_calls(request: DemoRequest) -> tuple[tuple[str, str], ...]:
    """The calls that a request gets: the tool it forces, or those its question names, or the first for "use tools"."""
    tools = {str(tool["name"]): tool for tool in request.tools}
    choice = request.tool_choice
    if not tools or choice == "none":
        return ()
    forced = choice.get("function") if isinstance(choice, Mapping) else None
    if isinstance(forced, Mapping):
        names = [name for name in tools if name == forced.get("name")]
    elif request.messages[-1]["role"] in ("tool", "function"):
        names = []  # its results are here: now it speaks
    else:
        names = [
            name for name in tools if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", request.question, re.IGNORECASE)
        ]
        if not names and (choice == "required" or _USE_TOOLS.search(request.question)):
            names = [next(iter(tools))]
    if not request.parallel_tool_calls:
        names = names[:1]
    return tuple((name, _arguments(tools[name].get("parameters"))) for name in names)


def _arguments(parameters: Any) -> str:
    value = filled(parameters) if isinstance(parameters, Mapping) else {}
    return json.dumps(value if isinstance(value, dict) else {}, ensure_ascii=False)
