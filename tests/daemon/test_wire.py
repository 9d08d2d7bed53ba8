"""What stands on the wire: instants, params and the document of both."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from daemon.methods import METHODS
from daemon.wire import Cleared, Id, Instant, Params, Tier, did_you_mean, find, openapi, validated
from storage.errors import KINDS, DreamdError, Invalid, NotFound
from storage.instants import EARLIEST, LATEST, format_instant, parse_instant

OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


class Trip(Cleared):
    """Params of a method that is not there."""

    name: str = Field(min_length=1)
    tier: Tier | list[Tier] | None = None
    at: Instant | None = None
    days: float = Field(default=1.0, gt=0)
    id: Id | None = None


def invalid(**params: object) -> Invalid:
    with pytest.raises(Invalid) as caught:
        validated("trip", Trip, params)
    return caught.value


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=OFFSETS))
def test_an_instant_comes_back_as_the_same_instant_in_utc(moment: datetime) -> None:
    shown = format_instant(parse_instant(moment.isoformat()))

    assert shown is not None
    assert shown.endswith("Z")
    assert abs(datetime.fromisoformat(shown) - moment) < timedelta(milliseconds=1)


@given(st.floats(EARLIEST, LATEST))
def test_what_is_shown_is_read_as_what_was_shown(seconds: float) -> None:
    shown = format_instant(seconds)

    assert format_instant(parse_instant(shown)) == shown


def test_the_ends_of_the_calendar_are_instants_and_nothing_beyond_them_is() -> None:
    assert format_instant(parse_instant("0001-01-01T00:00:00Z")) == "0001-01-01T00:00:00Z"
    assert format_instant(parse_instant("9999-12-31T23:59:59Z")) == "9999-12-31T23:59:59Z"
    for text in ("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "9999-12-31T23:59:59.5Z"):
        with pytest.raises(ValueError, match="outside 0001-01-01T00:00:00Z"):
            parse_instant(text)


def test_no_time_is_shown_as_none() -> None:
    assert format_instant(None) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "10000-01-01",
        "2026-01-01T25:00",
        "2026-01-01T00:00:00 Europe/Rome",
        "1767225600",
        "20200101",
        "2020-W01",
        "2020-W01-1",
        "2020-001",
        "20200101T000000Z",
        "2020-01-01T00Z",
        "2020-01-01T00:00:00,5Z",
        "2020-01-01X00:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T00:00:00+0100",
        "2020-01-01T00:00:00+01:99",
        "2020-01-01T00:00:00+24:00",
        "2020-01-01T00:00:00+01:00:30",
        "2020-01-01T00:00:61Z",
        "2020-01-01T12:00:60Z",
        "2020-01-01T23:59:60+01:00",
        "2020-01-01Z",
        "2020-01-01T00:00:00Z ",
        "2020-01-01T00:00:00Z\n",
        "٢٠٢٠-01-01",
        "2020-02-30",
        "0000-01-01",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        parse_instant(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2020-01-01t12:30:00z", "2020-01-01T12:30:00Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("2016-12-31T23:59:60.25z", "2016-12-31T23:59:59.250000Z"),
        ("1990-12-31T15:59:60-08:00", "1990-12-31T23:59:59Z"),
        ("2020-01-01", "2020-01-01T00:00:00Z"),
        ("2020-01-01 12:30:00", "2020-01-01T12:30:00Z"),
        ("2020-01-01T12:30", "2020-01-01T12:30:00Z"),
        ("2020-01-01T12:30:00.1234567-00:00", "2020-01-01T12:30:00.123456Z"),
    ],
)
def test_b2_a14_every_form_of_rfc_3339_is_read_and_naive_times_and_plain_dates_as_utc(text: str, shown: str) -> None:
    assert format_instant(parse_instant(text)) == shown


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_an_id_is_read_in_nfc_and_its_length_is_that_of_nfc(form: str) -> None:
    trip = validated("trip", Trip, {"name": "Porto", "id": unicodedata.normalize(form, "é" * 128)})

    assert trip.id == "é" * 128
    assert invalid(name="Porto", id=unicodedata.normalize(form, "é" * 129)).extra["field"] == "id"
    assert invalid(name="Porto", id="").extra["field"] == "id"
    assert invalid(name="Porto", id="a\udfff").detail == "id: it holds a lone surrogate at character 1."


def test_params_are_checked_and_nothing_is_converted() -> None:
    trip = validated("trip", Trip, {"name": "Porto", "tier": ["long"], "at": "2026-01-01", "days": 2})

    assert (trip.tier, trip.at, trip.days, trip.clearance) == (["long"], 1_767_225_600.0, 2.0, "secret")
    for wrong in ({"days": "2"}, {"days": True}, {"days": float("nan")}, {"days": float("inf")}, {"name": b"Porto"}):
        assert invalid(**{"name": "Porto"} | wrong).extra["field"] in wrong


def test_the_first_fault_is_told_and_a_misspelt_name_before_all() -> None:
    assert invalid(nmae="Porto", days=0).hint == "Did you mean 'name'?"
    assert invalid(name="", days=0).detail == "name: string should have at least 1 character."
    assert invalid(name="Porto", days=0).detail == "days: input should be greater than 0."


def test_a_fault_inside_a_list_tells_its_place_and_the_field_stays_the_param() -> None:
    error = invalid(name="Porto", tier=["long", "shrot"])

    assert (error.extra["field"], error.detail) == ("tier", "tier[1]: it is one of core, long, short.")
    assert error.hint == "Did you mean 'short'?"


def test_params_within_a_param_are_named_in_full() -> None:
    with pytest.raises(Invalid) as caught:
        validated("trip", Trip, {"name": "Porto", "dyas": 1}, within="params")

    assert (caught.value.extra["field"], caught.value.hint) == ("params.dyas", "Did you mean 'days'?")


def test_a_lone_surrogate_is_told_by_its_place() -> None:
    assert invalid(name="ab\udfff").detail == "name: it holds a lone surrogate at character 2."


VALUES = st.one_of(st.none(), st.text(), st.integers(), st.lists(st.text()), st.floats(), st.booleans())
NAMES = st.sampled_from([*Trip.model_fields, "nmae", "", "\ud800"])


def checked(params: dict[str, object]) -> Trip | Invalid:
    try:
        trip: Trip = validated("trip", Trip, params)
    except Invalid as error:
        return error
    return trip


@given(st.dictionaries(NAMES, VALUES))
def test_whatever_is_sent_is_either_params_or_invalid_with_a_hint(params: dict[str, object]) -> None:
    outcome = checked(params)

    assert isinstance(outcome, Trip) or (outcome.hint and isinstance(outcome.extra["field"], str))


def test_a_method_is_found_by_its_name_or_told_apart() -> None:
    assert find(METHODS, "recall").name == "recall"
    with pytest.raises(NotFound, match="There is no method 'get_memory'"):
        find(METHODS, "get_memory")
    assert did_you_mean("lsit", METHODS) == "Did you mean 'list'?"
    assert did_you_mean("quux", METHODS) == ""


def test_every_method_declares_what_it_needs() -> None:
    for name, method in METHODS.items():
        assert name == method.name
        assert issubclass(method.params, Params)
        assert set(method.positional) <= method.params.model_fields.keys(), name
        assert all(field.description for field in method.params.model_fields.values()), name


def test_the_document_tells_params_results_and_problems_of_every_method() -> None:
    document = openapi(METHODS)

    text = json.dumps(document)
    schemas = document["components"]["schemas"]
    references = {piece.split('"')[0] for piece in text.split("#/components/schemas/")[1:]}
    recall = document["paths"]["/v1/recall"]["post"]
    assert references <= schemas.keys()
    assert schemas["Problem"]["properties"]["kind"]["enum"] == [kind.kind for kind in KINDS]
    assert DreamdError.kind in schemas["Problem"]["properties"]["kind"]["enum"]
    assert recall["requestBody"]["content"]["application/json"]["schema"]["required"] == ["query"]
    assert recall["x-writes"] is False
    assert document["paths"]["/v1/run_job"]["post"]["x-streams"] is True
    assert document["paths"]["/v1/remember"]["post"]["x-positional"] == ["content"]


def test_case55_times_are_utc_whatever_the_zone_of_the_host() -> None:
    assert parse_instant("2026-07-01T12:00:00") == datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp()
