from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import Invalid
from storage.fading import HALF_LIFE_DAYS, Awake, Retention, add, edge_weight, edge_weights, strengthen
from storage.model import DAY, EDGE_KINDS, MAX_EDGE_WEIGHT, Memory

NOW = 1_767_225_600.0
ALWAYS = Awake()
FADING = ("hebbian", "similar", "concept", "manual")

days = st.floats(0.0, 2_000.0)
instants = st.floats(NOW - 400 * DAY, NOW + 400 * DAY)
shares = st.floats(0.0, 1.0)
weights = st.floats(0.0, MAX_EDGE_WEIGHT)
counts = st.integers(0, 500)
spans = st.lists(st.tuples(instants, st.floats(-DAY, 90 * DAY)).map(lambda s: (s[0], s[0] + s[1])), max_size=8)
policies = st.sampled_from(["ebbinghaus", "linear", "none"])


def retained(
    age_days: float, accesses: int = 0, importance: float = 0.5, emotion: float = 0.5, **settings: object
) -> float:
    return Retention(**settings).of(NOW - age_days * DAY, accesses, importance, emotion, NOW, ALWAYS)


def test_without_absences_all_time_is_awake_time():
    assert ALWAYS.seconds(NOW - 5 * DAY, NOW) == 5 * DAY


def test_absences_do_not_count_and_overlapping_ones_count_once():
    awake = Awake([(30.0, 40.0), (10.0, 20.0), (15.0, 25.0), (50.0, 50.0), (70.0, 60.0)])

    assert awake.absences == ((10.0, 25.0), (30.0, 40.0))
    assert awake.seconds(0.0, 100.0) == 75.0
    assert awake.seconds(12.0, 35.0) == 5.0
    assert awake.seconds(12.0, 20.0) == 0.0


def test_time_that_runs_backwards_counts_as_none():
    assert Awake([(10.0, 20.0)]).seconds(100.0, 5.0) == 0.0


def test_the_instant_after_some_awake_seconds_skips_absences():
    awake = Awake([(10.0, 20.0), (30.0, 40.0)])

    assert awake.after(0.0, 5.0) == 5.0
    assert awake.after(0.0, 15.0) == 25.0
    assert awake.after(0.0, 100.0) == 120.0
    assert awake.after(15.0, 0.0) == 15.0
    assert awake.after(15.0, 1.0) == 21.0


@given(spans, instants, instants)
def test_awake_time_is_what_passed_less_the_overlap_with_each_absence(absences, since, until):
    awake = Awake(absences)
    lost = sum(max(0.0, min(end, until) - max(start, since)) for start, end in awake.absences)

    assert awake.seconds(since, until) == pytest.approx(max(0.0, until - since - lost), abs=1e-3)


@given(spans, st.lists(instants, min_size=1, max_size=10), instants)
def test_rows_and_single_instants_give_the_same_awake_time(absences, since, until):
    awake = Awake(absences)

    assert awake.seconds_many(np.array(since), until).tolist() == [awake.seconds(one, until) for one in since]


@given(spans, instants, st.floats(1.0, 400 * DAY))
def test_the_instant_found_lies_that_many_awake_seconds_later(absences, since, seconds):
    awake = Awake(absences)

    assert awake.seconds(since, awake.after(since, seconds)) == pytest.approx(seconds, abs=1e-3)


def test_the_instant_before_some_awake_seconds_skips_absences():
    awake = Awake([(10.0, 20.0), (30.0, 40.0)])

    assert awake.before(120.0, 80.0) == 40.0
    assert awake.before(120.0, 81.0) == 29.0
    assert awake.before(120.0, 91.0) == 9.0
    assert awake.before(25.0, 5.0) == 20.0
    assert awake.before(15.0, 0.0) == 15.0  # in the midst of an absence
    assert awake.before(15.0, 1.0) == 9.0
    assert ALWAYS.before(NOW, math.inf) == -math.inf


@given(spans, instants, st.floats(0.0, 400 * DAY))
def test_the_instant_before_lies_that_many_awake_seconds_ago_and_none_later_does(absences, now, seconds):
    awake = Awake(absences)
    since = awake.before(now, seconds)

    assert since <= now
    assert awake.seconds(since, now) == pytest.approx(seconds, abs=1e-3)
    assert since == now or awake.seconds(since + 1.0, now) < seconds


@given(spans, instants, st.floats(0.0, 400 * DAY))
def test_before_undoes_after_but_for_absences_at_its_ends(absences, since, seconds):
    awake = Awake(absences)
    back = awake.before(awake.after(since, seconds), seconds)

    assert back >= since - 1e-3
    assert awake.seconds(since, back) == pytest.approx(0.0, abs=1e-3)


@given(spans, instants, instants, st.floats(0.0, 400 * DAY))
def test_a_cutoff_tells_apart_what_awake_seconds_tell_apart(absences, since, now, seconds):
    awake = Awake(absences)
    passed = awake.seconds(since, now)

    if since <= now and abs(passed - seconds) > 1e-3:
        assert (since <= awake.before(now, seconds)) is (passed > seconds)


def test_after_one_awake_day_a_manual_edge_has_95_percent_left_and_a_learned_one_90():
    """A2 of the seeds' faults: one rule each, applied once."""
    assert edge_weight(2.0, NOW - DAY, "manual", NOW, ALWAYS) == pytest.approx(1.90, rel=1e-12)
    for kind in ("hebbian", "similar", "concept"):
        assert edge_weight(2.0, NOW - DAY, kind, NOW, ALWAYS) == pytest.approx(1.80, rel=1e-12)


def test_half_lives_are_those_of_the_daily_rates():
    assert HALF_LIFE_DAYS["hebbian"] == pytest.approx(6.5788, abs=5e-5)
    assert HALF_LIFE_DAYS["manual"] == pytest.approx(13.513, abs=5e-4)
    assert edge_weight(1.0, NOW - 6.5788 * DAY, "hebbian", NOW, ALWAYS) == pytest.approx(0.5, abs=1e-5)


def test_every_kind_of_edge_has_a_half_life():
    assert set(HALF_LIFE_DAYS) == set(EDGE_KINDS)


@pytest.mark.parametrize("kind", ["next", "derived"])
def test_edges_that_state_an_order_or_a_source_do_not_fade(kind):
    assert edge_weight(1.0, NOW - 10_000 * DAY, kind, NOW, ALWAYS) == 1.0


def test_an_edge_does_not_fade_while_nobody_is_there():
    two_months_off = Awake([(NOW - 60 * DAY, NOW)])

    assert edge_weight(2.0, NOW - 61 * DAY, "hebbian", NOW, two_months_off) == pytest.approx(1.80, rel=1e-12)


def test_an_edge_from_the_future_has_its_full_weight():
    assert edge_weight(2.0, NOW + 30 * DAY, "hebbian", NOW, ALWAYS) == 2.0


@pytest.mark.parametrize("kind", FADING)
def test_sixty_passes_in_an_hour_leave_what_one_pass_leaves(kind):
    """Cases #11: fading follows time and not the number of passes."""
    weight, as_of = 5.0, NOW
    for minute in range(1, 61):
        weight, as_of = edge_weight(weight, as_of, kind, NOW + minute * 60, ALWAYS), NOW + minute * 60

    assert weight == pytest.approx(edge_weight(5.0, NOW, kind, NOW + 3600, ALWAYS), rel=1e-9)


@given(weights, st.sampled_from(FADING), st.floats(0.0, 300.0), st.floats(0.0, 300.0), spans)
def test_two_short_fades_equal_one_long_fade(weight, kind, first_days, second_days, absences):
    awake = Awake(absences)
    halfway = NOW - second_days * DAY
    start = halfway - first_days * DAY
    in_two = edge_weight(edge_weight(weight, start, kind, halfway, awake), halfway, kind, NOW, awake)

    assert in_two == pytest.approx(edge_weight(weight, start, kind, NOW, awake), rel=1e-9, abs=1e-300)


@given(st.lists(st.tuples(weights, instants, st.sampled_from(EDGE_KINDS)), min_size=1, max_size=10), spans)
def test_rows_of_edges_fade_like_single_ones(edges, absences):
    awake = Awake(absences)
    row = edge_weights(
        np.array([edge[0] for edge in edges]),
        np.array([edge[1] for edge in edges]),
        [edge[2] for edge in edges],
        NOW,
        awake,
    )

    assert row.tolist() == pytest.approx([edge_weight(*edge, NOW, awake) for edge in edges], rel=1e-12)


def test_the_first_co_activation_adds_a_full_step_and_the_strongest_edge_gains_nothing():
    assert strengthen(0.0) == 0.2
    assert strengthen(5.0) == pytest.approx(5.1)
    assert strengthen(10.0) == 10.0


@given(weights)
def test_strengthening_never_weakens_and_never_passes_the_greatest_weight(weight):
    assert weight <= strengthen(weight) <= MAX_EDGE_WEIGHT


def test_merged_edges_add_up_to_at_most_the_greatest_weight():
    """A4 of the seeds' faults: 1.0 and 0.1 are 1.1."""
    assert add(1.0, 0.1) == pytest.approx(1.1)
    assert add(8.0, 7.0) == 10.0


@pytest.mark.parametrize(
    ("age_days", "accesses", "importance", "emotion", "expected"),
    [
        (0.0, 0, 0.5, 0.5, 1.0),
        (1.0, 0, 0.5, 0.5, 0.866878),  # e^(-1/7)
        (7.0, 0, 0.5, 0.5, 0.367879),  # 1/e at S = 7
        (14.0, 0, 0.5, 0.5, 0.135335),
        (16.118096, 0, 0.5, 0.5, 0.1),
        (30.0, 0, 0.5, 0.5, 0.013764),
        (7.0, 1, 0.5, 0.5, 0.513417),  # S = 10.5
        (24.177144, 1, 0.5, 0.5, 0.1),
        (30.0, 3, 0.5, 0.5, 0.180092),  # S = 17.5
        (30.0, 10, 0.5, 0.5, 0.489542),  # S = 42
        (7.0, 0, 0.0, 0.0, 0.069483),  # S = 2.625
        (7.0, 0, 1.0, 1.0, 0.586646),  # S = 13.125
    ],
)
def test_retention_follows_the_published_table(age_days, accesses, importance, emotion, expected):
    """Cases #80: one table of (age, accesses) for decay, recall, metrics and command line."""
    assert retained(age_days, accesses, importance, emotion) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("age_days", "expected"), [(0.0, 1.0), (7.0, 0.5), (12.6, 0.1), (14.0, 0.0), (90.0, 0.0)])
def test_linear_retention_halves_in_its_half_life_and_ends_at_twice_that(age_days, expected):
    assert retained(age_days, policy="linear") == pytest.approx(expected)


def test_without_a_policy_nothing_is_forgotten():
    keeper = Retention(policy="none")

    assert keeper.of(0.0, 0, 0.0, 0.0, NOW, ALWAYS) == 1.0
    assert keeper.forgotten_at(0.0, 0, 0.0, 0.0, ALWAYS) is None


def test_an_unused_memory_goes_after_sixteen_days_and_each_access_adds_eight():
    """7 · ln 10 = 16.118 and 3.5 · ln 10 = 8.059, at importance and emotion 0.5."""
    gone = [(Retention().forgotten_at(NOW, accesses, 0.5, 0.5, ALWAYS) - NOW) / DAY for accesses in range(4)]

    assert gone[0] == pytest.approx(16.118, abs=5e-4)
    assert np.diff(gone) == pytest.approx([8.059] * 3, abs=5e-4)


def test_retention_exactly_at_the_threshold_is_kept():
    """B19 of the seeds' faults: forgotten means strictly below."""
    half = Retention(policy="linear", half_life_days=1.0, threshold=0.5)

    assert half.of(NOW - DAY, 0, 0.5, 0.5, NOW, ALWAYS) == 0.5
    assert half.keeps(NOW - DAY, 0, 0.5, 0.5, NOW, ALWAYS)
    assert not half.keeps(NOW - DAY - 1.0, 0, 0.5, 0.5, NOW, ALWAYS)


def test_two_months_off_forget_nothing():
    """Cases #4: what matters is the daemon's time, not the calendar's."""
    off = Awake([(NOW - 60 * DAY, NOW)])

    assert Retention().of(NOW - 61 * DAY, 0, 0.5, 0.5, NOW, off) == pytest.approx(math.exp(-1 / 7))


def test_an_absence_postpones_the_instant_of_forgetting():
    used_at = NOW - 10 * DAY
    without = Retention().forgotten_at(used_at, 0, 0.5, 0.5, ALWAYS)
    with_absence = Retention().forgotten_at(used_at, 0, 0.5, 0.5, Awake([(NOW - 5 * DAY, NOW - 3 * DAY)]))

    assert with_absence - without == pytest.approx(2 * DAY)


def test_a_memory_that_faded_already_was_forgotten_in_the_past():
    assert Retention().forgotten_at(NOW - 100 * DAY, 0, 0.5, 0.5, ALWAYS) == pytest.approx(
        NOW - (100 - 16.118096) * DAY
    )


def test_a_threshold_of_nothing_is_never_reached():
    assert Retention(threshold=0.0).forgotten_at(NOW, 0, 0.5, 0.5, ALWAYS) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy", "quadratic"),
        ("base_strength_days", 0.0),
        ("base_strength_days", math.nan),
        ("reinforcement_days", -1.0),
        ("half_life_days", 0.0),
        ("threshold", 1.5),
    ],
)
def test_settings_that_make_no_curve_are_refused_by_name(field, value):
    with pytest.raises(Invalid) as caught:
        Retention(**{field: value})

    assert caught.value.extra["field"] == f"decay.{field}"
    assert caught.value.hint


@given(policies, instants, counts, shares, shares, spans)
def test_retention_stays_within_its_bounds(policy, used_at, accesses, importance, emotion, absences):
    assert 0.0 <= Retention(policy=policy).of(used_at, accesses, importance, emotion, NOW, Awake(absences)) <= 1.0


@given(policies, st.floats(NOW, NOW + 400 * DAY), counts, shares, shares)
def test_a_memory_used_in_the_future_is_fully_retained(policy, used_at, accesses, importance, emotion):
    """D1 of the seeds' faults: ages clamp at 0."""
    assert Retention(policy=policy).of(used_at, accesses, importance, emotion, NOW, ALWAYS) == 1.0


@given(policies, days, counts, counts, shares, shares, shares, shares)
def test_more_accesses_importance_or_emotion_never_lower_retention(
    policy, age_days, accesses, more, importance, importance_gain, emotion, emotion_gain
):
    def of(accesses: int, importance: float, emotion: float) -> float:
        return retained(age_days, accesses, min(importance, 1.0), min(emotion, 1.0), policy=policy)

    before = of(accesses, importance, emotion)

    assert of(accesses + more, importance, emotion) >= before
    assert of(accesses, importance + importance_gain, emotion) >= before
    assert of(accesses, importance, emotion + emotion_gain) >= before


@given(policies, instants, instants, st.floats(0.0, 90 * DAY), spans)
def test_another_absence_never_lowers_retention(policy, used_at, start, length, absences):
    retention = Retention(policy=policy)
    before = retention.of(used_at, 0, 0.5, 0.5, NOW, Awake(absences))
    after = retention.of(used_at, 0, 0.5, 0.5, NOW, Awake([*absences, (start, start + length)]))

    assert after >= before * (1 - 1e-9)


@given(st.sampled_from(["ebbinghaus", "linear"]), st.floats(0.01, 0.99), instants, counts, shares, shares, spans)
def test_at_the_instant_of_forgetting_retention_crosses_the_threshold(
    policy, threshold, used_at, accesses, importance, emotion, absences
):
    retention, awake = Retention(policy=policy, threshold=threshold), Awake(absences)
    gone = retention.forgotten_at(used_at, accesses, importance, emotion, awake)

    assert retention.of(used_at, accesses, importance, emotion, gone, awake) == pytest.approx(threshold, abs=1e-6)
    assert retention.keeps(used_at, accesses, importance, emotion, gone - 1.0, awake)


@given(policies, st.lists(st.tuples(instants, counts, shares, shares), min_size=1, max_size=10), spans)
def test_rows_of_memories_are_retained_like_single_ones(policy, memories, absences):
    retention, awake = Retention(policy=policy), Awake(absences)
    columns = [np.array(column, dtype=np.float64) for column in zip(*memories, strict=True)]

    row = retention.of_many(*columns, NOW, awake)

    assert row.tolist() == pytest.approx([retention.of(*memory, NOW, awake) for memory in memories], rel=1e-12)


def test_whole_memories_are_retained_since_their_last_access_or_edit():
    week_ago = NOW - 7 * DAY
    memories = [
        Memory(id="unused", created_at=week_ago, updated_at=week_ago),
        Memory(id="used", created_at=week_ago - DAY, updated_at=week_ago - DAY, accessed_at=week_ago, access_count=1),
        Memory(id="edited", created_at=week_ago, updated_at=NOW),
    ]

    assert Retention().of_rows(memories, NOW, ALWAYS) == pytest.approx([0.367879, 0.513417, 1.0], abs=1e-6)
    assert Retention().of_rows([], NOW, ALWAYS).shape == (0,)
