"""Experiments: conditions, scores, the test of positions, controls; with functions that read prompts as models do."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks.verify import verify
from StaICC.comparing import alignment
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.comparing.formats import FORMATS, format_comparisons
from StaICC.comparing.published_comparison import compare_with_published
from StaICC.comparing.ranking import rank
from StaICC.errors import ArgumentError, SchemaError
from StaICC.long_icl.benchmark import LongICL
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.condition_scores import mcnemar_p_value
from StaICC.long_icl.contexts import SharedContext
from StaICC.long_icl.designs.orders import blocks_of
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.position_test import position_p_value
from StaICC.long_icl.prompts import write_context
from StaICC.long_icl.reference_tokens import reference_tokens
from StaICC.long_icl.scoring import Tally
from StaICC.metrics.intervals import ratio_part
from StaICC.metrics.paired_tests import holm
from StaICC.prompting.demonstrations import turns_of
from StaICC.prompting.prompt_text import PromptParts
from StaICC.report.figures.experiment_plot import experiment_chart
from StaICC.report.latex_tables import latex_scores
from StaICC.report.page import report_html
from StaICC.results.experiment_table import experiment_rows
from StaICC.results.result import Result
from StaICC.results.result import load as load_result
from tests.long_icl.conftest import SINGLE, make

EVERY = ("context", "length", "shots", "order", "position", "controls", "retrieval")


def benchmark(folder: Path, experiment: Any, name: str = "goemotions", **options: Any) -> LongICL:
    return make(folder, [name], experiment=experiment, **{"limit": "default", **options})


def one(folder: Path, experiment: Any, name: str = "goemotions", limit: int = 3, **options: Any) -> Any:
    return benchmark(folder, experiment, name, limit=limit, **options)[0]


def rounds_of(folder: Path, name: str = "goemotions", number: int = 5, **options: Any) -> LongICLExperimentor:
    return make(folder, [name], [number], 3, **options)[0]


def shown(prompt: str, name: str = "goemotions") -> list[tuple[str, str]]:
    """Text and label of each demonstration in a prompt, read without the library."""
    cue, answer = {
        "goemotions": ("comment: ", "\nemotion category: "),
        "banking77": ("service query: ", "\nintent category: "),
    }[name]
    parts = prompt.split(cue)[1:]
    return [(text, label.strip()) for text, label in (part.split(answer) for part in parts)]


def rows_of(result: Result, name: str = "goemotions") -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = result.divided[name]["experiment"]["conditions"]
    return found


def test_levels_that_are_too_many_and_levels_that_do_not_rise_have_different_messages() -> None:
    with pytest.raises(ArgumentError, match="got 101 levels, expected at most 100"):
        Experiment("context", levels=tuple(range(1, 102)))
    with pytest.raises(ArgumentError, match="got 2 levels, expected at most 1"):
        Experiment("order", levels=(2, 3))
    for levels in ((2, 1), (1, 1)):
        with pytest.raises(ArgumentError, match="expected different numbers in rising order"):
            Experiment("shots", levels=levels)


# -- conditions


@pytest.mark.parametrize("instruct", [False, True])
@pytest.mark.parametrize("name", SINGLE)
def test_budgets_are_filled_with_nested_contexts(small_files: Path, name: str, instruct: bool) -> None:
    budgets = (1500, 1024 * 2, 3000)
    own = one(small_files, Experiment("context", budgets), name, instruct=instruct)
    longest = rounds_of(small_files, name, instruct=instruct).context(5)
    contexts = [own.context(key) for key in own.rounds]
    assert list(own.contexts) == ["1500", "2K", "3000"][: len(contexts)]
    for budget, context, longer in zip(budgets, contexts, [*contexts[1:], longest], strict=False):
        assert longer.startswith(context)  # nested, and in the published order
        assert reference_tokens(context) == math.ceil(len(context.encode()) / 4) <= budget
    if name == "tacred":
        return
    train = [row.item() for row in own.data.train]
    order = [train[place] for turn in turns_of([item.gold[0] for item in train]) for place in turn]
    for condition, budget in zip(own.contexts.values(), budgets, strict=False):
        count = condition.demonstrations
        assert condition.context == write_context(own.card, order[:count], instruct=instruct)
        longer = write_context(own.card, order[: count + 1], instruct=instruct)
        assert len(longer.text.encode()) > 4 * budget  # no further one fits
    sizes = [len(write_context(own.card, order[:count], instruct=instruct).text.encode()) for count in range(40)]
    count = next(count for count in range(1, 40) if sizes[count] % 4 == 0)
    exact = one(small_files, Experiment("context", (sizes[count] // 4,)), name, instruct=instruct)
    assert [condition.demonstrations for condition in exact.contexts.values()] == [count]


@pytest.mark.parametrize("name", SINGLE)
def test_shots_are_the_published_rounds(small_files: Path, name: str) -> None:
    own = one(small_files, Experiment("shots", (0, 1, 2, 5, 7)), name)
    for number in (1, 2, 5):
        assert own.context(f"{number} shots") == rounds_of(small_files, name, number).context(number)
    assert own.contexts["0 shots"] == SharedContext(PromptParts(task_card(name).template.plain, (), ""), 0)
    assert own.queries.unavailable.keys() == {"7 shots"}
    assert "got 7 shots" in own.queries.unavailable["7 shots"]
    assert "6 demonstrations of every label" in own.queries.unavailable["7 shots"]


def test_orders_have_the_same_demonstrations(small_files: Path) -> None:
    own, again, other = (one(small_files, Experiment("order", (3,), shots=2, seed=seed)) for seed in (0, 0, 1))
    orders = {str(name): shown(own.context(name)) for name in own.rounds}
    published = orders["published"]
    assert list(orders) == ["published", *(f"{kind} {n}" for kind in ("rotation", "shuffle") for n in (1, 2, 3))]
    assert [order for order in orders.values() if sorted(order) != sorted(published)] == []
    assert len(set(map(tuple, orders.values()))) == 7
    assert orders["rotation 2"] == published[28:] + published[:28]
    assert again.contexts == own.contexts
    for number in (1, 2, 3):
        assert other.context(f"rotation {number}") == own.context(f"rotation {number}")
        assert other.context(f"shuffle {number}") not in [own.context(f"shuffle {n}") for n in (1, 2, 3)]


@pytest.mark.parametrize(("parts", "shots", "seed"), [(2, 1, 0), (5, 3, 0), (5, 3, 1), (28, 2, 1)])
def test_every_label_is_in_every_part_once(small_files: Path, parts: int, shots: int, seed: int) -> None:
    own = one(small_files, Experiment("position", (parts,), shots, seed))
    blocks = blocks_of(own.card.labels, parts, seed)
    sizes = Counter(blocks.values())
    assert max(sizes.values()) - min(sizes.values()) <= 1
    places: dict[str, list[int]] = {}
    for order, name in enumerate(own.rounds):
        labels = [label for _, label in shown(own.context(name))]
        assert Counter(labels) == dict.fromkeys(own.card.labels, shots)
        for part in range(parts):
            block = (part - order) % parts
            inside, labels = labels[: sizes[block] * shots], labels[sizes[block] * shots :]
            for label in set(inside):
                assert inside.count(label) == shots  # all of its demonstrations
                places.setdefault(label, []).append(part)
    assert [parts_of_label for parts_of_label in places.values() if sorted(parts_of_label) != [*range(parts)]] == []


def test_length_is_told_from_labels(small_files: Path) -> None:
    """With 28 labels, 256 tokens show some of them. A copier is as good as its coverage, at any length."""
    budgets = (256, 1024, 1500)
    own = benchmark(small_files, Experiment("length", budgets), limit=None)
    base, *others = (shown(own[0].context(name)) for name in ("256", "1K padded", "1K same labels"))
    assert others[0] == base
    assert others[1][: len(base)] == base
    labels = {label for _, label in base}
    assert {label for _, label in others[1]} == labels
    assert len(others[1]) > len(base)
    padded, same = (own[0].context(f"1K {kind}") for kind in ("padded", "same labels"))
    assert len(padded.encode()) == len(same.encode()) <= 4 * 1024
    assert "demonstrations of the" in own[0].queries.unavailable["1500 same labels"]
    assert len(own[0].context("1500 padded").encode()) == 4 * 1500  # possible without further demonstrations
    result = own(copies)
    gold = [item.gold[0] for item in own[0].test_items]
    share = sum(label in labels for label in gold) / len(gold)
    assert 0 < share < 0.9
    for name, row in rows_of(result).items():
        assert row["labels_shown"] == len(labels)
        assert row["share_shown"] == pytest.approx(share)
        assert row["per_shown_label"] == pytest.approx(own[0].contexts[name].demonstrations / len(labels))
        assert (row["score_shown"], row["score_not_shown"]) == (1.0, 0.0)
        assert row["difference"] in (None, 0.0)
        assert row["p_value"] in (None, 1.0)
        assert row["band_low"] <= row["score_low"] <= row["score"] <= row["score_high"] <= row["band_high"]
        hits, level = [float(label in labels) for label in gold], 1 - 0.05 / len(rows_of(result))
        assert row["band_low"] == pytest.approx(row["score"] - ratio_part(hits, [1.0] * len(hits), level).below)
    assert result.divided["goemotions"]["experiment"]["compared"]["1K same labels"] == "1K padded"
    assert "1K same labels from 1K padded" in str(result)
    # The published order shows more labels in more tokens: the same model "improves with length".
    published = rows_of(benchmark(small_files, Experiment("context", (256, 1024)), limit=None)(copies))
    for row in published.values():
        assert row["score"] == pytest.approx(row["share_shown"])
    assert published["1K"]["difference_low"] > 0

    def disturbed(prompt: str, label_space: list[str]) -> str:
        return copies(prompt, label_space) if len(prompt) < 1500 else label_space[0]

    rows = rows_of(own(disturbed))
    assert rows["1K padded"]["p_value"] < 0.05
    assert rows["1K padded"]["difference_high"] < 0
    assert rows["1K same labels"]["difference"] == 0.0


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (0, 6), (3, 9), (5, 5), (40, 2)])
def test_the_test_of_a_difference_is_that_of_all_signs_of_the_changed_items(gained: int, lost: int) -> None:
    """The outcomes that are as extreme as the observed one count in part, more extreme ones in full."""
    right, wrong = (Tally(("a",), (), ("a",) * correct) for correct in (1, 0))
    before = [wrong] * gained + [right] * lost + [right, wrong]
    after = [right] * gained + [wrong] * lost + [right, wrong]
    count, distance = gained + lost, abs(gained - lost)
    more_extreme = sum(math.comb(count, up) for up in range(count + 1) if abs(2 * up - count) > distance)
    observed = 2 * math.comb(count, max(gained, lost))
    observed_share = 1 - 0.0214 * math.sqrt(count + 2)
    expected = min(1.0, (more_extreme + observed_share * observed) / 2**count)
    assert mcnemar_p_value(before, after) == pytest.approx(expected)


def test_controls(small_files: Path) -> None:
    own = one(small_files, Experiment("controls", shots=2))
    normal, shuffled, symbols = (shown(own.context(name)) for name in ("normal", "shuffled labels", "symbols"))
    assert own.context("normal") == rounds_of(small_files, number=2).context(2)
    assert [text for text, _ in shuffled] == [text for text, _ in normal] == [text for text, _ in symbols]
    assert Counter(label for _, label in shuffled) == Counter(label for _, label in normal)
    assert sum(a == b for (_, a), (_, b) in zip(normal, shuffled, strict=True)) < 10
    names = own.contexts["symbols"].label_names
    assert len(set(names)) == 28
    renamed = {a: b for (_, a), (_, b) in zip(normal, symbols, strict=True)}
    assert dict(zip(own.card.labels, names, strict=True)) == renamed
    assert not {label for _, label in symbols} & set(own.card.labels)
    assert {query.label_space for query in own.round_queries("symbols")} == {names}
    assert own.context("zero shots") == own.card.template.plain
    for name in ("irrelevant text", "symbols", "random labels", "shuffled labels"):
        assert len(own.context(name).encode()) == len(own.context("normal").encode())
    drawn = [label for _, label in shown(own.context("random labels"))]
    assert set(drawn) <= set(own.card.labels)
    assert Counter(drawn) != Counter(label for _, label in normal)
    assert [text for text, _ in shown(own.context("random labels"))] == [text for text, _ in normal]
    assert not shown(own.context("irrelevant text"))
    others = [one(small_files, Experiment("controls", shots=2, seed=seed)) for seed in range(1, 5)]
    assert {other.context("normal") for other in others} == {own.context("normal")}  # random labels are no longer
    instructed = one(small_files, Experiment("controls", shots=1), instruct=True)
    assert ", ".join(instructed.contexts["symbols"].label_names) in instructed.context("symbols")
    assert ", ".join(own.card.labels) in instructed.context("irrelevant text")


WORDS = ["red", "blue", "green", "fast", "slow", "late", "lost", "paid", "card", "bank", "door"]


def okapi(query: str, texts: list[str]) -> list[float]:
    """BM25 with k1 = 1.5 and b = 0.75, text by text."""
    bags = [re.findall(r"\w+", text.lower()) for text in texts]
    mean = sum(map(len, bags)) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in re.findall(r"\w+", query.lower()):
            having = sum(word in other for other in bags)
            weight = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            count = bag.count(word)
            score += weight * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * len(bag) / mean))
        scores.append(score)
    return scores


@pytest.fixture
def words(small: Path) -> Path:
    """BANKING77 of the published format with texts of a few words each."""
    for split, step in (("train", 3), ("test", 7)):
        path = small / f"banking77_{split}.csv"
        head, *lines = path.read_text("utf-8").splitlines()
        for place, line in enumerate(lines):
            text = " ".join(WORDS[(place * step + turn * turn) % len(WORDS)] for turn in range(1 + place % 5))
            lines[place] = f"{text} {place},{line.rpartition(',')[2]}"
        path.write_text("\n".join([head, *lines]) + "\n", "utf-8", newline="")
    return small


@pytest.mark.parametrize("shots", [1, 2])
def test_the_most_similar_demonstrations_come_last(words: Path, shots: int) -> None:
    own = one(words, Experiment("retrieval", (1, 5, 77 * shots), shots), "banking77", 12)
    few = one(words, Experiment("retrieval", (1, 5), shots), "banking77", 3)
    pool = shown(own.context("full context"), "banking77")
    assert own.context("full context") == one(words, Experiment("shots", (shots,)), "banking77").context(
        f"{shots} shots"
    )
    assert len(pool) == 77 * shots
    for place, item in enumerate(own.test_items):
        scores = okapi(item.texts[0], [text for text, _ in pool])
        best = sorted(range(len(pool)), key=lambda number: (-round(scores[number], 9), number))
        for number in (1, 5):
            context = own.context(f"{number} retrieved", place)
            assert shown(context, "banking77") == [pool[position] for position in reversed(best[:number])]
            assert place >= 3 or few.context(f"{number} retrieved", place) == context  # other items do not matter
    assert len({own.context("5 retrieved", place) for place in range(12)}) > 6
    drawn = [shown(own.context("5 random", place), "banking77") for place in range(12)]
    assert [order for order in drawn if len({*order} & {*pool}) != 5] == []
    assert {pool.index(first) for first, *_ in drawn} != {pool.index(last) for *_, last in drawn}
    assert {own.contexts[f"{number} random"].compared for number in (1, 5)} == {"1 retrieved", "5 retrieved"}
    assert own.contexts["5 retrieved"].compared == ""  # compared with the full context
    assert own.queries.unavailable.keys() == {f"{77 * shots} {kind}" for kind in ("retrieved", "random")}


# -- scores


def in_last_fifth(prompt: str, label_space: list[str]) -> str:
    """Is right if the demonstrations of the true label, which these texts contain, are in the last fifth."""
    *before, (query, _) = shown(prompt)
    labels = [label for _, label in before]
    gold = re.findall(r"of (\w+)", query)[0]
    place = (labels.index(gold) + labels[::-1].index(gold) * -1 + len(labels) - 1) / 2 / len(labels)
    return gold if place >= 0.8 else label_space[0]


def test_a_known_effect_is_found(small_files: Path) -> None:
    result = benchmark(small_files, Experiment("position", shots=2), limit=None)(in_last_fifth)
    rows = rows_of(result)
    assert list(rows) == [f"part {part}" for part in range(1, 6)]
    always = 3 / 72  # the first label is right where it is the true one
    *others, last = rows.values()
    assert last["score"] == pytest.approx(1.0, abs=always)
    for row in others:
        assert row["score"] <= always
        assert row["difference_high"] < 0
    assert last["difference"] == pytest.approx(last["score"] - sum(row["score"] for row in others) / 4)
    assert 0.6 < last["difference_low"] < last["difference"] <= last["difference_high"]
    assert result.divided["goemotions"]["experiment"]["p_value"] == 1 / 2000
    assert "test of no effect of the part of the context: p = 0.0005." in str(result)


def exact_p_value(correct: dict[str, list[int]], blocks: dict[str, int]) -> float:
    """Over all assignments of labels to the slots of the design."""

    def statistic(assigned: tuple[int, ...]) -> float:
        orders = len(next(iter(correct.values())))
        parts = [
            sum(correct[label][(part - block) % orders] for label, block in zip(correct, assigned, strict=True))
            for part in range(orders)
        ]
        mean = sum(parts) / orders
        return round(sum((part - mean) ** 2 for part in parts), 9)

    observed = statistic(tuple(blocks[label] for label in correct))
    every = [statistic(one) for one in itertools.permutations(blocks[label] for label in correct)]
    return sum(value >= observed for value in every) / len(every)


@pytest.mark.parametrize("seed", range(4))
def test_the_p_value_is_that_of_all_assignments(seed: int) -> None:
    draw = random.Random(seed)
    labels = "abcdefg"
    blocks = blocks_of(labels, 3, seed)
    correct = {
        label: [
            int(draw.random() < (0.9 if (blocks[label] + order) % 3 == 2 else 0.4)) * (1 + (label == "a"))
            for order in range(3)
        ]
        for label in labels
    }
    exact = exact_p_value(correct, blocks)
    found = position_p_value(correct, blocks, 4000)
    assert abs(found - exact) < 4 * math.sqrt(max(exact * (1 - exact), 1e-3) / 4000)
    assert found == position_p_value(correct, blocks, 4000)


def copies(prompt: str, label_space: list[str]) -> str:
    """The label of the demonstration that shares the most words; without demonstrations, the first label."""
    *before, (query, _) = shown(prompt)
    words = set(query.split())
    return max(before, key=lambda one: len(words & set(one[0].split())))[1] if before else label_space[0]


def knows(prompt: str, label_space: list[str]) -> str:
    """What the query says, without reading the context."""
    return re.findall(r"of (\w+)", prompt)[-1]


def constant(prompt: str, label_space: list[str]) -> str:
    return label_space[5]


def test_controls_separate_three_models(small_files: Path) -> None:
    own = benchmark(small_files, Experiment("controls", shots=2), limit=None)
    copying, prior, fixed = (rows_of(own(function)) for function in (copies, knows, constant))
    # Copying: right with any names, and only as far as the demonstrations are.
    assert copying["normal"]["score"] == copying["symbols"]["score"] == 1.0
    assert copying["symbols"]["difference"] == 0.0
    few = rows_of(benchmark(small_files, Experiment("controls", shots=2), limit=9)(copies)).values()
    lost = [round(9 * (1 - row["score"])) for row in few]  # all of them right in "normal"
    observed_share = 1 - 0.0214 * math.sqrt(9)
    expected = holm([min(1.0, observed_share * 2.0 ** (1 - count)) if count else 1.0 for count in lost[1:]])
    assert [row["p_value"] for row in few] == [None, *map(pytest.approx, expected)]
    for name in ("zero shots", "shuffled labels", "random labels", "irrelevant text"):
        assert copying[name]["score"] < 0.2
        assert copying[name]["difference_high"] < -0.5
    # Prior knowledge: right whatever the context is, except with names that it cannot know.
    assert {name: row["score"] for name, row in prior.items()} == {name: float(name != "symbols") for name in prior}
    assert prior["symbols"]["difference_high"] < -0.9
    assert prior["shuffled labels"]["difference"] == 0.0
    # Constant: the share of one label, everywhere.
    (score,) = {row["score"] for row in fixed.values()}
    assert 0 < score <= 3 / 72
    assert [row for row in fixed.values() if row.get("difference") not in (None, 0.0)] == []


@pytest.mark.parametrize(
    ("experiment", "name"),
    [*((experiment, "goemotions") for experiment in EVERY), ("context", "tacred"), ("position", "tacred")],
)
def test_results_say_the_same_everywhere(small_files: Path, tmp_path: Path, experiment: str, name: str) -> None:
    levels = {"shots": (0, 1, 4)}.get(experiment, (1024, 1500, 2048) if experiment in ("context", "length") else ())
    options = {} if levels else {"shots": 2, "seed": 3}
    own = benchmark(small_files, Experiment(experiment, levels, **options), name, limit=20)
    calls: list[str] = []

    def function(prompt: str, label_space: list[str]) -> str:
        calls.append(prompt)
        return label_space[len(prompt) % 7]

    result = own(function, store=tmp_path / "store.sqlite", model_name="m")
    assert len(calls) == result.details[name].distinct == len(set(own[0].prompt_set()))
    answers = [function(query.prompt, list(query.label_space)) for query in own[0].all_queries()]
    assert own(preentered_prediction=[answers]).divided == result.divided
    result.save(tmp_path / "result.json")
    loaded = load_result(tmp_path / "result.json")
    assert isinstance(loaded, Result)
    assert [found.contradicted for found in verify(loaded, data_dir=small_files)] == [(), ()]
    forged = json.loads((tmp_path / "result.json").read_text("utf-8"))
    row = next(iter(forged["Divided results"][name]["experiment"]["conditions"].values()))
    row["score_low"] -= 0.001
    findings = verify(Result.from_dict(forged), data_dir=small_files)
    assert any(finding.contradicted for finding in findings), f"got {findings}"
    row["score_low"] = "<b>"
    with pytest.raises(SchemaError, match="experiment"):
        Result.from_dict(forged)
    other = own(lambda prompt, label_space: [*label_space[:5], "?"][len(prompt) % 6], model_name="other")
    compared = {line.dataset: line.values for line in compare(result, other).claims}
    assert list(compared) == [str(key) for key in own[0].rounds]
    for key, scores in compared.items():
        assert scores == pytest.approx((result.divided[name][key], other.divided[name][key]))
    values, conditions = result.divided[name], rows_of(result, name)
    head, rows = experiment_rows(loaded)
    assert [row[0] for row in rows] == [f"{name}, {key}" for key in conditions]
    for (key, row), cells in zip(conditions.items(), rows, strict=True):
        if experiment != "position":
            assert row["score"] == pytest.approx(values[key], abs=1e-7)
            interval = result.details[name].intervals[key]
            assert (row["score_low"], row["score_high"]) == (interval.low, interval.high)
        assert row["score_low"] <= row["score"] <= row["score_high"]
        assert dict(zip(head, cells, strict=True))["score"].startswith(f"{row['score']:.4f} [")
    assert values["mean"] is result.averaged["mean"] is None
    assert "no common mean" in result.details[name].missing["mean"]
    shown = {row[2]: row[3] for row in experiment_chart({"mine": loaded}).rows}
    assert shown == {key: f"{row['score']:.4f}" for key, row in conditions.items()}
    assert f"Experiment: {experiment}" in report_html({"mine": loaded})
    assert [found for found in compare_with_published(result) if not (found.reason and not found.figures)] == []


def test_experiments_are_compared_condition_by_condition(small_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is right in one condition only is better there, and nothing is said about the others."""
    own = benchmark(small_files, "controls", limit=60)
    conditions = [condition.name for condition in own[0].conditions()]

    def right_in(names: list[str]) -> Result:
        given = [
            query.label if condition.name in names else (query.label + 1) % 28
            for condition in own[0].conditions()
            for query in condition.queries
        ]
        return own(preentered_prediction=[given])

    runs = {"one": right_in(conditions[:1]), "none": right_in([]), "all": right_in(conditions)}
    found = compare(runs["one"], runs["none"], margin=0.2)
    said = [text for text in found.conclusion() if "better" in text]
    assert said[0] == f"{conditions[0]}: first is better (p < 0.0001)"
    assert said[1:] == [f"{name}: neither run is shown to be better (p = 1)" for name in conditions[1:]]
    assert (found.mean, [line.dataset for line in found.claims]) == (None, conditions)
    with pytest.raises(ArgumentError, match="no overall difference"):
        _ = found.overall
    not_worse = {(claim.condition, claim.run) for claim in found.non_inferiority if claim.shown}
    assert (conditions[0], "first") in not_worse
    assert (conditions[0], "second") not in not_worse
    for claim in found.non_inferiority:
        alone = compare(runs["one"], runs["none"], claim.condition, margin=0.2).non_inferiority
        (expected,) = (other.p_value for other in alone if other.run == claim.run)
        assert claim.p_value == min(1.0, (expected or 0.0) * len(conditions))
    several = compare_runs(runs)
    assert several.ranking == ()
    for pair in several.comparisons:
        for line in pair.claims:
            of_condition = compare_runs(runs, line.dataset).comparisons
            (pair_alone,) = (
                other for other in of_condition if (other.first, other.second) == (pair.first, pair.second)
            )
            assert line.holm == min(1.0, (pair_alone.overall.holm or 0.0) * len(conditions))
    text = str(several)
    assert (
        "p (corrected): corrected for pairs of runs and directions (Holm), and for the conditions (Bonferroni)" in text
    )
    assert "p (corrected): for all interactions and directions (Holm)" in text
    assert "p (Holm)" not in text  # no table has such a column
    with pytest.raises(ArgumentError, match="expected one of"):
        rank(runs)
    assert [place.run for place in rank(runs, conditions[0]).runs][-1] == "none"
    for text in (latex_scores(runs), report_html(runs)):
        assert [name for name in conditions if f"LongICL: {name}" not in text] == []
    for form in FORMATS:
        text = format_comparisons([several], form).replace("\\", "")
        assert all(name in text for name in conditions), form
    monkeypatch.setattr(alignment, "MOST_RUNS", 2)
    text = str(compare_runs(runs))
    assert "p (corrected): corrected for all pairs of runs and for the conditions (Bonferroni)" in text
    assert "p (corrected): for the interactions of all pairs of runs (Bonferroni)" in text
    assert "Holm" not in text


def test_report_and_latex_correct_for_the_conditions_as_compare_does(small_files: Path) -> None:
    """A run gains seven items in one of six conditions: p is 0.016 there, and 0.094 corrected for the conditions."""
    own = benchmark(small_files, "controls", limit=60)
    conditions = [condition.name for condition in own[0].conditions()]

    def right_on(gained: int) -> Result:
        labels = []
        for condition in own[0].conditions():
            for place, query in enumerate(condition.queries):
                right = place < 30 or (condition.name == conditions[0] and place < 30 + gained)
                labels.append(query.label if right else (query.label + 1) % 28)
        return own(preentered_prediction=[labels])

    runs = {"more": right_on(7), "less": right_on(0)}
    line = compare(runs["more"], runs["less"]).datasets[0]
    assert line.p_value is not None
    assert line.p_value < 0.05 < line.holm
    table_row = next(row for row in latex_scores(runs).splitlines() if row.startswith(f"LongICL: {conditions[0]} "))
    assert r"\underline" in table_row
    assert "corrected for all of them" in latex_scores(runs)
    page = report_html(runs)
    assert f"not a significant difference (p = {line.holm:.3g})" in page
    assert "p = 0.0156" not in page.split("What changed between two runs")[0]


@pytest.mark.parametrize(
    ("experiment", "expected_undefined"),
    [
        # Each prompt of this experiment has the demonstrations of all rounds, so a failure of one is in all conditions.
        (Experiment("position", shots=1), None),
        (Experiment("shots", (0, 1, 2)), ["1 shots"]),
    ],
    ids=["position", "shots"],
)
def test_a_failed_condition_is_undefined(
    small_files: Path, experiment: Experiment, expected_undefined: list[str] | None
) -> None:
    own = benchmark(small_files, experiment, limit=20)
    failing_round = own[0].rounds[1]
    failing_context = own[0].context(failing_round)

    def function(prompt: str, label_space: list[str]) -> int:
        rest = len(prompt) - len(failing_context)
        if prompt.startswith(failing_context) and rest < 60 * 2:  # no demonstration follows, only the query
            raise ValueError("the server is gone")
        return 0

    result = own(function, on_error="collect")
    values = result.divided["goemotions"]
    rows = rows_of(result)
    undefined = [name for name, row in rows.items() if row["score"] is None]
    assert undefined == (expected_undefined or list(rows))
    for name in undefined:
        assert rows[name]["difference"] is None, name
        assert rows[name]["score_low"] is None, name
    assert values[str(failing_round)] is None
    assert values["experiment"].get("p_value") is None
    assert "PARTIAL" in str(result)
    assert experiment_chart(result).rows


@pytest.mark.parametrize(("gained", "lost"), [(12, 0), (0, 12), (4, 4)])
def test_missing_replies_count_at_their_worst_for_each_direction_of_a_difference(gained: int, lost: int) -> None:
    """The p-value is at least that of any replies in the place of the missing ones."""
    right, wrong = (Tally(("a",), (), ("a",) * correct) for correct in (1, 0))
    before = [wrong] * gained + [right] * lost + [right, wrong, right, None]
    after = [right] * gained + [wrong] * lost + [right, wrong, None, right]
    of_replies = [
        mcnemar_p_value([*before[:-1], first], [*after[:-2], second, right])
        for first, second in itertools.product([right, wrong], repeat=2)
    ]
    assert mcnemar_p_value(before, after) == pytest.approx(max(of_replies))


def test_what_is_said_of_differences_holds_whatever_missing_replies_would_have_been(small_files: Path) -> None:
    """Excluded replies are those of hard items here: the score of the rest rises, no prediction changes."""
    own = benchmark(small_files, Experiment("shots", (0, 1)), limit=40, unparsed="excluded")
    gold = [item.gold[0] for item in own[0].test_items]
    right = [label if place < 25 else gold[place - 1] for place, label in enumerate(gold)]
    result = own(preentered_prediction=[right + [answer if place < 30 else "?" for place, answer in enumerate(right)]])
    first, second = rows_of(result).values()
    assert (first["score"], second["score"], second["items"]) == (25 / 40, 25 / 30, 30)
    assert second["difference"] == pytest.approx(25 / 30 - 25 / 40)
    assert second["difference_low"] < 0.0 < second["difference_high"]
    assert second["p_value"] == 1.0
    assert "missing replies count at their worst for each direction" in " ".join(str(result).split())
    guessing = result.details["goemotions"].baselines  # of all queries: those that are left out count as wrong
    assert [baselines.queries for baselines in guessing.values()] == [40, 40]
    expected = sum(math.comb(40, hits) * 27 ** (40 - hits) for hits in range(25, 41)) / 28**40
    assert guessing["1 shots"].p_value == pytest.approx(expected, rel=1e-9, abs=0)
    parts = benchmark(small_files, Experiment("position", (2,), shots=1), limit=40, unparsed="excluded")
    missing = parts(preentered_prediction=[[*right, *right[:30], *["?"] * 10]])
    assert [
        row for row in rows_of(missing).values() if not (row["difference_low"] < 0.0 < row["difference_high"])
    ] == []
    assert missing.divided["goemotions"]["experiment"]["p_value"] is None
    assert "the effect of the part of the context is untested" in str(missing)
    complete = parts(preentered_prediction=[[*right, *right]])
    assert {row["difference"] for row in rows_of(complete).values()} == {0.0}
    assert complete.divided["goemotions"]["experiment"]["p_value"] == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_a_condition_without_replies_to_its_errors_is_not_better_than_an_equal_one(
    small_files: Path, seed: int
) -> None:
    """Both conditions are right on 70 % of the items; the second has no label in 60 % of its wrong replies."""
    own = benchmark(small_files, Experiment("shots", (0, 1)), limit=40, unparsed="excluded")
    draw = random.Random(seed)
    gold = [item.gold[0] for item in own[0].test_items]
    other = sorted(set(gold))[:2]
    wrong = [other[0] if label != other[0] else other[1] for label in gold]
    first = [label if draw.random() < 0.7 else miss for label, miss in zip(gold, wrong, strict=True)]
    second = [label if draw.random() < 0.7 else miss for label, miss in zip(gold, wrong, strict=True)]
    lost = [
        answer if answer == label or draw.random() > 0.6 else "?" for answer, label in zip(second, gold, strict=True)
    ]
    row = rows_of(own(preentered_prediction=[[*first, *lost]]))["1 shots"]
    complete = rows_of(own(preentered_prediction=[[*first, *second]]))["1 shots"]
    assert row["difference_low"] <= complete["difference"] <= row["difference_high"]
    assert row["difference_low"] < 0.0
    assert row["p_value"] >= complete["p_value"]


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (
            Experiment("order", (1000,)),
            r"got 1000 rotations of \d+ demonstrations, expected at most \d+, which",
        ),
        (Experiment("position", (1000,)), "got 1000 parts for 28 labels, expected at most 28, so that each part has"),
    ],
)
def test_levels_that_the_data_cannot_fill_say_what_is_expected(
    small_files: Path, experiment: Experiment, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        make(small_files, ["goemotions"], experiment=experiment)


# -- memory


def test_a_run_keeps_the_prompts_of_one_condition_only(small_files: Path) -> None:
    experiment = Experiment("context", levels=(9000, 9100, 9200, 9300, 9400, 9500))
    benchmark = make(small_files, ["banking77"], limit=40, experiment=experiment)
    prompts_of_conditions = [sum(len(query.prompt) for query in own.queries) for own in benchmark[0].conditions()]
    tracemalloc.start()
    benchmark(lambda prompt, label_space: 0, progress=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(prompts_of_conditions) == 6
    assert peak < sum(prompts_of_conditions[:2])
