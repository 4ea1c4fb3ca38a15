"""The kernel around the model: memory, length, order, pickling, names, warnings, and bad input of every kind."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from StaICC import Dataset, Normal, Suite, load_kernel
from StaICC.errors import ArgumentError, OutputError, StaICCError
from StaICC.kernels.huggingface import token_kernel
from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.huggingface.generation import StoppingCriterion
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.source import GGUF_SHA256, ModelSource
from StaICC.kernels.huggingface.token_trie import distinct_positions
from StaICC.prefabricate_inference import model_kernel

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LABELS = ["person", "location", "number"]
PROMPTS = [f"question: who wrote {n}?\nquestion: the city {n % 7}? answer: " for n in range(40)]
CONTEXT = "question: the good people in the city? answer: person\n" * 3
LONG = [f"{CONTEXT}question: {n}? answer: " for n in range(20)]


@pytest.fixture
def make_kernel(model, tokenizer):
    """A function that returns a kernel, which caches shared beginnings from so many tokens on."""

    def new_kernel(cache_from=8, **options):
        kernel = CausalLMKernel(model, tokenizer, **options)
        kernel.runner().cache_from = cache_from
        return kernel

    return new_kernel


def close(rows, abs=1e-5):
    """Return what equals rows of numbers but for rounding."""
    return [pytest.approx(row, abs=abs) for row in rows]


def channel_prompts(query):
    """Return the prompts of a query for a noisy channel."""
    return [f"answer: person question: who {query}?\nanswer: {label} question: {query}?\n" for label in LABELS]


# Memory


class FailingCalls:
    """A context in which some calls of a model raise an error, counted from 1.

    With ``after_call``, the model computes before the error is raised, as when the user presses Ctrl-C late.
    """

    def __init__(self, kernel, failing_calls, error=torch.OutOfMemoryError, after_call=False):
        self.forward = kernel.runner().forward
        self.original_call = self.forward.call
        self.failing_calls = failing_calls
        self.error = error
        self.after_call = after_call
        self.count = 0

    def call(self, *arguments, **options):
        self.count += 1
        is_failing = self.count in self.failing_calls
        if is_failing and self.after_call:
            self.original_call(*arguments, **options)
        if is_failing:
            raise self.error("CUDA out of memory. Tried to allocate 1 GiB")
        return self.original_call(*arguments, **options)

    def __enter__(self):
        self.forward.call = self.call
        return self

    def __exit__(self, *_):
        del self.forward.call


COMPUTATIONS = {
    "labels": lambda kernel: kernel.batch(PROMPTS, LABELS),
    "states": lambda kernel: kernel.hidden_states(PROMPTS).tolist(),
    "losses": lambda kernel: [[loss] for loss in kernel.losses(PROMPTS)],
    "channel": lambda kernel: kernel.noisy_channel([channel_prompts(number) for number in range(30)], LABELS),
    "text": lambda kernel: kernel.generate(PROMPTS[:9], 5),
}
"""What a kernel computes in several calls of its model."""
"""What a kernel computes in several calls of its model."""


@pytest.mark.parametrize("computation", COMPUTATIONS)
@pytest.mark.parametrize("prefix_reuse", [True, False])
@pytest.mark.parametrize("failing_calls", [(1,), (2, 4), (2, 3, 5)])
def test_out_of_memory_in_the_middle_halves_the_batches_and_changes_nothing(
    make_kernel, computation, prefix_reuse, failing_calls, caplog
):
    compute = COMPUTATIONS[computation]
    expected = compute(make_kernel(token_budget=256, prefix_reuse=prefix_reuse))

    kernel = make_kernel(token_budget=256, prefix_reuse=prefix_reuse)
    with FailingCalls(kernel, failing_calls) as calls, caplog.at_level(logging.WARNING):
        result = compute(kernel)

    assert calls.count > max(failing_calls)
    assert result == (expected if computation == "text" else close(expected))
    assert kernel.runner().budget == 256 // 2 ** len(failing_calls)
    assert caplog.text.count("going on with") == len(failing_calls)


@pytest.mark.parametrize("call", [1, 2])
def test_after_an_interrupt_label_scores_are_those_without_a_cached_prefix(make_kernel, call):
    """The user's Ctrl-C comes when the cache has grown already."""
    kernel = make_kernel(16, token_budget=64)
    kernel.batch(LONG, LABELS)
    interrupt = FailingCalls(kernel, [call], error=KeyboardInterrupt, after_call=True)

    with interrupt, pytest.raises(KeyboardInterrupt):
        kernel.batch(LONG, LABELS)

    without_cache = make_kernel(prefix_reuse=False)
    assert kernel.batch(LONG, LABELS) == close(without_cache.batch(LONG, LABELS))


@pytest.mark.parametrize("call", [1, 2, 5])
def test_after_an_interrupt_texts_are_those_without_a_cached_prefix(make_kernel, call):
    kernel = make_kernel(16, token_budget=64)
    kernel.generate(LONG, 3)
    interrupt = FailingCalls(kernel, [call], error=KeyboardInterrupt, after_call=True)

    with interrupt, pytest.raises(KeyboardInterrupt):
        kernel.generate(LONG, 3)

    without_cache = make_kernel(prefix_reuse=False)
    assert kernel.generate(LONG, 3) == without_cache.generate(LONG, 3)


# Order, cached prefixes, threads


FIRST_PART, SECOND_PART = LONG[:10], LONG[10:]
"""Prompts with the same context."""


@pytest.fixture
def counting_kernel(make_kernel):
    """Return a kernel that caches the context, without the computations that check its first batch."""
    kernel = make_kernel(16, token_budget=64)
    kernel.runner().forward.capabilities.checked_sequences = 2
    return kernel


def positions(tokenizer, prompts):
    """Return how many positions prompts have, if each shared beginning counts once."""
    return distinct_positions([tuple(row) for row in tokenizer(prompts)["input_ids"]])


def test_a_prefix_is_kept_from_call_to_call(counting_kernel, tokenizer):
    counting_kernel.batch(FIRST_PART, LABELS)
    computed_first = counting_kernel.runner().computed
    counting_kernel.batch(SECOND_PART, LABELS)
    computed_second = counting_kernel.runner().computed - computed_first

    context_tokens = len(tokenizer(CONTEXT)["input_ids"])
    assert computed_first == positions(tokenizer, FIRST_PART)
    assert computed_second <= positions(tokenizer, SECOND_PART) - context_tokens


def test_predictions_after_a_kept_prefix_are_those_without(counting_kernel, make_kernel):
    counting_kernel.batch(FIRST_PART, LABELS)
    expected = make_kernel(prefix_reuse=False).batch(SECOND_PART, LABELS)
    assert counting_kernel.batch(SECOND_PART, LABELS) == close(expected)


def test_a_released_kernel_computes_the_prefix_again(counting_kernel, tokenizer):
    counting_kernel.batch(FIRST_PART, LABELS)
    before = counting_kernel.runner().computed
    counting_kernel.release()
    counting_kernel.batch(SECOND_PART, LABELS)
    assert counting_kernel.runner().computed - before == positions(tokenizer, SECOND_PART)


# Labels


SHARED_TOKEN = ["x person", "y person", "number"]
"""Two of the labels have the same last token."""


@pytest.fixture
def data_with_shared_token():
    """Return a data set with these labels."""
    rows = [(f"who wrote {number}?", number % 3) for number in range(40)]
    return Dataset.from_rows(rows, name="own", label_space=SHARED_TOKEN)


def test_labels_that_share_their_token_are_logged_once(make_kernel, caplog):
    for _ in range(2):
        scores = make_kernel().score(PROMPTS[:2], SHARED_TOKEN)
        assert [issue.kind for issue in scores.issues] == ["shared-token"]
    assert caplog.text.count("scored by the same token") == 1


def test_a_token_that_labels_share_counts_once_in_the_label_mass(make_kernel):
    with_shared = make_kernel().score(PROMPTS[:2], ["x person", "y person", "number"])
    without_shared = make_kernel().score(PROMPTS[:2], ["y person", "number"])
    assert with_shared.label_mass == close(without_shared.label_mass)


def test_a_run_warns_of_labels_that_share_their_token(make_kernel, data_with_shared_token):
    result = Suite(k=1, datasets=[data_with_shared_token], limit=1)(make_kernel(last_blank="label"))
    (warning,) = [text for text in result.warnings if "scored by the same token" in text]
    assert "2 of 3 labels" in warning
    assert "' x person', ' y person'" in warning
    assert "label_scoring='full'" in warning


def test_labels_in_full_share_no_token(make_kernel, data_with_shared_token):
    result = Normal(k=1, datasets=[data_with_shared_token], limit=1)(make_kernel(label_scoring="full"))
    assert "same token" not in " ".join(result.warnings)


def test_labels_in_full_are_joined_to_some_prompts_at_a_time(make_kernel, monkeypatch):
    expected = make_kernel(label_scoring="full").batch(PROMPTS[:9], LABELS)
    monkeypatch.setattr(token_kernel, "TOKENS_AT_ONCE", 400)
    runs, original = [], BatchRunner.run

    def counted(runner, *arguments):
        runs.append(runner)
        original(runner, *arguments)

    monkeypatch.setattr(BatchRunner, "run", counted)
    assert make_kernel(label_scoring="full").batch(PROMPTS[:9], LABELS) == close(expected)
    assert len(runs) > 1


def test_logits_that_are_not_finite_are_an_error(make_model, tokenizer):
    model = make_model("Llama")
    model.lm_head.weight.data[:] = float("nan")
    with pytest.raises(OutputError, match="not finite"):
        CausalLMKernel(model, tokenizer)(PROMPTS[0], LABELS)


# Generation


def test_a_text_does_not_end_with_half_a_character():
    """Each token is a byte here; a character of UTF-8 has up to four."""

    def decode(tokens, skip_special_tokens):
        return bytes(tokens).decode("utf-8", "replace")

    stopping = StoppingCriterion(SimpleNamespace(decode=decode), [], [])
    tokens = list("warm 🎭 ß".encode())
    for count in range(len(tokens) + 1):
        whole_characters = bytes(tokens[:count]).decode("utf-8", "ignore")
        assert stopping.text(tokens[:count]) == whole_characters


# -- the model that needs no hub: fetched, checked, kept once


REVIEWS = ["I loved it", "a waste of two hours", "moving and funny", "the worst film of the year"]
REVIEW_LABELS = ["negative", "positive"]
REVIEW_PROMPTS = [
    "review: a joy to watch sentiment: positive\n"
    "review: dull and long sentiment: negative\n"
    f"review: {review} sentiment: "
    for review in REVIEWS
]


@pytest.fixture(scope="module")
def real_kernel(smollm2):
    """Return the kernel of SmolLM2, a real language model."""
    return CausalLMKernel.from_spec("smollm2", device="cpu")


@pytest.mark.slow
def test_a_real_model_is_identified_by_its_file_before_and_after_it_is_loaded(real_kernel):
    before = real_kernel.identity()
    real_kernel.batch(REVIEW_PROMPTS, REVIEW_LABELS)
    assert before.who["files"] == GGUF_SHA256
    assert before.who["dtype"] == "float32"
    assert real_kernel.identity() == before


@pytest.mark.slow
def test_a_real_model_keeps_no_packed_weights(real_kernel):
    """Packed weights compute other numbers. Whether transformers keeps them depends on other packages."""
    assert getattr(real_kernel.model.config, "quantization_config", None) is None


@pytest.mark.slow
def test_a_batch_of_a_real_model_predicts_what_single_calls_predict(real_kernel):
    model, tokenizer = real_kernel.model, real_kernel.tokenizer
    rows = real_kernel.batch(REVIEW_PROMPTS, REVIEW_LABELS)

    label_tokens = [tokenizer(label)["input_ids"][-1] for label in REVIEW_LABELS]
    for prompt, row in zip(REVIEW_PROMPTS, rows, strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(prompt, return_tensors="pt")).logits[0, -1, label_tokens]
        assert row == pytest.approx(torch.softmax(logits.double(), 0).tolist(), abs=1e-4), prompt


@pytest.mark.slow
def test_the_function_of_the_release_predicts_what_the_kernel_predicts(real_kernel):
    function = model_kernel.standard_ICL_inference_with_torch_Causal_LM
    rows = real_kernel.batch(REVIEW_PROMPTS, REVIEW_LABELS)
    for prompt, row in zip(REVIEW_PROMPTS, rows, strict=True):
        alone = function(
            prompt=prompt, model=real_kernel.model, tokenizer=real_kernel.tokenizer, label_space=REVIEW_LABELS
        )
        assert row == pytest.approx(alone, abs=1e-4), prompt


@pytest.mark.slow
def test_a_real_model_knows_a_capital(real_kernel):
    (text,) = real_kernel.generate(["The capital of France is"], 4, ["\n", "."])
    assert text.strip() == "Paris"


@pytest.mark.parametrize("path", ["./nope", "/nope", "~/nope", "../nope", "a/b/nope"])
def test_a_path_of_an_adapter_that_is_no_folder_is_not_sought_on_the_hub(path):
    with pytest.raises(StaICCError, match=f"the adapter '{path}' is no folder"):
        ModelSource("hf:gpt2", adapter=path)._adapter_folder()


def test_an_adapter_that_is_not_found_is_named_as_one(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(StaICCError, match="the adapter 'no such name' could not be found: it is no folder"):
        ModelSource("hf:gpt2", adapter="no such name")._adapter_folder()


def test_a_folder_with_an_adapter_alone_names_the_option(tmp_path):
    folder = tmp_path / "my_lora"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "gpt2"}', "utf-8")
    with pytest.raises(ArgumentError, match="'hf:gpt2', with the option adapter="):
        load_kernel(str(folder)).model  # noqa: B018
