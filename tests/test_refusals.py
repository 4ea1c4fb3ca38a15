"""Guards of the public functions: each refuses what would become a wrong number, lost data or an ignored option."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, Normal, PosteriorBias, Statistics, load_kernel
from StaICC.benchmarks import exchange
from StaICC.benchmarks.harness_tasks import export_tasks
from StaICC.benchmarks.race import race
from StaICC.benchmarks.verify import verify_file
from StaICC.datasets import pack
from StaICC.datasets.catalogue import Digests
from StaICC.datasets.dataset import load_dataset
from StaICC.datasets.records import TableFile
from StaICC.datasets.source import HubSource
from StaICC.datasets.table_files import labelled_records
from StaICC.errors import StaICCError
from StaICC.inference.identity import identity_of
from StaICC.inference.prices import token_cost
from StaICC.inference.runner import RunOptions
from StaICC.inference.store import BoundStore, PredictionStore, query_key
from StaICC.inference.workers import WorkerPool, worker_processes
from StaICC.kernels.huggingface.prompts import KernelOptions
from StaICC.kernels.huggingface.source import ModelSource
from StaICC.kernels.protocol import Capability
from StaICC.kernels.server.batch_files import batch_reply, batch_requests
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.methods.contract import MethodSpec
from StaICC.prompting.pseudo_queries import domain_queries
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import SubsetView
from StaICC.results.details import unpack_scores
from StaICC.results.query_records import save_records
from StaICC.results.result import Result
from StaICC.results.signature import Signature

LABELS = ["no", "yes"]
ROWS = [(f"text {number}", number % 2) for number in range(40)]
MINI = Normal(datasets=["mini"], limit=2)
NOISY_CHANNEL = Normal(datasets=["mini"], limit=2, noisy_channel=True)
LOGITS = Normal(datasets=["mini"], limit=8, outputs="logits")
QUERY_IDS = [record["id"] for record in exchange.prompt_records(MINI)]
FIRST_LABEL_OF_ALL: dict[str, Any] = {query_id: {"index": 0} for query_id in QUERY_IDS}


def predict_first_label(prompt: Any, label_space: Any) -> int:
    return 0


def open_empty_store(read_only: bool = False) -> PredictionStore:
    """Make a store without predictions, and open it."""
    PredictionStore("s.sqlite").close()
    return PredictionStore("s.sqlite", read_only=read_only)


def closed_store() -> PredictionStore:
    with open_empty_store() as store:
        pass
    return store


def read_three_scores_for_two_labels() -> Any:
    """Read a query with two labels from a store that has three scores for it."""
    with open_empty_store() as store:
        store.put_many("m", [(query_key("p", ["no", "yes"]), [1.0, 2.0, 3.0])])
        return BoundStore(store, "m").get_many([("p", ("no", "yes"))])


def write_file(name: str, text: str) -> Path:
    Path(name).write_text(text, "utf-8")
    return Path(name)


def dataset_from_csv() -> Dataset:
    """Return the data set of a CSV file with 40 rows of two labels."""
    write_file("a.csv", "text,label\n" + "a,b\nc,d\n" * 20)
    return Dataset.from_file("a.csv", texts=["text"], label="label")


def read_rows_of_a_file_that_has_changed() -> Any:
    source = dataset_from_csv().source
    assert isinstance(source, TableFile)
    write_file("a.csv", "text,label\n" + "a,d\nc,b\n" * 20)
    return labelled_records(source, ["b", "d"])


def dataset_from_csv_with_card(card: str) -> Dataset:
    """Return the data set of the same file with this JSON as its card."""
    write_file("a.card.json", card)
    return dataset_from_csv()


def dataset_from_csv_with_two_cards() -> Dataset:
    write_file("a.card.toml", "")
    return dataset_from_csv_with_card("{}")


def result_without_first_row_number() -> Result:
    """Read a result of four queries, of which the rows of three are recorded."""
    record = MINI(predict_first_label).to_dict()
    record["details"]["mini"]["conditions"][0]["rows"].pop()
    return Result.from_dict(record)


def result_signed_as_stopped_early() -> Result:
    """Read a result of all queries, whose signature says that its run stopped early."""
    record = MINI(predict_first_label).to_dict()
    record["signature"]["stopping"] = "precision"
    return Result.from_dict(record)


def verify_with_data_file() -> Any:
    """Verify a result on built-in data with a file of data."""
    MINI(predict_first_label).save("r.json")
    return verify_file("r.json", data_files=[write_file("a.csv", "x")])


def read_json_lines(*records: dict[str, Any]) -> Any:
    """Read records as predictions."""
    lines = [json.dumps(record) for record in records]
    return exchange.read_predictions(write_file("p.jsonl", "\n".join(lines)), batch_reply)


def sample_of_lm_eval(**changes: Any) -> dict[str, Any]:
    """Return a line of a log of lm-evaluation-harness, with the log-likelihoods of two labels."""
    doc = {"id": "q", "label_space": ["no", "yes"], "prompt": "p"}
    return {"doc": doc, "arguments": [["p", "no"], ["p", "yes"]], "filtered_resps": [[0.1], [0.2]], **changes}


def reply_of_openai_batch(custom_id: str, model: str) -> dict[str, Any]:
    """Return a line of the file of replies that a batch of OpenAI has."""
    choices = [{"message": {"content": "yes"}, "finish_reason": "stop"}]
    return {"custom_id": custom_id, "response": {"status_code": 200, "body": {"model": model, "choices": choices}}}


class KernelWithNumberAsIdentity:
    def identity(self) -> int:
        return 3


REFUSED: dict[str, Callable[[], Any]] = {
    # runs
    "on_error must be": lambda: RunOptions(on_error="skip"),  # type: ignore[arg-type]
    "progress must be": lambda: MINI(predict_first_label, progress=3),
    "expected a list of 1 item: a function": lambda: MINI([predict_first_label, predict_first_label]),
    "a mapping with the names TREC, expected": lambda: MINI({"TREC": predict_first_label}),
    "got both": lambda: MINI(predict_first_label, preentered_prediction=[[0] * 4]),
    "mean the same": lambda: MINI(predict_first_label, forward_inference=predict_first_label),
    "recheck must be": lambda: MINI(predict_first_label, recheck=1),
    "must be a non-empty text": lambda: MINI(predict_first_label, model_name=" "),
    "can neither be cached": lambda: MINI(predict_first_label, batched_inference=True, store="s"),
    "nor be split": lambda: MINI(predict_first_label, batched_inference=True, executor=worker_processes(1)),
    "must return an Identity": lambda: identity_of(KernelWithNumberAsIdentity()),
    "devices must be a list": lambda: worker_processes(1, "0"),
    "it made 3": lambda: WorkerPool(lambda: 3).executor,  # type: ignore[arg-type,return-value]
    "probe_seconds: got True": lambda: MINI.forecast(predict_first_label, probe_seconds=True),
    "'logit'": lambda: Normal(datasets=["mini"], outputs="logit"),  # type: ignore[arg-type]
    "requires=[<Capability": lambda: MethodSpec("m", "M", predict_first_label, [Capability.TEXT]),  # type: ignore[arg-type]
    "requires=frozenset({'text'})": lambda: MethodSpec("m", "M", predict_first_label, frozenset({"text"})),  # type: ignore[arg-type]
    "options {}, expected a dataclass": lambda: MethodSpec("m", "M", predict_first_label, options={}),  # type: ignore[arg-type]
    "prices: got (1.0, 2.0, 3.0, 4.0)": lambda: token_cost(1, 1, (1.0, 2.0, 3.0, 4.0)),
    "prices: got (1.0, -2.0)": lambda: token_cost(1, 1, (1.0, -2.0)),
    # early stopping
    "wrong precision: got 0.5": lambda: LOGITS(predict_first_label, precision=0.5),
    "wrong margin": lambda: race(MINI, predict_first_label, predict_first_label, margin=1.0),
    "got <Post_bias": lambda: PosteriorBias(datasets=["mini"], limit=2)(predict_first_label, precision=0.1),
    "standard metric accuracy": lambda: Normal(datasets=["mini"], metrics="0.1.1")(predict_first_label, precision=0.4),
    "got outputs='auto'": lambda: MINI(predict_first_label, precision=0.4, score="likelihood"),
    "labels have no likelihood": lambda: LOGITS(predict_first_label, precision=0.4, score="likelihood"),
    "tried=2": lambda: Normal(datasets=["mini"], statistics=Statistics(tried=2))(predict_first_label, precision=0.4),
    "got batched_inference=True": lambda: LOGITS(predict_first_label, precision=0.4, batched_inference=True),
    "got on_error='collect'": lambda: LOGITS(predict_first_label, precision=0.4, on_error="collect"),
    "got unparsed='wrong'": lambda: Normal(datasets=["mini"], unparsed="wrong")(predict_first_label, precision=0.1),
    # stores
    "single text 'ab'": lambda: query_key("p", "ab"),
    "opened read-only": lambda: open_empty_store(read_only=True).put_many("m", []),
    "was closed": lambda: closed_store().get_many("m", []),
    "does not fit its query": read_three_scores_for_two_labels,
    # results
    "do not fill rows of 3": lambda: unpack_scores("f4:AAAAPwAAgD4=", 3),
    "do not fill rows of 0": lambda: unpack_scores("f4:AAAAPwAAgD4=", 0),
    "no field 'seed'": lambda: Signature({"seed": "1"}),
    "of different lengths": result_without_first_row_number,
    "not of the same run": result_signed_as_stopped_early,
    "no outputs": lambda: save_records(MINI(predict_first_label), "r.jsonl"),
    "no data set of the result is from a file": verify_with_data_file,
    # data
    "has 40 rows, its card": lambda: replace(load_dataset("mini"), table=Dataset.from_rows(ROWS, name="x").table),
    "64 lower-case hexadecimal digits": lambda: Digests("A" * 64),
    "got the SHA-256": lambda: HubSource("a/b", "0" * 40, "c", "0" * 63),
    "hexadecimal digits of a commit": lambda: HubSource("a/b", "main", "c", "0" * 64),
    "does not come from the data pack": lambda: pack.expected_digest("mini"),
    "has changed: its SHA-256 is": read_rows_of_a_file_that_has_changed,
    "pairs, got 'ab'": lambda: Dataset.from_rows("ab", name="x", label_space=LABELS),
    "label index is 2": lambda: Dataset.from_rows([*ROWS, ("x", 2)], name="x", label_space=LABELS),
    "'template' must be a Template": lambda: Dataset.from_rows(ROWS, name="x", template="text: "),  # type: ignore[arg-type]
    "no key 'tests'": lambda: Dataset.from_rows(ROWS, name="x", split={"tests": 1}),
    "cannot draw -1 of 5": lambda: StableRandom().sample_indexes(5, -1),
    "cannot draw 1 of 0": lambda: StableRandom().sample_indexes(0, 1),
    "two cards": dataset_from_csv_with_two_cards,
    "key 'licences'": lambda: dataset_from_csv_with_card('{"licences": 1}'),
    "is a device": lambda: Dataset.from_file(os.devnull, ["text"], "label"),
    "empty has no rows": lambda: next(domain_queries(SubsetView("empty", load_dataset("mini").table, (), LABELS))),
    "no prompt setting 'instructions'": lambda: MINI[0].prompt_former.set_config_dict({"instructions": "x"}),
    # predictions of other engines
    "the id x appears twice": lambda: read_json_lines({"id": "x", "index": 0}, {"id": "x", "index": 1}),
    "contains no samples": lambda: exchange.read_predictions("."),
    "column 'id' appears twice": lambda: exchange.read_predictions(write_file("a.csv", "id,id\n1,2\n")),
    "not of a task": lambda: read_json_lines(sample_of_lm_eval(doc={"id": "q"})),
    "expected a log-probability": lambda: read_json_lines(sample_of_lm_eval(filtered_resps=[["x"], ["y"]])),
    "of different kinds": lambda: exchange.score_predictions(
        MINI, FIRST_LABEL_OF_ALL | {QUERY_IDS[0]: {"logits": [0.0] * 3}}
    ),
    "noisy channel needs a local": lambda: list(batch_requests("openai", "m", {"a": ("b", "c")})),
    "not a choice of labels": lambda: export_tasks(NOISY_CHANNEL, "tasks"),
    "replies of the models": lambda: read_json_lines(reply_of_openai_batch("a", "m"), reply_of_openai_batch("b", "n")),
    "expected custom_id": lambda: read_json_lines({"custom_id": "a"}),
    "Anthropic has no option": lambda: list(batch_requests("anthropic", "m;reasoning_effort=low", {"a": "b"})),
    "Anthropic needs one": lambda: list(batch_requests("anthropic", "m;max_tokens=none", {"a": "b"})),
    # kernels
    "option x of builtins:print: given twice": lambda: load_kernel("builtins:print;x=1;x=2"),
    "prompts: got 'ab'": lambda: load_kernel("ppm").batch("ab", LABELS),
    "prompts: got 'xyz'": lambda: EndpointKernel("http://host/v1", "m", retries=0).batch("xyz", LABELS),
    "prompts: got [('a', 'b')]": lambda: EndpointKernel("http://host/v1", "m", retries=0).batch([("a", "b")], LABELS),  # type: ignore[list-item]
    "prompts: got 'abc'": lambda: EndpointKernel("http://host/v1", "m").generate("abc"),  # type: ignore[arg-type]
    "stop must be": lambda: EndpointKernel("http://host/v1", "m", scoring="text", stop="END"),  # type: ignore[arg-type]
    "no user name": lambda: EndpointKernel("http://user:secret@host/v1", "m"),
    "does not echo prompts": lambda: EndpointKernel("http://host/v1", "m", api="chat", scoring="prompt-logprobs"),
    "the model is missing": lambda: load_kernel("openai:http://host/v1#"),
    "needs label_scoring='full'": lambda: KernelOptions(label_normalisation="mean"),
    "last_blank='label' is for plain": lambda: KernelOptions(prompt_format="chat", last_blank="label"),
    "Give one of the two": lambda: ModelSource("a/b", device="cpu", device_map="auto"),
    "without @REVISION": lambda: ModelSource("hf:a/b@main", revision="main"),
}
"""Calls, by a part of the message with which each is refused."""


@pytest.mark.parametrize(("message", "call"), REFUSED.items(), ids=list(REFUSED))
def test_a_call_is_refused_with_its_reason(
    message: str, call: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StaICCError, match=re.escape(message)):
        call()
