"""Does a cold installation grow? From no traces to a surrogate of its own, and back when the traffic changes.

A stub stands for the providers and for a teacher with rules of its own, which the surrogate that ships does not know:
questions about banking, travel and the household are *complex* here. 2,000 prompts come in; what the surrogate decides
is audited, `surrogate refit` is called now and then while requests go on. Then the teacher changes its mind, and from
what it says afterwards the installation grows once more.

    python benchmarks/growth.py                 three minutes
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.client import Caller, admin_get
from lab.servers import ADMIN_KEY, PRICE, HermesServer

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "hermes" / "learning" / "data" / "starter.jsonl.gz"
PROMPTS = 2_000
REFIT_AT = (700, 1_300)
CHANGES_FOR = 300
"""Prompts after the teacher has changed its mind."""

RECOVERS_FOR = 1_000
"""Prompts after the surrogate has stepped back from that, and before the next refit."""

AUDIT_RATE = 0.15
CALLERS = 4
WINDOW = 100


@dataclass(slots=True)
class Stub:
    """Providers and teacher on one port."""

    labels: dict[str, str]
    teacher_calls: int = 0
    has_changed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> ThreadingHTTPServer:
        """Serves in a thread of its own."""
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(_completion(stub.answer(asked))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def answer(self, asked: dict[str, Any]) -> str:
        """The teacher's verdict, or a short answer."""
        if asked["model"] != "teacher":
            return "done"
        prompt = asked["messages"][-1]["content"]
        text = prompt.rpartition("\n</message>")[0].rpartition("<message>\n")[2]
        with self.lock:
            self.teacher_calls += 1
        label = self.labels.get(text, "simple")
        return ("simple" if label == "complex" else "complex") if self.has_changed else label


@dataclass(frozen=True, slots=True)
class Point:
    """What one window of the traffic was like."""

    prompts: int
    coverage: float
    teacher_calls: int
    state: str
    model: str


class Run:
    """One installation's life."""

    def __init__(self, stub: Stub, server: HermesServer) -> None:
        self.stub = stub
        self.server = server
        self.points: list[Point] = []
        self.lost = 0
        self._sent = 0

    def send(self, texts: list[str]) -> None:
        """Sends prompts, a window at a time, and notes each window."""
        for start in range(0, len(texts), WINDOW):
            window = texts[start : start + WINDOW]
            calls, began = self.stub.teacher_calls, self._hits()
            with ThreadPoolExecutor(CALLERS) as pool:
                self.lost += sum(status != 200 for status in pool.map(self._one, window))
            time.sleep(0.3)  # audits on their way
            self._sent += len(window)
            surrogate = self.report()["surrogate"]
            hits = surrogate["surrogate_hits"] - began
            point = Point(
                self._sent,
                hits / len(window),
                self.stub.teacher_calls - calls,
                surrogate["state"],
                surrogate["model"],
            )
            self.points.append(point)
            print(
                f"{point.prompts:7,}  {point.coverage:8.0%}  {point.teacher_calls:13}  {point.state:12}  {point.model}",
                flush=True,
            )

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What `python -m hermes …` does in the installation's folder."""
        assert self.server.folder is not None
        env = {**os.environ, **self.server.env, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "hermes", *words]
        return subprocess.run(command, cwd=self.server.folder, env=env, capture_output=True, text=True, check=False)

    def refit(self, meanwhile: list[str]) -> None:
        """Refits while requests go on, none of which may be lost."""
        done = threading.Event()

        def traffic() -> None:
            while not done.is_set():
                self.lost += self._one(random.choice(meanwhile)) != 200

        thread = threading.Thread(target=traffic)
        thread.start()
        found = self.command("surrogate", "refit", "--embeddings", "none", "--jobs", "1")
        done.set()
        thread.join()
        print(f"         refit: {(found.stdout or found.stderr).strip()}", flush=True)

    def report(self) -> dict[str, Any]:
        """The classifier's report."""
        content: dict[str, Any] = json.loads(admin_get(self.server.port, "/classifier/report?hours=1"))
        return content

    def _hits(self) -> int:
        return int(self.report()["surrogate"]["surrogate_hits"])

    def _one(self, text: str) -> int:
        caller = Caller(self.server.port, "growth")
        try:
            return caller.ask(text, model="auto").status
        finally:
            caller.hang_up()


def main() -> int:
    """The whole life; 0 if it was as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    prompts = parser.parse_args().prompts
    changed = prompts + CHANGES_FOR
    recovers = changed + RECOVERS_FOR * prompts // PROMPTS
    texts, labels = traffic(recovers + 2 * WINDOW)
    stub = Stub(labels)
    provider = stub.start()
    server = HermesServer.start(config(provider.server_port), ROUTER_PROXY_API_KEY=ADMIN_KEY)
    run = Run(stub, server)
    print("prompts  coverage  teacher calls  state         surrogate")
    try:
        at = 0
        for until in (*(share * prompts // PROMPTS for share in REFIT_AT), prompts):
            run.send(texts[at:until])
            at = until
            if until < prompts:
                run.refit(texts[:until])
        grown = run.points[-1]
        stub.has_changed = True
        print("         the teacher changes its mind")
        run.send(texts[prompts:changed])
        stepped_back = run.points[-1]
        run.send(texts[changed:recovers])
        run.refit(texts[changed:recovers])
        run.send(texts[recovers:])
        print(run.command("surrogate", "report", "--hours", "1").stdout)
        return int(not judged(run, grown, stepped_back))
    finally:
        server.stop()
        provider.shutdown()


def judged(run: Run, grown: Point, stepped_back: Point) -> bool:
    """Prints what was shown, and whether it was."""
    cold = max((point for point in run.points if point.model.startswith("starter")), key=lambda one: one.teacher_calls)
    checks = (
        (run.lost == 0, f"requests lost, also while refitting: {run.lost}"),
        (
            not grown.model.startswith("starter") and grown.coverage >= 0.5,
            f"coverage by a surrogate of its own: {grown.coverage:.0%} (before: {cold.coverage:.0%})",
        ),
        (
            grown.teacher_calls < cold.teacher_calls,
            f"teacher calls for {WINDOW} prompts: {cold.teacher_calls}, then {grown.teacher_calls} with audits",
        ),
        (
            stepped_back.state == "stepped_back",
            f"after the change: {stepped_back.state.replace('_', ' ')}, {stepped_back.coverage:.0%} decided",
        ),
        (
            run.points[-1].state == "certified" and run.points[-1].coverage >= 0.4,
            f"after a refit on what came since: {run.points[-1].state}, {run.points[-1].coverage:.0%} decided",
        ),
    )
    for is_right, text in checks:
        print(f"{'ok  ' if is_right else 'FAIL'}  {text}")
    return all(is_right for is_right, _ in checks)


def traffic(number: int) -> tuple[list[str], dict[str, str]]:
    """Prompts in random order, and the teacher's verdict on each."""
    rows = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
    random.Random(7).shuffle(rows)
    chosen = [row for row in rows if len(row["prompt"]) < 3_000 and row["prompt"].strip() == row["prompt"]][:number]
    labels = {row["prompt"]: "complex" if row["source"].startswith("clinc") else row["label"] for row in chosen}
    return [row["prompt"] for row in chosen], labels


def config(port: int) -> dict[str, Any]:
    """Two models and a teacher at the stub; no keyword decides."""
    url = f"http://127.0.0.1:{port}/v1"

    def tier(model: str, factor: float) -> dict[str, Any]:
        price = {name: value * factor for name, value in PRICE.items()}
        return {"endpoints": [{"model": model, "base_url": url, "api_key_env": "", "price": price}]}

    return {
        "classifier": {
            "model": "teacher",
            "base_url": url,
            "api_key_env": "",
            "system_prompt": "simple or complex?\n{message}",
            "surrogate": {"audit_rate": AUDIT_RATE},
        },
        "models": {"simple": tier("small", 1), "complex": tier("large", 20)},
        "routing": {"override_keywords": {"simple": [], "complex": []}},
        "logging": {"store_prompts": "full"},
    }


def _completion(text: str) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "stub",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }


if __name__ == "__main__":
    sys.exit(main())
