"""What experiments say of lengths, orders and gold demonstrations; the baseline of the nearest one; equal budgets."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest

from StaICC import nearest_gold_table
from StaICC.benchmarks.verify import verify
from StaICC.cli import main
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.comparing.formats import FORMATS, format_comparisons
from StaICC.errors import ArgumentError, SchemaError
from StaICC.inference.contract import Text
from StaICC.long_icl import nearest_baseline
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.condition_scores import ScoredItems
from StaICC.long_icl.effective_length import effective_length
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.order_spread import noncentral_chi_square_probability, order_spread
from StaICC.long_icl.scoring import Tally
from StaICC.prompting.bm25 import BM25Index
from StaICC.results.result import Result
from tests.long_icl.conftest import long_icl_on
from tests.long_icl.test_experiments import benchmark, condition_rows, copies, demonstrations_in, experimentor_of, okapi

CARD = task_card("goemotions")
LABEL = CARD.labels[0]
RIGHT = Tally(gold=(LABEL,), predicted=(LABEL,), correct=(LABEL,))
WRONG = Tally(gold=(LABEL,), predicted=(), correct=())


def items(count: int) -> ScoredItems:
    """Return items that all have the label :data:`LABEL`."""
    return ScoredItems(CARD, [LABEL] * count, list(range(count)))


def right(count: int, total: int) -> list[Tally | None]:
    """The first items are right."""
    return [RIGHT if index < count else WRONG for index in range(total)]


# -- the baseline of the nearest demonstration


def label_of_most_similar(query: str, demonstrations: list[tuple[str, Any]]) -> Any:
    """The label of the demonstration that is the most similar to a query by Okapi BM25, the first one of equals."""
    similarities = okapi(query, [text for text, _ in demonstrations])
    most_similar = similarities.index(max(similarities))
    _, label = demonstrations[most_similar]
    return label


def accuracy_of_most_similar(experimentor: Any, number: int) -> float:
    """Return how often the most similar demonstration of a round has the true label."""
    demonstrations = demonstrations_in(experimentor.context(number))
    hits = []
    for item in experimentor.test_items:
        hits.append(label_of_most_similar(item.texts[0], demonstrations) == item.gold[0])
    return fmean(hits)


def test_the_nearest_baseline_is_the_accuracy_of_okapi_bm25(data_folder: Path) -> None:
    rounds_1_and_3 = long_icl_on(data_folder, ["goemotions"], (1, 3), limit=20)

    result = rounds_1_and_3(lambda prompt, label_space: 0)

    first_accuracy = accuracy_of_most_similar(rounds_1_and_3[0], 1)
    third_accuracy = accuracy_of_most_similar(rounds_1_and_3[0], 3)
    scores = result.divided["goemotions"]
    assert scores["rounds"]["1R"]["nearest"] == pytest.approx(first_accuracy)
    assert scores["rounds"]["3R"]["nearest"] == pytest.approx(third_accuracy)
    assert scores["nearest"] == pytest.approx((first_accuracy + third_accuracy) / 2)
    assert "nearest" in str(result)


def test_demonstrations_with_several_labels_have_no_nearest_baseline(data_folder: Path) -> None:
    result = long_icl_on(data_folder, ["few_nerd"], [1], limit=5)(lambda prompt, label_space: "x")

    assert result.divided["few_nerd"]["nearest"] is None
    assert result.details["few_nerd"].missing["nearest"] == "demonstrations have several labels"


@pytest.mark.parametrize(
    ("experiment", "without_demonstrations"),
    [
        (Experiment("controls", shots=2), {"zero shots", "irrelevant text"}),
        (Experiment("shots", (0, 1, 2)), {"0 shots"}),
    ],
    ids=["controls", "shots"],
)
def test_a_copier_is_as_good_as_the_nearest_baseline_in_every_shared_context(
    data_folder: Path, experiment: Experiment, without_demonstrations: set[str]
) -> None:
    result = benchmark(data_folder, experiment, limit=30)(copies)

    records = result.divided["goemotions"]["rounds"]
    for condition, row in condition_rows(result).items():
        expected = None if condition in without_demonstrations else row["score"]
        assert records[condition]["nearest"] == expected, condition
    assert "nearest" not in result.divided["goemotions"]  # conditions have no common mean


def test_only_a_context_that_all_items_share_has_a_nearest_baseline(data_folder: Path) -> None:
    result = benchmark(data_folder, Experiment("retrieval", shots=2), limit=30)(copies)

    records = result.divided["goemotions"]["rounds"]
    with_baseline = [name for name in condition_rows(result) if records[name]["nearest"] is not None]
    assert with_baseline == ["full context"]
    assert "nearest" not in result.divided["goemotions"]


def test_conditions_with_the_same_demonstrations_share_their_comparison(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders of demonstrations change no similarity, only which of equally similar ones is first."""
    indexed_texts: list[tuple[str, ...]] = []

    class CountedIndex(BM25Index):
        def __init__(self, texts: Sequence[str]) -> None:
            indexed_texts.append(tuple(texts))
            super().__init__(texts)

    monkeypatch.setattr(nearest_baseline, "BM25Index", CountedIndex)
    orders = Experiment("order", shots=2)
    experimentor = experimentor_of(data_folder, orders, limit=8)

    result = benchmark(data_folder, orders, limit=8)(lambda prompt, label_space: 0)

    records = result.divided["goemotions"]["rounds"]
    assert len(records) > 2
    assert len(indexed_texts) == 1
    for name, context in experimentor.contexts.items():
        demonstrations = list(zip(context.texts_of(0), context.shown_labels(0), strict=True))
        hits = [label_of_most_similar(item.texts[0], demonstrations) == item.gold for item in experimentor.test_items]
        assert records[name]["nearest"] == pytest.approx(sum(hits) / 8), name


def copies_what_it_reads(prompt: str, label_space: list[str]) -> Text:
    """A copier that reads only the last zero to three demonstrations, by the length of the query."""
    *demonstrations, (query, _) = demonstrations_in(prompt)
    readable = len(query) % 4
    dropped = len(demonstrations) - readable
    if readable == 0:
        return Text("none of the labels", dropped=dropped)
    return Text(label_of_most_similar(query, demonstrations[dropped:]), dropped=dropped)


def test_demonstrations_that_prompts_lost_are_not_compared_in_rounds(data_folder: Path) -> None:
    result = long_icl_on(data_folder, ["goemotions"], [1, 2], limit=20)(copies_what_it_reads)

    values = result.divided["goemotions"]
    for name, record in values["rounds"].items():
        assert record["dropped"] > 0, name
        assert record["nearest"] == record["score"]["accuracy"], name
    baselines = [record["nearest"] for record in values["rounds"].values()]
    assert values["nearest"] == pytest.approx(sum(baselines) / 2)


def test_demonstrations_that_prompts_lost_are_not_compared_in_experiments(data_folder: Path) -> None:
    result = benchmark(data_folder, Experiment("order", shots=2), limit=20)(copies_what_it_reads)

    for name, record in result.divided["goemotions"]["rounds"].items():
        assert record["dropped"] > 0, name
        assert record["nearest"] == record["score"]["accuracy"], name


# -- equal budgets


BUDGETS = {"512": 512, "1K": 1024}
"""Reference tokens of each budget by its name; a reference token is four bytes."""


def budget_experimentor(folder: Path, limit: int = 8) -> LongICLExperimentor:
    """Fixed, retrieved and hybrid contexts of 512 and 1,024 tokens; for 9,000, there are too few demonstrations."""
    experimentor: LongICLExperimentor = experimentor_of(folder, Experiment("budget", (512, 1024, 9000)), limit=limit)
    return experimentor


def written(text: str, label: str) -> str:
    """A demonstration of GoEmotions as prompts show it."""
    return f"comment: {text}\nemotion category: {label}\n"


def test_each_budget_has_a_fixed_a_retrieved_and_a_hybrid_context(data_folder: Path) -> None:
    experimentor = budget_experimentor(data_folder)

    of_512 = ["512 fixed", "512 retrieved", "512 hybrid"]
    of_1024 = ["1K fixed", "1K retrieved", "1K hybrid"]
    assert list(experimentor.contexts) == [*of_512, *of_1024]
    assert experimentor.queries.unavailable.keys() == {"9000 fixed", "9000 retrieved", "9000 hybrid"}


def test_retrieved_and_hybrid_contexts_are_compared_with_the_fixed_one(data_folder: Path) -> None:
    contexts = budget_experimentor(data_folder).contexts

    assert contexts["1K hybrid"].compared == "1K fixed"
    assert contexts["1K retrieved"].compared == "1K fixed"


@pytest.mark.parametrize("name", BUDGETS)
def test_the_fixed_context_is_that_of_the_context_experiment(data_folder: Path, name: str) -> None:
    context_experiment = experimentor_of(data_folder, Experiment("context", (512, 1024)), limit=8)

    assert budget_experimentor(data_folder).context(f"{name} fixed") == context_experiment.context(name)


@pytest.mark.parametrize("kind", ["retrieved", "hybrid"])
@pytest.mark.parametrize("name", BUDGETS)
def test_retrieved_and_hybrid_contexts_fill_their_budget(data_folder: Path, name: str, kind: str) -> None:
    """There is no room for the largest demonstration; the most similar one is last, none is shown twice."""
    experimentor = budget_experimentor(data_folder)
    pool = demonstrations_in(long_icl_on(data_folder, ["goemotions"], [5], 8)[0].context(5))
    largest_demonstration = max(len(written(text, label).encode()) for text, label in pool)
    budget_bytes = 4 * BUDGETS[name]

    for index, item in enumerate(experimentor.test_items):
        context = experimentor.context(f"{name} {kind}", index)
        assert budget_bytes - largest_demonstration - 2 < len(context.encode()) <= budget_bytes, f"item {index}"
        demonstrations = demonstrations_in(context)
        assert len(set(demonstrations)) == len(demonstrations), f"item {index}"
        last_text, _ = demonstrations[-1]
        assert f" of {item.gold[0]} " in last_text + " ", f"item {index}"


@pytest.mark.parametrize("name", BUDGETS)
def test_hybrid_contexts_share_three_quarters_which_a_prefix_cache_computes_once(data_folder: Path, name: str) -> None:
    """The fixed part fills seven eighths of the budget, so it has at least three quarters of the demonstrations."""
    experimentor = budget_experimentor(data_folder, limit=8)
    fixed_count = len(demonstrations_in(experimentor.context(f"{name} fixed")))
    prefix_count = fixed_count * 3 // 4

    prefixes = set()
    for index in range(8):
        demonstrations = demonstrations_in(experimentor.context(f"{name} hybrid", index))
        prefixes.add(tuple(demonstrations[:prefix_count]))
    assert len(prefixes) == 1


@pytest.mark.parametrize("name", BUDGETS)
def test_retrieved_contexts_differ_between_items(data_folder: Path, name: str) -> None:
    experimentor = budget_experimentor(data_folder, limit=8)
    contexts = {experimentor.context(f"{name} retrieved", index) for index in range(8)}

    assert len(contexts) > 4


@pytest.mark.parametrize("kind", ["retrieved", "hybrid"])
@pytest.mark.parametrize("name", BUDGETS)
def test_no_further_similar_demonstration_fits_into_the_budget(data_folder: Path, name: str, kind: str) -> None:
    """The similar ones of hybrid contexts also get the bytes that the fixed ones leave."""
    experimentor = experimentor_of(data_folder, Experiment("budget", (512, 1024)), limit=3)
    training_items = [row.item() for row in experimentor.data.train]
    pool = [(item.texts[0], item.gold[0]) for item in training_items]
    pool_texts = [text for text, _ in pool]

    for index, item in enumerate(experimentor.test_items):
        similarities = [round(similarity, 9) for similarity in okapi(item.texts[0], pool_texts)]
        context = experimentor.context(f"{name} {kind}", index)
        demonstrations = demonstrations_in(context)
        assert written(*demonstrations[0]) in context, "demonstrations are written as this test writes them"
        not_shown = [row for row, demonstration in enumerate(pool) if demonstration not in demonstrations]
        most_similar = max(not_shown, key=lambda row, values=similarities: values[row])  # the first one of equals
        free_bytes = 4 * BUDGETS[name] - len(context.encode())
        next_size = len(written(*pool[most_similar]).encode())
        assert 0 <= free_bytes < next_size, f"item {index}: {pool[most_similar]} fits, too"


# -- effective length


@pytest.mark.parametrize(
    ("hits", "length", "bounds"),
    [
        ((90, 88, 20, 10), "b", ("b", "b")),
        ((90, 90, 90, 90), "d", ("d", "d")),
        ((90, 20, 90, 20), "c", ("c", "c")),
        ((90, 78, 75, 10), "b", ("a", "c")),  # 85 % of 90 is 76.5: too few items to decide on 78 and 75
    ],
)
def test_the_effective_length_is_the_largest_that_keeps_the_share(
    hits: tuple[int, ...], length: str, bounds: tuple[str, str]
) -> None:
    """Of 100 items each, so many are right in the contexts a, b, c, d, from the shortest to the longest."""
    tallies = {name: right(count, 100) for name, count in zip("abcd", hits, strict=True)}

    with_bounds = effective_length(items(100), tallies, guessing_score=0.1, share=0.85, level=0.95)
    assert with_bounds["length"] == length
    assert (with_bounds["low"], with_bounds["high"]) == bounds

    without_bounds = effective_length(items(100), tallies, guessing_score=0.1, share=0.85, level=None)
    assert without_bounds["length"] == length
    assert (without_bounds["low"], without_bounds["high"]) == (None, None)


@pytest.mark.parametrize("number", [1, 2, 5, 10])
def test_the_lower_bound_of_the_effective_length_is_corrected_for_all_lengths_and_the_upper_one_is_not(
    number: int,
) -> None:
    """The lower bound is too high if the limit of any length is wrong, the upper one only if that of one length is.

    The other lengths are clearly lost, so the bounds are those of one length, at the corrected level (Bonferroni).
    """
    others = {f"lost {index}": right(2, 100) for index in range(number - 1)}
    corrected_level = 1.0 - 0.05 / number
    corrected_thresholds = set()
    for count in range(100):
        pair = {"shortest": right(90, 100), "longer": right(count, 100)}
        found = effective_length(items(100), {**pair, **others}, guessing_score=0.1, share=0.85, level=0.95)
        alone = effective_length(items(100), pair, guessing_score=0.1, share=0.85, level=0.95)
        corrected = effective_length(items(100), pair, guessing_score=0.1, share=0.85, level=corrected_level)
        assert found["low"] == corrected["low"], count
        assert found["high"] == alone["high"], count
        if alone["low"] != corrected["low"]:
            corrected_thresholds.add(count)
    assert bool(corrected_thresholds) == (number > 1), "some scores are kept only without the correction"


@pytest.mark.parametrize("number", [2, 3, 6])
def test_the_lower_limit_of_the_range_of_orders_is_corrected_for_all_pairs_and_the_upper_one_is_not(
    number: int,
) -> None:
    """Orders between the two extreme ones change the range only by the number of pairs (Bonferroni)."""
    extremes = {"best": right(90, 100), "worst": right(40, 100)}
    others = {f"between {index}": right(65, 100) for index in range(number - 2)}
    pairs = number * (number - 1) / 2
    found = order_spread(items(100), {**extremes, **others}, level=0.95)
    uncorrected = order_spread(items(100), extremes, level=0.95)
    corrected = order_spread(items(100), extremes, level=1.0 - 0.05 / pairs)
    assert found["range_low"] == pytest.approx(corrected["range_low"], abs=1e-12)
    assert found["range_high"] == pytest.approx(uncorrected["range_high"], abs=1e-12)
    assert (found["range_low"] < uncorrected["range_low"]) == (number > 2)


def test_an_effective_length_needs_a_score_above_guessing_and_a_longer_context() -> None:
    def note(tallies: dict[str, list[Tally | None]]) -> str:
        found = effective_length(items(20), tallies, guessing_score=0.2, share=0.85, level=0.95)
        assert found["length"] is None
        return str(found["note"])

    assert note({"a": right(5, 20), "b": right(5, 20)}) == "the score of a is not above guessing (0.2000)"
    assert note({"a": [], "b": right(5, 20)}) == "a has no score"
    assert note({"a": right(20, 20), "b": []}) == "there is no longer context with a score"


def test_a_score_is_above_guessing_if_its_interval_is() -> None:
    """The interval is the one that results show: Wilson's, not the wider one of a difference."""
    for correct in range(1, 100, 7):
        tallies = {"a": right(correct, 100), "b": right(correct, 100)}
        score = items(100).score_with_limits(tallies["a"], 0.95)
        assert score is not None
        lower_limit = score.interval(0.95, "Wilson").low
        for guessing_score, is_defined in ((lower_limit - 1e-6, True), (lower_limit + 1e-6, False)):
            found = effective_length(items(100), tallies, guessing_score, share=0.85, level=0.95)
            assert (found["length"] is not None) == is_defined


def test_missing_replies_count_at_their_worst_for_each_bound_of_the_effective_length() -> None:
    missing: list[Tally | None] = [None] * 40
    tallies = {"a": right(100, 100), "b": right(60, 60) + missing}
    found = effective_length(items(100), tallies, guessing_score=0.1, share=0.85, level=0.95)
    assert (found["low"], found["length"], found["high"]) == ("a", "b", "b")


@pytest.mark.parametrize(
    ("share", "signed_options"),
    [(0.85, "levels=256+1024"), (0.5, "levels=256+1024,share=0.5")],
    ids=["the default, which is not signed", "another share"],
)
def test_the_share_of_the_effective_length_is_an_option(data_folder: Path, share: float, signed_options: str) -> None:
    experiment = Experiment("context", (256, 1024), share=share)

    result = benchmark(data_folder, experiment, limit=20)(copies)

    assert result.divided["goemotions"]["experiment"]["effective_length"]["share"] == share
    assert signed_options in str(result.signature)
    assert ("share" in str(result.signature)) is (share != 0.85)


@pytest.mark.parametrize("share", [0, 1.5, "x", True])
def test_a_share_that_is_no_number_between_0_and_1_is_refused(share: Any) -> None:
    with pytest.raises(ArgumentError, match="share: got"):
        Experiment("context", share=share)


def test_the_experiment_order_has_no_share() -> None:
    with pytest.raises(ArgumentError, match="no option share"):
        Experiment("order", share=0.5)


# -- spread over orders


def test_the_noncentral_chi_square_distribution_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(0)
    for _ in range(50):
        freedom = draw.uniform(0.5, 20)
        noncentrality = draw.choice([0.0, draw.uniform(0, 5), draw.uniform(5, 500)])
        x = draw.uniform(0, 2 * (freedom + noncentrality))

        probability = noncentral_chi_square_probability(x, freedom, noncentrality)

        if noncentrality == 0.0:
            expected = stats.chi2.cdf(x, freedom)
        else:
            expected = stats.ncx2.cdf(x, freedom, noncentrality)
        assert probability == pytest.approx(expected, abs=1e-9), (x, freedom, noncentrality)


def sum_of_squares(values: Iterable[float]) -> float:
    """Return the sum of the squared deviations from the mean."""
    numbers = list(values)
    mean = fmean(numbers)
    return math.fsum((number - mean) ** 2 for number in numbers)


def spread_of_three_orders(hits: list[list[bool]]) -> dict[str, Any]:
    """Return the spread of the scores of orders with these hits on the same 60 items."""
    tallies = {}
    for order, hits_of_order in enumerate(hits):
        tallies[str(order)] = [RIGHT if hit else WRONG for hit in hits_of_order]
    return order_spread(items(60), tallies, 0.95)


def hits_of_three_orders() -> list[list[bool]]:
    """Return hits on 60 items in three orders, with chances of .3, .5 and .9."""
    draw = random.Random(1)
    return [[draw.random() < chance for _ in range(60)] for chance in (0.3, 0.5, 0.9)]


def test_the_deviation_of_orders_is_that_of_the_analysis_of_variance() -> None:
    """With one hit for each order and item, the variance of orders is (between - residual) / items."""
    hits = hits_of_three_orders()

    spread = spread_of_three_orders(hits)

    squares_of_hits = sum_of_squares(hit for hits_of_order in hits for hit in hits_of_order)
    squares_of_orders = 60 * sum_of_squares(fmean(hits_of_order) for hits_of_order in hits)
    squares_of_items = 3 * sum_of_squares(fmean(hits_of_item) for hits_of_item in zip(*hits, strict=True))
    between = squares_of_orders / (3 - 1)
    residual = (squares_of_hits - squares_of_orders - squares_of_items) / ((3 - 1) * (60 - 1))
    assert spread["deviation"] == pytest.approx(math.sqrt((between - residual) / 60))


def test_the_range_of_orders_is_reduced_as_their_deviation() -> None:
    hits = hits_of_three_orders()

    spread = spread_of_three_orders(hits)

    scores = [fmean(hits_of_order) for hits_of_order in hits]
    observed_range = max(scores) - min(scores)
    kept_share = spread["deviation"] / spread["observed_deviation"]
    assert spread["observed_range"] == pytest.approx(observed_range)
    assert spread["range"] == pytest.approx(observed_range * kept_share)


def test_equal_predictions_in_all_orders_have_no_spread_and_an_upper_limit() -> None:
    spread = order_spread(items(50), {name: right(30, 50) for name in "abc"}, 0.95)

    for name in ("deviation", "deviation_low", "range", "range_low"):
        assert spread[name] == 0.0, name
    assert 0.0 < spread["deviation_high"] < spread["range_high"] < 0.2


def test_the_spread_is_undefined_if_an_order_has_no_score() -> None:
    spread = order_spread(items(50), {"a": right(30, 50), "b": []}, 0.95)

    assert spread["deviation"] is None
    assert spread["note"] == "an order has no score, or misses replies"


# -- gold demonstrations


def reads_last_ten(prompt: str, label_space: list[str]) -> str:
    """Is right if one of the last ten demonstrations has the true label, which these texts contain."""
    *demonstrations, (query, _) = demonstrations_in(prompt)
    true_label = re.findall(r"of (\w+)", query)[0]
    read_labels = [label for _, label in demonstrations[-10:]]
    return true_label if true_label in read_labels else "nothing"


class NearestGoldRun(NamedTuple):
    """A run on two shots for each label, by a model that reads the last ten demonstrations."""

    experimentor: LongICLExperimentor
    result: Result

    @property
    def bins(self) -> dict[str, list[dict[str, Any]]]:
        """Scores by the distance in demonstrations, in tokens, and by the share of common words."""
        experiment = self.result.divided["goemotions"]["experiment"]
        bins: dict[str, list[dict[str, Any]]] = experiment["nearest_gold"]["2 shots"]
        return bins

    def gold_demonstrations(self, item: Any) -> dict[int, str]:
        """The texts of the demonstrations with the label of an item, by their positions."""
        demonstrations = demonstrations_in(self.experimentor.context("2 shots"))
        return {position: text for position, (text, label) in enumerate(demonstrations) if label == item.gold[0]}


@pytest.fixture(scope="module")
def nearest_gold_run(data_folder: Path) -> NearestGoldRun:
    shots = benchmark(data_folder, Experiment("shots", (2,)), limit=None)
    return NearestGoldRun(shots[0], shots(reads_last_ten))


def test_scores_are_grouped_by_the_distance_of_the_nearest_gold_demonstration(
    nearest_gold_run: NearestGoldRun,
) -> None:
    """A distance of 0 is that of the last demonstration."""
    experimentor = nearest_gold_run.experimentor
    last_position = len(demonstrations_in(experimentor.context("2 shots"))) - 1
    distances = []
    for item in experimentor.test_items:
        distances.append(last_position - max(nearest_gold_run.gold_demonstrations(item)))

    bins = nearest_gold_run.bins["demonstrations"]

    for record in bins:
        in_bin = [distance for distance in distances if record["lowest"] <= distance <= record["highest"]]
        right_items = sum(distance < 10 for distance in in_bin)
        assert record["items"] == len(in_bin)
        assert record["score"] == pytest.approx(right_items / len(in_bin))
        assert record["score_low"] <= record["score"] <= record["score_high"]
    assert sum(record["items"] for record in bins) == len(distances)


def test_bins_of_tokens_begin_at_the_end_of_the_context(nearest_gold_run: NearestGoldRun) -> None:
    bins = nearest_gold_run.bins["reference_tokens"]

    assert bins[0]["lowest"] == 0
    assert bins[-1]["highest"] < 1000


def test_bins_of_overlap_reach_from_the_smallest_to_the_largest_share_of_common_words(
    nearest_gold_run: NearestGoldRun,
) -> None:
    largest_shares = []
    for item in nearest_gold_run.experimentor.test_items:
        query_words = set(re.findall(r"\w+", item.texts[0].lower()))
        shares = []
        for text in nearest_gold_run.gold_demonstrations(item).values():
            common_words = query_words & set(re.findall(r"\w+", text.lower()))
            shares.append(len(common_words) / len(query_words))
        largest_shares.append(max(shares))

    bins = nearest_gold_run.bins["overlap"]

    assert bins[0]["lowest"] == min(largest_shares)
    assert bins[-1]["highest"] == max(largest_shares)


def test_the_table_of_nearest_gold_demonstrations_has_the_bins(nearest_gold_run: NearestGoldRun) -> None:
    table = str(nearest_gold_table(nearest_gold_run.result))

    assert f"0 .. {nearest_gold_run.bins['demonstrations'][0]['highest']}" in table
    assert "share of the query's words in it" in table


def test_show_prints_the_table_of_nearest_gold_demonstrations(
    nearest_gold_run: NearestGoldRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "result.json")
    nearest_gold_run.result.save(path)
    table = nearest_gold_table(nearest_gold_run.result)

    assert main(["show", "--nearest-gold", path]) == 0
    assert str(table).splitlines()[0] in capsys.readouterr().out

    assert main(["show", "--nearest-gold", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [dict(row) for row in table.rows]


def test_show_refuses_a_catalogue_together_with_nearest_gold(
    nearest_gold_run: NearestGoldRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "result.json")
    nearest_gold_run.result.save(path)

    assert main(["show", "kernels", "--nearest-gold", path]) == 2
    assert "got kernels as well" in capsys.readouterr().err


def saved_record(result: Result, folder: Path) -> dict[str, Any]:
    """A saved result, as read from its JSON file."""
    result.save(folder / "result.json")
    record: dict[str, Any] = json.loads((folder / "result.json").read_text("utf-8"))
    return record


def first_overlap_bin(record: dict[str, Any]) -> dict[str, Any]:
    """The first bin of common words in a saved result."""
    experiment = record["Divided results"]["goemotions"]["experiment"]
    bins: list[dict[str, Any]] = experiment["nearest_gold"]["2 shots"]["overlap"]
    return bins[0]


def test_saved_bins_are_verified(nearest_gold_run: NearestGoldRun, data_folder: Path, tmp_path: Path) -> None:
    record = saved_record(nearest_gold_run.result, tmp_path)

    findings = verify(Result.from_dict(record), data_dir=data_folder)
    assert [finding.contradicted for finding in findings] == [(), ()]


def test_a_changed_score_of_a_bin_is_contradicted(
    nearest_gold_run: NearestGoldRun, data_folder: Path, tmp_path: Path
) -> None:
    record = saved_record(nearest_gold_run.result, tmp_path)
    first_overlap_bin(record)["score"] = 0.123

    findings = verify(Result.from_dict(record), data_dir=data_folder)
    contradicted = [message for finding in findings for message in finding.contradicted]
    assert contradicted


def test_a_text_in_place_of_the_score_of_a_bin_is_refused_on_loading(
    nearest_gold_run: NearestGoldRun, tmp_path: Path
) -> None:
    record = saved_record(nearest_gold_run.result, tmp_path)
    first_overlap_bin(record)["score"] = "<b>"

    with pytest.raises(SchemaError, match="experiment"):
        Result.from_dict(record)


def test_a_run_without_an_experiment_has_no_table_of_nearest_gold_demonstrations(data_folder: Path) -> None:
    result = long_icl_on(data_folder, ["goemotions"], [1], 3)(reads_last_ten)

    with pytest.raises(ArgumentError, match="expected an experiment"):
        nearest_gold_table(result)


# -- interactions


def run_with_hits(folder: Path, hits: tuple[int, int, int]) -> Result:
    """A run on 40 items with 0, 1 and 2 shots, of which the first so many items are right."""
    shots = benchmark(folder, Experiment("shots", (0, 1, 2)), limit=40)
    predictions = []
    for condition, right_items in zip(shots[0].conditions(), hits, strict=True):
        for index, query in enumerate(condition.queries):
            wrong_label = (query.label + 1) % 28
            predictions.append(query.label if index < right_items else wrong_label)
    result = shots(preentered_prediction=[predictions], model_name=str(hits))
    assert isinstance(result, Result)
    return result


class InteractingRuns(NamedTuple):
    """From 0 shots to 1 shot, the first run loses 20 of 40 items, the second one 4; to 2 shots, neither loses any."""

    first: Result
    second: Result


@pytest.fixture(scope="module")
def interacting_runs(data_folder: Path) -> InteractingRuns:
    return InteractingRuns(run_with_hits(data_folder, (40, 20, 40)), run_with_hits(data_folder, (30, 26, 30)))


def test_an_interaction_is_the_difference_of_two_changes(interacting_runs: InteractingRuns) -> None:
    comparison = compare(interacting_runs.first, interacting_runs.second)

    one_shot, two_shots = comparison.interactions
    assert (one_shot.condition, one_shot.reference, one_shot.rows) == ("1 shots", "0 shots", 40)
    assert one_shot.changes == pytest.approx((-20 / 40, -4 / 40))
    assert one_shot.difference == pytest.approx(-20 / 40 - -4 / 40)
    assert two_shots.difference == pytest.approx(0.0)
    assert "1 shots against 0 shots: the runs change differently" in str(comparison)
    assert "2 shots against 0 shots: the runs are not shown to change differently (p = 1)" in str(comparison)


def test_the_interval_of_an_interaction_contains_its_difference(interacting_runs: InteractingRuns) -> None:
    one_shot, _ = compare(interacting_runs.first, interacting_runs.second).interactions

    assert one_shot.interval is not None
    assert one_shot.interval.low < -0.4 < one_shot.interval.high < 0.0


def test_swapped_runs_have_the_same_interaction_with_the_other_sign(interacting_runs: InteractingRuns) -> None:
    one_shot, _ = compare(interacting_runs.first, interacting_runs.second).interactions
    swapped, _ = compare(interacting_runs.second, interacting_runs.first).interactions

    assert swapped.difference == pytest.approx(-one_shot.difference)
    assert swapped.outcome == one_shot.outcome


def test_the_record_of_an_interaction_has_its_p_value(interacting_runs: InteractingRuns) -> None:
    record = compare(interacting_runs.first, interacting_runs.second).to_dict()["interactions"][0]

    assert record["outcome"] == "tested"
    assert record["p_value"] < 0.05


def test_interactions_of_several_runs_are_corrected_for_their_pairs(
    interacting_runs: InteractingRuns, data_folder: Path
) -> None:
    first, second = interacting_runs
    third = run_with_hits(data_folder, (30, 26, 30))

    pair_of_three = compare_runs({"first": first, "second": second, "third": third}).comparisons[0]
    assert (pair_of_three.first, pair_of_three.second) == ("first", "second")
    of_three = pair_of_three.interactions[0].outcome
    alone = compare(first, second).interactions[0].outcome
    assert of_three.corrected_p_value > alone.corrected_p_value  # type: ignore[union-attr]


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("csv", "json")])
def test_formats_for_readers_show_interactions(interacting_runs: InteractingRuns, form: str) -> None:
    comparison = compare_runs({"a": interacting_runs.first, "b": interacting_runs.second})

    assert "0 shots to 1 shots" in format_comparisons([comparison], form)


def test_latex_has_interactions_in_a_table_of_their_own(interacting_runs: InteractingRuns) -> None:
    comparison = compare_runs({"a": interacting_runs.first, "b": interacting_runs.second})

    latex = format_comparisons([comparison], "latex")

    table_of_scores, table_of_changes = re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", latex, re.DOTALL)
    assert "0 shots to 1 shots" not in table_of_scores
    assert "$0.7500$" in table_of_scores, "30 of 40 items, which the second run has right with 0 shots"
    assert "0 shots to 1 shots" in table_of_changes


def test_missing_replies_count_at_their_worst_in_an_interaction(data_folder: Path) -> None:
    own = benchmark(data_folder, Experiment("shots", (0, 1)), limit=40, unparsed="excluded")
    gold = [item.gold[0] for item in own[0].test_items]
    complete = own(preentered_prediction=[[*gold, *gold]])
    refused = own(preentered_prediction=[[*gold, *gold[:15], *["?"] * 25]])
    (interaction,) = compare(complete, refused).interactions
    assert interaction.changes == (0.0, 0.0)  # of the queries with a reply
    assert interaction.interval is not None
    assert interaction.interval.low <= 0.0
    assert interaction.interval.high > 0.6
    assert "not shown to change differently" in str(interaction)
