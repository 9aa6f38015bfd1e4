"""What stands in deploy/, read: the Dockerfile's steps, the YAML files, the alerts and the dashboard."""

from __future__ import annotations

import json
import re
from typing import Any

from ruamel.yaml import YAML

from hermes.settings import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8")))


def steps(word: str) -> list[str]:
    """What the Dockerfile says after this word, step by step."""
    split = (line.split(None, 1) for line in DOCKERFILE.splitlines() if line.strip())
    return [rest for name, rest in split if name == word]


def copied() -> list[str]:
    """The sources that the Dockerfile copies out of the checkout."""
    return [path for rest in steps("COPY") if "--from=" not in rest for path in rest.split()[:-1]]


def loaded(name: str) -> Any:
    """A YAML file of deploy/."""
    return YAML(typ="safe", pure=True).load((DEPLOY / name).read_text(encoding="utf-8"))


def rules() -> list[dict[str, Any]]:
    """The alerts."""
    (group,) = loaded("alerts.yml")["groups"]
    return list(group["rules"])


def board() -> dict[str, Any]:
    """Grafana's dashboard."""
    return dict(json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8")))


def queries() -> dict[str, str]:
    """Everything that Prometheus is asked, by who asks."""
    alerts = {rule["alert"]: rule["expr"] for rule in rules()}
    asked = [(panel["title"], target) for panel in board()["panels"] for target in panel["targets"]]
    panels = {f"{title} {target['refId']}": target["expr"] for title, target in asked}
    marks = {entry["name"]: entry["expr"] for entry in board()["annotations"]["list"]}
    return {**alerts, **panels, **marks}
