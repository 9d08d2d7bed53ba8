"""Links in a circle lose one of them, and all other links stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storage.exchange.circles import closing


def in_circles(links):
    """What is come back to from itself."""
    found = set()
    for start in links:
        at = links[start]
        for _ in links:
            if at == start:
                found.add(start)
            at = links.get(at)
    return found


@given(st.dictionaries(st.integers(0, 12).map(str), st.integers(0, 12).map(str)))
def test_without_what_closes_them_there_are_no_circles_and_one_link_of_each_is_gone(links):
    found = closing(links)
    circled = in_circles(links)

    assert found <= circled
    assert in_circles({one: other for one, other in links.items() if one not in found}) == set()
    for one in found:  # each put back alone makes its circle again
        assert one in in_circles({name: other for name, other in links.items() if name not in found - {one}})


def test_a_very_long_chain_is_walked_once():
    links = {str(number): str(number + 1) for number in range(200_000)}

    assert closing(links) == set()
    assert closing(links | {"200000": "0"}) == {"200000"}
