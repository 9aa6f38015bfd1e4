"""How documents of every kind become passages."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.errors import InvalidRequest, PayloadTooLarge
from hermes.knowledge import reader
from hermes.knowledge.blocks import Block, Unreadable
from hermes.knowledge.chunking import PASSAGE_CHARS, passages
from hermes.knowledge.html import shallow
from hermes.knowledge.reading import decoded, format_of, read_passages

TABLE = "\n".join(f"| item {number} | {number} euros |" for number in range(200))


def cut(text: str, fmt: str = "markdown") -> list[tuple[str, str]]:
    return [tuple(passage) for passage in read_passages(text.encode(), fmt)]


def a_pdf(pages: Sequence[str]) -> bytes:
    """A small PDF with a line of text on each page."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode()
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream))
        content = len(objects)
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>>>>>"
            % content
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(kids), b" ".join(kids))
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1, table, len(objects) + 1, len(out),
    )  # fmt: skip


# -- cutting ----------------------------------------------------------------------------------------------


def test_a_passage_stands_under_its_headings_and_never_goes_over_one() -> None:
    assert cut("# Shop\n\nIntro.\n\n## Refunds\n\nIn 14 days.\n\nBy card.\n\n# Office\n\nOpen.") == [
        ("Shop", "Intro."),
        ("Shop > Refunds", "In 14 days.\n\nBy card."),
        ("Office", "Open."),
    ]


def test_headings_with_a_line_under_them_and_code_with_a_heading_in_it() -> None:
    found = cut("Title\n=====\n\n```sh\n# no heading\necho\n```\n\nSub\n---\ntext")

    assert found == [("Title", "```sh\n# no heading\necho\n```"), ("Title > Sub", "text")]


def test_every_part_of_a_long_table_keeps_its_head() -> None:
    found = cut(f"# Prices\n\n| item | price |\n|---|---|\n{TABLE}\n")

    assert len(found) > 3
    assert all(text.startswith("| item | price |\n|---|---|\n| item ") for _, text in found)
    rows = [line for _, text in found for line in text.split("\n")[2:]]
    assert rows == TABLE.split("\n"), "no row is lost, cut or doubled"


def test_a_long_paragraph_is_cut_between_sentences_in_any_script() -> None:
    english, arabic = "This is a sentence. ", "هل هذه جملة؟ "

    for sentence in (english, arabic):
        texts = [text for _, text in cut(sentence * 200, "text")]
        assert len(texts) > 2
        assert all(text.endswith(sentence.strip()) for text in texts)


@given(st.lists(st.tuples(st.text(max_size=3000), st.sampled_from(["text", "table", "code"])), max_size=4))
def test_no_passage_is_empty_or_too_long(blocks: list[tuple[str, str]]) -> None:
    found = list(passages(Block(text, ("H",), kind, "a | b" if kind == "table" else "") for text, kind in blocks))  # type: ignore[arg-type]

    assert all(passage.text.strip() and len(passage.text) <= PASSAGE_CHARS for passage in found)


@given(st.text(alphabet="#|-`= \nabc", max_size=400))
def test_markdown_of_any_kind_is_read(text: str) -> None:
    try:
        assert cut(text)
    except Unreadable:
        assert not any(letter in text for letter in "abc") or "#" in text or "`" in text or "=" in text or "-" in text


# -- formats ----------------------------------------------------------------------------------------------


def test_of_a_page_only_what_its_reader_sees_is_read() -> None:
    page = """<html><head><title>T</title><style>p{}</style><script>alert(1)</script></head><body><nav>Menu</nav>
    <h1>Refunds</h1>Intro <b>bold</b><p>One<br>two</p><p hidden>secret</p><ul><li>first</li><li>second</li></ul>
    <h2>Prices</h2><table><tr><th>item</th><th>price</th></tr><tr><td>hat</td><td>3 &amp; 4</td></tr></table></body>"""

    assert cut(page, "html") == [
        ("Refunds", "Intro bold\n\nOne\ntwo\n\n- first\n\n- second"),
        ("Refunds > Prices", "item | price\nhat | 3 & 4"),
    ]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        pytest.param("<p>Zürich</p>".encode("cp1252"), "Zürich", id="no Unicode, and says nothing"),
        pytest.param('<meta charset="ISO-8859-1"><p>5 € “ok”</p>'.encode("cp1252"), "5 € “ok”", id="Latin 1"),
        pytest.param("<meta charset=windows-1251><p>Привет</p>".encode("cp1251"), "Привет", id="Cyrillic"),
        pytest.param("<META content='text/html; charset=euc-jp'><p>返品</p>".encode("euc-jp"), "返品", id="Japanese"),
        pytest.param("<p>Zürich</p>".encode("utf-16"), "Zürich", id="UTF-16"),
        pytest.param("<meta charset=windows-1251><p>Zürich</p>".encode(), "Zürich", id="Unicode, and says otherwise"),
        pytest.param("<meta charset=cp-none><p>Zürich</p>".encode("cp1252"), "Zürich", id="there is none of this name"),
    ],
)
def test_a_page_is_read_as_it_was_written(page: bytes, text: str) -> None:
    assert [passage.text for passage in read_passages(page, "html")] == [text]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("<div>" * 30_000 + "x", id="deep"),
        pytest.param("<b>" * 30_000 + "x", id="deep inline"),
        pytest.param("<table><tr><td>" * 2_000 + "x", id="tables in tables"),
        pytest.param("<p>x" * 20_000, id="wide"),
        pytest.param("<!--" + "x" * 100_000, id="comment without end"),
        pytest.param("<!--" * 200_000, id="comments without end"),
        pytest.param("<a '" * 200_000, id="tags without end"),
        pytest.param("<a x='" * 200_000 + '<a x="' * 200_000, id="values without end"),
        pytest.param("<script " * 200_000, id="scripts without end"),
    ],
)
def test_a_page_that_wants_to_be_hard_is_soon_read_or_refused(page: str) -> None:
    with suppress(Unreadable):
        assert read_passages(page.encode(), "html")


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(("<div>", "</div>"), id="blocks"),
        pytest.param(("<ul><li>", "</li></ul>"), id="lists"),
        pytest.param(("<DIV title='a > b'>", "</Div>"), id="a sign within an attribute"),
        pytest.param(("<div>", ""), id="never closed"),
        pytest.param(("<!--><div>", ""), id="comments that end at once"),
    ],
)
def test_however_deep_a_page_is_nested_its_text_is_read_in_linear_time(tags: tuple[str, str]) -> None:
    """So many open elements took the parser a minute; the limit of time for a test is the promise here."""
    depth = 150_000
    page = "<h1>Begin</h1>" + tags[0] * depth + "<p>deep</p>" + tags[1] * depth + "<h2>End</h2><p>last</p>"

    found = read_passages(page.encode(), "html")

    read = " ".join(" ".join(passage) for passage in found)
    assert [word for word in read.split() if word in ("deep", "last")] == ["deep", "last"]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("<p>x" * 2000, id="paragraphs that the next one ends"),
        pytest.param("<svg>" + "<path d='M0'/>" * 2000 + "</svg><p>x", id="drawings"),
        pytest.param("<script>" + "'<div>'" * 2000 + "</script><div>x</div>", id="tags in a script"),
        pytest.param("<!-- " + "<div>" * 2000 + "--><div>x</div>", id="tags in a comment"),
        pytest.param("<div><span>x</span></div>" * 2000, id="wide"),
    ],
)
def test_a_page_that_is_not_deep_is_parsed_as_it_is(page: str) -> None:
    assert shallow(page) == page


def test_a_reader_that_computes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen
    code = "import sys, resource; sys.stdin.read(); resource.setrlimit(resource.RLIMIT_CPU, (1, 2))\nwhile True: pass"
    monkeypatch.setattr(
        reader.subprocess, "Popen", lambda command, **options: real([sys.executable, "-c", code], **options)
    )

    with pytest.raises(InvalidRequest, match=r"a\.html cannot be read: reading it takes too long"):
        reader.read(b"<p>x", "html", "a.html")


def test_a_row_of_a_csv_says_by_itself_what_it_means() -> None:
    assert cut("item;price;note\nhat;3;\n\nshoe;4;new", "csv") == [
        ("", "item: hat; price: 3\nitem: shoe; price: 4; note: new")
    ]


def test_a_pdf_is_read_page_by_page() -> None:
    found = read_passages(a_pdf(["Refunds take long", "Hats are red"]), "pdf")

    assert [tuple(passage) for passage in found] == [("Page 1", "Refunds take long"), ("Page 2", "Hats are red")]


@pytest.mark.parametrize(
    ("raw", "fmt", "why"),
    [
        pytest.param(b"%PDF-1.4 nonsense", "pdf", "the PDF is damaged", id="damaged"),
        pytest.param(b"", "pdf", "the PDF is damaged", id="empty PDF"),
        pytest.param(a_pdf([""]), "pdf", "no text was found in it .a scanned PDF", id="scanned"),
        pytest.param(b"  \n ", "markdown", "no text was found in it$", id="blank"),
        pytest.param(b"a\0b", "text", "it is no text", id="binary"),
        pytest.param(b"x " * 5_000_000, "text", "more than 8,000,000 characters", id="long"),
    ],
)
def test_what_cannot_be_read_says_why(raw: bytes, fmt: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read_passages(raw, fmt)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_text_is_read_whatever_it_was_written_with(encoding: str) -> None:
    assert decoded("Größe\r\nklein".encode(encoding)) == "Größe\nklein"


def test_names_and_media_types_tell_the_format() -> None:
    assert format_of("a/b.HTM") == "html"
    assert format_of("report", "application/pdf") == "pdf"
    assert format_of("v1.2") == "text"
    assert format_of("x.xlsx") is None


# -- the process of its own -------------------------------------------------------------------------------


def test_a_large_document_is_read_by_another_process_alike() -> None:
    text = "# A\n\n" + "word " * 8000

    assert reader.read(text.encode(), "markdown", "a.md") == read_passages(text.encode(), "markdown")


def test_a_reader_that_dies_is_a_refusal_and_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = subprocess.Popen
    dying = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit('boom')"]
    monkeypatch.setattr(reader.subprocess, "Popen", lambda command, **options: real(dying, **options))

    with caplog.at_level(logging.WARNING), pytest.raises(InvalidRequest, match=r"a\.csv cannot be read: its reader"):
        reader.read(b"a,b", "csv", "a.csv")

    assert "boom" in caplog.text


def test_too_large_a_file_is_not_even_looked_at() -> None:
    with pytest.raises(PayloadTooLarge, match="larger than 32 MB"):
        reader.read(b"x" * (reader.MOST_BYTES + 1), "text", "a.txt")
