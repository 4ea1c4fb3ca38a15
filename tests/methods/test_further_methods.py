"""Ensembles over orders, calibrated replies and task vectors, against their arithmetic written out."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from StaICC import Normal
from StaICC.errors import ArgumentError
from StaICC.methods.calibration.base import labelled_prompts
from StaICC.methods.run import Method, forecast_method

numpy = pytest.importorskip("numpy")

from tests.methods.fakes import Kernel, mini, rows_of  # noqa: E402


def test_the_ensemble_over_all_orders_is_the_mean_over_all_permutations() -> None:
    benchmark, kernel = mini(k=3), Kernel()
    result: Any = Method("permutation_ensemble", kernel, orders=6).run(benchmark, return_outputs=True)
    experimentor = benchmark[0]
    pool, labels = experimentor.demonstration_set(), experimentor.get_label_space()
    for number, row in enumerate(rows_of(result)):
        texts = experimentor.test_set().get_input_text(number)
        orders = permutations(pool[place] for place in experimentor.demonstration_lists()[number])
        prompts = [experimentor.prompt_former.write_prompt_from_dataline(list(order), texts) for order in orders]
        assert row == pytest.approx(numpy.mean(kernel.batch(prompts, labels), 0).tolist())
    few: Any = Method("permutation_ensemble", kernel, orders=2).run(benchmark, return_outputs=True)
    assert few.timing["test_prompts"] == 2 * result.timing["test_prompts"] / 6
    with pytest.raises(ArgumentError, match="got k = 1, expected at least 2"):
        Method("permutation_ensemble", kernel).run(mini(k=1))


class Writer(Kernel):
    """Writes one of the first two labels, the first one mostly, or nothing that is a label."""

    name = "writer"

    def generate(self, prompts: Any, max_new_tokens: int, stop: Any = (), **how: Any) -> list[str]:
        labels, texts = mini()[0].get_label_space(), []
        for prompt in prompts:
            draw = numpy.random.default_rng([how["seed"], *map(ord, prompt)]).random()
            texts.append("nothing" if len(prompt) % 5 == 0 else labels[int(draw > 0.7)])
        return texts


def test_calibrated_replies_are_frequencies_over_their_mean() -> None:
    benchmark = mini(limit=8, k=1, unparsed="wrong")
    plain: Any = Method("generate", Writer(), samples=7).run(benchmark, return_outputs=True)
    found: Any = Method("generation_calibration", Writer(), samples=7).run(benchmark, return_outputs=True)
    named = [number for number, row in enumerate(rows_of(plain)) if row is not None]
    shares = numpy.array([rows_of(plain)[number] for number in named])
    assert 8 < len(named) < 16
    expected = numpy.divide(shares, shares.mean(0), out=numpy.zeros_like(shares), where=shares.mean(0) > 0)
    expected /= expected.sum(1, keepdims=True)
    rows = [rows_of(found)[number] for number in named]
    assert rows == [pytest.approx(row, abs=1e-9) for row in expected.tolist()]
    assert (expected.argmax(1) != shares.argmax(1)).any()
    assert (found.details["mini"].unparsed, "samples=7" in str(found.signature)) == (
        plain.details["mini"].unparsed,
        True,
    )
    with pytest.raises(ArgumentError, match="samples"):
        Method("generation_calibration", Writer(), samples=1).run(benchmark)


# -- task vectors


def passed(model: Any, ids: list[int], layer: int | None = None, vector: Any = None) -> tuple[list[Any], Any]:
    """Call the layers of a Llama one by one: the last position's state of each layer, and its logits."""
    import torch

    inputs, places, size = torch.tensor([ids]), torch.arange(len(ids))[None], len(ids)
    states = []
    with torch.no_grad():
        state = model.model.embed_tokens(inputs)
        turns = model.model.rotary_emb(state, places)
        mask = torch.full((size, size), -torch.inf).triu(1)[None, None]
        for number, block in enumerate(model.model.layers):
            state = block(state, attention_mask=mask, position_ids=places, position_embeddings=turns)
            state = state[0] if isinstance(state, tuple) else state
            if number == layer:
                state[0, -1] = torch.as_tensor(vector)
            states.append(state[0, -1].double().numpy().copy())
        return states, model.lm_head(model.model.norm(state))[0, -1].double().numpy()


@pytest.fixture(scope="module")
def parts(make_model: Any, make_tokenizer: Any) -> tuple[Any, Any]:
    pytest.importorskip("torch")
    return make_model("Llama", max_position_embeddings=1024, num_hidden_layers=3), make_tokenizer()


def test_task_vectors_are_means_of_states_put_into_bare_prompts(parts: Any, tmp_path: Any) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    model, tokenizer = parts
    benchmark = Normal(2, datasets=["mini"], limit=3)
    kernel, store = CausalLMKernel(model, tokenizer), tmp_path / "store.sqlite"
    method = Method("task_vectors", kernel, calibration_number=9)
    result: Any = method.run(benchmark, return_outputs=True, store=store)
    tokens_used = kernel.tokens_used
    experimentor = benchmark[0]
    labels, writer = experimentor.get_label_space(), experimentor.prompt_former.write_prompt_from_dataline
    drawn = experimentor.calibration_set(), labels, 9, 2, "paper"
    prompts, truth = labelled_prompts(writer, *drawn)
    tokens = [tokenizer(label)["input_ids"][-1] for label in labels]
    vectors = numpy.mean([passed(model, tokenizer(prompt)["input_ids"])[0] for prompt in prompts[:4]], axis=0)

    def predicted(prompt: str, layer: int) -> Any:
        scores = passed(model, tokenizer(prompt)["input_ids"], layer, vectors[layer])[1][tokens]
        return numpy.exp(scores - scores.max()) / numpy.exp(scores - scores.max()).sum()

    bare = labelled_prompts(lambda rows, query: writer([], query), *drawn).prompts[4:]
    correct = [
        sum(predicted(p, n).argmax() == label for p, label in zip(bare, truth[4:], strict=True)) for n in range(3)
    ]
    best = correct.index(max(correct))
    (predictor,) = result.provenance.predictors
    assert predictor.who["task vector layer"] == str(best)
    tests = [writer([], experimentor.test_set().get_input_text(number)) for number in range(3)]
    rows = rows_of(result)
    assert rows[:3] == [pytest.approx(predicted(prompt, best).tolist(), abs=1e-5) for prompt in tests]
    assert (result.timing["training_prompts"], result.timing["test_prompts"]) == (4 + 3 * 5, 3)
    read = [sum(len(tokenizer(prompt)["input_ids"]) for prompt in texts) for texts in (prompts[:4], bare, tests)]
    assert result.timing["training_tokens_read"] == read[0] + 3 * read[1]
    assert (result.timing["test_tokens_read"], result.timing["test_tokens_generated"]) == (read[2], 0)
    assert tokens_used == (read[0] + 3 * read[1] + read[2], 0)
    again: Any = method.run(benchmark, return_outputs=True, store=store, recheck=False)
    assert (rows_of(again), again.timing["reused_prompts"]) == (rows, 4 + 3 * 5 + 3)
    other: Any = Method("task_vectors", kernel, calibration_number=9, layer=(best + 1) % 3).run(benchmark, store=store)
    assert other.timing["test_prompts"] == 3
    assert "|k:0|" in str(other.signature)
    assert f"task_vectors paper n=9 layer={(best + 1) % 3} k=2" in str(other.signature)
    estimate = forecast_method("task_vectors", kernel, [benchmark], calibration_number=9)
    assert (estimate.distinct, estimate.tokens) == (22, tokens_used[0])  # counted, not extrapolated from the probe
