"""``variant="paper"`` against the arithmetic of the authors, written again with NumPy; further methods of papers."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from operator import index
from typing import Any

import numpy
import pytest

from StaICC import Dataset, Normal
from StaICC.benchmarks.tasks.label_noise import GLER
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivity
from StaICC.errors import ArgumentError
from StaICC.methods import run as ms
from StaICC.methods.demonstration_orders import random_orders
from StaICC.methods.forecast import forecast_method
from StaICC.methods.run import Method
from StaICC.methods.training_prompts import GivenSource, SameDemonstrations, domain_texts, labelled_prompts
from tests.methods.fakes import Kernel, mini, rows_of
from tests.methods.fakes import mini as bench

TEXTS = ("N/A", "[MASK]", "")


def shown(experimentor: Any) -> list[Any]:
    """The demonstrations of each query, as rows."""
    lists = experimentor.demonstration_lists()
    size = len(experimentor.test_set())
    return [
        [experimentor.demonstration_set()[place] for place in lists[repeat * size + row]]
        for repeat in range(2)
        for row in range(experimentor.limit or size)
    ]


def authors_prior(kernel: Any, prompts: list[str], labels: list[str]) -> Any:
    """get_p_content_free of Zhao et al.: mean of the raw probabilities of the label tokens, then divided by the sum."""
    raw = numpy.array(
        [
            numpy.exp(kernel.features([prompt], labels, ["log_probabilities"])["log_probabilities"][0])
            for prompt in prompts
        ]
    )
    mean = raw.mean(axis=0)
    return mean / mean.sum()


@pytest.mark.parametrize("k", [0, 2])
def test_contextual_calibration_is_the_authors(k: int) -> None:
    kernel, experimentor = Kernel(), bench(6, k)[0]
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    predicted = rows_of(ms.Method("contextual_calibration", kernel).run(bench(6, k), return_outputs=True))
    plain = rows_of(bench(6, k)(kernel, return_outputs=True))
    assert len(predicted) == 12
    differ = 0
    for row, answer, demonstrations in zip(plain, predicted, shown(experimentor), strict=True):
        prior = authors_prior(Kernel(), [write(demonstrations, [text]) for text in TEXTS], labels)
        weights = numpy.linalg.inv(numpy.identity(len(labels)) * prior)
        calibrated = numpy.matmul(weights, numpy.expand_dims(numpy.array(row) / numpy.sum(row), -1))[:, 0]
        expected = numpy.exp(calibrated - calibrated.max())
        assert answer == pytest.approx((expected / expected.sum()).tolist(), abs=1e-9)
        assert int(numpy.argmax(calibrated)) == answer.index(max(answer))
        differ += row.index(max(row)) != answer.index(max(answer))
    assert differ


def test_domain_calibration_is_the_authors() -> None:
    kernel, experimentor = Kernel(), bench(6)[0]
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    texts = domain_texts(experimentor.calibration_set(), 20)
    lengths = [len(row[0][0].split()) for row in experimentor.calibration_set()]
    assert {len(text.split()) for (text,) in texts} == {int(numpy.mean(lengths)) + 1}  # the full stop is a word here
    words = {word for row in experimentor.calibration_set() for word in row[0][0].lower().split()}
    assert {word for (text,) in texts for word in text.removesuffix(" .").split()} <= words
    assert len(set(texts)) == 20
    predicted = rows_of(ms.Method("domain_calibration", kernel).run(bench(6), return_outputs=True))
    plain = rows_of(bench(6)(kernel, return_outputs=True))
    for row, answer, demonstrations in zip(plain, predicted, shown(experimentor), strict=True):
        prior = authors_prior(Kernel(), [write(demonstrations, list(text)) for text in texts], labels)
        ratio = numpy.array(row) / prior
        assert answer == pytest.approx((ratio / ratio.sum()).tolist(), abs=1e-9)


def test_templates_and_label_noise_are_those_of_the_query() -> None:
    """The content-free prompts of a condition have its template; those of GLER its wrong labels."""
    for kind in (TemplateSensitivity, GLER):
        kernel = Kernel()
        experimentor = bench(2, kind=kind)[0]
        assert ms.Method("contextual_calibration", kernel).run(bench(2, kind=kind)).complete
        queries = {query.prompt: query for query in experimentor.all_queries()}
        test = experimentor.test_set()
        for prompt, query in queries.items():
            head, text, tail = prompt.rpartition(test.texts(query.row)[0])
            assert text
            assert {head + centroid + tail for centroid in TEXTS} <= set(kernel.ran)


def test_hidden_calibration_is_the_authors() -> None:
    """Sixteen rows of each label (all where there are fewer), their centroids, the nearest one."""
    kernel, experimentor = Kernel(), bench(6)[0]
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    source = GivenSource(write, experimentor.calibration_set(), labels, 1, 2)
    prompts, drawn = labelled_prompts(source, per_label=16)
    available = Counter(index(row[1]) for row in experimentor.calibration_set())
    assert Counter(drawn) == {label: min(16, count) for label, count in available.items()}
    assert len(set(prompts)) == len(prompts)
    rows = [((f"text {row}",), "a") for row in range(4)]  # none is among its own demonstrations, with its label
    shows_itself = GivenSource(lambda shown, text: "x" * ((tuple(text), "a") in shown), rows, ["a"], 40, 2)
    own = labelled_prompts(shows_itself)
    assert not any(own.prompts)
    rare = [*[((f"text {row}",), "a") for row in range(40)], (("one",), "b"), (("two",), "c")]
    sources = [GivenSource(lambda shown, text: "", rare, ["a", "b", "c"], number, 0) for number in (1, 2, 4)]
    covering = [labelled_prompts(source).labels for source in sources]
    assert covering == [[0], [0, 1], [0, 0, 2, 1]]
    states = kernel.hidden_states(prompts).astype(float)
    centroids = [states[numpy.array(drawn) == label].mean(axis=0) for label in range(len(labels))]
    predicted = rows_of(ms.Method("hidden_calibration", kernel).run(bench(6), return_outputs=True))
    for prompt, row in zip(experimentor.prompt_set(), predicted, strict=True):
        distances = [numpy.linalg.norm(kernel.hidden_states([prompt])[0].astype(float) - text) for text in centroids]
        assert row.index(max(row)) == int(numpy.argmin(distances))


def test_k_nn_has_balanced_anchors_and_may_share_demonstrations() -> None:
    kernel, experimentor = Kernel(), bench(6)[0]
    assert ms.Method("knn_prompt", kernel, calibration_number=13).run(bench(6)).timing["training_prompts"] == 12
    for options in ({}, {"shared_demonstrations": True}):
        kernel = Kernel()
        predicted = ms.Method("knn_prompt", kernel, samples_per_label=5, **options).run(bench(6), return_outputs=True)
        assert predicted.timing["training_prompts"] == 15
        first = experimentor.prompt_set()[0]
        head = first[: first.index(experimentor.test_set().texts(0)[0])]
        sharing = {prompt.startswith(head) for prompt in kernel.ran}
        assert sharing == ({True} if options else {True, False})
        assert len(rows_of(predicted)) == (6 if options else 12)  # demonstrations set by hand: each example once
    # the authors' distance and vote, on the same anchors
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    prompts, drawn = labelled_prompts(GivenSource(write, experimentor.calibration_set(), labels, 1, 2), per_label=5)

    def distribution(prompt: str) -> Any:
        logits = kernel.full_vocabulary_logits([prompt])[0].astype(float)
        return numpy.exp(logits) / numpy.exp(logits).sum()

    anchors = numpy.array([distribution(prompt) for prompt in prompts])
    predicted = rows_of(ms.Method("knn_prompt", kernel, samples_per_label=5).run(bench(6), return_outputs=True))
    for prompt, row in zip(experimentor.prompt_set(), predicted, strict=True):
        divergence = (anchors * (numpy.log(anchors) - numpy.log(distribution(prompt)))).mean(axis=1)
        nearest = numpy.argsort(divergence)[:3]
        assert row == pytest.approx([sum(drawn[place] == label for place in nearest) / 3 for label in range(3)])


def test_sa_icl_draws_orders_of_the_candidates_and_adds_the_order_of_topk_last() -> None:
    n_queries, n_candidates, k, n_orders = 4, 30, 4, 10
    orders_of_queries = random_orders(n_queries, n_candidates, k, n_orders, nearest_last=True)
    for query, orders in enumerate(orders_of_queries):
        assert len(set(orders)) == n_orders, f"query {query}: {orders}"
        assert orders[-1] == (3, 2, 1, 0), f"query {query}"  # the authors' build_instruction writes the nearest last
    drawn = {candidate for orders in orders_of_queries for order in orders for candidate in order}
    assert drawn <= set(range(n_candidates))
    assert max(drawn) > 10, "only the nearest candidates are drawn"
    of_first_two = random_orders(2, n_candidates, k, n_orders, nearest_last=True)
    assert of_first_two == orders_of_queries[:2], "the orders of a query depend on how many queries follow"


def test_sa_icl_needs_as_many_demonstrations_as_candidates() -> None:
    rows = [((f"text {number}",), number % 2) for number in range(60)]
    data = Dataset.from_rows(rows, name="few", label_space=["a", "b"])
    benchmark = Normal(datasets=[data], limit=2, k=2)
    size = len(benchmark[0].demonstration_set())
    assert ms.Method("sa_icl", Kernel()).run(benchmark).complete
    with pytest.raises(ArgumentError, match=f"got {size} demonstrations with text, expected at least {size + 1}"):
        ms.Method("sa_icl", Kernel(), candidates=size + 1).run(benchmark)
    with pytest.raises(ArgumentError, match="candidates must be an integer of at least 2"):
        ms.Method("sa_icl", Kernel(), candidates=1).run(benchmark)


def test_a_calibration_is_trained_for_each_template_but_in_the_release_once() -> None:
    for variant, training in (("paper", 9 * 6), ("0.1.1", 8)):
        options: Any = {"samples_per_label": 2} if variant == "paper" else {}
        method = ms.Method("hidden_calibration", Kernel(), variant, 8, **options)
        assert method.run(bench(2, kind=TemplateSensitivity)).timing["training_prompts"] == training


# -- ensembles over orders, calibrated replies and task vectors, against their arithmetic written out


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
    source = GivenSource(writer, experimentor.calibration_set(), labels, 9, 2)
    prompts, truth = labelled_prompts(source)
    tokens = [tokenizer(label)["input_ids"][-1] for label in labels]
    vectors = numpy.mean([passed(model, tokenizer(prompt)["input_ids"])[0] for prompt in prompts[:4]], axis=0)

    def predicted(prompt: str, layer: int) -> Any:
        scores = passed(model, tokenizer(prompt)["input_ids"], layer, vectors[layer])[1][tokens]
        return numpy.exp(scores - scores.max()) / numpy.exp(scores - scores.max()).sum()

    bare = labelled_prompts(SameDemonstrations(source, [])).prompts[4:]
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
