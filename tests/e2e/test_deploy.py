"""What is in deploy/ works with a running Hermes: the image's files, the names of metrics, nginx before it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.deployed import DEPLOY, board, copied, queries, steps

from . import client, replies
from .gateway import ADMIN_KEY, CHAT, ROOT, Gateway, _free_port, chat_request, eventually
from .provider import Provider
from .world import World

HOW_TO_GET_NGINX = "no nginx: install it (Debian: apt-get install nginx-light)"
EVERY_S = 0.15


# -- the image --------------------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The folder /app of the image: what the Dockerfile copies, and nothing else of the checkout."""
    app = tmp_path / "app"
    app.mkdir()
    for path in copied():
        if path == "requirements.txt":
            continue  # of the first stage
        source = ROOT / path
        if source.is_dir():
            shutil.copytree(source, app / path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, app)
    return app


def test_the_images_files_and_command_are_a_server_that_its_health_check_finds_well(image: Path) -> None:
    port = _free_port()
    command = [sys.executable, "-m", *json.loads(steps("CMD")[0])]
    env = {"PATH": os.environ["PATH"], "HERMES_BIND": f"127.0.0.1:{port}", "PYTHONDONTWRITEBYTECODE": "1"}
    env["ROUTER_PROXY_API_KEY"] = ADMIN_KEY
    check = json.loads(steps("HEALTHCHECK")[0].partition("CMD ")[2])[1:]
    check[-1] = check[-1].replace(":8766/", f":{port}/")

    def is_well() -> bool:
        return (
            subprocess.run([sys.executable, *check], stderr=subprocess.DEVNULL, timeout=10, check=False).returncode == 0
        )

    assert not is_well()
    server = subprocess.Popen(command, cwd=image, env=env, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert eventually(is_well, bool, 20)
        got = client.send(port, "POST", CHAT, *_json(chat_request("hello", None, None, None, {})), timeout_s=15.0)
        assert (got.status, bool(got.text)) == (200, True)
        page = client.send(port, "GET", "/dashboard/sign-in", {"Accept": "text/html"}, None, 5.0)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        (style,) = set(re.findall(r'href="(/[^"]+hermes[^"]*\.css[^"]*)"', page.body.decode()))
        assert client.send(port, "GET", style, {}, None, 5.0).status == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(10) == 0
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(5)
    assert {path.name for path in (image / "data").iterdir()} >= {"hermes.db", "spool"}


def _json(request: tuple[dict[str, str], dict[str, Any]]) -> tuple[dict[str, str], bytes]:
    headers, body = request
    return {**headers, "Content-Type": "application/json"}, json.dumps(body).encode()


# -- metrics ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exposed() -> dict[str, set[str]]:
    """Every sample of a server that has served a little, with the names of its labels."""
    gateway = Gateway.start()
    budget = {"scope": "global", "id": "*", "period": "day", "limit_usd": 5, "action": "warn"}
    assert gateway.admin("PUT", "/admin/budgets", budget).status == 200
    gateway.chat(tier=None)
    gateway.chat("demo:503 hello", tier=None, stream=True)
    eventually(lambda: gateway.usage(), lambda rows: len(rows) == 2)
    text = eventually(
        lambda: gateway.admin("GET", "/metrics").body.decode(), lambda seen: "hermes_budget_used_ratio{" in seen, 15
    )
    gateway.stop()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


OF_PROMETHEUS = {"job", "instance"}


@pytest.mark.parametrize("query", [pytest.param(query, id=name) for name, query in queries().items()])
def test_a_query_asks_for_metrics_and_labels_that_there_are(exposed: dict[str, set[str]], query: str) -> None:
    asked = re.findall(r"\b(hermes_\w+)(?:\{([^}]*)\})?", query)
    grouped = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")}

    assert asked or 'up{job="hermes"}' in query
    for name, chosen in asked:
        assert set(re.findall(r"(\w+)[!=]~?", chosen)) <= exposed[name]
    assert grouped - OF_PROMETHEUS <= {label for name, _ in asked for label in exposed[name]}


@pytest.mark.parametrize("panel", [pytest.param(panel, id=panel["title"]) for panel in board()["panels"]])
def test_a_legend_names_labels_that_its_query_keeps(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        kept = {label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(", ")}
        aggregates = re.search(r"\b(sum|max|min)\b", target["expr"])
        wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert wanted <= (kept if aggregates else OF_PROMETHEUS)


# -- nginx ------------------------------------------------------------------------------------------------


class Nginx:
    """A real nginx with the shipped configuration, but for its addresses."""

    def __init__(self, folder: Path, upstreams: list[int]) -> None:
        program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            pytest.skip(HOW_TO_GET_NGINX)
        self.port = _free_port()
        text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
        text = re.sub(r"(?m)^ *server hermes-\d.*\n", "", text)
        servers = "".join(f"server 127.0.0.1:{port} max_fails=1 fail_timeout=5s;\n" for port in upstreams)
        text = text.replace("least_conn;", f"least_conn;\n{servers}").replace(
            "listen 8080", f"listen 127.0.0.1:{self.port}"
        )
        file = folder / "nginx.conf"
        file.write_text(text.replace("/tmp/", f"{folder}/"), encoding="utf-8")
        command = [program, "-e", "stderr", "-p", str(folder), "-g", "daemon off;", "-c", str(file)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
        eventually(self._answers, bool, 5)
        assert self._process.poll() is None, self._process.communicate()[1]

    def _answers(self) -> bool:
        try:
            return client.send(self.port, "GET", "/health", {}, None, 2.0).status == 200
        except OSError:
            return False

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.communicate(timeout=5)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Nginx]]:
    """A world, with nginx before its gateway and before a port where nobody is."""
    world = World()
    nobody = Provider()
    nobody.refuse()
    folder = tmp_path_factory.mktemp("nginx")
    folder.chmod(0o777)  # its workers run as nobody
    for parent in folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    nginx = Nginx(folder, [nobody.port, world.gateway.port])
    yield world, nginx
    nginx.stop()
    nobody.close()
    world.close()


Post = Callable[..., client.Answer]


@pytest.fixture
def post(behind: tuple[World, Nginx]) -> Post:
    """A chat completion through nginx."""
    world, nginx = behind
    world.begin()

    def send(**fields: Any) -> client.Answer:
        return client.send(nginx.port, "POST", CHAT, *_json(chat_request("hello", "simple", None, None, fields)), 15.0)

    return send


def test_a_replica_that_is_away_is_passed_over_and_nothing_is_sent_twice(
    behind: tuple[World, Nginx], post: Post
) -> None:
    answers = [post() for _ in range(6)]

    assert {got.status for got in answers} == {200}
    assert len(behind[0].primary.calls) == 6


def test_nginx_passes_a_stream_on_event_by_event(behind: tuple[World, Nginx], post: Post) -> None:
    behind[0].primary.script(replies.stream("a", "b", "c", "d", every_s=EVERY_S))

    got = post(stream=True)

    assert got.text == "abcd"
    times = [at for at, _ in got.arrivals]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert sum(gap > EVERY_S / 2 for gap in gaps) >= 3


def test_a_caller_who_hangs_up_on_nginx_frees_the_provider(behind: tuple[World, Nginx]) -> None:
    world, nginx = behind
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(replies.endless_stream("again"))
    headers, body = _json(chat_request("hello", "simple", None, None, {"stream": True}))
    with client.Exchange(nginx.port, "POST", CHAT, headers, body) as exchange:
        exchange.read_until(b"again")

    assert eventually(lambda: world.primary.calls_under_way, lambda count: count == 0) == 0


@pytest.mark.parametrize(
    "path", ["/metrics", "/admin/usage", "/reload", "/circuits", "/dashboard/", "/classifier/report"]
)
def test_the_operators_routes_are_not_for_the_outside(behind: tuple[World, Nginx], path: str) -> None:
    got = client.send(behind[1].port, "GET", path, {"Authorization": f"Bearer {ADMIN_KEY}"}, None, 5.0)

    assert got.status == 404
    assert "nginx" in got.body.decode()
