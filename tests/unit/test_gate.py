"""Every call that is made for a request passes one gate, and no module has a way around it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hermes
from hermes.types import ANYONE, Allowance, Endpoint, Place
from hermes.upstream import gate
from hermes.upstream.ask import Asker
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.transport import Transport

US = Endpoint("m@us", "m", "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1", region="us")
EU_ONLY = Allowance((Place(frozenset({"eu"}), rule=3),))

OPENS_CONNECTIONS = re.compile(r"new_session\(|socket\.socket\(|create_connection\(|HTTPSConnection\(|urlopen\(")
CLIENTS = {"upstream/transport.py"}
"""Which sends what a request holds and passes the gate, as the tests below show."""

NO_REQUESTS = {"upstream/cold.py", "cli/serve.py", "cli/doctor_endpoints.py", "cli/doctor_ledger.py"}
"""Which make the session, look for a free port, or ask what nobody's request holds."""


def test_the_gate_lets_pass_what_is_permitted() -> None:
    gate.check(US, ANYONE)
    gate.check(US, Allowance((Place(frozenset({"us"})),)))


def test_the_hot_client_opens_no_connection_for_a_forbidden_endpoint() -> None:
    transport = Transport()

    with pytest.raises(gate.GateClosed, match="residency rule 3 does not permit m@us"):
        transport.post(US, {}, [b"{}"], allowance=EU_ONLY, deadline=1e9, lifeline=Lifeline())


def test_the_cold_client_opens_no_connection_for_a_forbidden_endpoint() -> None:
    with pytest.raises(gate.GateClosed):
        Asker(Transport()).ask(US, "text", EU_ONLY)


def test_no_other_module_opens_connections() -> None:
    root = Path(hermes.__file__).parent
    found = {
        file.relative_to(root).as_posix()
        for folder in ("admission", "knowledge", "routing", "learning", "upstream", "evaluation", "web", "cli")
        for file in (root / folder).rglob("*.py")
        if OPENS_CONNECTIONS.search(file.read_text(encoding="utf-8"))
    }

    assert found <= CLIENTS | NO_REQUESTS
