"""The embedded provider of a first run: OpenAI-compatible, deterministic, and able to fail on command.

    request (what may be asked) → answers (what it says) → provider (HTTP in, JSON or events out) → server (a port)

It knows two models for each tier and a teacher. A word such as `demo:503` in the last user message makes the primary
models fail, so that fallback and breakers can be watched; `provider.py` has the list.
"""

from hermes.demo.provider import DemoProvider, demo_app
from hermes.demo.server import DemoServer, demo_config, start_demo

__all__ = ["DemoProvider", "DemoServer", "demo_app", "demo_config", "start_demo"]
