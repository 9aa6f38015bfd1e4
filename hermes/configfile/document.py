"""The configuration in force, in the file's own words: defaults filled in, every secret left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes.configfile import schema
from hermes.configfile.endpoints import named_keys, shown
from hermes.configfile.findings import Findings


def effective(root: schema.Root, tiers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What `/admin/config` shows; JSON, and itself a configuration that means the same where nothing was masked.

    Args:
        root: the checked file.
        tiers: each tier in list form, without secrets.
    """
    whole = root.model_dump()
    whole["models"] = dict(tiers)
    whole["classifier"] = _provider(root.classifier or schema.Classifier())
    embedder = root.knowledge.embedder
    whole["knowledge"]["embedder"] = _provider(embedder) if embedder.model else "local"
    whole["shadow"]["judge"] = None if root.shadow.judge is None else _provider(root.shadow.judge)
    tidied: dict[str, Any] = _tidy(whole)
    return tidied


def _provider(section: schema.Provider) -> dict[str, Any]:
    keys = named_keys(section, (), Findings("", {})) or []
    return shown(section, keys, section.timeout_seconds)


def _tidy(value: Any) -> Any:
    """Whole numbers without a `.0`, as people write them."""
    if isinstance(value, dict):
        return {key: _tidy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
