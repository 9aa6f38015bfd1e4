"""Keywords match whole words and phrases, their forms and single typos, and nothing else."""

from __future__ import annotations

import functools
import itertools
import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.routing.inflection import inflections
from hermes.routing.keywords import CACHE_WORDS, KeywordSet, keyword_set
from hermes.routing.reading import HEAD_CHARS, TAIL_CHARS, Reading, normalise
from hermes.routing.words import ENGLISH, Words, english

EXAMPLE = """
implement debug deploy configure fix error script code automation server thanks lol ok cool nice hello hi ty on no
scan scale copy list ping count
"""
OTHERS = "terror scare sever scrip fixer the of to me you set up on in a is it"
ELIDED = "c d j l m n s t qu un all dell"
KEYWORDS = (*EXAMPLE.split(), "502", "step by step", "how are you", "why doesn't this work", "good morning", "set up")


def found(keywords: list[str], text: str) -> str | None:
    return KeywordSet(keywords).find(text)


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        pytest.param("error", "an error occurred", id="a whole word"),
        pytest.param("error", "error", id="the whole text"),
        pytest.param("error", "(error)!", id="punctuation around it"),
        pytest.param("Error", "AN ERROR", id="case of both"),
        pytest.param("deploy", "déplöy it", id="accents in the text"),
        pytest.param("café", "the cafe there", id="accents in the keyword"),
        pytest.param("smorrebrod", "Smørrebrød", id="letters that Unicode does not decompose"),
        pytest.param("straße", "die STRASSE", id="case folding, not lower case"),
        pytest.param("error", "ｅｒｒｏｒ", id="full-width letters"),
        pytest.param("erreur", "voici l'erreur", id="an elided article is a word of its own"),
        pytest.param("step by step", "think step by step", id="a phrase"),
        pytest.param("step by step", "a step-by-step guide", id="hyphens for spaces"),
        pytest.param("step by step", "STEP_BY_STEP", id="underscores for spaces"),
        pytest.param("step by step", "stepbystep", id="no space at all"),
        pytest.param("step by step", "step-bystep", id="partly joined"),
        pytest.param("step by step", "step \n\t by  step", id="any white space"),
        pytest.param("step by step", "step\u2010by\u2011step", id="typographic hyphens"),
        pytest.param("step-by-step", "step by step", id="the keyword has the hyphens"),
        pytest.param("step_by_step", "stepbystep", id="the keyword has the underscores"),
        pytest.param("stepbystep", "step by step", id="the keyword has no spaces"),
        pytest.param("setup", "a set-up", id="a word written in parts"),
        pytest.param("set up", "my setups", id="a phrase written as one word, in a form"),
        pytest.param("error", "my_error_code", id="underscores end words"),
        pytest.param("doesn't", "it doesnt", id="no apostrophe"),
        pytest.param("doesn't", "it doesn\u2019t", id="typographic apostrophe"),
        pytest.param("doesnt", "it doesn't", id="apostrophe in the text only"),
        pytest.param("doesn't", "it doesn\u00b4t", id="an acute accent as apostrophe"),
        pytest.param("server", "the server's load", id="a genitive is the -s form"),
        pytest.param("why doesn't this work", "Why doesnt this work?", id="a phrase with an apostrophe"),
        pytest.param("thanks!", "thanks a lot", id="the keyword has punctuation at its end"),
        pytest.param("502", "nginx gives a 502 since noon", id="a number"),
        pytest.param("502", "status=502, again", id="a number between punctuation"),
        pytest.param("502", "500-502", id="a number in a range"),
        pytest.param("3 2 1", "3-2-1 go", id="a phrase of numbers"),
        pytest.param("on", "switch it on please", id="a short word"),
        pytest.param("ошибка", "Тут ОШИБКА.", id="Cyrillic"),
        pytest.param("नमस्ते", "नमस्ते दोस्त", id="Devanagari, whose vowel signs are parts of words"),
        pytest.param("خطأ", "هذا خَطَأ كبير", id="Arabic with vowel signs"),
    ],
)
def test_a_keyword_matches_whole_words_whatever_their_writing(keyword: str, text: str) -> None:
    assert found([keyword], text) == keyword


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        pytest.param("hi", "this", id="hi in this"),
        pytest.param("hi", "which history", id="hi in which"),
        pytest.param("ok", "a token", id="ok in token"),
        pytest.param("ty", "the city", id="ty in city"),
        pytest.param("error", "a terror", id="error in terror"),
        pytest.param("ping", "grouping", id="ping in grouping"),
        pytest.param("list", "a specialist", id="list in specialist"),
        pytest.param("count", "the account", id="count in account"),
        pytest.param("502", "5023", id="a number in a longer one"),
        pytest.param("502", "1.502 or 1,502", id="a number behind a point or comma"),
        pytest.param("502", "50 2", id="a number of pieces"),
        pytest.param("502", "503", id="a number with a typo"),
        pytest.param("502", "502s", id="a number has no forms"),
        pytest.param("step by step", "step by. step", id="a sentence ends inside the phrase"),
        pytest.param("step by step", "step by another step", id="a word inside the phrase"),
        pytest.param("step by step", "step by", id="half a phrase at the end"),
        pytest.param("good morning", "morning good", id="the parts in another order"),
        pytest.param("hello", "one hell of a day", id="two words that together are a typo away"),
        pytest.param("नम", "नमस्ते", id="the beginning of a Devanagari word"),
    ],
)
def test_a_keyword_does_not_match_inside_other_words(keyword: str, text: str) -> None:
    assert found([keyword], text) is None


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        pytest.param("error", "errors", id="-s"),
        pytest.param("fix", "fixes", id="-es"),
        pytest.param("deploy", "deployed", id="-ed"),
        pytest.param("configure", "configured", id="-d"),
        pytest.param("deploy", "deploying", id="-ing"),
        pytest.param("deploy", "deployer", id="-er"),
        pytest.param("debug", "debugging", id="the last consonant doubles"),
        pytest.param("scan", "scanned", id="the last consonant doubles in one syllable"),
        pytest.param("configure", "configuring", id="the e goes"),
        pytest.param("copy", "copies", id="y to ies"),
        pytest.param("copy", "copied", id="y to ied"),
        pytest.param("copy", "copying", id="y stays before -ing"),
        pytest.param("api", "APIs", id="three letters are enough"),
        pytest.param("good morning", "good mornings", id="the last word of a phrase"),
        pytest.param("set up", "setting up", id="the first word of a phrase"),
    ],
)
def test_the_forms_of_a_keyword_match(keyword: str, text: str) -> None:
    assert found([keyword], text) == keyword


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        pytest.param("hi", "his", id="two letters have no -s form"),
        pytest.param("on", "ones", id="two letters have no -es form"),
        pytest.param("no", "noes", id="two letters have no form at all"),
        pytest.param("not", "notes", id="-es only where English has it"),
        pytest.param("plan", "planed", id="one syllable doubles its consonant"),
        pytest.param("deploy", "deployment", id="other endings are other words"),
        pytest.param("errors", "error", id="a form does not match its stem"),
    ],
)
def test_what_is_no_form_does_not_match(keyword: str, text: str) -> None:
    assert found([keyword], text) is None


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        pytest.param("fix", "fixs fixes fixed fixer fixing", id="x"),
        pytest.param("code", "codes coded coder coding", id="e"),
        pytest.param("agree", "agrees agreed agreer agreeing", id="ee"),
        pytest.param("die", "dies died dier dying", id="ie"),
        pytest.param("play", "plays played player playing", id="vowel and y"),
        pytest.param("try", "trys tries tried trier trying", id="consonant and y"),
        pytest.param("stop", "stops stopped stopper stopping", id="one syllable"),
        pytest.param("need", "needs needed needer needing", id="two vowels"),
        pytest.param("panic", "panics paniced panicer panicing panicked panicker panicking", id="ic"),
        pytest.param("echo", "echos echoes echoed echoer echoing", id="o"),
        pytest.param("class", "classes classed classer classing", id="ss"),
        pytest.param("quiz", "quizs quizes quizzes quizzed quizzer quizzing", id="u after q is no vowel"),
        pytest.param("502", "", id="digits"),
        pytest.param("hi", "", id="two letters"),
        pytest.param("ошибка", "", id="not English"),
    ],
)
def test_english_forms_are_spelled_as_english_spells_them(word: str, forms: str) -> None:
    assert inflections(word) == set(forms.split())


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        pytest.param("error", "an eror", id="a letter is missing"),
        pytest.param("error", "an errror", id="a letter too many"),
        pytest.param("error", "an errot", id="a wrong letter"),
        pytest.param("error", "an rror", id="the first letter"),
        pytest.param("implement", "implemnt this", id="in a long word"),
        pytest.param("deploy", "deployng", id="in a form"),
        pytest.param("configure", "confguring", id="in a form without e"),
        pytest.param("debug", "debuging", id="in a doubled consonant"),
        pytest.param("good morning", "good mornin", id="in a word of a phrase"),
        pytest.param("configure server", "confgure servr", id="one in each word of a phrase"),
    ],
)
def test_one_typo_is_forgiven_in_five_letters_or_more(keyword: str, text: str) -> None:
    assert found([keyword], text) == keyword


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        pytest.param("error", "terror", id="terror is a word"),
        pytest.param("scale", "scare", id="scare is a word"),
        pytest.param("error", "terrors", id="so is its plural"),
        pytest.param("server", "SEVER it", id="in capitals too"),
        pytest.param("colour", "color", id="American beside British"),
        pytest.param("code", "coode", id="four letters forgive nothing"),
        pytest.param("step by step", "stap by step", id="four letters in a phrase"),
        pytest.param("error", "erorr", id="two letters changed places: distance 2"),
        pytest.param("deploy", "dplyo", id="more than one typo"),
        pytest.param("scan", "scanneed", id="a form of a word of four letters"),
    ],
)
def test_a_word_rightly_spelled_or_too_far_away_is_no_typo(keyword: str, text: str) -> None:
    assert found([keyword], text) is None


def test_a_keyword_is_rightly_spelled_even_where_no_dictionary_has_it() -> None:
    keywords = KeywordSet(["nginx config", "nginy"])

    assert keywords.find("nginx config") == "nginx config"
    assert KeywordSet(["nginx", "nginy conf"]).find("nginy conf") == "nginy conf"
    assert keywords.find("the nginx confib") == "nginx config"


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        pytest.param("python", "用python写函数", id="a Latin keyword between Han letters"),
        pytest.param("分析", "请分析这个算法", id="Han"),
        pytest.param("エラー", "このエラーを直して", id="Katakana"),
        pytest.param("ｴﾗｰ", "エラーです", id="half-width Katakana"),
        pytest.param("ありがとう", "どうもありがとうございます", id="Hiragana"),
        pytest.param("오류", "오류가 났어요", id="Hangul with a particle"),
        pytest.param("좋은 아침", "좋은아침입니다", id="Hangul without the space"),
        pytest.param("ขอบคุณ", "ขอบคุณครับ", id="Thai"),
        pytest.param("ຂອບໃຈ", "ຂອບໃຈຫຼາຍໆ", id="Lao"),
        pytest.param("အမှား", "ဒီအမှားကို", id="Myanmar"),
        pytest.param("កំហុស", "មានកំហុសមួយ", id="Khmer"),
        pytest.param("用python", "请用 Python 写", id="Han and Latin"),
    ],
)
def test_scripts_without_spaces_match_by_substring(keyword: str, text: str) -> None:
    assert found([keyword], text) == keyword


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        pytest.param("分析", "你好", id="another text"),
        pytest.param("python", "用pythonic写", id="the Latin word goes on"),
        pytest.param("用python", "用pythonic写", id="the Latin end of a mixed keyword goes on"),
        pytest.param("か", "が", id="a voiced kana is another letter"),
    ],
)
def test_scripts_without_spaces_do_not_match_what_is_not_there(keyword: str, text: str) -> None:
    assert found([keyword], text) is None


@pytest.mark.parametrize(
    ("keyword", "hit", "miss"),
    [
        pytest.param("c++", "in C++ please", "vitamin C", id="symbols at the end"),
        pytest.param("node.js", "use Node.js", "a node in json.js", id="a point inside"),
        pytest.param("ci/cd", "our CI/CD", "ci or cd", id="a slash inside"),
        pytest.param("/think", "/think hard", "think hard", id="a command"),
        pytest.param(".net", "on .NET 8", "the net", id="a point before it"),
        pytest.param("3.5", "model 3.5!", "13.5", id="a number with a point"),
        pytest.param("👍", "great 👍🏽", "great", id="an emoji"),
        pytest.param(":)", "bye :)", "bye", id="nothing but punctuation"),
    ],
)
def test_symbols_that_are_part_of_a_keyword_are_matched_as_they_stand(keyword: str, hit: str, miss: str) -> None:
    assert found([keyword], hit) == keyword
    assert found([keyword], miss) is None


def test_the_first_keyword_of_the_text_is_reported_as_the_operator_wrote_it() -> None:
    assert found(["Error", "SET-UP"], "a setup without error") == "SET-UP"


def test_empty_keywords_and_texts_match_nothing() -> None:
    assert found(["", " ", "-", "_"], "anything - at _ all") is None
    assert found(["error"], "") is None
    assert found([], "error") is None


def test_left_over_is_what_stands_beside_keywords_and_fillers() -> None:
    keywords = KeywordSet(["thanks", "how are you", "谢谢", "c++"])

    assert keywords.left_over("Thanks so much!", frozenset({"so", "much"})) == []
    assert keywords.left_over("thanks, how-are-you, mate") == ["mate"]
    assert keywords.left_over("谢谢你帮我, ok") == ["ok", "你帮", "我"]
    assert keywords.left_over("谢谢你", frozenset({"你"})) == []
    assert keywords.left_over("thanks for c++ code") == ["for", "code"]


def test_a_huge_paste_is_read_at_its_beginning_and_its_end_only() -> None:
    filler = "word " * 20_000

    assert found(["error"], "error " + filler) == "error"
    assert found(["error"], filler + " error") == "error"
    assert found(["error"], filler + " error " + filler) is None


def test_a_cut_word_is_not_taken_for_a_whole_one() -> None:
    inside = "x" * (HEAD_CHARS - 9) + " " + "un" + "error" + "less"
    behind = "unerror" + " y" * (TAIL_CHARS // 2 - 2) + "yy"
    text = inside + " z" * 10_000 + behind[1:]
    assert len(text) > HEAD_CHARS + TAIL_CHARS

    assert found(["un", "uner", "unerr", "error", "nerror"], text) is None


@pytest.mark.parametrize(
    "text", [pytest.param("\ud800 error", id="before"), pytest.param("err\udfffor error \ud83d", id="inside")]
)
def test_lone_surrogates_do_no_harm(text: str) -> None:
    assert found(["error"], text) == "error"
    assert found(["\ud800", "fix"], "fix") == "fix"


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u05b0\u0591", "\u0e48\u0e38", "\u093c\u0951"])
def test_thousands_of_marks_on_one_letter_are_cut(marks: str) -> None:
    """Sorting them all, as Unicode wants it, would hold the event loop up for a tenth of a second."""
    text = "a" + marks * 2000 + " error"

    assert len(normalise(text)) < 100
    assert found(["error"], text) == "error"


def test_the_memory_of_words_is_bounded() -> None:
    keywords = KeywordSet(["error"])

    for number in range(3 * CACHE_WORDS // 1000):
        keywords.find(" ".join(f"w{number}x{at}" for at in range(1000)))

    assert len(keywords._meanings) <= CACHE_WORDS
    assert keywords.find("eror") == "error"


def test_equal_lists_are_made_ready_once() -> None:
    keywords = ["error", "fix"]

    assert keyword_set(tuple(keywords)) is keyword_set(tuple(keywords))


def test_the_dictionary_knows_every_word_of_its_file() -> None:
    lines = b"abcd\nabce\nerror\nzzzz\n"
    words = Words(lines)

    assert all(word in words for word in lines.decode().split())
    assert not any(word in words for word in ("", "a", "abcf", "abc", "zzzzz", "erro", "é", "error\n"))
    assert 5 not in words
    assert "anything" not in Words(b"")


def test_the_dictionary_has_common_words_and_not_their_typos() -> None:
    assert all(
        word in english() for word in ("terror", "scare", "colour", "color", "debugging", "aardvark", "zucchini")
    )
    assert not any(word in english() for word in ("eror", "errror", "scrpt", "servr"))
    assert ENGLISH.with_name("README.md").read_text(encoding="utf-8").count("sha256") == 1


@given(st.text())
def test_normalising_is_stable(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(st.text(), st.lists(st.text(min_size=1), max_size=3))
@settings(max_examples=200, deadline=None)
def test_any_text_and_any_keywords_are_read_without_error(text: str, keywords: list[str]) -> None:
    keyword_list = KeywordSet(keywords)

    assert keyword_list.find(text) in {None, *keywords}
    assert isinstance(keyword_list.left_over(text), list)


# -- the plain reference


def reference_runs(text: str) -> list[list[str]]:
    """Character by character: words, soft gaps inside a run, anything else ends it."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", text) if not 0x300 <= ord(c) <= 0x36F)
    folded = unicodedata.normalize("NFC", folded.casefold())
    runs: list[list[str]] = [[""]]
    for place, character in enumerate(folded):
        numeric = character in ".," and folded[place - 1 : place].isdigit() and folded[place + 1 : place + 2].isdigit()
        if character in "'’":
            elided = runs[-1][-1] in ELIDED.split() and folded[place + 1 : place + 4].isalpha()
            if elided and len(folded) >= place + 4:
                runs[-1].append("")
            continue
        if (character.isalnum() and not "\u3040" <= character <= "\ud7ff") or numeric:
            runs[-1][-1] += character
        elif character in " -_\n":
            runs[-1].append("")
        else:
            runs.append([""])
    return [[word for word in run if word] for run in runs]


def reference_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


@functools.cache
def all_forms(word: str) -> frozenset[str]:
    return frozenset({word, *inflections(word)})


class Reference:
    """Every rule as a loop, for keywords without symbols."""

    def __init__(self, keywords: list[str]) -> None:
        self.parts = {keyword: reference_runs(keyword)[0] for keyword in keywords}
        words = {word for parts in self.parts.values() for word in (*parts, "".join(parts))}
        self.known = {form for word in words for form in (word, *inflections(word))}
        self.stands_for = functools.cache(self._stands_for)

    def _stands_for(self, text_word: str, word: str) -> bool:
        forms = all_forms(word)
        if text_word in forms:
            return True
        if len(word) < 5 or not word.isalpha() or text_word in self.known or text_word in english():
            return False
        near = [form for form in forms if abs(len(form) - len(text_word)) <= 1]
        return any(reference_distance(text_word, form) <= 1 for form in near)

    def matches(self, keyword: str, text: str) -> bool:
        parts = self.parts[keyword]
        whole = "".join(parts)
        return any(
            self.window_matches(run[start:end], parts, whole)
            for run in reference_runs(text)
            for start in range(len(run))
            for end in range(start + 1, len(run) + 1)
        )

    def window_matches(self, window: list[str], parts: list[str], whole: str) -> bool:
        if len(window) == len(parts) and all(map(self.stands_for, window, parts)):
            return True
        if len(window) == 1:
            return self.stands_for(window[0], whole)
        cuts_a_number = any(a[-1].isdigit() and b[0].isdigit() for a, b in itertools.pairwise(window))
        return not cuts_a_number and "".join(window) in all_forms(whole)


def random_word(chance: random.Random, keywords: list[str], others: list[str]) -> str:
    """A keyword, a form or another word, often misspelled, with another writing now and then."""
    word = chance.choice([chance.choice(keywords), chance.choice(others), chance.choice(keywords)])
    if chance.random() < 0.3:
        word = chance.choice([word, *sorted(inflections(word))])
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        place = chance.randrange(len(word) + 1)
        letter = chance.choice("aeirst'é5.")
        word = word[:place] + chance.choice([letter, "", letter + word[place : place + 1]]) + word[place + 1 :]
    return chance.choice([str, str, str.upper, str.title])(word)


def test_it_finds_exactly_what_plain_loops_find() -> None:
    """The dictionaries of halves and the joins are only a fast way: thousands of random messages agree."""
    chance = random.Random(20)
    keywords = list(KEYWORDS)
    reference, ours = Reference(keywords), KeywordSet(keywords)
    hits = 0

    for _ in range(2500):
        words = [random_word(chance, keywords, OTHERS.split()) for _ in range(chance.randrange(1, 6))]
        text = "".join(word + chance.choice([" ", " ", "-", "_", ", ", "用", ""]) for word in words)
        expected = {keyword for keyword in keywords if reference.matches(keyword, text)}
        answer = ours.find(text)
        hits += answer is not None

        assert (answer in expected) if expected else answer is None, (text, answer, expected)

    assert 1000 < hits < 2400


def test_a_reading_serves_several_sets() -> None:
    reading = Reading.of("Fix the ERROR, 谢谢")

    assert [KeywordSet([keyword]).find(reading) for keyword in ("error", "fix", "谢谢", "deploy")] == [
        "error",
        "fix",
        "谢谢",
        None,
    ]
