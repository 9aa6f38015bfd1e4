"""What is in deploy/ fits together, and fits the code: sources, ports, paths, variables, names of metrics."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
from pathlib import Path
from shutil import copy, which
from typing import Any

import pytest

from hermes.settings import ENVIRONMENT, ROOT, Settings
from tests.deployed import DEPLOY, DOCKERFILE, board, copied, loaded, queries, rules, steps

PORT = "8766"
ADMIN_KEY = "ROUTER_PROXY_API_KEY"


def unit(name: str) -> configparser.ConfigParser:
    """A unit of systemd; a key that stands twice keeps its last value."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / name)
    return parser


# -- the image --------------------------------------------------------------------------------------------


def test_the_image_is_made_of_what_is_there() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()

    assert copied()
    assert [path for path in copied() if not (ROOT / path).exists()] == []
    assert {f"!{path.removeprefix('./')}" for path in copied()} <= set(ignored)


FOR_DEVELOPMENT = {
    *("CHANGELOG.md", "Makefile", "README.md", "pyproject.toml", "requirements-dev.in", "requirements-dev.txt"),
    *("requirements.in", "benchmarks", "clients", "deploy", "docs", "scripts", "tests"),
}
MADE_HERE = {"data", "traces", "build", "router_config.yaml", "node_modules", "__pycache__"}


def test_the_image_has_everything_that_is_not_for_development() -> None:
    """What is new in the checkout must be put into one of the two."""
    tops = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}

    assert tops - FOR_DEVELOPMENT - MADE_HERE == set(copied())


def test_the_images_last_stage_runs_without_rights_compiler_and_pip() -> None:
    stages = steps("FROM")
    images = dict(argument.split("=", 1) for argument in steps("ARG"))

    assert [stage.split()[0] for stage in stages] == ["${BUILD_IMAGE}", "${RUN_IMAGE}"]
    assert all(re.fullmatch(r"python:3\.11\.\d+-(slim-)?bookworm", image) for image in images.values())
    assert "slim" in images["RUN_IMAGE"]
    assert steps("USER") == ["10001:10001"]
    last = DOCKERFILE[DOCKERFILE.rindex("FROM ") :]
    assert not re.search(r"apt-get|gcc|pip ", last)
    assert "--without-pip" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE


def test_the_image_listens_and_is_asked_for_its_health_on_the_port_of_all_papers() -> None:
    assert steps("EXPOSE") == [PORT]
    assert f"HERMES_BIND=0.0.0.0:{PORT}" in steps("ENV")[0]
    (check,) = steps("HEALTHCHECK")
    assert f"http://127.0.0.1:{PORT}/health'" in check
    assert steps("CMD") == ['["gunicorn", "-c", "gunicorn.conf.py", "app:app"]']


# -- compose ----------------------------------------------------------------------------------------------


def replicas(name: str) -> dict[str, Any]:
    return {key: service for key, service in loaded(name)["services"].items() if key.startswith("hermes")}


COMPOSE = ["compose.yaml", "compose.scale.yaml"]


@pytest.mark.parametrize("name", COMPOSE)
def test_a_compose_file_runs_our_image_with_little_rights_and_the_old_mount(name: str) -> None:
    for service in replicas(name).values():
        assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).exists()
        targets = [mount.split(":")[1] if isinstance(mount, str) else mount["target"] for mount in service["volumes"]]
        assert set(targets) == {"/app/data", "/app/traces", "/app/router_config.yaml"}
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert set(service["environment"]) <= {*ENVIRONMENT.values(), ADMIN_KEY}
        grace_s = float(service["environment"]["HERMES_GRACE_S"])
        assert float(service["stop_grace_period"].removesuffix("s")) > grace_s == Settings().grace_s


@pytest.mark.parametrize("name", COMPOSE)
def test_a_compose_file_declares_each_volume_once_and_pins_each_image(name: str) -> None:
    whole = loaded(name)
    used = [
        mount.split(":")[0]
        for service in whole["services"].values()
        for mount in service.get("volumes", ())
        if isinstance(mount, str) and not mount.startswith(".")
    ]

    assert sorted(used) == sorted(set(used)) == sorted(whole["volumes"])
    images = [service["image"] for service in whole["services"].values()]
    assert [image for image in images if not re.search(r":(local$|\d+\.\d+)", image)] == []


def test_replicas_share_the_secret_the_state_and_the_database() -> None:
    services = replicas("compose.scale.yaml")

    assert len(services) == 3
    for service in services.values():
        made = service["environment"]
        assert made["HERMES_STATE_URL"].startswith("redis://redis:")
        assert made["HERMES_DATABASE_URL"].startswith("postgresql://hermes:${POSTGRES_PASSWORD:?")
        assert made["HERMES_SECRET"].startswith("${HERMES_SECRET:?")


def test_the_balancer_and_prometheus_know_every_replica() -> None:
    hosts = [f"{name}:{PORT}" for name in replicas("compose.scale.yaml")]
    nginx = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    (scrape,) = loaded("prometheus.yml")["scrape_configs"]

    assert re.findall(r"server (\S+:\d+) ", nginx) == hosts
    assert scrape["static_configs"][0]["targets"] == hosts
    assert scrape["metrics_path"] == "/metrics"
    balancer = loaded("compose.scale.yaml")["services"]["balancer"]
    (port,) = re.findall(r"listen (\d+);", nginx)
    assert balancer["ports"] == [f"{PORT}:{port}"]
    assert balancer["volumes"] == ["./nginx.conf:/etc/nginx/nginx.conf:ro"]


def test_the_example_of_secrets_has_what_the_files_need_and_no_secret() -> None:
    lines = [line for line in (DEPLOY / "env.example").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    names = [line.rstrip("=") for line in lines if line]

    wanted = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.scale.yaml").read_text(encoding="utf-8")))
    assert {*wanted, ADMIN_KEY, "PROVIDER_API_KEY"} == set(names)
    assert all(line.endswith("=") for line in lines if line)


# -- systemd and cron -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hermes-router.service", "hermes-refit.service"])
def test_a_service_calls_what_a_checkout_in_opt_hermes_has(name: str) -> None:
    service = unit(name)["Service"]
    words = [*shlex.split(service["ExecStart"]), *shlex.split(service.get("ExecReload", ""))]

    for word in words:
        if word.startswith("/") and ".venv" not in word:
            assert (ROOT / Path(word).relative_to("/opt/hermes")).exists()
    assert service["User"] == "hermes"
    assert service["EnvironmentFile"] == "/etc/hermes/hermes.env"
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"


def test_the_router_is_given_its_time_and_not_started_again_in_vain() -> None:
    service = unit("hermes-router.service")["Service"]
    gunicorn = (ROOT / "gunicorn.conf.py").read_text(encoding="utf-8")

    assert float(service["TimeoutStopSec"]) > Settings().grace_s
    assert f"REFUSED = {service['RestartPreventExitStatus']}\n" in gunicorn
    assert service["KillMode"] == "mixed"


def test_timer_and_cron_line_call_the_same_refit_at_the_same_time() -> None:
    command = unit("hermes-refit.service")["Service"]["ExecStart"]
    cron = (DEPLOY / "hermes-refit.cron").read_text(encoding="utf-8").splitlines()[-1]

    assert unit("hermes-refit.timer")["Timer"]["OnCalendar"] == "Sun 03:30"
    assert cron.startswith("30 3 * * 0 hermes ")
    assert cron.endswith(command)
    assert "%" not in cron


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    """With the programs put where they are: systemd looks for them."""
    if which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: install it (Debian: apt-get install systemd)")
    names = ["hermes-router.service", "hermes-refit.service", "hermes-refit.timer"]
    for name in names:
        text = (DEPLOY / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(re.sub(r"/opt/hermes/\.venv/bin/\w+", "/bin/true", text), encoding="utf-8")

    command = ["systemd-analyze", "verify", *(str(tmp_path / name) for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, "hermes" in done.stderr) == (0, False), done.stderr


# -- Prometheus and Grafana -------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in rules()])
def test_an_alert_has_a_section_that_says_what_to_do(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"(?m)^### (\w+)$", (ROOT / page).read_text(encoding="utf-8"))

    assert anchor == rule["alert"].lower()
    assert rule["alert"] in headings
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"]


def test_no_section_is_about_an_alert_that_is_none() -> None:
    headings = re.findall(r"(?m)^### (\w+)$", (ROOT / "docs" / "incidents.md").read_text(encoding="utf-8"))

    assert headings == [rule["alert"] for rule in rules()]


def test_promtool_finds_nothing_wrong_with_scrape_alerts_and_their_tests(tmp_path: Path) -> None:
    promtool = which("promtool")
    if promtool is None:
        pytest.skip("no promtool: install it (Debian: apt-get install prometheus)")
    (tmp_path / "key").write_text("k", encoding="utf-8")
    scrape = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(
        scrape.replace("/etc/prometheus/hermes-admin-key", str(tmp_path / "key")), encoding="utf-8"
    )
    copy(DEPLOY / "alerts.yml", tmp_path)
    copy(DEPLOY / "alerts_test.yml", tmp_path)

    for arguments in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            [promtool, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_reads_every_query(tmp_path: Path) -> None:
    promtool = which("promtool")
    if promtool is None:
        pytest.skip("no promtool: install it (Debian: apt-get install prometheus)")
    wanted = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries().values())
    ]
    file = tmp_path / "queries.yml"  # JSON, which YAML contains
    file.write_text(json.dumps({"groups": [{"name": "all", "rules": wanted}]}), encoding="utf-8")

    done = subprocess.run(
        [promtool, "check", "rules", str(file)], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboards_panels_have_names_and_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        at = panel["gridPos"]
        mine = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert panel["title"]
        assert at["x"] + at["w"] <= 24
        assert not mine & cells
        cells |= mine
    assert len({panel["id"] for panel in board()["panels"]}) == len(board()["panels"])
