"""Batches, packed rows and cached prefixes give what the plain model gives, for many families."""

from __future__ import annotations

import dataclasses
import math

import pytest

from StaICC.kernels.huggingface.kernel import CausalLMKernel

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

REQUIRED = ("GPT2", "Llama", "OPT", "GPTNeoX", "Falcon", "Qwen2", "Gemma", "Mamba")
MORE = ("Gemma2", "Cohere", "Granite", "Bloom", "Mistral", "GPTJ", "Mixtral")
recent = pytest.mark.skipif(
    int(transformers.__version__.split(".")[0]) < 5,
    reason="earlier releases of transformers share prefixes with fewer families (the results are the same)",
)
NO_SHARING = ("Mamba", "Bloom")
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


def plain_logits(model, tokenizer, text, special=True):
    """The plainest way to the same numbers: the whole model, one sequence, all positions."""
    ids = tokenizer(text, add_special_tokens=special)["input_ids"]
    with torch.no_grad():
        output = model(input_ids=torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    return ids, output.logits[0].double(), output.hidden_states[-1][0]


def plain_last(model, tokenizer, prompt, labels):
    _, logits, _ = plain_logits(model, tokenizer, prompt)
    tokens = [tokenizer(label)["input_ids"][-1] for label in labels]
    return torch.softmax(logits[-1][tokens], 0).tolist()


@pytest.fixture(scope="module")
def models(make_model):
    made = {}

    def get(family):
        if family not in made:
            made[family] = make_model(family)
        return made[family]

    return get


@pytest.fixture(scope="module")
def tokenizer(make_tokenizer):
    return make_tokenizer()


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("budget", [4096, 150, 32])
def test_batched_equals_one_by_one(models, tokenizer, family, flat, reuse, budget):
    model = models(family)
    kernel = CausalLMKernel(model, tokenizer, prefix_reuse=reuse, token_budget=budget)
    record = kernel.runner().forward.record
    record.can = dataclasses.replace(record.can, flat=flat and record.can.flat)
    kernel.runner().cache_from = 16
    found = kernel.score(PROMPTS, LABELS)
    for prompt, row, mass in zip(PROMPTS, found.probabilities, found.label_mass, strict=True):
        assert row == pytest.approx(plain_last(model, tokenizer, prompt, LABELS), abs=1e-4)
        _, logits, _ = plain_logits(model, tokenizer, prompt)
        tokens = [tokenizer(label)["input_ids"][-1] for label in LABELS]
        assert mass == pytest.approx(torch.softmax(logits[-1], 0)[tokens].sum().item(), abs=1e-4)
    report = found.report
    assert report.sequences == len(PROMPTS)
    assert report.distinct <= report.computed <= report.tokens


@recent
@pytest.mark.parametrize("family", REQUIRED)
def test_every_prefix_is_computed_once_where_the_model_can(models, tokenizer, family):
    kernel = CausalLMKernel(models(family), tokenizer)
    runner = kernel.runner()
    # Shared positions always pay if masked pairs cost nothing.
    runner.forward.record.can = type(runner.forward.can)(
        *(
            0.0 if name == "attention_weight" else getattr(runner.forward.can, name)
            for name in runner.forward.can.__slots__
        )
    )
    report = kernel.score(PROMPTS, LABELS).report
    if family in NO_SHARING:
        unique = {tuple(tokenizer(prompt)["input_ids"]) for prompt in PROMPTS}
        assert report.computed == sum(map(len, unique))
    else:
        assert report.computed == report.distinct < report.tokens


@recent
@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
def test_what_models_can_do_is_found_out(models, tokenizer, family):
    can = CausalLMKernel(models(family), tokenizer).runner().forward.can
    assert can.packing is can.caching is (family not in NO_SHARING)
    assert can.head == "rows"
    assert can.transform == {"Gemma2": "softcap", "Cohere": "scale", "Granite": "divide"}.get(family, "none")


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("budget", [4096, 32])
def test_hidden_states_and_whole_logits(models, tokenizer, family, budget):
    model = models(family)
    kernel = CausalLMKernel(model, tokenizer, token_budget=budget)
    kernel.runner().cache_from = 16
    states = kernel.hidden_states(PROMPTS)
    logits = kernel.full_vocabulary_logits(PROMPTS)
    assert states.dtype.name == logits.dtype.name == "float32"
    assert logits.shape == (len(PROMPTS), 384)
    for index, prompt in enumerate(PROMPTS):
        _, expected, hidden = plain_logits(model, tokenizer, prompt)
        assert states[index] == pytest.approx(hidden[-1].numpy(), abs=1e-4)
        assert logits[index] == pytest.approx(expected[-1].numpy(), abs=1e-3)


def plain_token_losses(model, tokenizer, text):
    ids, logits, _ = plain_logits(model, tokenizer, text)
    logs = torch.log_softmax(logits, -1)
    return ids, [-logs[i, token].item() for i, token in enumerate(ids[1:])]


@pytest.mark.parametrize("family", [*REQUIRED, *MORE])
@pytest.mark.parametrize("budget", [4096, 32])
def test_losses(models, tokenizer, family, budget):
    texts = [prompt for prompt in PROMPTS if len(prompt) > 1]
    kernel = CausalLMKernel(models(family), tokenizer, token_budget=budget)
    for text, loss in zip(texts, kernel.losses(texts), strict=True):
        _, expected = plain_token_losses(models(family), tokenizer, text)
        assert loss == pytest.approx(math.fsum(expected) / len(expected), abs=1e-4)


def channel(query):
    context = "answer: person question: who wrote the play?\nanswer: number question: about people?\n"
    return [f"{context}answer: {label} question: {query}?\n" for label in LABELS]


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("budget", [4096, 150, 32])
@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_noisy_channel(models, tokenizer, family, budget, variant):
    model = models(family)
    kernel = CausalLMKernel(model, tokenizer, variant=variant, token_budget=budget)
    kernel.runner().cache_from = 16
    queries = [channel(query) for query in QUERIES]
    found = kernel.batch(queries, LABELS)
    assert found == kernel.noisy_channel(queries, LABELS)
    for query, row in zip(queries, found, strict=True):
        scores = []
        for prompt, label in zip(query, LABELS, strict=True):
            ids, losses = plain_token_losses(model, tokenizer, prompt)
            if variant == "0.1.1":
                scores.append(-math.fsum(losses) / len(losses))
            else:
                head = prompt[: prompt.rindex(f"answer: {label}") + len(f"answer: {label}")]
                given = tokenizer(head)["input_ids"]
                assert ids[: len(given)] == given
                scores.append(-math.fsum(losses[len(given) - 1 :]))
        assert row == pytest.approx(torch.softmax(torch.tensor(scores).double(), 0).tolist(), abs=1e-4)


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("budget", [4096, 32])
@pytest.mark.parametrize("normalisation", ["sum", "mean"])
def test_labels_scored_in_full(models, tokenizer, family, budget, normalisation):
    model = models(family)
    kernel = CausalLMKernel(
        model, tokenizer, label_scoring="full", label_normalisation=normalisation, token_budget=budget
    )
    kernel.runner().cache_from = 16
    labels = ["person", "a very long location", "number of people"]
    prompts = [prompt.rstrip() + "\n" for prompt in PROMPTS if len(prompt) > 1]
    found = kernel.score(prompts, labels)
    for prompt, row, mass in zip(prompts, found.probabilities, found.label_mass, strict=True):
        given = len(tokenizer(prompt)["input_ids"])
        sums, counts = [], []
        for label in labels:
            _, losses = plain_token_losses(model, tokenizer, prompt + label)
            sums.append(-math.fsum(losses[given - 1 :]))
            counts.append(len(losses[given - 1 :]))
        scores = sums if normalisation == "sum" else [s / c for s, c in zip(sums, counts, strict=True)]
        assert row == pytest.approx(torch.softmax(torch.tensor(scores).double(), 0).tolist(), abs=1e-4)
        assert mass == pytest.approx(math.fsum(map(math.exp, sums)), rel=1e-3)


@pytest.mark.parametrize("family", REQUIRED)
@pytest.mark.parametrize("reuse", [True, False])
def test_generation_is_greedy(models, tokenizer, family, reuse):
    model = models(family)
    kernel = CausalLMKernel(model, tokenizer, prefix_reuse=reuse, token_budget=200)
    kernel.runner().cache_from = 16
    prompts = PROMPTS[:7]
    found = kernel.generate(prompts, max_new_tokens=6)
    for prompt, text in zip(prompts, found, strict=True):
        ids = tokenizer(prompt)["input_ids"]
        new = []
        while len(new) < 6:
            with torch.no_grad():
                token = model(input_ids=torch.tensor([ids + new]), use_cache=False).logits[0, -1].argmax().item()
            if token == tokenizer.eos_token_id:
                break
            new.append(token)
        while new and tokenizer.decode(new, skip_special_tokens=True).endswith("\ufffd"):  # half a character
            new.pop()
        assert text == tokenizer.decode(new, skip_special_tokens=True)


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Qwen2", "Mamba"])
def test_bfloat16_predicts_the_same_but_for_near_ties(make_model, tokenizer, family):
    model = make_model(family)
    exact = CausalLMKernel(model, tokenizer).batch(PROMPTS, LABELS)
    model = make_model(family)
    kernel = CausalLMKernel(model, tokenizer, dtype="bfloat16")
    rows = kernel.batch(PROMPTS, LABELS)
    near_ties = 0
    for one, other in zip(exact, rows, strict=True):
        if one.index(max(one)) != other.index(max(other)):
            near_ties += 1
            assert sorted(one)[-1] - sorted(one)[-2] < 0.1
    assert near_ties <= len(PROMPTS) // 5
    if family in ("Llama", "Qwen2"):
        assert kernel.runner().forward.can.packing


def test_alibi_is_not_packed(make_model, tokenizer):
    model = make_model("Falcon", alibi=True)
    kernel = CausalLMKernel(model, tokenizer)
    assert not kernel.runner().forward.can.packing
    for prompt, row in zip(PROMPTS, kernel.batch(PROMPTS, LABELS), strict=True):
        assert row == pytest.approx(plain_last(model, tokenizer, prompt, LABELS), abs=1e-4)


@pytest.mark.parametrize("family", ["Llama", "Qwen2"])
def test_positions_that_stretch_with_length(make_model, tokenizer, family):
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    model = make_model(family, rope_parameters=rope, rope_scaling=dict(rope), max_position_embeddings=32)
    kernel = CausalLMKernel(model, tokenizer, max_length=256)
    assert kernel.runner().forward.same_to == 32
    assert any(len(tokenizer(prompt)["input_ids"]) > 32 for prompt in PROMPTS)
    # The stretching is remembered inside the model, so each prompt has a fresh one.
    found = kernel.batch(PROMPTS, LABELS)
    for prompt, row in zip(PROMPTS, found, strict=True):
        fresh = make_model(family, rope_parameters=rope, rope_scaling=dict(rope), max_position_embeddings=32)
        assert row == pytest.approx(plain_last(fresh, tokenizer, prompt, LABELS), abs=1e-4)


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("GPTNeo", {"num_layers": 2, "num_heads": 4, "attention_types": [[["local"], 2]], "window_size": 40}),
        (
            "Llama4Text",
            {
                "intermediate_size_mlp": 64,
                "num_key_value_heads": 2,
                "head_dim": 8,
                "num_hidden_layers": 4,
                "num_local_experts": 2,
                "attention_chunk_size": 40,
                "floor_scale": 40,
                "attn_scale": 1.0,
            },
        ),
    ],
)
def test_attention_that_counts_places_in_the_row(make_model, tokenizer, family, more):
    """A packed row is longer than the window, its prompts are not; the comparison of a few prompts may miss it."""
    model = make_model(family, **more)
    kernel = CausalLMKernel(model, tokenizer)
    kernel.runner().forward.record.checked = True
    prompts = [f"the city and the good people {'who ' * (i % 9)}{i} play" for i in range(40)]
    assert max(len(tokenizer(prompt)["input_ids"]) for prompt in prompts) < 40
    for prompt, row in zip(prompts, kernel.batch(prompts, LABELS), strict=True):
        assert row == pytest.approx(plain_last(model, tokenizer, prompt, LABELS), abs=1e-5)


def test_a_model_whose_layers_differ(make_model, tokenizer):
    """Their sizes cannot be read from the configuration of all layers."""
    model = make_model("Gemma4Text", num_key_value_heads=2, head_dim=8, global_head_dim=16, sliding_window=24)
    for prompt, row in zip(PROMPTS, CausalLMKernel(model, tokenizer).batch(PROMPTS, LABELS), strict=True):
        assert row == pytest.approx(plain_last(model, tokenizer, prompt, LABELS), abs=1e-5)


def test_an_adapter_used_from_certain_tokens_on(make_model, tokenizer):
    """The part of the model below its output head knows nothing of them; ``peft`` finds them in the whole input."""
    peft = pytest.importorskip("peft")
    start = tokenizer("question:")["input_ids"]
    config = peft.LoraConfig(
        task_type="CAUSAL_LM", target_modules=["q_proj"], alora_invocation_tokens=start, init_lora_weights=False
    )
    model = peft.get_peft_model(make_model("Llama"), config).eval()
    for prompt, row in zip(PROMPTS, CausalLMKernel(model, tokenizer).batch(PROMPTS, LABELS), strict=True):
        assert row == pytest.approx(plain_last(model, tokenizer, prompt, LABELS), abs=1e-5)
