"""What others have made is what the manifest says, file by file."""

from __future__ import annotations

import hashlib
import json

from hermes.settings import ROOT

MANIFEST = json.loads((ROOT / "static" / "vendor" / "manifest.json").read_text(encoding="utf-8"))
FOLDERS = ("static/vendor", "static/fonts", "tests/web/vendor")


def test_every_file_of_others_has_its_checksum_its_licence_and_its_version() -> None:
    for file in MANIFEST["files"]:
        content = (ROOT / file["path"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"], file["path"]
        assert file["licence"], file["path"]
        assert file["version"] or not file["inside"], file["path"]


def test_no_file_of_others_is_missing_in_the_manifest() -> None:
    found = {path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).iterdir()}

    assert found - {file["path"] for file in MANIFEST["files"]} == {"static/vendor/manifest.json"}
