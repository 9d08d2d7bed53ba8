"""Every script comes back byte for byte: through remember, edit, export, import, snapshot and restore."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Daemon, hashing

#: What a text may hold; the marks that have no precomposed letter stay as they are.
TEXTS = {
    "latin": "Crème brûlée, žluťoučký kůň, Þórður, ı≠i, q̃ and m̄ have no letter of their own",
    "greek": "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία· ὁ Ἀριστοτέλης",
    "cyrillic": "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "arabic": "\u200fأنا عندي حساسية من الفول السوداني؛ ٤٧١١ ـ لَا إِلَٰهَ\u200f",
    "hebrew": "בְּרֵאשִׁית בָּרָא — אלרגיה לבוטנים \u202bימין\u202c",
    "devanagari": "मुझे मूँगफली से एलर्जी है — क्षत्रिय, ज्ञान, श्री",
    "bengali": "আমার বাদামে অ্যালার্জি আছে, কৃষ্ণ",
    "tamil": "எனக்கு வேர்க்கடலை ஒவ்வாமை, ஸ்ரீ",
    "thai": "ฉันแพ้ถั่วลิสง น้ำใจ กำลัง",
    "han": "我对花生过敏，連一點點也不行。𠮷野家",
    "japanese": "ピーナッツアレルギーがあります。がぎぐ、ｶﾞｷﾞｸﾞ、々〆",
    "korean": "저는 땅콩 알레르기가 있어요. 값, 읽다, 훈민졍ᅙᅳᆷ",
    "georgian": "არაქისზე ალერგია მაქვს, Ⴀⴀ",
    "armenian": "Ես ալերգիա ունեմ գետնանուշից։ և",
    "ethiopic": "ለኦቾሎኒ አለርጂ አለብኝ።",
    "khmer": "ខ្ញុំមានអាឡែស៊ីសណ្តែកដី ក្រៅ",
    "tibetan": "བཀྲ་ཤིས་བདེ་ལེགས། རྒྱལ་པོ།",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇯🇵🇰🇷 ❤️‍🔥 1️⃣ 🧑🏿‍🚀 ☺︎",
    "spaces": "two  spaces\ttab\r\nnew line\n\n\u00a0no-break\u2003em\u3000ideographic\u2028line\u2029end\n",
    "marks": '"quotes" \\back\\slash\\ \'=1+1 =1+1 @cmd -1 +1 ,;|\x7f\u200d\ufeffmiddle <tag> & $HOME `ls` {0}',
}
TEXTS = {name: unicodedata.normalize("NFC", text) for name, text in TEXTS.items()}
Make = Callable[..., Daemon]


def described(name: str, text: str) -> dict[str, Any]:
    """A memory that has the text wherever a text may stand."""
    line = text.replace("\n", " ").replace("\r", " ").strip()
    return {
        "id": named(f"{name} {line}"), "content": text, "context": f"{text}\n{text}", "author": line[:60].strip(),
        "scope": f"studio/{name}", "session": line[:60].strip(), "tags": [line[:60].strip()], "subtype": name,
        "metadata": {line[:40].strip(): {"list": [text, None, 1.5, True, 2**53]}}, "event_at": "0044-03-15T12:00:00.500000Z",
        "importance": 0.25, "emotion": 0.75, "tier": "long", "pinned": True,
    }  # fmt: skip


def named(text: str) -> str:
    """A text as an id, which holds nothing unprintable."""
    return "".join(one for one in text[:60] if one.isprintable()).strip()


def everything(daemon: Daemon) -> dict[str, dict[str, Any]]:
    """Every memory in full, with its former texts, comments and neighbours, by id."""
    found = {}
    for one in daemon.call("list", scope="*", limit=500)["memories"]:
        memory = daemon.call("get", id=one["id"])
        memory["versions"] = daemon.call("history", id=one["id"])["versions"]
        memory["comments"] = [comment["content"] for comment in daemon.call("comments", id=one["id"])["comments"]]
        memory["neighbors"] = daemon.call("neighbors", id=one["id"])["neighbors"]
        found[one["id"]] = memory
    return found


def records(daemon: Daemon) -> dict[str, Any]:
    """What hangs on scopes instead of memories."""
    facts = {name: daemon.call("fact_get", key=name, scope=f"studio/{name}")["value"] for name in TEXTS}
    turns = {}
    for name in TEXTS:
        answer = daemon.call("context", session="talk", scope=f"studio/{name}")
        turns[name] = [item["content"] for item in answer["items"] if item["kind"] == "turn"]
    return {"facts": facts, "turns": turns}


@pytest.fixture
def written(daemons: Make) -> Daemon:
    """A daemon that has been told every text in every way."""
    daemon = daemons().start()
    for name, text in TEXTS.items():
        given = described(name, text)
        memory = daemon.call("remember", **given)["id"]
        other = daemon.remember(f"beside {name}", scope=given["scope"])
        daemon.call("connect", a=memory, b=other, label=given["author"])
        daemon.call("update", id=memory, content=f"{text} · edited")
        daemon.call("revert", id=memory, version=1)
        daemon.call("comment", id=memory, content=text, author="user")
        daemon.call("fact_set", key=name, value={text: [text, None]}, scope=given["scope"])
        daemon.call("add_turn", session="talk", role="user", content=text, scope=given["scope"])
    return daemon


def test_every_text_is_what_it_was_when_it_is_read_again(written: Daemon) -> None:
    found = everything(written)
    for name, text in TEXTS.items():
        given = described(name, text)
        memory = found[given["id"]]
        tags = [tag.lower() for tag in given["tags"]]
        assert {key: memory[key] for key in given} == given | {"tags": tags}, name
        assert [version["content"] for version in memory["versions"]] == [f"{text} · edited", text]
        assert memory["comments"] == [text]
        assert memory["neighbors"][0]["label"] == given["author"]
    kept = records(written)
    assert kept["facts"] == {name: {text: [text, None]} for name, text in TEXTS.items()}
    assert kept["turns"] == {name: [text] for name, text in TEXTS.items()}


def test_every_text_is_found_by_a_piece_of_itself(written: Daemon) -> None:
    for name, text in TEXTS.items():
        hits = written.call("recall", query=text, scope=f"studio/{name}", k=3, learn=False)["hits"]
        assert hits[0]["id"] == described(name, text)["id"], name


@pytest.mark.parametrize("format_", ["jsonl", "json"])
def test_every_text_survives_the_way_through_an_export_into_another_daemon(
    written: Daemon, tmp_path: Path, format_: str
) -> None:
    path = tmp_path / f"all.{format_}"
    written.call("export", path=str(path), format=format_)
    other = Daemon(tmp_path, clock=written.clock, embedder=hashing).start()
    try:
        done = other.call("import", path=str(path))
        assert (done["imported"], done["conflicts"], done["failed"]) == (2 * len(TEXTS), [], [])
        assert everything(other) == everything(written)
        assert records(other) == records(written)
        again = other.call("import", path=str(path))
        assert (again["imported"], again["skipped"]) == (0, 2 * len(TEXTS))
    finally:
        other.stop()


def test_every_text_survives_the_way_through_a_table(written: Daemon, tmp_path: Path) -> None:
    """CSV has the memories alone."""
    path = tmp_path / "all.csv"
    written.call("export", path=str(path), format="csv")
    other = Daemon(tmp_path, clock=written.clock, embedder=hashing).start()
    try:
        assert other.call("import", path=str(path))["imported"] == 2 * len(TEXTS)
        mine, theirs = everything(written), everything(other)
        beside = {"versions": [], "comments": [], "neighbors": []}
        assert theirs == {memory: fields | beside for memory, fields in mine.items()}
    finally:
        other.stop()


def test_every_text_survives_a_snapshot_and_its_restoration(written: Daemon) -> None:
    before, kept = everything(written), records(written)
    name = written.call("snapshot", label="before the flood")["name"]
    for memory in before:
        written.call("update", id=memory, content=f"washed away {memory}")
        written.call("forget", id=memory)
    for script in TEXTS:
        written.call("fact_delete", key=script, scope=f"studio/{script}")
        written.call("clear_session", session="talk", scope=f"studio/{script}")
    assert everything(written) == {}

    written.call("restore_snapshot", name=name)

    assert everything(written) == before
    assert records(written) == kept
    written.restart()
    assert everything(written) == before
