"""What a model reads, against the parts of the prompts: every benchmark, kind of label, prompt format."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import StaICC
from StaICC.inference.contract import ScoredLabels, Text
from StaICC.inference.store import PredictionStore
from StaICC.prompting.prompt_text import PromptParts
from tests.kernels.label_kinds import LABEL_KINDS, own_data
from tests.long_icl.conftest import long_icl_on, write_small
from tests.tiny_models import random_llama, train_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.text_inference import text_inference  # noqa: E402

TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
TEMPLATE = TURNS + "{% if add_generation_prompt %}<assistant>{% endif %}"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Return a tokenizer that keeps every text, with a chat template of one turn a message."""
    trained = train_tokenizer(["text: a film label: positive\n"] * 3, 600)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=trained)
    fast.chat_template = TEMPLATE
    return fast


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    """Return a tiny model that reads long prompts."""
    return random_llama(tokenizer, max_position_embeddings=131072, bos_token_id=None, eos_token_id=None)


def in_turns(parts: PromptParts) -> str:
    """Return the turns of a prompt: the user says all but the labels, and the assistant the labels.

    White space after a label is left out; other text there begins the next turn of the user.
    """
    text = ""
    begins_turn = parts.instruction
    for demonstration in parts.demonstrations:
        text += f"<user>{begins_turn}{demonstration.before}</user><assistant>{demonstration.label}</assistant>"
        begins_turn = demonstration.after if demonstration.after.strip() else ""
    return f"{text}<user>{begins_turn}{parts.question}</user><assistant>"


def expected_text(parts: PromptParts, style: str) -> str:
    """Return what a model should read of a prompt in a format."""
    if style == "plain":
        return parts.text
    if style == "chat":
        return f"<user>{parts.text}</user><assistant>"
    return in_turns(parts)


def assert_model_reads_the_parts(kernel: Any, queries: Any, style: str) -> None:
    """Compare what the model reads of each query, as text and as tokens, with the parts of its prompt."""
    assert len(queries) > 0
    reading = kernel._tokenize([[query.prompt] for query in queries])
    for query, (text,), (ids,) in zip(queries, reading.texts, reading.ids, strict=True):
        assert text == expected_text(query.parts, style)
        assert kernel.tokenizer.decode(ids) == expected_text(query.parts, style)


def prompt_sizes(tokenizer: Any, queries: Any) -> list[int]:
    """Return the number of tokens of each query's prompt."""
    return [len(tokenizer(str(query.prompt)).input_ids) for query in queries]


def limited_kernel(model: Any, tokenizer: Any, limit: int, **options: Any) -> Any:
    """Return a kernel that drops demonstrations of prompts with more tokens than the limit."""
    return CausalLMKernel(model, tokenizer, max_length=limit, on_too_long="drop-demonstrations", **options)


@pytest.mark.parametrize("style", ["plain", "chat", "chat-turns"])
@pytest.mark.parametrize("kind", LABEL_KINDS)
@pytest.mark.parametrize("benchmark_class", [StaICC.Normal, StaICC.GLER])
def test_every_kind_of_label_is_read_as_the_parts_say(
    tokenizer: Any, model: Any, kind: str, style: Any, benchmark_class: Any
) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format=style)
    benchmark = benchmark_class(k=3, datasets=own_data(LABEL_KINDS[kind]), limit=2)
    assert_model_reads_the_parts(kernel, benchmark[0].all_queries(), style)


@pytest.mark.parametrize("kind", LABEL_KINDS)
@pytest.mark.parametrize("benchmark_class", [StaICC.Normal, StaICC.GLER])
def test_every_kind_of_label_is_that_of_a_demonstration(kind: str, benchmark_class: Any) -> None:
    benchmark = benchmark_class(k=3, datasets=own_data(LABEL_KINDS[kind]), limit=2)
    for query in benchmark[0].all_queries():
        for demonstration in query.parts.demonstrations:
            assert demonstration.label in LABEL_KINDS[kind]


def median(sizes: list[int]) -> int:
    """Return the median of an odd number of sizes, and otherwise the larger one of the two in the middle."""
    return sorted(sizes)[len(sizes) // 2]


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_too_long_prompts_lose_their_first_demonstrations_whatever_the_labels(
    tokenizer: Any, model: Any, kind: str
) -> None:
    queries = StaICC.Normal(k=3, datasets=own_data(LABEL_KINDS[kind]), limit=4)[0].all_queries()
    limit = median(prompt_sizes(tokenizer, queries))

    reading = limited_kernel(model, tokenizer, limit)._tokenize([[query.prompt] for query in queries])

    for query, (text,), n_dropped in zip(queries, reading.texts, reading.dropped, strict=True):
        kept_demonstrations = query.parts.demonstrations[n_dropped:]
        expected = query.parts.instruction
        for demonstration in kept_demonstrations:
            expected += demonstration.text
        expected += query.parts.question
        assert text == expected


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_only_too_long_prompts_lose_demonstrations(tokenizer: Any, model: Any, kind: str) -> None:
    queries = StaICC.Normal(k=3, datasets=own_data(LABEL_KINDS[kind]), limit=4)[0].all_queries()
    sizes = prompt_sizes(tokenizer, queries)
    limit = median(sizes)

    reading = limited_kernel(model, tokenizer, limit)._tokenize([[query.prompt] for query in queries])

    too_long = [index for index, size in enumerate(sizes) if size > limit]
    shortened = [index for index, n_dropped in enumerate(reading.dropped) if n_dropped > 0]
    assert shortened == too_long


@pytest.mark.parametrize("style", ["plain", "chat", "chat-turns"])
def test_long_icl_is_read_as_the_parts_say(tmp_path: Path, tokenizer: Any, model: Any, style: Any) -> None:
    benchmark = long_icl_on(write_small(tmp_path), rounds=(2,), limit=2)
    kernel = CausalLMKernel(model, tokenizer, prompt_format=style)
    for experimentor in benchmark:
        for condition in experimentor.conditions():
            assert_model_reads_the_parts(kernel, condition.queries, style)


def test_a_prompt_of_long_icl_has_the_instruction_of_its_task_and_demonstrations(tmp_path: Path) -> None:
    for experimentor in long_icl_on(write_small(tmp_path), rounds=(2,), limit=2):
        (condition,) = experimentor.conditions()
        parts = condition.queries[0].parts
        assert parts.instruction == experimentor.card.template.plain
        assert len(parts.demonstrations) > 1


class ShortenedRun(NamedTuple):
    """A benchmark of 16 prompts, and a kernel that drops demonstrations of those that are too long."""

    benchmark: Any
    kernel: Any
    n_too_long: int


@pytest.fixture
def shortened(tokenizer: Any, model: Any) -> ShortenedRun:
    """A run on eight test rows, in which about half of the prompts are too long."""
    benchmark = StaICC.Normal(k=3, datasets=[own_data(["good", "bad"])], limit=8)
    sizes = prompt_sizes(tokenizer, benchmark[0].all_queries())
    limit = median(sizes)
    n_too_long = sum(size > limit for size in sizes)
    return ShortenedRun(benchmark, limited_kernel(model, tokenizer, limit), n_too_long)


def test_dropped_demonstrations_are_counted_in_the_result(shortened: ShortenedRun) -> None:
    result = shortened.benchmark(shortened.kernel)

    shortened_prompts, dropped_demonstrations = result.details["hostile"].dropped["normal"]
    assert shortened_prompts == shortened.n_too_long
    assert dropped_demonstrations >= shortened_prompts, "each of these prompts lost at least one"
    assert f"{shortened.n_too_long} of 16 prompts were longer than the model reads" in str(result)


def test_dropped_demonstrations_are_stored(shortened: ShortenedRun, tmp_path: Path) -> None:
    with PredictionStore(tmp_path / "store.db") as store:
        first = shortened.benchmark(shortened.kernel, store=store)
        second = shortened.benchmark(shortened.kernel, store=store)

    assert second.details == first.details


def test_dropped_demonstrations_are_saved(shortened: ShortenedRun, tmp_path: Path) -> None:
    result = shortened.benchmark(shortened.kernel)

    result.save(tmp_path / "result.json")
    loaded = StaICC.load(tmp_path / "result.json")

    assert loaded.details["hostile"].dropped == result.details["hostile"].dropped


def test_long_icl_states_what_was_sent(tmp_path: Path, tokenizer: Any, model: Any) -> None:
    """A model that reads half of the longest prompt, on three test rows and a context of two rounds."""
    benchmark = long_icl_on(write_small(tmp_path), ["banking77"], rounds=(2,), limit=3, unparsed="wrong")
    experimentor = benchmark[0]
    longest_prompt = max(len(tokenizer(str(prompt)).input_ids) for prompt in experimentor.prompt_set())
    kernel = limited_kernel(model, tokenizer, longest_prompt // 2)

    result = benchmark(text_inference(kernel, 4))

    (sent,) = result.divided["banking77"]["rounds"].values()
    assert sent["dropped"] > 0
    whole_context = experimentor.contexts[2]
    dropped_per_prompt = sent["dropped"] / 3
    assert sent["demonstrations"] == pytest.approx(whole_context.demonstrations - dropped_per_prompt)
    true_labels = [item.gold for item in experimentor.test_items]
    assert sent["labels_shown"] < whole_context.coverage(true_labels)["labels_shown"]
    assert "prompts were longer than the model reads" in str(result)


@pytest.fixture(scope="module")
def next_token_probabilities(tokenizer: Any, model: Any) -> Any:
    """Return the probabilities of all tokens after "text: a label: ", from one call of the model."""
    with torch.inference_mode():
        ids = tokenizer("text: a label: ", return_tensors="pt").input_ids
        return model(ids).logits[0, -1].double().softmax(0)


def test_predictions_record_the_label_mass(tokenizer: Any, model: Any, next_token_probabilities: Any) -> None:
    (row,) = CausalLMKernel(model, tokenizer).batch(["text: a label: "], ["yes", "no"])

    label_tokens = [tokenizer(label).input_ids[-1] for label in ("yes", "no")]
    assert label_tokens[0] != label_tokens[1]
    assert isinstance(row, ScoredLabels)
    assert row.label_mass == pytest.approx(next_token_probabilities[label_tokens].sum().item(), rel=1e-4)


def test_likely_tokens_have_their_probabilities(tokenizer: Any, model: Any, next_token_probabilities: Any) -> None:
    likely = CausalLMKernel(model, tokenizer).likely_tokens("text: a label: ", 3)
    three_highest = next_token_probabilities.topk(3).values.tolist()
    assert [probability for _, probability in likely] == pytest.approx(three_highest, rel=1e-4)


def test_replies_record_that_no_demonstration_was_dropped(tokenizer: Any, model: Any) -> None:
    (reply,) = CausalLMKernel(model, tokenizer).generate(["text: a label: "], max_new_tokens=2)
    assert isinstance(reply, Text)
    assert reply.dropped == 0


def log_probability_after(model: Any, context: list[int], tokens: list[int]) -> float:
    """Return the log-probability of tokens after a context, from one call of the model."""
    with torch.inference_mode():
        logs = model(torch.tensor([[*context, *tokens]])).logits[0].log_softmax(-1)
    total = 0.0
    for index, token in enumerate(tokens):
        position_before = len(context) + index - 1
        total += logs[position_before, token].item()
    return total


def scored_tokens(label_tokens: list[int], scoring: str) -> list[int]:
    """Return the tokens of a label that a way of scoring reads: the last one, the first one, or all (full)."""
    if scoring == "last":
        return label_tokens[-1:]
    if scoring == "first":
        return label_tokens[:1]
    return label_tokens


@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_labels_are_scored_right_behind_the_turns(tokenizer: Any, model: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat-turns", label_scoring=scoring)
    labels = ["good", "bad film"]
    queries = StaICC.Normal(k=2, datasets=[own_data(labels)], limit=2)[0].all_queries()

    rows = kernel.batch([query.prompt for query in queries], labels)

    for query, row in zip(queries, rows, strict=True):
        turns = tokenizer(in_turns(query.parts), add_special_tokens=False).input_ids
        scores = []
        for label in labels:
            label_tokens = tokenizer(label, add_special_tokens=False).input_ids
            scores.append(log_probability_after(model, turns, scored_tokens(label_tokens, scoring)))
        probabilities = torch.tensor(scores).softmax(-1).tolist()
        assert row == pytest.approx(probabilities, abs=1e-5)


SCORE_PROMPT_TEXTS = {"noisy_channel", "ppl_icl"}
"""Methods that score the text of a prompt."""


@pytest.mark.parametrize("name", sorted(SCORE_PROMPT_TEXTS))
def test_a_method_that_scores_prompt_texts_refuses_turns(tokenizer: Any, model: Any, name: str) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat-turns", label_scoring="first")
    benchmark = StaICC.Normal(k=2, datasets=[own_data(["yes", "no"])], limit=2)
    with pytest.raises(StaICC.StaICCError, match="which CausalLMKernel does not provide"):
        StaICC.Method(name, kernel, calibration_number=4).run(benchmark)


@pytest.mark.parametrize("name", sorted(set(StaICC.METHODS.names()) - SCORE_PROMPT_TEXTS))
def test_every_other_method_sends_turns(tokenizer: Any, model: Any, name: str, tmp_path: Path) -> None:
    """The kernel refuses prompts without parts: a method that lost them would have failures."""
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat-turns", label_scoring="first")
    benchmark = StaICC.Normal(k=2, datasets=[own_data(["yes", "no"])], limit=2, unparsed="wrong")
    method = StaICC.Method(name, kernel, calibration_number=4)
    with PredictionStore(tmp_path / "store.db") as store:
        first = method.run(benchmark, store=store, on_error="collect")
        from_store = method.run(benchmark, store=store, on_error="collect")

    (details,) = first.details.values()
    assert details.failures == ()
    assert from_store.divided == first.divided


def prompt_texts(benchmark: Any) -> list[str]:
    """Return the texts of the prompts of the first data set of a benchmark."""
    return [str(query.prompt) for query in benchmark[0].all_queries()]


def test_the_store_distinguishes_parts(tokenizer: Any, model: Any, tmp_path: Path) -> None:
    """Two benchmarks whose prompts have the same text: a line feed ends the instruction, or begins the question."""
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat-turns", label_scoring="first")
    ends_instruction = StaICC.Normal(k=2, datasets=[own_data(["yes", "no"])], limit=2)
    ends_instruction[0].prompt_former.change_instruction("\n")
    begins_question = StaICC.Normal(k=2, datasets=[own_data(["yes", "no"])], limit=2)
    begins_question[0].prompt_former.change_input_text_prefixes(["\ntext: "])
    begins_question[0].prompt_former.change_label_affix("")
    assert prompt_texts(ends_instruction) == prompt_texts(begins_question)

    with PredictionStore(tmp_path / "store.db") as store:
        ends_instruction(kernel, store=store)
        with_store = begins_question(kernel, store=store)

    assert with_store.divided == begins_question(kernel).divided
    assert [predictor.reused for predictor in with_store.provenance.predictors] == [0]


def test_methods_say_that_demonstrations_were_dropped(tokenizer: Any, model: Any) -> None:
    benchmark = StaICC.Normal(k=3, datasets=own_data(["good", "bad"]), limit=4)
    some_are_longer = median(prompt_sizes(tokenizer, benchmark[0].all_queries()))
    kernel = limited_kernel(model, tokenizer, some_are_longer, label_scoring="first")

    result = StaICC.Method("batch_calibration", kernel).run(benchmark)

    assert "were longer than the model reads and were sent without" in " ".join(result.warnings)


def test_rendered_prompts_are_those_that_are_sent(tokenizer: Any, model: Any) -> None:
    queries = StaICC.Normal(k=3, datasets=own_data(["good", "bad"]), limit=4)[0].all_queries()
    prompts = [query.prompt for query in queries]
    kernel = limited_kernel(model, tokenizer, min(prompt_sizes(tokenizer, queries)) - 1)

    reading = kernel._tokenize([[prompt] for prompt in prompts])

    assert kernel.rendered(prompts) == [text for (text,) in reading.texts]
    assert 0 not in reading.dropped, "each prompt loses some demonstrations"


@pytest.fixture(scope="module")
def query() -> Any:
    """Return a query with three demonstrations."""
    return StaICC.Normal(k=3, datasets=own_data(["good", "bad"]), limit=1)[0].all_queries()[0]


def test_a_rendered_prompt_that_fits_is_whole(tokenizer: Any, model: Any, query: Any) -> None:
    (size,) = prompt_sizes(tokenizer, [query])
    kernel = limited_kernel(model, tokenizer, size)
    assert kernel.rendered([query.prompt], query.label_space) == [query.prompt]


def test_a_rendered_prompt_has_room_for_labels_whose_tokens_are_all_scored(
    tokenizer: Any, model: Any, query: Any
) -> None:
    (size,) = prompt_sizes(tokenizer, [query])  # it fits, but not with a label
    kernel = limited_kernel(model, tokenizer, size, label_scoring="full")

    (rendered,) = kernel.rendered([query.prompt], query.label_space)

    ((sent,),) = kernel._tokenize([[query.prompt]], query.label_space).texts
    assert rendered == sent
    assert len(rendered) < len(query.prompt)


def test_a_damaged_row_of_the_vocabulary_is_no_label_mass(tokenizer: Any) -> None:
    damaged = random_llama(tokenizer, max_position_embeddings=512, bos_token_id=None, eos_token_id=None)
    with torch.no_grad():
        damaged.lm_head.weight[7] = float("nan")
    kernel = CausalLMKernel(damaged, tokenizer, label_scoring="first")
    with pytest.raises(StaICC.OutputError, match=r"not finite.*lm_head\.weight"):
        kernel.batch(["text: a label: "], ["good", "bad"])


def test_a_template_that_ends_with_the_end_token_is_refused(tokenizer: Any, model: Any) -> None:
    tokenizer_with_end_token = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, eos_token="</assistant>"
    )
    ends_with_end_token = TURNS + "{% if add_generation_prompt %}<assistant>{{ eos_token }}{% endif %}"
    tokenizer_with_end_token.chat_template = ends_with_end_token
    kernel = CausalLMKernel(model, tokenizer_with_end_token, prompt_format="chat")

    with pytest.raises(StaICC.StaICCError, match="the chat template ends prompt 0 with the end token"):
        kernel._tokenize([["text: a label: "]])


def test_an_end_token_that_is_also_the_unknown_token_is_found(tokenizer: Any, model: Any) -> None:
    one_token_for_both = transformers.PreTrainedTokenizerFast(
        tokenizer_object=train_tokenizer(["text: a film"] * 3, 400, ["<|end|>"]),
        eos_token="<|end|>",
        unk_token="<|end|>",
    )
    one_token_for_both.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <|end|>", special_tokens=[("<|end|>", one_token_for_both.eos_token_id)]
    )
    with pytest.raises(StaICC.StaICCError, match="ends with the special token"):
        CausalLMKernel(model, one_token_for_both)._tokenize([["text: a"]])


@pytest.mark.parametrize("label_mass", [5.0, -1.0, float("nan")])
def test_an_impossible_label_mass_is_refused(label_mass: float) -> None:
    def predict(prompt: str, label_space: list[str]) -> ScoredLabels:
        return ScoredLabels([1.0] + [0.0] * (len(label_space) - 1), label_mass, 0)

    with pytest.raises(StaICC.OutputError, match="label mass"):
        StaICC.Normal(datasets=["mini"], limit=2)(predict)


@pytest.mark.parametrize("dropped", [-1, 2**40])
def test_an_impossible_number_of_dropped_demonstrations_is_refused(dropped: int) -> None:
    def predict(prompt: str, label_space: list[str]) -> ScoredLabels:
        return ScoredLabels([1.0] + [0.0] * (len(label_space) - 1), 0.5, dropped)

    with pytest.raises(StaICC.OutputError, match="dropped demonstrations"):
        StaICC.Normal(datasets=["mini"], limit=2)(predict)


def test_a_prompt_without_its_first_text_has_one_demonstration_less(tmp_path: Path) -> None:
    """Each pair of a dialogue is a demonstration, so a prompt without a dialogue has less by all of its pairs."""
    for experimentor in long_icl_on(write_small(tmp_path), rounds=(2,), limit=2):
        contexts = experimentor.contexts[2]
        labels_of_first_text = contexts.shown_labels(0)[0]
        demonstrations_of_first_text = len(labels_of_first_text) if experimentor.name == "dialogre" else 1

        without_first_text = contexts.sent([1] * len(experimentor.test_items))

        expected = contexts.demonstrations - demonstrations_of_first_text
        assert without_first_text.demonstrations == expected, experimentor.name
