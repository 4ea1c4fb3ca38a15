"""Batches, packed rows and cached prefixes give what the plain model gives, for many families."""

from __future__ import annotations

import copy
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
    made = {}

    def get(family):
        if family not in made:
            made[family] = with_random_biases(make_model(family))
        return made[family]

    return get


@pytest.fixture(scope="module")
def expected(models, tokenizer, plain):
    """For each prompt that the plain model computed once: probabilities of the labels, their mass, logits, states."""
    made = {}

    def get(family):
        if family not in made:
            tokens = [tokenizer(label)["input_ids"][-1] for label in LABELS]
            made[family] = []
            for prompt in PROMPTS:
                _, logits, states = plain.call(models(family), tokenizer, prompt)
                mass = logits[-1].softmax(-1)[tokens].sum().item()
                made[family].append((logits[-1][tokens].softmax(-1).tolist(), mass, logits[-1].tolist(), states[-1]))
        return zip(*made[family], strict=True)

    return get


def close(rows, abs=1e-4):
    return [pytest.approx(row, abs=abs) for row in rows]


def make_kernel(model, tokenizer, **options):
    kernel = CausalLMKernel(model, tokenizer, **options)
    kernel.runner().cache_from = 16
    return kernel


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
def test_the_logits_of_labels_need_their_rows_of_the_output_matrix_only(models, tokenizer, family):
    """If they differed from those of the model, such as without a bias, all labels would need the whole matrix."""
    kernel = make_kernel(models(family), tokenizer)
    head = kernel.model.get_output_embeddings()
    assert (head.bias is not None and bool(head.bias.any())) == (family == "GPTJ")
    kernel.batch(PROMPTS[:2], LABELS)  # the first batch compares both
    assert kernel.runner().forward.can.head == "rows"


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(("reuse", "budget"), [(True, 4096), (True, 150), (True, 32), (False, 150)])
def test_batched_equals_one_by_one(models, tokenizer, expected, family, flat, reuse, budget, monkeypatch):
    kernel = make_kernel(models(family), tokenizer, prefix_reuse=reuse, token_budget=budget)
    can = kernel.runner().forward.can
    monkeypatch.setattr(can, "flat", flat and can.flat)
    found = kernel.score(PROMPTS, LABELS)
    rows, masses, _, _ = expected(family)
    assert (found.probabilities, found.label_mass) == (close(rows), close(masses))


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("budget", [4096, 32])
def test_hidden_states_logits_and_losses(models, tokenizer, plain, expected, family, budget):
    kernel = make_kernel(models(family), tokenizer, token_budget=budget)
    states, logits = kernel.hidden_states(PROMPTS), kernel.full_vocabulary_logits(PROMPTS)
    assert states.dtype.name == logits.dtype.name == "float32"
    assert logits.shape == (len(PROMPTS), 384)
    _, _, whole, hidden = expected(family)
    assert logits.tolist() == close(whole, 1e-3)
    assert states.tolist() == close(row.tolist() for row in hidden)
    texts = [prompt for prompt in PROMPTS if len(prompt) > 1]
    logs = [plain.logs(models(family), tokenizer, text) for text in texts]
    assert kernel.losses(texts) == close(-math.fsum(row) / len(row) for row in logs)


def channel(query):
    context = "answer: person question: who wrote the play?\nanswer: number question: about people?\n"
    return [f"{context}answer: {label} question: {query}?\n" for label in LABELS]


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("budget", [4096, 32])
@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_noisy_channel(models, tokenizer, plain, family, budget, variant):
    kernel = make_kernel(models(family), tokenizer, variant=variant, token_budget=budget)
    queries = [channel(query) for query in QUERIES]
    found = kernel.batch(queries, LABELS)
    assert found == kernel.noisy_channel(queries, LABELS)
    for query, row in zip(queries, found, strict=True):
        scores = []
        for prompt, label in zip(query, LABELS, strict=True):
            logs = plain.logs(models(family), tokenizer, prompt)
            head = prompt[: prompt.rindex(f"answer: {label}") + len(f"answer: {label}")]
            given = len(tokenizer(head)["input_ids"])
            scores.append(math.fsum(logs[given - 1 :]) if variant == "paper" else math.fsum(logs) / len(logs))
        assert row == pytest.approx(torch.softmax(torch.tensor(scores).double(), 0).tolist(), abs=1e-4)


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize(("budget", "normalisation"), [(4096, "sum"), (32, "mean")])
def test_labels_scored_in_full(models, tokenizer, plain, family, budget, normalisation):
    options = {"label_scoring": "full", "label_normalisation": normalisation, "token_budget": budget}
    kernel = make_kernel(models(family), tokenizer, **options)
    labels = ["person", "a very long location", "number of people"]
    prompts = [prompt.rstrip() + "\n" for prompt in PROMPTS if len(prompt) > 1]
    found = kernel.score(prompts, labels)
    for prompt, row, mass in zip(prompts, found.probabilities, found.label_mass, strict=True):
        given = len(tokenizer(prompt)["input_ids"])
        logs = [plain.logs(models(family), tokenizer, prompt + label)[given - 1 :] for label in labels]
        scores = [math.fsum(values) / (1 if normalisation == "sum" else len(values)) for values in logs]
        assert row == pytest.approx(torch.softmax(torch.tensor(scores).double(), 0).tolist(), abs=1e-4)
        assert mass == pytest.approx(math.fsum(math.exp(math.fsum(values)) for values in logs), rel=1e-3)


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("reuse", [True, False])
def test_generation_is_greedy(models, tokenizer, family, reuse):
    model = models(family)
    kernel = make_kernel(model, tokenizer, prefix_reuse=reuse, token_budget=200)
    prompts = PROMPTS[:5]
    assert len({tuple(kernel.generate(prompts, 3, temperature=0.9, seed=seed)) for seed in (1, 2, 1)}) == 2
    for prompt, text in zip(prompts, kernel.generate(prompts, max_new_tokens=6), strict=True):
        ids, new = tokenizer(prompt)["input_ids"], []
        while len(new) < 6:
            with torch.no_grad():
                given = torch.tensor([ids + new], device=model.device)
                token = model(input_ids=given, use_cache=False).logits[0, -1].argmax().item()
            if token == tokenizer.eos_token_id:
                break
            new.append(token)
        while new and tokenizer.decode(new, skip_special_tokens=True).endswith("\ufffd"):  # half a character
            new.pop()
        assert text == tokenizer.decode(new, skip_special_tokens=True)


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Qwen2", "Mamba"])
def test_bfloat16_predicts_the_same_but_for_near_ties(models, tokenizer, family):
    kernel = CausalLMKernel(copy.deepcopy(models(family)), tokenizer, dtype="bfloat16")
    exact, rows = CausalLMKernel(models(family), tokenizer).batch(PROMPTS, LABELS), kernel.batch(PROMPTS, LABELS)
    ties = [a for a, b in zip(exact, rows, strict=True) if a.index(max(a)) != b.index(max(b))]
    assert len(ties) <= len(PROMPTS) // 5
    assert [row for row in ties if not sorted(row)[-1] - sorted(row)[-2] < 0.1] == [], "a row of NaN has no tie"
    assert family not in ("Llama", "Qwen2") or kernel.runner().forward.can.sharing


@pytest.mark.parametrize("family", ["Llama", "Qwen2"])
def test_positions_that_stretch_with_length(make_model, tokenizer, plain, family):
    """The stretching is remembered inside the model, so each prompt has a fresh one."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}

    def fresh():
        return make_model(family, rope_parameters=rope, rope_scaling=dict(rope), max_position_embeddings=32)

    kernel = CausalLMKernel(fresh(), tokenizer, max_length=256)
    assert (
        kernel.runner().forward.limits.batching == 32 < max(len(tokenizer(prompt)["input_ids"]) for prompt in PROMPTS)
    )
    prompts = [*PROMPTS, *(CONTEXT * times + PROMPTS[0] for times in (1, 2))]
    found = kernel.batch(prompts, LABELS)
    assert found == close(plain.labels(fresh(), tokenizer, prompt, LABELS) for prompt in prompts)
