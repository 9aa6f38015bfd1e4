"""A Plotly figure in a real browser, under the dashboard's content policy."""

from __future__ import annotations

import re

import jinja2
from playwright.sync_api import expect

from hermes.settings import ROOT
from hermes.web.dashboard import marks
from hermes.web.dashboard.charts import Chart, Series
from hermes.web.dashboard.flow import Part, flow_of
from hermes.web.dashboard.frame import HEADERS

from .browser import Visit

PATH = "/dashboard/figures-of-a-test"
PAGE = """<!doctype html><html lang="en" data-theme="dark"><head><title>t</title>{% include "dashboard/_head.html" %}
{% include "dashboard/_plotly.html" %}</head><body>{% import "dashboard/_macros.html" as m %}<main class="panel">
{{ m.chart('c', chart, 'Requests an hour') }}{{ m.flow(flow, 'Where requests go') }}</main></body></html>"""


def page(version: str) -> str:
    """A page with a figure of each kind of series, and the flow."""
    env = jinja2.Environment(loader=jinja2.FileSystemLoader(ROOT / "templates"), autoescape=True)
    env.filters.update(marks.FILTERS)
    env.globals.update(spark_path=marks.spark_path, moment=marks.moment)
    hours = [f"2026-05-10T{hour:02}:00:00Z" for hour in range(24)]
    series = [
        Series("simple", list(range(24)), "simple", "area"),
        Series("complex", list(range(24, 0, -1)), "complex", "area"),
        Series("failed", [hour % 3 for hour in range(24)], "bad", "bars"),
        Series("p95", [hour * 1.5 for hour in range(24)], "line", "steps"),
    ]
    chart = Chart("Hour", hours, series, targets=[(20.0, "target")])
    flow = flow_of([Part("Keyword", 30, 10)], [Part("small", 30, 0), Part("large", 0, 10, "fallback 1")])
    return env.from_string(PAGE).render(asset=lambda name: f"/static/{version}/{name}", chart=chart, flow=flow)


def test_a_figure_is_drawn_without_breaking_the_content_policy(visit: Visit) -> None:
    visit.go("/dashboard/sign-in")
    (version,) = set(re.findall(r"/static/(\w+)/hermes.css", visit.page.content()))
    body = page(version)
    visit.context.route(f"**{PATH}", lambda route: route.fulfill(body=body, content_type="text/html", headers=HEADERS))

    visit.go(PATH)
    visit.page.wait_for_selector("#c .barlayer path", state="attached")

    lines = visit.page.locator("#c .scatterlayer path.js-line")
    assert lines.count() >= 3
    assert "rgb(168, 226, 234)" in (lines.first.get_attribute("style") or "")
    boxes = [visit.page.locator(part).bounding_box() for part in ("#c .main-svg >> nth=0", "#c-table")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] + 1, "the figure keeps to its place"
    assert visit.page.locator(".flow path").count() == 4
    visit.page.locator("#c-table summary").click()
    expect(visit.page.locator("#c-table tbody tr")).to_have_count(24)
