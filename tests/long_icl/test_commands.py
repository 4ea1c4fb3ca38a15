"""Commands that take a benchmark take LongICL: prompts, predictions from files, batches, exports, methods."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from StaICC import LongICL, score_predictions
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


def options(folder: Path) -> list[str]:
    """Return the options of a run on TACRED with two rounds of six queries."""
    return ["--data-dir", str(folder), "--datasets", "tacred", "--rounds", "1", "2", "--limit", "6"]


def write_json_lines(path: Path, records: Iterable[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def true_label(record: dict[str, Any]) -> str:
    """Return the true label of a prompt that was written with it."""
    return str(record["label_space"][record["ground_truth"]])


def written_prompts(folder: Path, path: Path) -> list[dict[str, Any]]:
    """Return the records of the prompts that the command line writes, with the true labels."""
    assert main(["prompts", "long-icl", *options(folder), "--with-truth", "-o", str(path)]) == 0
    return read_json_lines(path)


def test_every_prompt_of_a_run_is_written(data_folder: Path, tmp_path: Path) -> None:
    records = written_prompts(data_folder, tmp_path / "prompts.jsonl")

    experimentor = long_icl_on(data_folder, ["tacred"], limit=6)[0]
    assert [record["prompt"] for record in records] == experimentor.prompt_set()
    assert [record["condition"] for record in records] == ["1R"] * 6 + ["2R"] * 6


def test_replies_to_written_prompts_are_parsed_and_scored_as_in_a_run(data_folder: Path, tmp_path: Path) -> None:
    """Eleven of twelve replies have the label and more text; the file has them in another order than the prompts."""
    first, *others = written_prompts(data_folder, tmp_path / "prompts.jsonl")
    replies = [{"id": first["id"], "reply": "no idea"}]
    replies += [{"id": record["id"], "reply": f"{true_label(record)}\nsentence: another"} for record in others]
    replies_file = write_json_lines(tmp_path / "replies.jsonl", reversed(replies))

    assert main(["score", "long-icl", replies_file, *options(data_folder), "--json", str(tmp_path / "run.json")]) == 0

    result = load(tmp_path / "run.json")
    precision, recall = 1.0, 5 / 6  # of the first round
    assert result.divided["tacred"]["1R"] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-6)
    assert result.divided["tacred"]["2R"] == pytest.approx(1.0, abs=1e-6)
    assert len(result.details["tacred"].unparsed) == 1
    assert status_of(verify(result, data_dir=data_folder)) == Recomputed()
    labels = ["no idea", *map(true_label, others)]
    run = long_icl_on(data_folder, ["tacred"], limit=6)(preentered_prediction=[labels])
    assert result.divided["tacred"]["1R"] == run.divided["tacred"]["1R"]


def scored_replies(folder: Path, parsing: str) -> Result:
    """Return the score of true labels in the first round, and of sentences with them in the second."""
    benchmark = long_icl_on(folder, ["goemotions"], limit=4, parsing=parsing)
    predictions = {}
    for record in prompt_records(benchmark, with_truth=True):
        label = true_label(record)
        reply = label if record["condition"] == "1R" else f"The emotion category is **{label}**."
        predictions[record["id"]] = {"reply": reply}
    result = score_predictions(benchmark, predictions)
    assert isinstance(result, Result)
    return result


def test_the_published_parser_reads_given_replies_with_the_label_only(data_folder: Path) -> None:
    result = scored_replies(data_folder, "published")

    assert result.divided["goemotions"]["1R"] == 1.0
    assert result.divided["goemotions"]["2R"] == 0.0
    assert [warning for warning in result.warnings if "published parser" in warning] == []


def test_the_library_s_parser_reads_given_sentences_and_says_how_many(data_folder: Path) -> None:
    result = scored_replies(data_folder, "library")

    assert result.divided["goemotions"]["1R"] == 1.0
    assert result.divided["goemotions"]["2R"] == 1.0
    (warning,) = [warning for warning in result.warnings if "published parser" in warning]
    assert warning == "goemotions: the published parser would read 4 of the 8 replies that were read"


def test_given_replies_with_several_labels_are_scored_as_in_a_run(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["few_nerd"], limit=4)
    replies = right_answers(benchmark["few_nerd"])
    predictions = {}
    for query, reply in zip(identified_queries(benchmark), replies, strict=True):
        predictions[query.id] = {"reply": reply}

    result = score_predictions(benchmark, predictions)

    assert isinstance(result, Result)
    assert result.divided["few_nerd"] == benchmark(preentered_prediction=[replies]).divided["few_nerd"]


def test_items_with_several_labels_take_no_index_of_a_label(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["few_nerd"], limit=4)
    predictions = {query.id: {"index": 0} for query in identified_queries(benchmark)}

    with pytest.raises(OutputError, match="items of Few-NERD have several labels, so the prediction must be text"):
        score_predictions(benchmark, predictions)


def predictions_but_for_the_first(benchmark: LongICL) -> dict[str, dict[str, int]]:
    _, *queries = identified_queries(benchmark)
    return {query.id: {"index": 0} for query in queries}


def test_missing_predictions_are_refused(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions"], limit=3)

    with pytest.raises(ArgumentError, match="1 of 6 queries have no prediction"):
        score_predictions(benchmark, predictions_but_for_the_first(benchmark))


def test_with_partial_predictions_a_round_without_all_of_them_is_undefined(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions"], limit=3)

    result = score_predictions(benchmark, predictions_but_for_the_first(benchmark), partial=True)

    assert isinstance(result, Result)
    assert result.divided["goemotions"]["1R"] is None
    assert result.divided["goemotions"]["2R"] is not None


def last_shown_label(prompt: str) -> str:
    """Return the label of the last demonstration in a prompt of TACRED."""
    before_query, _, _ = prompt.rpartition("entities is: ")
    _, _, last_answer = before_query.rpartition("entities is: ")
    return last_answer.split("\n")[0]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_batch_goes_out_and_comes_back(data_folder: Path, tmp_path: Path, provider: str) -> None:
    """A made-up provider answers each request of the batch with the label of the last demonstration."""
    requests_file, saved = tmp_path / "requests.jsonl", tmp_path / "result.json"

    command = ["export", f"{provider}-batch", "--benchmark", "long-icl", "--model", "m", "-o", str(requests_file)]
    assert main([*command, *options(data_folder)]) == 0
    responses = [response_of(provider, request) for request in read_json_lines(requests_file)]
    responses_file = write_json_lines(tmp_path / "responses.jsonl", responses)
    assert main(["score", "long-icl", responses_file, *options(data_folder), "--json", str(saved)]) == 0

    benchmark = long_icl_on(data_folder, ["tacred"], limit=6)
    run = benchmark(lambda prompt, label_space: last_shown_label(prompt))
    scored = load(saved)
    assert scored.divided["tacred"] == run.divided["tacred"]
    assert scored.details["tacred"].unparsed == ()


def response_of(provider: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the results of a batch, as OpenAI and Anthropic document it."""
    body = request["params"] if provider == "anthropic" else request["body"]
    (message,) = body["messages"]
    label = last_shown_label(message["content"])
    if provider == "anthropic":
        reply = {"content": [{"type": "text", "text": label}], "stop_reason": "end_turn", "model": "some-model"}
        return {"custom_id": request["custom_id"], "result": {"type": "succeeded", "message": reply}}
    choice = {"message": {"content": label}, "finish_reason": "stop"}
    response = {"status_code": 200, "body": {"choices": [choice], "model": "some-model"}}
    return {"custom_id": request["custom_id"], "response": response, "error": None}


@pytest.fixture
def harness_tasks(data_folder: Path, tmp_path: Path) -> Path:
    """A folder with exported tasks of lm-evaluation-harness."""
    folder = tmp_path / "tasks"
    assert main(["export", "lm-eval", str(folder), "--benchmark", "long-icl", *options(data_folder)]) == 0
    return folder


def documents_of(harness_tasks: Path) -> list[dict[str, Any]]:
    """Return the documents of the tasks of both rounds."""
    first_round = read_json_lines(harness_tasks / "staicc_longicl_tacred_1r.jsonl")
    second_round = read_json_lines(harness_tasks / "staicc_longicl_tacred_2r.jsonl")
    return first_round + second_round


def logged_sample(document: dict[str, Any]) -> dict[str, Any]:
    """Return what the harness logs of a document whose true label has the highest score."""
    labels = document["label_space"]
    scores = [-0.1 if label == true_label(document) else -5.0 for label in labels]
    return {
        "doc": document,
        "arguments": [[document["prompt"], label] for label in labels],
        "filtered_resps": [[score, False] for score in scores],
    }


def test_harness_tasks_have_the_prompts(harness_tasks: Path, data_folder: Path) -> None:
    prompts = [document["prompt"] for document in documents_of(harness_tasks)]

    assert prompts == long_icl_on(data_folder, ["tacred"], limit=6)[0].prompt_set()


def test_logged_samples_of_harness_tasks_are_scored_with_the_command_of_their_readme(
    harness_tasks: Path, tmp_path: Path
) -> None:
    """The command is ``... -m StaICC score long-icl logged ...``, where ``logged`` is the file of the samples."""
    samples = [logged_sample(document) for document in documents_of(harness_tasks)]
    samples_file = write_json_lines(tmp_path / "samples_tacred.jsonl", samples)
    readme = (harness_tasks / "README.md").read_text("utf-8")
    (command,) = re.findall("-m StaICC (score long-icl .*)", readme)
    words = [samples_file if word == "logged" else word for word in command.split()]

    assert main([*words, "--json", str(tmp_path / "result.json")]) == 0

    assert load(tmp_path / "result.json").divided["tacred"]["mean"] == pytest.approx(1.0, abs=1e-6)


def test_a_model_card_has_the_scores(data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "result.json"
    long_icl_on(data_folder, ["goemotions"], limit=6)(lambda prompt, label_space: 0).save(saved)
    assert main(["export", "model-card", str(saved)]) == 0
    assert '"StaICC LongICL' in capsys.readouterr().out


# -- methods


def test_vanilla_scores_are_those_of_the_kernel_itself(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions", "banking77"], limit=6)

    result = Method("vanilla", PPMKernel()).run(benchmark)

    assert result.divided == benchmark(PPMKernel()).divided


@pytest.mark.parametrize("method", ["batch_calibration", "contextual_calibration"])
def test_a_calibration_by_queries_is_signed_and_verified(data_folder: Path, method: str) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions", "banking77"], limit=6)

    result = Method(method, PPMKernel()).run(benchmark)

    assert isinstance(result, Result)
    assert result.signature.fields["method"] == f"{method} paper"
    assert result.details["goemotions"].scored == 12
    assert status_of(verify(result, data_dir=data_folder)) == Recomputed()


def test_a_table_of_methods_leaves_the_benchmark_unchanged(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions"], limit=6)
    prompts = benchmark[0].prompt_set()

    table = run_all(PPMKernel(), benchmark, methods=["vanilla", "contextual_calibration"])

    assert list(table) == ["vanilla", "contextual_calibration"]
    assert benchmark[0].prompt_set() == prompts


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("domain_calibration", "the method needs a calibration set, which LongICL does not have"),
        ("noisy_channel", "the method needs prompts that a method can change, which LongICL does not have"),
    ],
)
def test_other_methods_say_what_they_need(data_folder: Path, method: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=f"goemotions: {reason}"):
        Method(method, PPMKernel()).run(long_icl_on(data_folder, ["goemotions"], limit=3))


def test_a_copy_for_methods_has_the_prompts_and_no_label(data_folder: Path) -> None:
    original = long_icl_on(data_folder, ["goemotions"], limit=12)["goemotions"]

    copy = original.without_labels()

    assert copy.prompt_set() == original.prompt_set()
    assert {query.label for query in original.all_queries()} != {0}
    assert {query.label for query in copy.all_queries()} == {0}
    assert copy.with_labels_of(original).all_queries() == original.all_queries()


def test_a_method_may_write_prompts_with_another_query(data_folder: Path) -> None:
    original = long_icl_on(data_folder, ["goemotions"], limit=12)["goemotions"]

    query = original.with_query(("N/A",)).round_queries(1)[3]

    assert str(query.prompt) == original.context(1) + "comment: N/A\nemotion category: "


def test_the_command_line_runs_methods(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "long-icl", *options(data_folder), "--method", "batch-calibration"]

    assert main([*command, "--json", "-"]) == 0

    result = json.loads(capsys.readouterr().out)
    assert result["signature"]["method"] == "batch_calibration paper"


def test_the_command_line_forecasts_methods(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "long-icl", *options(data_folder), "--method", "batch-calibration"]

    assert main([*command, "--dry-run"]) == 0

    first_line, *_ = capsys.readouterr().out.splitlines()
    assert first_line.split() == ["queries", "12"]


def test_several_labels_need_text_in_methods_too(data_folder: Path) -> None:
    with pytest.raises(ArgumentError, match="items of DialogRE have several labels, so the prediction must be text"):
        Method("vanilla", PPMKernel()).run(long_icl_on(data_folder, ["dialogre"], limit=3))


def test_early_stopping_says_in_a_sentence_why_not(data_folder: Path) -> None:
    with pytest.raises(ArgumentError, match="early stopping needs scores that are means over test rows: got LongICL"):
        long_icl_on(data_folder, ["goemotions"], limit=3)(lambda prompt, label_space: 0, precision=0.1)


# -- options of one benchmark


COMMANDS = [
    "prompts {benchmark} -o prompts.jsonl",
    "score {benchmark} predictions.jsonl",
    "export lm-eval tasks --benchmark {benchmark}",
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("benchmark", "option", "message"),
    [("normal", "--rounds 1", "--rounds belongs to long-icl;"), ("long-icl", "--k 3", "long-icl has no --k")],
    ids=["option of LongICL", "option that LongICL does not have"],
)
def test_options_of_other_benchmarks_are_refused(
    command: str,
    benchmark: str,
    option: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("predictions.jsonl").touch()

    assert main([*command.format(benchmark=benchmark).split(), *option.split()]) == 2

    assert message in capsys.readouterr().err
