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
NOISY = Normal(datasets=["mini"], limit=2, noisy_channel=True)
IDS = [record["id"] for record in exchange.prompt_records(MINI)]
LABELLED: dict[str, Any] = {key: {"index": 0} for key in IDS}


def f(prompt: Any, label_space: Any) -> int:
    return 0


def store(**settings: Any) -> PredictionStore:
    PredictionStore("s.sqlite").close()
    return PredictionStore("s.sqlite", **settings)


def closed() -> PredictionStore:
    with store() as opened:
        return opened


def stale() -> Any:
    with store() as opened:
        opened.put_many("m", [(query_key("p", LABELS), [1.0, 2.0, 3.0])])
        return BoundStore(opened, "m").get_many([("p", tuple(LABELS))])


def written(text: str, name: str = "a.csv") -> Path:
    Path(name).write_text(text, "utf-8")
    return Path(name)


def from_file(text: str = "text,label\n" + "a,b\nc,d\n" * 20, **more: Any) -> Dataset:
    return Dataset.from_file(written(text), **{"texts": ["text"], "label": "label"} | more)


def changed_file() -> Any:
    source = from_file().source
    written("text,label\n" + "a,d\nc,b\n" * 20)
    assert isinstance(source, TableFile)
    return labelled_records(source, ["b", "d"])


def with_card(card: str, name: str = "a.card.json") -> Dataset:
    written(card, name)
    return from_file()


def edited(**changes: Any) -> Result:
    record = MINI(f).to_dict()
    for name, change in changes.items():
        change(record[name])
    return Result.from_dict(record)


def read(*records: dict[str, Any]) -> Any:
    return exchange.read_predictions(written("\n".join(map(json.dumps, records)), "p.jsonl"), batch_reply)


def sample(**changes: Any) -> dict[str, Any]:
    doc = {"id": "q", "label_space": LABELS, "prompt": "p"}
    return {"doc": doc, "arguments": [["p", "no"], ["p", "yes"]], "filtered_resps": [[0.1], [0.2]], **changes}


def replies(*given: tuple[str, str]) -> Any:
    choices = [{"message": {"content": "yes"}, "finish_reason": "stop"}]
    responses = [{"status_code": 200, "body": {"model": model, "choices": choices}} for _, model in given]
    return read(*({"custom_id": key, "response": own} for (key, _), own in zip(given, responses, strict=True)))


def early(outputs: Any = "logits", metrics: Any = "standard", **settings: Any) -> Any:
    statistics = {"statistics": settings.pop("statistics")} if "statistics" in settings else {}
    benchmark = Normal(datasets=["mini"], limit=8, outputs=outputs, metrics=metrics, **statistics)
    return benchmark(f, **{"precision": 0.4, **settings})


class Stating:
    def identity(self) -> int:
        return 3


REFUSED: dict[str, Callable[[], Any]] = {
    # runs
    "on_error must be": lambda: RunOptions(on_error="skip"),  # type: ignore[arg-type]
    "progress must be": lambda: MINI(f, progress=3),
    "expected 1, one for each data set": lambda: MINI([f, f]),
    "those of TREC, expected 1": lambda: MINI({"TREC": f}),
    "got both": lambda: MINI(f, preentered_prediction=[[0] * 4]),
    "mean the same": lambda: MINI(f, forward_inference=f),
    "recheck must be": lambda: MINI(f, recheck=1),
    "must be a non-empty text": lambda: MINI(f, model_name=" "),
    "can neither be cached": lambda: MINI(f, batched_inference=True, store="s"),
    "nor be split": lambda: MINI(f, batched_inference=True, executor=worker_processes(1)),
    "must return an Identity": lambda: identity_of(Stating()),
    "devices must be a list": lambda: worker_processes(1, "0"),
    "it made 3": lambda: WorkerPool(lambda: 3).executor,  # type: ignore[arg-type,return-value]
    "probe_seconds: got True": lambda: MINI.forecast(f, probe_seconds=True),
    "'logit'": lambda: Normal(datasets=["mini"], outputs="logit"),  # type: ignore[arg-type]
    "requires=[<Capability": lambda: MethodSpec("m", "M", f, [Capability.TEXT]),  # type: ignore[arg-type]
    "requires=frozenset({'text'})": lambda: MethodSpec("m", "M", f, frozenset({"text"})),  # type: ignore[arg-type]
    "options {}, expected a dataclass": lambda: MethodSpec("m", "M", f, options={}),  # type: ignore[arg-type]
    "prices: got (1.0, 2.0, 3.0, 4.0)": lambda: token_cost(1, 1, (1.0, 2.0, 3.0, 4.0)),
    "prices: got (1.0, -2.0)": lambda: token_cost(1, 1, (1.0, -2.0)),
    # early stopping
    "wrong precision: got 0.5": lambda: early(precision=0.5),
    "wrong margin": lambda: race(MINI, f, f, margin=1.0),
    "got <Post_bias": lambda: PosteriorBias(datasets=["mini"], limit=2)(f, precision=0.1),
    "standard metric accuracy": lambda: early("auto", "0.1.1"),
    "got outputs='auto'": lambda: early(outputs="auto", score="likelihood"),
    "labels have no likelihood": lambda: early(score="likelihood"),
    "tried=2": lambda: early(statistics=Statistics(tried=2)),
    "got batched_inference=True": lambda: early(batched_inference=True),
    "got on_error='collect'": lambda: early(on_error="collect"),
    "got unparsed='wrong'": lambda: Normal(datasets=["mini"], unparsed="wrong")(f, precision=0.1),
    # stores
    "single text 'ab'": lambda: query_key("p", "ab"),
    "opened read-only": lambda: store(read_only=True).put_many("m", []),
    "was closed": lambda: closed().get_many("m", []),
    "does not fit its query": stale,
    # results
    "do not fill rows of 3": lambda: unpack_scores("f4:AAAAPwAAgD4=", 3),
    "do not fill rows of 0": lambda: unpack_scores("f4:AAAAPwAAgD4=", 0),
    "no field 'seed'": lambda: Signature({"seed": "1"}),
    "of different lengths": lambda: edited(details=lambda all: all["mini"]["conditions"][0]["rows"].pop()),
    "not of the same run": lambda: edited(signature=lambda fields: fields.update(stopping="precision")),
    "no outputs": lambda: save_records(MINI(f), "r.jsonl"),
    "no data set of the result is from a file": lambda: (
        MINI(f).save("r.json"),
        verify_file("r.json", data_files=[written("x")]),
    ),
    # data
    "has 40 rows, its card": lambda: replace(load_dataset("mini"), table=Dataset.from_rows(ROWS, name="x").table),
    "64 lower-case hexadecimal digits": lambda: Digests("A" * 64),
    "got the SHA-256": lambda: HubSource("a/b", "0" * 40, "c", "0" * 63),
    "hexadecimal digits of a commit": lambda: HubSource("a/b", "main", "c", "0" * 64),
    "does not come from the data pack": lambda: pack.expected_digest("mini"),
    "has changed: its SHA-256 is": changed_file,
    "pairs, got 'ab'": lambda: Dataset.from_rows("ab", name="x", label_space=LABELS),
    "label index is 2": lambda: Dataset.from_rows([*ROWS, ("x", 2)], name="x", label_space=LABELS),
    "'template' must be a Template": lambda: Dataset.from_rows(ROWS, name="x", template="text: "),  # type: ignore[arg-type]
    "no key 'tests'": lambda: Dataset.from_rows(ROWS, name="x", split={"tests": 1}),
    "cannot draw -1 of 5": lambda: StableRandom().sample_indexes(5, -1),
    "cannot draw 1 of 0": lambda: StableRandom().sample_indexes(0, 1),
    "two cards": lambda: (written("", "a.card.toml"), with_card("{}", "a.card.json")),
    "key 'licences'": lambda: with_card('{"licences": 1}'),
    "is a device": lambda: Dataset.from_file(os.devnull, ["text"], "label"),
    "empty has no rows": lambda: next(domain_queries(SubsetView("empty", load_dataset("mini").table, (), LABELS))),
    "no prompt setting 'instructions'": lambda: MINI[0].prompt_former.set_config_dict({"instructions": "x"}),
    # predictions of other engines
    "the id x appears twice": lambda: read({"id": "x", "index": 0}, {"id": "x", "index": 1}),
    "contains no samples": lambda: exchange.read_predictions("."),
    "column 'id' appears twice": lambda: exchange.read_predictions(written("id,id\n1,2\n")),
    "not of a task": lambda: read(sample(doc={"id": "q"})),
    "expected a log-probability": lambda: read(sample(filtered_resps=[["x"], ["y"]])),
    "of different kinds": lambda: exchange.score_predictions(MINI, LABELLED | {IDS[0]: {"logits": [0.0] * 3}}),
    "noisy channel needs a local": lambda: list(batch_requests("openai", "m", {"a": ("b", "c")})),
    "not a choice of labels": lambda: export_tasks(NOISY, "tasks"),
    "replies of the models": lambda: replies(("a", "m"), ("b", "n")),
    "expected custom_id": lambda: read({"custom_id": "a"}),
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


@pytest.mark.parametrize("said", REFUSED)
def test_refused(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StaICCError, match=re.escape(said)):
        REFUSED[said]()
