"""A running server takes up what is fitted without a restart or a lost request, and refuses what is unsound."""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes.routing.surrogates import STARTER

from . import replies
from .gateway import eventually
from .world import World

FIT_LIMIT_S = 200.0
"""A fit takes seconds, and a busy machine its time."""

TALK = "hello there, how is it going with you today"


@pytest.fixture
def taught(world: World) -> World:
    """A world with a teacher, whose surrogate comes from the folder of versions."""
    teacher = {"model": "teacher-model", "base_url": world.teacher.base_url, "api_key_env": ""}
    world.teacher.script(replies.chat("complex"))
    shutil.rmtree(world.gateway.folder / "data" / "surrogate", ignore_errors=True)
    world.configure(classifier={**teacher, "timeout_seconds": 2, "surrogate": {"audit_rate": 0}})
    return world


def model(world: World) -> str:
    return str(world.gateway.admin("GET", "/classifier/report?hours=1").json["surrogate"]["model"])


def decides(world: World, name: str) -> None:
    eventually(lambda: model(world), lambda found: found.startswith(f"{name}@"), 8.0)


def versions(world: World) -> tuple[Path, str, str]:
    """Two versions of names that are new: one that decides nearly all, and one that decides nearly nothing."""
    folder = world.gateway.folder / "data" / "surrogate"
    names = [f"2026051{number}T000000Z-{secrets.token_hex(3)}" for number in range(2)]
    for number, name in enumerate(names):
        shutil.copytree(STARTER, folder / name, dirs_exist_ok=True)
        manifest = json.loads((folder / name / "manifest.json").read_text())
        manifest["thresholds"]["accept"] = (0.5, 0.9999)[number]
        (folder / name / "manifest.json").write_text(json.dumps(manifest))
    return folder, *names


def point(folder: Path, name: str) -> None:
    (folder / "new").write_text(name)
    (folder / "new").replace(folder / "current")


def test_what_is_put_in_force_decides_within_seconds_and_loses_nobody(taught: World) -> None:
    folder, first, second = versions(taught)
    point(folder, first)
    decides(taught, first)
    statuses: list[int] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            statuses.append(taught.gateway.chat(TALK, tier=None).status)

    thread = threading.Thread(target=ask)
    thread.start()
    for name in (second, first, second):
        point(folder, name)
        decides(taught, name)
    done.set()
    thread.join()

    assert set(statuses) == {200}
    answer = taught.gateway.chat(TALK, tier=None)
    assert answer.headers["x-hermes-decision"] == "teacher", "nothing reaches the second version's threshold"


def spoil_weights(version: Path) -> None:
    (version / "weights.npz").write_bytes(b"PK not at all")


def cut_short(version: Path) -> None:
    whole = (version / "vocabulary.json").read_bytes()
    (version / "vocabulary.json").write_bytes(whole[: len(whole) // 2])


def spoil_format(version: Path) -> None:
    (version / "manifest.json").write_text('{"format": "other"}')


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        pytest.param(spoil_weights, "weights.npz: the SHA-256 is not the manifest's", id="tampered"),
        pytest.param(cut_short, "vocabulary.json: the SHA-256 is not the manifest's", id="truncated"),
        pytest.param(spoil_format, "the format is not hermes-surrogate/1", id="foreign"),
    ],
)
def test_an_unsound_version_is_refused_in_a_log_line_and_the_old_one_goes_on(
    taught: World, spoil: Callable[[Path], None], says: str
) -> None:
    folder, first, second = versions(taught)
    point(folder, first)
    decides(taught, first)

    spoil(folder / second)
    point(folder, second)
    eventually(taught.gateway.logs, lambda logs: says in logs, 8.0)

    assert model(taught).startswith(first)
    assert taught.gateway.chat(TALK, tier=None).headers["x-hermes-decision"].startswith("surrogate")


def traces(world: World, number: int) -> None:
    """Of today: the server forgets what is old."""
    today = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    for at in range(number):
        is_hard = at % 3 == 0
        task = "reconcile the ledger of" if is_hard else "opening hours of"
        text = f"{task} {'abcdefghij'[at % 10] * (at % 23 + 1)} {at // 10}"
        tier = "complex" if is_hard else "simple"
        moment = f"{today:%Y-%m-%d}T{at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}.000Z"
        rows.append({"ts": moment, "event": "classify", "source": "teacher", "classifier_result": tier,
                     "user_message_preview": text})  # fmt: skip
    folder = world.gateway.folder / "traces"
    folder.mkdir(exist_ok=True)
    (folder / f"router-trace-{today:%Y%m%d}.jsonl.1").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.mark.timeout(240)
def test_a_refit_under_load_is_taken_up_loses_nobody_and_is_taken_back(taught: World) -> None:
    traces(taught, 240)
    statuses: list[int] = []
    is_done = threading.Event()

    def ask() -> None:
        while not is_done.is_set():
            statuses.append(taught.gateway.chat(f"{TALK} {len(statuses)}", tier=None).status)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        done = taught.gateway.command(
            "surrogate", "refit", "--embeddings", "none", "--jobs", "1", "--json", limit_s=FIT_LIMIT_S
        )
    finally:
        is_done.set()
        asking.join()

    assert done.returncode == 0, done.stderr
    assert set(statuses) == {200}
    content = json.loads(done.stdout)
    assert content["server"] == model(taught)
    assert content["server"].startswith(f"{content['version']}@")
    assert taught.gateway.command("surrogate", "rollback").returncode == 0
    decides(taught, "starter")


@pytest.mark.timeout(240)
def test_the_second_look_works_in_a_server_and_holds_up_no_stream(taught: World) -> None:
    """The model computes in a native thread, which must get along with gevent; thirty texts that words leave open."""
    traces(taught, 240)
    options = ("--embeddings", "minilm", "--prefer-embeddings", "--jobs", "1", "--json")
    done = taught.gateway.command("surrogate", "refit", *options, limit_s=FIT_LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["embedding"]["model"] == "minilm"

    odd = [f"{words} number {number}" for number in range(15) for words in ("zebra umbrella", "quantum violin")]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda text: taught.gateway.chat(text, tier=None), odd))

    assert {answer.status for answer in answers} == {200}
    decisions = {answer.headers["x-hermes-decision"].partition(";")[0] for answer in answers}
    assert decisions <= {"surrogate", "teacher"}
    assert "by words alone" not in taught.gateway.logs()
