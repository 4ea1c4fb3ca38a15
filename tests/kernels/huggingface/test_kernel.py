"""The kernel around the model: memory, length, order, pickling, names, warnings, and bad input of every kind."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from StaICC import Dataset, Normal, Suite, load_kernel
from StaICC.errors import ArgumentError, OutputError, StaICCError
from StaICC.kernels.huggingface import token_kernel
from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.huggingface.generation import Ending
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
def make(model, tokenizer):
    def kernel(cache_from=8, **options):
        made = CausalLMKernel(model, tokenizer, **options)
        made.runner().cache_from = cache_from
        return made

    return kernel


@pytest.fixture
def kernel(make):
    return make(token_budget=256)


def close(rows, abs=1e-5):
    return [pytest.approx(row, abs=abs) for row in rows]


def channel(query):
    return [f"answer: person question: who {query}?\nanswer: {label} question: {query}?\n" for label in LABELS]


# Memory


class Failing:
    """Lets some calls of a model fail, before or after they are done."""

    def __init__(self, kernel, calls, error=torch.OutOfMemoryError, after=False):
        self.forward = kernel.runner().forward
        self.inner = self.forward.call
        self.calls, self.error, self.after = set(calls), error, after
        self.count = 0

    def __enter__(self):
        def call(*given, **more):
            self.count += 1
            found = self.inner(*given, **more) if self.after else None
            if self.count in self.calls:
                raise self.error("CUDA out of memory. Tried to allocate 1 GiB")
            return self.inner(*given, **more) if found is None else found

        self.forward.call = call
        return self

    def __exit__(self, *_):
        del self.forward.call


WAYS = {
    "labels": lambda kernel: kernel.batch(PROMPTS, LABELS),
    "states": lambda kernel: kernel.hidden_states(PROMPTS).tolist(),
    "losses": lambda kernel: [[loss] for loss in kernel.losses(PROMPTS)],
    "channel": lambda kernel: kernel.noisy_channel([channel(n) for n in range(30)], LABELS),
    "text": lambda kernel: kernel.generate(PROMPTS[:9], 5),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("calls", [(1,), (2, 4), (2, 3, 5)])
def test_out_of_memory_in_the_middle_changes_nothing(make, way, reuse, calls, caplog):
    expected = WAYS[way](make(token_budget=256, prefix_reuse=reuse))
    broken = make(token_budget=256, prefix_reuse=reuse)
    with Failing(broken, calls) as failing, caplog.at_level(logging.WARNING):
        found = WAYS[way](broken)
    assert failing.count > max(calls)
    assert broken.runner().budget == 256 // 2 ** len(calls)
    assert found == (expected if way == "text" else close(expected))
    assert caplog.text.count("going on with") == len(calls)


@pytest.mark.parametrize(("way", "call"), [("labels", 1), ("labels", 2), ("text", 1), ("text", 2), ("text", 5)])
def test_an_interrupt_leaves_no_half_grown_prefix(make, way, call):
    """The user's Ctrl-C comes when the cache has grown already."""

    def predict(kernel):
        return kernel.generate(LONG, 3) if way == "text" else kernel.batch(LONG, LABELS)

    expected = predict(make(prefix_reuse=False))
    kernel = make(16, token_budget=64)
    predict(kernel)
    with Failing(kernel, [call], error=KeyboardInterrupt, after=True), pytest.raises(KeyboardInterrupt):
        predict(kernel)
    assert predict(kernel) == (expected if way == "text" else close(expected))


# Order, cached prefixes, threads


def test_a_prefix_is_kept_from_call_to_call_and_can_be_released(make, tokenizer):
    kernel = make(16, token_budget=64)
    kernel.runner().forward.can.checked = 2  # without what the check of the first batch computes
    parts = LONG[:10], LONG[10:]
    distinct = [distinct_positions([tuple(row) for row in tokenizer(part)["input_ids"]]) for part in parts]
    kernel.batch(parts[0], LABELS)
    assert kernel.runner().computed == distinct[0]
    assert kernel.batch(parts[1], LABELS) == close(make(prefix_reuse=False).batch(parts[1], LABELS))
    assert kernel.runner().computed <= sum(distinct) - len(tokenizer(CONTEXT)["input_ids"])
    before = kernel.runner().computed
    kernel.release()
    kernel.batch(parts[1], LABELS)
    assert kernel.runner().computed == before + distinct[1]


# Length


# Labels


def test_labels_that_share_their_token_are_reported_once(make, caplog):
    labels = ["x person", "y person", "number"]
    with caplog.at_level(logging.WARNING):
        found = [make().score(PROMPTS[:2], labels) for _ in range(2)]
    assert [issue.kind for issue in found[1].issues] == ["shared-token"]
    assert caplog.text.count("scored by the same token") == 1
    assert found[1].label_mass == close(make().score(PROMPTS[:2], labels[1:]).label_mass)  # each token counts once
    rows = [(f"who wrote {i}?", i % 3) for i in range(40)]
    shared = Dataset.from_rows(rows, name="own", label_space=labels)
    result = Suite(k=1, datasets=[shared], limit=1)(make(last_blank="label"))
    (warning,) = [text for text in result.warnings if "scored by the same token" in text or "longest" in text]
    assert caplog.text.count("scored by the same token") == 2
    assert "2 of 3 labels" in warning
    assert "' x person', ' y person'" in warning
    assert "label_scoring='full'" in warning
    full = Normal(k=1, datasets=[shared], limit=1)(make(label_scoring="full"))
    assert not [text for text in full.warnings if "same token" in text]


def test_labels_in_full_are_joined_some_prompts_at_a_time(make, monkeypatch):
    expected = make(label_scoring="full").batch(PROMPTS[:9], LABELS)
    monkeypatch.setattr(token_kernel, "TOKENS_AT_ONCE", 400)
    runs, original = [], BatchRunner.run

    def counted(runner, *arguments):
        runs.append(runner)
        original(runner, *arguments)

    monkeypatch.setattr(BatchRunner, "run", counted)
    assert make(label_scoring="full").batch(PROMPTS[:9], LABELS) == close(expected)
    assert len(runs) > 1


def test_not_finite_is_an_error_not_a_number(make_model, tokenizer):
    model = make_model("Llama")
    model.lm_head.weight.data[:] = float("nan")
    with pytest.raises(OutputError, match="not finite"):
        CausalLMKernel(model, tokenizer)(PROMPTS[0], LABELS)


# Loading and pickles


# Generation


def test_a_text_does_not_end_with_half_a_character():
    def decode(tokens, skip_special_tokens):
        return bytes(tokens).decode("utf-8", "replace")

    text = "warm 🎭 ß".encode()
    ending = Ending(SimpleNamespace(decode=decode), [], [])
    for count in range(len(text) + 1):
        assert ending.text(list(text[:count])) == text[:count].decode("utf-8", "ignore")


# Bad arguments


# -- the model that needs no hub: fetched, checked, kept once


@pytest.mark.slow
@pytest.mark.usefixtures("smollm2")
def test_a_real_language_model():
    """Fetched, read, batched and one by one, and it knows a capital."""
    standard = model_kernel.standard_ICL_inference_with_torch_Causal_LM
    kernel = CausalLMKernel.from_spec("smollm2", device="cpu")
    identity = kernel.identity()
    assert (identity.who["files"], identity.who["dtype"]) == (GGUF_SHA256, "float32")
    demonstrations = "review: a joy to watch sentiment: positive\nreview: dull and long sentiment: negative\n"
    reviews = ["I loved it", "a waste of two hours", "moving and funny", "the worst film of the year"]
    labels = ["negative", "positive"]
    prompts = [f"{demonstrations}review: {review} sentiment: " for review in reviews]
    rows = kernel.batch(prompts, labels)
    assert kernel.identity() == identity
    # Packed weights compute other numbers; whether transformers keeps them depends on other packages.
    assert getattr(kernel.model.config, "quantization_config", None) is None
    tokens = [kernel.tokenizer(label)["input_ids"][-1] for label in labels]
    for prompt, row in zip(prompts, rows, strict=True):
        with torch.no_grad():
            logits = kernel.model(**kernel.tokenizer(prompt, return_tensors="pt")).logits[0, -1, tokens]
        assert row == pytest.approx(torch.softmax(logits.double(), 0).tolist(), abs=1e-4)
        alone = standard(prompt=prompt, model=kernel.model, tokenizer=kernel.tokenizer, label_space=labels)
        assert row == pytest.approx(alone, abs=1e-4)
    assert kernel.generate(["The capital of France is"], 4, ["\n", "."])[0].strip() == "Paris"


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
