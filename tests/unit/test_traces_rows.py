"""What is told to all who follow the traces is rendered once."""

from __future__ import annotations

from typing import Any

from hermes.web.dashboard.pages.traces import Rows


def test_an_event_is_rendered_once_for_all_who_follow() -> None:
    rendered: list[str] = []

    def render(event: dict[str, Any]) -> str:
        rendered.append(event["ts"])
        return f"\n<tr>\n<td>{event['ts']}</td>\n"

    rows = Rows(render)
    events = [{"ts": "1", "event": "route"}, {"ts": "2", "event": "route"}]

    messages = [rows.message(events) for _ in range(100)]
    rows.message(events[:1])

    assert rendered == ["2", "1"]
    (message,) = set(messages)
    assert message == b"id: 2\ndata: <tr>\ndata: <td>2</td>\ndata: <tr>\ndata: <td>1</td>\n\n"
