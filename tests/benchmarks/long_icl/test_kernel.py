"""LongICL through the prefix-reusing kernel: contexts once, limits named, text where it is due."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks.long_icl import Experiment, LongICL, card
from StaICC.datasets import Dataset
from tests.benchmarks.long_icl.conftest import make

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from StaICC.kernels.huggingface.batching import BatchRunner  # noqa: E402
from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.text_inference import text_inference  # noqa: E402

LABELS = list(enumerate(card("goemotions").labels))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small matrices are no faster on more, and much slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    comments = [f'comment: train text {i} of {label} "yes"\nemotion category: {label}\n' for i, label in LABELS]
    made.train_from_iterator(comments * 3, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def model(tokenizer: Any, positions: int = 32768) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=positions,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("scoring", ["last", "full"])
def test_labels_that_the_scoring_cannot_tell_apart_are_a_warning_of_the_result(tokenizer: Any, scoring: Any) -> None:
    own = Dataset.from_rows([(f"{i}", f"{i % 20} kind") for i in range(200)], name="kinds")
    result = LongICL(datasets=[own], rounds=(1, 2), test_number=1)(
        CausalLMKernel(model(tokenizer), tokenizer, label_scoring=scoring)
    )
    warned = [text for text in result.warnings if "scored by the same token" in text]
    assert len(warned) == (2 if scoring == "last" else 0)  # one for each round


@pytest.mark.parametrize("scoring", ["last", "full"])
def test_contexts_are_computed_once(small_files: Path, tokenizer: Any, scoring: Any) -> None:
    own = make(small_files, ["goemotions"], test_number=4)[0]
    kernel = CausalLMKernel(model(tokenizer), tokenizer, label_scoring=scoring, token_budget=512)
    reports = []
    for number in (1, 2):
        kernel.batch([query.prompt for query in own.round_queries(number)], own.get_label_space())
        assert kernel.last_scores is not None
        reports.append(kernel.last_scores.report)
    lengths = [len(tokenizer(own.context(number)).input_ids) for number in (1, 2)]
    for report, length in zip(reports, lengths, strict=True):
        assert report.computed <= 1.05 * report.distinct
        assert report.distinct - length < 4 * (300 if scoring == "full" else 40)  # only what is the queries' own
        assert report.tokens > 3.9 * length
    # The second context begins with the first one, which is cached.
    assert reports[1].computed < reports[1].distinct - 0.9 * lengths[0]


@pytest.mark.parametrize("name", ["context", "position"])
def test_experiments_compute_few_more_than_the_distinct_positions(
    small_files: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    experiment = Experiment(name, (256, 512, 1024)) if name == "context" else Experiment(name, (3,), shots=1)
    benchmark = make(small_files, ["goemotions"], test_number=3, experiment=experiment)
    sequences: set[tuple[int, ...]] = set()
    computed, original = [], BatchRunner.run

    def run(self: BatchRunner, given: Any, *arguments: Any, **more: Any) -> Any:
        counts = original(self, given, *arguments, **more)
        computed.append(counts.computed)
        sequences.update(map(tuple, given))
        return counts

    monkeypatch.setattr(BatchRunner, "run", run)
    kernel = CausalLMKernel(model(tokenizer), tokenizer, token_budget=256)
    result = benchmark(kernel)
    ordered = sorted(sequences)
    shared = [[a == b for a, b in zip(*two, strict=False)] for two in itertools.pairwise(ordered)]
    distinct = sum(map(len, ordered)) - sum([*same, False].index(False) for same in shared)
    assert 0 < sum(computed) <= 1.2 * distinct
    own = benchmark[0]
    for condition in own.rounds:
        prompt = own.round_queries(condition)[0].prompt
        assert result.timing[f"goemotions, {condition}, tokens"] == len(tokenizer(prompt).input_ids)
    kernel.release()
    found, prompts = benchmark.forecast(text_inference(kernel, 3), probe_seconds=0), own.prompt_set()
    assert (found.queries, found.output_tokens) == (len(prompts), 3 * len(prompts))
    assert found.tokens == sum(len(tokenizer(prompt).input_ids) for prompt in prompts)
    assert found.positions is not None
    assert 0.9 * distinct <= found.positions <= 1.3 * distinct


def test_a_budget_beyond_the_model_is_reported(small_files: Path, tokenizer: Any) -> None:
    experiment = Experiment("context", (256, 512, 1024))
    benchmark = make(small_files, ["goemotions"], test_number=3, experiment=experiment)
    limit = len(tokenizer(benchmark[0].context("512")).input_ids)
    result = benchmark(CausalLMKernel(model(tokenizer, limit), tokenizer))
    rows = result.divided["goemotions"]["experiment"]["conditions"]
    assert [row["score"] is None for row in rows.values()] == [False, True, True]
    assert "longer than the model's limit" in result.details["goemotions"].missing["1K"]


@pytest.mark.parametrize(("on_error", "text"), [("raise", False), ("collect", True)])
def test_the_models_limit(small_files: Path, tokenizer: Any, on_error: Any, text: bool) -> None:
    benchmark = make(small_files, ["goemotions"], (1, 2, 3), 3)
    limit = len(tokenizer(benchmark[0].context(2)).input_ids)  # the context fits, the query does not
    kernel = CausalLMKernel(model(tokenizer, limit), tokenizer)
    result = benchmark(text_inference(kernel, 4) if text else kernel, on_error=on_error)
    own, details = result.divided["goemotions"], result.details["goemotions"]
    assert own["1R"] is not None
    assert own["2R"] is own["3R"] is own["mean"] is None
    for name in ("2R", "3R"):
        assert "longer than the model's limit (3 of 3 queries" in details.missing[name]
        assert re.search(r"has \d+ tokens.*the model reads \d+ at most", details.missing[name])
    assert (details.scored, details.failed) == (3, 6)
    assert set(details.conditions[2].predictions) == {None}


def test_text(small_files: Path, tokenizer: Any) -> None:
    benchmark = make(small_files, ["few_nerd", "goemotions"], (1,), 4)
    kernel = CausalLMKernel(model(tokenizer), tokenizer)
    result = benchmark(text_inference(kernel, 6), return_outputs=True)
    assert result.complete
    for own in benchmark:
        responses = [record["response"] for record in result.outputs[own.name]]  # type: ignore[index]
        assert responses == kernel.generate(own.prompt_set(), max_new_tokens=6)
    assert result.details["goemotions"].conditions[0].output == "text"
