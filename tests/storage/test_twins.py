"""Twins: what may be merged without anybody's judgement says the same in every script; whatever might not is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from storage.examined import mark
from storage.model import DAY, Memory
from storage.twins import FORM, Meaning, essence, is_kept, precedence, twins

NOON = 1_767_225_600.0 + DAY / 2  # of 2026-01-01, UTC
TEXT = "Deploys on Fridays are forbidden"


def memory(name: str, content: str = TEXT, **fields: Any) -> Memory:
    return Memory(id=name, content=content, created_at=NOON, updated_at=NOON, **fields)


def alike(one: str, other: str) -> bool:
    """Whether two texts are twins, either way round; their essences say so too."""
    a, b = memory("a", one), memory("b", other)
    assert twins(a, b) == twins(b, a)
    x, y = essence(a), essence(b)
    assert twins(a, b) == (x.common == y.common and Meaning.of(a, x.case).admits(Meaning.of(b, y.case)))
    return twins(a, b)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TEXT, "deploys on fridays are forbidden."),
        (TEXT, "DEPLOYS ON FRIDAYS ARE FORBIDDEN!"),
        (TEXT, "  Deploys on\tFridays\n are   forbidden "),
        ("deploys on fridays", "DEPLOYS ON FRIDAYS…"),
        ("The word “urgent” means today", 'The word "urgent" means today.'),
        ("Grandma's stew", "Grandma’s stew."),
        ("Le bouton «\u00a0Envoyer\u00a0» reste gris", 'Le bouton "Envoyer" reste gris.'),
        ("Open 9–17, Monday to Thursday", "Open 9-17, Monday to Thursday"),
        ("At night it has −7", "At night it has -7"),
        ("Wait… then press start", "Wait... then press start"),
        ("Ｓｅｒｖｅｒ ｒｏｏｍ　ＡＢ１２", "Server room AB12"),
        ("The ﬁlter", "The filter"),
        ("My\u00a0sister", "My sister"),
        ("\ufeffThe super\u00admarket\u200f", "The supermarket"),
        ("Love ❤\ufe0f", "Love ❤"),
        ("¡No toques el cuadro!", "No toques el cuadro"),
        ("C'est fini !", "C'est fini."),
        ("die Heizung im Bad", "Die Heizung im Bad."),
        ("ask IT about the VPN", "Ask IT about the VPN."),
        ("Бабушка живёт на пятом этаже", "БАБУШКА ЖИВЁТ НА ПЯТОМ ЭТАЖЕ."),
        ("冰箱里的牛奶星期五过期。", "冰箱里的牛奶星期五过期"),
        ("会议室在三楼，左手边第二间", "会议室在三楼,左手边第二间"),
        ("ｺﾋﾟｰ機は二階です。", "コピー機は二階です"),
        ("고양이는 베란다에 있다", "\u1100\u1169양이는 베란다에 있다."),
        ("मैं घर पर हूँ।", "मैं घर पर हूँ"),
        ("लا أشرب القهوة!", "लا أشرب القهوة"),
        (".", "."),
        ("نغلق الباب 🚪", "نغلق الباب 🚪."),
    ],
)
def test_a10_the_same_words_are_twins_in_every_script(one: str, other: str) -> None:
    assert alike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The freezer is at -5 degrees", "The freezer is at 5 degrees"),
        ("Take .5 tablets", "Take 5 tablets"),
        ("The members' discount is 20%", "The members' discount is 20"),
        ("The grade was an A+", "The grade was an A-"),
        ("He teaches C++", "He teaches C#"),
        ("Sie programmiert in C.", "Sie programmiert in C++."),
        ("The flight costs £180", "The flight costs €180"),
        ("Verdict: 👍", "Verdict: 👎"),
        ("We cheer for 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "We cheer for 🏴"),
        ("The area is 10² tiles", "The area is 102 tiles"),
        ("It needs 1½ cups", "It needs 11/2 cups"),
        ("The answer is 5!", "The answer is 5"),
        ("The board is 5' long", 'The board is 5" long'),
        ("Go up with cd ..", "Go up with cd ."),
        ("List them with ls *.", "List them with ls *"),
        ("Dinner is at eight", "Dinner is at eight?"),
        ("¿Ana viene a cenar?", "Ana viene a cenar"),
        ("Let's eat, Grandma", "Let's eat Grandma"),
        ("The port is 8080", "The port is 8081"),
        ("The host is 10.0.3.14", "The host is 10.0.31.4"),
        ("The letter is for US readers", "The letter is for us readers"),
        ("ask IT before you install", "ask it before you install"),
        ("We are skipping Turkey this year", "We are skipping turkey this year"),
        ("The link does 40 Mb a second", "the link does 40 mb a second"),
        ("the array gives 300 mW", "the array gives 300 MW"),
        ("call getUser first", "call getuser first"),
        ("fetch it with curl -O", "fetch it with curl -o"),
        ("it lies in /srv/Data", "it lies in /srv/data"),
        ("Tout dépend de l'État", "tout dépend de l'état"),
        ("AB CD", "ab cd"),
        ("Wein in Maßen", "Wein in Massen"),
        ("El papa habla", "El papá habla"),
        ("an ice man", "a nice man"),
        ("He wants to resign", "He wants to re-sign"),
        ("The flat is now here", "The flat is nowhere"),
        ("if a:\n  b\n  c", "if a:\n  b\nc"),
        ("ハハに電話する", "パパに電話する"),
        ("סבא", "סבא?"),
    ],
)
def test_whatever_may_mean_something_else_is_no_twin(one: str, other: str) -> None:
    assert not alike(one, other)


def test_a10_length_never_decides() -> None:
    assert not alike(TEXT, f"{TEXT} for the billing team")
    assert not alike(TEXT, TEXT[:-1])


# -- the other fields

WHOLE = memory(
    "a", author="Ada", scope="studio", session="s", type="semantic", subtype="rule", context="the whole rule",
    entities=("Fridays",), metadata={"team": "billing"}, source="stated", sensitivity="personal",
    event_at=NOON, expires_at=NOON + 90 * DAY,
)  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"author": "Ben"},
        {"author": ""},
        {"scope": "studio/coder"},
        {"type": "procedural"},
        {"subtype": ""},
        {"context": "another rule"},
        {"context": ""},
        {"entities": ("Mondays",)},
        {"entities": ("Fridays", "Mondays")},
        {"metadata": {"team": "shop"}},
        {"metadata": {"team": None}},
        {"source": "inferred"},
        {"sensitivity": "confidential"},
        {"event_at": NOON + DAY},
        {"event_at": NOON + 3600},
        {"event_at": None},
        {"expires_at": None},
        {"expires_at": NOON + DAY},
    ],
    ids=repr,
)
def test_what_somebody_may_mean_by_it_decides(changed: dict[str, Any]) -> None:
    other = replace(WHOLE, id="b", **changed)

    assert not twins(WHOLE, other)
    assert not twins(other, WHOLE)


@pytest.mark.parametrize(
    "changed",
    [
        {"author": "ADA"},
        {"session": "t"},
        {"entities": ()},
        {"entities": ("fridays",)},
        {"metadata": {}},
        {"metadata": {"since": 2024}},
        {"metadata": {"team": "billing", "since": 2024}},
        {"event_at": NOON + 20},
        {"tags": ("deploy",), "tier": "core", "heat": "hot", "pinned": True, "emotion": 0.9, "importance": 1.0},
        {"confidence": 0.1, "provenance": "import", "source_turns": ("t1",), "redactions": {"password": 1}},
        {"created_at": NOON - DAY, "updated_at": NOON + DAY, "accessed_at": NOON, "access_count": 5, "version": 4},
        {"content_hash": "other", "change_summary": "content changed", "seq": 9, "asks": True},
    ],
    ids=repr,
)
def test_what_a_merge_unites_does_not_decide(changed: dict[str, Any]) -> None:
    other = replace(WHOLE, id="b", **changed)

    assert twins(WHOLE, other)
    assert twins(other, WHOLE)


def test_in_json_true_is_not_one_and_neither_is_one_point_nought() -> None:
    one, whole, flag = (memory(name, metadata={"n": value}) for name, value in (("a", 1), ("b", 1.0), ("c", True)))

    assert not twins(one, whole)
    assert not twins(one, flag)


def test_case7_what_is_true_again_later_is_another_event() -> None:
    january, june = (memory(name, event_at=NOON + days * DAY) for name, days in (("a", 0), ("b", 150)))

    assert not twins(january, june)


def test_what_took_place_at_two_times_is_two_and_an_episode_without_one_belongs_to_its_day_and_session() -> None:
    """A dentist at nine and another at half past three; the day of one without a time of its own is that of its creation."""
    episode = memory("a", type="episodic", session="s")
    dated = replace(episode, event_at=NOON)

    assert twins(episode, replace(episode, id="b"))
    assert twins(dated, replace(dated, id="b", event_at=NOON + 20, created_at=NOON + DAY))
    assert not twins(dated, replace(dated, id="b", event_at=NOON + 3600))
    assert not twins(dated, replace(episode, id="b"))
    assert not twins(episode, replace(episode, id="b", created_at=NOON + DAY))
    assert not twins(episode, replace(episode, id="b", session="t"))
    last, first = NOON + DAY / 2 - 1, NOON + DAY / 2  # of two days
    assert not twins(replace(episode, created_at=last), replace(episode, id="b", created_at=first))


def test_live_context_has_no_twin_and_nobody_is_his_own() -> None:
    assert not twins(memory("a", type="active"), memory("b", type="active"))
    assert not twins(WHOLE, WHOLE)


texts = st.text("aAbB cC.!?,'\"-5½²ßIiı\u00a0Ａ。…é", max_size=12).filter(str.strip)
authors, metadata = (
    st.sampled_from(["", "Ada", "ADA", "Ben"]),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 1)),
)
entities = st.sampled_from([(), ("Ada",), ("Ben",)])


@settings(deadline=None)
@given(texts, texts, authors, authors, metadata, metadata, entities, entities)
def test_twins_are_so_either_way_round_and_as_their_essences_say(
    one: str, other: str, my: str, your: str, mine: dict[str, int], yours: dict[str, int], my_names: Any, your_names: Any
) -> None:  # fmt: skip
    a = memory("a", one, author=my, metadata=mine, entities=my_names)
    b = memory("b", other, author=your, metadata=yours, entities=your_names)
    x, y = essence(a), essence(b)

    assert twins(a, b) == twins(b, a)
    assert twins(a, b) == (x.common == y.common and Meaning.of(a, x.case).admits(Meaning.of(b, y.case)))
    assert twins(a, replace(a, id="c"))


@settings(deadline=None)
@given(texts, texts)
def test_what_differs_in_digits_or_letters_is_no_twin(one: str, other: str) -> None:
    def bare(text: str) -> list[str]:
        return [sign for sign in text.replace("Ａ", "A").lower() if sign.isalnum()]

    assume(bare(one) != bare(other))
    assert not twins(memory("a", one), memory("b", other))


def test_who_stays() -> None:
    """Pinned, then the higher tier, more uses, the older, the id."""
    ordered = [
        memory("f", pinned=True), memory("e", tier="core"), memory("d", tier="long"), memory("c", access_count=3),
        replace(memory("b"), created_at=NOON - 1), memory("a"), memory("aa"),
    ]  # fmt: skip
    mixed = [ordered[place] for place in (3, 0, 6, 2, 5, 1, 4)]

    assert sorted(mixed, key=precedence) == ordered
    assert [is_kept(row) for row in ordered] == [True, True, False, False, False, False, False]


def test_whoever_changes_what_is_the_same_raises_the_form() -> None:
    """What was looked at by other rules is looked at again only where `FORM` says that they are others."""
    texts = [
        "Deploys on Fridays are forbidden!", "ALL OF IT IS SHOUTED.", "getUser costs 40 Mb", "Maßen, ½ and x²", "“So” – he said…",
        "ｆｕｌｌ width", "one\n    two", "5! is 120", "¡Hola!", "今天。", "re\u00adsume\u0301",
    ]  # fmt: skip
    essences = [essence(memory("a", text)) for text in texts]

    assert (FORM.partition(",")[0], mark(repr(essences))) == ("3", 8_677_677_888_262_604_197)
