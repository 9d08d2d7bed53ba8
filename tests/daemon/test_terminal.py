from __future__ import annotations

import json

import pytest

from daemon.terminal import Screen, ago, clip, columns, cut, fields, harmless, harmless_json, table, wrap

NOON = 1_777_896_000.0  # 2026-05-04T12:00:00Z
PLAIN = Screen(None, colour=False, now=NOON)


def screen(width: int) -> Screen:
    return Screen(width, colour=False, now=NOON)


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("tea", 3),
        ("", 0),
        ("お茶", 4),
        ("ﾃ", 1),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
        ("e\u0301", 1),
        ("นํ้า", 2),
        ("☕", 2),
        ("👍🏽", 4),
        ("👩\u200d💻", 2),
        ("❤\ufe0f", 2),
        ("🇯🇵", 2),
        ("\x1b[31mred\x1b[0m", 3),
    ],
)
def test_a_text_takes_so_many_columns(text: str, width: int) -> None:
    assert columns(text) == width


def test_a_cut_never_halves_a_wide_character_and_always_takes_one() -> None:
    assert cut("お茶です", 5) == "お茶"
    assert cut("お茶", 1) == "お"
    assert clip("お茶です\n今日", 6) == "お茶…"
    assert clip("お茶です", 8) == "お茶です"


def test_every_line_fits_the_screen_behind_its_indent() -> None:
    text = "A long walk 今日はとても長い散歩をしました and antidisestablishmentarianism-as-it-is-spelt\n\n    indented"

    lines = list(wrap(text, screen(30), "  "))

    assert all(columns(line) <= 30 for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert lines[-1] == "      indented"


def test_without_a_width_nothing_is_wrapped_or_cut() -> None:
    long = "word " * 100

    assert list(wrap(long, PLAIN, " ")) == [" " + long.rstrip()]
    assert list(table(PLAIN, ["A"], [[long]]))[1] == long.rstrip()


def test_the_columns_of_a_table_line_up_under_wide_characters() -> None:
    lines = list(
        table(screen(40), ["NAME", ">N", "TEXT"], [["お茶", "1", "green"], ["tea", "1000", "x" * 90], ["한국", "", ""]])
    )

    assert lines[0] == "NAME     N  TEXT"
    assert lines[1] == "お茶     1  green"
    assert lines[2].startswith("tea   1000  xxx")
    assert columns(lines[2]) == 40
    assert lines[2].endswith("x…")
    assert lines[3] == "한국"


def test_fields_stand_in_two_columns_without_the_empty_ones() -> None:
    assert list(fields(screen(26), [("event_at", "now"), ("tags", ""), ("id", "a b c d e f g h i j k l m n")])) == [
        "event at  now",
        "id        a b c d e f g h i j k l",
        "          m n",
    ]


@pytest.mark.parametrize(
    "unsafe", ["\x1b[2J", "\x9b2J", "\x07", "\r", "\b", "\x00", "\x7f", "\x85", "\u2028", "\u202e", "\u2066", "\x0b"]
)
def test_what_could_command_the_terminal_is_spelt_out(unsafe: str) -> None:
    shown = harmless({"k" + unsafe: ["a" + unsafe, {"n": 1, "t": True, "x": None}]})
    escaped = harmless_json(json.dumps(["a" + unsafe], ensure_ascii=False))

    assert unsafe[0] not in str(shown)
    assert "\\" in shown["k" + harmless(unsafe)][0]
    assert shown["k" + harmless(unsafe)][1] == {"n": 1, "t": True, "x": None}
    assert unsafe[0] not in escaped
    assert json.loads(escaped) == ["a" + unsafe]


def test_what_is_only_text_stays_as_it_is() -> None:
    text = "tab\tline\nשלום\u200f 👩\u200d💻 \u200cنمی‌خواهم"

    assert harmless(text) == text
    assert harmless("a\r\nb") == "a\nb"
    assert harmless_json(text) == text


@pytest.mark.parametrize(
    ("instant", "shown"),
    [
        ("2026-05-04T12:00:00Z", "now"),
        ("2026-05-04T11:59:18Z", "42 s ago"),
        ("2026-05-04T11:55:00.25Z", "5 min ago"),
        ("2026-05-04T09:00:00Z", "3 h ago"),
        ("2026-05-06T11:59:50Z", "in 2 d"),
        ("2026-04-04T12:00:00Z", "30 d ago"),
        ("2020-05-04T12:00:00Z", "6 y ago"),
        ("2026-05-04T12:10:00Z", "in 10 min"),
        (None, "-"),
    ],
)
def test_a_time_is_shown_by_its_distance(instant: str | None, shown: str) -> None:
    assert ago(instant, NOON) == shown


def test_styles_are_there_only_with_colour() -> None:
    assert PLAIN.red("x") == "x"
    assert PLAIN._replace(colour=True).red("x") == "\x1b[31mx\x1b[0m"
