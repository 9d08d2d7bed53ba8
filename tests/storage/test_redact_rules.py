"""What redaction promises whatever the text: own patterns, nested JSON, masks that stay, hostile texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import Invalid
from storage.redact import KINDS, Redactor

REDACTOR = Redactor()
KEY = "gh" + "p_" + "a1B2" * 9
SIZE = 256 * 1024

#: Pieces which stick together into secrets, near-secrets and markers.
PIECES = st.sampled_from(
    [
        KEY, "password", "my password is ", "token: ", "secret=", "api_key", "=", ": ", '"', "'", "`", "\\", " ", "\n", "&",
        ";", ",", "hunter2xyz", "4111 1111 1111 1111", "4111", "1111", " 12/27", "DE89 3704 0044 0532 0130 00", "DE89",
        "123-45-6789", "-", "postgres://u:", "p@ss", "@h", "://", "Bearer ", "Basic dTpw", "eyJhbGciOiJIUzI1NiJ9", ".", "sk-",
        "sp-AB.CD", "AK" + "IA" + "A" * 16, "[REDACTED:password]", "[REDACTED:card]", "[REDACTED:", "REDACTED", "]",
        "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "A" * 24, "密码是", "is", "PIN: ", "seed phrase: ",
        "correct horse battery staple", "İ", "é",
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=12).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(TEXTS)
@settings(max_examples=600, deadline=None)
def test_a_redacted_text_passes_unchanged(text):
    once = REDACTOR.redact(text)
    assert REDACTOR.redact(once.text) == (once.text, {}, None)


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_a_text_without_hits_is_returned_as_it_was(text):
    redacted = REDACTOR.redact(text)
    assert redacted.hits or redacted.text == text


@given(TEXTS, TEXTS)
@settings(max_examples=300, deadline=None)
def test_a_vendor_key_between_blanks_never_survives(before, after):
    planted = "gl" + "pat-" + "a1B2" * 5
    assert planted not in REDACTOR.redact(f"{before} {planted} {after}").text


@given(JSON)
@settings(max_examples=300, deadline=None)
def test_redacted_json_passes_unchanged(value):
    once, _ = REDACTOR.redact_json(value)
    assert REDACTOR.redact_json(once) == (once, {})


@given(st.from_regex(r"\A4[0-9]{14}\Z"), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_a_card_number_is_one_only_with_its_check_digit(digits, wrong):
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[::2])
    check = -(doubled + sum(map(int, digits[1::2]))) % 10
    assert REDACTOR.redact(f"card {digits}{check}").text == "card [REDACTED:card]"
    assert REDACTOR.redact(f"card {digits}{(check + wrong) % 10}").hits == {}


@given(st.from_regex(r"\A[0-9]{18}\Z"), st.integers(1, 96))
@settings(max_examples=200, deadline=None)
def test_an_iban_is_one_only_with_its_check_digits(account, wrong):
    check = 98 - int(account + "131400") % 97  # DE00 moved to the end, its letters as numbers
    assert REDACTOR.redact(f"to DE{check:02}{account}.").text == "to [REDACTED:iban]."
    assert "iban" not in REDACTOR.redact(f"to DE{(check - 2 + wrong) % 97 + 2:02}{account}.").hits


def test_own_patterns_mask_and_count_but_raise_no_sensitivity():
    redacted = Redactor({"badge": r"EMP-\d+"}).redact("badge EMP-123 and EMP-4")
    assert redacted == ("badge [REDACTED:badge] and [REDACTED:badge]", {"badge": 2}, None)


def test_a_group_named_value_limits_an_own_pattern():
    assert Redactor({"badge": r"EMP-(?P<value>\d+)"}).redact("EMP-123").text == "EMP-[REDACTED:badge]"


def test_an_own_pattern_names_the_mask_where_it_overlaps_a_built_in_one():
    redacted = Redactor({"mine": "hunter2"}).redact("password: hunter2xyz")
    assert redacted.text == "password: [REDACTED:mine]"


@pytest.mark.parametrize("pattern", [".*", r"\w+", "", "REDACTED", r"(?<=\])x", "[A-Z]"])
def test_an_own_pattern_that_would_match_its_own_mask_ends_and_leaves_it(pattern):
    redactor = Redactor({"all": pattern})
    once = redactor.redact("EMP-123 [REDACTED:all]xx\nREDACTED")
    assert redactor.redact(once.text).text == once.text


def test_a_bad_own_pattern_is_refused_by_name():
    with pytest.raises(Invalid) as caught:
        Redactor({"fine": "x", "badge": "EMP-("})
    assert caught.value.extra["field"] == "redact.patterns.badge"
    assert caught.value.hint


def test_a_name_that_would_break_the_mask_is_refused():
    with pytest.raises(Invalid) as caught:
        Redactor({"a]b": "x"})
    assert caught.value.extra["field"] == "redact.patterns.a]b"


def test_every_kind_of_the_seeds_and_of_the_contract_is_known():
    assert {"card", "iban", "ssn", "jwt", "private_key_block", "url_password", "password", "api_key", "token"} <= KINDS


def test_json_is_masked_in_values_keys_lists_and_numbers():
    value = {
        "note": "my password is hunter2xyz",
        KEY: 1,
        "list": ["fine", {"url": "https://u:p@h/x"}],
        "card": 4111111111111111,
        "n": [1, 2.5, None, True],
    }
    masked, hits = REDACTOR.redact_json(value)
    assert masked == {
        "note": "my password is [REDACTED:password]",
        "[REDACTED:github_token]": 1,
        "list": ["fine", {"url": "https://u:[REDACTED:url_password]@h/x"}],
        "card": "[REDACTED:card]",
        "n": [1, 2.5, None, True],
    }
    assert hits == {"password": 1, "github_token": 1, "url_password": 1, "card": 1}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"api_key": "abcd1234" + "efgh"}, "api_key"),
        ({"apiKey": "abcd1234" + "efgh"}, "api_key"),
        ({"DB_PASSWORD": "swordfish"}, "password"),
        ({"password": 12345678}, "password"),
        ({"passwords": ["hunter2"]}, "password"),
        ({"clientSecret": {"value": "abc123" + "def456"}}, "secret"),
        ({"name": "DB_PASSWORD", "value": "hunter2"}, "password"),
        ({"ssn": 123456789}, "ssn"),
    ],
)
def test_what_stands_beside_a_telling_key_is_masked(value, kind):
    masked, hits = REDACTOR.redact_json(value)
    assert hits == {kind: 1}
    assert f"[REDACTED:{kind}]" in str(masked)


@pytest.mark.parametrize(
    "value",
    [
        {"token_count": 12345678, "max_tokens": 4096},
        {"password": "required", "token": "expired", "secret": True},
        {"key": "value", "sha": "3f786850e387550fdab836ed7e6dc881de23001b"},
        {"token": {"expires": "2026-01-01T00:00:00Z"}},
    ],
)
def test_innocent_json_passes_unchanged(value):
    assert REDACTOR.redact_json(value) == (value, {})


def test_two_keys_that_become_the_same_both_stay():
    masked, _ = REDACTOR.redact_json({KEY: 1, KEY + "b": 2})
    assert masked == {"[REDACTED:github_token]": 1, "[REDACTED:github_token] 2": 2}


@pytest.mark.parametrize(
    "piece",
    [
        "a", "sk-", "=", "7", " ", "password ", "password for ", "password is ", 'password "', "token=", "1 ", "4111 ", "DE89 ",
        "123-45-", "eyJ", "eyJaaa.", "://", "://a:", "@", "-----BEGIN PRIVATE KEY-----", "-", "curl ", "Bearer ",
        "authorization: ", "ghp_ ", "$2b$", "machine a login ", "seed phrase: aaa ", "PIN for ", "\\", "[REDACTED:", "密码是",
    ],
)  # fmt: skip
def test_a_hostile_text_passes_unchanged_and_the_secret_behind_it_is_found(piece):
    hostile = (piece * (SIZE // len(piece)))[:SIZE]
    assert (
        REDACTOR.redact(hostile + "\n---\nmy password is hunter2xyz").text
        == hostile + "\n---\nmy password is [REDACTED:password]"
    )


def test_many_secrets_in_one_long_text_are_all_masked():
    text = f"{KEY} and my password is hunter2xyz, " * 2_000
    assert REDACTOR.redact(text).hits == {"github_token": 2_000, "password": 2_000}
