"""`/v1/embeddings` by the local model, in OpenAI's shape."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

import orjson

from hermes.errors import InvalidRequest
from hermes.knowledge.vectors import LocalModel

MOST_TEXTS: Final = 256
MOST_CHARS: Final = 200_000
"""Of all texts together: about two minutes of one core."""

DIMENSIONS: Final = 384


def check(body: Any) -> list[str]:
    """The texts of a request's body.

    Raises:
        InvalidRequest: it asks for something that the local model cannot give.
    """
    given = body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InvalidRequest(
            "The local embedder reads texts, not tokens: input must be a text or a list of them.", param="input"
        )
    if len(texts) > MOST_TEXTS or sum(map(len, texts)) > MOST_CHARS:
        raise InvalidRequest(
            f"The local embedder takes {MOST_TEXTS} texts of {MOST_CHARS:,} characters together at once; "
            "send fewer, or name an endpoint in knowledge.embedder.",
            param="input",
        )
    if body.get("dimensions") not in (None, DIMENSIONS):
        raise InvalidRequest(f"The local embedder's vectors have {DIMENSIONS} dimensions.", param="dimensions")
    if body.get("encoding_format", "float") not in ("float", "base64"):
        raise InvalidRequest("encoding_format must be float or base64.", param="encoding_format")
    return texts


def answer(model: LocalModel, body: Any, between: Callable[[], None] = lambda: None) -> tuple[bytes, dict[str, int]]:
    """The answer's body, and its usage.

    Args:
        between: is called before each piece of a text; may raise, to end it.

    Raises:
        InvalidRequest: see `check`.
        EmbedderFailed: the model cannot be used here.

    Blocks: 2 ms a word; others have their turns meanwhile.
    """
    texts = check(body)
    is_packed = body.get("encoding_format") == "base64"
    data, tokens = [], 0
    for index, text in enumerate(texts):
        vector, size = model.embed(text, between)
        tokens += size
        value: Any = base64.b64encode(vector.astype("<f4").tobytes()).decode() if is_packed else vector.tolist()
        data.append({"object": "embedding", "index": index, "embedding": value})
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return orjson.dumps({"object": "list", "data": data, "model": model.name, "usage": usage}), usage
