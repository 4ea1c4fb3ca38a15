"""``variant="paper"`` against the arithmetic of the authors, written again with NumPy; further methods of papers."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations
from operator import index
from typing import Any, NamedTuple

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


def demonstrations_of_queries(experimentor: Any) -> list[Any]:
    """Return the demonstrations of each query, as rows.

    There are lists for all test rows, first for all queries of one repeat, then for those of the other one.
    """
    pool = experimentor.demonstration_set()
    test_rows = len(experimentor.test_set())
    first_repeat = experimentor.demonstration_lists()[:test_rows]
    second_repeat = experimentor.demonstration_lists()[test_rows:]
    evaluated_rows = experimentor.limit or test_rows

    demonstrations = []
    for positions in [*first_repeat[:evaluated_rows], *second_repeat[:evaluated_rows]]:
        demonstrations.append([pool[position] for position in positions])
    return demonstrations


def authors_prior(experimentor: Any, demonstrations: list[Any], texts: list[str]) -> Any:
    """Return the prior of ``get_p_content_free`` of Zhao et al., of prompts with these texts in the place of the query.

    It is the mean of the raw probabilities of the label tokens, divided by its sum.
    """
    write_prompt = experimentor.prompt_former.write_prompt_from_dataline
    prompts = [write_prompt(demonstrations, [text]) for text in texts]
    features = Kernel().features(prompts, experimentor.get_label_space(), ["log_probabilities"])
    mean = numpy.exp(features["log_probabilities"]).mean(axis=0)
    return mean / mean.sum()


def softmax(scores: Any) -> Any:
    powers = numpy.exp(scores)
    return powers / powers.sum()


def uncalibrated(k: int = 2) -> list[Any]:
    """Return the probabilities that the kernel itself predicts for six test rows of mini in two repeats."""
    return predictions_of(bench(6, k)(Kernel(), return_outputs=True))


def run_paper(name: str, benchmark: Any, **options: Any) -> list[Any]:
    """Return the probabilities that a method predicts for all queries of a benchmark on mini."""
    return predictions_of(Method(name, Kernel(), **options).run(benchmark, return_outputs=True))


@pytest.mark.parametrize("k", [0, 2])
def test_contextual_calibration_is_the_authors(k: int) -> None:
    """The authors' equation: softmax(W p), where W is the inverse of the diagonal matrix of the prior."""
    experimentor = bench(6, k)[0]

    calibrated = run_paper("contextual_calibration", bench(6, k))

    plain = uncalibrated(k)
    assert len(calibrated) == 6 * 2  # rows, repeats
    for query, demonstrations in enumerate(demonstrations_of_queries(experimentor)):
        prior = authors_prior(experimentor, demonstrations, texts=["N/A", "[MASK]", ""])
        weights = numpy.linalg.inv(numpy.diag(prior))
        probabilities = numpy.array(plain[query]) / numpy.sum(plain[query])
        scores = weights @ probabilities
        assert calibrated[query] == pytest.approx(softmax(scores).tolist(), abs=1e-9), f"query {query}"
        assert numpy.argmax(calibrated[query]) == numpy.argmax(scores), f"query {query}"


@pytest.mark.parametrize("k", [0, 2])
def test_contextual_calibration_changes_predicted_labels(k: int) -> None:
    calibrated_labels = numpy.argmax(run_paper("contextual_calibration", bench(6, k)), axis=1)

    plain_labels = numpy.argmax(uncalibrated(k), axis=1)
    assert calibrated_labels.tolist() != plain_labels.tolist()


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
    """The authors' equation: the probabilities divided by the mean probabilities of random texts of the domain."""
    experimentor = bench(6)[0]
    random_texts = [text for (text,) in domain_texts(experimentor.calibration_set(), 20)]

    calibrated = run_paper("domain_calibration", bench(6))

    plain = uncalibrated()
    assert len(calibrated) == 6 * 2  # rows, repeats
    for query, demonstrations in enumerate(demonstrations_of_queries(experimentor)):
        prior = authors_prior(experimentor, demonstrations, random_texts)
        ratios = numpy.array(plain[query]) / prior
        expected = ratios / ratios.sum()
        assert calibrated[query] == pytest.approx(expected.tolist(), abs=1e-9), f"query {query}"


@pytest.mark.parametrize("kind", [TemplateSensitivity, GLER])
def test_content_free_prompts_are_those_of_queries_with_another_text(kind: Any) -> None:
    """Content-free prompts have the template of the query (template sensitivity), and its wrong labels (GLER)."""
    kernel = Kernel()

    result = Method("contextual_calibration", kernel).run(bench(2, kind=kind))

    assert result.complete
    experimentor = bench(2, kind=kind)[0]
    for query in experimentor.all_queries():
        (query_text, *_) = experimentor.test_set().texts(query.row)
        before, text, after = query.prompt.rpartition(query_text)
        assert text == query_text, query.prompt
        for content_free_text in ("N/A", "[MASK]", ""):
            assert before + content_free_text + after in kernel.ran, query.prompt


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
    """The authors' prediction: the label whose centroid of hidden states is the nearest one."""
    kernel = Kernel()
    experimentor = bench(6)[0]
    write_prompt = experimentor.prompt_former.write_prompt_from_dataline
    source = GivenSource(write_prompt, experimentor.calibration_set(), experimentor.get_label_space(), 1, 2)
    training_prompts, training_labels = labelled_prompts(source, per_label=16)

    predicted = run_paper("hidden_calibration", bench(6))

    states = kernel.hidden_states(training_prompts).astype(float)
    centroids = []
    for label in (0, 1, 2):
        has_label = numpy.array(training_labels) == label
        centroids.append(states[has_label].mean(axis=0))
    for prompt, row in zip(experimentor.prompt_set(), predicted, strict=True):
        (state,) = kernel.hidden_states([prompt]).astype(float)
        distances = [numpy.linalg.norm(state - centroid) for centroid in centroids]
        assert numpy.argmax(row) == numpy.argmin(distances), prompt


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
    kernel = Kernel()
    experimentor = bench(6)[0]
    write_prompt = experimentor.prompt_former.write_prompt_from_dataline
    source = GivenSource(write_prompt, experimentor.calibration_set(), experimentor.get_label_space(), 1, 2)
    anchor_prompts, anchor_labels = labelled_prompts(source, per_label=5)

    predicted = run_paper("knn_prompt", bench(6), samples_per_label=5)

    def distributions(prompts: list[Any]) -> Any:
        powers = numpy.exp(kernel.full_vocabulary_logits(prompts).astype(float))
        return powers / powers.sum(axis=1, keepdims=True)

    anchors = distributions(anchor_prompts)
    for prompt, row in zip(experimentor.prompt_set(), predicted, strict=True):
        log_ratios = numpy.log(anchors) - numpy.log(distributions([prompt]))
        divergences = (anchors * log_ratios).mean(axis=1)
        votes = [anchor_labels[anchor] for anchor in numpy.argsort(divergences)[:3]]
        shares_of_votes = [votes.count(label) / 3 for label in (0, 1, 2)]
        assert row == pytest.approx(shares_of_votes), prompt


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
    """Of three demonstrations there are six orders."""
    benchmark = benchmark_on_mini(k=3)
    experimentor = benchmark[0]
    pool = experimentor.demonstration_set()

    predicted = run_paper("permutation_ensemble", benchmark, orders=6)

    for row, probabilities in enumerate(predicted):
        texts = experimentor.test_set().get_input_text(row)
        demonstrations = [pool[position] for position in experimentor.demonstration_lists()[row]]
        prompts = []
        for order in permutations(demonstrations):
            prompts.append(experimentor.prompt_former.write_prompt_from_dataline(list(order), texts))
        members = Kernel().batch(prompts, experimentor.get_label_space())
        assert probabilities == pytest.approx(numpy.mean(members, axis=0).tolist()), f"test row {row}"


def test_the_cost_of_the_ensemble_is_proportional_to_its_orders() -> None:
    benchmark = benchmark_on_mini(k=3)
    two = Method("permutation_ensemble", Kernel(), orders=2).run(benchmark).timing["test_prompts"]
    six = Method("permutation_ensemble", Kernel(), orders=6).run(benchmark).timing["test_prompts"]

    assert two / 2 == six / 6


def test_an_ensemble_over_orders_needs_two_demonstrations() -> None:
    with pytest.raises(ArgumentError, match="got k = 1, expected at least 2"):
        Method("permutation_ensemble", Kernel()).run(benchmark_on_mini(k=1))


class Writer(Kernel):
    """Writes the first label in about 70 % of replies and the second one in the others.

    Prompts whose length is a multiple of five get "nothing", which is no label.
    """

    name = "writer"

    def generate(self, prompts: Any, max_new_tokens: int, stop: Any = (), **options: Any) -> list[str]:
        first_label, second_label, _ = benchmark_on_mini()[0].get_label_space()
        replies = []
        for prompt in prompts:
            random_number = random.Random(f"{options['seed']} {prompt}").random()
            if len(prompt) % 5 == 0:
                replies.append("nothing")
            elif random_number < 0.7:
                replies.append(first_label)
            else:
                replies.append(second_label)
        return replies


def replies_of_writer(method: str) -> list[Any]:
    """Return what a method predicts from seven replies of the writer to each of 16 queries."""
    benchmark = benchmark_on_mini(limit=8, k=1, unparsed="wrong")
    return predictions_of(Method(method, Writer(), samples=7).run(benchmark, return_outputs=True))


def test_calibrated_replies_are_frequencies_over_their_mean() -> None:
    """The frequencies of labels in the replies; the third label, which the writer never writes, stays at zero."""
    frequencies = replies_of_writer("generate")

    calibrated = replies_of_writer("generation_calibration")

    with_label = [query for query in range(16) if frequencies[query] is not None]
    assert 8 < len(with_label) < 16, "some of the 16 queries have no reply with a label"
    mean_first, mean_second, mean_third = numpy.mean([frequencies[query] for query in with_label], axis=0)
    assert mean_third == 0
    for query in with_label:
        first_ratio = frequencies[query][0] / mean_first
        second_ratio = frequencies[query][1] / mean_second
        total = first_ratio + second_ratio
        expected = [first_ratio / total, second_ratio / total, 0.0]
        assert calibrated[query] == pytest.approx(expected, abs=1e-9), f"query {query}"


def test_calibrated_replies_have_other_predicted_labels() -> None:
    frequencies = replies_of_writer("generate")
    calibrated = replies_of_writer("generation_calibration")

    with_label = [query for query in range(16) if frequencies[query] is not None]
    labels_before = [numpy.argmax(frequencies[query]) for query in with_label]
    labels_after = [numpy.argmax(calibrated[query]) for query in with_label]
    assert labels_after != labels_before


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


class LlamaPass(NamedTuple):
    """What a Llama computes of a text: the last position's state after each layer, and its logits."""

    states: list[Any]
    logits: Any


def pass_through_layers(model: Any, ids: list[int], replaced_layer: int | None = None, vector: Any = None) -> LlamaPass:
    """Call the layers of a Llama one by one, and replace the last position's state after one of them by a vector."""
    import torch

    size = len(ids)
    positions = torch.arange(size)[None]
    later_positions = torch.full((size, size), -torch.inf).triu(1)[None, None]
    states = []
    with torch.no_grad():
        state = model.model.embed_tokens(torch.tensor([ids]))
        rotations = model.model.rotary_emb(state, positions)
        for number, layer in enumerate(model.model.layers):
            output = layer(state, attention_mask=later_positions, position_ids=positions, position_embeddings=rotations)
            state = output[0] if isinstance(output, tuple) else output
            if number == replaced_layer:
                state[0, -1] = torch.as_tensor(vector)
            states.append(state[0, -1].double().numpy().copy())
        logits = model.lm_head(model.model.norm(state))[0, -1].double().numpy()
    return LlamaPass(states, logits)


@pytest.fixture(scope="module")
def parts(make_model: Any, make_tokenizer: Any) -> tuple[Any, Any]:
    """A tiny random Llama with three layers, and its tokenizer."""
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
        self.label_tokens = [self.tokens(label)[-1] for label in labels]

        write_prompt = experimentor.prompt_former.write_prompt_from_dataline
        source = GivenSource(write_prompt, experimentor.calibration_set(), labels, TASK_VECTOR_PROMPTS, 2)
        prompts, true_labels = labelled_prompts(source)
        bare_prompts, _ = labelled_prompts(SameDemonstrations(source, []))
        self.prompts_of_vectors = prompts[:4]
        self.prompts_of_choice = bare_prompts[4:]
        self.labels_of_choice = true_labels[4:]

        test_texts = [experimentor.test_set().get_input_text(row) for row in range(TEST_ROWS)]
        self.test_prompts = [write_prompt([], texts) for texts in test_texts]

        states = [pass_through_layers(self.model, self.tokens(prompt)).states for prompt in self.prompts_of_vectors]
        self.vectors = numpy.mean(states, axis=0)

    def tokens(self, text: str) -> Any:
        return self.tokenizer(text)["input_ids"]

    def token_count(self, prompts: list[Any]) -> int:
        return sum(len(self.tokens(prompt)) for prompt in prompts)

    def probabilities(self, prompt: Any, layer: int) -> Any:
        """Return the label probabilities of a prompt, with the vector of a layer as its last state after this layer."""
        result = pass_through_layers(self.model, self.tokens(prompt), layer, self.vectors[layer])
        scores = result.logits[self.label_tokens]
        powers = numpy.exp(scores - scores.max())
        return powers / powers.sum()

    def best_layer(self) -> int:
        """Return the first layer with the most correct predictions."""
        correct = [0, 0, 0]
        for layer in (0, 1, 2):
            for prompt, true_label in zip(self.prompts_of_choice, self.labels_of_choice, strict=True):
                predicted = self.probabilities(prompt, layer).argmax()
                if predicted == true_label:
                    correct[layer] += 1
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
