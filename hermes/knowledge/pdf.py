"""PDF as blocks: the text of each page. Pictures of text have none; nothing is recognised here."""

from __future__ import annotations

import io
import logging
import re
from typing import Final

from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from hermes.knowledge.blocks import Block, Unreadable

MOST_PAGES: Final = 2000


def read_pdf(raw: bytes) -> list[Block]:
    """The blocks of a PDF, each under its page.

    Raises:
        Unreadable: it is damaged, locked, or has too many pages.

    Blocks: 10 ms a page and more; a hostile file as long as it likes, so only a process of its own may call it.
    """
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(raw), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("the PDF is locked with a password")
        if len(reader.pages) > MOST_PAGES:
            raise Unreadable(f"the PDF has {len(reader.pages):,} pages; {MOST_PAGES:,} are read at most")
        pages = [page.extract_text() for page in reader.pages]
    except DependencyError:
        raise Unreadable("the PDF is encrypted in a way that is not read") from None
    except Unreadable:
        raise
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError) as error:
        raise Unreadable(f"the PDF is damaged ({type(error).__name__})") from None
    return [
        Block(paragraph, (f"Page {number}",))
        for number, text in enumerate(pages, 1)
        for paragraph in re.split(r"\n[ \t]*\n", text)
        if paragraph.strip()
    ]
