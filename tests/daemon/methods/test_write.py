"""Writing one memory: what is kept, what is answered, what is refused and in which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.daemon.methods.asking import WatchedEmbedder, at_once, refused
from tests.harness import Daemon

START = "2026-01-01T00:00:00Z"
#: Assembled here, so that no scanner of repositories takes it for a live one.
AWS_KEY = "AKIA" + "Z7QX4MNB2VLK9WPD"

DEFAULTS = {
    "content": "Ada likes tea", "context": "", "author": "", "scope": "default", "session": "", "type": "semantic",
    "subtype": "", "tags": [], "entities": [], "metadata": {}, "tier": "short", "heat": "warm", "pinned": False,
    "emotion": 0.5, "importance": 0.5, "confidence": 1.0, "source": "stated", "provenance": "direct",
    "sensitivity": "personal", "source_turns": [], "redactions": {}, "version": 1, "change_summary": "", "state": "live",
    "created_at": START, "updated_at": START, "event_at": None, "accessed_at": None, "access_count": 0,
    "expires_at": None, "invalid_at": None, "superseded_by": None, "forgotten_at": None, "forgotten_reason": "",
    "retention": 1.0,
}  # fmt: skip

EVERY_FIELD = {
    "content": "Ada moved to Porto", "author": "Bea", "tags": ["Move", "city "], "type": "episodic", "subtype": "life",
    "tier": "long", "importance": 0.8, "emotion": 0.7, "sensitivity": "confidential", "source": "inferred",
    "confidence": 0.6, "metadata": {"n": 1, "nothing": None}, "context": "a longer text", "session": "s1",
    "event_at": "2025-12-24T18:00:00Z", "expires_at": "2030-01-01T00:00:00Z", "pinned": True,
}  # fmt: skip


def test_a_memory_without_options_has_the_defaults_that_the_contract_names(daemon: Daemon) -> None:
    done = daemon.call("remember", content="Ada likes tea")
    kept = daemon.call("get", id=done["id"])

    assert done == {"id": done["id"], "created": True, "version": 1, "sensitivity": "personal", "redactions": {}}
    assert kept.pop("content_hash")
    assert kept == DEFAULTS | {"id": done["id"], "entities": ["Ada"]}


def test_every_field_that_is_given_is_kept(daemon: Daemon) -> None:
    memory = daemon.remember(**EVERY_FIELD, id="porto", scope="alice/coder")

    kept = daemon.call("get", id=memory)

    given = EVERY_FIELD | {"id": "porto", "scope": "alice/coder", "tags": ["move", "city"]}
    assert {name: kept[name] for name in given} == given


def test_the_same_content_in_the_same_scope_is_the_same_memory_and_counts_as_one_use(daemon: Daemon) -> None:
    first = daemon.call("remember", content="Ada likes tea")

    again = daemon.call("remember", content="Ada likes tea")
    elsewhere = daemon.call("remember", content="Ada likes tea", scope="alice")

    assert again == first | {"created": False}
    assert elsewhere["id"] != first["id"]
    assert daemon.call("get", id=first["id"])["access_count"] == 1


def test_the_same_words_of_another_author_day_or_explicit_id_are_another_memory(daemon: Daemon) -> None:
    first = daemon.remember("Ada is here")

    others = [
        daemon.call("remember", content="Ada is here", author="Bea"),
        daemon.call("remember", content="Ada is here", event_at="2026-01-01"),
        daemon.call("remember", content="Ada is here", event_at="2026-06-01"),
        daemon.call("remember", content="Ada is here", id="mine"),
    ]

    assert all(other["created"] for other in others)
    assert len({first, *(other["id"] for other in others)}) == 5


def test_content_that_was_forgotten_comes_back_and_superseded_content_is_new(daemon: Daemon) -> None:
    forgotten, superseded = daemon.remember("Ada likes tea"), daemon.remember("Ada lives in Porto")
    daemon.call("forget", id=forgotten)
    daemon.call("forget", id=superseded, superseded_by=daemon.remember("Ada lives in Rome"))

    back = daemon.call("remember", content="Ada likes tea")
    new = daemon.call("remember", content="Ada lives in Porto")

    assert (back["id"], back["created"], back["restored"]) == (forgotten, False, True)
    assert daemon.call("get", id=forgotten)["state"] == "live"
    assert new["created"]
    assert new["id"] != superseded


def test_whoever_writes_to_a_memory_that_a_night_merged_is_told_which_one_it_is_now(daemon: Daemon) -> None:
    daemon.remember("the canteen opens at noon", id="canteen", tier="core")
    daemon.remember("The canteen opens at noon.", id="lunch")
    daemon.remember("the market is on Saturdays", id="market")
    assert daemon.call("run_job", name="dedup")["counts"]["merged"] == 1

    asked = (
        ("remember", {"id": "lunch", "content": "the canteen opens at one"}),
        ("remember", {"content": "soup at noon", "connect_to": ["lunch"]}),
        ("update", {"id": "lunch", "content": "the canteen opens at one"}),
        ("pin", {"id": "lunch"}),
        ("set_tier", {"id": "lunch", "tier": "long"}),
        ("promote_heat", {"id": "lunch"}),
        ("revert", {"id": "lunch", "version": 1}),
        ("merge", {"survivor": "market", "duplicate": "lunch"}),
        ("forget", {"id": "market", "superseded_by": "lunch"}),
        ("connect", {"a": "lunch", "b": "market"}),
        ("connect", {"a": "market", "b": "lunch"}),
        ("comment", {"id": "lunch", "content": "is it open?"}),
    )
    for method, params in asked:
        error = refused(daemon, "conflict", method, **params)
        assert (method, error.hint, error.extra["superseded_by"]) == (method, "dreamctl get canteen", "canteen")
        assert error.detail == "Memory 'lunch' is superseded by 'canteen'."

    assert daemon.call("update", id="canteen", content="the canteen opens at one")["version"] == 2
    assert daemon.call("comments", id="canteen") == daemon.call("comments", id="lunch") == {"comments": [], "unread": 0}
    assert daemon.call("stats")["total"] == 2


def test_the_same_id_updates_the_fields_given_and_leaves_the_others(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea", tags=["drink"], importance=0.9)

    done = daemon.call("remember", content="Ada likes green tea", id="tea")

    kept = daemon.call("get", id="tea")
    assert (done["created"], done["version"]) == (False, 2)
    assert (kept["content"], kept["tags"], kept["importance"]) == ("Ada likes green tea", ["drink"], 0.9)


def test_an_id_that_is_taken_elsewhere_or_lies_in_the_bin_is_a_conflict(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea")

    elsewhere = refused(daemon, "conflict", "remember", content="x", id="tea", scope="other")
    daemon.call("forget", id="tea")
    binned = refused(daemon, "conflict", "remember", content="x", id="tea")

    assert "another scope" in elsewhere.detail
    assert binned.hint == "dreamctl restore tea"


@pytest.mark.parametrize(("field", "value"), [("id", AWS_KEY), ("scope", f"alice/{AWS_KEY}")])
def test_c8_an_id_or_a_scope_that_holds_a_secret_is_refused_where_it_is_new_and_else_not_found(
    daemon: Daemon, field: str, value: str
) -> None:
    given = {"content": "Ada likes tea", field: value}
    many = daemon.call("remember_many", items=[given])["results"][0]

    for error in (refused(daemon, "invalid", "remember", **given).__dict__, many):
        told = f"{error['detail']} {error['hint']}"
        assert (error.get("extra") or error)["field"] == field
        assert AWS_KEY not in told
    refused(daemon, "not_found", "get", id=AWS_KEY)
    refused(daemon, "not_found", "update", id=AWS_KEY, content="x")
    assert daemon.call("stats", scope="*")["total"] == 0


def test_connect_to_joins_by_hand_and_an_unknown_end_keeps_the_memory_out(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea")
    cake = daemon.remember("Ada bakes cake", connect_to=[tea])

    error = refused(daemon, "not_found", "remember", content="Ada sings", connect_to=["nobody"])

    assert "nobody" in error.detail
    assert [(one["id"], one["kind"], one["weight"]) for one in daemon.call("neighbors", id=tea)["neighbors"]] == [
        (cake, "manual", 2.0)
    ]
    assert daemon.call("stats")["total"] == 2


def test_a_secret_is_masked_wherever_it_stands_and_raises_the_sensitivity(daemon: Daemon) -> None:
    done = daemon.call(
        "remember", content=f"the key is {AWS_KEY}", context=f"pasted: {AWS_KEY}", metadata={"note": AWS_KEY}
    )

    kept = daemon.call("get", id=done["id"])
    assert done["sensitivity"] == "confidential"
    assert sum(done["redactions"].values()) == 3
    assert AWS_KEY not in str(kept)
    assert kept["redactions"] == done["redactions"]


def test_a_secret_in_an_edit_of_tags_is_told_in_the_answer(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea")

    done = daemon.call("remember", content="Ada likes tea", id="tea", tags=[AWS_KEY])

    assert sum(done["redactions"].values()) == 1
    assert done["sensitivity"] == "confidential"


def test_the_configured_default_holds_for_what_nobody_marked(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_SENSITIVITY__DEFAULT": "public"}).start()

    plain = daemon.call("remember", content="water boils at 100 degrees")
    preference = daemon.call("remember", content="Ada prefers tea", subtype="preference")

    assert (plain["sensitivity"], preference["sensitivity"]) == ("public", "personal")


@pytest.mark.parametrize(
    ("params", "kind", "field", "words"),
    [
        ({}, "invalid", "content", "content: field required"),
        ({"content": 5}, "invalid", "content", "valid string"),
        ({"content": " \n\t"}, "invalid", "content", "blank"),
        ({"content": "a\0b"}, "invalid", "content", "NUL at character 1"),
        ({"content": "ab\ud800"}, "invalid", "content", "U+D800) at character 2"),
        ({"content": "é" * 131_073}, "too_large", "content", "262146 bytes"),
        ({"content": "x", "context": "y" * 1_048_577}, "too_large", "context", "1048577 bytes"),
        ({"content": "x", "id": "\ud800"}, "invalid", "id", "lone surrogate at character 0"),
        ({"content": "x", "id": ""}, "invalid", "id", "at least 1 character"),
        ({"content": "x", "id": "n" * 129}, "invalid", "id", "at most 128 characters"),
        ({"content": "x", "scope": "a//b"}, "invalid", "scope", "empty segment"),
        ({"content": "x", "scope": "*"}, "invalid", "scope", "can only be read"),
        ({"content": "x", "importance": 1.5}, "invalid", "importance", "less than or equal to 1"),
        ({"content": "x", "emotion": float("nan")}, "invalid", "emotion", "finite"),
        ({"content": "x", "confidence": True}, "invalid", "confidence", "valid number"),
        ({"content": "x", "metadata": {"n": float("nan")}}, "invalid", "metadata", "finite"),
        ({"content": "x", "metadata": [1]}, "invalid", "metadata", "dictionary"),
        ({"content": "x", "tags": ["a", 1]}, "invalid", "tags", "tags[1]"),
        ({"content": "x", "tags": [" "]}, "invalid", "tags", "tags is blank"),
        ({"content": "x", "event_at": "yesterday"}, "invalid", "event_at", "RFC 3339"),
        ({"content": "x", "event_at": "2026-02-30"}, "invalid", "event_at", "RFC 3339"),
        ({"content": "x", "event_at": 1_767_225_600}, "invalid", "event_at", "a time is a string"),
        ({"content": "x", "expires_at": "0001-01-01T00:00:00+14:00"}, "invalid", "expires_at", "outside"),
        ({"content": "x", "connect_to": [f"m{n}" for n in range(65)]}, "invalid", "connect_to", "at most 64"),
        ({"content": "x", "request_id": "r" * 129}, "invalid", "request_id", "at most 128"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_field_and_nothing_is_stored(shared: Daemon, params, kind, field, words):
    error = refused(shared, kind, "remember", **params)

    assert error.extra["field"] == field
    assert words in error.detail
    assert shared.call("stats")["total"] == 0


@pytest.mark.parametrize(
    ("params", "detail", "hint"),
    [
        ({"imporance": 0.5}, "Unknown param 'imporance'.", "Did you mean 'importance'?"),
        ({"zzzzzz": 0.5}, "Unknown param 'zzzzzz'.", "dreamctl remember --help"),
        ({"tier": "lnog"}, "tier: it is one of core, long, short.", "Did you mean 'long'?"),
        ({"tier": 5}, "tier: it is one of core, long, short.", "dreamctl remember --help"),
        ({"sensitivity": "secrte"}, "it is one of public, personal", "Did you mean 'secret'?"),
        ({"type": "preference"}, "type: it is one of semantic", "A type of your own goes into `subtype`."),
    ],
)
def test_a_slip_is_answered_with_what_was_probably_meant(shared: Daemon, params, detail, hint) -> None:
    error = refused(shared, "invalid", "remember", content="x", **params)

    assert detail in error.detail
    assert error.hint == hint


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("2026-05-04T09:30:00", "2026-05-04T09:30:00Z"),
        ("2026-05-04", "2026-05-04T00:00:00Z"),
        ("2026-05-04T09:30:00+05:45", "2026-05-04T03:45:00Z"),
        ("2026-05-04T09:30:00.25-08:00", "2026-05-04T17:30:00.250000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_naive_time_is_utc_and_every_answer_shows_the_same_instant_alike(shared: Daemon, given, shown) -> None:
    memory = shared.remember("Ada ran", event_at=given, scope=f"times/{len(given)}-{given[:4]}")
    scope = shared.call("get", id=memory)["scope"]

    listed = shared.call("list", scope=scope)["memories"][0]
    recalled = shared.call("recall", query="ran", scope=scope)["hits"][0]
    updated = shared.call("pin", id=memory)

    seen = [shared.call("get", id=memory), listed, recalled, updated]
    assert [one["event_at"] for one in seen] == [shown] * 4
    assert len({one["created_at"] for one in seen}) == 1


def test_while_the_embedder_fails_nothing_is_stored(watched: Daemon, embedder: WatchedEmbedder) -> None:
    embedder.broken = True

    error = refused(watched, "unavailable", "remember", content="Ada likes tea")
    embedder.broken = False

    assert error.extra["retry_after_s"] > 0
    assert watched.call("stats")["total"] == 0
    assert watched.call("remember", content="Ada likes tea")["created"]


def test_update_edits_what_is_given_and_names_what_changed(daemon: Daemon) -> None:
    daemon.remember(**EVERY_FIELD, id="porto")
    daemon.clock.advance(60)

    edited = daemon.call("update", id="porto", content="Ada moved to Braga", tags=["city"])

    kept = {name: edited[name] for name in EVERY_FIELD if name not in ("content", "tags", "context")}
    assert kept == {name: EVERY_FIELD[name] for name in kept}
    assert (edited["content"], edited["tags"], edited["version"]) == ("Ada moved to Braga", ["city"], 2)
    assert edited["change_summary"] == "content, tags changed"
    assert (edited["created_at"], edited["updated_at"]) == (START, "2026-01-01T00:01:00Z")
    assert "context" not in edited
    assert "retention" not in edited
    assert daemon.call("get", id="porto")["context"] == "a longer text"


def test_an_update_that_changes_nothing_makes_no_version(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea", tags=["drink"])

    edited = daemon.call("update", id="tea", content="Ada likes tea", tags=["DRINK"])

    assert edited["version"] == 1
    assert daemon.call("history", id="tea")["versions"] == []


def test_null_takes_a_date_away_and_leaves_everything_else(daemon: Daemon) -> None:
    daemon.remember("Ada ran", id="run", event_at="2026-01-02", expires_at="2027-01-01", author="Bea")

    edited = daemon.call("update", id="run", event_at=None, expires_at=None, author=None, content=None)

    assert (edited["event_at"], edited["expires_at"]) == (None, None)
    assert (edited["author"], edited["content"]) == ("Bea", "Ada ran")


def test_an_edit_of_a_known_author_s_text_asks_the_embedder_once(watched: Daemon, embedder: WatchedEmbedder) -> None:
    watched.remember("Ada likes tea", id="tea", author="Bea")
    embedder.texts.clear()

    watched.call("update", id="tea", content="Ada likes green tea")
    watched.call("pin", id="tea")
    watched.call("update", id="tea", importance=0.9)

    assert embedder.texts == ["Bea: Ada likes green tea"]


def test_if_version_that_is_not_the_memory_s_is_a_conflict_which_tells_the_version(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea")
    daemon.call("update", id="tea", content="Ada likes green tea", if_version=1)

    error = refused(daemon, "conflict", "update", id="tea", content="Ada likes cocoa", if_version=1)

    assert error.extra["version"] == 2
    assert error.hint == "dreamctl get tea"
    assert daemon.call("get", id="tea")["content"] == "Ada likes green tea"


def test_an_update_may_neither_move_the_scope_nor_say_what_another_memory_says(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea")
    daemon.remember("Ada likes cocoa", id="cocoa")

    moved = refused(daemon, "invalid", "update", id="tea", scope="other")
    twin = refused(daemon, "conflict", "update", id="cocoa", content="Ada likes tea")

    assert moved.extra["field"] == "scope"
    assert twin.extra["duplicate_of"] == "tea"
    assert twin.hint.startswith("dreamctl merge ")


def test_a_memory_in_the_bin_is_not_edited(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea")
    daemon.call("forget", id="tea")

    calls = {"update": {"content": "x"}, "pin": {}, "set_tier": {"tier": "long"}, "revert": {"version": 1}}
    errors = [refused(daemon, "conflict", method, id="tea", **params) for method, params in calls.items()]

    assert {(error.hint, error.extra["state"]) for error in errors} == {("dreamctl restore tea", "forgotten")}


def test_an_edit_never_lowers_the_sensitivity_by_itself(daemon: Daemon) -> None:
    daemon.remember("Ada's account is 12", id="account", sensitivity="secret", tier="core")

    edited = daemon.call("update", id="account", content="Ada's account is 13")

    assert (edited["sensitivity"], edited["tier"]) == ("secret", "core")


def test_revert_brings_an_old_text_back_as_a_new_version(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea", tags=["drink"], context="said at breakfast")
    daemon.call("update", id="tea", content="Ada likes cocoa", tags=["sweet"])

    back = daemon.call("revert", id="tea", version=1)

    assert (back["content"], back["tags"], back["version"]) == ("Ada likes tea", ["drink"], 3)
    assert [one["content"] for one in daemon.call("history", id="tea")["versions"]] == [
        "Ada likes cocoa",
        "Ada likes tea",
    ]
    assert daemon.call("recall", query="tea")["hits"][0]["id"] == "tea"


def test_a_revert_that_meets_a_rise_in_sensitivity_leaves_it_raised(daemon: Daemon) -> None:
    """The level is compared as the text is written, whatever it was when the version was looked up."""
    for number in range(10):
        memory = daemon.remember(f"plan {number}", sensitivity="public")
        daemon.call("update", id=memory, content=f"plan {number} in other words")
        calls = [("revert", {"id": memory, "version": 1}), ("update", {"id": memory, "sensitivity": "secret"})]
        at_once(daemon, *(calls if number % 2 else calls[::-1]))

        kept = daemon.call("get", id=memory)
        assert (kept["content"], kept["sensitivity"]) == (f"plan {number}", "secret")


def test_reverting_to_a_version_that_does_not_exist_is_not_found(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea", id="tea")

    error = refused(daemon, "not_found", "revert", id="tea", version=1)

    assert error.hint == "dreamctl history tea"
    assert refused(daemon, "invalid", "revert", id="tea", version=0).extra["field"] == "version"


def test_a_version_above_the_clearance_can_neither_be_read_nor_brought_back(daemon: Daemon) -> None:
    daemon.remember("the vault code is 1234", id="vault", sensitivity="secret")
    daemon.call("update", id="vault", content="the vault is in the cellar", sensitivity="public")

    shown = daemon.call("history", id="vault", clearance="public")["versions"]
    error = refused(daemon, "not_found", "revert", id="vault", version=1, clearance="public")
    back = daemon.call("revert", id="vault", version=1)

    assert shown == []
    assert error.detail == refused(daemon, "not_found", "revert", id="vault", version=7).detail.replace("7", "1")
    assert (back["content"], back["sensitivity"]) == ("the vault code is 1234", "secret")


def test_marks_change_one_field_and_make_no_version(daemon: Daemon) -> None:
    before = daemon.call("get", id=daemon.remember("Ada likes tea", id="tea"))
    del before["context"], before["retention"]

    pinned = daemon.call("pin", id="tea")
    felt = daemon.call("set_emotion", id="tea", emotion=0.9)
    kept = daemon.call("set_tier", id="tea", tier="core")
    loose = daemon.call("unpin", id="tea")

    assert pinned == before | {"pinned": True}
    assert felt == pinned | {"emotion": 0.9}
    assert kept == felt | {"tier": "core"}
    assert loose == kept | {"pinned": False}


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("set_emotion", {"emotion": 1.1}, "emotion"),
        ("set_emotion", {}, "emotion"),
        ("set_tier", {"tier": "forever"}, "tier"),
        ("pin", {"pinned": True}, "pinned"),
        ("update", {"if_version": "1"}, "if_version"),
        ("update", {"connect_to": []}, "connect_to"),
    ],
)
def test_a_wrong_mark_is_invalid_and_names_its_field(shared: Daemon, method, params, field) -> None:
    assert refused(shared, "invalid", method, id="tea", **params).extra["field"] == field


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("update", {"content": "x"}),
        ("update", {}),
        ("forget", {}),
        ("restore", {}),
        ("revert", {"version": 1}),
        ("pin", {}),
        ("unpin", {}),
        ("set_emotion", {"emotion": 0.1}),
        ("set_tier", {"tier": "long"}),
    ],
)
def test_a_write_to_an_id_that_does_not_exist_is_not_found_and_takes_no_prefix(shared: Daemon, method, params) -> None:
    memory = shared.remember("Ada likes tea", scope="prefixes")

    unknown = refused(shared, "not_found", method, id="nobody", **params)
    prefix = refused(shared, "not_found", method, id=memory[:20], **params)

    assert unknown.detail == "There is no memory 'nobody'."
    assert prefix.detail == f"There is no memory {memory[:20]!r}."


def test_an_expired_memory_said_again_lives_again(daemon: Daemon) -> None:
    first = daemon.remember("the shop closes at six", expires_at="2026-01-02")
    daemon.clock.advance(2 * 86_400)

    again = daemon.call("remember", content="the shop closes at six", expires_at="2026-02-01")

    assert (again["id"], again["created"], again["restored"]) == (first, False, True)
    assert daemon.call("get", id=first)["expires_at"] == "2026-02-01T00:00:00Z"
