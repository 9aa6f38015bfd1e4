"""Pictures of every page of the dashboard, in both themes, on a wide and on a narrow screen.

    python scripts/screenshots.py [FOLDER] [PAGE ...]

Starts a server of its own with the demo provider, sends it some traffic, signs in, and looks. The pictures are in
`build/screenshots/` unless another folder is named, as PAGE-WIDTH-THEME.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.e2e.gateway import Gateway  # noqa: E402
from tests.web.browser import MISSING, NARROW, WIDE, Visit, chromium_path, opened, shoot  # noqa: E402
from tests.web.pages import PAGES, Shown, send_traffic  # noqa: E402

SETTLE_MS = 700
"""Fonts, and figures that are drawn by script."""


def main(arguments: list[str]) -> int:
    """The exit status."""
    if chromium_path() is None:
        print(MISSING, file=sys.stderr)
        return 1
    folder = Path(arguments[0]) if arguments else ROOT / "build" / "screenshots"
    wanted = set(arguments[1:])
    pages = [page for page in PAGES if not wanted or page.name in wanted]
    gateway = Gateway.start(env={"LOG_LEVEL": "WARNING"})
    try:
        send_traffic(gateway)
        number = take(gateway, pages, folder)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
