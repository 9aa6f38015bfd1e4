"""The front end's files that others have made: compares them with `static/vendor/manifest.json`, or brings them anew.

    python scripts/vendor.py           every file has the checksum of the manifest
    python scripts/vendor.py --fetch   brings each out of its npm package in the manifest's version, notes checksums;
                                       look at the difference afterwards, and run the tests

Raise a version in the manifest, then fetch. `plotly.css` is what plotly.js would put into a page by script, which the
dashboard's content policy forbids; it is read out of a page in Chromium that allows it.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "static" / "vendor" / "manifest.json"
PLOTLY = ROOT / "static" / "vendor" / "plotly-cartesian.min.js"
RULES = "[...document.querySelector('#plotly\\\\.js-style-global').sheet.cssRules].reverse().map(rule => rule.cssText)"


def main(arguments: list[str]) -> int:
    """The exit status: 0 where all is as the manifest says."""
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    if arguments == ["--fetch"]:
        for file in manifest["files"]:
            fetch(file)
        MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    elif arguments:
        print(__doc__)
        return 2
    wrong = [file["path"] for file in manifest["files"] if digest(ROOT / file["path"]) != file["sha256"]]
    print(*(f"{path} is not what the manifest says" for path in wrong), sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def fetch(file: dict[str, Any]) -> None:
    """Brings one file, and notes its checksum."""
    path = ROOT / file["path"]
    if file["inside"]:
        path.write_bytes(packed(file["package"], file["version"])[f"package/{file['inside']}"])
    elif path.name == "plotly.css":
        path.write_text(plotly_css(), encoding="utf-8")
    file["sha256"] = digest(path)


@cache
def packed(package: str, version: str) -> dict[str, bytes]:
    """The files of an npm package, by their names in it."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"{package}@{version}"]
        name = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split()[-1]
        data = (Path(folder) / name).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        opened = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
        return {name: file.read() for name, file in opened if file is not None}


def plotly_css() -> str:
    """The rules that plotly.js adds to a page by itself, a line each."""
    sys.path.insert(0, str(ROOT))
    from tests.web.browser import opened

    with opened() as browser:
        page = browser.new_page()
        page.set_content("<!doctype html><div id=plot></div>")
        page.add_script_tag(path=str(PLOTLY))
        page.evaluate("Plotly.newPlot('plot', [{y: [1, 2]}])")
        rules: list[str] = page.evaluate(RULES)
    return "\n".join(rules) + "\n"


def digest(path: Path) -> str:
    """The file's SHA-256, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
