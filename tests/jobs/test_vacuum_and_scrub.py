"""Room is given back where it is worth it, and what was erased for good leaves no byte behind."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest
from hypothesis import strategies as st

from jobs import scrub, vacuum
from storage.canaries import Canary
from storage.errors import NotFound
from storage.forget import SCRUB_DUE
from storage.snapshots import SNAPSHOTS
from storage.store import COLLECTIONS
from tests.disk import asked, written
from tests.harness import Daemon
from tests.jobs.by_hand import context
from tests.jobs.world import for_all

shares = st.dictionaries(st.sampled_from(COLLECTIONS), st.floats(0.0, 1.0))


@for_all(shares)
def test_the_collections_above_the_share_are_rewritten_in_one_order(some) -> None:
    planned = vacuum.plan(some)

    assert planned == vacuum.plan(dict(reversed(some.items())))
    assert set(planned) == {name for name, share in some.items() if share > 0.3}
    assert vacuum.plan(some | dict.fromkeys(planned, 0.0)) == ()


def test_exactly_the_share_is_not_worth_it() -> None:
    assert vacuum.plan({"memories": 0.3}) == ()


@pytest.mark.parametrize(("due", "planned"), [(None, ()), (0.0, COLLECTIONS), (1.0, COLLECTIONS)])
def test_all_is_scrubbed_where_something_was_erased(due, planned) -> None:
    assert scrub.plan(due) == planned


def traces(daemon: Daemon, words: Sequence[str]) -> list[tuple[str, str]]:
    """Which of the words stand in which file of the state folder but older snapshots, packed images of the journal included."""
    forms = {word: (word.encode(), word.encode("utf-16-le")) for word in words}
    files = [path for path in daemon.folder.rglob("*") if path.is_file() and SNAPSHOTS not in path.parts]
    found = []
    for path in files:
        held = b"".join(written(path))
        found += [(word, path.name) for word, some in forms.items() if any(form in held for form in some)]
    images = daemon.in_lane(daemon.stores.ledger._db.all, "SELECT image FROM journal")
    unpacked = b"".join(zlib.decompress(image) for (image,) in images)
    return found + [(word, "journal") for word, some in forms.items() if any(form in unpacked for form in some)]


def test_a_vacuum_gives_room_back_once(daemon: Daemon) -> None:
    items = [{"content": f"note {n}"} for n in range(300)]
    ids = [one["id"] for one in daemon.call("remember_many", items=items)["results"]]
    daemon.call("forget", ids=ids[:200], hard=True)
    daemon.in_lane(daemon.stores.flush)
    dry = daemon.call("run_job", name="vacuum", dry_run=True)
    run = daemon.call("run_job", name="vacuum")

    assert run["counts"] == dry["counts"]
    assert "memories" in {example["collection"] for example in run["examples"]}
    assert daemon.call("run_job", name="vacuum")["outcome"] == "unchanged"
    assert daemon.call("stats")["total"] == 100


def test_a_vacuum_that_is_told_to_stop_leaves_the_next_collection(daemon: Daemon) -> None:
    ids = [daemon.remember(f"note {n}") for n in range(10)]
    for one in ids[1:]:
        daemon.call("connect", a=ids[0], b=one)
    daemon.call("forget", ids=ids, hard=True)
    daemon.in_lane(daemon.stores.flush)

    assert vacuum.run(context(daemon, stopping=lambda: True)).counts["vacuumed"] == 0
    assert vacuum.run(context(daemon)).counts["vacuumed"] >= 2


def test_nothing_is_scrubbed_where_nothing_was_erased(daemon: Daemon) -> None:
    daemon.in_lane(daemon.stores.ledger.set_fact, SCRUB_DUE, None)
    daemon.call("forget", id=daemon.remember("only forgotten"))

    assert daemon.call("run_job", name="scrub")["outcome"] == "unchanged"


def test_after_a_scrub_no_file_holds_a_byte_of_what_was_erased(daemon: Daemon) -> None:
    """Text, context, metadata, a former version and a label, in every file of the state folder, the ledger's log too."""
    words = {name: f"zq{name}xyzzy" for name in ("content", "former", "context", "metadata", "tag", "label", "author")}
    memory = daemon.remember(
        f"the secret is {words['former']}", context=words["context"], metadata={"k": words["metadata"]},
        tags=[words["tag"]], author=words["author"], id="doomed",
    )  # fmt: skip
    other = daemon.remember("the fox sleeps")
    daemon.call("update", id=memory, content=f"the secret is {words['content']}")
    daemon.call("connect", a=memory, b=other, label=words["label"], weight=0.12)
    daemon.call("recall", query="secret")
    daemon.call("run_job", name="night")
    daemon.beat(25)
    daemon.call("run_job", name="night")
    assert daemon.call("get", id=memory)["state"] == "forgotten"
    assert {word for word, _ in traces(daemon, list(words.values()))} == set(words.values())

    older = len(daemon.call("snapshots")["snapshots"])
    assert daemon.call("forget", id=memory, hard=True)["snapshots"] == older > 0  # which hold it until they rotate
    with pytest.raises(NotFound):
        daemon.call("get", id=memory)
    run = daemon.call("run_job", name="scrub")
    assert (run["outcome"], run["counts"]) == ("changed", {"scrubbed": len(COLLECTIONS)})
    assert traces(daemon, list(words.values())) == []
    assert daemon.call("get", id=other)["content"] == "the fox sleeps"
    assert daemon.in_lane(daemon.stores.ledger.fact, SCRUB_DUE) is None


def test_a_scrub_finishes_what_a_kill_left_of_a_hard_forget_in_the_log(daemon: Daemon) -> None:
    """The question that returned the memory was let go of, and then the kill came."""
    memory = daemon.remember("the first")
    dense, terms = daemon.parts.gate.question("where did the secret ship sail")
    ledger = daemon.stores.ledger
    daemon.in_lane(ledger.canaries.add, [Canary(daemon.clock.now(), "s", "secret", dense, terms, (memory,))])
    daemon.in_lane(ledger.set_fact, SCRUB_DUE, daemon.clock.now())
    daemon.in_lane(ledger.let_go, [memory])
    assert asked(daemon.folder, dense) != []

    scrub.run(context(daemon))

    assert asked(daemon.folder, dense) == []


def test_what_is_erased_while_a_scrub_runs_is_due_again(daemon: Daemon) -> None:
    first, second = daemon.remember("the first"), daemon.remember("the second")
    daemon.call("forget", id=first, hard=True)

    def meddle(done: int, total: int) -> None:
        if done == total:
            daemon.clock.advance(1)
            daemon.call("forget", id=second, hard=True)

    scrub.run(context(daemon, progress=meddle))
    assert daemon.in_lane(daemon.stores.ledger.fact, SCRUB_DUE) == daemon.clock.now()


def test_a_scrub_that_is_told_to_stop_stays_due_and_counts_what_it_did(daemon: Daemon) -> None:
    daemon.call("forget", id=daemon.remember("the first"), hard=True)
    asked: list[None] = []

    def stopping() -> bool:
        asked.append(None)
        return len(asked) > 1

    assert scrub.run(context(daemon, stopping=stopping)).counts["scrubbed"] == 1
    assert scrub.run(context(daemon, dry_run=True)).counts["scrubbed"] == len(COLLECTIONS)
    assert daemon.in_lane(daemon.stores.ledger.fact, SCRUB_DUE) is not None
