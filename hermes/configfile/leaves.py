"""The kinds of leaves: what a scalar's text may say where a number, a flag, a word or a name belongs.

YAML's own typing is not used. The schema says what a key holds, and the text is read as that or refused, so that `on`
can be a keyword here and a flag there. No sentence repeats what was written: it might be a key.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from hermes.configfile.tree import Scalar

FAULT: Final = "hermes"
"""The type of every error whose sentence is our own."""

FLAGS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""YAML 1.1 took all six for flags, and today's files were written for it."""

_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,14})")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]{0,14})(\.[0-9]{0,15})?|\.[0-9]{1,15})([eE][-+]?[0-9]{1,2})?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LOOKS_LIKE_A_KEY = re.compile(
    r"(?=.*[a-z])(?i:sk|pk|rk|gsk|hf|xai|pplx|nvapi|ghp|aiza|r8)_?[A-Za-z0-9_]*[0-9][A-Za-z0-9_]{8,}"
    r"|(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}"
)
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9a-fA-F:.]{2,45}")
_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")

OWN_HEADERS: Final = frozenset(
    {
        "host",
        "content-type",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
    }
    | {"expect", "accept", "accept-encoding", "proxy-connection"}
)
"""Hermes frames its requests itself; a second voice here would break them."""


def fault(message: str) -> PydanticCustomError:
    """An error whose sentence is shown as it is."""
    return PydanticCustomError(FAULT, message.replace("{", "{{").replace("}", "}}"))


def _leaf(given: object, wanted: str) -> Scalar:
    if isinstance(given, Scalar):
        return given
    kind = "a list" if isinstance(given, list) else "a mapping"
    raise fault(f"must be {wanted}, not {kind}")


def _kind(scalar: Scalar) -> str:
    if scalar.is_null:
        return "nothing"
    if not scalar.plain:
        return "text in quotes"
    if scalar.text.lower() in FLAGS:
        return "true or false"
    return "a number" if _NUMBER.fullmatch(scalar.text) else "text"


def flag(given: object) -> bool:
    """`true` or `false`, without quotes."""
    scalar = _leaf(given, "true or false")
    word = scalar.text.lower()
    if not scalar.plain or word not in FLAGS:
        raise fault(f"must be true or false, not {_kind(scalar)}")
    return FLAGS[word]


def number(wanted: str, *, above: float | None = None, least: float = 0, most: float) -> Callable[[object], float]:
    """A reader of numbers within bounds; `above` is a bound that is itself refused."""

    def read(given: object) -> float:
        scalar = _leaf(given, wanted)
        if not scalar.plain or not _NUMBER.fullmatch(scalar.text):
            raise fault(f"must be {wanted}, not {_kind(scalar)}")
        return _bounded(float(scalar.text), wanted, above, least, most)

    return read


def whole(wanted: str = "a whole number", *, least: int = 0, most: int = 10**9) -> Callable[[object], int]:
    """A reader of whole numbers within bounds."""

    def read(given: object) -> int:
        scalar = _leaf(given, wanted)
        if not scalar.plain or not _WHOLE.fullmatch(scalar.text):
            kind = _kind(scalar)
            raise fault(f"must be {wanted}, not {'a fraction' if kind == 'a number' else kind}")
        return int(_bounded(int(scalar.text), wanted, None, least, most))

    return read


def _bounded(value: float, wanted: str, above: float | None, least: float, most: float) -> float:
    if above is not None and value <= above:
        raise fault(f"must be {wanted} more than {above:g}")
    if not math.isfinite(value) or not least <= value <= most:
        raise fault(f"must be {wanted} between {least:g} and {most:.15g}")
    return value


def prose(given: object) -> str:
    """Text of any length and number of lines, kept as it is."""
    scalar = _leaf(given, "text")
    if scalar.plain and (scalar.is_null or scalar.text.lower() in ("true", "false")):
        raise fault(f"must be text, not {_kind(scalar)}; put it in quotes if it is meant")
    if any(c not in "\n\r\t" and unicodedata.category(c) in ("Cc", "Cs") for c in scalar.text):
        raise fault("holds a control character")
    return scalar.text


def line(given: object) -> str:
    """Text on one line, without white space around it; a number's digits are text too."""
    text = prose(given).strip()
    if any(c in text for c in "\n\r\t"):
        raise fault("must be text on one line")
    if len(text) > 2000:
        raise fault("must be text of at most 2000 characters")
    return text


def word(given: object) -> str:
    """A keyword: whatever was written, `502`, `on`, `null` and `1.50` included."""
    scalar = _leaf(given, "a word or phrase")
    text = " ".join(scalar.text.split())
    if not text:
        raise fault("must be a word or phrase, not nothing")
    if len(text) > 200 or any(unicodedata.category(c) in ("Cc", "Cs") for c in text):
        raise fault("must be a word or phrase of at most 200 characters, without control characters")
    return text


def env_name(given: object) -> str:
    """The name of an environment variable, or empty."""
    text = line(given)
    if text and not is_env_name(text):
        raise fault("must be the name of an environment variable (letters, digits, _), never the secret itself")
    return text


def is_env_name(text: str) -> bool:
    """Whether it can be a variable's name, and is not itself a key that somebody pasted here: names are shown."""
    return bool(_ENV_NAME.fullmatch(text)) and not _LOOKS_LIKE_A_KEY.fullmatch(text)


def given_env_name(given: object) -> str:
    """The name of an environment variable."""
    name = env_name(given)
    if not name:
        raise fault("must be the name of an environment variable, not nothing")
    return name


def choice(*words: str) -> Callable[[object], str]:
    """A reader of one of the words."""

    def read(given: object) -> str:
        scalar = _leaf(given, "one of: " + ", ".join(words))
        if scalar.text not in words:
            raise fault("must be one of: " + ", ".join(words))
        return scalar.text

    return read


def host(given: object) -> str:
    """A name or address to listen on."""
    text = line(given)
    if not _HOST.fullmatch(text):
        raise fault("must be a host name or an IP address, such as 127.0.0.1")
    return text


def time_zone(given: object) -> str:
    """A name of the IANA time zone database."""
    name = line(given)
    if name != "UTC":
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise fault("must be a time zone of the IANA database, such as UTC or Europe/Berlin") from None
    return name


def role_name(given: object) -> str:
    """A role: what callers write in `role`, and a part of the pins' keys."""
    if not isinstance(given, str) or not _ROLE.fullmatch(given):
        raise fault("a role's name has letters, digits, - and _, at most 64")
    if given in ("auto", *TIER_WORDS):
        raise fault("a role cannot be called auto, simple or complex: those are models that callers may ask for")
    return given


def header_name(given: object) -> str:
    """A header that Hermes may add to its requests."""
    if not isinstance(given, str) or not _HEADER.fullmatch(given):
        raise fault("is not a header's name")
    if given.lower() in OWN_HEADERS:
        raise fault("this header is set by Hermes itself")
    return given


def one_or_more(given: object) -> Any:
    """A list; a single value stands for a list of one."""
    return [given] if isinstance(given, Scalar) else given


DAY_S: Final = 86_400.0

TierName = Literal["simple", "complex"]
TIER_WORDS: Final = get_args(TierName)
Capability = Literal["vision", "tools", "json_schema", "audio", "files"]
PersonalData = Literal["email", "phone", "iban", "credit_card", "national_id"]

Flag = Annotated[bool, BeforeValidator(flag)]
Prose = Annotated[str, BeforeValidator(prose)]
Line = Annotated[str, BeforeValidator(line)]
Word = Annotated[str, BeforeValidator(word)]
EnvName = Annotated[str, BeforeValidator(env_name)]
GivenEnvName = Annotated[str, BeforeValidator(given_env_name)]
Host = Annotated[str, BeforeValidator(host)]
TimeZone = Annotated[str, BeforeValidator(time_zone)]
RoleName = Annotated[str, BeforeValidator(role_name)]
HeaderName = Annotated[str, BeforeValidator(header_name)]
ATier = Annotated[TierName, BeforeValidator(choice(*TIER_WORDS))]
ACapability = Annotated[Capability, BeforeValidator(choice(*get_args(Capability)))]
APersonalData = Annotated[PersonalData, BeforeValidator(choice(*get_args(PersonalData)))]

Seconds = Annotated[float, BeforeValidator(number("a number of seconds", above=0, most=DAY_S))]
Pause = Annotated[float, BeforeValidator(number("a number of seconds", most=3600))]
Minutes = Annotated[float, BeforeValidator(number("a number of minutes", above=0, most=10_080))]
Megabytes = Annotated[float, BeforeValidator(number("a number of megabytes", above=0, most=4096))]
Ratio = Annotated[float, BeforeValidator(number("a number", most=1))]
Target = Annotated[float, BeforeValidator(number("a number", above=0, most=1))]
Multiple = Annotated[float, BeforeValidator(number("a number", above=0, most=1000))]
Usd = Annotated[float, BeforeValidator(number("a number of US dollars", most=1_000_000))]
Count = Annotated[int, BeforeValidator(whole())]
Positive = Annotated[int, BeforeValidator(whole(least=1))]
Attempts = Annotated[int, BeforeValidator(whole(least=1, most=10))]
Port = Annotated[int, BeforeValidator(whole("a port number", least=1, most=65_535))]
