"""Pictures of every page of the dashboard, in both themes, on a wide and on a narrow screen.

    python scripts/screenshots.py [FOLDER] [PAGE ...]
    python scripts/screenshots.py --readme

Starts a server of its own with the demo provider and two lifelike weeks behind it, signs in, and looks. The pictures
are in `build/screenshots/` unless another folder is named, as PAGE-WIDTH-THEME.png. `--readme` makes the two of the
README anew, in `docs/pictures/`.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from demo_traffic import leave_the_past, send_the_present  # noqa: E402

from tests.e2e.gateway import Gateway  # noqa: E402
from tests.web.browser import MISSING, NARROW, WIDE, Visit, chromium_path, opened, shoot  # noqa: E402
from tests.web.pages import DOCUMENTS, HOSTILE, PAGES, Shown, seed_shadow  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SETTLE_MS = 700
"""Fonts, and figures that are drawn by script."""


def main(arguments: list[str]) -> int:
    """The exit status."""
    if chromium_path() is None:
        print(MISSING, file=sys.stderr)
        return 1
    gateway = Gateway(None, {"LOG_LEVEL": "WARNING"})
    try:
        leave_the_past(gateway.folder)
        gateway.spawn()
        last = send_the_present(gateway)
        if arguments == ["--readme"]:
            number, folder = take_for_readme(gateway, last), PICTURES
        else:
            seed_shadow(gateway)
            for use_case, source, text in DOCUMENTS:
                document = {"use_case": use_case, "source": source, "text": text.replace(HOSTILE, "")}
                gateway.admin("POST", "/admin/knowledge", document)
            folder = Path(arguments[0]) if arguments else ROOT / "build" / "screenshots"
            wanted = set(arguments[1:])
            number = take(gateway, [page for page in PAGES if not wanted or page.name in wanted], folder)
    finally:
        gateway.stop()
    print(f"{number} pictures in {folder}")
    return 0


def take(gateway: Gateway, pages: list[Shown], folder: Path) -> int:
    """Takes the pictures; how many."""
    number = 0
    with opened() as browser:
        for theme in ("dark", "light"):
            visit = Visit(browser, gateway)
            visit.go(f"/dashboard/sign-in?theme={theme}")
            shoot(visit.page, folder / f"sign-in-{WIDE['width']}-{theme}.png")
            visit.sign_in()
            for page in pages:
                for size in (WIDE, NARROW):
                    visit.page.set_viewport_size(size)  # type: ignore[arg-type]
                    visit.go(f"{page.path}{'&' if '?' in page.path else '?'}theme={theme}")
                    visit.page.wait_for_selector(page.ready)
                    visit.page.wait_for_timeout(SETTLE_MS)
                    shoot(visit.page, folder / f"{page.name}-{size['width']}-{theme}.png")
                    number += 1
            visit.close()
            number += 1
    return number


def take_for_readme(gateway: Gateway, request_id: str) -> int:
    """Takes the README's pictures; how many."""
    pages = (
        (Shown("overview", "/dashboard/?theme=dark", "#latest tr"), 830),
        (Shown("request", f"/dashboard/usage/{request_id}?theme=light", "#rows tr.hit"), 800),
    )
    with opened() as browser:
        visit = Visit(browser, gateway)
        visit.sign_in()
        for page, height in pages:  # as much as says what it is: a picture stays under 200 KB
            visit.page.set_viewport_size({**WIDE, "height": height})  # type: ignore[arg-type]
            visit.go(page.path)
            visit.page.wait_for_selector(page.ready)
            visit.page.wait_for_timeout(SETTLE_MS)
            shoot(visit.page, PICTURES / f"{page.name}.png")
        visit.close()
    return len(pages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
