"""Commands that take a benchmark take LongICL: prompts, predictions from files, batches, exports, methods."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from StaICC import score_predictions
from StaICC.benchmarks.exchange import identified_queries, prompt_records
from StaICC.benchmarks.findings import Recomputed, status_of
from StaICC.benchmarks.verify import verify
from StaICC.cli import main
from StaICC.errors import ArgumentError, OutputError
from StaICC.kernels.ppm import PPMKernel
from StaICC.methods.run import Method, run_all
from StaICC.results.result import Result, load
from tests.long_icl.conftest import long_icl_on, right_answers

# The command line takes only published files, but for TACRED, of which only the number of rows is known.


def options(folder: Path, *more: str) -> list[str]:
    return ["--data-dir", str(folder), "--datasets", "tacred", "--rounds", "1", "2", "--limit", "6", *more]


def write(path: Path, records: Iterable[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def true_label(record: dict[str, Any]) -> str:
    return str(record["label_space"][record["ground_truth"]])


def test_prompts_are_written_and_their_predictions_scored(small_files: Path, tmp_path: Path) -> None:
    """Every prompt of a run is in the file, with its id; the replies are parsed as in a run."""
    prompts = tmp_path / "prompts.jsonl"
    assert main(["prompts", "long-icl", *options(small_files), "--with-truth", "-o", str(prompts)]) == 0
    records = read(prompts)
    benchmark = long_icl_on(small_files, ["tacred"], limit=6)
    assert [record["prompt"] for record in records] == benchmark["tacred"].prompt_set()
    assert [record["condition"] for record in records] == ["1R"] * 6 + ["2R"] * 6

    replies = [{"id": record["id"], "reply": f"{true_label(record)}\nsentence: another"} for record in records]
    replies[0]["reply"] = "no idea"
    given = write(tmp_path / "replies.jsonl", reversed(replies))
    saved = tmp_path / "result.json"
    assert main(["score", "long-icl", given, *options(small_files), "--json", str(saved)]) == 0
    result = load(saved)
    texts = ["no idea", *(true_label(record) for record in records[1:])]
    expected = benchmark(preentered_prediction=[texts])
    assert result.divided["tacred"]["1R"] == expected.divided["tacred"]["1R"] == pytest.approx(10 / 11, abs=1e-6)  # F1
    assert result.divided["tacred"]["2R"] == pytest.approx(1.0, abs=1e-6)
    assert len(result.details["tacred"].unparsed) == 1
    assert status_of(verify(result, data_dir=small_files)) == Recomputed()


def test_the_parsing_of_a_run_reads_given_replies(small_files: Path) -> None:
    """The published parser reads the bare label only. The library's parser reads the sentence, and says how many."""
    scores = {}
    remarks = {}
    for parsing in ("published", "library"):
        benchmark = long_icl_on(small_files, ["goemotions"], limit=4, parsing=parsing)
        predictions = {}
        for number, record in enumerate(prompt_records(benchmark, with_truth=True)):
            label = true_label(record)
            predictions[record["id"]] = {"reply": label if number < 4 else f"The emotion category is **{label}**."}
        result = score_predictions(benchmark, predictions)
        assert isinstance(result, Result)
        scores[parsing] = [result.divided["goemotions"][name] for name in ("1R", "2R")]
        remarks[parsing] = [warning for warning in result.warnings if "published parser" in warning]
    assert scores == {"published": [1.0, 0.0], "library": [1.0, 1.0]}
    assert remarks["published"] == []
    assert remarks["library"] == ["goemotions: the published parser would read 4 of the 8 replies that were read"]


def test_data_sets_with_several_labels_take_replies_only(small_files: Path) -> None:
    benchmark = long_icl_on(small_files, ["few_nerd"], limit=4)
    ids = [query.id for query in identified_queries(benchmark)]
    answers = right_answers(benchmark["few_nerd"])
    result = score_predictions(benchmark, {key: {"reply": text} for key, text in zip(ids, answers, strict=True)})
    assert isinstance(result, Result)
    assert result.divided["few_nerd"] == benchmark(preentered_prediction=[answers]).divided["few_nerd"]
    with pytest.raises(OutputError, match="items of Few-NERD have several labels, so the prediction must be text"):
        score_predictions(benchmark, {key: {"index": 0} for key in ids})


def test_missing_predictions_are_refused_or_leave_a_round_undefined(small_files: Path) -> None:
    benchmark = long_icl_on(small_files, ["goemotions"], limit=3)
    ids = [query.id for query in identified_queries(benchmark)]
    some = {key: {"index": 0} for key in ids[1:]}
    with pytest.raises(ArgumentError, match="1 of 6 queries have no prediction"):
        score_predictions(benchmark, some)
    result = score_predictions(benchmark, some, partial=True)
    assert isinstance(result, Result)
    assert result.divided["goemotions"]["1R"] is None
    assert result.divided["goemotions"]["2R"] is not None


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_batch_goes_out_and_comes_back(small_files: Path, tmp_path: Path, provider: str) -> None:
    """A made-up provider answers each request of the batch with the label of the last demonstration."""
    requests = tmp_path / "requests.jsonl"
    command = ["export", f"{provider}-batch", "--benchmark", "long-icl", "--model", "some-model", "-o", str(requests)]
    assert main([*command, *options(small_files)]) == 0
    results = write(tmp_path / "results.jsonl", [answer_of(provider, request) for request in read(requests)])
    saved = tmp_path / "result.json"
    assert main(["score", "long-icl", results, *options(small_files), "--json", str(saved)]) == 0
    scored = load(saved)

    def last_label(prompt: str, label_space: list[str]) -> str:
        return prompt.rpartition("entities is: ")[0].rpartition("entities is: ")[2].split("\n")[0]

    assert scored.divided["tacred"] == long_icl_on(small_files, ["tacred"], limit=6)(last_label).divided["tacred"]
    assert scored.details["tacred"].unparsed == ()


def answer_of(provider: str, request: dict[str, Any]) -> dict[str, Any]:
    body = request["params"] if provider == "anthropic" else request["body"]
    messages = body["messages"]
    shown = "\n".join(str(message["content"]) for message in messages[:-1]) or str(messages[-1]["content"])
    label = str(messages[-2]["content"]) if len(messages) > 1 else shown.rpartition("is: ")[0].rpartition("is: ")[2]
    label = label.split("\n")[0]
    if provider == "anthropic":
        message = {"content": [{"type": "text", "text": label}], "stop_reason": "end_turn", "model": "some-model"}
        return {"custom_id": request["custom_id"], "result": {"type": "succeeded", "message": message}}
    choice = {"message": {"content": label}, "finish_reason": "stop"}
    response = {"status_code": 200, "body": {"choices": [choice], "model": "some-model"}}
    return {"custom_id": request["custom_id"], "response": response, "error": None}


def test_harness_tasks_have_the_prompts_and_their_instructions_work(
    small_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logged samples of lm-evaluation-harness are scored with the command that the README of the tasks shows."""
    folder = tmp_path / "tasks"
    assert main(["export", "lm-eval", str(folder), "--benchmark", "long-icl", *options(small_files)]) == 0
    documents = [*read(folder / "staicc_longicl_tacred_1r.jsonl"), *read(folder / "staicc_longicl_tacred_2r.jsonl")]
    assert [document["prompt"] for document in documents] == long_icl_on(small_files, ["tacred"], limit=6)[
        0
    ].prompt_set()
    samples = []
    for document in documents:
        labels = document["label_space"]
        scores = [-0.1 if label == true_label(document) else -5.0 for label in labels]
        arguments = [[document["prompt"], label] for label in labels]
        samples.append(
            {"doc": document, "arguments": arguments, "filtered_resps": [[score, False] for score in scores]}
        )
    logged = write(tmp_path / "samples_tacred.jsonl", samples)
    (line,) = [line for line in (folder / "README.md").read_text("utf-8").splitlines() if "score long-icl" in line]
    command = line.split("-m StaICC ")[1].split()
    saved = tmp_path / "result.json"
    assert main([*(logged if word == "logged" else word for word in command), "--json", str(saved)]) == 0
    assert load(saved).divided["tacred"]["mean"] == pytest.approx(1.0, abs=1e-6)


def test_a_model_card_has_the_scores(small_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "result.json"
    long_icl_on(small_files, ["goemotions"], limit=6)(lambda prompt, label_space: 0).save(saved)
    assert main(["export", "model-card", str(saved)]) == 0
    assert '"StaICC LongICL' in capsys.readouterr().out


# -- methods


def test_methods_that_need_only_the_queries_run(small_files: Path) -> None:
    """Vanilla scores are those of the kernel itself; a calibration by the test batch changes them, and is signed."""
    benchmark = long_icl_on(small_files, ["goemotions", "banking77"], limit=6)
    kernel = PPMKernel()
    table = run_all(kernel, benchmark, methods=["vanilla", "batch_calibration", "contextual_calibration"])
    assert table["vanilla"].divided == benchmark(kernel).divided
    for name in ("batch_calibration", "contextual_calibration"):
        assert table[name].signature.fields["method"] == f"{name} paper"
        assert table[name].details["goemotions"].scored == 12
        assert status_of(verify(table[name], data_dir=small_files)) == Recomputed()
    texts = {item.texts for item in benchmark["goemotions"].test_items}
    assert len(texts) > 1  # the original is unchanged


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("domain_calibration", "the method needs a calibration set, which LongICL does not have"),
        ("noisy_channel", "the method needs prompts that a method can change, which LongICL does not have"),
    ],
)
def test_other_methods_say_what_they_need(small_files: Path, method: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=f"goemotions: {reason}"):
        Method(method, PPMKernel()).run(long_icl_on(small_files, ["goemotions"], limit=3))


def test_methods_know_no_label_of_a_test_item(small_files: Path) -> None:
    own = long_icl_on(small_files, ["goemotions"], limit=12)["goemotions"]
    hidden = own.without_labels()
    assert hidden.prompt_set() == own.prompt_set()
    assert {query.label for query in hidden.all_queries()} == {0} != {query.label for query in own.all_queries()}
    assert hidden.with_labels_of(own).all_queries() == own.all_queries()
    free = own.with_query(("N/A",)).round_queries(1)[3]
    assert str(free.prompt) == own.context(1) + "comment: N/A\nemotion category: "


def test_methods_on_the_command_line(small_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "long-icl", *options(small_files), "--method", "batch-calibration", "--json", "-"]
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["signature"]["method"] == "batch_calibration paper"
    assert main([*command[:-2], "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("queries         12")


def test_several_labels_need_text_in_methods_too(small_files: Path) -> None:
    with pytest.raises(ArgumentError, match="items of DialogRE have several labels, so the prediction must be text"):
        Method("vanilla", PPMKernel()).run(long_icl_on(small_files, ["dialogre"], limit=3))


def test_early_stopping_says_in_a_sentence_why_not(small_files: Path) -> None:
    with pytest.raises(ArgumentError, match="early stopping needs scores that are means over test rows: got LongICL"):
        long_icl_on(small_files, ["goemotions"], limit=3)(lambda prompt, label_space: 0, precision=0.1)


# -- options of one benchmark


@pytest.mark.parametrize("command", [["prompts"], ["score"], ["export", "lm-eval", "tasks", "--benchmark"]])
def test_options_of_other_benchmarks_are_refused(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    predictions = [write(tmp_path / "p.jsonl", [])] if command == ["score"] else []
    output = ["-o", str(tmp_path / "o.jsonl")] if command == ["prompts"] else []
    assert main([*command, "normal", *predictions, "--rounds", "1", *output]) == 2
    assert "--rounds belongs to long-icl;" in capsys.readouterr().err
    assert main([*command, "long-icl", *predictions, "--k", "3", *output]) == 2
    assert "long-icl has no --k" in capsys.readouterr().err
