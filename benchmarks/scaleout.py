"""Are two gateways one? Two Hermes behind the shipped nginx.conf, one Postgres, one Redis; all on this machine.

    python benchmarks/scaleout.py               prints the table below, and fails where the two do not agree
    python benchmarks/scaleout.py --markdown    writes it into docs/performance.md

What one of them learns, the other must know: conversations, breakers, budgets, pins, the kill switch, revoked keys.
Then one is killed with a signal that nobody can catch, while streams run through both: it may take its own open streams
along and nothing else.

The provider is this program itself; a word in the question says how it answers: *fail*, or *long* for a stream of 3 s.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from lab.client import LOST
from lab.native import ROOT
from lab.process import Process, clean_up_when_told_to_end, free_port
from lab.servers import ADMIN_KEY, HermesServer, nginx

STREAMS = 20
PIECES, PIECE_EVERY_S = 30, 0.1
BUDGET = 10
AT_ONCE = 40
KNOWN_WITHIN_S = 5.0
ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- scaleout:begin -->", "<!-- scaleout:end -->"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table."""

    what: str
    seen: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Got:
    """An answer; `is_whole` where a stream has said its last word."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def is_whole(self) -> bool:
        return "data: [DONE]" in self.body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


# -- what stands around them ------------------------------------------------------------------------------


class Provider(BaseHTTPRequestHandler):
    """Answers as the question wishes, and counts the questions for each model."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question, model = body["messages"][-1]["content"], body["model"]
        self.asked[model] += 1
        if "fail" in question and model == "first":
            self._say(500, {"error": {"message": "as you asked"}})
        elif body.get("stream"):
            self._stream(PIECES if "long" in question else 2)
        else:
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            message = {"role": "assistant", "content": model}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._say(
                200, {"id": "c", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}
            )

    def _say(self, status: int, payload: Any) -> None:
        text = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, pieces: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for number in range(pieces + 1):
                delta, reason = ({"content": f"{number} "}, None) if number < pieces else ({}, "stop")
                choice = {"index": 0, "delta": delta, "finish_reason": reason}
                self.wfile.write(f"data: {json.dumps({'id': 'c', 'choices': [choice]})}\n\n".encode())
                time.sleep(PIECE_EVERY_S)
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            return  # the gateway that asked is gone

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def provider() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def redis() -> Iterator[str]:
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="scaleout-redis-"))
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = Process(command, cpu=0, folder=folder)
    try:
        process.wait_until_listening(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def postgres_programs() -> Path | None:
    """Where initdb and pg_ctl are: Debian keeps them out of the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def postgres() -> Iterator[str]:
    """A cluster of its own, on a socket in its own folder."""
    programs, folder = postgres_programs(), Path(tempfile.mkdtemp(prefix="scaleout-pg-"))
    assert programs is not None
    user = {"user": "postgres"} if os.geteuid() == 0 else {}  # it refuses to run as root
    if user:
        shutil.chown(folder, "postgres")

    def run(name: str, *arguments: str) -> None:
        command = [str(programs / name), "-D", str(folder / "cluster"), *arguments]
        # Nothing is captured: the server that pg_ctl starts would keep the pipe open.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **user}
        subprocess.run(command, cwd=folder, check=True, timeout=60, **quiet)  # type: ignore[call-overload]

    try:
        run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run("pg_ctl", "-l", str(folder / "log"), "-w", "-o", options, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"
        finally:
            run("pg_ctl", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def balancer(ports: list[int]) -> Iterator[int]:
    """nginx with deploy/nginx.conf: other addresses, and a header that names the replica."""
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="scaleout-nginx-"))
    folder.chmod(0o755)
    text = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^ *server hermes-\d.*\n", "", text)
    servers = "".join(f"server 127.0.0.1:{at} max_fails=1 fail_timeout=5s;" for at in ports)
    text = text.replace("least_conn;", f"least_conn; {servers}")
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port}; add_header X-Replica $upstream_addr always;")
    config = folder / "nginx.conf"
    config.write_text(f"daemon off;\nuser root;\n{text.replace('/tmp/', f'{folder}/')}", encoding="utf-8")
    process = Process([nginx() or "nginx", "-e", "stderr", "-p", str(folder), "-c", str(config)], cpu=0, folder=folder)
    try:
        process.wait_until_listening(port)
        yield port
    finally:
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)


# -- asking -----------------------------------------------------------------------------------------------


def ask(port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Got:
    """An answer, or as much of it as came before the connection was lost."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    received, status, told = b"", 0, {}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        response = connection.getresponse()
        status, told = response.status, {name.lower(): value for name, value in response.getheaders()}
        while piece := response.read1():
            received += piece
    except LOST:
        pass
    finally:
        connection.close()
    return Got(status, told, received.decode())


def chat(port: int, text: str, user: str = "ann", session: str = "", **fields: Any) -> Got:
    headers = {"X-Hermes-User": user, "X-Hermes-Tier": "simple", **({"X-Hermes-Session": session} if session else {})}
    if session:
        del headers["X-Hermes-Tier"]
    body = {"model": "auto", "messages": [{"role": "user", "content": text}], **fields}
    return ask(port, "POST", "/v1/chat/completions", body, headers)


def seconds_until(is_so: Callable[[], bool]) -> float | None:
    """How long it takes to become so; None where it does not."""
    began = time.monotonic()
    while time.monotonic() < began + KNOWN_WITHIN_S:
        if is_so():
            return time.monotonic() - began
        time.sleep(0.02)
    return None


def told(seconds: float | None) -> str:
    return "never" if seconds is None else f"after {seconds:.2f} s"


# -- what must hold ---------------------------------------------------------------------------------------


class Pair:
    """Two gateways and the way to both of them."""

    def __init__(self, one: HermesServer, two: HermesServer, both: int) -> None:
        self.one, self.two, self.both = one, two, both

    def findings(self) -> Iterator[Finding]:
        """Every row, in an order in which none disturbs the next."""
        yield self.conversation()
        yield self.pin()
        yield self.key()
        yield self.switch()
        yield self.budget()
        yield self.breaker()
        yield from self.death()

    def conversation(self) -> Finding:
        first = chat(self.one.port, "please debug my server script", session="talk").headers["x-hermes-tier"]
        then = chat(self.two.port, "and now?", session="talk").headers
        seen = f"{first} at one; {then['x-hermes-tier']} by {then['x-hermes-decision'].partition(';')[0]} at the other"
        return Finding("a conversation keeps its tier", seen, "session" in then["x-hermes-decision"])

    def pin(self) -> Finding:
        self._admin(self.one, "PUT", "/admin/pins/model.chat", {"value": "pinned"})
        key = self._admin(self.one, "POST", "/admin/keys", {"name": "functions", "scopes": ["gateway"]}).json["key"]
        body = {"messages": [{"role": "user", "content": "hi"}], "metadata": {"function_name": "f"}}
        headers = {"Authorization": f"Bearer {key}"}
        took = seconds_until(lambda: '"pinned"' in ask(self.two.port, "POST", "/v1/completions", body, headers).body)
        return Finding("a pin and a key made at one count at the other", told(took), took is not None)

    def key(self) -> Finding:
        made = self._admin(self.one, "POST", "/admin/keys", {"name": "short", "scopes": ["gateway"]}).json
        headers = {"Authorization": f"Bearer {made['key']}"}
        known = seconds_until(lambda: ask(self.two.port, "GET", "/v1/pins", None, headers).status == 200)
        self._admin(self.one, "DELETE", f"/admin/keys/{made['id']}")
        took = seconds_until(lambda: ask(self.two.port, "GET", "/v1/pins", None, headers).status == 401)
        return Finding("a key revoked at one is refused at the other", told(took), None not in (known, took))

    def switch(self) -> Finding:
        self._admin(self.two, "PUT", "/admin/pins/ai.gateway.enabled", {"value": "false"})
        off = seconds_until(lambda: chat(self.one.port, "hi").status == 503)
        self._admin(self.two, "PUT", "/admin/pins/ai.gateway.enabled", {"value": "true"})
        on = seconds_until(lambda: {chat(at.port, "hi").status for at in (self.one, self.two)} == {200})
        return Finding(
            "the kill switch stops both, and lets both go on", f"{told(off)}, {told(on)}", None not in (off, on)
        )

    def budget(self) -> Finding:
        rule = {"scope": "user", "id": "bob", "period": "day", "limit_requests": BUDGET, "action": "block"}
        self._admin(self.one, "PUT", "/admin/budgets", rule)
        time.sleep(1.0)  # the other has heard of it
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda number: chat(self.both, f"hi {number}", "bob"), range(AT_ONCE)))
        statuses = Counter(got.status for got in answers)
        replicas = len({got.headers.get("x-replica") for got in answers})
        seen = f"{statuses[200]} of {AT_ONCE} at once answered, {statuses[429]} refused, by {replicas} replicas"
        return Finding(f"a budget of {BUDGET} requests is one budget", seen, statuses[200] == BUDGET and replicas == 2)

    def breaker(self) -> Finding:
        for number in range(3):
            chat(self.one.port, f"fail {number}")
        before = Provider.asked["first"]

        def is_open() -> bool:
            circuits = self._admin(self.two, "GET", "/circuits").json["circuits"]
            return any(circuit["model"] == "first" and circuit["state"] == "open" for circuit in circuits)

        took = seconds_until(is_open)
        got = chat(self.two.port, "hi")
        spared = Provider.asked["first"] == before and got.status == 200
        self._admin(self.two, "POST", "/circuits/reset")
        seen = f"{told(took)}; the failing model is {'not ' if spared else ''}asked, its fallback answers"
        return Finding("a circuit opened by one is open at the other", seen, took is not None and spared)

    def death(self) -> Iterator[Finding]:
        """Kills one while streams run through both, and goes on asking."""
        with ThreadPoolExecutor(STREAMS + 1) as pool:
            running = [pool.submit(chat, self.both, f"long {n}", f"user-{n}", stream=True) for n in range(STREAMS)]
            time.sleep(1.0)
            self.one.process.kill()
            # Its worker dies a moment after its master; a request in that moment is lost like an open stream.
            seconds_until(lambda: ask(self.one.port, "GET", "/health").status == 0)
            after = [chat(self.both, f"after {number}") for number in range(50)]
            streams = [future.result() for future in running]
        mine = f"127.0.0.1:{self.one.port}"
        cut = [got for got in streams if not got.is_whole]
        others = [got for got in streams if got.headers.get("x-replica") != mine]
        seen = f"{len(streams) - len(others)} of {STREAMS} ran through it, {len(cut)} were cut"
        own_only = all(got.headers.get("x-replica") == mine for got in cut)
        yield Finding("one killed with `kill -9` takes only its open streams along", seen, own_only and len(others) > 0)
        whole = sum(got.is_whole for got in others)
        yield Finding("the other's streams end well", f"{whole} of {len(others)}", whole == len(others))
        answered = sum(got.status == 200 for got in after)
        others_said = Counter(got.status for got in after if got.status != 200)
        seen = f"{answered} of {len(after)}" + (f", else {dict(others_said)}" if others_said else "")
        yield Finding("requests after that are answered", seen, answered == len(after))
        self.one.restart()
        yield self.rows([*(got for got in streams if got.is_whole), *after])

    def rows(self, answers: list[Got]) -> Finding:
        ids = [got.headers["x-request-id"] for got in answers if got.status == 200]

        def found() -> list[int]:
            pages = [self._admin(self.two, "GET", f"/admin/usage?request_id={each}").json["rows"] for each in ids]
            return [len(page) for page in pages]

        seconds_until(lambda: set(found()) == {1})
        counts = Counter(found())
        seen = f"{counts[1]} of {len(ids)}; {len(ids) - counts[1]} lost or doubled"
        return Finding("every answer has exactly one row", seen, counts[1] == len(ids))

    @staticmethod
    def _admin(server: HermesServer, method: str, path: str, body: Any = None) -> Got:
        got = ask(server.port, method, path, body, ADMIN)
        if got.status >= 300:
            raise RuntimeError(f"{method} {path} answered {got.status}: {got.body}")
        return got


def config(port: int) -> dict[str, Any]:
    """Two tiers; the first has a model that may fail, and one that does not."""

    def tier(*names: str) -> dict[str, Any]:
        base_url = f"http://127.0.0.1:{port}/v1"
        return {"endpoints": [{"model": name, "base_url": base_url, "api_key_env": ""} for name in names]}

    circuits = {"failure_threshold": 3, "recovery_timeout_sec": 60}
    return {"models": {"simple": tier("first", "second"), "complex": tier("large")}, "circuit_breaker": circuits}


def measure() -> list[Finding]:
    with ExitStack() as held:
        shared = {
            "HERMES_STATE_URL": held.enter_context(redis()),
            "HERMES_DATABASE_URL": held.enter_context(postgres()),
            "HERMES_SECRET": "the same for both of them",
        }
        wanted = config(held.enter_context(provider()))
        servers = []
        for _ in range(2):
            servers.append(HermesServer.start(wanted, **shared))
            held.callback(servers[-1].stop)
        both = held.enter_context(balancer([server.port for server in servers]))
        return list(Pair(servers[0], servers[1], both).findings())


def table(findings: list[Finding]) -> str:
    lines = [f"| {found.what} | {found.seen} | {'yes' if found.holds else '**no**'} |" for found in findings]
    return "\n".join(["| | seen | holds |", "| --- | --- | --- |", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(description="Two gateways behind one balancer: are they one?")
    parser.add_argument("--markdown", action="store_true", help="write the table into docs/performance.md")
    arguments = parser.parse_args()
    programs = {"nginx": nginx(), "redis-server": shutil.which("redis-server"), "postgresql": postgres_programs()}
    missing = [name for name, found in programs.items() if found is None]
    if missing:
        print(f"Skipped: it needs {' and '.join(missing)} (Debian: nginx-light, redis-server, postgresql).")
        return 0
    clean_up_when_told_to_end()
    findings = measure()
    print(table(findings))
    if arguments.markdown:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{table(findings)}\n{END}{after}", encoding="utf-8")
    return 0 if all(found.holds for found in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
