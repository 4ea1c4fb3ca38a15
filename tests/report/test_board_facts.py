"""The facts above a leaderboard: each is compared with the results, or with numbers of data made by hand."""

from __future__ import annotations

import re
from html import unescape
from statistics import fmean

import StaICC
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.report.page import report_html
from StaICC.results.result import Result


def facts_of(runs: dict[str, Result]) -> dict[str, str]:
    """Return the facts of a page of comparable runs, by name."""
    (shown,) = re.findall(r'<dl class="facts">(.*?)</dl>', report_html(runs))
    facts = re.findall(r"<dt>(.*?): </dt><dd>(.*?)</dd>", shown.replace("<wbr>", ""))
    return {unescape(name): unescape(text) for name, text in facts}


def dataset_of(name: str, n_labels: int) -> Dataset:
    """Return a data set with 20 test rows, whose texts have the number and the label of the row."""
    rows = []
    for row in range(60):
        label = row % n_labels
        rows.append((f"{name} {row} is {label}", label))
    label_space = [f"l{label}" for label in range(n_labels)]
    sizes = SplitSizes(calibration=0, demonstration=40, test=20)
    return Dataset.from_rows(rows, name=name, label_space=label_space, split=sizes)


def run_right_on(few: float, many: float, fails: bool = False, k: int = 4) -> Result:
    """Return a run that is right on a share of the test rows of two data sets.

    Args:
        few: The share of the data set ``few``, which has two labels.
        many: The share of the data set ``many``, which has four.
        fails: Whether the run has no prediction for the other rows; otherwise it is wrong on them.
        k: The number of demonstrations.
    """

    def predict(prompt: str, label_space: list[str]) -> int | None:
        dataset, row, label = re.findall(r"(few|many) (\d+) is (\d)", prompt)[-1]
        share = few if dataset == "few" else many
        if int(row) % 20 < 20 * share:
            return int(label)
        if fails:
            return None
        return (int(label) + 1) % len(label_space)

    datasets = [dataset_of("few", n_labels=2), dataset_of("many", n_labels=4)]
    return StaICC.Normal(k, datasets=datasets)(predict, on_error="collect", model_name="m")


def test_rows_and_queries_are_counted() -> None:
    """Each row has two draws of demonstrations."""
    facts = facts_of({"a": run_right_on(few=0.5, many=0.5)})
    assert facts["Data"] == "few, many, 40 test rows, 80 queries"


def test_a_limit_is_stated_with_the_rows() -> None:
    run_with_limit = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: 0)
    assert facts_of({"a": run_with_limit})["Data"] == "mini, 6 test rows (the first 6), 12 queries"


def test_the_baselines_are_stated_with_the_verdict_that_all_runs_share() -> None:
    poor = run_right_on(few=0.25, many=0.25)

    facts = facts_of({"a": poor, "b": poor})

    random = (1 / 2 + 1 / 4) / 2  # the mean of data sets with two and with four labels
    majority = poor.means.baselines["normal"].majority
    verdict = "does not beat always the majority label"
    assert facts["Baselines"] == f"random {random:.4f}, majority label {majority:.4f}. Each run: {verdict}"
    assert 'class="chance"' not in report_html({"a": poor, "b": poor}), "the verdict is repeated at the runs"


def test_verdicts_that_differ_are_stated_at_each_run() -> None:
    runs = {"a": run_right_on(few=0.25, many=0.25), "b": run_right_on(few=1.0, many=1.0)}
    assert "Each run" not in facts_of(runs)["Baselines"]
    assert report_html(runs).count('class="chance"') == 2


def accuracies(runs: dict[str, Result], dataset: str) -> list[float]:
    """Return the saved accuracies of runs on a data set."""
    return [result.divided[dataset]["accuracy"] for result in runs.values()]


def test_the_hardest_data_set_has_the_lowest_mean_of_the_runs() -> None:
    runs = {"a": run_right_on(few=0.5, many=0.6), "b": run_right_on(few=1.0, many=0.2)}
    few = fmean(accuracies(runs, "few"))
    many = fmean(accuracies(runs, "many"))
    assert many < few

    assert facts_of(runs)["Hardest data set"] == (
        f"many, accuracy {many:.4f} (random 0.2500), mean of 2 runs. Easiest: few, {few:.4f}"
    )


def test_the_hardest_data_set_of_one_run_has_its_lowest_accuracy() -> None:
    runs = {"a": run_right_on(few=0.5, many=0.6)}
    (few,) = accuracies(runs, "few")
    (many,) = accuracies(runs, "many")
    assert few < many

    assert facts_of(runs)["Hardest data set"] == f"few, accuracy {few:.4f} (random 0.5000). Easiest: many, {many:.4f}"


def test_a_partial_run_does_not_make_a_data_set_easy() -> None:
    """Without its failed queries, the partial run is right on all."""
    whole = run_right_on(few=0.6, many=0.2)
    partial = run_right_on(few=0.2, many=1.0, fails=True)
    few, many = whole.divided["few"]["accuracy"], whole.divided["many"]["accuracy"]
    assert many < few

    counted = "mean of 1 of 2 runs (without partial ones)"
    assert facts_of({"whole": whole, "partial": partial})["Hardest data set"] == (
        f"many, accuracy {many:.4f} (random 0.2500), {counted}. Easiest: few, {few:.4f}"
    )
    assert "Hardest data set" not in facts_of({"partial": partial}), "no run has all queries"


def test_partial_runs_are_named_with_their_failed_queries() -> None:
    whole = run_right_on(few=0.6, many=0.2)
    partial = run_right_on(few=0.2, many=1.0, fails=True)
    failed = partial.details["few"].failed
    assert failed > 0

    assert facts_of({"whole": whole, "partial": partial})["Partial runs"] == f"partial ({failed} of 80 queries failed)"
    assert facts_of({"whole": whole})["Partial runs"] == "none"


def test_of_a_bias_the_hardest_data_set_has_the_highest_value() -> None:
    """The model is surer of the first label with the label names of the data set "biased"."""
    rows_of_fair = [(f"fair {number}", number % 2) for number in range(60)]
    rows_of_biased = [(f"biased {number}", number % 2) for number in range(60)]
    sizes = SplitSizes(calibration=0, demonstration=40, test=20)
    fair = Dataset.from_rows(rows_of_fair, name="fair", label_space=["yes", "no"], split=sizes)
    biased = Dataset.from_rows(rows_of_biased, name="biased", label_space=["biased yes", "biased no"], split=sizes)

    def predict_by_label_name(prompt: str, label_space: list[str]) -> list[float]:
        if label_space[0] == "biased yes":
            return [0.9, 0.1]
        return [0.6, 0.4]

    result = StaICC.Domain_bias(datasets=[fair, biased], limit=6)(predict_by_label_name)

    high, low = result.divided["biased"]["domain_bias"], result.divided["fair"]["domain_bias"]
    assert high > low
    facts = facts_of({"a": result})
    assert facts["Hardest data set"] == f"biased, domain bias {high:.4f}. Easiest: fair, {low:.4f}"
    assert "Baselines" not in facts


def test_settings_that_differ_are_named_and_the_others_have_their_value() -> None:
    facts = facts_of({"a": run_right_on(few=0.5, many=0.5, k=4), "b": run_right_on(few=0.5, many=0.5, k=1)})

    assert facts["The runs differ in"] == "k"
    assert facts["Prompts"].endswith("repeats 2, template of each data set")
    assert "k 4 / 1" in facts["Prompts"].split(", "), "the values in the order of the runs"


def test_values_that_are_too_many_for_a_line_are_said_to_differ() -> None:
    facts = facts_of({f"k {k}": run_right_on(few=0.5, many=0.5, k=k) for k in range(10, 19)})

    assert "k differs" in facts["Prompts"].split(", ")


def test_runs_of_equal_settings_differ_in_none() -> None:
    facts = facts_of({"a": run_right_on(few=0.5, many=0.5), "b": run_right_on(few=0.5, many=0.5)})

    assert facts["The runs differ in"] == "no setting"
    assert "k 4" in facts["Prompts"].split(", ")


def test_models_that_are_the_names_of_the_runs_differ() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    runs = {}
    for name in ("one", "two"):
        result = benchmark(lambda prompt, label_space: 0, model_name=name)
        runs[result.model] = result
    assert facts_of(runs)["The runs differ in"] == "model (the names of the runs)"


def test_runs_with_different_numbers_of_queries_have_the_range_of_these_numbers() -> None:
    """The same 6 rows have two queries each, or one if the method sets their demonstrations."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    kernel = StaICC.load_kernel("ppm")
    runs = {"vanilla": benchmark(kernel), "ensemble": StaICC.Method("ensemble", kernel).run(benchmark)}

    assert facts_of(runs)["Data"] == "mini, 6 test rows (the first 6), 6 to 12 queries"


def test_the_template_is_that_of_each_data_set_in_normal_only() -> None:
    normal = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: 0)
    templates = StaICC.TemplateSensitivity(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)

    assert "template of each data set" in facts_of({"a": normal})["Prompts"]
    assert "template of each data set" not in facts_of({"a": templates})["Prompts"]
