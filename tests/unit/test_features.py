"""What the surrogate sees of a text: the same terms as scikit-learn, a surface of bounded cost, cue words."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from hermes.routing import features
from hermes.routing.cues import KINDS, Cues, cues

TEXTS = [
    pytest.param("Why is 3.14 < pi?  It's a well-known   fact!", id="English with digits and double spaces"),
    pytest.param("", id="nothing"),
    pytest.param("  \n\t ", id="only spaces"),
    pytest.param("a I", id="words of one letter"),
    pytest.param("如何设计秒杀系统？CPU 飙高 100%", id="Chinese"),
    pytest.param("صمم بنية نظام دفع إلكتروني، وقارن", id="Arabic"),
    pytest.param("Größe ÄNDERN İstanbul Straße ΣΊΣΥΦΟΣ", id="letters that grow in lower case"),
    pytest.param("def f(x):\n    return {x_1: 'a'}  # ok?", id="code"),
    pytest.param("half \ud83d pair and 😀", id="half a surrogate pair"),
    pytest.param("word " * 600, id="long"),
]


def surface(text: str) -> dict[str, float]:
    clipped = features.clip(text)
    prepared = features.prepare(clipped)
    return dict(zip(features.SURFACE, features.surface(clipped, prepared, features.words(prepared)), strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_words_and_pairs_are_those_of_scikit_learns_word_analyzer(text: str) -> None:
    theirs = TfidfVectorizer(
        preprocessor=features.prepare, ngram_range=(1, 2), token_pattern=features.WORD_PATTERN
    ).build_analyzer()

    listed = features.words(features.prepare(text))

    assert Counter([*listed, *features.word_pairs(listed)]) == Counter(theirs(text))


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_are_those_of_scikit_learns_char_wb_analyzer(text: str) -> None:
    theirs = TfidfVectorizer(preprocessor=features.prepare, analyzer="char_wb", ngram_range=(2, 5)).build_analyzer()

    ours = [piece for word in features.prepare(text).split() for piece in features.pieces(word)]

    assert Counter(ours) == Counter(theirs(text))


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_has_a_number_for_every_name(text: str) -> None:
    assert all(value == value and abs(value) < 100 for value in surface(text).values())


@pytest.mark.parametrize(
    ("text", "name", "low", "high"),
    [
        pytest.param("Translate into French: " + "The sun is out. " * 20, "light_with_paste", 0.8, 1, id="paste"),
        pytest.param("Design a queue that survives a crash", "light_with_paste", 0, 0, id="no paste"),
        pytest.param("What is a mutex?", "asks_a_fact", 1, 1, id="a fact in English"),
        pytest.param("Was ist ein Wald?", "asks_a_fact", 1, 1, id="a fact in German"),
        pytest.param("¿Cuál es la capital?", "asks_a_fact", 1, 1, id="a fact in Spanish"),
        pytest.param("ما هي عاصمة مصر؟", "asks_a_fact", 1, 1, id="a fact in Arabic"),
        pytest.param("什么是递归？", "asks_a_fact", 1, 1, id="a fact in Chinese"),
        pytest.param("Prove it", "asks_a_fact", 0, 0, id="no question"),
        pytest.param("```\nx\n```", "code_fence", 1, 1, id="code fence"),
        pytest.param("x => y", "code", 1, 1, id="code"),
        pytest.param("see my_table and getName()", "identifiers", 1, 2, id="identifiers"),
        pytest.param("x^2 <= f(x)", "formulas", 1, 2, id="formulas"),
        pytest.param("200M rows, 40 ms, 3 weeks", "quantities", 1.3, 1.7, id="quantities"),
        pytest.param("Who sang 'Null Pointer Blues'?", "quoted", 0.6, 0.8, id="a quote"),
        pytest.param("it's Tom's book, isn't it", "quoted", 0, 0, id="apostrophes are no quotes"),
        pytest.param("hello, please implement a lock and prove it", "chat_and_task", 1, 1, id="greeting and task"),
        pytest.param("hello there", "chat_and_task", 0, 0, id="greeting alone"),
        pytest.param("谁发明了电话？ملف؟", "question_marks", 1, 1.2, id="question marks of other scripts"),
    ],
)
def test_the_surface_tells_what_a_message_is_like(text: str, name: str, low: float, high: float) -> None:
    assert low <= surface(text)[name] <= high


def test_a_chinese_text_is_as_long_as_its_translation() -> None:
    chinese, english = surface("请用一句话概括下面的内容"), surface("Summarise the following in one sentence")

    assert abs(chinese["length"] - english["length"]) < 0.2


def test_of_a_long_text_only_beginning_and_end_count() -> None:
    beginning, end = "a" * features.HEAD_CHARS, "z" * features.TAIL_CHARS

    assert features.clip(f"{beginning}{'m' * 100_000}{end}") == f"{beginning} {end}"
    assert features.clip(beginning + end) == beginning + end


@pytest.mark.parametrize(
    "unit", ["a", "1", "_a", "'", "' a", "aB", "; ", "1,", "a.", "/a", "\\a", "{\n", "中", "é ", '"a', "--", "x=", "f("]
)
def test_no_text_takes_long(unit: str) -> None:
    """A pattern that looks back and forth over a run takes seconds for 2,000 characters."""
    text = (unit * 2000)[:2000]

    start = time.thread_time()
    surface(text)

    assert time.thread_time() - start < 0.05


def test_cues_match_beginnings_or_whole_words_of_their_kind() -> None:
    known = Cues.parse("# a comment\n\n[build]\nimplement code. 设计\n[chat]\nhi thanks")

    counts = known.count("hi! codes for implementing 设计图, code", ["hi", "codes", "for", "implementing", "code"])

    assert dict(zip(KINDS, counts.total, strict=True))["build"] == 3
    assert dict(zip(KINDS, counts.total, strict=True))["chat"] == 1
    assert counts.opening[KINDS.index("chat")]


def test_an_arabic_cue_is_found_behind_its_prefixes() -> None:
    tech = KINDS.index("tech")

    assert cues().count("والخادم", ["والخادم"]).total[tech] == 1


def test_another_list_of_cues_is_another_version_of_the_features() -> None:
    assert Cues.parse("[chat]\nhi").fingerprint != Cues.parse("[chat]\nho").fingerprint
    assert features.fingerprint() == f"{features.VERSION}:{cues().fingerprint}"


def test_the_memory_of_words_is_bounded() -> None:
    known = Cues.parse("[chat]\nhi")

    for number in range(20_000):
        known.count("x", [f"w{number}"])

    assert len(known._known) <= 8192
