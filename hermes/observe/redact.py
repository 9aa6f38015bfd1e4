"""Takes secrets out of texts before they leave the process: log lines, traces, errors.

Two nets. The known secrets (every key of the configuration) are found literally. What merely looks like a secret
(`sk-…`, `Bearer …`, a password in a URL) is found by rules; a rule runs only where one of its cheap hints stands in the
text, so that an innocent line costs a few microseconds. The rules rather hide too much than too little. No rule may
take more than linear time on any text, hence the bounded repeats: what is cleaned was written by strangers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

HIDDEN: Final = "***"

SHORTEST_SECRET: Final = 8
"""Known secrets shorter than this are not hidden: a dummy key such as `ollama` would blot out half of the log."""

PIECE_CHARS: Final = 12
"""So much of a known secret's beginning or end is enough to hide the whole word that it stands in: providers quote keys
without their prefix, or only their last half."""

PIECE_EVERY: Final = 9
"""Of its inside every such piece is known, each so many characters behind the last: 20 in a row hold one of them."""

LONG_SECRET: Final = 2 * PIECE_CHARS
"""Shorter ones have no such pieces: they could be ordinary words."""

PUBLIC_CHARS: Final = 300
"""How much of a provider's error message a caller may see."""

READ_CHARS: Final = 4_000
"""How much of a provider's error message is looked at; bounds the work on a page of megabytes."""


class _Rule(NamedTuple):
    hints: tuple[str, ...]
    """In lower case; without one of them in the text the rule cannot match."""

    pattern: re.Pattern[str]
    replacement: str


_START = r"(?:\b|(?<=\\[nrt]))"
"""Of a word; an escaped line end is no part of it."""

_WORDS = r"token|tokens|auth|authentication|authorization|key|keys|scheme|credentials"

RULES: Final = (
    # Shapes that providers give their keys; asterisks and dots too, since some quote a key with its middle blotted out.
    _Rule(
        ("sk-", "pk-", "rk-", "hk-", "xai-", "gsk_", "hf_", "ghp_", "hk_", "pplx-", "nvapi-", "glpat-"),
        re.compile(_START + r"(?:(?:sk|pk|rk|hk|xai|pplx|nvapi|glpat)-|(?:gsk|hf|ghp|hk)_)[\w*.…-]{6,}", re.IGNORECASE),
        HIDDEN,
    ),
    _Rule(("aiza", "akia"), re.compile(_START + r"(?:AIza[\w-]{20,}|AKIA[A-Z0-9]{12,})"), HIDDEN),
    _Rule(("eyj",), re.compile(_START + r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]+)?"), HIDDEN),
    _Rule(
        ("bearer",),
        re.compile(rf"(bearer\s+)(?!(?:{_WORDS})(?:[\s,;:)'\"]|$))[\w.~+/=*-]{{6,}}", re.IGNORECASE),
        rf"\g<1>{HIDDEN}",
    ),
    # Base64 of `user:password`, told from "basic understanding" by a digit, a pad or a capital inside.
    _Rule(
        ("basic",),
        re.compile(_START + r"([Bb]asic\s+)(?=[\w+/-]*(?:[a-z0-9+/][A-Z]|[0-9=]))[\w+/=-]{8,}"),
        rf"\g<1>{HIDDEN}",
    ),
    # `api_key=…`, `"password": "…"`, `x-api-key: …`, also inside JSON that stands inside JSON.
    _Rule(
        ("key", "token", "secret", "passw", "pwd", "authorization", "cookie"),
        re.compile(
            r"((?:(?:api|access|secret|service|admin|private)[_-]?key|token|secret|passw(?:or)?d|pwd|authorization|cookie)"
            r"[\"'\\]*+\s*+[:=]\s*+[\"'\\]*+)(?!(?:bearer|basic)\b)[^\s\"'\\&,;})\]*]{6,}",
            re.IGNORECASE,
        ),
        rf"\g<1>{HIDDEN}",
    ),
    # "Incorrect API key provided: abcd1234…": a long run with a digit in it, some words after the key word.
    _Rule(
        ("key", "token", "secret", "passw", "credential"),
        re.compile(
            r"\b((?:key|token|secret|password|credential)s?(?:\s+(?:provided|given|is|was|of|value))*\W{1,4})"
            r"(?=[\w*.-]{0,64}\d)[\w*.-]{16,}",
            re.IGNORECASE,
        ),
        rf"\g<1>{HIDDEN}",
    ),
    _Rule(("://",), re.compile(r"(\w://)[^\s/?#\"'<>]+@"), rf"\g<1>{HIDDEN}@"),
    _Rule(
        ("=",),
        re.compile(
            r"([?&;][\w.-]{0,40}(?:key|token|secret|signature|passw(?:or)?d|auth)[\w.-]{0,40}=)[^&\s\"'#<>*]+",
            re.IGNORECASE,
        ),
        rf"\g<1>{HIDDEN}",
    ),
)

HINTS: Final = tuple(dict.fromkeys(hint for rule in RULES for hint in rule.hints))
"""Every hint once: a text with none of them is innocent, which is the usual case and must be quick."""

_HTML = re.compile(
    r"<\s*/?\s*(?:!doctype|html|head|body|title|h[1-6]|p|div|span|center|pre|script|style|br|hr)\b", re.I
)
_URL = re.compile(r"\b\w[\w+.-]{0,20}://\S+|\bwww\.\S+", re.IGNORECASE)
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b")
_BLOTTED = re.compile(r"(?<![\w*-])[\w-]*\*{3,}[\w*-]+")
_SPACES = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")


class Redactor:
    """Hides the secrets it has been told, and whatever looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: tuple[str, ...] = ()
        self._pieces: tuple[str, ...] = ()
        self.learn(frozenset(secrets))

    def learn(self, secrets: frozenset[str]) -> None:
        """Replaces the known secrets."""
        forms = {form for secret in secrets for form in _forms(secret)}
        self._pieces = tuple(sorted({piece for form in forms if len(form) >= LONG_SECRET for piece in _pieces(form)}))
        self._known = tuple(sorted(forms, key=len, reverse=True))  # a secret may contain another: longest first

    def clean(self, text: str) -> str:
        """The text with `***` for every secret.

        >>> Redactor({"hunter2hunter2"}).clean("key hunter2hunter2, or https://me:pw@example.com/?api_key=abc")
        'key ***, or https://***@example.com/?api_key=***'
        """
        if len(text) < SHORTEST_SECRET:
            return text
        for secret in self._known:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        for piece in self._pieces:
            if piece in text:
                text = _without_words(text, piece)
        lowered = text.lower()
        found = [hint for hint in HINTS if hint in lowered]
        return _by_rules(text, frozenset(found)) if found else text

    def clean_bytes(self, data: bytes) -> bytes:
        """The same for bytes; those that are no UTF-8 survive."""
        return self.clean(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def public_message(self, text: str) -> str:
        """What a caller may see of a provider's error message: one line, at most 300 characters, without secrets, links
        and addresses. Empty where the text is an HTML page, which explains nothing to an API's caller.
        """
        text = text[:READ_CHARS]
        if _HTML.search(text):
            return ""
        text = self.clean(text)
        for pattern, replacement in ((_BLOTTED, HIDDEN), (_URL, "[link]"), (_ADDRESS, "[address]"), (_SPACES, " ")):
            text = pattern.sub(replacement, text)
        text = text.strip()
        return text if len(text) <= PUBLIC_CHARS else text[: PUBLIC_CHARS - 1] + "…"


def _pieces(form: str) -> set[str]:
    starts = (*range(0, len(form) - PIECE_CHARS, PIECE_EVERY), len(form) - PIECE_CHARS)
    return {form[start : start + PIECE_CHARS] for start in starts}


def _without_words(text: str, piece: str) -> str:
    """The text without each word that holds the piece."""
    kept: list[str] = []
    done = 0
    while (found := text.find(piece, done)) >= 0:
        start, stop = found, found + len(piece)
        while start > done and _is_of_a_word(text[start - 1]):
            start -= 1
        while stop < len(text) and _is_of_a_word(text[stop]):
            stop += 1
        kept += (text[done:start], HIDDEN)
        done = stop
    return "".join((*kept, text[done:]))


def _is_of_a_word(char: str) -> bool:
    return char.isalnum() or char in "_-"


def _by_rules(text: str, hints: frozenset[str]) -> str:
    for rule in RULES:
        if not hints.isdisjoint(rule.hints):
            text = rule.pattern.sub(rule.replacement, text)
    return text


def _forms(secret: str) -> set[str]:
    """A secret as it is, as `repr` and JSON write it, and its parts where white space cuts it, as libraries quote."""
    forms = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms.update(secret.split())
    return {form for form in forms if len(form) >= SHORTEST_SECRET}
