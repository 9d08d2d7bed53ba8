"""Whom and what a text names, in several scripts, and what is no name."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.common_words import DATES
from storage.entities import MOST, SCANNED, entities_in
from storage.model import MAX_CONTENT_BYTES, ROLES
from storage.remember import Writer


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I met Ann Lee in New York", ["Ann Lee", "New York"]),
        ("thanks to Bob, Eve and Mallory", ["Bob", "Eve", "Mallory"]),
        ("John F. Kennedy spoke at the Bank of America", ["John F. Kennedy", "Bank of America"]),
        ("works by Ludwig van Beethoven and Rogier van der Weyden", ["Ludwig van Beethoven", "Rogier van der Weyden"]),
        ("I told O'Brien and Jean-Luc about Xi'an", ["O'Brien", "Jean-Luc", "Xi'an"]),
        ("saw the prince al-Aziz", ["al-Aziz"]),
        ("see Dr. Lee or Mrs. Adams", ["Lee", "Adams"]),
        ("the NASA launch", ["NASA"]),
        ("Lunch with Ann's Honda", ["Ann", "Honda"]),
        ("Avec Marie Dupont, de l'Italie en Côte d'Ivoire", ["Marie Dupont", "Italie", "Côte d'Ivoire"]),
        ("Ayer vi a Ana y José García en Madrid", ["Ana", "José García", "Madrid"]),
        ("Pan Nowak mieszka w Warszawie", ["Nowak", "Warszawie"]),
        ("Dün Mehmet, Ayşe'nin evine geldi", ["Mehmet", "Ayşe"]),
        ("Вчера Анна Петрова была в Москве", ["Анна Петрова", "Москве"]),
        ("Μίλησα με την Πηνελόπη στην Αθήνα", ["Πηνελόπη", "Αθήνα"]),
        ("Ես տեսա Արամին", ["Արամին"]),
        ("昨天和Anna Lee去了北京", ["Anna Lee"]),
    ],
)  # fmt: skip
def test_a_run_of_capitals_is_a_name_in_any_script_that_has_them(text, names) -> None:
    assert entities_in(text) == tuple(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ada likes tea", ["Ada"]),
        ("Ada's cat sleeps", ["Ada"]),
        ("Ada and Bob sleep", ["Ada", "Bob"]),
        ("Ada sleeps. I like Ada.", ["Ada"]),
        ("Ada Lovelace sleeps", ["Ada Lovelace"]),
        ("Dr. Lovelace sleeps", ["Lovelace"]),
        ("Анна любит чай", ["Анна"]),
        ("Maria liebt das Leben und mag Tee", ["Maria"]),
        ("Bought milk", []),
        ("Sleeps late", []),
        ("Meetings, then lunch.\nReports after that", []),
        ("He has a cat. It is old", []),
        ("Don't go. I'm late. It's cold. That's all", []),
        ("Everything was nice. Life is good. Running is fun", []),
        ("Rose was late; I gave her a rose", []),
        ("Visited Paris. Watching Moby Dick", ["Paris", "Moby Dick"]),
        ("Wow! Thanks Mel. Hey Caroline!", ["Mel", "Caroline"]),
        ("Wish I knew. Did Ann go?", ["Ann"]),
    ],
)
def test_a_first_word_is_a_name_only_where_something_says_so(text, names) -> None:
    assert entities_in(text) == tuple(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ich war mit Anna in Berlin und habe den Hund gesehen", ["Anna", "Berlin"]),
        ("Ich habe eine Katze und ein Haus, nach Hause geht es mit Ruhe", []),
        ("Heute kam Frau Müller zum Essen", ["Müller"]),
        ("Ich mag die Deutsche Bahn nicht", ["Deutsche Bahn"]),
    ],
)
def test_a_german_noun_is_no_name(text, names) -> None:
    assert entities_in(text) == tuple(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("write to @bob, or @ada_l.", ["@bob", "@ada_l"]),
        ("كتب إلى @سامي اليوم", ["@سامي"]),
        ("mail ann@example.com or bob.smith+x@mail.example.org", []),
        ("@all and @here and @everyone", []),
        ("npm i @types/node, user@host, a/@b, @1234", []),
    ],
)
def test_a_handle_is_a_name_and_a_mail_address_is_none(text, names) -> None:
    assert entities_in(text) == tuple(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("we read “Charlotte’s Web” again", ["Charlotte’s Web"]),
        ('we read "Moby Dick" and "The Trial"', ["Moby Dick", "The Trial"]),
        ("we read ‘Charlotte’s Web’ again", ["Charlotte’s Web"]),
        ("wir lasen „Der Prozess“ und »Das Schloss«", ["Der Prozess", "Das Schloss"]),
        ("читала «Война и мир» и « Les misérables »", ["Война и мир", "Les misérables"]),
        ("我读了《红楼梦》", ["红楼梦"]),
        ("『ノルウェイの森』と「雪国」を読んだ", ["ノルウェイの森", "雪国"]),
        ("قرأت «ألف ليلة وليلة»", ["ألف ليلة وليلة"]),
        ('he was "fine", and said, "Thanks a lot"', []),
        ('"I am late. Sorry!" and “This is a whole sentence.”', []),
        ("「はい」と言った", []),
        ("他说「你好吗」", []),
        ('on "1984" and "Monday" and "a"', []),
        ("“" + "Long " * 20 + "”", []),
        ("“One Two Three Four Five Six Seven Eight Nine”", []),
    ],
)
def test_what_is_quoted_like_a_title_is_one(text, names) -> None:
    assert entities_in(text) == tuple(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("昨日、田中さんと林様に会った。マイケル・ジャクソンさんも", ["田中", "林", "マイケル・ジャクソン"]),
        ("昨日さくらちゃんと田中先生が来た", ["田中"]),
        ("さくらちゃんが来た", ["さくら"]),
        ("皆さん、お客様、たくさんの様々な奥さん、この様な医者さん、担当者様", []),
        ("毎日ちゃんと食べる", []),
        ("昨天王小明老师和李先生、欧阳小姐说", ["王小明", "李", "欧阳"]),
        ("周五的高中老师、班主任老师、女老师", []),
        ("周五李老师来了", ["李"]),
        ("어제 김민수 씨와 지현님을 만났다", ["김민수", "지현"]),
        ("날씨가 좋다. 아저씨, 선생님, 부모님, 손님", []),
    ],
)
def test_an_honorific_marks_the_name_before_it(text, names) -> None:
    assert entities_in(text) == tuple(names)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "…", "it was cold", "see you on Monday in May", "am Montag im März", "on Jan 5 and Feb. 7",
        "asked the User, the Assistant and the System", "@assistant", "PLEASE CALL ANN NOW", "it is URGENT!",
        "the SCHEDULE", "see User_Name, Foo.bar, foo/Bar, #Topic, $Home, Call()", "read README.md and Node.js",
        "at https://Example.com/Some/Page?x=Ann and www.Example.com", "run `Some Code` or\n```\nclass Foo(Bar)\n```",
        "a heading: Notes On The Big Meeting With Project Apollo Team", "section A and B", "٢٠٢٦ 2026",
    ],
)  # fmt: skip
def test_dates_roles_code_links_shouts_and_headings_are_no_names(text) -> None:
    assert entities_in(text) == ()


@pytest.mark.parametrize(
    "marker", ["[REDACTED:aws_key]", "[REDACTED:Own Kind]", "“[REDACTED:aws_key]”", "with [REDACTED:aws"]
)
def test_c9_the_mask_of_a_secret_is_no_name(marker) -> None:
    assert entities_in(f"the key of Ann is {marker} and Bob") in {("Ann", "Bob"), ("Ann",)}
    assert entities_in(f"my key {marker}") == ()


def test_names_come_in_order_once_in_their_first_spelling() -> None:
    text = "from “Dune” by ANN, then @bob, Ann, “DUNE” and @BOB met Straße, STRASSE"

    assert entities_in(text) == ("Dune", "ANN", "@bob", "Straße")


def test_a_lone_first_word_keeps_its_place() -> None:
    assert entities_in("Eve slept. I saw Bob. Then I saw Eve") == ("Eve", "Bob")


@pytest.mark.parametrize("author", ["Ann", "ANN"])
def test_the_author_is_none_of_the_names(author) -> None:
    assert entities_in("I am Ann, that is @ann, not Ann Lee", author) == ("Ann Lee",)


def test_at_most_so_many_names_are_told_and_the_first_come_first() -> None:
    names = [f"Name{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(2 * MOST)]

    assert entities_in("with " + ", ".join(names)) == tuple(names[:MOST])


def test_of_a_long_text_both_ends_are_read_and_cut_between_words() -> None:
    filler = "and so on " * (SCANNED // 5)
    cut = ("x" * (SCANNED - 8) + " Annabel") + " " + filler

    assert entities_in(f"with Ann {filler} with Bob {filler} with Eve") == ("Ann", "Eve")
    assert entities_in(cut) == ()


HOSTILE = (
    "a", "A", "A.", "a.", "@a ", "@", '"', '"A b" ', "‘", "‘a’b", "“", "«»", "»«", "「あ", "王", "さん", "가님", "`", "```a",
    "http://", "a-", "A'", "A’s ", "Ab ", "AB ", "[REDACTED:", " ", "a.b+c", "a@", "Ab of the ", "ンさん", "\n", "🐱",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_text_of_the_largest_size_that_repeats_itself_has_few_names(piece) -> None:
    whole = piece * (MAX_CONTENT_BYTES // len(piece.encode()))

    assert len(entities_in(whole)) <= 3


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from([*HOSTILE, "Ann", "Ann Lee ", "the ", ". ", "Monday ", "User "])).map("".join)
)
@example("\0")
@example("ǅ ǅa İi ß’S")
def test_any_text_has_short_distinct_names_that_stand_in_it(text) -> None:
    names = entities_in(text)
    folded = [name.casefold() for name in names]
    flat = " ".join(text.split())

    assert len(names) <= MOST
    assert len(set(folded)) == len(names)
    assert not set(folded) & (ROLES | DATES)
    assert all(name in flat and len(name) <= 60 and any(map(str.isalpha, name)) for name in names)


def test_what_is_found_joins_the_known_authors_in_their_own_spelling(opened) -> None:
    opened.add("hello", author="Zoë")
    opened.add("hello", author="bob")

    memory = opened.add("with ZOË, @Bob and Ann Lee in Paris", author="Paris")

    assert opened.read(memory).entities == ("Zoë", "bob", "Ann Lee")


def test_an_edit_leaves_only_the_names_of_the_new_text(opened) -> None:
    memory = opened.add("with Ann in Rome")
    assert opened.read(memory).entities == ("Ann", "Rome")

    opened.update(memory, content="with Eve in Rome")
    opened.reopen()

    assert opened.row(memory).entities == ("Eve", "Rome")


def test_c9_a_secret_is_masked_before_anything_is_found(opened) -> None:
    memory = opened.add('api_key = "AKIAIOSFODNN7EXAMPLE", said Ann to Bob')

    assert opened.read(memory).entities == ("Ann", "Bob")


def test_a_failure_to_find_names_never_fails_a_write(opened) -> None:
    def broken(text: str, author: str) -> tuple[str, ...]:
        raise RuntimeError(text + author)

    stores = opened.stores
    opened.add("hello", author="Zoë")
    stores.writer = Writer(
        stores.engine, stores.catalogue, stores.memories, stores.synapses, stores.records,
        default_sensitivity="personal", find=broken,
    )  # fmt: skip

    memory = opened.add("with Ann and Zoë")
    assert opened.read(memory).entities == ("Zoë",)
    assert opened.update(memory, content="with Zoë alone").entities == ("Zoë",)


@pytest.mark.parametrize("entity", ["ann lee", "ANN LEE", "Ann Lee"])
def test_a_found_name_is_a_filter_of_recall_in_any_case(opened, entity) -> None:
    named = opened.add("tea with Ann Lee")
    opened.add("tea with Ann")

    assert opened.found("tea", where={"entity": entity}) == [named]
