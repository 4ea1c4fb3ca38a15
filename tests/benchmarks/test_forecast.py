"""Forecasts against the runs that they are about."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal, Suite, load_kernel
from StaICC.cli import main
from StaICC.errors import ArgumentError, OutputError


class Slow:
    """Predicts in a time that grows with the prompts, and counts its calls; like a served model, it counts tokens."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.tokens_used = (0, 0)
        self.seconds = 0.0

    def __call__(self, prompt: str, label_space: Sequence[str]) -> int:
        began = time.perf_counter()
        time.sleep(1e-4 * len(prompt))
        self.seconds += time.perf_counter() - began
        self.prompts.append(prompt)
        self.tokens_used = (self.tokens_used[0] + len(prompt.split()), self.tokens_used[1] + 2)
        return len(prompt) % len(label_space)


def test_counts_and_time_of_a_plain_function(tmp_path: Path) -> None:
    benchmark = Normal(datasets=["mini"], limit=20)
    function = Slow()
    found = benchmark.forecast(function, probe_seconds=0.3, model_name="slow", prices=(2.0, 10.0))
    probed = len(function.prompts)
    assert 0 < probed < 40
    function.seconds = 0.0
    result = benchmark(function, store=tmp_path / "run.sqlite", model_name="slow", progress=False)
    assert (found.queries, found.distinct, found.cached) == (40, 40, 0)
    assert result.provenance.predictors[0].computed == len(function.prompts) - probed == found.distinct
    assert found.seconds is not None
    assert function.seconds / 1.5 < found.seconds < function.seconds * 1.5
    words = sum(len(prompt.split()) for prompt in function.prompts[probed:])
    assert found.tokens == pytest.approx(words, rel=0.1)
    assert found.output_tokens == pytest.approx(80, rel=0.1)
    assert found.cost == pytest.approx((found.tokens * 2 + found.output_tokens * 10) / 1e6)
    assert not found.exact
    assert f"tokens          about {found.tokens:,}\n" in f"{found}\n"


def test_cached_predictions_and_a_store_that_does_not_exist(tmp_path: Path) -> None:
    kernel, path = load_kernel("ppm"), tmp_path / "run.sqlite"
    benchmark = Normal(datasets=["mini"], limit=10)
    assert benchmark.forecast(kernel, store=path, probe_seconds=0).cached == 0
    assert not path.exists()
    Normal(datasets=["mini"], limit=4)(kernel, store=path, progress=False)
    before = path.read_bytes()
    found = benchmark.forecast(kernel, store=path, probe_seconds=0.05)
    assert (found.queries, found.distinct, found.cached) == (20, 20, 8)
    benchmark(kernel, store=path, progress=False)
    done = benchmark.forecast(kernel, store=path, probe_seconds=0.05)
    assert (done.cached, done.seconds) == (20, 0.0)
    assert len(before) <= len(path.read_bytes())


def test_a_group_predicts_each_prompt_once() -> None:
    suite = Suite(datasets=["mini"], limit=3)
    calls = Slow()
    found = suite.forecast(calls, probe_seconds=0)
    assert calls.prompts == []
    assert found.seconds is None
    result = suite(calls, progress=False)
    assert found.distinct == len(calls.prompts) == len(set(calls.prompts))
    assert found.queries == sum(len(one) for member in suite.members.values() for one in member)
    assert result.complete


def test_errors() -> None:
    benchmark = Normal(datasets=["mini"], limit=2)

    def fails(prompt: str, label_space: Sequence[str]) -> int:
        raise RuntimeError("no server")

    with pytest.raises(OutputError, match=r"the probe of the forecast failed: .*no server"):
        benchmark.forecast(fails)
    for wrong, message in (
        ({"probe_seconds": -1}, "probe_seconds: got -1"),
        ({"probe_seconds": True}, "probe_seconds"),
        ({"prices": (1.0, -1.0)}, "prices: got"),
        ({"prices": (1.0,)}, "prices: got"),
    ):
        with pytest.raises(ArgumentError, match=message):
            benchmark.forecast(load_kernel("ppm"), **wrong)


def test_the_dry_run_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "normal", "--datasets", "mini", "--limit", "5"]
    assert main([*run, "--dry-run", "--json", str(tmp_path / "forecast.json")]) == 0
    assert "queries         10\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "forecast.json").read_text("utf-8"))["distinct"] == 10
    assert main([*run, "--dry-run", "--prices", "1", "2", "--store", str(tmp_path / "s.sqlite")]) == 0
    assert not (tmp_path / "s.sqlite").exists()
    assert "cost            unknown" in capsys.readouterr().out
    for wrong, message in (
        (["--prices", "1", "2"], "--prices belongs to a forecast"),
        (["--dry-run", "--precision", "0.1"], "--dry-run is for a complete run: got --precision"),
        (["--dry-run", "--method", "batch"], "did you mean"),
        (["--dry-run", "--method", "topk"], "TopK needs hidden states"),
    ):
        assert main([*run, *wrong]) == 2
        assert message in capsys.readouterr().err
    for more, queries, distinct in (
        (["--method", "contextual-calibration"], 10, 40),
        (["--k", "4,8", "--sampler", "nested"], 20, 20),
        (["--k", "4,8", "--method", "batch-calibration"], 20, 20),
    ):
        assert main([*run, "--dry-run", *more]) == 0
        shown = capsys.readouterr().out
        assert (f"queries         {queries}\n" in shown, f"distinct        {distinct}\n" in shown) == (True, True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"label_scoring": "first"},
        {"label_scoring": "full"},
        {"noisy_channel": True},
        {"noisy_channel": True, "variant": "0.1.1"},
        {"max_length": 90, "on_too_long": "drop-demonstrations"},
        {"prompt_format": "chat-turns"},
    ],
    ids=str,
)
def test_tokens_of_a_language_model_are_exact(
    make_model: Any, make_tokenizer: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    channel = options.pop("noisy_channel", False)
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}reply:"
    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=4096), tokenizer, **options)
    counts = []
    score = CausalLMKernel.score

    def counted(self: Any, prompts: Any, label_space: Any) -> Any:
        scores = score(self, prompts, label_space)
        counts.append(scores.report)
        return scores

    benchmark = Normal(datasets=["mini"], limit=6, noisy_channel=channel)
    found = benchmark.forecast(kernel, probe_seconds=0, prices=(1e6, 0.0))
    monkeypatch.setattr(CausalLMKernel, "score", counted)
    benchmark(kernel, progress=False)
    assert found.exact
    assert found.tokens == sum(report.tokens for report in counts) == found.cost
    assert found.positions == sum(report.distinct for report in counts)
    assert found.output_tokens == 0
    assert found.limit == options.get("max_length", 4096)
    assert found.longest_prompt is not None
    assert found.longest_prompt <= found.limit


def test_a_prompt_that_does_not_fit_is_counted_and_told(make_model: Any, make_tokenizer: Any) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    for options in ({}, {"label_scoring": "full"}):
        kernel = CausalLMKernel(make_model("Llama"), make_tokenizer(), max_length=50, **options)
        found = Normal(datasets=["mini"], limit=3).forecast(kernel, probe_seconds=0)
        assert found.longest_prompt > 50 == found.limit
        assert "The longest prompt does not fit" in str(found)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The counts of all passes of a model of transformers; of a run that generates, only those of the texts."""
    from StaICC.kernels.huggingface import generation
    from StaICC.kernels.huggingface.batching import BatchRunner

    found: list[Any] = []
    texts: list[Any] = []
    run, generate = BatchRunner.run, generation.generate_tokens

    def counting(self: Any, *arguments: Any) -> Any:
        counts = run(self, *arguments)
        found.append(counts)
        return counts

    def generating(*arguments: Any) -> Any:
        tokens, counts = generate(*arguments)
        counts.distinct = distinct_positions(arguments[1])
        found[:] = [one for one in found if one in texts]  # without the trial before the first text
        found.append(counts)
        texts.append(counts)
        return tokens, counts

    monkeypatch.setattr(BatchRunner, "run", counting)
    monkeypatch.setattr("StaICC.kernels.huggingface.kernel.generate_tokens", generating)
    return found


def distinct_positions(sequences: Sequence[Sequence[int]]) -> int:
    """Count distinct prefixes."""
    return len({tuple(row[: end + 1]) for row in sequences for end in range(len(row))})


METHODS = [
    ("contextual-calibration", {}, True),
    ("domain-calibration", {}, True),
    ("batch-calibration", {}, True),
    ("hidden-calibration", {}, True),
    ("hidden-calibration", {"label_scoring": "full"}, True),
    ("knn-prompt", {}, True),
    ("dc-pmi", {"label_scoring": "full"}, True),
    ("noisy-channel", {}, True),
    ("topk", {}, False),
    ("ppl-icl", {}, False),
    ("topk encoder=bm25", {}, True),
    ("generate samples=2", {}, True),
    ("generate reasoning=true", {}, False),
    ("all", {}, False),
]


@pytest.mark.parametrize(("name", "options", "certain"), METHODS, ids=str)
def test_tokens_of_methods_are_those_of_the_run(
    make_model: Any, make_tokenizer: Any, tmp_path: Path, counted: list[Any], name: str, options: Any, certain: bool
) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel
    from StaICC.methods.rehearsal import forecast_method
    from StaICC.methods.run import run_method

    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=4096), make_tokenizer(), **options)
    name, *given = name.split()
    benchmark = Normal(datasets=["mini"], limit=3)
    how = {"variant": "paper", "calibration_number": 6, "options": given}
    store = tmp_path / "run.sqlite"
    found = forecast_method(name, kernel, [benchmark], **how, store=store, probe_seconds=0)
    assert not store.exists()
    assert found.exact is certain
    counted.clear()
    result = run_method(name, kernel, lambda: benchmark, **how, store=store, progress=False, on_error="collect")
    tokens = sum(report.tokens for report in counted)
    positions = sum(report.distinct for report in counted)
    if certain:
        assert (found.tokens, found.positions) == (tokens, positions)
    else:
        assert found.tokens == pytest.approx(tokens, rel=0.35)
    assert found.cached == 0
    done = forecast_method(name, kernel, [benchmark], **how, store=store, probe_seconds=0)
    assert (done.cached, done.distinct) == (done.distinct, done.distinct)
    assert result is not None


def test_tokens_of_several_k_and_of_long_icl(
    make_model: Any, make_tokenizer: Any, tmp_path: Path, counted: list[Any]
) -> None:
    from StaICC.benchmarks.long_icl import LongICL
    from StaICC.kernels.huggingface.kernel import CausalLMKernel
    from StaICC.kernels.text_inference import text_inference
    from StaICC.methods.many_shot import run_many_shot
    from StaICC.methods.rehearsal import forecast_method
    from StaICC.methods.run import Method
    from tests.benchmarks.long_icl.conftest import write_small

    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=16384), make_tokenizer())

    def nested(k: int) -> Normal:
        return Normal(k, datasets=["mini"], limit=3, sampler="nested")

    found = forecast_method("vanilla", kernel, [nested(2), nested(4)], probe_seconds=0)
    counted.clear()
    run_many_shot(Method("vanilla", kernel), nested, [2, 4], progress=False)
    assert found.exact
    assert (found.queries, found.tokens) == (12, sum(report.tokens for report in counted))
    assert found.positions == sum(report.distinct for report in counted)

    write_small(tmp_path)
    benchmark = LongICL(tmp_path, ["banking77"], rounds=(1, 2), test_number=3, verify=False, announce=lambda _: None)
    function = text_inference(kernel, 3)
    found = benchmark.forecast(function, probe_seconds=0)
    counted.clear()
    benchmark(function, progress=False)
    assert found.exact
    assert (found.queries, found.tokens) == (6, sum(report.tokens for report in counted))
    assert found.positions == sum(report.distinct for report in counted)
    assert found.output_tokens == 18


def test_a_long_prompt_is_not_probed(make_model: Any, make_tokenizer: Any) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel
    from StaICC.kernels.text_inference import text_inference

    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=4096), make_tokenizer(), max_length=50)
    found = Normal(datasets=["mini"], limit=3).forecast(text_inference(kernel, 5), probe_seconds=0.05)
    assert "The longest prompt does not fit" in str(found)
    assert found.seconds is None
