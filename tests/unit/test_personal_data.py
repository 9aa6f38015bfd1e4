"""What is personal data in a text, and what only looks like it. `benchmarks/detection.py` measures a labelled set."""

from __future__ import annotations

import time

import pytest

from benchmarks import detection
from hermes.admission.personal_data import KINDS, find


def found(text: str) -> list[tuple[str, str]]:
    return [(one.kind, text[one.start : one.end]) for one in find(text)]


MORE_UNSEEN = "us\u034fer@ex\ufe0fam\U000e0020ple.com"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("mail a.b+c@mail.example.co.uk, now", [("email", "a.b+c@mail.example.co.uk")], id="address"),
        pytest.param("jürgen@bücher.example", [("email", "jürgen@bücher.example")], id="letters of any script"),
        pytest.param("<u@b.ie>; o'neil@example.ie", [("email", "u@b.ie"), ("email", "o'neil@example.ie")], id="two"),
        pytest.param("a@b.ie|c@d.ie=e@f.ie", [("email", "a@b.ie"), ("email", "c@d.ie"), ("email", "e@f.ie")], id="row"),
        pytest.param("no. 145136195801017540", [("national_id", "145136195801017540")], id="a district without a name"),
        pytest.param("mailto:user@example.com?subject=x", [("email", "user@example.com")], id="mailto"),
        pytest.param("DE89 3704 0044 0532 0130 00 BIC COBA", [("iban", "DE89 3704 0044 0532 0130 00")], id="IBAN"),
        pytest.param("gb82west12345698765432", [("iban", "gb82west12345698765432")], id="IBAN in small letters"),
        pytest.param("4111-1111-1111-1111", [("credit_card", "4111-1111-1111-1111")], id="card"),
        pytest.param("Ann,4111111111111111,12/27", [("credit_card", "4111111111111111")], id="card in a CSV"),
        pytest.param("4111 1111 1111 1111 123", [("credit_card", "4111 1111 1111 1111")], id="a code behind a card"),
        pytest.param("1 2026 4111 1111 1111 1111", [("credit_card", "4111 1111 1111 1111")], id="a date before a card"),
        pytest.param("Ann,+49 170 1234567,42", [("phone", "+49 170 1234567")], id="telephone in a CSV"),
        pytest.param("SSN: Ann,536-90-4399,7", [("national_id", "536-90-4399")], id="number in a CSV"),
        pytest.param("+1\u2013212\u2011555-0123", [("phone", "+1\u2013212\u2011555-0123")], id="other dashes"),
        pytest.param("4111\u200911111111\u20091111", [("credit_card", "4111\u200911111111\u20091111")], id="thin"),
        pytest.param("ｕｓｅｒ＠ｂ．ｉｅ", [("email", "ｕｓｅｒ＠ｂ．ｉｅ")], id="wide letters"),
        pytest.param("+49 (0)30 901820", [("phone", "+49 (0)30 901820")], id="abroad, with a trunk nought"),
        pytest.param("+965 9912 3456 2026", [("phone", "+965 9912 3456")], id="a year behind the number"),
        pytest.param("رقمي هو ٩٩١٢٣٤٥٦", [("phone", "٩٩١٢٣٤٥٦")], id="Arabic digits"),
        pytest.param("us\u200ber@exam\u2060ple.com", [("email", "us\u200ber@exam\u2060ple.com")], id="address, unseen"),
        pytest.param("us\u034fer@ex\ufe0fam\U000e0020ple.com", [("email", MORE_UNSEEN)], id="more"),
        pytest.param("4111\u3164111111\u061c111111", [("credit_card", "4111\u3164111111\u061c111111")], id="card"),
        pytest.param("4111\u200b111111111111", [("credit_card", "4111\u200b111111111111")], id="card, unseen"),
        pytest.param("\u200e+49 30\u200b 901820\u200e", [("phone", "+49 30\u200b 901820")], id="telephone, unseen"),
        pytest.param("DE89\u200b370400440532013000", [("iban", "DE89\u200b370400440532013000")], id="IBAN, unseen"),
        pytest.param("here\u200b4111111111111111\u200bnow", [("credit_card", "4111111111111111")], id="unseen around"),
        pytest.param("https://x.ie/?to=a.b%2Bc%40mail.ie&n=1", [("email", "a.b%2Bc%40mail.ie")], id="in a URL"),
        pytest.param("mailto%3Auser%2540b.ie", [("email", "user%2540b.ie")], id="encoded twice"),
        pytest.param("4111.1111.1111.1111.", [("credit_card", "4111.1111.1111.1111")], id="card with dots"),
        pytest.param("3782.822463.10005", [("credit_card", "3782.822463.10005")], id="American Express with dots"),
        pytest.param("01 42 68 53 00", [("phone", "01 42 68 53 00")], id="at home in France"),
        pytest.param("SSN 536-90-4399", [("national_id", "536-90-4399")], id="US"),
        pytest.param("my civil id is 285010112358", [("national_id", "285010112358")], id="Kuwait"),
        pytest.param("PESEL 44051401359", [("national_id", "44051401359")], id="Poland, named"),
        pytest.param("dni 12345678z", [("national_id", "12345678z")], id="Spain, in small letters, named"),
    ],
)  # fmt: skip
def test_personal_data_is_found_as_it_is_written(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "git@github.com:owner/repo.git",
        "https://user:secret@intra.example.com/path",
        "logo@2x.png and @handle and a@b",
        "logo%402x.png, 50%40 of it, %40handle, a%40b",
        "4.111111111111111, 4111.1111.1111.1112, 14111.1111.1111.1111",
        "word\u200bword 1234\u200b5678",
        "DE88 3704 0044 0532 0130 00",
        "4111 1111 1111 1112",
        "order 1234567890123 shipped on 2026-11-30 at 12:30:45",
        "44051401359 items",
        "uuid 550e8400-e29b-41d4-a716-446655440000, sha 5d41402abc4b2a76b9719d911017c592",
        "3.14159265358979, 12,345,678.90, 192.168.10.44, 1.2.3.4",
        "31.12.2026 and 01/02/2026 and 2026-01-02",
    ],
)
def test_what_only_looks_like_it_is_none(text: str) -> None:
    assert found(text) == []


def test_only_the_kinds_that_are_asked_for_are_looked_for() -> None:
    text = "user@example.com, 4111 1111 1111 1111"

    assert [one.kind for one in find(text, {"credit_card"})] == ["credit_card"]


@pytest.mark.parametrize(
    "piece",
    [
        "1234567890123 ",
        "4111 ",
        "4 ",
        "1 ",
        "1",
        "a.",
        "a@",
        "+1 ",
        "DE11",
        "0 0 ",
        "(0",
        "1-",
        "a.b@c.",
        "%2B",
        "a%40",
        "a%40b.",
        "\u200b1",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    """A regular expression that goes back and forth would take seconds."""
    text = piece * (4000 // len(piece))
    began = time.perf_counter()

    find(text, KINDS)

    assert time.perf_counter() - began < 0.5


def test_the_labelled_set_is_found_as_well_as_the_documentation_says() -> None:
    labelled = detection.read_set()
    found = [(labels, find(text)) for _, text, labels in labelled]
    right = sum(any(detection.matches(label, one) for one in given) for labels, given in found for label in labels)

    assert len(labelled) == 200
    assert right / sum(len(given) for _, given in found) >= 0.98
    assert right / sum(len(labels) for labels, _ in found) >= 0.97
