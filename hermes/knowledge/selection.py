"""What a `context_hint` means: a use case, an entity of it, or a question of its own. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

MOST_NAME_CHARS: Final = 256
SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True)
class Selection:
    """Where to look, and for what."""

    use_case: str | None
    """None: in all documents."""

    entity: str | None = None
    """Its documents, and those of the use case that are about no entity; None: all of the use case."""

    question: str = ""

    def holds(self, use_case: str, entity: str) -> bool:
        """Whether a document is looked at."""
        if self.use_case is None:
            return True
        return use_case == self.use_case and (self.entity is None or entity in (self.entity, ""))


def select(
    hint: str | None,
    use_case: str | None,
    question: str,
    known: Mapping[str, Collection[str]],
    always: Collection[str],
) -> Selection | None:
    """What is looked for; None: nothing, as nobody asks for it.

    Args:
        hint: the request's `context_hint`.
        use_case: of the request's metadata.
        question: what the user has written.
        known: the entities of each use case that has documents.
        always: use cases whose calls get knowledge without a hint.

    >>> shop = {"shop": ["blue"]}
    >>> select("shop/blue", None, "price?", shop, [])
    Selection(use_case='shop', entity='blue', question='price?')
    >>> select("how long do refunds take", "shop", "hello", shop, [])
    Selection(use_case='shop', entity=None, question='how long do refunds take')
    >>> select(None, "shop", "price?", shop, ["shop"])
    Selection(use_case='shop', entity=None, question='price?')
    >>> select(None, "shop", "price?", shop, []) is None
    True
    """
    hint = (hint or "").strip()
    if not hint:
        return Selection(use_case, None, question) if use_case is not None and use_case in always else None
    if hint in known:
        return Selection(hint, None, question)
    name, slash, entity = hint.partition(SEPARATOR)
    name, entity = name.strip(), entity.strip()
    if slash and name in known:
        return Selection(name, entity or None, question)
    if _is_name(hint):  # of a use case that has no documents: what others have is not what was asked for
        return Selection(hint.partition(SEPARATOR)[0], None, question)
    return Selection(use_case if use_case in known else None, None, hint)


def _is_name(hint: str) -> bool:
    """Whether a hint that is not known is a name all the same; a question has blanks, or another script."""
    return hint.isascii() and not any(char.isspace() for char in hint)
