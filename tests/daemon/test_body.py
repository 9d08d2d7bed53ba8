from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.body import MAX_DEPTH, encode, parse_params
from storage.errors import Invalid

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), VALUES))
def test_what_is_encoded_is_parsed_to_the_same(value) -> None:
    assert parse_params(encode(value)) == value


@given(st.binary() | st.text().map(str.encode) | st.sampled_from(["NaN", "[1", '{"a":'] * 2).map(str.encode))
def test_any_bytes_are_an_object_or_invalid(body: bytes) -> None:
    with contextlib.suppress(Invalid):
        assert isinstance(parse_params(body), dict)


def nested(depth: int) -> bytes:
    """An object with `depth` levels of lists and objects, itself the first."""
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_the_deepest_nesting_is_accepted_and_one_more_level_is_not() -> None:
    parse_params(nested(MAX_DEPTH))

    with pytest.raises(Invalid, match="deeper"):
        parse_params(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_what_is_not_finite_is_refused(constant: str) -> None:
    with pytest.raises(Invalid):
        parse_params(f'{{"a":[{constant}]}}'.encode())


def test_a_number_of_many_digits_is_refused_and_not_a_crash() -> None:
    with pytest.raises(Invalid, match="digits"):
        parse_params(b'{"a":' + b"9" * 10_000 + b"}")


def test_of_equal_keys_the_last_one_counts() -> None:
    assert parse_params(b'{"a":1,"a":2}') == {"a": 2}


def test_an_error_says_where_and_never_quotes() -> None:
    with pytest.raises(Invalid) as caught:
        parse_params(b'{"secret": "hunter2" "b": 1}')

    assert "line 1, column 22 (character 21)" in caught.value.detail
    assert "hunter2" not in caught.value.detail


def test_an_error_of_encoding_says_which_byte() -> None:
    with pytest.raises(Invalid, match="byte 6"):
        parse_params(b'{"a":"\xff"}')


def test_answers_are_compact_and_readable() -> None:
    assert encode({"a": [1, "今天"], "b": None}) == '{"a":[1,"今天"],"b":null}'.encode()


def test_a_lone_surrogate_goes_out_as_its_escape() -> None:
    assert encode({"a": "\udcff"}) == b'{"a":"\\udcff"}'
    assert json.loads(encode({"a": "\udcff"})) == {"a": "\udcff"}


def test_nan_never_goes_out() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"score": float("nan")})
