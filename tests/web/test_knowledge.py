"""The knowledge page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.gateway import Gateway, eventually

from .browser import Visit

PAGE = "/dashboard/knowledge"
HOSTILE = "<img src=x onerror=alert(1)>"
CONTRACTS = (
    "# Ending\n\nEither party may end the agreement with a notice period of three months.\n\n"
    f"# Odd\n\n{HOSTILE} </excerpt> \u202e Orders stay valid."
)


@pytest.fixture
def visit(visit: Visit, gateway: Gateway) -> Iterator[Visit]:
    """A window on the page; one document is known."""
    for document in documents(gateway):
        gateway.admin("DELETE", f"/admin/knowledge/{document['id']}")
    given = gateway.admin(
        "POST", "/admin/knowledge", {"use_case": "legal", "source": "contracts.md", "text": CONTRACTS}
    )
    assert given.status == 201, given.body
    visit.sign_in(path=PAGE)
    yield visit
    visit.faults[:] = [fault for fault in visit.faults if "status of 422" not in fault]  # the browser tells of each


def documents(gateway: Gateway) -> list[dict[str, Any]]:
    """As the API tells them."""
    return list(gateway.admin("GET", "/admin/knowledge").json["documents"])


def acts(gateway: Gateway) -> list[tuple[str, str, str]]:
    """The last changes, newest first."""
    rows = gateway.admin("GET", "/admin/audit").json["entries"][:3]
    return [(row["action"], row["target"], row["actor"]) for row in rows]


def test_files_are_taken_in_and_their_lines_follow_by_themselves(
    gateway: Gateway, visit: Visit, tmp_path: Path
) -> None:
    (tmp_path / "prices.csv").write_text("item;price\nhat;3\nshoe;4\n", encoding="utf-8")
    (tmp_path / "empty.html").write_text("<p> </p>", encoding="utf-8")
    visit.page.get_by_role("link", name="Add documents").click()
    visit.page.get_by_label("Collection: the use case").fill("shop")
    visit.page.get_by_label("Files:").set_input_files([tmp_path / "prices.csv", tmp_path / "empty.html"])
    visit.page.get_by_role("button", name="Add", exact=True).click()

    visit.page.get_by_text("2 documents: being read").wait_for()
    rows = visit.page.locator("#knowledge tbody tr")
    expect(rows.filter(has_text="prices.csv")).to_contain_text("ready", timeout=15_000)
    expect(rows.filter(has_text="empty.html")).to_contain_text("failed", timeout=15_000)
    rows.filter(has_text="empty.html").get_by_role("link").click()
    expect(visit.page.locator("#knowledge")).to_contain_text("no text was found in it")
    assert ("knowledge.ingest", "shop: prices.csv", "admin") in acts(gateway)


def test_a_pasted_text_takes_the_place_of_the_one_of_its_name(gateway: Gateway, visit: Visit) -> None:
    visit.page.get_by_role("link", name="Add documents").click()
    visit.page.get_by_label("Collection: the use case").fill("legal")
    visit.page.get_by_label("Or paste a text").fill("contracts.md")
    visit.page.get_by_label("Text", exact=True).fill("# Ending\n\nThe notice period is one year now.")
    visit.page.get_by_role("button", name="Add", exact=True).click()
    visit.page.get_by_text("contracts.md: being read").wait_for()

    found = eventually(lambda: documents(gateway), lambda seen: [one["chunks"] for one in seen] == [1], 10)
    assert [(one["source"], one["state"], one["chunks"]) for one in found] == [("contracts.md", "ready", 1)]


def test_what_cannot_be_taken_keeps_the_form(gateway: Gateway, visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "x.docx").write_bytes(b"PK")
    visit.page.get_by_role("link", name="Add documents").click()
    visit.page.get_by_label("Collection: the use case").fill("shop")
    visit.page.get_by_label("Files:").set_input_files(tmp_path / "x.docx")
    visit.page.get_by_role("button", name="Add", exact=True).click()

    expect(visit.page.get_by_role("alert")).to_contain_text("x.docx is of no format that is read")
    expect(visit.page.get_by_label("Collection: the use case")).to_have_value("shop")
    assert len(documents(gateway)) == 1


def test_a_question_shows_what_a_caller_would_get_with_its_scores(visit: Visit) -> None:
    visit.page.get_by_label("Question").fill("How long is the notice period?")
    visit.page.get_by_role("button", name="Test").click()

    first = visit.page.locator("#hits li").first
    expect(first).to_contain_text("contracts.md, chunk 1")
    expect(first.locator("mark").first).to_have_text("notice")
    assert float(first.locator("b").inner_text()) > 0.3
    expect(visit.page.locator("#hits")).to_contain_text("of 2 chunks in")
    assert "ask=How+long" in visit.page.url
    expect(visit.page.locator("#hits")).to_contain_text("<img src=x onerror=alert(1)>")
    assert visit.page.locator("#hits img").count() == 0

    visit.go(visit.page.url.removeprefix(visit.base))
    expect(visit.page.locator("#hits li").first).to_contain_text("contracts.md, chunk 1")


def test_a_document_gets_new_vectors_and_is_removed_after_a_yes(gateway: Gateway, visit: Visit) -> None:
    (before,) = documents(gateway)
    visit.page.get_by_role("link", name="contracts.md").click()
    visit.page.get_by_role("button", name="Reindex").click()
    visit.page.get_by_text("It gets new vectors").wait_for()
    (after,) = eventually(lambda: documents(gateway), lambda seen: len(seen) == 1 and seen[0]["id"] != before["id"], 10)
    assert (after["state"], after["chunks"]) == ("ready", 2)

    visit.go(f"{PAGE}?open={after['id']}")
    visit.page.get_by_role("button", name="Remove").click()
    visit.page.locator("#confirm").get_by_role("button", name="Cancel").click()
    assert len(documents(gateway)) == 1
    visit.page.get_by_role("button", name="Remove").click()
    visit.page.locator("#confirm-yes").click()

    visit.page.get_by_text("contracts.md removed").wait_for()
    expect(visit.page.get_by_text("No documents")).to_be_visible()
    assert documents(gateway) == []
    assert acts(gateway)[0] == ("knowledge.delete", "legal: contracts.md", "admin")


def test_documents_are_looked_for_by_name_and_collection(gateway: Gateway, visit: Visit) -> None:
    gateway.admin("POST", "/admin/knowledge", {"use_case": "hr", "source": "travel.md", "text": "Trains only."})
    visit.go(PAGE)
    visit.page.get_by_label("Search documents").fill("HR")

    expect(visit.page.locator("#knowledge tbody tr")).to_have_count(1)
    expect(visit.page.locator("#knowledge tbody")).to_contain_text("travel.md")
    assert "q=HR" in visit.page.url


def test_every_act_works_without_script(gateway: Gateway, visit: Visit, browser: Browser) -> None:
    window = Visit(browser, gateway, java_script_enabled=False)
    window.sign_in(path=f"{PAGE}?new=1")
    window.page.get_by_label("Collection: the use case").fill("hr")
    window.page.get_by_label("Or paste a text").fill("hours.md")
    window.page.get_by_label("Text", exact=True).fill("The office is open from nine to five.")
    window.page.get_by_role("button", name="Add", exact=True).click()
    expect(window.page.get_by_text("hours.md: being read")).to_be_visible()
    eventually(lambda: documents(gateway), lambda seen: all(one["state"] == "ready" for one in seen), 10)

    window.page.get_by_label("Question").fill("when does the office open?")
    window.page.get_by_role("button", name="Test").click()
    assert "hours.md" in (window.page.locator("#hits li").first.text_content() or "")

    window.page.get_by_role("link", name="hours.md", exact=True).first.click()
    window.page.get_by_role("button", name="Remove").click()
    window.page.get_by_role("button", name="Remove").click()
    left = eventually(lambda: [one["source"] for one in documents(gateway)], lambda found: len(found) == 1)
    assert left == ["contracts.md"]
    window.close()


def test_a_form_without_our_token_brings_nothing(gateway: Gateway, visit: Visit) -> None:
    answer = visit.context.request.post(
        f"{visit.base}{PAGE}", multipart={"use_case": "x", "source": "y.md", "text": "z", "csrf": "no"}
    )

    assert answer.status == 403
    assert len(documents(gateway)) == 1
