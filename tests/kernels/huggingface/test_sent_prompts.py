"""What a model reads, against the parts of the prompts: every benchmark, kind of label, prompt format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.inference.contract import ScoredLabels, Text
from StaICC.inference.store import PredictionStore
from StaICC.prompting.prompt_text import PromptParts
from tests.kernels.label_kinds import LABEL_KINDS, own_data
from tests.long_icl.conftest import make, write_small
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
    made = train_tokenizer(["text: a film label: positive\n"] * 3, 600)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made)
    fast.chat_template = TEMPLATE
    return fast


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return random_llama(tokenizer, max_position_embeddings=131072, bos_token_id=None, eos_token_id=None)


def conversation(parts: PromptParts) -> str:
    """The turns of a prompt, written here again from its parts."""
    text, before = "", parts.instruction
    for shown in parts.demonstrations:
        text += f"<user>{before}{shown.before}</user><assistant>{shown.label}</assistant>"
        before = shown.after if shown.after.strip() else ""
    return f"{text}<user>{before}{parts.question}</user><assistant>"


def check_read(kernel: Any, queries: Any, style: str) -> int:
    """Compare what the model reads with the parts of each query; return the number of prompts."""
    prompts = [query.prompt for query in queries]
    reading = kernel._read([[prompt] for prompt in prompts])
    for query, (text,), (ids,) in zip(queries, reading.texts, reading.ids, strict=True):
        if style == "chat":
            expected = f"<user>{query.parts.text}</user><assistant>"
        else:
            expected = conversation(query.parts) if style == "chat-turns" else query.parts.text
        assert text == expected
        assert kernel.tokenizer.decode(ids) == expected
    return len(prompts)


@pytest.mark.parametrize("style", ["plain", "chat", "chat-turns"])
@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_every_kind_of_label(tokenizer: Any, model: Any, kind: str, style: Any) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format=style)
    data = own_data(LABEL_KINDS[kind])
    for benchmark in (StaICC.Normal(k=3, datasets=data, limit=4), StaICC.GLER(k=3, datasets=data, limit=2)):
        queries = benchmark[0].all_queries()
        assert check_read(kernel, queries, style) == len(queries)
        shown = queries[0].parts.demonstrations
        assert [own for own in shown if own.label not in LABEL_KINDS[kind]] == []


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_every_kind_of_label_where_demonstrations_are_dropped(tokenizer: Any, model: Any, kind: str) -> None:
    queries = StaICC.Normal(k=3, datasets=own_data(LABEL_KINDS[kind]), limit=4)[0].all_queries()
    sizes = [len(tokenizer(str(query.prompt)).input_ids) for query in queries]
    limit = sorted(sizes)[len(sizes) // 2]
    kernel = CausalLMKernel(model, tokenizer, max_length=limit, on_too_long="drop-demonstrations")
    reading = kernel._read([[query.prompt] for query in queries])
    for query, size, (text,), dropped in zip(queries, sizes, reading.texts, reading.dropped, strict=True):
        assert query.parts is not None
        assert (
            text
            == query.parts.instruction
            + "".join(shown.text for shown in query.parts.demonstrations[dropped:])
            + query.parts.question
        )
        assert (dropped > 0) is (size > limit)


@pytest.mark.parametrize("style", ["plain", "chat", "chat-turns"])
def test_long_icl(tmp_path: Path, tokenizer: Any, model: Any, style: Any) -> None:
    benchmark = make(write_small(tmp_path), rounds=(2,), limit=2)
    kernel = CausalLMKernel(model, tokenizer, prompt_format=style)
    for experimentor in benchmark:
        queries = [query for condition in experimentor.conditions() for query in condition.queries]
        assert check_read(kernel, queries, style) == len(queries) > 0
        assert queries[0].parts.instruction == experimentor.card.template.plain
        assert len(queries[0].parts.demonstrations) > 1


def test_dropped_demonstrations_are_recorded(tokenizer: Any, model: Any, tmp_path: Path) -> None:
    benchmark = StaICC.Normal(k=3, datasets=[own_data(["good", "bad"])], limit=8)
    sizes = [len(tokenizer(str(query.prompt)).input_ids) for query in benchmark[0].all_queries()]
    limit = sorted(sizes)[len(sizes) // 2]
    options: dict[str, Any] = {"max_length": limit, "on_too_long": "drop-demonstrations"}
    kernel = CausalLMKernel(model, tokenizer, **options)
    shortened = sum(size > limit for size in sizes)
    with PredictionStore(tmp_path / "store.db") as store:
        result = benchmark(kernel, store=store)
        again = benchmark(kernel, store=store)
    for run in (result, again):
        prompts, demonstrations = run.details["hostile"].dropped["normal"]
        assert prompts == shortened
        assert demonstrations >= prompts
        assert f"{shortened} of {len(sizes)} prompts were longer than the model reads" in str(run)
    assert again.details == result.details
    result.save(tmp_path / "result.json")
    loaded = StaICC.load(tmp_path / "result.json")
    assert loaded.details["hostile"].dropped == result.details["hostile"].dropped


def test_long_icl_states_what_was_sent(tmp_path: Path, tokenizer: Any, model: Any) -> None:
    benchmark = make(write_small(tmp_path), ["banking77"], (2,), 3, unparsed="wrong")
    experimentor = benchmark[0]
    size = max(len(tokenizer(str(prompt)).input_ids) for prompt in experimentor.prompt_set())
    options: dict[str, Any] = {"max_length": size // 2, "on_too_long": "drop-demonstrations"}
    result = benchmark(text_inference(CausalLMKernel(model, tokenizer, **options), 4))
    (of_round,) = result.divided["banking77"]["rounds"].values()
    whole = experimentor.contexts[2]
    assert of_round["dropped"] > 0
    assert of_round["demonstrations"] == pytest.approx(whole.demonstrations - of_round["dropped"] / 3)
    assert of_round["labels_shown"] < whole.coverage([item.gold for item in experimentor.test_items])["labels_shown"]
    assert "prompts were longer than the model reads" in str(result)


def test_predictions_record_the_label_mass(tokenizer: Any, model: Any) -> None:
    kernel = CausalLMKernel(model, tokenizer)
    (row,) = kernel.batch(["text: a label: "], ["good", "bad"])
    assert isinstance(row, ScoredLabels)
    logits = torch.from_numpy(kernel.full_vocabulary_logits(["text: a label: "]))[0].double().softmax(0)
    tokens = {tokenizer(label).input_ids[-1] for label in ("good", "bad")}
    assert row.label_mass == pytest.approx(sum(logits[token].item() for token in tokens), rel=1e-4)
    best = kernel.likely_tokens("text: a label: ", 3)
    assert [share for _, share in best] == pytest.approx(logits.topk(3).values.tolist(), rel=1e-4)
    (reply,) = kernel.generate(["text: a label: "], max_new_tokens=2)
    assert isinstance(reply, Text)
    assert reply.dropped == 0


@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_turns_are_scored_where_the_reply_starts(tokenizer: Any, model: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat-turns", label_scoring=scoring)
    labels = ["good", "bad film"]
    queries = StaICC.Normal(k=2, datasets=[own_data(labels)], limit=2)[0].all_queries()
    rows = kernel.batch([query.prompt for query in queries], labels)
    for query, row in zip(queries, rows, strict=True):
        assert query.parts is not None
        start = tokenizer(conversation(query.parts), add_special_tokens=False).input_ids
        scores = []
        for label in labels:
            tokens = tokenizer(label, add_special_tokens=False).input_ids
            tokens = {"last": tokens[-1:], "first": tokens[:1], "full": tokens}[scoring]
            with torch.inference_mode():
                logs = model(torch.tensor([[*start, *tokens]])).logits[0].log_softmax(-1)
            scores.append(sum(logs[len(start) - 1 + n, token].item() for n, token in enumerate(tokens)))
        assert row == pytest.approx(torch.tensor(scores).softmax(-1).tolist(), abs=1e-5)


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
        again = method.run(benchmark, store=store, on_error="collect")
    assert first.details["hostile"].failures == ()
    assert again.divided == first.divided


def test_the_store_distinguishes_parts(tokenizer: Any, model: Any, tmp_path: Path) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat-turns", label_scoring="first")
    benchmark = StaICC.Normal(k=2, datasets=[own_data(["yes", "no"])], limit=2)
    shifted = StaICC.Normal(k=2, datasets=[own_data(["yes", "no"])], limit=2)
    benchmark[0].prompt_former.change_instruction("\n")
    shifted[0].prompt_former.change_input_text_prefixes(["\ntext: "])
    shifted[0].prompt_former.change_label_affix("")
    texts = [[str(query.prompt) for query in own[0].all_queries()] for own in (benchmark, shifted)]
    assert texts[0] == texts[1]
    with PredictionStore(tmp_path / "store.db") as store:
        benchmark(kernel, store=store)
        mixed = shifted(kernel, store=store)
    assert mixed.divided == shifted(kernel).divided
    assert [predictor.reused for predictor in mixed.provenance.predictors] == [0]


def test_methods_say_that_demonstrations_were_dropped(tokenizer: Any, model: Any) -> None:
    benchmark = StaICC.Normal(k=3, datasets=own_data(["good", "bad"]), limit=4)
    sizes = [len(tokenizer(str(query.prompt)).input_ids) for query in benchmark[0].all_queries()]
    limit = sorted(sizes)[len(sizes) // 2]
    options: dict[str, Any] = {"max_length": limit, "on_too_long": "drop-demonstrations", "label_scoring": "first"}
    result = StaICC.Method("batch_calibration", CausalLMKernel(model, tokenizer, **options)).run(benchmark)
    assert any("were longer than the model reads and were sent without" in warning for warning in result.warnings), (
        f"got {result.warnings}"
    )


def test_rendered_prompts_are_those_that_are_sent(tokenizer: Any, model: Any) -> None:
    queries = StaICC.Normal(k=3, datasets=own_data(["good", "bad"]), limit=4)[0].all_queries()
    prompts = [query.prompt for query in queries]
    limit = min(len(tokenizer(str(prompt)).input_ids) for prompt in prompts) - 1
    options: dict[str, Any] = {"max_length": limit, "on_too_long": "drop-demonstrations"}
    kernel = CausalLMKernel(model, tokenizer, **options)
    reading = kernel._read([[prompt] for prompt in prompts])
    assert kernel.rendered(prompts) == [text for (text,) in reading.texts]
    assert 0 not in reading.dropped, "each prompt loses some demonstrations"


def test_rendered_prompts_have_room_for_the_labels_whose_tokens_are_all_scored(tokenizer: Any, model: Any) -> None:
    (query, *_) = StaICC.Normal(k=3, datasets=own_data(["good", "bad"]), limit=1)[0].all_queries()
    limit = len(tokenizer(str(query.prompt)).input_ids)  # it fits, but not with a label
    options: dict[str, Any] = {"max_length": limit, "on_too_long": "drop-demonstrations"}
    one_token = CausalLMKernel(model, tokenizer, **options)
    all_tokens = CausalLMKernel(model, tokenizer, label_scoring="full", **options)
    assert one_token.rendered([query.prompt], query.label_space) == [query.prompt]
    (rendered,) = all_tokens.rendered([query.prompt], query.label_space)
    ((sent,),) = all_tokens._read([[query.prompt]], query.label_space).texts
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
    other = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, eos_token="</assistant>")
    other.chat_template = TURNS + "{% if add_generation_prompt %}<assistant>{{ eos_token }}{% endif %}"
    kernel = CausalLMKernel(model, other, prompt_format="chat")
    with pytest.raises(StaICC.StaICCError, match="the chat template ends prompt 0 with the end token"):
        kernel._read([["text: a label: "]])


def test_an_end_token_that_is_the_unknown_token_is_found(tokenizer: Any, model: Any) -> None:
    both = transformers.PreTrainedTokenizerFast(
        tokenizer_object=train_tokenizer(["text: a film"] * 3, 400, ["<|end|>"]),
        eos_token="<|end|>",
        unk_token="<|end|>",
    )
    both.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <|end|>", special_tokens=[("<|end|>", both.eos_token_id)]
    )
    with pytest.raises(StaICC.StaICCError, match="ends with the special token"):
        CausalLMKernel(model, both)._read([["text: a"]])


@pytest.mark.parametrize("facts", [(5.0, 0), (-1.0, 0), (float("nan"), 0), (0.5, -1), (0.5, 2**40)])
def test_impossible_facts_of_a_prediction_are_refused(facts: Any) -> None:
    with pytest.raises(StaICC.OutputError, match=r"label mass|dropped demonstrations"):
        StaICC.Normal(datasets=["mini"], limit=2)(
            lambda prompt, label_space: ScoredLabels([1.0, *[0.0] * (len(label_space) - 1)], *facts)
        )


def test_the_unit_of_dropped_demonstrations_is_that_of_the_benchmark(tmp_path: Path) -> None:
    """Of merged dialogues, demonstrations are the pairs; of sentences with several entities, the sentences."""
    for experimentor in make(write_small(tmp_path), rounds=(2,), limit=2):
        contexts = experimentor.contexts[2]
        shown = contexts.shown_labels(0)
        left = contexts.sent([1] * len(experimentor.test_items)).demonstrations
        lost = len(shown[0]) if experimentor.name == "dialogre" else 1
        assert left == contexts.demonstrations - lost, experimentor.name
