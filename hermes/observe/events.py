"""Trace events on their way: each gets the id of the request that it belongs to, and is counted where that is a
metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hermes.observe.logs import request_id_var
from hermes.observe.metrics import Metrics


class Events:
    """Emits trace events for the request that the current greenlet serves."""

    def __init__(self, write: Callable[[str, Mapping[str, Any]], None], metrics: Metrics) -> None:
        self._write = write
        self._metrics = metrics

    def emit(self, event: str, fields: Mapping[str, Any]) -> None:
        """Writes one event."""
        self._write(event, {"request_id": request_id_var.get(), **fields})
        if event == "cache_hit":
            self._metrics.cache_hit()
        elif event == "classify" and fields.get("source") == "teacher":
            self._metrics.classifier(float(fields.get("latency_ms") or 0.0) / 1000)
