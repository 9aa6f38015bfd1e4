"""The front end's files: `static/` under an address that names their content, so that browsers keep them for a year.

The address has one digest of all files, so that style sheets find their fonts beside them. What is asked for under an
older address (a page that was open during a deploy) is the file as it is now, and is not kept.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import gevent
from flask import Blueprint, Response, request

from hermes.errors import NotFound

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".woff2": "font/woff2",
}
PACKED: Final = (".css", ".js", ".svg", ".txt", ".json")
VERSION_CHARS: Final = 12
YEAR: Final = "public, max-age=31536000, immutable"


@dataclass(slots=True)
class Assets:
    """The files of one folder, by their names within it."""

    folder: Path
    version: str = ""
    names: frozenset[str] = frozenset()
    _packed: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Assets:
        """Reads the folder once; 5 ms for 2 MB."""
        digest = hashlib.sha256()
        files = sorted(path for path in folder.rglob("*") if path.suffix in TYPES)
        for path in files:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
            digest.update(path.relative_to(folder).as_posix().encode())
        names = frozenset(path.relative_to(folder).as_posix() for path in files)
        return cls(folder, digest.hexdigest()[:VERSION_CHARS], names)

    def url(self, name: str) -> str:
        """The address of a file.

        Raises:
            KeyError: there is none of this name: a fault of the page that asks.
        """
        if name not in self.names:
            raise KeyError(name)
        return f"/static/{self.version}/{name}"

    def answer(self, version: str, name: str) -> Response:
        """A file, packed where the browser can unpack it and it is text.

        Raises:
            NotFound: there is none of this name.
        """
        if name not in self.names:
            raise NotFound("There is no such file.")
        suffix = Path(name).suffix
        is_packed = suffix in PACKED and request.accept_encodings["gzip"] > 0
        body = self._gzip(name) if is_packed else (self.folder / name).read_bytes()
        response = Response(body, content_type=TYPES[suffix])
        if is_packed:
            response.headers["Content-Encoding"] = "gzip"
        if suffix in PACKED:
            response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = YEAR if version == self.version else "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    def _gzip(self, name: str) -> bytes:
        if name not in self._packed:
            data = (self.folder / name).read_bytes()
            # 70 ms for the largest; a native thread takes it, and zlib lets the loop go on meanwhile.
            self._packed[name] = gevent.get_hub().threadpool.apply(gzip.compress, (data, 6), {"mtime": 0})
        return self._packed[name]


def blueprint(assets: Assets) -> Blueprint:
    """`/static/VERSION/NAME`; open to everybody, as the page to sign in needs them."""
    bp = Blueprint("assets", __name__)

    @bp.get("/static/<version>/<path:name>")
    def file(version: str, name: str) -> Response:
        return assets.answer(version, name)

    return bp
