"""What waits in a spool comes out as it went in, and leaves no file."""

from __future__ import annotations

import pytest

from storage.errors import Unavailable
from storage.exchange.spool import Spool, Waiting


def test_items_come_out_by_kind_in_their_order_and_in_batches(tmp_path):
    with Spool(tmp_path) as spool:
        for number in range(5):
            spool.add("memory", f"line {number}", {"content": f"é\u2028\n{number}", "at": 0.1 + number, "none": None})
            spool.add("edge", f"line {number}", {"weight": 1.5})
        batches = list(spool.batches("memory", 2))

        assert [len(batch) for batch in batches] == [2, 2, 1]
        assert batches[0][1] == Waiting("line 1", {"content": "é\u2028\n1", "at": 1.1, "none": None})
        assert len(next(spool.batches("edge", 10))) == 5
        assert list(spool.batches("fact", 10)) == []
        assert len(spool) == 10


def test_it_leaves_no_file_that_has_a_name(tmp_path):
    with Spool(tmp_path) as spool:
        spool.add("memory", "line 1", {"content": "x" * 100_000})
        assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_where_it_cannot_write_is_told(tmp_path):
    with Spool(tmp_path / "no-such-folder") as spool, pytest.raises(Unavailable, match="cannot wait") as caught:
        spool.add("memory", "line 1", {})
    assert "df -h" in caught.value.hint
