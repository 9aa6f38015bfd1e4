"""The servers that are compared, each started as its users would start it, with one worker process."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from lab.native import BUILT, ROOT, ROUTE, TOOLS_CPU
from lab.process import Process, free_port

SERVER_CPU = 0
ADMIN_KEY = "benchmark-admin-key"
PRICE = {"input_per_mtok": 1.0, "output_per_mtok": 2.0}


@dataclass(slots=True)
class Server:
    """A server that answers on a port; `process` and what it uses are its own, or the stub's where there is none."""

    port: int
    process: Process
    folder: Path | None = None

    def stop(self) -> None:
        """Ends it and removes its folder."""
        if self.folder is not None:
            self.process.stop()
            shutil.rmtree(self.folder, ignore_errors=True)


def start_stub(folder: Path) -> Server:
    """The provider."""
    port = free_port()
    process = Process([str(BUILT / "stub"), str(port)], cpu=TOOLS_CPU, folder=folder)
    process.wait_until_listening(port)
    return Server(port, process)


# -- the subjects ------------------------------------------------------------------------------------------------


def start_hermes(stub: Server) -> Server:
    """Hermes with the settings that a user has who changes none, and one endpoint for each tier."""
    return HermesServer.start(hermes_config(stub.port))


def start_relay(stub: Server) -> Server:
    """The bare relay of Flask and requests."""
    port = free_port()
    options = ["--worker-class=gevent", "--worker-connections=4000", "--keep-alive=75", "--no-control-socket"]
    command = [sys.executable, "-m", "gunicorn", *options, f"--bind=127.0.0.1:{port}", "relay_flask:app"]
    env = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parent),
        "UPSTREAM": f"http://127.0.0.1:{stub.port}{ROUTE}",
    }
    return started(command, port, env)


def start_nginx(stub: Server) -> Server:
    """nginx as a reverse proxy: one worker, kept connections, no buffering of answers, bodies in memory, no log."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="bench-nginx-"))
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONFIG % {"port": port, "upstream": stub.port, "folder": folder}, encoding="utf-8")
    return started([nginx() or "nginx", "-e", "stderr", "-p", str(folder), "-c", str(config)], port, None, folder)


def nginx() -> str | None:
    """Where nginx is, if it is installed."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


SUBJECTS: Mapping[str, Callable[[Server], Server]] = {
    "direct": lambda stub: Server(stub.port, stub.process),
    "nginx": start_nginx,
    "bare relay": start_relay,
    "Hermes": start_hermes,
}
"""Starts what stands between the load generator and the stub."""

NGINX_CONFIG = """
daemon off;
worker_processes 1;
pid %(folder)s/nginx.pid;
error_log stderr error;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    client_max_body_size 64m;
    client_body_buffer_size 16m;
    keepalive_requests 100000000;
    upstream provider {
        server 127.0.0.1:%(upstream)d;
        keepalive 1000;
        keepalive_requests 100000000;
    }
    server {
        listen 127.0.0.1:%(port)d backlog=4096;
        location / {
            proxy_pass http://provider;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600s;
        }
    }
}
"""


# -- Hermes --------------------------------------------------------------------------------------------------------


def hermes_config(stub_port: int, **sections: Any) -> dict[str, Any]:
    """A cheap and a dear model at the stub, and no teacher: keywords decide, else the surrogate that ships."""
    upstream = f"http://127.0.0.1:{stub_port}/v1"
    tiers = {"simple": "small", "complex": "large"}
    models = {
        tier: {"endpoints": [{"model": model, "base_url": upstream, "api_key_env": "", "price": PRICE}]}
        for tier, model in tiers.items()
    }
    return {"models": models, **sections}


@dataclass(slots=True)
class HermesServer(Server):
    """Hermes in an empty folder of its own, which outlives a crash."""

    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def start(cls, config: Mapping[str, Any], **env: str) -> HermesServer:
        """Starts it with this configuration."""
        folder, port = Path(tempfile.mkdtemp(prefix="bench-hermes-")), free_port()
        config_path = folder / "router_config.yaml"
        config_path.write_text(json.dumps(config), encoding="utf-8")  # YAML contains JSON
        own = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "HERMES_CONFIG": str(config_path),
            "HERMES_BIND": f"127.0.0.1:{port}",
            "ROUTER_PROXY_API_KEY": ADMIN_KEY,
            "PYTHONPATH": str(Path(__file__).resolve().parent / "insight"),
            **env,
        }
        return cls(port, cls._spawn(folder, port, own), folder, own)

    def restart(self) -> None:
        """Starts it again in the same folder, after it was killed."""
        assert self.folder is not None
        self.process = self._spawn(self.folder, self.port, self.env)

    @staticmethod
    def _spawn(folder: Path, port: int, env: Mapping[str, str]) -> Process:
        command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), "app:app"]
        process = Process(command, cpu=SERVER_CPU, folder=folder, env=env)
        process.wait_until(lambda: _is_healthy(port))
        return process


def _is_healthy(port: int) -> bool:
    with urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:  # an URLError is an OSError
        return bool(answer.status == 200)


def started(command: list[str], port: int, env: Mapping[str, str] | None = None, folder: Path | None = None) -> Server:
    """A server of this command, as soon as it listens; `folder` is removed at its end."""
    folder = folder or Path(tempfile.mkdtemp(prefix="bench-server-"))
    process = Process(command, cpu=SERVER_CPU, folder=folder, env=env)
    process.wait_until_listening(port)
    return Server(port, process, folder)
