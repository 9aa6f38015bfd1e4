"""Fitting the surrogate: its rows, its templates, its thresholds, and a whole fit on a small sample."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.progress import Progress

from hermes.learning import fit_starter, rows, thresholds
from hermes.learning.templates import LICENSE, SOURCE, Prompt, TemplateInvalid, generate, parse
from hermes.learning.tfidf import Shape, TfidfClassifier
from hermes.routing import artifact
from hermes.routing.surrogate import TfidfSurrogate
from hermes.routing.surrogates import STARTER
from hermes.settings import ROOT

DATA = ROOT / "hermes" / "learning" / "data" / "starter.jsonl.gz"
SMALL = Shape(most_words=500, most_pieces=800)


def prompt(text: str, tier: str = "simple", source: str = "s", family: str = "") -> Prompt:
    return Prompt(text, "complex" if tier == "complex" else "simple", source, "ours", family or text)


@pytest.fixture(scope="module")
def sample() -> list[Prompt]:
    """Some rows of every kind."""
    return generate()[::4]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(
        "# pets\n@pet = cat | dog | bird\n@n = 1 | 2\n\n[simple x2] facts\nIs a {pet} old?\nA {json} stays.\n"
        "[complex x9] tasks\nBuild {n} houses\\nfor a {pet}\n",
        encoding="utf-8",
    )
    return tmp_path


# -- templates


def test_patterns_are_expanded_up_to_the_number_of_their_section(folder: Path) -> None:
    made = generate(folder)

    assert Counter(each.family for each in made) == {
        "a:Is a {pet} old?": 2,
        "a:A {json} stays.": 1,
        "a:Build {n} houses\nfor a {pet}": 6,
    }
    assert {each.tier for each in made if "houses" in each.text} == {"complex"}
    assert {(each.source, each.license) for each in made if "old" in each.text} == {(f"{SOURCE}/a/facts", LICENSE)}


def test_the_same_prompts_are_made_each_time(folder: Path) -> None:
    assert generate(folder) == generate(folder)
    assert generate(folder, seed=2) != generate(folder, seed=3)


@pytest.mark.parametrize("text", ["A pattern alone\n", "[medium x2] odd\nA pattern\n"])
def test_a_pattern_file_that_makes_no_sense_names_the_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.txt").write_text(text)

    with pytest.raises(TemplateInvalid, match=r"bad\.txt:1"):
        parse(tmp_path / "bad.txt")


def test_our_templates_speak_six_languages_of_both_tiers() -> None:
    made = Counter((each.source.split("/")[1].split("_")[0], each.tier) for each in generate())

    for language in ("en", "es", "de", "fr", "zh", "ar"):
        for tier in ("simple", "complex"):
            assert made[language, tier] >= 40, (language, tier)


def test_no_template_repeats_an_evaluation_prompt() -> None:
    evaluation = {row.text.strip().lower() for row in rows.read_rows(fit_starter.EVALUATION)}

    assert not [each.text for each in generate() if each.text.strip().lower() in evaluation]


# -- rows


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_rows_are_read_packed_or_not(tmp_path: Path, name: str) -> None:
    line = json.dumps({"prompt": "Hi", "label": "simple", "source": "chat", "license": "MIT"}) + "\n\n"
    (tmp_path / name).write_bytes(gzip.compress(line.encode()) if name.endswith("gz") else line.encode())

    assert rows.read_rows(tmp_path / name) == [Prompt("Hi", "simple", "chat", "MIT", "Hi")]


def test_a_row_of_no_tier_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": "Hi", "label": "medium"}))

    with pytest.raises(ValueError, match="medium"):
        rows.read_rows(tmp_path / "rows.jsonl")


def test_rows_that_resemble_another_text_leave() -> None:
    near, far = prompt("Is the  Tomato a fruit?"), prompt("Is the potato from Peru or from Chile?")

    assert rows.without_near([near, far], ["is the tomato a fruit"]) == [far]


def test_a_text_that_comes_twice_stays_once_and_first() -> None:
    first, again = prompt("Hi", source="a"), prompt("Hi", source="b")

    assert rows.distinct([first, prompt("Ho"), again]) == [first, prompt("Ho")]


def test_tiers_weigh_the_same_and_large_sources_do_not_drown_small_ones() -> None:
    listed = [prompt(f"many {n}", source="many") for n in range(100)]
    listed += [prompt(f"few {n}", source="few") for n in range(4)] + [prompt("hard", "complex", "tasks")]

    weight = rows.weights(listed)

    assert weight[:104].sum() == pytest.approx(weight[104:].sum())
    assert weight[:100].sum() == pytest.approx(5 * weight[100:104].sum())


def test_every_shipped_row_names_its_licence() -> None:
    listed = rows.read_rows(DATA)

    assert len(listed) == 8691
    assert {row.license.split("+")[0] for row in listed} == {"Apache-2.0", "CC-BY-3.0", "MIT", "ours"}
    assert all(row.source for row in listed)


# -- thresholds


def test_probabilities_are_calibrated() -> None:
    chance = np.random.default_rng(1)
    scores = chance.normal(0, 2, 20_000)
    is_complex = chance.random(20_000) < 1 / (1 + np.exp(-(0.7 * scores - 0.5)))

    sigmoid = thresholds.calibrate(scores, is_complex, np.ones(20_000))

    assert sigmoid.slope == pytest.approx(0.7, abs=0.03)
    assert sigmoid.offset == pytest.approx(-0.5, abs=0.05)


def test_the_cut_lies_where_mistakes_cost_least() -> None:
    """A complex prompt at 0.42 among simple ones at 0.3: below a half, because missing it costs more."""
    p_complex = np.array([0.3] * 8 + [0.42] * 2 + [0.9] * 8)
    is_complex = np.array([False] * 8 + [True] * 10)

    assert thresholds.choose_cut(p_complex, is_complex, np.ones(18)) in (0.35, 0.4)


def test_acceptance_keeps_both_tiers_right_often_enough() -> None:
    p_complex = np.concatenate([np.full(100, 0.8), np.full(100, 0.97), np.full(200, 0.02)])
    is_complex = np.concatenate([np.arange(100) < 80, np.ones(100, bool), np.zeros(200, bool)])

    accepted = thresholds.choose_acceptance(p_complex, is_complex, np.ones(400), 0.5)
    quality = thresholds.measure(p_complex, is_complex, np.ones(400), 0.5, accepted)

    assert accepted == pytest.approx(0.81)
    assert (quality.accepted, quality.accepted_right) == (0.75, 1.0)


def test_where_nothing_is_right_often_enough_nothing_is_accepted() -> None:
    p_complex, is_complex = np.full(100, 0.8), np.arange(100) < 80

    assert thresholds.choose_acceptance(p_complex, is_complex, np.ones(100), 0.5) == 1.0


# -- the fit


def test_what_is_served_is_what_was_fitted(tmp_path: Path, sample: list[Prompt]) -> None:
    """The file and the serving side change no score by more than a millionth."""
    texts, is_complex = [row.text for row in sample], fit_starter.tiers(sample)
    fitted = TfidfClassifier(SMALL).fit(texts, is_complex, rows.weights(sample))

    about = {"calibration": {"slope": 1, "offset": 0}, "thresholds": {"complex": 0.5, "accept": 0.9}}
    artifact.write(tmp_path, about, *fitted.tables())
    served = TfidfSurrogate(artifact.read(tmp_path))

    np.testing.assert_allclose([served.score(text) for text in texts], fitted.scores(texts), atol=1e-6)
    assert len(artifact.read(tmp_path).vocabulary["words"]) == SMALL.most_words


def test_a_fit_writes_a_directory_that_is_served(tmp_path: Path, sample: list[Prompt]) -> None:
    written = io.StringIO()
    with Progress(console=Console(file=written, force_terminal=True)) as progress:
        quality = fit_starter.fit(sample, tmp_path / "out", {}, progress, shape=SMALL, folds=2, jobs=1)

    manifest = artifact.read(tmp_path / "out").manifest
    assert quality.accuracy > 0.75
    assert manifest["cross_validation"]["accuracy"] == round(quality.accuracy, 4)
    assert manifest["counts"]["rows"] == len(sample)
    assert TfidfSurrogate(artifact.read(tmp_path / "out")).judge("hello").tier == "simple"
    assert "Cross-validation" in written.getvalue()


def test_the_command_says_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    done = CliRunner().invoke(fit_starter.main, [str(tmp_path / "absent"), str(tmp_path)])

    assert done.exit_code == 2
    assert "absent" in done.output


def test_what_ships_was_fitted_on_what_ships() -> None:
    """Whoever changes the rows or a template must fit anew."""
    assert artifact.read(STARTER).manifest["data_sha256"] == fit_starter.data_sha256(DATA)
