"""One module a page: its routes, and which template shows what."""
