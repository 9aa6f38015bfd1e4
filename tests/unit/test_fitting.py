"""A whole fit on traffic: what goes live, and the sentence where nothing does."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hermes.cli.main import main
from hermes.errors import HermesError
from hermes.learning.counted import CountedClassifier, count
from hermes.learning.fitting import Options, fit
from hermes.learning.gate import NotBetter
from hermes.learning.job import Place, live_surrogate, opened, recent_traffic
from hermes.learning.tfidf import TfidfClassifier
from hermes.learning.traffic import TrafficUnusable, collected
from hermes.routing import artifact
from hermes.routing.second import with_second_look
from hermes.routing.surrogates import starter
from hermes.settings import Settings
from hermes.storage.labels import Audit, LabelRepository, Taught

WORDS = Options(embeddings=None, jobs=1)
HARD = ("reconcile ledger", "audit clause", "model churn", "trace outage")
EASY = ("opening hours of", "thank you for", "phone number of", "nice picture of")
NAMES = ("Lima", "Oslo", "Cairo", "Quito", "Hanoi", "Tunis", "Minsk", "Sofia", "Dakar", "Accra", "Kyoto", "Perth")


def said(n: int, seed: int = 0, noise: float = 0.0, day: int = 10) -> list[Taught]:
    """Verdicts of a teacher whose rule a classifier can find, with some that are mere chance."""
    chance = random.Random(seed)
    found = []
    for number in range(n):
        is_hard = chance.random() < 0.5
        words = [chance.choice(HARD if is_hard else EASY), *chance.sample(NAMES, 3), chance.choice("abcdefgh") * 3]
        tier = "complex" if is_hard != (chance.random() < noise) else "simple"
        moment = f"2026-05-{day}T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z"
        found.append(Taught(moment, " ".join(words), tier))
    return found


def flipped(taught: list[Taught]) -> list[Taught]:
    """The same texts a day later, with every other verdict turned round."""
    other = {"simple": "complex", "complex": "simple"}
    return [
        replace(one, tier=other[one.tier] if number % 2 else one.tier, created_at="2026-05-11")
        for number, one in enumerate(taught)
    ]


def untracked(steps: Any, total: int, description: str) -> Any:
    return steps


def fitted(taught: list[Taught], live: Any = None, options: Options = WORDS) -> Any:
    return fit(collected(taught), live or starter(), options, untracked)


def test_what_the_teacher_does_is_learned_and_served(tmp_path: Path) -> None:
    found = fitted(said(400))

    found.write(tmp_path / "v1")
    found.check(tmp_path / "v1")
    served = with_second_look(artifact.read(tmp_path / "v1"), "v1")
    verdicts = [(served.judge(one.text), one.tier) for one in said(200, seed=99)]
    accepted = [
        verdict.tier == tier for verdict, tier in verdicts if verdict.confidence >= served.threshold_of(verdict.tier)
    ]

    assert len(accepted) > 100
    assert np.mean(accepted) >= 0.95
    certificate = found.manifest["certificate"]
    assert certificate["lower"] >= certificate["target"] == 0.95
    assert found.manifest["gate"]["live"].startswith("starter@")
    assert served.evidence[0].texts > 50


def test_a_wrong_simple_costs_more_so_it_must_be_surer(tmp_path: Path) -> None:
    found = fitted(said(400, noise=0.01))
    found.write(tmp_path / "v1")
    served = with_second_look(artifact.read(tmp_path / "v1"), "v1")

    assert served.threshold_of("simple") > served.threshold_of("complex")


@pytest.mark.parametrize(
    ("taught", "error", "says"),
    [
        pytest.param([], TrafficUnusable, "There are 0 texts", id="none"),
        pytest.param(said(60), TrafficUnusable, "There are 60 texts .* 100 are needed", id="too few"),
        pytest.param(
            [replace(one, tier="simple") for one in said(200)],
            TrafficUnusable,
            "called 0 of 200 texts complex",
            id="one",
        ),
        pytest.param(said(300, noise=0.5), NotBetter, "cannot be shown for any threshold", id="mere chance"),
        pytest.param(
            [*said(150), *flipped(said(150))],
            TrafficUnusable,
            "judged again it judged .* as before: nobody can agree",
            id="contradictory",
        ),
    ],
)
def test_where_nothing_can_be_learned_the_sentence_says_why(
    taught: list[Taught], error: type[HermesError], says: str
) -> None:
    with pytest.raises(error, match=says):
        fitted(taught)


def test_a_teacher_who_wavers_is_named_as_what_stands_in_the_way() -> None:
    traffic = collected(said(300, noise=0.08))

    with pytest.raises(
        TrafficUnusable, match=r"Of 100 texts .* judged 70 as before: nobody .* more than 87\.1% of cases"
    ):
        fit(replace(traffic, asked_again=100, changed=30), starter(), WORDS, untracked)
    with pytest.raises(NotBetter, match=r"judged 9 of 100 texts otherwise .* agree with it in some 95\.3% only"):
        fit(replace(traffic, asked_again=100, changed=9), starter(), WORDS, untracked)


def test_odd_texts_can_be_learned_from(tmp_path: Path) -> None:
    """Empty ones are none; enormous ones, half characters and every script are."""
    odd = [
        "\ud83d half",
        "\0 nul",
        "x" * 500_000,
        "中文" * 3000,
        "שלום עולם",
        "こんにちは",
        "नमस्ते",
        "😀" * 50,
        "-" * 90,
    ]
    taught = [Taught(f"2026-05-11T00:00:{n:02d}.000Z", text, "complex") for n, text in enumerate([*odd, "", "  "])]

    found = fitted([*said(300), *taught])
    found.write(tmp_path / "v1")
    found.check(tmp_path / "v1")

    assert found.manifest["counts"]["rows"] == 300 + len(odd)


def test_the_live_surrogate_is_replaced_by_a_better_one_only(tmp_path: Path) -> None:
    first = fitted(said(300))
    first.write(tmp_path / "v1")
    live = with_second_look(artifact.read(tmp_path / "v1"), "v1")

    with pytest.raises(NotBetter, match="only 10 texts have come since the live surrogate v1"):
        fitted([*said(300), *said(10, seed=5, day=11)], live)
    with pytest.raises(NotBetter, match="is not worse"):
        fitted([*said(300), *said(60, seed=6, day=11)], live)

    live.raise_to(2.0)  # audits have shown that it is not worth its threshold any more
    assert fitted([*said(300), *said(60, seed=6, day=11)], live).manifest["gate"]["live_share"]["accepted"] == 0


def test_what_is_not_better_than_length_is_refused() -> None:
    chance = random.Random(4)
    taught = []
    for number in range(300):
        is_long = chance.random() < 0.5
        text = " ".join(chance.choice(NAMES) for _ in range(60 if is_long else 3))
        taught.append(
            Taught(f"2026-05-10T00:{number // 60:02d}:{number % 60:02d}.000Z", text, "complex" if is_long else "simple")
        )

    with pytest.raises(NotBetter, match="the length of the text alone is in 100"):
        fitted(taught)


def test_counting_once_gives_what_scikit_learns_vectorizers_give() -> None:
    taught = said(160, noise=0.1)
    texts, is_complex = [one.text for one in taught], np.array([one.tier == "complex" for one in taught])
    seen, weights = np.arange(160) < 120, np.linspace(0.5, 2, 160)

    once = CountedClassifier(count(texts)).fit(seen, is_complex, weights).scores(~seen)
    anew = TfidfClassifier().fit(texts[:120], is_complex[:120], weights[:120]).scores(texts[120:])

    np.testing.assert_allclose(once, anew, atol=1e-4)


def test_sentence_embeddings_look_at_what_words_leave_open(tmp_path: Path) -> None:
    """With the real model: the written version decides as the fitted one did, which `check` compares."""
    options = replace(WORDS, embeddings="minilm", prefer_embeddings=True)

    found = fitted(said(240), options=options)
    found.write(tmp_path / "v1")
    found.check(tmp_path / "v1")

    assert found.manifest["embedding"]["model"] == "minilm"
    served = with_second_look(artifact.read(tmp_path / "v1"), "v1")
    verdict = served.reconsider("audit clause for Lima and Oslo")
    assert verdict is not None
    assert verdict.tier == "complex"


def test_without_the_model_words_are_fitted_and_a_sentence_says_so() -> None:
    found = fitted(said(200), options=replace(WORDS, embeddings="glove"))

    assert "embedding" not in found.manifest
    assert "Fitted on words alone, as there is no embedding model 'glove'" in found.note


# -- the command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def traced(folder: Path, taught: list[Taught]) -> None:
    (folder / "traces").mkdir(exist_ok=True)
    lines = [
        json.dumps(
            {"ts": one.created_at, "event": "classify", "source": "teacher", "classifier_result": one.tier,
             "user_message_preview": one.text}
        )
        for one in taught
    ]  # fmt: skip
    (folder / "traces" / "router-trace-20260510.jsonl").write_text("\n".join(lines) + "\n")


def test_a_fit_is_in_force_reported_and_taken_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traced(folder, said(300))

    assert main(["surrogate", "fit", "--embeddings", "none", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["replaced"] is True
    assert (folder / "data/surrogate/current").read_text().strip() == content["version"]
    assert content["certificate"]["lower"] >= 0.95

    assert main(["surrogate", "report"]) == 0
    assert content["version"] in capsys.readouterr().out
    assert main(["surrogate", "report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["surrogate"]["model"].startswith(content["version"])

    assert main(["surrogate", "rollback"]) == 0
    assert "The surrogate that ships with Hermes decides" in capsys.readouterr().out
    assert main(["surrogate", "rollback"]) == 1


def test_too_little_is_a_sentence_and_a_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traced(folder, said(20))

    assert main(["surrogate", "fit", "--json"]) == 1

    captured = capsys.readouterr()
    assert json.loads(captured.out)["replaced"] is False
    assert "There are 20 texts" in captured.err
    assert "logging.store_prompts is preview" in captured.err
    assert not (folder / "data/surrogate/current").exists()


def test_after_it_has_stepped_back_what_came_since_counts_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The teacher says the opposite of what it said: together with the old verdicts nothing could be certified."""
    old = said(600)
    turned = [replace(one, tier="simple" if one.tier == "complex" else "complex") for one in said(600, 3, day=12)]
    audits = [
        Audit(f"2026-05-11T00:00:{at:02d}.000Z", f"a{at}", starter().version, None, "simple", "complex", 0.99, 0.1)
        for at in range(20)
    ]
    with opened("sqlite:///data/hermes.db") as database:
        for audit in audits:
            LabelRepository(database).add(audit)

    traced(folder, [*old, *turned[:300]])
    assert main(["surrogate", "fit", "--embeddings", "none", "--jobs", "1"]) == 1
    refused = capsys.readouterr().err
    assert "stepped back at 2026-05-11T00:00:09.000Z, and 300 texts have come since: from 500 on" in refused

    traced(folder, [*old, *turned])
    assert main(["surrogate", "fit", "--embeddings", "none", "--jobs", "1", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["learned_since"] == "2026-05-11T00:00:09.000Z"
    assert 590 < first["counts"]["rows"] <= 600

    traced(folder, [*old, *turned, *said(100, 4, day=13)])
    place = Place(Settings.from_env(), None)
    traffic, waits = recent_traffic(place, None, *live_surrogate(place))
    assert (traffic.since, waits) == (first["learned_since"], "")
    assert min(row.created_at for row in traffic.rows) > traffic.since, "the old verdicts stay out"


def test_a_source_that_is_none_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["surrogate", "fit", "--from", "nowhere"]) == 1
    assert "nowhere is neither a folder of traces nor a database" in capsys.readouterr().err


def test_a_server_never_loads_what_fits() -> None:
    """scikit-learn takes a hundred megabytes and seconds to load."""
    heavy = ("sklearn", "scipy", "joblib", "onnxruntime")
    code = f"import sys; import hermes.bootstrap; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
