"""Prompts out and predictions in: ids, files, scoring, and lm-evaluation-harness without the harness itself."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import StaICC
from StaICC import Normal, Suite
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.exchange import (
    csv_lines,
    identified_queries,
    json_lines,
    prompt_records,
    query_id,
    read_predictions,
    score_predictions,
)
from StaICC.benchmarks.harness_tasks import export_tasks
from StaICC.cli import main
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, OutputError, SchemaError
from StaICC.inference.replies import Failure
from StaICC.kernels.server import batch_files
from StaICC.kernels.server.batch_files import batch_reply
from StaICC.prompting.prompt_writer import Query
from StaICC.results.result import load as load_result

Model = Callable[..., list[float]]


def predictions_by_id(benchmark: Any, hash_model: Model, field: str = "logits") -> dict[str, dict[str, Any]]:
    """Return the predictions of the stand-in model by id of the query, in one of three forms.

    Args:
        benchmark: The benchmark.
        hash_model: The model.
        field: The form: ``logits``, ``index`` or ``label`` (the last two are those of the largest logit).
    """
    predictions = {}
    for identified in identified_queries(benchmark):
        row = hash_model(identified.query.prompt, list(identified.query.label_space))
        best = row.index(max(row))
        value = {"logits": row, "index": best, "label": identified.query.label_space[best]}[field]
        predictions[identified.id] = {field: value}
    return predictions


# -- ids


def ids_of(benchmark: Benchmark) -> set[str]:
    return {identified.id for identified in identified_queries(benchmark)}


def test_an_id_names_benchmark_data_set_condition_row_repeat_and_prompt() -> None:
    for query_id_of_normal in ids_of(Normal(datasets=["mini"], limit=6)):
        assert re.fullmatch(r"Normal/mini/normal/[0-5]/[01]/[0-9a-f]{12}", query_id_of_normal)


@pytest.mark.parametrize("settings", [{"k": 2}, {"noisy_channel": True}], ids=str)
def test_queries_with_other_prompts_have_other_ids(settings: dict[str, Any]) -> None:
    assert ids_of(Normal(datasets=["mini"], limit=6)).isdisjoint(ids_of(Normal(datasets=["mini"], limit=6, **settings)))


def test_names_in_an_id_are_escaped_so_that_slashes_separate_its_parts() -> None:
    query = Query("a prompt", ("a label",), label=0, row=3, repeat=1)

    found = query_id("a/b", "ü c", "%", query)

    assert found.startswith("a%2Fb/%C3%BC%20c/%25/3/1/")


# -- files


def written_prompts(benchmark: Benchmark, path: Path) -> list[dict[str, Any]]:
    """The records of a file of prompts, as another program reads them."""
    records = prompt_records(benchmark)
    lines = csv_lines(records, verbatim=True) if path.suffix == ".csv" else json_lines(records)
    path.write_bytes("".join(lines).encode("utf-8", "surrogatepass"))
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix != ".csv":
            return [json.loads(line) for line in file.read().split("\n") if line]
        return [{**record, "label_space": json.loads(record["label_space"])} for record in csv.DictReader(file)]


def dataset_with_special_characters() -> Dataset:
    """Return a data set whose texts and labels have quotes, separators, blanks, line ends and other alphabets."""
    texts = ['a "b", c\nd\r\ne', "\u2028 \u0085 \x1c", "é 😀", " lead and trail ", ",;\t'"]
    rows = [(f"{texts[row % len(texts)]}{row}", row % 2) for row in range(30)]
    return Dataset.from_rows(rows, name="odd", label_space=["no,\n", '"yes"'])


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("name", ["Normal", "GLER"])
@pytest.mark.parametrize("noisy", [False, True], ids=["", "noisy channel"])
@pytest.mark.parametrize("dataset", ["mini", dataset_with_special_characters()], ids=["mini", "special characters"])
def test_prompts_in_a_file_are_the_prompts(
    tmp_path: Path, suffix: str, name: str, noisy: bool, dataset: str | Dataset
) -> None:
    """A prompt of the noisy channel is a list of texts, which a table has as JSON."""
    benchmark = getattr(StaICC, name)(datasets=[dataset], limit=3, noisy_channel=noisy)

    records = written_prompts(benchmark, tmp_path / f"prompts.{suffix}")

    prompts = [record["prompt"] for record in records]
    if noisy and suffix == "csv":
        prompts = [json.loads(prompt) for prompt in prompts]
    assert prompts == benchmark[0].prompt_set()
    for record in records:
        assert record["label_space"] == benchmark[0].get_label_space()
        assert "ground_truth" not in record


# -- round trips


@pytest.fixture
def hash_model(hash_model: Model) -> Model:
    """A model whose logits are hashes minus 5: negative, so that they are known to be logits without ``outputs=``."""
    return lambda prompt, label_space: [value - 5 for value in hash_model(prompt, label_space)]


def write_predictions(path: Path, field: str, predictions: dict[str, dict[str, Any]]) -> None:
    """Write predictions in any order with a field that is no prediction: as a table, or as lines with empty ones."""
    lines = [{"id": key, "extra": "x", **prediction} for key, prediction in predictions.items()]
    random.Random(0).shuffle(lines)
    if path.suffix == ".jsonl":
        path.write_text("\n\n".join(map(json.dumps, lines)), "utf-8")
        return
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["extra", field, "id"])
        for line in lines:
            value = json.dumps(line[field]) if field == "logits" else line[field]
            writer.writerow([line["extra"], value, line["id"]])


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("field", ["logits", "index", "label"])
def test_given_predictions_are_scored_as_if_run(
    tmp_path: Path, hash_model: Model, suffix: str, field: str, anonymous: Model
) -> None:
    """From a file in any order to the same numbers as a run; only who predicted, and how, is not known."""
    benchmark = Normal(datasets=["mini"], limit=6)
    path = tmp_path / f"predictions.{suffix}"
    write_predictions(path, field, predictions_by_id(benchmark, hash_model, field))

    def function(prompt: str, label_space: list[str]) -> Any:
        row = hash_model(prompt, label_space)
        return row if field == "logits" else row.index(max(row))

    result = score_predictions(Normal(datasets=["mini"], limit=6), read_predictions(path))
    of_run = benchmark(function)

    assert anonymous(result) == anonymous(of_run)
    assert isinstance(result, StaICC.Result)
    assert result.signature.differences(of_run.signature) == {"scoring": ("given", "function")}


def test_given_predictions_have_outputs_on_request(hash_model: Model) -> None:
    result = score_predictions(
        Normal(datasets=["mini"], limit=6),
        predictions_by_id(Normal(datasets=["mini"], limit=6), hash_model),
        return_outputs=True,
    )

    assert isinstance(result, StaICC.Result)
    assert result.outputs is not None
    assert len(result.outputs["mini"]) == len(Normal(datasets=["mini"], limit=6)[0])


def test_probabilities_may_be_given_by_label_in_any_order(anonymous: Model) -> None:
    benchmark = Normal(datasets=["mini"], limit=6)
    food, travel, weather = benchmark[0].get_label_space()
    probabilities = {weather: 0.1, travel: 0.2, food: 0.7}
    predictions = {key: {"probabilities": probabilities} for key in ids_of(benchmark)}

    result = score_predictions(benchmark, predictions)

    assert anonymous(result) == anonymous(benchmark(lambda prompt, label_space: [0.7, 0.2, 0.1]))


@pytest.fixture
def given_as_logits() -> dict[str, Any]:
    """Predictions that are given as logits, but could be probabilities."""
    return {key: {"logits": [0.5, 0.25, 0.25]} for key in ids_of(Normal(datasets=["mini"], limit=6))}


def test_logits_that_look_like_probabilities_are_read_as_the_file_says(
    given_as_logits: dict[str, Any], anonymous: Model
) -> None:
    """The automatic reading would take them for probabilities; the signature names the forced one."""
    result = score_predictions(Normal(datasets=["mini"], limit=6), given_as_logits)

    assert isinstance(result, StaICC.Result)
    assert result.signature.fields["outputs"] == "logits"
    of_run = Normal(datasets=["mini"], limit=6, outputs="logits")(lambda prompt, label_space: [0.5, 0.25, 0.25])
    assert anonymous(result) == anonymous(of_run)


def test_given_probabilities_need_no_field_in_the_signature() -> None:
    result = score_predictions(
        Normal(datasets=["mini"], limit=6),
        {key: {"probabilities": [0.5, 0.25, 0.25]} for key in ids_of(Normal(datasets=["mini"], limit=6))},
    )

    assert isinstance(result, StaICC.Result)
    assert "outputs" not in result.signature.fields


def test_scoring_given_logits_leaves_the_benchmark_unchanged(given_as_logits: dict[str, Any]) -> None:
    benchmark = Normal(datasets=["mini"], limit=6)

    score_predictions(benchmark, given_as_logits)

    assert benchmark[0].outputs == "auto"


@pytest.mark.posix
def test_predictions_are_read_once_so_that_they_may_come_through_a_pipe(tmp_path: Path, hash_model: Model) -> None:
    lines = [
        json.dumps({"id": key, **prediction})
        for key, prediction in predictions_by_id(Normal(datasets=["mini"], limit=6), hash_model).items()
    ]
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=(tmp_path / "pipe").write_text, args=("\n".join(lines),), daemon=True).start()

    assert main(["score", "normal", str(tmp_path / "pipe"), "--datasets", "mini", "--limit", "6", "--no-save"]) == 0


# -- what is refused


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        ({"logits": [1.0, 2.0]}, "got 2 values, expected 3"),
        ({"logits": [1.0, 2.0, float("nan")]}, "is nan, expected a finite number"),
        ({"logits": 3}, "logits must be a list"),
        ({"logits": "food"}, "logits must be a list"),
        ({"logits": {"food": 1, "travel": 2}}, "expected each label once"),
        ({"index": 3}, "expected 0 to 2"),
        ({"index": 1.0}, "index must be an integer"),
        ({"index": True}, "index must be an integer"),
        ({"index": "1"}, "index must be an integer"),
        ({"label": "sport"}, "which is no label"),
        ({"label": 1}, "label must be a label name"),
        ({"reply": 1}, "reply must be a text, not 1"),
        (None, "expected .* probabilities, .*, got None"),
        ({"index": 0, "label": "food"}, "expected exactly one of .*, got index, label"),
        ({"guess": 1}, "one of probabilities, logits, index, label"),
    ],
    ids=str,
)
def test_invalid_predictions_name_their_id(prediction: dict[str, Any] | None, message: str) -> None:
    ids = [identified.id for identified in identified_queries(Normal(datasets=["mini"], limit=6))]

    with pytest.raises(OutputError, match=message) as caught:
        score_predictions(Normal(datasets=["mini"], limit=6), dict.fromkeys(ids, prediction))

    assert str(caught.value).startswith(ids[0])


@pytest.fixture
def predictions_and_replies(hash_model: Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """Predictions by index, such as ``{"index": 2}``, and replies that name the same label last; both by id."""
    by_index = predictions_by_id(Normal(datasets=["mini"], limit=6), hash_model, "index")
    replies = {}
    for identified in identified_queries(Normal(datasets=["mini"], limit=6)):
        labels, index = identified.query.label_space, by_index[identified.id]["index"]
        text = f"<think>Not {labels[index - 1]}.</think> The answer is **{labels[index]}**."
        replies[identified.id] = {"reply": text}
    return by_index, replies


def test_replies_are_parsed_and_scored_as_their_labels(predictions_and_replies: Any) -> None:
    by_index, replies = predictions_and_replies

    of_labels, of_replies = (
        score_predictions(Normal(datasets=["mini"], limit=6), by_index),
        score_predictions(Normal(datasets=["mini"], limit=6), replies),
    )

    assert dict(of_replies) == dict(of_labels)


def test_the_signature_of_replies_has_the_version_of_the_parser(predictions_and_replies: Any) -> None:
    by_index, replies = predictions_and_replies

    of_labels, of_replies = (
        score_predictions(Normal(datasets=["mini"], limit=6), by_index),
        score_predictions(Normal(datasets=["mini"], limit=6), replies),
    )

    assert "scoring:given;parser=6" in str(of_replies.signature)
    assert "parser" not in str(of_labels.signature)


def test_replies_are_read_from_a_table(predictions_and_replies: Any, tmp_path: Path) -> None:
    _, replies = predictions_and_replies
    path = tmp_path / "replies.csv"
    lines = [f'{key},"{prediction["reply"]}"' for key, prediction in replies.items()]
    path.write_text("\n".join(["id,reply", *lines]), "utf-8")

    result = score_predictions(Normal(datasets=["mini"], limit=6), read_predictions(path))

    assert result.signature == score_predictions(Normal(datasets=["mini"], limit=6), replies).signature
    assert dict(result) == dict(score_predictions(Normal(datasets=["mini"], limit=6), replies))


def test_a_reply_without_a_label_is_an_error(predictions_and_replies: Any) -> None:
    _, replies = predictions_and_replies
    unparsed = list(replies)[1]
    replies[unparsed] = {"reply": "I cannot decide."}

    with pytest.raises(OutputError, match=rf"1 of {len(replies)} replies are unparsed, .* {unparsed}: .*no label"):
        score_predictions(Normal(datasets=["mini"], limit=6), replies)


def test_a_reply_without_a_label_makes_the_result_partial_on_request(predictions_and_replies: Any) -> None:
    """The escape sequence of the reply, which could colour a terminal, is not printed."""
    _, replies = predictions_and_replies
    replies[list(replies)[1]] = {"reply": "\x1b[31mI cannot decide.\n"}

    result = score_predictions(Normal(datasets=["mini"], limit=6), replies, partial=True)

    assert not result.complete
    assert f"PARTIAL: 1 of {len(replies)} queries" in str(result)
    assert "\x1b" not in str(result)


# -- lm-evaluation-harness (test_lm_eval.py runs it)


def documents(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("staicc_*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def write_lm_eval_samples(folder: Path, hash_model: Any, name: str = "samples_x_2026.jsonl") -> Path:
    """Write what lm_eval logs for the exported documents with this model, and return the path of the file."""
    path = folder / "logged" / "model" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, doc in enumerate(documents(folder)):
        requests = [{"arg_0": doc["prompt"], "arg_1": label} for label in doc["label_space"]]
        responses = [[str(value), "False"] for value in hash_model(doc["prompt"], doc["label_space"])]
        sample = {
            "doc_id": number,
            "doc": doc,
            "arguments": {f"gen_args_{place}": request for place, request in enumerate(requests)},
            "filtered_resps": responses,
            "resps": [[response] for response in responses],
        }
        lines.append(json.dumps(sample))
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.mark.parametrize("name", ["Normal", "Suite"])
def test_logged_samples_score_as_if_run(
    tmp_path: Path, hash_model: Callable[..., Any], name: str, anonymous: Callable[[Any], Any]
) -> None:
    benchmark = getattr(StaICC, name)(datasets=["mini"], limit=3)
    export_tasks(benchmark, tmp_path)
    write_lm_eval_samples(tmp_path, hash_model)

    result = score_predictions(benchmark, read_predictions(tmp_path / "logged"))

    assert anonymous(result) == anonymous(benchmark(hash_model))


def edit_samples(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change each sample of a log with a function."""
    samples = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for sample in samples:
        edit(sample)
    path.write_text("\n".join(map(json.dumps, samples)), "utf-8")


def test_logged_samples_without_filtered_responses_are_scored_by_the_unfiltered_ones(
    tmp_path: Path, hash_model: Callable[..., Any], anonymous: Callable[[Any], Any]
) -> None:
    benchmark = Normal(datasets=["mini"], limit=3)
    export_tasks(benchmark, tmp_path)
    path = write_lm_eval_samples(tmp_path, hash_model)
    edit_samples(path, lambda sample: sample.update(filtered_resps=None))

    result = score_predictions(benchmark, read_predictions(path))

    assert anonymous(result) == anonymous(benchmark(hash_model))


def test_logged_samples_with_labels_in_another_order_are_refused(
    tmp_path: Path, hash_model: Callable[..., Any]
) -> None:
    """The responses of the log would be those of other labels."""
    export_tasks(Normal(datasets=["mini"], limit=3), tmp_path)
    path = write_lm_eval_samples(tmp_path, hash_model)

    def reverse_last_labels(sample: dict[str, Any]) -> None:
        first, *others = sample["arguments"].values()
        sample["arguments"] = dict(enumerate([first, *reversed(others)]))

    edit_samples(path, reverse_last_labels)

    with pytest.raises(SchemaError, match="another prompt"):
        read_predictions(path)


def write_lm_eval_results(samples: Path, model_name: object) -> None:
    """Write the file of results that lm_eval writes next to its samples: it has the name of the model."""
    date = samples.stem.rpartition("_")[2]
    text = json.dumps({"results": {"x": {"acc,none": float("nan")}}, "model_name": model_name})
    samples.with_name(f"results_{date}.json").write_text(text, "utf-8")


@pytest.mark.parametrize("given", ["the folder", "the file of samples"])
def test_the_name_in_the_log_of_lm_eval_names_the_model(tmp_path: Path, hash_model: Model, given: str) -> None:
    benchmark = Normal(datasets=["mini"], limit=3)
    export_tasks(benchmark, tmp_path)
    samples = write_lm_eval_samples(tmp_path, hash_model)
    write_lm_eval_results(samples, "gpt2")

    predictions = read_predictions(samples if given == "the file of samples" else tmp_path / "logged")
    result = score_predictions(benchmark, predictions)

    assert predictions.model_name == "gpt2"
    assert result.model.startswith("gpt2 [")
    assert result.model.endswith("(predictions given)")


def test_the_name_that_the_user_gives_replaces_that_of_the_log(tmp_path: Path, hash_model: Model) -> None:
    benchmark = Normal(datasets=["mini"], limit=3)
    export_tasks(benchmark, tmp_path)
    write_lm_eval_results(write_lm_eval_samples(tmp_path, hash_model), "gpt2")

    result = score_predictions(benchmark, read_predictions(tmp_path / "logged"), model_name="mine")

    assert result.model.startswith("mine [")


@pytest.mark.parametrize("model_name", [None, "", "  ", 5, ["gpt2"]])
def test_a_log_without_a_usable_name_is_scored_without_one(
    tmp_path: Path, hash_model: Model, model_name: object
) -> None:
    benchmark = Normal(datasets=["mini"], limit=3)
    export_tasks(benchmark, tmp_path)
    write_lm_eval_results(write_lm_eval_samples(tmp_path, hash_model), model_name)

    result = score_predictions(benchmark, read_predictions(tmp_path / "logged"))

    assert result.model.startswith("predictions given [")


def test_samples_of_two_models_are_refused(tmp_path: Path, hash_model: Model) -> None:
    """Half of the samples are in the log of one model, half in that of another."""
    export_tasks(Normal(datasets=["mini"], limit=3), tmp_path)
    first_samples = write_lm_eval_samples(tmp_path, hash_model, "samples_x_2026.jsonl")
    second_samples = first_samples.with_name("samples_x_2027.jsonl")
    lines = first_samples.read_text("utf-8").splitlines()
    first_samples.write_text(lines[0], "utf-8")
    second_samples.write_text(lines[1], "utf-8")
    write_lm_eval_results(first_samples, "gpt2")
    write_lm_eval_results(second_samples, "gpt2-large")

    with pytest.raises(SchemaError, match=r"samples of the models gpt2 .* and gpt2-large"):
        read_predictions(tmp_path / "logged")


def test_the_command_score_names_the_model(tmp_path: Path, hash_model: Model, capsys: Any) -> None:
    path = tmp_path / "predictions.jsonl"
    records = [
        {"id": key, **answer}
        for key, answer in predictions_by_id(Normal(datasets=["mini"], limit=6), hash_model, "index").items()
    ]
    path.write_text("\n".join(map(json.dumps, records)), "utf-8")
    arguments = ["score", "normal", str(path), "--datasets", "mini", "--limit", "6", "--no-save"]

    assert main([*arguments, "--model-name", "my model"]) == 0
    assert "my model [" in capsys.readouterr().out


# -- batches of providers


def provider_line(provider: str, request: dict[str, Any], text: str, reason: str = "stop") -> dict[str, Any]:
    """Return the line of a provider's results with a reply to a request, as its documentation shows it.

    Args:
        provider: ``openai`` or ``anthropic``.
        request: The line of the request.
        text: The reply.
        reason: Why the reply ends, in the words of OpenAI.
    """
    key = request["custom_id"]
    if provider == "openai":
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        body = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-2025-01-01", "choices": [choice]}
        response = {"status_code": 200, "request_id": "r", "body": body}
        return {"id": "batch_req_1", "custom_id": key, "response": response, "error": None}
    words_of_anthropic = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    message = {
        "id": "msg_1",
        "type": "message",
        "model": "m-2025-01-01",
        "content": [{"type": "thinking", "thinking": "It is weather."}, {"type": "text", "text": text}],
        "stop_reason": words_of_anthropic.get(reason, reason),
    }
    return {"custom_id": key, "result": {"type": "succeeded", "message": message}}


def expired_line(provider: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a provider's results for a request that expired."""
    key = request["custom_id"]
    error = {"code": "expired", "message": "This request could not be executed"}
    if provider == "anthropic":
        return {"custom_id": key, "result": {"type": "errored", "error": {"type": "error", "error": error}}}
    return {"id": "batch_req_2", "custom_id": key, "response": None, "error": error}


def settings_of(request: dict[str, Any]) -> dict[str, Any]:
    """Return what a request asks for: OpenAI has it under ``body``, Anthropic under ``params``."""
    settings: dict[str, Any] = request["body"] if "body" in request else request["params"]
    return settings


def prompt_of(request: dict[str, Any]) -> str:
    (message,) = settings_of(request)["messages"]
    return str(message["content"])


BATCH = ["--benchmark", "suite", "--datasets", "mini", "--limit", "4"]


class Batch(NamedTuple):
    """A provider, and the requests for the suite that the command line writes for it."""

    provider: str
    requests: list[dict[str, Any]]

    def reply(self, request: dict[str, Any], text: str, reason: str = "stop") -> dict[str, Any]:
        return provider_line(self.provider, request, text, reason)

    def right_replies(self) -> list[dict[str, Any]]:
        """Return a line with a label for each request."""
        return [self.reply(request, label_of(prompt_of(request))) for request in self.requests]


@pytest.fixture(params=["openai", "anthropic"])
def batch(request: pytest.FixtureRequest, tmp_path: Path) -> Batch:
    path = tmp_path / "requests.jsonl"
    assert main(["export", f"{request.param}-batch", *BATCH, "--model", "m;max_tokens=9", "-o", str(path)]) == 0
    return Batch(request.param, [json.loads(line) for line in path.read_text("utf-8").splitlines()])


def queries_of_batch() -> list[Query]:
    """Return all queries of the suite whose requests are in the batch."""
    return [identified.query for identified in identified_queries(Suite(datasets=["mini"], limit=4))]


def count_queries(requests: list[dict[str, Any]]) -> int:
    """Return how many queries have the prompts of these requests."""
    prompts = {prompt_of(request) for request in requests}
    return sum(query.prompt in prompts for query in queries_of_batch())


def label_of(prompt: str) -> str:
    """Return the label that the model of these tests predicts: one that depends on the length of the prompt."""
    return ["weather", "food", "travel"][len(prompt) % 3]


def score_lines(lines: list[dict[str, Any]], folder: Path, *options: str) -> tuple[int, Any]:
    """Return the exit status of the command ``score`` on the lines of a provider, and its result, ``None`` if none."""
    path = folder / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    result = folder / "scored.json"
    result.unlink(missing_ok=True)
    status = main(["score", "suite", str(path), *BATCH[2:], "--no-save", "--json", str(result), *options])
    return status, load_result(result) if result.exists() else None


def test_a_batch_has_a_request_for_each_prompt(batch: Batch) -> None:
    """A prompt of two queries is one request."""
    prompts = {query.prompt for query in queries_of_batch()}

    assert {prompt_of(request) for request in batch.requests} == prompts
    assert len(batch.requests) == len(prompts)


def test_a_request_has_the_settings_of_the_model_and_an_id_that_providers_accept(batch: Batch) -> None:
    for request in batch.requests:
        settings = settings_of(request)
        assert (settings["model"], settings["max_tokens"], settings["temperature"]) == ("m", 9, 0)
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", request["custom_id"])  # Anthropic's rule


def test_a_batch_scores_as_a_run(batch: Batch, tmp_path: Path) -> None:
    """Lines of results come in any order."""
    lines = [batch.reply(request, f"**{label_of(prompt_of(request))}**.") for request in batch.requests]
    random.Random(1).shuffle(lines)

    _, scored = score_lines(lines, tmp_path)

    of_run = Suite(datasets=["mini"], limit=4)(lambda prompt, label_space: label_of(prompt))
    assert list(scored) == list(of_run)
    for name, part in scored.items():
        assert part.divided == of_run[name].divided, name


def test_a_scored_batch_has_the_providers_name_of_the_model(batch: Batch, tmp_path: Path) -> None:
    _, scored = score_lines(batch.right_replies(), tmp_path)

    for name, part in scored.items():
        assert part.model.startswith("m-2025-01-01 ["), name


def lines_with_three_failures(batch: Batch) -> list[dict[str, Any]]:
    """Return lines in which the first request failed, the second reply ends with an error, and the third is missing."""
    expired = expired_line(batch.provider, batch.requests[0])
    ended_with_an_error = batch.reply(batch.requests[1], "fo", "error")
    return [expired, ended_with_an_error, *batch.right_replies()[3:]]


def test_a_batch_with_failed_requests_is_refused(
    batch: Batch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, scored = score_lines(lines_with_three_failures(batch), tmp_path)

    assert status == 2
    assert scored is None
    assert "have no prediction" in capsys.readouterr().err


def test_a_failed_request_is_a_failed_query_and_never_a_wrong_prediction(batch: Batch, tmp_path: Path) -> None:
    _, scored = score_lines(lines_with_three_failures(batch), tmp_path, "--partial")

    failures = [failure for part in scored.values() for failure in part.details["mini"].failures]
    assert len(failures) == count_queries(batch.requests[:3])
    expired = [failure for failure in failures if "expired" in failure.reason]
    assert len(expired) == count_queries(batch.requests[:1])


def test_a_reply_that_is_cut_before_its_label_is_unparsed_with_a_warning(batch: Batch, tmp_path: Path) -> None:
    lines = batch.right_replies()
    lines[0] = batch.reply(batch.requests[0], "The label is", "length")

    _, scored = score_lines(lines, tmp_path, "--unparsed", "wrong")

    unparsed_count = 0
    for name, part in scored.items():
        details = part.details["mini"]
        unparsed_count += len(details.unparsed)
        warnings = [warning for warning in part.warnings if "stopped at max_tokens" in warning]
        if details.unparsed:
            (warning,) = warnings
            cut = f"mini: {len(details.unparsed)} of {details.asked} replies stopped at max_tokens"
            assert warning.startswith(cut), name
        else:
            assert warnings == [], name
    assert unparsed_count == count_queries(batch.requests[:1])


def test_failed_requests_that_were_sent_again_count_in_joined_files(batch: Batch, tmp_path: Path) -> None:
    lines = lines_with_three_failures(batch)
    second_try = batch.right_replies()[:3]

    _, scored = score_lines([*lines, *second_try], tmp_path)

    for name, part in scored.items():
        assert part.complete, name


def test_a_batch_that_is_too_large_is_written_with_a_remark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two test rows, in two repeats, are four requests; the provider takes two in a file."""
    monkeypatch.setattr(batch_files, "LIMITS", {"openai": batch_files.BatchLimits(request_count=2, megabytes=200)})
    path = tmp_path / "requests.jsonl"
    benchmark = ["--benchmark", "normal", "--datasets", "mini", "--limit", "2"]

    assert main(["export", "openai-batch", *benchmark, "--model", "m", "-o", str(path)]) == 0

    assert len(path.read_text("utf-8").splitlines()) == 4
    assert "Divide the file between lines into 2 parts" in capsys.readouterr().err


@pytest.mark.parametrize("message", [[1], "food", None], ids=str)
def test_a_reply_in_another_form_is_a_failure(message: Any) -> None:
    """No empty reply, which could count as wrong."""
    line = provider_line("openai", {"custom_id": "a"}, "food")
    line["response"]["body"]["choices"][0]["message"] = message

    _, failure = batch_reply("r.jsonl, line 1", line, {})

    assert isinstance(failure, Failure)
    assert "no text" in failure.reason


def test_a_reply_whose_name_of_the_model_is_no_text_is_read() -> None:
    line = provider_line("openai", {"custom_id": "a"}, "food")
    line["response"]["body"]["model"] = {"name": "m"}

    assert batch_reply("r.jsonl, line 1", line, {}) == ("a", {"reply": "food"})


def test_replies_of_two_models_are_refused() -> None:
    first_line_by_model = {"other": "r.jsonl, line 1"}

    with pytest.raises(SchemaError, match="m-2025-01-01"):
        batch_reply("r.jsonl, line 2", provider_line("openai", {"custom_id": "a"}, "food"), first_line_by_model)


def test_no_prediction_at_all_is_said() -> None:
    with pytest.raises(ArgumentError, match=r"got no prediction, expected one of each of the \d+ queries"):
        score_predictions(Normal(datasets=["mini"], limit=6), {})
