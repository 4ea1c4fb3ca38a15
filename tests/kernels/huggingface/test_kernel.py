"""The kernel around the model: memory, length, order, pickling, names, and bad input of every kind."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from StaICC.errors import ArgumentError, OutputError
from StaICC.kernels.huggingface import kernel as causal_lm
from StaICC.kernels.huggingface.forward import is_out_of_memory
from StaICC.kernels.huggingface.generation import Ending
from StaICC.kernels.huggingface.kernel import CausalLMKernel, PromptError
from StaICC.kernels.label_scores import softmax

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LABELS = ["person", "location", "number"]
PROMPTS = [f"question: who wrote {n}?\nquestion: the city {n % 7}? answer: " for n in range(40)]


@pytest.fixture(scope="module")
def model(make_model):
    return make_model("Llama")


@pytest.fixture(scope="module")
def tokenizer(make_tokenizer):
    return make_tokenizer()


@pytest.fixture
def kernel(model, tokenizer):
    made = CausalLMKernel(model, tokenizer, token_budget=256)
    made.runner().cache_from = 8
    return made


def channel(query):
    return [f"answer: person question: who {query}?\nanswer: {label} question: {query}?\n" for label in LABELS]


# Memory


class Failing:
    """Lets the calls of a model run out of memory at some of them."""

    def __init__(self, kernel, calls=(), above=None, error=torch.OutOfMemoryError):
        self.forward = kernel.runner().forward
        self.inner = self.forward._call
        self.calls, self.above, self.error = set(calls), above, error
        self.count = 0

    def __enter__(self):
        def call(ids, **more):
            self.count += 1
            if self.count in self.calls or (self.above is not None and ids.numel() > self.above):
                raise self.error("CUDA out of memory. Tried to allocate 1 GiB")
            return self.inner(ids, **more)

        self.forward._call = call
        return self

    def __exit__(self, *_):
        del self.forward._call


WAYS = {
    "labels": lambda kernel: kernel.batch(PROMPTS, LABELS),
    "states": lambda kernel: kernel.hidden_states(PROMPTS).tolist(),
    "losses": lambda kernel: [[loss] for loss in kernel.losses(PROMPTS)],
    "channel": lambda kernel: kernel.noisy_channel([channel(n) for n in range(30)], LABELS),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("calls", [(1,), (2,), (2, 4), (2, 3, 5)])
def test_out_of_memory_in_the_middle_changes_nothing(model, tokenizer, way, reuse, calls):
    def make():
        made = CausalLMKernel(model, tokenizer, token_budget=256, prefix_reuse=reuse)
        made.runner().cache_from = 8
        return made

    expected = WAYS[way](make())
    broken = make()
    with Failing(broken, calls) as failing:
        found = WAYS[way](broken)
    assert failing.count > max(calls)
    assert broken.runner().budget == 256 // 2 ** len(calls)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_out_of_memory_is_counted_and_told(kernel, caplog):
    with Failing(kernel, [2]), caplog.at_level(logging.WARNING):
        report = kernel.score(PROMPTS, LABELS).report
    assert report.halvings == 1
    assert "memory ran out" in caplog.text
    assert "going on with 128 token positions" in caplog.text


def test_what_was_answered_before_is_not_computed_again(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer, token_budget=256, prefix_reuse=False)
    whole = kernel.score(PROMPTS, LABELS).report
    kernel = CausalLMKernel(model, tokenizer, token_budget=256, prefix_reuse=False)
    with Failing(kernel, [3]):
        again = kernel.score(PROMPTS, LABELS).report
    assert again.computed == whole.computed


def test_generation_survives_out_of_memory(model, tokenizer):
    expected = CausalLMKernel(model, tokenizer).generate(PROMPTS[:9], 5)
    kernel = CausalLMKernel(model, tokenizer)
    with Failing(kernel, [3]):
        assert kernel.generate(PROMPTS[:9], 5) == expected


def test_a_device_that_is_too_small_is_one_clear_error(kernel):
    with (
        Failing(kernel, above=1),
        pytest.raises(OutputError, match=r"memory ran out even with a budget of 32 .*smaller model"),
    ):
        kernel.batch(PROMPTS[:2], LABELS)


def test_other_errors_pass_through_and_leave_the_kernel_usable(kernel):
    expected = kernel.batch(PROMPTS[:3], LABELS)
    kernel.runner().budget = 32
    # The message of this RuntimeError says that memory ran out.
    with Failing(kernel, [1], error=RuntimeError), pytest.raises(OutputError):
        kernel.batch(PROMPTS[:3], LABELS)
    with Failing(kernel, [1], error=KeyError), pytest.raises(KeyError):
        kernel.batch(PROMPTS[:3], LABELS)
    assert kernel.batch(PROMPTS[:3], LABELS) == [pytest.approx(row, abs=1e-6) for row in expected]


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("x"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"), True),
        (RuntimeError("MPS backend out of memory"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_which_errors_say_that_memory_ran_out(error, answer):
    assert is_out_of_memory(error) is answer


# Order, cached prefixes


def test_order_and_subsets_do_not_matter(kernel):
    expected = kernel.batch(PROMPTS, LABELS)
    backwards = kernel.batch(PROMPTS[::-1], LABELS)[::-1]
    alone = [kernel(prompt=prompt, label_space=LABELS) for prompt in PROMPTS]
    for one, other, third in zip(expected, backwards, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
        assert one == pytest.approx(third, abs=1e-5)
        assert sum(one) == pytest.approx(1.0, abs=1e-15)


def test_a_prefix_is_kept_from_call_to_call_and_can_be_released(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer, token_budget=64)
    kernel.runner().cache_from = 16
    context = "question: the good people in the city? answer: person\n" * 3
    prompts = [f"{context}question: {n}? answer: " for n in range(20)]
    first = kernel.score(prompts[:10], LABELS)
    second = kernel.score(prompts[10:], LABELS)
    size = len(tokenizer(context)["input_ids"])
    assert first.report.computed == first.report.distinct
    assert second.report.computed <= second.report.distinct - size
    expected = CausalLMKernel(model, tokenizer, prefix_reuse=False).batch(prompts[10:], LABELS)
    assert [pytest.approx(row, abs=1e-5) for row in expected] == second.probabilities
    kernel.release()
    assert kernel.score(prompts[10:], LABELS).report.computed == second.report.distinct


@pytest.mark.parametrize(
    ("way", "call"), [("labels", 1), ("labels", 2), ("writing", 1), ("writing", 2), ("writing", 5)]
)
def test_an_interrupt_leaves_no_half_grown_prefix(model, tokenizer, way, call):
    context = "question: the good people in the city? answer: person\n" * 3
    prompts = [f"{context}question: {n}? answer: " for n in range(20)]

    def ask(kernel):
        return kernel.generate(prompts, 3) if way == "writing" else kernel.batch(prompts, LABELS)

    expected = ask(CausalLMKernel(model, tokenizer, prefix_reuse=False))
    kernel = CausalLMKernel(model, tokenizer, token_budget=64)
    kernel.runner().cache_from = 16
    ask(kernel)
    forward, inner, calls = kernel.runner().forward, kernel.runner().forward._call, []

    def interrupted(ids, **more):  # the user's Ctrl-C comes when the cache has grown already
        calls.append(inner(ids, **more))
        if len(calls) == call:
            raise KeyboardInterrupt
        return calls[-1]

    forward._call = interrupted
    with pytest.raises(KeyboardInterrupt):
        ask(kernel)
    del forward._call
    found = ask(kernel)
    if way == "writing":
        assert found == expected
    else:
        assert found == [pytest.approx(row, abs=1e-5) for row in expected]


def test_threads_take_turns(kernel):
    expected = kernel.batch(PROMPTS, LABELS)
    found = {}
    threads = [threading.Thread(target=lambda i=i: found.update({i: kernel.batch(PROMPTS, LABELS)})) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for rows in found.values():
        assert [pytest.approx(row, abs=1e-5) for row in expected] == rows


def test_dropout_is_off_during_a_run_and_on_again_after(make_model, tokenizer):
    model = make_model("GPT2", resid_pdrop=0.5, attn_pdrop=0.5, embd_pdrop=0.5).train()
    kernel = CausalLMKernel(model, tokenizer)
    assert kernel.batch(PROMPTS[:4], LABELS) == kernel.batch(PROMPTS[:4], LABELS)
    assert model.training


# Length


def test_too_long_a_prompt_names_the_query(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer)
    with pytest.raises(PromptError, match=r"prompt 1 has \d+ tokens, but the model reads 256 at most") as caught:
        kernel.batch([PROMPTS[0], "who " * 400, PROMPTS[1]], LABELS)
    assert caught.value.index == 1


def test_demonstrations_are_dropped_if_asked_and_counted(model, tokenizer):
    short = "question: the city? answer: "
    kernel = CausalLMKernel(model, tokenizer, on_too_long="drop-demonstrations", max_length=30)
    demonstration = "question: who wrote? answer: person\n"
    found = kernel.score([demonstration * 6 + short, short], LABELS)
    (count,) = found.report.dropped.values()
    assert list(found.report.dropped) == [0]
    plain = CausalLMKernel(model, tokenizer).batch([demonstration * (6 - count) + short, short], LABELS)
    assert found.probabilities == [pytest.approx(row, abs=1e-6) for row in plain]
    assert len(tokenizer(demonstration * (7 - count) + short)["input_ids"]) > 30


def test_noisy_channel_drops_equally_for_every_label(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer, on_too_long="drop-demonstrations", max_length=40)
    query = [
        f"{'answer: person question: who wrote the play?' * 1}\n" * 4 + f"answer: {label} question: x?\n"
        for label in LABELS
    ]
    found = kernel.score([query], LABELS)
    assert found.report.dropped[0] >= 1
    assert found.report.tokens <= 40 * len(LABELS)


def test_generation_keeps_room_for_what_follows(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer)
    prompt = PROMPTS[0]
    room = 256 - len(tokenizer(prompt)["input_ids"])
    with pytest.raises(PromptError, match="prompt 0 has"):
        kernel.generate([prompt], room + 1)


# Labels


def test_what_spoils_labels_is_reported_once_and_kept(model, tokenizer, caplog):
    kernel = CausalLMKernel(model, tokenizer)
    with caplog.at_level(logging.WARNING):
        found = kernel.score(PROMPTS[:2], ["x person", "y person", "number"])
        kernel.score(PROMPTS[:2], ["x person", "y person", "number"])
    assert [issue.kind for issue in found.issues if issue.fatal] == ["shared-token"]
    assert caplog.text.count("scored by the same token") == 1


def test_first_and_last_tokens_decide_differently(model, tokenizer):
    labels = ["who person", "person who"]
    last = CausalLMKernel(model, tokenizer, label_scoring="last").batch(PROMPTS[:3], labels)
    first = CausalLMKernel(model, tokenizer, label_scoring="first").batch(PROMPTS[:3], labels)
    ids = {label: tokenizer(label)["input_ids"] for label in labels}
    logits = CausalLMKernel(model, tokenizer).full_vocabulary_logits(PROMPTS[:3])
    for index, (one, other) in enumerate(zip(last, first, strict=True)):
        assert one == pytest.approx(softmax([float(logits[index][ids[label][-1]]) for label in labels]), abs=1e-5)
        assert other == pytest.approx(softmax([float(logits[index][ids[label][0]]) for label in labels]), abs=1e-5)


def test_labels_in_full_are_joined_some_prompts_at_a_time(model, tokenizer, monkeypatch):
    kernel = CausalLMKernel(model, tokenizer, label_scoring="full")
    expected = kernel.score(PROMPTS[:9], LABELS)
    monkeypatch.setattr(causal_lm, "TOKENS_AT_ONCE", 400)
    found = kernel.score(PROMPTS[:9], LABELS)
    assert found.report.sequences == expected.report.sequences == 27
    assert found.report.calls > expected.report.calls
    assert found.probabilities == [pytest.approx(row, abs=1e-5) for row in expected.probabilities]


def test_label_mass_can_be_left_out(model, tokenizer):
    assert CausalLMKernel(model, tokenizer, label_mass=False).score(PROMPTS[:2], LABELS).label_mass is None
    masses = CausalLMKernel(model, tokenizer).score(PROMPTS[:2], LABELS).label_mass
    assert all(0.0 < mass < 1.0 for mass in masses)


def test_a_doubled_beginning_is_refused(model, make_tokenizer):
    kernel = CausalLMKernel(model, make_tokenizer(add_start=True))
    assert len(kernel(PROMPTS[0], LABELS)) == 3
    with pytest.raises(PromptError, match=r"prompt 0 begins with .* twice"):
        kernel("<|end|>" + PROMPTS[0], LABELS)
    free = CausalLMKernel(model, make_tokenizer(add_start=True), add_special_tokens=False)
    assert free("<|end|>" + PROMPTS[0], LABELS) == pytest.approx(kernel(PROMPTS[0], LABELS), abs=1e-6)


def test_not_finite_is_an_error_not_a_number(make_model, tokenizer):
    model = make_model("Llama")
    with torch.no_grad():
        model.lm_head.weight[:] = float("nan")
    with pytest.raises(OutputError, match="not finite"):
        CausalLMKernel(model, tokenizer)(PROMPTS[0], LABELS)


# Names and pickles


def test_identity_names_what_moves_numbers(make_model, tokenizer):
    names = {
        CausalLMKernel(make_model("Llama"), tokenizer, **options).identity().digest
        for options in (
            {},
            {"label_scoring": "first"},
            {"label_scoring": "full"},
            {"label_scoring": "full", "label_normalisation": "mean"},
            {"variant": "0.1.1"},
            {"dtype": "bfloat16"},
            {"add_special_tokens": False},
            {"on_too_long": "drop-demonstrations"},
        )
    }
    assert len(names) == 8
    assert CausalLMKernel(make_model("Llama", seed=1), tokenizer).identity().digest not in names
    assert CausalLMKernel(make_model("Llama"), tokenizer, token_budget=64).identity().digest in names


def test_identity_follows_a_changed_setting(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer)
    before = kernel.identity().digest
    kernel.options = dataclasses.replace(kernel.options, label_scoring="full")
    assert kernel.identity().digest != before


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_model, tokenizer):
    where = tmp_path_factory.mktemp("model")
    make_model("Llama").save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


def test_a_folder_is_loaded_late_and_once(folder, model, tokenizer):
    kernel, twin = (
        CausalLMKernel.from_spec(str(folder), device="cpu"),
        CausalLMKernel.from_spec(f"hf:{folder}", device="cpu"),
    )
    assert kernel._loaded is None
    expected = CausalLMKernel(model, tokenizer).batch(PROMPTS[:3], LABELS)
    assert kernel.batch(PROMPTS[:3], LABELS) == [pytest.approx(row, abs=1e-6) for row in expected]
    assert CausalLMKernel.from_spec(str(folder), device="cpu").model is kernel.model
    assert twin.identity().digest == kernel.identity().digest


def test_pickled_as_a_string(folder):
    kernel = CausalLMKernel.from_spec(str(folder), device="cpu", label_scoring="first")
    kernel.batch(PROMPTS[:2], LABELS)
    packed = pickle.dumps(kernel)
    assert len(packed) < 4000
    back = pickle.loads(packed)
    assert back.identity().digest == kernel.identity().digest
    assert back.batch(PROMPTS[:2], LABELS) == kernel.batch(PROMPTS[:2], LABELS)


def test_a_live_model_is_pickled_whole(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer)
    back = copy.deepcopy(kernel)
    assert back.identity().digest == kernel.identity().digest
    assert back.batch(PROMPTS[:2], LABELS) == [pytest.approx(row) for row in kernel.batch(PROMPTS[:2], LABELS)]


@pytest.mark.slow
def test_identity_is_the_same_in_another_process(folder):
    code = (
        "from StaICC.kernels.huggingface.kernel import CausalLMKernel as K\n"
        f"k = K.from_spec({str(folder)!r}, device='cpu'); print(k.identity().digest)\n"
        "print(K(k.model, k.tokenizer).identity().digest)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kernel = CausalLMKernel.from_spec(str(folder), device="cpu")
    assert done.stdout.split() == [
        kernel.identity().digest,
        CausalLMKernel(kernel.model, kernel.tokenizer).identity().digest,
    ]


# Generation


def test_generation_stops(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer)
    (whole,) = kernel.generate(PROMPTS[:1], 12)
    assert whole
    stop = whole[len(whole) // 2]
    (cut,) = kernel.generate(PROMPTS[:1], 12, [stop])
    assert cut == whole[: whole.index(stop)]
    (short,) = kernel.generate(PROMPTS[:1], 1)
    assert whole.startswith(short)


# Bad arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_scoring": "best"}, "label_scoring must be one of 'last', 'first', 'full', not 'best'"),
        ({"variant": "0.1.2"}, "variant must be one of 'paper', '0.1.1'"),
        ({"label_normalisation": "max"}, "label_normalisation must be one of 'sum', 'mean'"),
        ({"on_too_long": "cut"}, "on_too_long must be one of 'error', 'drop-demonstrations'"),
        ({"token_budget": 0}, "token_budget must be an integer of at least 1, not 0"),
        ({"token_budget": 2.5}, "token_budget must be an integer of at least 1"),
        ({"token_budget": True}, "token_budget must be an integer of at least 1"),
        ({"max_length": -1}, "max_length must be an integer of at least 1, not -1"),
        ({"demonstration_separator": ""}, "demonstration_separator must not be empty"),
        ({"dtype": "float33"}, "there is no number type 'float33'"),
    ],
)
def test_bad_settings(model, tokenizer, options, message):
    with pytest.raises(ArgumentError, match=message):
        CausalLMKernel(model, tokenizer, **options)


@pytest.mark.parametrize(
    ("prompts", "labels", "message"),
    [
        ("one", LABELS, "prompts must be a list of strings"),
        ([3], LABELS, "query 0 of a noisy channel|object is not|prompt 0"),
        (["a", ["b", "c", "d"]], LABELS, "prompt 1 is a list, prompt 0 is not"),
        ([["a", "b"]], LABELS, "query 0 has 2 prompts for 3 labels"),
        (["a"], "positive", "label_space must be a non-empty list of strings, not 'positive'"),
        (["a"], [], "label_space must be a non-empty list"),
        (["a", ""], LABELS, "prompt 1 has no tokens"),
    ],
)
def test_bad_questions(kernel, prompts, labels, message):
    with pytest.raises(ArgumentError, match=message):
        kernel.batch(prompts, labels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.losses(["x"]), "text 0 has one token only"),
        (lambda k: k.losses("text"), "prompts must be a non-empty list"),
        (lambda k: k.hidden_states([]), "prompts must be a non-empty list"),
        (lambda k: k.generate(["x"], 0), "max_new_tokens must be an integer of at least 1, not 0"),
        (lambda k: k.generate(["x"], 3, "stop"), "stop must be a list of non-empty texts, not 'stop'"),
        (lambda k: k.generate(["x"], 3, [""]), "stop must be a list of non-empty texts"),
        (lambda k: k.noisy_channel([["a"] * 3], LABELS, "x"), "variant must be one of"),
    ],
)
def test_bad_calls(kernel, call, message):
    with pytest.raises(ArgumentError, match=message):
        call(kernel)


@pytest.mark.parametrize("model", [None, 3, "gpt2"])
def test_what_is_no_model(tokenizer, model):
    with pytest.raises(ArgumentError, match="model must be a causal language model of transformers"):
        CausalLMKernel(model, tokenizer)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nothing", "cannot make out the model 'nothing'; give 'smollm2', 'hf:NAME'"),
        ("", "a model must be named by a non-empty string"),
        ("hf:", "cannot make out the model 'hf:'"),
        ("./missing", "there is no folder './missing'"),
        ("missing.gguf", "there is no GGUF file 'missing.gguf'"),
    ],
)
def test_what_names_no_model(spec, message):
    with pytest.raises(ArgumentError, match=message):
        CausalLMKernel.from_spec(spec)


def test_no_prompts_no_answers(kernel):
    assert kernel.batch([], LABELS) == []


def test_kernels_that_share_a_model_in_training_mode_wait_for_each_other(make_model, make_tokenizer):
    """The first that is done switches it back, while the other would still compute."""
    model, seen = make_model("Llama").train(), []

    def slow(module, inputs):
        time.sleep(0.02)
        seen.append(module.training)

    kernels = [CausalLMKernel(model, make_tokenizer()) for _ in range(2)]
    model.register_forward_pre_hook(slow)
    with ThreadPoolExecutor(2) as pool:
        list(
            pool.map(
                lambda kernel, count: kernel.batch(["the"] + ["good " * n for n in range(1, count)], ["a", "b"]),
                kernels,
                (3, 9),
            )
        )
    assert len(seen) == 12
    assert not any(seen)
    assert model.training


def test_a_text_does_not_end_with_half_a_character():
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({one: number for number, one in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    text = "warm 🎭 ß"
    tokens = made.encode(text).ids
    assert len(tokens) == len(text.encode())  # one for each byte
    found = [Ending(made, [], []).text(tokens[:count]) for count in range(len(tokens) + 1)]
    assert found == [text.encode()[:count].decode("utf-8", "ignore") for count in range(len(tokens) + 1)]
