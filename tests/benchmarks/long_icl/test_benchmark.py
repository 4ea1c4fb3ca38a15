"""LongICL as a benchmark: what it asks, together, once; what its result holds; what it never counts as wrong."""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks import Statistics
from StaICC.benchmarks.evaluation import digest_prompts
from StaICC.benchmarks.long_icl import LongICL, card, cards
from StaICC.benchmarks.long_icl.prompts import write_answer
from StaICC.benchmarks.verify import Contradicted, Recomputed, Unchecked, status_of, verify
from StaICC.errors import ArgumentError, DataMissingError, OutputError, UnknownNameError
from StaICC.inference import Progress
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.text_inference import text_inference
from StaICC.metrics.intervals import ratio_part
from StaICC.results import Result, Signature, compare, save_records

SINGLE = ["banking77", "goemotions", "discovery", "tacred"]
ROUNDS = (1, 2)


def quiet(notice: str) -> None:
    pass


def make(
    folder: Path | str | None, datasets: Any = None, rounds: Any = ROUNDS, test_number: Any = 12, **more: Any
) -> LongICL:
    return LongICL(folder, datasets, rounds, test_number, verify=False, announce=quiet, **more)


def rightly(benchmark: LongICL, wrong: Callable[[int], bool] = lambda number: False) -> Callable[..., str]:
    """A function that answers by text as the demonstrations do, but for some queries of each data set's first round."""
    answers = {}
    for one in benchmark:
        for query in one.queries():
            text = (
                "no idea"
                if query.round == one.rounds[0] and wrong(query.number)
                else write_answer(one.card, query.item)
            )
            answers[query.prompt] = text
    return lambda prompt, label_space: answers[prompt]


def too_long_from(characters: int, answer: Any = 0) -> Callable[..., Any]:
    def function(prompt: str, label_space: list[str]) -> Any:
        if len(prompt) > characters:
            raise ValueError(f"the prompt has {len(prompt)} tokens, but the model reads {characters} at most")
        return answer

    return function


# -- what it is


def test_data_sets_by_place_and_name(small: Path) -> None:
    benchmark = make(small)
    assert len(benchmark) == 6
    assert [one.name for one in benchmark] == list(cards())
    assert benchmark[1] is benchmark["goemotions"] is benchmark["GoEmotions"] is benchmark.get_experimentors()[1]
    assert benchmark.get_label_spaces_for_experimentors()[0] == list(card("banking77").labels)
    assert repr(benchmark["tacred"]) == "<LongICL on tacred: 1R, 2R, 12 items, published>"
    assert repr(make(small, ["tacred"])) == "<LongICL over tacred>"
    with pytest.raises(UnknownNameError, match="did you mean 'tacred'"):
        benchmark["tacre"]
    own = benchmark["discovery"]
    assert benchmark[2].prompt_set() == [own.context(query.round) + query.question for query in own.queries()]


def test_the_default_folder(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    with pytest.raises(DataMissingError, match=r"none of the data sets of LongICL is in .*long_icl"):
        make(None)
    (tmp_path / "home").mkdir()
    small.rename(tmp_path / "home" / "long_icl")
    assert len(make(None)) == 6


# -- scores


@pytest.mark.parametrize("variant", ["published", "strict"])
def test_scores_are_those_of_the_experimentors(small: Path, variant: str) -> None:
    benchmark = make(small, variant=variant)
    function = rightly(benchmark, wrong=lambda number: number % 3 == 0)
    result = benchmark(function)
    for one in benchmark:
        expected = one.score([function(prompt, []) for prompt in one.prompt_set()])
        found = result["Divided results"][one.name]
        assert found == expected.values
        assert found["mean"] == (found["1R"] + found["2R"]) / 2
        assert found["settings"] == one.settings()
        assert 0 < found["1R"] < found["2R"]
    for key in ("1R", "2R", "mean"):
        values = [found[key] for found in result["Divided results"].values()]
        assert result["Averaged results"][key] == pytest.approx(sum(values) / 6)
    assert result["Averaged results"]["uniform"] is None  # Few-NERD has none, and says why
    assert "not defined" in result.details["few_nerd"].missing["uniform"]
    assert result.complete


@pytest.mark.parametrize("name", SINGLE)
def test_all_kinds_of_answers_score_alike(small: Path, name: str) -> None:
    benchmark = make(small, [name])
    labels = list(card(name).labels)

    def place(prompt: str, label_space: list[str]) -> int:
        return sum(map(ord, prompt)) % 9

    def numbers(prompt: str, label_space: list[str]) -> list[float]:
        return [2.0 * (i == place(prompt, label_space)) - 7 for i in range(len(label_space))]

    def text(prompt: str, label_space: list[str]) -> str:
        assert label_space == labels
        return labels[place(prompt, label_space)] + "\n"

    results = [benchmark(function) for function in (place, numbers, text)]
    assert [result.details[name].conditions[0].output for result in results] == ["labels", "numbers", "text"]
    predictions = [result.details[name].conditions[1].predictions for result in results]
    assert predictions[0] == predictions[1] == predictions[2]
    scores = [result.divided[name]["rounds"]["2R"]["score"] for result in results]
    assert scores[0] == scores[1] == scores[2]


def test_intervals_and_baselines(small: Path) -> None:
    benchmark = make(small, ["banking77", "dialogre"], statistics=Statistics(tried=3))
    result = benchmark(rightly(benchmark, wrong=lambda number: number < 3))
    own = result.details["banking77"]
    part = ratio_part([1] * 9 + [0] * 3, [1] * 12, 0.95)
    interval = own.intervals["1R"]
    assert (interval.low, interval.high) == pytest.approx((part.value - part.below, part.value + part.above))
    assert own.intervals["mean"].low < result.divided["banking77"]["mean"] < own.intervals["mean"].high
    assert result.means.intervals["1R"].low < result.averaged["1R"] < result.means.intervals["1R"].high
    assert (own.baselines["1R"].uniform, own.baselines["1R"].tried, own.baselines["1R"].queries) == (1 / 77, 3, 12)
    assert own.baselines["1R"].majority == 1 / 12
    assert own.baselines["2R"].p_value < own.baselines["1R"].p_value < 1e-9
    f1 = result.divided["dialogre"]["1R"]
    assert result.details["dialogre"].intervals["1R"].low < f1 < result.details["dialogre"].intervals["1R"].high
    assert result.details["dialogre"].baselines == {}
    assert result.divided["dialogre"]["uniform"] == 1 / 34
    assert (
        make(small, ["tacred"], statistics=Statistics(intervals=False))(too_long_from(10**9))
        .details["tacred"]
        .intervals
        == {}
    )


def test_counts_and_notes(small: Path) -> None:
    result = make(small, ["goemotions"])(lambda prompt, label_space: "" if len(prompt) % 2 else "joy")
    own = result.details["goemotions"]
    assert (own.asked, own.distinct, own.scored, own.failed) == (24, 24, 24, 0)
    assert "the scores are accuracy" in own.notes
    assert "the files are not known to be the published ones" in own.notes
    empty = [one["empty"] for one in result.divided["goemotions"]["rounds"].values()]
    assert f"empty answers, which count as wrong: 1R {empty[0]}, 2R {empty[1]} (of 12 each)" in own.notes


def test_another_number_of_demonstrations_is_noted(small: Path) -> None:
    result = make(small, ["dialogre"], rounds=[5])(lambda prompt, label_space: "per:age")
    assert any(
        note.startswith("5R has ") and note.endswith(" instead of 163") for note in result.details["dialogre"].notes
    )


def test_made_up_rows_are_named(published: Path) -> None:
    result = LongICL(published / "synthetic", ["tacred"], [1], 3, announce=quiet)(lambda prompt, label_space: 1)
    assert any(note.startswith("MADE-UP ROWS") for note in result.details["tacred"].notes)


# -- asking


def test_a_round_is_handed_over_together(small: Path) -> None:
    benchmark = make(small, ["goemotions", "tacred"], rounds=[2, 1])
    calls: list[list[str]] = []

    class Kernel:
        def __call__(self, prompt: str, label_space: list[str]) -> int:
            raise AssertionError("one at a time")

        def batch(self, prompts: list[str], label_space: list[str]) -> list[int]:
            calls.append(prompts)
            return [0] * len(prompts)

    seen: list[Progress] = []
    benchmark(Kernel(), progress=seen.append)
    contexts = [one.context(number) for one in benchmark for number in (2, 1)]
    assert len(calls) == 4
    for prompts, context in zip(calls, contexts, strict=True):
        assert len(prompts) == 12
        assert all(prompt.startswith(context) for prompt in prompts)
    assert list(dict.fromkeys((one.where, one.number, one.parts) for one in seen)) == [
        ("LongICL, goemotions, 2R", 0, 4),
        ("LongICL, goemotions, 1R", 1, 4),
        ("LongICL, tacred, 2R", 2, 4),
        ("LongICL, tacred, 1R", 3, 4),
    ]


def test_batched_inference_gets_rounds(small: Path, anonymous: Any) -> None:
    sizes: list[int] = []

    def function(prompts: list[str], label_space: list[str]) -> list[str]:
        sizes.append(len(prompts))
        return ["joy"] * len(prompts)

    benchmark = make(small, ["goemotions"])
    result = benchmark(function, batched_inference=True)
    assert sizes == [12, 12]
    assert result.signature.fields["scoring"] == "function;batched"
    assert anonymous(result) == anonymous(benchmark(lambda prompt, label_space: "joy"))


def test_predictions_at_hand(small: Path, anonymous: Any) -> None:
    benchmark = make(small, ["goemotions", "dialogre"])
    answer = rightly(benchmark, wrong=lambda number: number % 2 == 0)
    given = [[answer(prompt, []) for prompt in one.prompt_set()] for one in benchmark]
    result = benchmark(preentered_prediction=given)
    assert anonymous(result) == anonymous(benchmark(answer))
    assert result == benchmark(preentered_prediction={"dialogre": given[1], "goemotions": given[0]})
    with pytest.raises(OutputError, match="GoEmotions: expected 24 predictions"):
        benchmark(preentered_prediction=[given[0][1:], given[1]])


def test_answers_of_each_query(small: Path, tmp_path: Path) -> None:
    benchmark = make(small, ["goemotions", "dialogre"], rounds=[2])
    result = benchmark(
        [lambda prompt, label_space: [0.1] * 27 + [0.2], lambda prompt, label_space: "per:age"], return_outputs=True
    )
    save_records(result, tmp_path / "records.jsonl")
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    first, last = records[0], records[-1]
    assert (first["dataset"], first["condition"], first["query"]) == ("goemotions", "2R", 0)
    assert (first["prediction"], first["response"], len(first["predicted_probabilities"])) == ("neutral", None, 28)
    assert first["ground_truth"] == benchmark[0].test_items[0].gold[0]
    assert (last["response"], last["predicted_probabilities"]) == ("per:age", None)
    assert last["ground_truth"] == list(benchmark[1].test_items[-1].gold)
    assert benchmark(lambda prompt, label_space: "x").outputs is None


# -- what is never wrong


def test_a_context_that_is_too_long_is_no_wrong_answer(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    benchmark = make(small, ["banking77"], rounds=[1, 5, 2])
    limit = (len(benchmark[0].context(2)) + len(benchmark[0].context(5))) // 2
    calls: list[str] = []

    def function(prompt: str, label_space: list[str]) -> int:
        calls.append(prompt)
        return too_long_from(limit)(prompt, label_space)

    result = benchmark(function)  # on_error="raise"
    own = result.divided["banking77"]
    assert own["1R"] is not None
    assert own["2R"] is not None
    assert own["5R"] is own["mean"] is result.averaged["mean"] is result.averaged["5R"] is None
    assert result.averaged["1R"] == own["1R"]
    assert len(calls) == 12 + 1 + 12  # nobody asks the rest of a round that cannot be scored
    details = result.details["banking77"]
    assert details.missing["5R"].startswith(
        "not scored: context and query are longer than the model's limit (12 of 12 queries without an answer): query 0"
    )
    assert f"the model reads {limit} at most" in details.missing["5R"]
    assert ".py:" not in details.missing["5R"]
    assert details.missing["mean"] == "no score in 5R"
    assert (details.asked, details.scored, details.failed) == (36, 24, 12)
    assert [record.predictions for record in details.conditions][1] == (None,) * 12
    assert details.conditions[1].output == "none"
    assert "5R" not in details.intervals
    assert "5R" not in details.baselines
    assert [one.condition for one in details.failures] == ["5R"] * 12
    assert not result.complete
    assert result.signature.fields["failed"] == "12"
    assert "5R is undefined: not scored" in str(result)
    assert "LongICL, banking77, 5R: not scored" in caplog.text


def test_collected_failures(small: Path) -> None:
    benchmark = make(small, ["goemotions"])
    odd = {query.prompt for query in benchmark[0].round_queries(2)[:3]}

    def function(prompt: str, label_space: list[str]) -> int:
        if prompt in odd:
            raise RuntimeError(f"refused after {len(prompt)} characters")
        return 0

    with pytest.raises(OutputError, match=r"LongICL, goemotions, 2R, query 0: .*refused"):
        benchmark(function)
    result = benchmark(function, on_error="collect")
    own = result.divided["goemotions"]
    assert own["1R"] is not None
    assert own["2R"] is None
    assert own["rounds"]["2R"]["answered"] == 9
    assert list(own["rounds"]["2R"]["unanswered"].values()) == [3]  # reasons that differ in numbers only
    assert (result.details["goemotions"].scored, result.details["goemotions"].failed) == (12, 3)
    assert result.details["goemotions"].missing["2R"].startswith("not scored: 3 of 12 queries were not answered")
    assert sum(counts["gold"] for counts in own["rounds"]["2R"]["labels"].values()) == 9


@pytest.mark.parametrize("name", ["few_nerd", "dialogre"])
def test_structured_tasks_need_text(small: Path, name: str) -> None:
    benchmark = make(small, [name])
    with pytest.raises(OutputError, match="have several labels, so the prediction must be text, not int"):
        benchmark(lambda prompt, label_space: 0)
    result = benchmark(lambda prompt, label_space: 0, on_error="collect")
    assert "must be text" in result.details[name].missing["1R"]

    class Kernel:
        options = argparse.Namespace(guided="choice")

        def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
            raise AssertionError("asked")

        def generate(self, prompts: list[str], max_new_tokens: int, stop: list[str]) -> list[str]:
            return ["x"] * len(prompts)

    with pytest.raises(ArgumentError, match=r"Kernel scores labels; wrap it: text_inference\(kernel\)"):
        benchmark(Kernel())
    for guided in (
        text_inference(Kernel()),
        load_kernel("openai:http://localhost:1/v1#model;scoring=text;guided=choice"),
    ):
        with pytest.raises(ArgumentError, match="several labels, but guided='choice' allows one"):
            benchmark(guided)


def test_missing_data_sets_are_named(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    (small / "tacred_test.json").unlink()
    benchmark = make(small, ["tacred", "goemotions"])
    assert [one.name for one in benchmark] == ["goemotions"]
    assert [one.dataset for one in benchmark.skipped] == ["tacred"]
    assert "TACRED is skipped" in caplog.text
    with pytest.raises(DataMissingError, match=r"tacred was skipped: .*LDC2018T24"):
        benchmark["tacred"]
    result = benchmark(lambda prompt, label_space: "joy")
    assert result.divided["goemotions"]["mean"] is not None
    assert result.divided["tacred"] == dict.fromkeys(["1R", "2R", "mean", "uniform", "majority"])
    assert result.averaged["mean"] is None  # a part is not the whole
    (note,) = result.details["tacred"].notes
    assert note == f"SKIPPED: tacred_test.json not found in {small}. {card('tacred').instructions()}"
    assert note in str(result)
    assert result.signature.fields["datasets"] == "goemotions"
    for path in small.glob("*.*"):
        path.unlink()
    with pytest.raises(DataMissingError) as error:
        make(small)
    for own in cards().values():
        assert own.instructions() in str(error.value)


# -- the result


def test_signature(small: Path) -> None:
    base = make(small, ["tacred"])
    signature = base(lambda prompt, label_space: 0).signature
    assert base.signature() == make(small, ["tacred"]).signature()
    assert signature.differences(base.signature()) == {"scoring": ("function", None)}
    signature = base.signature()
    assert signature.fields["rows"] == "12"
    assert signature.fields["options"] == "variant=published,rounds=1+2"
    changes: list[tuple[dict[str, Any], set[str]]] = [
        ({"variant": "strict"}, {"options"}),
        ({"rounds": (2, 1)}, {"options", "prompts"}),
        ({"instruct": True}, {"options", "prompts"}),
        ({"arrangement": "grouped"}, {"options", "prompts"}),
        ({"test_number": None}, {"rows", "prompts"}),
        ({"datasets": ["goemotions"]}, {"datasets", "data", "prompts"}),
        ({"statistics": Statistics(intervals=False)}, {"statistics"}),
    ]
    for change, fields in changes:
        other = make(small, **{"datasets": ["tacred"], **change}).signature()
        assert set(signature.differences(other)) == fields, change
    assert "datasets" not in make(small).signature().fields
    path = small / "tacred_train.json"
    path.write_text(path.read_text().replace("Train text", "Other text").replace("kettle", "bottle"))
    assert set(signature.differences(make(small, ["tacred"]).signature())) == {"data", "prompts"}


def test_published_rows_have_one_identity(published: Path, tmp_path: Path) -> None:
    """The same rows in another writing (line ends) are the same data."""
    for split in ("train", "test"):
        text = (published / f"fewnerd_{split}.json").read_text("utf-8")
        (tmp_path / f"fewnerd_{split}.json").write_text(
            json.dumps(json.loads(text), ensure_ascii=False), encoding="utf-8", newline=""
        )
    signatures = {LongICL(folder, ["few_nerd"], [1], 5, announce=quiet).signature() for folder in (published, tmp_path)}
    assert len(signatures) == 1


def test_verification(small: Path) -> None:
    benchmark = make(small, ["goemotions", "dialogre"])
    result = benchmark(lambda prompt, label_space: "x")
    goemotions, dialogre, shared = verify(result, benchmark)
    assert [one.same for one in (goemotions, dialogre, shared)] == [True, True, None]
    assert goemotions.status == shared.status == Recomputed()
    assert isinstance(dialogre.status, Unchecked)  # its items have several labels
    other = make(small, ["goemotions", "dialogre"], instruct=True)
    assert [(one.same, one.first_difference) for one in verify(result, other)[:2]] == [(False, 0), (False, 0)]


@pytest.mark.parametrize(
    "settings",
    [{}, {"instruct": True}, {"variant": "strict", "arrangement": "grouped"}, {"rounds": (2,), "test_number": None}],
)
def test_verification_rebuilds_the_benchmark(small: Path, settings: dict[str, Any]) -> None:
    benchmark = make(small, ["goemotions", "tacred"], **settings)
    result = benchmark(lambda prompt, label_space: "x")
    assert [one.same for one in verify(result, data_dir=small)] == [True, True, None]
    assert status_of(verify(result, data_dir=small)) == Recomputed()
    path = small / "goemotions_train.tsv"
    path.write_text(path.read_text().replace("text", "word"))
    assert [(one.dataset, one.same) for one in verify(result, data_dir=small)[:2]] == [
        ("goemotions", False),
        ("tacred", True),
    ]


def test_skipped_data_sets_are_recomputed_and_missing_ones_are_unchecked(small: Path) -> None:
    path = small / "tacred_train.json"
    content = path.read_bytes()
    path.unlink()
    result = make(small, ["goemotions", "tacred"])(lambda prompt, label_space: "x")
    assert result.details["tacred"].asked == 0
    for _ in range(2):
        assert status_of(verify(result, data_dir=small)) == Recomputed()
        path.write_bytes(content)
    complete = make(small, ["goemotions", "tacred"])(lambda prompt, label_space: "x")
    path.unlink()
    found = verify(complete, data_dir=small)
    assert isinstance(status_of(found), Unchecked)
    assert found[0].status == Recomputed()


@pytest.mark.parametrize(
    ("name", "value"), [("rounds", [99]), ("rounds", 1), ("test_number", "many"), ("experiment", {"name": "x"})]
)
def test_arguments_that_no_run_of_long_icl_has_are_contradicted(small: Path, name: str, value: Any) -> None:
    result = make(small, ["goemotions"])(lambda prompt, label_space: "x")
    result.arguments = {**result.arguments, name: value}
    (found,) = verify(result, data_dir=small)
    assert isinstance(found.status, Contradicted)


@pytest.mark.parametrize("name", cards())
def test_digests_are_those_of_the_prompts(small: Path, name: str, sha: Callable[[Any], str]) -> None:
    import base64
    import hashlib

    own = make(small, [name])[0]
    prompts = own.prompt_set()
    marks = b"".join(hashlib.sha256(prompt.encode()).digest()[:4] for prompt in prompts)
    assert digest_prompts(own.all_queries()) == (sha(prompts), base64.b64encode(marks).decode())
    digests = [hashlib.sha256(prompt.encode()).digest() for prompt in prompts]
    assert [digest for number in own.rounds for digest in own.prompt_digests(number)] == digests


def test_two_results_are_compared_in_pairs(small: Path) -> None:
    """Each data set by its own metric, as in the table: accuracy, or micro F1 of items with several labels."""
    benchmark = make(small, ["banking77", "dialogre"])
    right = benchmark(rightly(benchmark))
    foreign = benchmark(lambda prompt, label_space: "no label at all")
    compared = compare(right, foreign)
    assert compared.metric == "mean"
    assert [one.dataset for one in compared.datasets] == ["banking77", "dialogre"]
    assert compared.datasets[0].rows == 12  # foreign answers are wrong, not missing
    assert compared.datasets[0].queries == 24
    for one in compared.datasets:
        saved = tuple(result.divided[one.dataset]["mean"] for result in (right, foreign))
        assert one.values == pytest.approx(saved, abs=1e-7)
    assert compare(right, foreign, "1R").datasets[0].queries == 12


def test_the_winner_of_a_comparison_is_that_of_the_table(small: Path) -> None:
    """Micro F1 rewards a run that names no label where it would be wrong; accuracy would name the other winner."""
    benchmark = make(small, ["tacred", "few_nerd", "goemotions"])
    rightly_of = rightly(benchmark)
    right = {one.name: {prompt: rightly_of(prompt, []) for prompt in one.prompt_set()} for one in benchmark}

    def careful(prompt: str, label_space: Any) -> str:
        """Right on half of the queries, silent on the others."""
        known = next(answers[prompt] for answers in right.values() if prompt in answers)
        return known if zlib.crc32(prompt.encode()) % 2 else "nothing"

    def bold(prompt: str, label_space: Any) -> str:
        """Right on some more of the queries, wrong on the others."""
        answers = next(answers for answers in right.values() if prompt in answers)
        wrong = next(answer for answer in answers.values() if answer != answers[prompt])
        return answers[prompt] if zlib.crc32(prompt.encode()) % 10 < 5 else wrong

    first, second = benchmark(careful), benchmark(bold)
    found = compare(first, second)
    assert [one.dataset for one in found.datasets] == ["tacred", "few_nerd", "goemotions"]
    for one in found.datasets:
        table = [result.divided[one.dataset]["mean"] for result in (first, second)]
        assert one.values == pytest.approx(table, abs=1e-7)
        assert (one.difference > 0) == (table[0] > table[1])
    assert found.mean is not None
    assert found.mean.values == pytest.approx([run.averaged["mean"] for run in (first, second)], abs=1e-7)
    assert found.datasets[0].difference > 0.1  # tacred
    assert not any("the table" in note for note in found.left_out)
    again = Result.from_dict(first.to_dict())
    assert compare(again, second) == found


def test_a_failed_query_leaves_the_others_to_compare(small: Path) -> None:
    benchmark = make(small, ["few_nerd", "banking77"])
    right = rightly(benchmark)
    lost = {one.prompt_set()[0] for one in benchmark}

    def failing(prompt: str, label_space: Any) -> Any:
        return None if prompt in lost else right(prompt, label_space)

    whole = benchmark(right)
    partial = benchmark(failing, on_error="collect")
    assert partial.divided["few_nerd"]["mean"] is None
    found = compare(whole, partial)
    assert len(found.datasets) == 2
    assert all(one.values[0] == one.values[1] for one in found.datasets)
    assert any("1 of them failed in it" in note for note in found.left_out)


def test_files_without_counts_of_items_are_named(small: Path) -> None:
    benchmark = make(small, ["few_nerd", "banking77"])
    result = benchmark(rightly(benchmark))
    old = result.to_dict()
    for one in old["Divided results"]["few_nerd"]["rounds"].values():
        del one["items"]
    found = compare(Result.from_dict(old), result)
    assert [one.dataset for one in found.datasets] == ["banking77"]
    assert any(note.startswith("few_nerd (first: the file has no records of the queries") for note in found.left_out)


def test_rounds_may_come_from_an_iterator(small: Path) -> None:
    assert [one.rounds for one in make(small, ["tacred", "discovery"], rounds=iter([2, 1]))] == [(2, 1), (2, 1)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("Divided results", "tacred", "1R"), 0.5),
        (("Divided results", "tacred", "mean"), 0.5),
        (("Divided results", "tacred", "majority"), 0.5),
        (("Divided results", "tacred", "rounds", "2R", "score", "correct"), 1),
        (("Divided results", "tacred", "settings", "test_number"), 1),
        (("Averaged results", "2R"), 0.5),
        (("details", "tacred", "asked"), 1),
        (("details", "tacred", "baselines", "1R", "p_value"), 0.5),
        (("details", "tacred", "intervals", "1R", "low"), 0.5),
        (("details", "tacred", "conditions", 0, "truth", 3), 0),
        (("signature", "data"), "0" * 12),
        (("signature", "prompts"), "0" * 12),
    ],
)
def test_edits_are_named(small: Path, path: tuple[Any, ...], value: Any) -> None:
    benchmark = make(small, ["tacred", "dialogre"])
    result = benchmark(rightly(benchmark, wrong=lambda number: number % 3 == 0))
    assert [one.contradicted for one in verify(result, benchmark)] == [(), (), ()]
    plain = json.loads(json.dumps(result.to_dict()))
    inner = plain
    for key in path[:-1]:
        inner = inner[key]
    assert inner[path[-1]] != value
    inner[path[-1]] = value
    for found in (verify(Result.from_dict(plain), benchmark), verify(Result.from_dict(plain), data_dir=small)):
        told = [line for one in found for line in one.contradicted]
        place = " / ".join(map(str, path))
        assert any(line.startswith(place + ": saved ") for line in told), told


def test_scores_of_several_labels_are_not_checkable(small: Path) -> None:
    benchmark = make(small, ["dialogre"])
    found = verify(benchmark(rightly(benchmark)), benchmark)
    assert found[0].same
    assert not found[0].contradicted
    (line,) = found[0].unchecked
    assert "several labels" in line
    assert isinstance(status_of(found), Unchecked)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rows", "9" * 5000),
        ("rows", "99999999"),
        ("rows", "²"),
        ("options", "variant=published,rounds=999"),
        ("options", "variant=other,rounds=1+2"),
        ("options", "rounds=1+2+1+2+1+2"),
        ("options", "variant=published,rounds=1+2,arrangement=other"),
    ],
)
def test_hostile_signatures_give_findings(small: Path, field: str, value: str) -> None:
    result = make(small, ["tacred"])(lambda prompt, label_space: 0)
    result.signature = Signature({**result.signature.fields, field: value})
    found = verify(result, data_dir=small)
    assert status_of(found) != Recomputed()
