"""The demo provider on a port of this machine, in the process that uses it; and the configuration that leads there."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any, Final

from gevent.pywsgi import WSGIHandler, WSGIServer

from hermes.demo.provider import demo_app

STOP_WAIT_S: Final = 0.1

CONFIG: Final = """\
# The configuration of the demo. router_config.example.yaml shows all that a real one may hold.
classifier:
  model: demo-teacher
  base_url: BASE_URL
  api_key_env: ""
  timeout_seconds: 5
  system_prompt: "Answer with one word, simple or complex: how hard is this message?\\n\\n{message}"
models:
  simple:
    endpoints:
      - model: demo-small
        base_url: BASE_URL
        api_key_env: ""
        context_window: 32000
        price: {input_per_mtok: 0.15, output_per_mtok: 0.6, cached_input_per_mtok: 0.075}
        timeout_seconds: 20
      - model: demo-small-b
        base_url: BASE_URL
        api_key_env: ""
        context_window: 32000
        price: {input_per_mtok: 0.2, output_per_mtok: 0.8}
        timeout_seconds: 20
  complex:
    endpoints:
      - model: demo-large
        base_url: BASE_URL
        api_key_env: ""
        context_window: 200000
        price: {input_per_mtok: 2.5, output_per_mtok: 10, cached_input_per_mtok: 1.25}
        timeout_seconds: 20
      - model: demo-large-b
        base_url: BASE_URL
        api_key_env: ""
        context_window: 200000
        price: {input_per_mtok: 3, output_per_mtok: 15}
        timeout_seconds: 20
retry: {backoff_503_sec: [0.2, 0.4, 0.8]} # a newcomer does not wait
"""


@dataclass(frozen=True, slots=True)
class DemoServer:
    """A running demo provider."""

    base_url: str
    _server: WSGIServer

    def stop(self) -> None:
        """Closes the port and ends what is being answered."""
        self._server.stop(timeout=STOP_WAIT_S)


class _Handler(WSGIHandler):  # type: ignore[misc]
    def __init__(self, sock: Any, address: Any, server: Any) -> None:
        # Else Nagle's algorithm holds small events back until the one before is acknowledged: 40 ms a token.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(sock, address, server)


def start_demo(host: str = "127.0.0.1", port: int = 0) -> DemoServer:
    """Serves the demo provider from the event loop of this process; port 0 takes a free one."""
    server = WSGIServer((host, port), demo_app, handler_class=_Handler, log=None, error_log=None)
    server.start()
    return DemoServer(f"http://{host}:{server.server_port}/v1", server)


def demo_config(base_url: str) -> str:
    """The router_config.yaml that leads to a demo provider."""
    return CONFIG.replace("BASE_URL", json.dumps(base_url))
