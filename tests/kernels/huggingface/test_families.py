"""Batches, packed rows and cached prefixes give what the plain model gives, for many families."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math

import pytest

from StaICC.kernels.huggingface.kernel import CausalLMKernel

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

REQUIRED = ("GPT2", "Llama", "OPT", "GPTNeoX", "Falcon", "Qwen2", "Gemma", "Mamba")
MORE = ("Gemma2", "Cohere", "Granite", "Bloom", "Mistral", "GPTJ", "Mixtral")
LABELS = ["person", "location", "number"]
CONTEXT = "question: who wrote the play? answer: person\nquestion: the city? answer: location\n"
QUERIES = ["good", "the good city", "who", "bad people in the city about the play and good people", "number"]
PROMPTS = [
    *(CONTEXT + f"question: {query}? answer: " for query in QUERIES),
    *(CONTEXT.replace("person", "number") + f"question: {query}? answer: " for query in QUERIES[:3]),
    "question: nothing before? answer: ",
    "x",
    CONTEXT + "question: good? answer: ",  # asked twice
]


def with_random_biases(model):
    """Give random values to biases, which begin as zeros: else a kernel without them would predict the same."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") and not parameter.any():
                parameter += (0.3 * torch.randn(parameter.shape, generator=generator)).to(parameter.device)
    return model


@pytest.fixture(scope="module")
def models(make_model):
    """A function that returns the model of a family, made once."""
    return functools.cache(lambda family: with_random_biases(make_model(family)))


@dataclasses.dataclass
class PlainResult:
    """What single calls of a model return for :data:`PROMPTS`, at the last position of each.

    Attributes:
        probabilities: Of the labels, by the logits of their last tokens.
        label_mass: The sum of the probabilities of these tokens.
        logits: Of the whole vocabulary.
        states: The last hidden states.
    """

    probabilities: list
    label_mass: list
    logits: list
    states: list


@pytest.fixture(scope="module")
def plain_results(models, tokenizer, plain):
    """A function that returns what single calls of the model of a family return, computed once."""

    @functools.cache
    def compute(family):
        label_tokens = [tokenizer(label)["input_ids"][-1] for label in LABELS]
        result = PlainResult([], [], [], [])
        for prompt in PROMPTS:
            output = plain.output(models(family), tokenizer, prompt)
            next_token_logits = output.logits[-1]
            result.probabilities.append(next_token_logits[label_tokens].softmax(-1).tolist())
            result.label_mass.append(next_token_logits.softmax(-1)[label_tokens].sum().item())
            result.logits.append(next_token_logits.tolist())
            result.states.append(output.states[-1].tolist())
        return result

    return compute


def close(rows, abs=1e-4):
    """Return what equals rows of numbers but for rounding."""
    return [pytest.approx(row, abs=abs) for row in rows]


def softmax(scores):
    """Return probabilities of log-scores, computed in float64."""
    return torch.softmax(torch.tensor(scores).double(), 0).tolist()


def token_count(tokenizer, text):
    return len(tokenizer(text)["input_ids"])


def make_kernel(model, tokenizer, **options):
    """Return a kernel that caches shared beginnings from 16 tokens on, which the context of the prompts has."""
    kernel = CausalLMKernel(model, tokenizer, **options)
    kernel.runner().cache_from = 16
    return kernel


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
def test_the_logits_of_labels_need_their_rows_of_the_output_matrix_only(models, tokenizer, family):
    """If they differed from those of the model, such as without a bias, all labels would need the whole matrix."""
    kernel = make_kernel(models(family), tokenizer)
    kernel.batch(PROMPTS[:2], LABELS)  # the first batch compares both
    assert kernel.runner().forward.capabilities.head == "rows"


def test_a_family_has_a_bias_of_the_output_matrix(models):
    """Without a bias, the test above would not show that the bias is used."""
    assert models("GPTJ").get_output_embeddings().bias.any()


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("flat", [True, False], ids=["one row", "padded rows"])
@pytest.mark.parametrize(("reuse", "budget"), [(True, 4096), (True, 150), (True, 32), (False, 150)])
def test_batches_predict_what_single_calls_predict(
    models, tokenizer, plain_results, family, flat, reuse, budget, monkeypatch
):
    kernel = make_kernel(models(family), tokenizer, prefix_reuse=reuse, token_budget=budget)
    if not flat:
        monkeypatch.setattr(kernel.runner().forward.capabilities, "flat", False)

    scores = kernel.score(PROMPTS, LABELS)

    assert scores.probabilities == close(plain_results(family).probabilities)
    assert scores.label_mass == close(plain_results(family).label_mass)


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("budget", [4096, 32])
def test_logits_are_those_of_single_calls(models, tokenizer, plain_results, family, budget):
    logits = make_kernel(models(family), tokenizer, token_budget=budget).full_vocabulary_logits(PROMPTS)

    assert logits.dtype.name == "float32"
    assert logits.shape == (len(PROMPTS), 384)
    assert logits.tolist() == close(plain_results(family).logits, 1e-3)


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("budget", [4096, 32])
def test_hidden_states_are_those_of_single_calls(models, tokenizer, plain_results, family, budget):
    states = make_kernel(models(family), tokenizer, token_budget=budget).hidden_states(PROMPTS)

    assert states.dtype.name == "float32"
    assert states.tolist() == close(plain_results(family).states)


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("budget", [4096, 32])
def test_the_loss_of_a_text_is_the_mean_over_its_tokens(models, tokenizer, plain, family, budget):
    texts = [prompt for prompt in PROMPTS if len(prompt) > 1]  # a single token has no loss
    losses = make_kernel(models(family), tokenizer, token_budget=budget).losses(texts)

    for text, loss in zip(texts, losses, strict=True):
        log_probabilities = plain.log_probabilities(models(family), tokenizer, text)
        mean = math.fsum(log_probabilities) / len(log_probabilities)
        assert loss == pytest.approx(-mean, abs=1e-4), text


CHANNEL_CONTEXT = "answer: person question: who wrote the play?\nanswer: number question: about people?\n"


def channel_prompts(query):
    """Return the prompts of a query for a noisy channel: one for each label, which is followed by the query."""
    return [f"{CHANNEL_CONTEXT}answer: {label} question: {query}?\n" for label in LABELS]


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("token_budget", [4096, 32])
def test_the_noisy_channel_of_the_paper_scores_the_tokens_after_the_label(
    models, tokenizer, plain, family, token_budget
):
    kernel = make_kernel(models(family), tokenizer, variant="paper", token_budget=token_budget)
    rows = kernel.batch([channel_prompts(query) for query in QUERIES], LABELS)

    for query, row in zip(QUERIES, rows, strict=True):
        scores = []
        for label, prompt in zip(LABELS, channel_prompts(query), strict=True):
            log_probabilities = plain.log_probabilities(models(family), tokenizer, prompt)
            tokens_up_to_label = token_count(tokenizer, f"{CHANNEL_CONTEXT}answer: {label}")
            after_label = log_probabilities[tokens_up_to_label - 1 :]  # the first token has none
            scores.append(math.fsum(after_label))
        assert row == pytest.approx(softmax(scores), abs=1e-4), query


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("budget", [4096, 32])
def test_the_noisy_channel_of_the_release_scores_the_mean_of_all_tokens(models, tokenizer, plain, family, budget):
    kernel = make_kernel(models(family), tokenizer, variant="0.1.1", token_budget=budget)
    rows = kernel.batch([channel_prompts(query) for query in QUERIES], LABELS)

    for query, row in zip(QUERIES, rows, strict=True):
        scores = []
        for prompt in channel_prompts(query):
            log_probabilities = plain.log_probabilities(models(family), tokenizer, prompt)
            scores.append(math.fsum(log_probabilities) / len(log_probabilities))
        assert row == pytest.approx(softmax(scores), abs=1e-4), query


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_a_batch_of_several_prompts_a_query_is_a_noisy_channel(models, tokenizer, variant):
    kernel = make_kernel(models("Llama"), tokenizer, variant=variant)
    queries = [channel_prompts(query) for query in QUERIES]
    assert kernel.batch(queries, LABELS) == kernel.noisy_channel(queries, LABELS)


LONG_LABELS = ["person", "a very long location", "number of people"]
"""Labels with different numbers of tokens."""
PROMPTS_BEFORE_LABELS = [prompt.rstrip() + "\n" for prompt in PROMPTS if len(prompt) > 1]
"""They end so that a label after them has tokens of its own."""


def label_log_probabilities(plain, model, tokenizer, prompt, label):
    """Return the log-probabilities of the tokens of a label after a prompt, from one call of the model."""
    log_probabilities = plain.log_probabilities(model, tokenizer, prompt + label)
    tokens_of_prompt = token_count(tokenizer, prompt)
    return log_probabilities[tokens_of_prompt - 1 :]  # the first token has none


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("token_budget", [4096, 32])
def test_labels_in_full_are_scored_by_the_sum_over_their_tokens(models, tokenizer, plain, family, token_budget):
    kernel = make_kernel(models(family), tokenizer, label_scoring="full", token_budget=token_budget)
    scores = kernel.score(PROMPTS_BEFORE_LABELS, LONG_LABELS)

    for number, prompt in enumerate(PROMPTS_BEFORE_LABELS):
        sums = []
        for label in LONG_LABELS:
            sums.append(math.fsum(label_log_probabilities(plain, models(family), tokenizer, prompt, label)))
        label_mass = math.fsum(math.exp(log_probability) for log_probability in sums)
        assert scores.probabilities[number] == pytest.approx(softmax(sums), abs=1e-4), prompt
        assert scores.label_mass[number] == pytest.approx(label_mass, rel=1e-3), prompt


@pytest.mark.parametrize("family", REQUIRED)
def test_labels_in_full_may_be_scored_by_the_mean_over_their_tokens(models, tokenizer, plain, family):
    """The label mass stays the sum of the probabilities of the labels."""
    options = {"label_scoring": "full", "label_normalisation": "mean", "token_budget": 32}
    scores = make_kernel(models(family), tokenizer, **options).score(PROMPTS_BEFORE_LABELS, LONG_LABELS)

    for number, prompt in enumerate(PROMPTS_BEFORE_LABELS):
        means = []
        label_mass = 0.0
        for label in LONG_LABELS:
            log_probabilities = label_log_probabilities(plain, models(family), tokenizer, prompt, label)
            means.append(math.fsum(log_probabilities) / len(log_probabilities))
            label_mass += math.exp(math.fsum(log_probabilities))
        assert scores.probabilities[number] == pytest.approx(softmax(means), abs=1e-4), prompt
        assert scores.label_mass[number] == pytest.approx(label_mass, rel=1e-3), prompt


def greedy_tokens(model, tokenizer, prompt, count):
    """Return the most likely tokens after a prompt, each from one call of the model, up to the end token."""
    ids = tokenizer(prompt)["input_ids"]
    tokens = []
    while len(tokens) < count:
        with torch.no_grad():
            input_ids = torch.tensor([ids + tokens], device=model.device)
            token = model(input_ids=input_ids, use_cache=False).logits[0, -1].argmax().item()
        if token == tokenizer.eos_token_id:
            break
        tokens.append(token)
    return tokens


def decoded(tokenizer, tokens):
    """Return the text of tokens, without the last ones if they are a part of a character only."""
    while tokens and tokenizer.decode(tokens, skip_special_tokens=True).endswith("\ufffd"):
        tokens = tokens[:-1]
    return tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("reuse", [True, False])
def test_generation_is_greedy(models, tokenizer, family, reuse):
    kernel = make_kernel(models(family), tokenizer, prefix_reuse=reuse, token_budget=200)
    texts = kernel.generate(PROMPTS[:5], max_new_tokens=6)

    for prompt, text in zip(PROMPTS[:5], texts, strict=True):
        tokens = greedy_tokens(models(family), tokenizer, prompt, count=6)
        assert text == decoded(tokenizer, tokens), prompt


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("reuse", [True, False])
def test_samples_depend_on_the_seed_alone(models, tokenizer, family, reuse):
    kernel = make_kernel(models(family), tokenizer, prefix_reuse=reuse, token_budget=200)
    first = kernel.generate(PROMPTS[:5], 3, temperature=0.9, seed=1)

    assert kernel.generate(PROMPTS[:5], 3, temperature=0.9, seed=1) == first
    assert kernel.generate(PROMPTS[:5], 3, temperature=0.9, seed=2) != first


def argmax(row):
    """Return the index of the greatest number, which a row with NaN does not have."""
    assert not any(map(math.isnan, row)), row
    return row.index(max(row))


def margin(row):
    """Return by how much the most likely label is ahead of the next one."""
    second, first = sorted(row)[-2:]
    return first - second


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Qwen2", "Mamba"])
def test_bfloat16_predicts_the_same_but_for_near_ties(models, tokenizer, family):
    exact = CausalLMKernel(models(family), tokenizer).batch(PROMPTS, LABELS)
    copied = copy.deepcopy(models(family))
    rounded = CausalLMKernel(copied, tokenizer, dtype="bfloat16").batch(PROMPTS, LABELS)

    changed = [number for number in range(len(PROMPTS)) if argmax(exact[number]) != argmax(rounded[number])]
    assert len(changed) <= 2, f"of {len(PROMPTS)} prompts"
    for number in changed:
        assert margin(exact[number]) < 0.1, f"prompt {number}: {exact[number]} became {rounded[number]}"


@pytest.mark.parametrize("family", ["Llama", "Qwen2"])
def test_prompts_share_their_beginning_in_bfloat16(models, tokenizer, family):
    kernel = CausalLMKernel(copy.deepcopy(models(family)), tokenizer, dtype="bfloat16")
    kernel.batch(PROMPTS, LABELS)
    assert kernel.runner().forward.capabilities.sharing


@pytest.mark.parametrize("family", ["Llama", "Qwen2"])
def test_positions_that_stretch_with_length(make_model, tokenizer, plain, family):
    """The model remembers the stretching of its longest input, so each expected row is of a model of its own."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}

    def new_model():
        return make_model(family, rope_parameters=rope, rope_scaling=dict(rope), max_position_embeddings=32)

    prompts = [*PROMPTS, CONTEXT + PROMPTS[0], CONTEXT + CONTEXT + PROMPTS[0]]
    rows = CausalLMKernel(new_model(), tokenizer, max_length=256).batch(prompts, LABELS)

    for prompt, row in zip(prompts, rows, strict=True):
        assert row == pytest.approx(plain.label_probabilities(new_model(), tokenizer, prompt, LABELS), abs=1e-4), prompt


def test_prompts_beyond_the_length_from_which_positions_stretch_are_not_batched(make_model, tokenizer):
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    model = make_model("Llama", rope_parameters=rope, rope_scaling=dict(rope), max_position_embeddings=32)
    kernel = CausalLMKernel(model, tokenizer, max_length=256)

    assert kernel.runner().forward.limits.batching == 32
    assert max(token_count(tokenizer, prompt) for prompt in PROMPTS) > 32, "a prompt is longer"
