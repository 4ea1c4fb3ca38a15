"""What experiments say of lengths, orders and gold demonstrations; the baseline of the nearest one; equal budgets."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.order_spread import noncentral_chi_square_probability, order_spread
from StaICC.long_icl.scoring import Tally
from StaICC.prompting.bm25 import BM25Index
from StaICC.results.result import Result
from StaICC.results.result import load as load_result
from tests.long_icl.conftest import make
from tests.long_icl.test_experiments import benchmark, copies, okapi, one, rows_of, shown

CARD = task_card("goemotions")
LABEL = CARD.labels[0]
RIGHT = Tally((LABEL,), (LABEL,), (LABEL,))
WRONG = Tally((LABEL,), (), ())


def items(count: int) -> ScoredItems:
    return ScoredItems(CARD, [LABEL] * count, list(range(count)))


def right(count: int, total: int) -> list[Tally | None]:
    """The first items are right."""
    return [RIGHT if index < count else WRONG for index in range(total)]


# -- the baseline of the nearest demonstration


def test_the_nearest_baseline_is_that_of_okapi_bm25(small_files: Path) -> None:
    own = make(small_files, ["goemotions"], [1, 3], limit=20)
    result = own(lambda prompt, label_space: 0)
    scores = []
    for number in (1, 3):
        demonstrations = shown(own[0].context(number))[:-1] or shown(own[0].context(number))
        correct = 0
        for item in own[0].test_items:
            similar = okapi(item.texts[0], [text for text, _ in demonstrations])
            correct += demonstrations[similar.index(max(similar))][1] == item.gold[0]
        scores.append(correct / 20)
        assert result.divided["goemotions"]["rounds"][f"{number}R"]["nearest"] == pytest.approx(correct / 20)
    assert result.divided["goemotions"]["nearest"] == pytest.approx(sum(scores) / 2)
    assert "nearest" in str(result)
    several_labels = make(small_files, ["few_nerd"], [1], limit=5)(lambda prompt, label_space: "x")
    assert several_labels.divided["few_nerd"]["nearest"] is None
    assert several_labels.details["few_nerd"].missing["nearest"] == "demonstrations have several labels"


def test_a_copier_is_as_good_as_the_nearest_baseline_in_every_shared_context(small_files: Path) -> None:
    for name in ("controls", "shots", "retrieval"):
        experiment = Experiment(name, (0, 1, 2)) if name == "shots" else Experiment(name, shots=2)
        result = benchmark(small_files, experiment, limit=30)(copies)
        records = result.divided["goemotions"]["rounds"]
        for condition, row in rows_of(result).items():
            nearest = records[condition]["nearest"]
            if condition in ("zero shots", "irrelevant text", "0 shots") or name == "retrieval":
                assert (nearest is None) == (condition != "full context")  # no demonstrations, or none that all share
            else:
                assert nearest == row["score"]
        assert "nearest" not in result.divided["goemotions"]


def test_conditions_with_the_same_demonstrations_share_their_comparison(
    small_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders and labels of demonstrations change no similarity, only which of equally similar ones is first."""
    compared: list[tuple[str, ...]] = []

    class CountedIndex(BM25Index):
        def __init__(self, texts: Sequence[str]) -> None:
            compared.append(tuple(texts))
            super().__init__(texts)

    monkeypatch.setattr(nearest_baseline, "BM25Index", CountedIndex)
    made = one(small_files, Experiment("order", shots=2), limit=8)
    result = benchmark(small_files, Experiment("order", shots=2), limit=8)(lambda prompt, label_space: 0)
    records = result.divided["goemotions"]["rounds"]
    assert len(records) > 2
    assert len(compared) == 1
    for number, contexts in made.contexts.items():
        texts = contexts.texts_of(0)
        correct = 0
        for item in made.test_items:
            similar = okapi(item.texts[0], texts)
            correct += contexts.shown_labels(0)[similar.index(max(similar))] == item.gold
        assert records[number]["nearest"] == pytest.approx(correct / 8)


@pytest.mark.parametrize("experiment", [None, Experiment("order", shots=2)])
def test_demonstrations_that_prompts_lost_are_not_compared(small_files: Path, experiment: Experiment | None) -> None:
    """A copier that reads only the last demonstrations is as good as the baseline, whichever ones it lost."""

    def copies_last(prompt: str, label_space: list[str]) -> Text:
        *demonstrations, (query, _) = shown(prompt)
        dropped = len(demonstrations) - len(query) % 4  # of some prompts all
        demonstrations = demonstrations[dropped:]
        if not demonstrations:
            return Text("none of the labels", dropped=dropped)
        similar = okapi(query, [text for text, _ in demonstrations])
        return Text(demonstrations[similar.index(max(similar))][1], dropped=dropped)

    if experiment is None:
        result = make(small_files, ["goemotions"], [1, 2], limit=20)(copies_last)
    else:
        result = benchmark(small_files, experiment, limit=20)(copies_last)
    values = result.divided["goemotions"]
    records = list(values["rounds"].values())
    for record in records:
        assert record["dropped"] > 0
        assert record["nearest"] == record["score"]["accuracy"]
    if experiment is None:
        assert values["nearest"] == pytest.approx(sum(record["nearest"] for record in records) / 2)


# -- equal budgets


def test_retrieved_and_hybrid_contexts_fill_the_budget_of_the_fixed_ones(small_files: Path) -> None:
    own = one(small_files, Experiment("budget", (512, 1024, 9000)), limit=8)
    assert list(own.contexts) == [
        f"{size} {kind}" for size in ("512", "1K") for kind in ("fixed", "retrieved", "hybrid")
    ]
    assert own.queries.unavailable.keys() == {f"9000 {kind}" for kind in ("fixed", "retrieved", "hybrid")}
    context_of_budget = one(small_files, Experiment("context", (512, 1024)), limit=8)
    pool = shown(make(small_files, ["goemotions"], [5], 8)[0].context(5))
    largest = max(len(f"comment: {text}\nemotion category: {label}\n".encode()) for text, label in pool) + 2
    for size, name in ((512, "512"), (1024, "1K")):
        assert own.context(f"{name} fixed") == context_of_budget.context(name)
        prefix = len(shown(own.context(f"{name} fixed"))) * 3 // 4
        prefixes = set()
        for index, item in enumerate(own.test_items):
            for kind in ("retrieved", "hybrid"):
                context = own.context(f"{name} {kind}", index)
                assert 4 * size - largest < len(context.encode()) <= 4 * size
                demonstrations = shown(context)
                assert len(set(demonstrations)) == len(demonstrations)  # none is shown twice
                assert f" of {item.gold[0]} " in demonstrations[-1][0] + " "  # the most similar one is last
            prefixes.add(tuple(shown(own.context(f"{name} hybrid", index))[:prefix]))
        assert len(prefixes) == 1  # which a prefix cache computes once
        assert len({own.context(f"{name} retrieved", index) for index in range(8)}) > 4
    assert own.contexts["1K hybrid"].compared == own.contexts["1K retrieved"].compared == "1K fixed"


def test_no_further_similar_demonstration_fits_into_the_budget(small_files: Path) -> None:
    """Neither of retrieved nor of hybrid contexts, whose similar ones also get the bytes that the fixed ones leave."""
    own = one(small_files, Experiment("budget", (512, 1024)), limit=3)
    rows = [(row.item().texts[0], row.item().gold[0]) for row in own.data.train]
    for index, item in enumerate(own.test_items):
        scores = [round(score, 9) for score in okapi(item.texts[0], [text for text, _ in rows])]
        most_similar_first = sorted(range(len(rows)), key=lambda row, scores=scores: -scores[row])
        for size, name in ((512, "512"), (1024, "1K")):
            for kind in ("retrieved", "hybrid"):
                context = own.context(f"{name} {kind}", index)
                demonstrations = shown(context)
                text, label = next(rows[row] for row in most_similar_first if rows[row] not in demonstrations)
                next_one = f"comment: {text}\nemotion category: {label}\n"
                assert next_one.replace(text, demonstrations[0][0]).replace(label, demonstrations[0][1]) in context
                free_bytes = 4 * size - len(context.encode())
                assert 0 <= free_bytes < len(next_one.encode()), f"{name} {kind}: {text!r} fits, too"


# -- effective length


@pytest.mark.parametrize(
    ("counts", "length", "bounds"),
    [
        ((90, 88, 20, 10), "b", ("b", "b")),
        ((90, 90, 90, 90), "d", ("d", "d")),
        ((90, 20, 90, 20), "c", ("c", "c")),
        ((90, 78, 75, 10), "b", ("a", "c")),  # 76.5 is the threshold: not enough items to decide
    ],
)
def test_the_effective_length_is_the_largest_that_keeps_the_share(
    counts: tuple[int, ...], length: str, bounds: tuple[str, str]
) -> None:
    tallies = {name: right(count, 100) for name, count in zip("abcd", counts, strict=True)}
    found = effective_length(items(100), tallies, guessing_score=0.1, share=0.85, level=0.95)
    assert (found["length"], (found["low"], found["high"])) == (length, bounds)
    without = effective_length(items(100), tallies, guessing_score=0.1, share=0.85, level=None)
    assert (without["length"], without["low"], without["high"]) == (length, None, None)


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


def test_the_share_is_an_option(small_files: Path) -> None:
    for share, expected in ((0.85, ""), (0.5, ",share=0.5")):
        result = benchmark(small_files, Experiment("context", (256, 1024), share=share), limit=20)(copies)
        assert result.divided["goemotions"]["experiment"]["effective_length"]["share"] == share
        assert f"levels=256+1024{expected}" in str(result.signature)
    for value in (0, 1.5, "x", True):
        with pytest.raises(ArgumentError, match="share: got"):
            Experiment("context", share=value)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no option share"):
        Experiment("order", share=0.5)


# -- spread over orders


def test_the_noncentral_chi_square_distribution_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(0)
    for _ in range(50):
        freedom, noncentrality = draw.uniform(0.5, 20), draw.choice([0.0, draw.uniform(0, 5), draw.uniform(5, 500)])
        x = draw.uniform(0, 2 * (freedom + noncentrality))
        expected = stats.ncx2.cdf(x, freedom, noncentrality) if noncentrality else stats.chi2.cdf(x, freedom)
        assert noncentral_chi_square_probability(x, freedom, noncentrality) == pytest.approx(expected, abs=1e-9)


def test_the_deviation_is_that_of_the_analysis_of_variance() -> None:
    draw = random.Random(1)
    hits = [[draw.random() < chance for _ in range(60)] for chance in (0.3, 0.5, 0.9)]
    tallies = {str(order): [RIGHT if hit else WRONG for hit in of_order] for order, of_order in enumerate(hits)}
    found = order_spread(items(60), tallies, 0.95)
    means = [sum(of_order) / 60 for of_order in hits]
    item_means = [sum(of_item) / 3 for of_item in zip(*hits, strict=True)]
    mean = sum(means) / 3
    between = 60 * sum((value - mean) ** 2 for value in means) / 2
    residual = sum(
        (hits[order][item] - means[order] - item_means[item] + mean) ** 2 for order in range(3) for item in range(60)
    ) / (2 * 59)
    assert found["deviation"] == pytest.approx(math.sqrt((between - residual) / 60))
    assert found["observed_range"] == pytest.approx(max(means) - min(means))
    assert found["range"] / found["observed_range"] == pytest.approx(found["deviation"] / found["observed_deviation"])


def test_equal_predictions_in_all_orders_have_no_spread_and_an_upper_limit() -> None:
    found = order_spread(items(50), {name: right(30, 50) for name in "abc"}, 0.95)
    assert (found["deviation"], found["deviation_low"], found["range"], found["range_low"]) == (0.0, 0.0, 0.0, 0.0)
    assert 0.0 < found["deviation_high"] < found["range_high"] < 0.2
    undefined = order_spread(items(50), {"a": right(30, 50), "b": []}, 0.95)
    assert (undefined["deviation"], undefined["note"]) == (None, "an order has no score, or misses replies")


# -- gold demonstrations


def test_scores_by_the_nearest_gold_demonstration(
    small_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = benchmark(small_files, Experiment("shots", (2,)), limit=None)

    def last_ten(prompt: str, label_space: list[str]) -> str:
        """Is right if one of the last ten demonstrations has the true label."""
        *before, (query, _) = shown(prompt)
        gold = re.findall(r"of (\w+)", query)[0]
        return gold if gold in [label for _, label in before[-10:]] else "nothing"

    result = own(last_ten)
    bins = result.divided["goemotions"]["experiment"]["nearest_gold"]["2 shots"]
    demonstrations = shown(own[0].context("2 shots"))
    distances = []
    overlaps = []
    for item in own[0].test_items:
        gold = [index for index, (_, label) in enumerate(demonstrations) if label == item.gold[0]]
        distances.append(len(demonstrations) - 1 - gold[-1])
        words = set(re.findall(r"\w+", item.texts[0].lower()))
        shares = [len(words & set(re.findall(r"\w+", demonstrations[index][0].lower()))) / len(words) for index in gold]
        overlaps.append(max(shares))
    found = bins["demonstrations"]
    sizes = [sum(low <= distance <= high for distance in distances) for low, high in limits(found)]
    assert [record["items"] for record in found] == sizes
    assert sum(record["items"] for record in found) == len(own[0].test_items)
    for record, (low, high) in zip(found, limits(found), strict=True):
        inside = [distance for distance in distances if low <= distance <= high]
        assert record["score"] == pytest.approx(sum(distance < 10 for distance in inside) / len(inside))
        assert record["score_low"] <= record["score"] <= record["score_high"]
    tokens = bins["reference_tokens"]
    assert tokens[0]["lowest"] == 0
    assert tokens[-1]["highest"] < 1000
    assert (bins["overlap"][0]["lowest"], bins["overlap"][-1]["highest"]) == (min(overlaps), max(overlaps))
    table = str(nearest_gold_table(result))
    assert f"0 .. {found[0]['highest']}" in table
    assert "share of the query's words in it" in table
    result.save(tmp_path / "result.json")
    assert main(["show", "--nearest-gold", str(tmp_path / "result.json")]) == 0
    assert table.splitlines()[0] in capsys.readouterr().out
    assert main(["show", "--nearest-gold", str(tmp_path / "result.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [dict(row) for row in nearest_gold_table(result).rows]
    assert main(["show", "kernels", "--nearest-gold", str(tmp_path / "result.json")]) == 2
    assert "got kernels as well" in capsys.readouterr().err
    loaded = load_result(tmp_path / "result.json")
    assert isinstance(loaded, Result)
    assert [finding.contradicted for finding in verify(loaded, data_dir=small_files)] == [(), ()]
    forged = json.loads((tmp_path / "result.json").read_text("utf-8"))
    forged_bin = forged["Divided results"]["goemotions"]["experiment"]["nearest_gold"]["2 shots"]["overlap"][0]
    forged_bin["score"] = 0.123
    findings = verify(Result.from_dict(forged), data_dir=small_files)
    assert any(finding.contradicted for finding in findings), f"got {findings}"
    forged_bin["score"] = "<b>"
    with pytest.raises(SchemaError, match="experiment"):
        Result.from_dict(forged)
    with pytest.raises(ArgumentError, match="expected an experiment"):
        nearest_gold_table(make(small_files, ["goemotions"], [1], 3)(last_ten))


def limits(records: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(record["lowest"], record["highest"]) for record in records]


# -- interactions


def test_an_interaction_is_the_difference_of_two_changes(small_files: Path) -> None:
    """Of 40 items, the first run loses 20 in the second condition, the other one 4: exact p-values of the sums."""
    own = benchmark(small_files, Experiment("shots", (0, 1, 2)), limit=40)

    def with_counts(counts: tuple[int, int, int], model: str) -> Result:
        labels = []
        for condition, count in zip(own[0].conditions(), counts, strict=True):
            for index, query in enumerate(condition.queries):
                labels.append(query.label if index < count else (query.label + 1) % 28)
        result = own(preentered_prediction=[labels], model_name=model)
        assert isinstance(result, Result)
        return result

    first, second, third = (with_counts(c, str(c)) for c in ((40, 20, 40), (30, 26, 30), (30, 26, 30)))
    comparison = compare(first, second)
    one_shot, two_shots = comparison.interactions
    assert (one_shot.condition, one_shot.reference, one_shot.rows) == ("1 shots", "0 shots", 40)
    assert one_shot.changes == (pytest.approx(-0.5), pytest.approx(-0.1))
    assert one_shot.difference == pytest.approx(-0.4)
    assert one_shot.interval is not None
    assert one_shot.interval.low < -0.4 < one_shot.interval.high < 0.0
    assert "1 shots against 0 shots: the runs change differently" in str(comparison)
    assert two_shots.difference == pytest.approx(0.0)
    assert "2 shots against 0 shots: the runs are not shown to change differently (p = 1)" in str(comparison)
    swapped = compare(second, first).interactions[0]
    assert swapped.difference == pytest.approx(0.4)
    assert swapped.outcome == one_shot.outcome
    plain = comparison.to_dict()["interactions"][0]
    assert plain["p_value"] < 0.05
    assert plain["outcome"] == "tested"
    several = compare_runs({"first": first, "second": second, "third": third})
    of_pairs = {(pair.first, pair.second): pair.interactions[0] for pair in several.comparisons}
    assert of_pairs["first", "second"].outcome.corrected_p_value > one_shot.outcome.corrected_p_value  # type: ignore[union-attr]
    for form in FORMATS:
        if form not in ("csv", "json"):
            assert "0 shots to 1 shots" in format_comparisons([compare_runs({"a": first, "b": second})], form)
    latex = format_comparisons([compare_runs({"a": first, "b": second})], "latex")
    table_of_scores, table_of_changes = re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", latex, re.DOTALL)
    assert "0 shots to 1 shots" not in table_of_scores
    assert "$0.7500$" in table_of_scores, "the mean of 30 of 40, which the second run has with 0 shots"
    assert "0 shots to 1 shots" in table_of_changes


def test_missing_replies_count_at_their_worst_in_an_interaction(small_files: Path) -> None:
    own = benchmark(small_files, Experiment("shots", (0, 1)), limit=40, unparsed="excluded")
    gold = [item.gold[0] for item in own[0].test_items]
    complete = own(preentered_prediction=[[*gold, *gold]])
    refused = own(preentered_prediction=[[*gold, *gold[:15], *["?"] * 25]])
    (interaction,) = compare(complete, refused).interactions
    assert interaction.changes == (0.0, 0.0)  # of the queries with a reply
    assert interaction.interval is not None
    assert interaction.interval.low <= 0.0
    assert interaction.interval.high > 0.6
    assert "not shown to change differently" in str(interaction)
