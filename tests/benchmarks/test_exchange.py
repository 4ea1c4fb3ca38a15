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
from typing import Any

import pytest

import StaICC
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
from StaICC.errors import OutputError, SchemaError
from StaICC.inference.replies import Failure
from StaICC.kernels.server import batch_files
from StaICC.kernels.server.batch_files import batch_reply
from StaICC.prompting.prompt_writer import Query
from StaICC.results.result import load as load_result

Model = Callable[..., list[float]]


def mini(benchmark: str = "Normal", **arguments: Any) -> Any:
    return getattr(StaICC, benchmark)(**{"datasets": ["mini"], "limit": 6, **arguments})


def predicted(benchmark: Any, stand_in: Model, field: str = "logits") -> dict[str, dict[str, Any]]:
    predictions = {}
    for identified in identified_queries(benchmark):
        row = stand_in(identified.query.prompt, list(identified.query.label_space))
        best = row.index(max(row))
        value = {"logits": row, "index": best, "label": identified.query.label_space[best]}[field]
        predictions[identified.id] = {field: value}
    return predictions


# -- ids


def test_an_id_names_the_query_and_its_prompt() -> None:
    ids = {
        name: {identified.id for identified in identified_queries(mini(**more))}
        for name, more in (("plain", {}), ("k", {"k": 2}), ("noisy", {"noisy_channel": True}))
    }
    assert [key for key in ids["plain"] if not re.fullmatch(r"Normal/mini/normal/[0-5]/[01]/[0-9a-f]{12}", key)] == []
    assert not ids["plain"] & (ids["k"] | ids["noisy"])
    assert query_id("a/b", "ü c", "%", Query("p", ("x",), 0, 3, 1)).startswith("a%2Fb/%C3%BC%20c/%25/3/1/")


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


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("name", ["Normal", "GLER"])
@pytest.mark.parametrize("noisy", [False, True])
def test_prompts_in_a_file_are_the_prompts(tmp_path: Path, suffix: str, name: str, noisy: bool) -> None:
    texts = ['a "b", c\nd\r\ne', "\u2028 \u0085 \x1c", "é 😀", " lead and trail ", ",;\t'"]
    rows = [(texts[i % len(texts)] + str(i), i % 2) for i in range(30)]
    odd = Dataset.from_rows(rows, name="odd", label_space=["no,\n", '"yes"'])
    for dataset in ("mini", odd):
        benchmark = mini(name, limit=3, noisy_channel=noisy, datasets=[dataset])
        records = written_prompts(benchmark, tmp_path / f"prompts.{suffix}")
        as_json = noisy and suffix == "csv"
        prompts = [json.loads(record["prompt"]) if as_json else record["prompt"] for record in records]
        assert prompts == benchmark[0].prompt_set()
        assert [record["label_space"] for record in records] == [benchmark[0].get_label_space()] * len(prompts)
        assert "ground_truth" not in records[0]


# -- round trips


@pytest.fixture
def stand_in(stand_in: Model) -> Model:
    """The stand-in with negative logits, so that they are known to be logits without ``outputs=``."""
    return lambda prompt, label_space: [value - 5 for value in stand_in(prompt, label_space)]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("field", ["logits", "index", "label"])
def test_scored_as_if_run(tmp_path: Path, stand_in: Model, suffix: str, field: str, anonymous: Model) -> None:
    """From a file in any order to the same numbers as a run; only who predicted, and how, is not known."""
    benchmark = mini()
    lines = [{"id": key, "extra": "x", **answer} for key, answer in predicted(benchmark, stand_in, field).items()]
    random.Random(0).shuffle(lines)
    path = tmp_path / f"predictions.{suffix}"
    if suffix == "csv":
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["extra", field, "id"])
            writer.writerows(
                ["x", json.dumps(line[field]) if field == "logits" else line[field], line["id"]] for line in lines
            )
    else:
        path.write_text("\n\n".join(map(json.dumps, lines)), "utf-8")
    found = score_predictions(mini(), read_predictions(path), return_outputs=True)
    assert len((found.outputs or {})["mini"]) == 12  # type: ignore[union-attr]

    def function(prompt: str, label_space: list[str]) -> Any:
        row = stand_in(prompt, label_space)
        return row if field == "logits" else row.index(max(row))

    ran = benchmark(function)
    assert anonymous(found) == anonymous(ran)
    assert isinstance(found, StaICC.Result)
    assert found.signature.differences(ran.signature) == {"scoring": ("given", "function")}


def test_probabilities_by_the_label_s_text(anonymous: Model) -> None:
    benchmark = mini()
    by_text = {
        identified.id: {
            "probabilities": dict(zip(reversed(identified.query.label_space), (0.1, 0.2, 0.7), strict=True))
        }
        for identified in identified_queries(benchmark)
    }
    ran = benchmark(lambda prompt, label_space: [0.7, 0.2, 0.1])
    assert anonymous(score_predictions(benchmark, by_text)) == anonymous(ran)


def test_logits_that_look_like_probabilities_are_read_as_the_file_says(anonymous: Model) -> None:
    """The automatic reading would take them for probabilities; the signature names the forced one."""
    benchmark = mini()
    rows = {identified.id: [0.5, 0.25, 0.25] for identified in identified_queries(benchmark)}
    logits = score_predictions(benchmark, {key: {"logits": row} for key, row in rows.items()})
    plain = score_predictions(benchmark, {key: {"probabilities": row} for key, row in rows.items()})
    assert isinstance(logits, StaICC.Result)
    assert isinstance(plain, StaICC.Result)
    assert logits.signature.fields["outputs"] == "logits"
    assert "outputs" not in plain.signature.fields
    ran = mini(outputs="logits")(lambda prompt, label_space: [0.5, 0.25, 0.25])
    assert anonymous(logits) == anonymous(ran)
    assert benchmark[0].outputs == "auto"  # as it was


@pytest.mark.posix
def test_predictions_are_read_once_so_that_they_may_come_through_a_pipe(tmp_path: Path, stand_in: Model) -> None:
    lines = [json.dumps({"id": key, **prediction}) for key, prediction in predicted(mini(), stand_in).items()]
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=(tmp_path / "pipe").write_text, args=("\n".join(lines),), daemon=True).start()
    assert main(["score", "normal", str(tmp_path / "pipe"), "--datasets", "mini", "--limit", "6", "--no-save"]) == 0


# -- what is refused


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        ({"logits": [1.0, 2.0]}, "got 2 values, expected 3"),
        ({"logits": [1.0, 2.0, float("nan")]}, "is nan, expected a finite number"),
        *(({"logits": value}, "logits must be a list") for value in (3, "food")),
        *(({"logits": {"food": 1, "travel": 2}}, "expected each label once"), ({"index": 3}, "expected 0 to 2")),
        *(({"index": value}, "index must be an integer") for value in (1.0, True, "1")),
        *(({"label": "sport"}, "which is no label"), ({"label": 1}, "label must be a label name")),
        *(({"reply": 1}, "reply must be a text, not 1"), (None, "expected .* probabilities, .*, got None")),
        ({"index": 0, "label": "food"}, "expected exactly one of .*, got index, label"),
        ({"guess": 1}, "one of probabilities, logits, index, label"),
    ],
)
def test_invalid_predictions_name_their_id(prediction: dict[str, Any] | None, message: str) -> None:
    keys = [identified.id for identified in identified_queries(mini())]
    with pytest.raises(OutputError, match=message) as caught:
        score_predictions(mini(), dict.fromkeys(keys, prediction))
    assert str(caught.value).startswith(keys[0])


def test_replies_are_parsed(stand_in: Model, tmp_path: Path) -> None:
    labels = {identified.id: identified.query.label_space for identified in identified_queries(mini())}
    by_index = predicted(mini(), stand_in, "index")
    replies = {}
    for key, prediction in by_index.items():
        right, wrong = labels[key][prediction["index"]], labels[key][prediction["index"] - 1]
        replies[key] = {"reply": f"<think>Not {wrong}.</think> The answer is **{right}**."}
    expected, parsed = score_predictions(mini(), by_index), score_predictions(mini(), replies)
    assert dict(parsed) == dict(expected)
    assert "scoring:given;parser=5" in str(parsed.signature)
    assert "parser" not in str(expected.signature)

    path = tmp_path / "replies.csv"
    path.write_text("id,reply\n" + "".join(f'{key},"{value["reply"]}"\n' for key, value in replies.items()), "utf-8")
    assert score_predictions(mini(), read_predictions(path)).signature == parsed.signature

    key = list(replies)[1]
    replies[key] = {"reply": "\x1b[31mI cannot decide.\n"}
    with pytest.raises(OutputError, match=rf"1 of {len(replies)} replies are unparsed, .* {key}: .*no label"):
        score_predictions(mini(), replies)
    partial = score_predictions(mini(), replies, partial=True)
    assert not partial.complete
    assert f"PARTIAL: 1 of {len(replies)} queries" in str(partial)
    assert "\x1b" not in str(partial)


# -- lm-evaluation-harness (test_lm_eval.py runs it)


def documents(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("staicc_*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def logged(folder: Path, stand_in: Any, name: str = "samples_x_2026.jsonl") -> Path:
    """Write what lm_eval logs for its documents."""
    path = folder / "logged" / "model" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = []
    for number, doc in enumerate(documents(folder)):
        answers = [[str(value), "False"] for value in stand_in(doc["prompt"], doc["label_space"])]
        pairs = [{"arg_0": doc["prompt"], "arg_1": label} for label in doc["label_space"]]
        arguments = {f"gen_args_{place}": pair for place, pair in enumerate(pairs)}
        sample = {"doc_id": number, "doc": doc, "arguments": arguments, "filtered_resps": answers}
        samples.append({**sample, "resps": [[answer] for answer in answers]})
    path.write_text("\n".join(map(json.dumps, samples)), "utf-8")
    return path


@pytest.mark.parametrize("name", ["Normal", "Suite"])
def test_logged_samples_score_as_if_run(
    tmp_path: Path, stand_in: Callable[..., Any], name: str, anonymous: Callable[[Any], Any]
) -> None:
    benchmark = mini(name, limit=3)
    export_tasks(benchmark, tmp_path)
    file = logged(tmp_path, stand_in)
    expected = anonymous(benchmark(stand_in))
    assert anonymous(score_predictions(benchmark, read_predictions(tmp_path / "logged"))) == expected
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    file.write_text("\n".join(json.dumps({**one, "filtered_resps": None}) for one in records), "utf-8")
    assert anonymous(score_predictions(benchmark, read_predictions(file))) == expected
    first, *others = records[0]["arguments"].values()
    records[0]["arguments"] = dict(enumerate([first, *reversed(others)]))  # labels in another order
    file.write_text(json.dumps(records[0]), "utf-8")
    with pytest.raises(SchemaError, match="another prompt"):
        read_predictions(file)


def write_lm_eval_results(samples: Path, model_name: object) -> None:
    """Write the file of results that lm_eval writes next to its samples."""
    date = samples.stem.rpartition("_")[2]
    text = json.dumps({"results": {"x": {"acc,none": float("nan")}}, "model_name": model_name})
    samples.with_name(f"results_{date}.json").write_text(text, "utf-8")


def test_the_name_in_the_log_of_lm_eval_names_the_model(tmp_path: Path, stand_in: Model) -> None:
    benchmark = mini(limit=3)
    export_tasks(benchmark, tmp_path)
    samples = logged(tmp_path, stand_in)
    write_lm_eval_results(samples, "gpt2")
    for path in (tmp_path / "logged", samples):
        predictions = read_predictions(path)
        assert predictions.model_name == "gpt2"
        result = score_predictions(benchmark, predictions)
        assert result.model.startswith("gpt2 [")
        assert result.model.endswith("(predictions given)")
    named_by_user = score_predictions(benchmark, predictions, model_name="mine")
    assert named_by_user.model.startswith("mine [")


@pytest.mark.parametrize("model_name", [None, "", "  ", 5, ["gpt2"]])
def test_a_log_without_a_usable_name_is_scored_without_one(tmp_path: Path, stand_in: Model, model_name: object) -> None:
    benchmark = mini(limit=3)
    export_tasks(benchmark, tmp_path)
    write_lm_eval_results(logged(tmp_path, stand_in), model_name)
    result = score_predictions(benchmark, read_predictions(tmp_path / "logged"))
    assert result.model.startswith("predictions given [")


def test_samples_of_two_models_are_refused(tmp_path: Path, stand_in: Model) -> None:
    export_tasks(mini(limit=3), tmp_path)
    samples = logged(tmp_path, stand_in, "samples_x_2026.jsonl")
    lines = samples.read_text("utf-8").splitlines()
    samples.write_text(lines[0], "utf-8")
    write_lm_eval_results(samples, "gpt2")
    other_samples = samples.with_name("samples_x_2027.jsonl")
    other_samples.write_text(lines[1], "utf-8")
    write_lm_eval_results(other_samples, "gpt2-large")
    with pytest.raises(SchemaError, match=r"samples of the models gpt2 .* and gpt2-large"):
        read_predictions(tmp_path / "logged")


def test_the_command_score_names_the_model(tmp_path: Path, stand_in: Model, capsys: Any) -> None:
    path = tmp_path / "predictions.jsonl"
    records = [{"id": key, **answer} for key, answer in predicted(mini(), stand_in, "index").items()]
    path.write_text("\n".join(map(json.dumps, records)), "utf-8")
    arguments = ["score", "normal", str(path), "--datasets", "mini", "--limit", "6", "--no-save"]
    assert main([*arguments, "--model-name", "my model"]) == 0
    assert "my model [" in capsys.readouterr().out


# -- batches of providers


def replied(provider: str, request: dict[str, Any], text: str, reason: str = "stop") -> dict[str, Any]:
    """The line of a provider's results for a request, as its documentation shows it."""
    key = request["custom_id"]
    if provider == "openai":
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        body = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-2025-01-01", "choices": [choice]}
        response = {"status_code": 200, "request_id": "r", "body": body}
        return {"id": "batch_req_1", "custom_id": key, "response": response, "error": None}
    parts = [{"type": "thinking", "thinking": "It is weather."}, {"type": "text", "text": text}]
    reason = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}.get(reason, reason)
    message = {"id": "msg_1", "type": "message", "model": "m-2025-01-01", "content": parts, "stop_reason": reason}
    return {"custom_id": key, "result": {"type": "succeeded", "message": message}}


def failed(provider: str, request: dict[str, Any]) -> dict[str, Any]:
    key, error = request["custom_id"], {"code": "expired", "message": "This request could not be executed"}
    if provider == "anthropic":
        return {"custom_id": key, "result": {"type": "errored", "error": {"type": "error", "error": error}}}
    return {"id": "batch_req_2", "custom_id": key, "response": None, "error": error}


def prompt_of(request: dict[str, Any]) -> str:
    (message,) = request.get("body", request.get("params"))["messages"]
    return str(message["content"])


BATCH = ["--benchmark", "suite", "--datasets", "mini", "--limit", "4"]


@pytest.fixture(params=["openai", "anthropic"])
def batch(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[dict[str, Any]]]:
    """A provider, and the requests for a suite that the command line writes."""
    path = tmp_path / "requests.jsonl"
    assert main(["export", f"{request.param}-batch", *BATCH, "--model", "m;max_tokens=9", "-o", str(path)]) == 0
    return request.param, [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def label_of(prompt: str) -> str:
    return ["weather", "food", "travel"][len(prompt) % 3]


def score_lines(lines: list[dict[str, Any]], folder: Path, *more: str) -> Any:
    path = folder / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    result = folder / "scored.json"
    result.unlink(missing_ok=True)
    status = main(["score", "suite", str(path), *BATCH[2:], "--no-save", "--json", str(result), *more])
    return status, load_result(result) if result.exists() else None


def test_a_batch_scores_as_a_run(batch: Any, tmp_path: Path) -> None:
    provider, requests = batch
    suite = mini("Suite", limit=4)
    prompts = {identified.query.prompt for identified in identified_queries(suite)}
    assert {prompt_of(request) for request in requests} == prompts
    assert len(requests) == len(prompts)  # a prompt of two queries is one request
    assert [
        request for request in requests if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", request["custom_id"])
    ] == []  # Anthropic's rule
    settings = requests[0].get("body", requests[0].get("params"))
    assert (settings["model"], settings["max_tokens"], settings["temperature"]) == ("m", 9, 0)
    lines = [replied(provider, request, f"**{label_of(prompt_of(request))}**.") for request in requests]
    random.Random(1).shuffle(lines)
    _, scored = score_lines(lines, tmp_path)
    assert [
        part for part in scored.values() if not part.model.startswith("m-2025-01-01 [")
    ] == []  # the provider's name of the model
    run = suite(lambda prompt, label_space: label_of(prompt))
    assert {name: part.divided for name, part in scored.items()} == {name: part.divided for name, part in run.items()}


def test_a_request_without_a_reply_is_a_failed_query(
    batch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a wrong prediction, and never silently."""
    provider, requests = batch
    lines = [replied(provider, request, label_of(prompt_of(request))) for request in requests]
    whole = lines.copy()
    lines[0] = failed(provider, requests[0])
    lines[1] = replied(provider, requests[1], "fo", "error")
    del lines[2]
    assert score_lines(lines, tmp_path) == (2, None)
    assert "have no prediction" in capsys.readouterr().err
    _, scored = score_lines(lines, tmp_path, "--partial")
    lost = {prompt_of(request) for request in requests[:3]}
    queries = list(identified_queries(mini("Suite", limit=4)))
    missing = sum(identified.query.prompt in lost for identified in queries)
    failures = [failure for part in scored.values() for failure in part.details["mini"].failures]
    assert len(failures) == missing
    assert {"expired" in failure.reason for failure in failures} == {True, False}
    cut = [replied(provider, requests[0], "The label is", "length"), *whole[1:]]
    _, scored = score_lines(cut, tmp_path, "--unparsed", "wrong")
    without_label = sum(identified.query.prompt == prompt_of(requests[0]) for identified in queries)
    assert sum(map(len, (part.details["mini"].unparsed for part in scored.values()))) == without_label
    for part in scored.values():
        details = part.details["mini"]
        cut_off = [warning for warning in part.warnings if "stopped at max_tokens" in warning]
        expected = f"mini: {len(details.unparsed)} of {details.asked} replies stopped at max_tokens"
        assert len(cut_off) == (1 if details.unparsed else 0)
        assert [warning for warning in cut_off if not warning.startswith(expected)] == []
    again = [*lines, *whole[:3]]  # the failed requests were sent again, and the files joined
    _, scored = score_lines(again, tmp_path)
    assert [part for part in scored.values() if not part.complete] == []


def test_a_batch_that_is_too_large_is_written_with_a_remark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_files, "LIMITS", {"openai": batch_files.BatchLimits(request_count=2, megabytes=200)})
    path = tmp_path / "requests.jsonl"
    words = ["export", "openai-batch", "--benchmark", "normal", "--datasets", "mini", "--limit", "2", "--model", "m"]
    assert main([*words, "-o", str(path)]) == 0
    assert len(path.read_text("utf-8").splitlines()) == 4
    assert "Divide the file between lines into 2 parts" in capsys.readouterr().err


@pytest.mark.parametrize("message", [[1], "food", None], ids=["a list", "a text", "nothing"])
def test_a_reply_whose_message_is_no_object_is_a_failure(message: Any) -> None:
    """It is no empty reply, which could count as wrong."""
    damaged = replied("openai", {"custom_id": "a"}, "food")
    damaged["response"]["body"]["choices"][0]["message"] = message
    _, failure = batch_reply("r.jsonl, line 1", damaged, {})
    assert isinstance(failure, Failure)
    assert "no text" in failure.reason


def test_the_model_of_a_reply_may_be_anything() -> None:
    named = replied("openai", {"custom_id": "a"}, "food")
    named["response"]["body"]["model"] = {"name": "m"}
    assert batch_reply("r.jsonl, line 1", named, {}) == ("a", {"reply": "food"})


def test_a_reply_of_a_second_model_is_refused_with_its_name() -> None:
    with pytest.raises(SchemaError, match="m-2025-01-01"):
        batch_reply("r.jsonl, line 2", replied("openai", {"custom_id": "a"}, "food"), {"other": "r.jsonl, line 1"})
