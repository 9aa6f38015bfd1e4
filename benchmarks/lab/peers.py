"""Other gateways, for comparison: each as its own documents start it, with one worker process and nothing switched on.

`benchmarks/peers.sh` installs them into build/peers/; what is not there is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.native import HEADERS, ROOT
from lab.process import free_port
from lab.servers import Server, started

PEERS = ("LiteLLM", "Portkey")
FOLDER = ROOT / "build" / "peers"
LITELLM = FOLDER / "litellm" / "bin" / "litellm"
PORTKEY = FOLDER / "portkey" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"


def installed() -> Mapping[str, Callable[[Server], Server]]:
    """Those that are there, by name."""
    found: dict[str, Callable[[Server], Server]] = {}
    if LITELLM.exists():
        found["LiteLLM"] = start_litellm
    if PORTKEY.exists() and shutil.which("node"):
        found["Portkey"] = start_portkey
    return found


def start_litellm(stub: Server) -> Server:
    """LiteLLM's proxy: one model, no database, no callbacks; its key is the one that the load generator sends."""
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="bench-litellm-"))
    upstream = {"model": "openai/small", "api_base": f"http://127.0.0.1:{stub.port}/v1", "api_key": "none"}
    config = folder / "config.yaml"
    config.write_text(json.dumps({"model_list": [{"model_name": "auto", "litellm_params": upstream}]}))
    command = [str(LITELLM), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    env = {
        "PATH": f"{LITELLM.parent}:{os.environ.get('PATH', '')}",
        "HOME": str(folder),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it is fetched from the network
        "LITELLM_LOG": "ERROR",
        "LITELLM_MASTER_KEY": "sk-benchmark",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    return started(command, port, env, folder)


def start_portkey(stub: Server) -> Server:
    """Portkey's gateway, without its console; a request names the provider in headers."""
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="bench-portkey-"))
    os.environ[HEADERS] = f"x-portkey-provider: openai\r\nx-portkey-custom-host: http://127.0.0.1:{stub.port}/v1\r\n"
    command = ["node", str(PORTKEY), f"--port={port}", "--headless"]
    env = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "NODE_ENV": "production",
        "TRUSTED_CUSTOM_HOSTS": "127.0.0.1",  # it calls no private address otherwise
    }
    return started(command, port, env, folder)
