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
from tests.methods.fakes import Kernel, benchmark_on_mini, predictions_of
from tests.methods.fakes import benchmark_on_mini as bench

TEXTS = ("N/A", "[MASK]", "")


def demonstrations_of_queries(experimentor: Any) -> list[Any]:
    """The demonstrations of each query, as rows; the lists of all test rows come twice, for the two repeats."""
    lists = experimentor.demonstration_lists()
    pool = experimentor.demonstration_set()
    test_rows = len(experimentor.test_set())
    evaluated_rows = experimentor.limit or test_rows
    demonstrations = []
    for repeat in range(2):
        first = repeat * test_rows
        for positions in lists[first : first + evaluated_rows]:
            demonstrations.append([pool[position] for position in positions])
    return demonstrations


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
    """Their equation: softmax of the probabilities times the inverse of the diagonal matrix of the prior."""
    kernel, experimentor = Kernel(), bench(6, k)[0]
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    plain = predictions_of(bench(6, k)(kernel, return_outputs=True))

    calibrated = predictions_of(ms.Method("contextual_calibration", kernel).run(bench(6, k), return_outputs=True))

    assert len(calibrated) == 6 * 2  # rows and repeats
    changed_predictions = 0
    for plain_row, row, demonstrations in zip(plain, calibrated, demonstrations_of_queries(experimentor), strict=True):
        prior = authors_prior(Kernel(), [write(demonstrations, [text]) for text in TEXTS], labels)
        weights = numpy.linalg.inv(numpy.identity(len(labels)) * prior)
        probabilities = numpy.array(plain_row) / numpy.sum(plain_row)
        scores = numpy.matmul(weights, numpy.expand_dims(probabilities, -1))[:, 0]
        exponentials = numpy.exp(scores - scores.max())
        assert row == pytest.approx((exponentials / exponentials.sum()).tolist(), abs=1e-9)
        assert row.index(max(row)) == int(numpy.argmax(scores))
        changed_predictions += plain_row.index(max(plain_row)) != row.index(max(row))
    assert changed_predictions > 0


def test_texts_of_the_domain_are_random_words_of_the_mean_length() -> None:
    rows = bench(6)[0].calibration_set()

    texts = [text for (text,) in domain_texts(rows, 20)]

    input_texts = [row[0][0] for row in rows]
    domain_words = {word for text in input_texts for word in text.lower().split()}
    mean_words = int(numpy.mean([len(text.split()) for text in input_texts]))
    assert len(set(texts)) == 20
    for text in texts:
        words = text.removesuffix(" .").split()
        assert set(words) <= domain_words, text
        assert len(text.split()) == mean_words + 1, text  # the full stop is a word here


def test_domain_calibration_is_the_authors() -> None:
    """Their equation: the probabilities divided by the mean probabilities of random texts of the domain."""
    kernel, experimentor = Kernel(), bench(6)[0]
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    texts = domain_texts(experimentor.calibration_set(), 20)
    plain = predictions_of(bench(6)(kernel, return_outputs=True))

    calibrated = predictions_of(ms.Method("domain_calibration", kernel).run(bench(6), return_outputs=True))

    for plain_row, row, demonstrations in zip(plain, calibrated, demonstrations_of_queries(experimentor), strict=True):
        prior = authors_prior(Kernel(), [write(demonstrations, list(text)) for text in texts], labels)
        ratio = numpy.array(plain_row) / prior
        assert row == pytest.approx((ratio / ratio.sum()).tolist(), abs=1e-9)


@pytest.mark.parametrize("kind", [TemplateSensitivity, GLER])
def test_content_free_prompts_are_those_of_queries_with_another_text(kind: Any) -> None:
    """They have the template of the query (template sensitivity), and its wrong labels (GLER)."""
    kernel = Kernel()
    experimentor = bench(2, kind=kind)[0]

    result = ms.Method("contextual_calibration", kernel).run(bench(2, kind=kind))

    assert result.complete
    for query in experimentor.all_queries():
        (text,) = experimentor.test_set().texts(query.row)[:1]
        before, found, after = query.prompt.rpartition(text)
        assert found == text
        content_free_prompts = {before + content_free + after for content_free in TEXTS}
        assert content_free_prompts <= set(kernel.ran), query.prompt


def test_training_prompts_are_sixteen_of_each_label_or_all() -> None:
    experimentor = bench(6)[0]
    write = experimentor.prompt_former.write_prompt_from_dataline
    source = GivenSource(write, experimentor.calibration_set(), experimentor.get_label_space(), 1, 2)

    prompts, drawn = labelled_prompts(source, per_label=16)

    rows_of_label = Counter(index(row[1]) for row in experimentor.calibration_set())
    assert Counter(drawn) == {label: min(16, count) for label, count in rows_of_label.items()}
    assert len(set(prompts)) == len(prompts)


def test_a_training_row_is_not_among_its_own_demonstrations() -> None:
    rows = [((f"text {number}",), "a") for number in range(4)]

    def write(demonstrations: Any, texts: Any) -> str:
        return "shows itself" if (tuple(texts), "a") in demonstrations else "shows others"

    prompts, _ = labelled_prompts(GivenSource(write, rows, ["a"], 40, 2))

    assert set(prompts) == {"shows others"}


@pytest.mark.parametrize(("number", "drawn"), [(1, [0]), (2, [0, 1]), (4, [0, 0, 2, 1])])
def test_training_rows_cover_the_labels_as_far_as_their_number_allows(number: int, drawn: list[int]) -> None:
    """The label a has 40 rows, b and c have one each."""
    frequent = [((f"text {row}",), "a") for row in range(40)]
    rows = [*frequent, (("one",), "b"), (("two",), "c")]
    source = GivenSource(lambda demonstrations, texts: "", rows, ["a", "b", "c"], number, 0)

    assert labelled_prompts(source).labels == drawn


def test_hidden_calibration_is_the_authors() -> None:
    """Their prediction: the label whose centroid of hidden states is the nearest one."""
    kernel, experimentor = Kernel(), bench(6)[0]
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    source = GivenSource(write, experimentor.calibration_set(), labels, 1, 2)
    prompts, drawn = labelled_prompts(source, per_label=16)

    predicted = predictions_of(ms.Method("hidden_calibration", kernel).run(bench(6), return_outputs=True))

    states = kernel.hidden_states(prompts).astype(float)
    centroids = [states[numpy.array(drawn) == label].mean(axis=0) for label in range(len(labels))]
    for prompt, row in zip(experimentor.prompt_set(), predicted, strict=True):
        state = kernel.hidden_states([prompt])[0].astype(float)
        distances = [numpy.linalg.norm(state - centroid) for centroid in centroids]
        assert row.index(max(row)) == int(numpy.argmin(distances))


def test_k_nn_has_equally_many_anchors_of_each_label() -> None:
    """Of 13 anchors for three labels, each label has four."""
    result = ms.Method("knn_prompt", Kernel(), calibration_number=13).run(bench(6))

    assert result.timing["training_prompts"] == 3 * 4


def demonstrations_of_first_query() -> str:
    """Return the text of the first prompt before the text of its query."""
    experimentor = bench(6)[0]
    first_prompt = experimentor.prompt_set()[0]
    (text_before_query, _query) = first_prompt.split(experimentor.test_set().texts(0)[0])
    return text_before_query


def test_k_nn_may_share_the_demonstrations_of_the_first_query() -> None:
    """Shared demonstrations are set by hand, so that each of six test rows is evaluated once, not twice."""
    kernel = Kernel()
    method = ms.Method("knn_prompt", kernel, samples_per_label=5, shared_demonstrations=True)

    result: Any = method.run(bench(6), return_outputs=True)

    assert result.timing["training_prompts"] == 3 * 5
    assert len(predictions_of(result)) == 6
    shared = demonstrations_of_first_query()
    for prompt in kernel.ran:
        assert prompt.startswith(shared)


def test_k_nn_by_default_has_the_demonstrations_of_each_query() -> None:
    kernel = Kernel()

    result: Any = ms.Method("knn_prompt", kernel, samples_per_label=5).run(bench(6), return_outputs=True)

    assert result.timing["training_prompts"] == 3 * 5
    assert len(predictions_of(result)) == 6 * 2
    shared = demonstrations_of_first_query()
    assert [prompt for prompt in kernel.ran if not prompt.startswith(shared)] != []


def test_k_nn_has_the_distance_and_the_vote_of_the_authors() -> None:
    """The three anchors with the smallest divergence of the query's next-token distribution from theirs vote."""
    kernel, experimentor = Kernel(), bench(6)[0]
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    prompts, drawn = labelled_prompts(GivenSource(write, experimentor.calibration_set(), labels, 1, 2), per_label=5)

    predicted = predictions_of(ms.Method("knn_prompt", kernel, samples_per_label=5).run(bench(6), return_outputs=True))

    def distribution(prompt: str) -> Any:
        logits = kernel.full_vocabulary_logits([prompt])[0].astype(float)
        return numpy.exp(logits) / numpy.exp(logits).sum()

    anchors = numpy.array([distribution(prompt) for prompt in prompts])
    for prompt, row in zip(experimentor.prompt_set(), predicted, strict=True):
        divergences = (anchors * (numpy.log(anchors) - numpy.log(distribution(prompt)))).mean(axis=1)
        votes = [drawn[anchor] for anchor in numpy.argsort(divergences)[:3]]
        assert row == pytest.approx([votes.count(label) / 3 for label in range(3)])


def sa_icl_orders(queries: int) -> list[list[tuple[int, ...]]]:
    """Return, for each query, ten orders of four of its thirty nearest candidates (0: the nearest one)."""
    return random_orders(queries, 30, 4, 10, nearest_last=True)


def test_sa_icl_draws_different_orders_and_adds_the_order_of_topk_last() -> None:
    """The authors' build_instruction writes the nearest candidate last."""
    for orders in sa_icl_orders(queries=4):
        assert len(set(orders)) == 10
        assert orders[-1] == (3, 2, 1, 0)


def test_sa_icl_draws_from_all_candidates() -> None:
    drawn = set()
    for orders in sa_icl_orders(queries=4):
        for order in orders:
            drawn.update(order)
    assert drawn <= set(range(30))
    assert max(drawn) > 10, "only the nearest candidates are drawn"


def test_the_orders_of_sa_icl_for_a_query_do_not_depend_on_the_queries_after_it() -> None:
    assert sa_icl_orders(queries=2) == sa_icl_orders(queries=4)[:2]


@pytest.fixture
def few_rows() -> Normal:
    """Return a benchmark on a data set of sixty rows."""
    rows = [((f"text {number}",), number % 2) for number in range(60)]
    data = Dataset.from_rows(rows, name="few", label_space=["a", "b"])
    return Normal(datasets=[data], limit=2, k=2)


def test_sa_icl_has_by_default_no_more_candidates_than_demonstrations(few_rows: Normal) -> None:
    assert ms.Method("sa_icl", Kernel()).run(few_rows).complete


def test_sa_icl_needs_as_many_demonstrations_as_candidates(few_rows: Normal) -> None:
    size = len(few_rows[0].demonstration_set())
    with pytest.raises(ArgumentError, match=f"got {size} demonstrations with text, expected at least {size + 1}"):
        ms.Method("sa_icl", Kernel(), candidates=size + 1).run(few_rows)


def test_sa_icl_needs_two_candidates(few_rows: Normal) -> None:
    with pytest.raises(ArgumentError, match="candidates must be an integer of at least 2"):
        ms.Method("sa_icl", Kernel(), candidates=1).run(few_rows)


def test_a_calibration_is_trained_for_each_of_nine_templates() -> None:
    method = ms.Method("hidden_calibration", Kernel(), "paper", 8, samples_per_label=2)

    result = method.run(bench(2, kind=TemplateSensitivity))

    prompts_of_template = 3 * 2  # two of each label
    assert result.timing["training_prompts"] == 9 * prompts_of_template


def test_a_calibration_of_the_release_is_trained_once_for_all_templates() -> None:
    method = ms.Method("hidden_calibration", Kernel(), "0.1.1", 8)

    result = method.run(bench(2, kind=TemplateSensitivity))

    assert result.timing["training_prompts"] == 8


# -- ensembles over orders, calibrated replies and task vectors, against their arithmetic written out


def test_the_ensemble_over_all_orders_is_the_mean_over_all_permutations() -> None:
    benchmark, kernel = benchmark_on_mini(k=3), Kernel()
    experimentor = benchmark[0]
    pool, labels = experimentor.demonstration_set(), experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline

    result: Any = Method("permutation_ensemble", kernel, orders=6).run(benchmark, return_outputs=True)

    for number, row in enumerate(predictions_of(result)):
        texts = experimentor.test_set().get_input_text(number)
        demonstrations = [pool[position] for position in experimentor.demonstration_lists()[number]]
        prompts = [write(list(order), texts) for order in permutations(demonstrations)]
        assert row == pytest.approx(numpy.mean(kernel.batch(prompts, labels), 0).tolist()), f"query {number}"


def test_the_cost_of_the_ensemble_is_proportional_to_its_orders() -> None:
    benchmark = benchmark_on_mini(k=3)
    two = Method("permutation_ensemble", Kernel(), orders=2).run(benchmark).timing["test_prompts"]
    six = Method("permutation_ensemble", Kernel(), orders=6).run(benchmark).timing["test_prompts"]

    assert two / 2 == six / 6


def test_an_ensemble_over_orders_needs_two_demonstrations() -> None:
    with pytest.raises(ArgumentError, match="got k = 1, expected at least 2"):
        Method("permutation_ensemble", Kernel()).run(benchmark_on_mini(k=1))


class Writer(Kernel):
    """Writes one of the first two labels, the first one mostly, or nothing that is a label."""

    name = "writer"

    def generate(self, prompts: Any, max_new_tokens: int, stop: Any = (), **how: Any) -> list[str]:
        labels, texts = benchmark_on_mini()[0].get_label_space(), []
        for prompt in prompts:
            draw = numpy.random.default_rng([how["seed"], *map(ord, prompt)]).random()
            texts.append("nothing" if len(prompt) % 5 == 0 else labels[int(draw > 0.7)])
        return texts


def test_calibrated_replies_are_frequencies_over_their_mean() -> None:
    benchmark = benchmark_on_mini(limit=8, k=1, unparsed="wrong")
    plain = predictions_of(Method("generate", Writer(), samples=7).run(benchmark, return_outputs=True))

    calibrated = predictions_of(
        Method("generation_calibration", Writer(), samples=7).run(benchmark, return_outputs=True)
    )

    with_label = [number for number, row in enumerate(plain) if row is not None]
    assert 8 < len(with_label) < 16  # some queries have no reply with a label
    frequencies = numpy.array([plain[number] for number in with_label])
    means = frequencies.mean(0)
    ratios = numpy.divide(frequencies, means, out=numpy.zeros_like(frequencies), where=means > 0)
    expected = ratios / ratios.sum(1, keepdims=True)
    for number, row in zip(with_label, expected.tolist(), strict=True):
        assert calibrated[number] == pytest.approx(row, abs=1e-9), f"query {number}"
    assert (expected.argmax(1) != frequencies.argmax(1)).any(), "the calibration changes some predictions"


def test_calibrated_replies_have_the_unparsed_replies_and_the_signature_of_their_samples() -> None:
    benchmark = benchmark_on_mini(limit=8, k=1, unparsed="wrong")
    plain: Any = Method("generate", Writer(), samples=7).run(benchmark)
    calibrated: Any = Method("generation_calibration", Writer(), samples=7).run(benchmark)

    assert calibrated.details["mini"].unparsed == plain.details["mini"].unparsed
    assert "samples=7" in str(calibrated.signature)


def test_calibrated_replies_need_two_samples() -> None:
    with pytest.raises(ArgumentError, match="samples"):
        Method("generation_calibration", Writer(), samples=1).run(benchmark_on_mini(limit=8, k=1, unparsed="wrong"))


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


TASK_VECTOR_PROMPTS = 9
TEST_ROWS = 3


class TaskVectors:
    """Task vectors of a model of three layers, from their definition.

    The vector of a layer is the mean of its states of four prompts with demonstrations. The other five of nine
    prompts, written without demonstrations, choose the layer: the first one with the most correct predictions.
    """

    def __init__(self, parts: tuple[Any, Any]) -> None:
        self.model, self.tokenizer = parts
        experimentor = task_vector_benchmark()[0]
        labels = experimentor.get_label_space()
        write = experimentor.prompt_former.write_prompt_from_dataline
        self.label_tokens = [self.tokens(label)[-1] for label in labels]
        source = GivenSource(write, experimentor.calibration_set(), labels, TASK_VECTOR_PROMPTS, 2)
        prompts, true_labels = labelled_prompts(source)
        self.prompts_of_vectors = prompts[:4]
        self.prompts_of_choice = labelled_prompts(SameDemonstrations(source, [])).prompts[4:]
        self.labels_of_choice = true_labels[4:]
        self.test_prompts = [write([], experimentor.test_set().get_input_text(row)) for row in range(TEST_ROWS)]
        states = [passed(self.model, self.tokens(prompt))[0] for prompt in self.prompts_of_vectors]
        self.vectors = numpy.mean(states, axis=0)

    def tokens(self, text: str) -> Any:
        return self.tokenizer(text)["input_ids"]

    def token_count(self, prompts: list[Any]) -> int:
        return sum(len(self.tokens(prompt)) for prompt in prompts)

    def probabilities(self, prompt: Any, layer: int) -> Any:
        """The label probabilities of a prompt with the vector of a layer in the place of its state."""
        _, logits = passed(self.model, self.tokens(prompt), layer, self.vectors[layer])
        scores = logits[self.label_tokens]
        exponentials = numpy.exp(scores - scores.max())
        return exponentials / exponentials.sum()

    def best_layer(self) -> int:
        correct = [0, 0, 0]
        for layer in range(3):
            for prompt, label in zip(self.prompts_of_choice, self.labels_of_choice, strict=True):
                correct[layer] += self.probabilities(prompt, layer).argmax() == label
        return correct.index(max(correct))


def task_vector_benchmark() -> Normal:
    return Normal(2, datasets=["mini"], limit=TEST_ROWS)


def task_vector_kernel(parts: tuple[Any, Any]) -> Any:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel(*parts)


def test_task_vectors_are_means_of_states_put_into_bare_prompts(parts: Any) -> None:
    method = Method("task_vectors", task_vector_kernel(parts), calibration_number=TASK_VECTOR_PROMPTS)

    result: Any = method.run(task_vector_benchmark(), return_outputs=True)

    expected = TaskVectors(parts)
    layer = expected.best_layer()
    (predictor,) = result.provenance.predictors
    assert predictor.who["task vector layer"] == str(layer)
    rows = predictions_of(result)[:TEST_ROWS]
    for row, prompt in zip(rows, expected.test_prompts, strict=True):
        assert row == pytest.approx(expected.probabilities(prompt, layer).tolist(), abs=1e-5)


def test_the_cost_of_task_vectors_is_four_prompts_and_five_for_each_layer(parts: Any) -> None:
    kernel = task_vector_kernel(parts)

    timing = Method("task_vectors", kernel, calibration_number=TASK_VECTOR_PROMPTS).run(task_vector_benchmark()).timing

    layers = 3
    expected = TaskVectors(parts)
    training_tokens = expected.token_count(expected.prompts_of_vectors)
    training_tokens += layers * expected.token_count(expected.prompts_of_choice)
    test_tokens = expected.token_count(expected.test_prompts)
    assert timing["training_prompts"] == 4 + layers * 5
    assert timing["test_prompts"] == TEST_ROWS
    assert timing["training_tokens_read"] == training_tokens
    assert timing["test_tokens_read"] == test_tokens
    assert timing["test_tokens_generated"] == 0
    assert kernel.tokens_used == (training_tokens + test_tokens, 0)


def test_all_prompts_of_task_vectors_are_cached(parts: Any, tmp_path: Any) -> None:
    method = Method("task_vectors", task_vector_kernel(parts), calibration_number=TASK_VECTOR_PROMPTS)
    store = tmp_path / "store.sqlite"
    first: Any = method.run(task_vector_benchmark(), return_outputs=True, store=store)

    second: Any = method.run(task_vector_benchmark(), return_outputs=True, store=store, recheck=False)

    assert predictions_of(second) == predictions_of(first)
    training_prompts = 4 + 3 * 5
    assert second.timing["reused_prompts"] == training_prompts + TEST_ROWS


def test_a_given_layer_of_task_vectors_is_signed_and_shares_no_cached_test_prompt(parts: Any, tmp_path: Any) -> None:
    kernel, store = task_vector_kernel(parts), tmp_path / "store.sqlite"
    Method("task_vectors", kernel, calibration_number=TASK_VECTOR_PROMPTS).run(task_vector_benchmark(), store=store)
    other_layer = (TaskVectors(parts).best_layer() + 1) % 3

    method = Method("task_vectors", kernel, calibration_number=TASK_VECTOR_PROMPTS, layer=other_layer)
    result: Any = method.run(task_vector_benchmark(), store=store)

    assert result.timing["test_prompts"] == TEST_ROWS
    assert "|k:0|" in str(result.signature)
    assert f"task_vectors paper n=9 layer={other_layer} k=2" in str(result.signature)


def test_the_forecast_of_task_vectors_counts_their_tokens(parts: Any) -> None:
    """Exactly: it does not extrapolate from the probe."""
    kernel, benchmark = task_vector_kernel(parts), task_vector_benchmark()
    Method("task_vectors", kernel, calibration_number=TASK_VECTOR_PROMPTS).run(benchmark)
    tokens_read, _ = kernel.tokens_used

    estimate = forecast_method("task_vectors", kernel, [benchmark], calibration_number=TASK_VECTOR_PROMPTS)

    assert estimate.distinct == 4 + 3 * 5 + TEST_ROWS
    assert estimate.tokens == tokens_read
