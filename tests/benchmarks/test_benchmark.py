"""A benchmark over data sets: choosing them, asking in any way, aggregating, signing."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks import Benchmark, NormalTask
from StaICC.benchmarks.statistics import Statistics
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, OutputError, StaICCError, UnknownNameError
from StaICC.inference import Progress
from StaICC.prompting import TemplateWarning


@pytest.fixture
def three(make_own: Callable[..., Dataset]) -> Benchmark:
    return StaICC.Normal(datasets=[make_own(1, "one"), make_own(2, "two"), "mini"])


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def by_length(prompt: str, label_space: list[str]) -> list[float]:
    """A function of a module, so that other processes can import it."""
    return [float(len(prompt) * (place + 1) % 11) for place in range(len(label_space))]


# -- as the README has it


def test_the_quick_start(stand_in: Any) -> None:
    from StaICC import Normal

    benchmark = Normal(datasets=["mini"])
    result = benchmark(stand_in)
    assert isinstance(result, dict)
    assert list(result) == ["Divided results", "Averaged results"]
    assert list(result["Divided results"]["mini"]) == list(result["Averaged results"])
    assert result["Divided results"]["mini"] == result["Averaged results"]
    assert benchmark.auto_run(list_of_forward_inference=[stand_in]) == result


def test_experimentors_by_position_and_name(three: Benchmark) -> None:
    assert len(three) == 3
    assert [one.name for one in three] == ["one", "two", "mini"]
    assert three[0] is three.experimentor[0] is three["one"] is three["ONE"]
    assert three[-1].name == "mini"
    assert three.get_experimentors() == three.experimentor
    assert three.get_label_spaces_for_experimentors() == [["no", "yes"]] * 2 + [["food", "travel", "weather"]]
    assert [len(split.test) for split in three.get_experiment_data()[:2]] == [12, 12]
    assert repr(three) == "<Normal over one, two, mini>"
    with pytest.raises(UnknownNameError, match=r"there is no data set in this benchmark 'tow'; did you mean 'two'\?"):
        three["tow"]


@pytest.mark.pack
def test_the_ten_are_the_default() -> None:
    from StaICC.datasets import names

    benchmark = StaICC.Normal()
    assert tuple(one.name for one in benchmark) == names()
    assert [one.name for one in StaICC.Normal(datasets=["TREC", "AGNews"])] == ["TREC", "AGNews"]
    assert "datasets" not in benchmark.signature().fields
    assert StaICC.Normal(datasets=["TREC", "AGNews"]).signature().fields["datasets"] == "TREC+AGNews"


# -- making it anew


@pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")
def test_making_the_experimentors_anew(three: Benchmark) -> None:
    default = three[0].prompt_set()
    three[0].prompt_former.change_instruction("Decide. ")
    three[0].set_k(1)
    three.re_initialize()
    assert three[0].prompt_set() == default
    three.re_initialize(k=2)
    assert [one.get_k() for one in three] == [2] * 3
    three.re_initialize(noisy_channel=True)
    assert isinstance(three[0].prompt_set()[0], list)
    three.re_initialize()
    assert three[0].prompt_set() == default


@pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")
def test_making_the_experimentors_anew_with_their_writers(three: Benchmark) -> None:
    """An IndexError in the release (defect 12)."""
    three[1].prompt_former.change_instruction("Decide. ")
    writers = [one.prompt_former for one in three]
    three.re_initialize(k=2, keep_prompter=True)
    assert [one.prompt_former for one in three] == writers
    assert all(prompt.startswith("Decide. ") for prompt in three[1].prompt_set())
    assert not three[0].prompt_set()[0].startswith("Decide. ")


def test_making_anew_keeps_the_settings(stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=3, metrics="0.1.1")
    before = benchmark(stand_in)
    benchmark.re_initialize()
    assert benchmark(stand_in) == before


# -- functions


def test_a_list_has_one_function_for_each_data_set(three: Benchmark, stand_in: Any) -> None:
    functions = [first_label, stand_in, by_length]
    result = three(functions)
    for place, function in enumerate(functions):
        alone = StaICC.Normal(datasets=[three[place].dataset])(function)
        assert result["Divided results"][three[place].name] == alone["Averaged results"]


@pytest.mark.pack
def test_a_list_of_ten_functions() -> None:
    asked: list[list[str]] = [[] for _ in range(10)]

    def make(place: int) -> Callable[..., int]:
        def function(prompt: str, label_space: list[str]) -> int:
            asked[place].append(prompt)
            return 0

        return function

    benchmark = StaICC.Normal(k=1, limit=2)
    benchmark([make(place) for place in range(10)])
    assert asked == [one.prompt_set() for one in benchmark]


def test_one_function_for_all_is_asked_in_order(three: Benchmark) -> None:
    asked = []

    def function(prompt: str, label_space: list[str]) -> int:
        asked.append(prompt)
        return 0

    three(function)
    assert asked == [prompt for one in three for prompt in dict.fromkeys(one.prompt_set())]


BAD_CALLS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (
        (),
        {},
        "give an inference function (the function itself, not what it returns), a list with one for each data set",
    ),
    (("model",), {}, "the inference function must be callable, not str"),
    ((5,), {}, "the inference function must be callable, not int"),
    (([first_label] * 2,), {}, "2 inference functions given for 3 data sets"),
    (([],), {}, "0 inference functions given for 3 data sets"),
    ((first_label,), {"forward_inference": first_label}, "got list_of_forward_inference and forward_inference"),
    (([first_label] * 4,), {}, "4 inference functions given for 3 data sets"),
    (([first_label, None, first_label],), {}, "inference function 1 must be callable, not NoneType"),
    ((first_label,), {"on_error": "ignore"}, "on_error must be 'raise' or 'collect', not 'ignore'"),
    (
        (first_label,),
        {"batched_inference": True, "executor": ThreadPoolExecutor},
        "batched_inference=True passes complete lists, whose predictions may depend on each other",
    ),
    ((first_label,), {"chunk_size": 0}, "chunk_size must be an integer of at least 1, not 0"),
    ((first_label,), {"on_eror": "collect"}, "a run has no setting 'on_eror'"),
    ((first_label,), {"batched": True}, "a run has no setting 'batched'; there are: batched_inference, "),
    (
        (),
        {"preentered_prediction": [[0]]},
        "preentered_prediction needs one list of predictions for each of the 3 data sets",
    ),
    (
        (),
        {"preentered_prediction": "abc"},
        "preentered_prediction needs one list of predictions for each of the 3 data sets",
    ),
    (
        (),
        {"preentered_prediction": {"one": []}},
        "preentered_prediction needs exactly the data sets of this benchmark; ",
    ),
    (
        (),
        {"preentered_prediction": [[0] * 24, [0] * 23, []]},
        "Normal, two: preentered_prediction has 23 predictions, prompt_set() has 24 prompts",
    ),
]


@pytest.mark.parametrize(("arguments", "settings", "message"), BAD_CALLS)
def test_bad_calls(three: Benchmark, arguments: tuple[Any, ...], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}"):
        three(*arguments, **settings)


BAD_DATASETS: list[tuple[Any, type[StaICCError], str]] = [
    ([], ArgumentError, "no data set was chosen; leave datasets out for all ten, or name at least one"),
    (["mini", "MINI"], ArgumentError, "the data set 'mini' was given twice; give each data set once"),
    ("nosuch", UnknownNameError, "there is no data set 'nosuch'"),
    (5, ArgumentError, "datasets must be names or data sets in a list, not 5"),
    (["mini", 5], ArgumentError, "a data set is given by its name or as a Dataset, not 5"),
]


@pytest.mark.parametrize(("datasets", "error", "message"), BAD_DATASETS)
def test_bad_data_sets(datasets: Any, error: type[StaICCError], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        StaICC.Normal(datasets=datasets)


def test_an_unknown_setting_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        TypeError, match=r"^there is no argument of Normal 'limits'; did you mean 'limit'\? There are: k, "
    ):
        StaICC.Normal(datasets=["mini"], limits=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"intervals": 1}, "intervals must be True or False, not 1"),
        ({"level": 0.4}, "level must be a number of at least 0.5"),
        ({"level": "0.9"}, "level must be a number of at least 0.5"),
        ({"tried": 0}, "tried must be an integer of at least 1, not 0"),
        ({"level": 95}, "level must be a number of at least 0.5 and at most 0.9999, not 95"),
        ({"level": 1.0}, "level must be a number of at least 0.5 and at most 0.9999, not 1.0"),
    ],
)
def test_bad_statistics(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}"):
        Statistics(**settings)


def test_a_data_set_can_be_given_alone(make_own: Callable[..., Dataset]) -> None:
    assert len(StaICC.Normal(datasets="mini")) == 1
    assert len(StaICC.Normal(datasets=make_own(1))) == 1


def test_predictions_for_each_data_set(three: Benchmark, stand_in: Any, anonymous: Any) -> None:
    expected = anonymous(three(stand_in))
    given = {one.name: [stand_in(prompt, one.get_label_space()) for prompt in one.prompt_set()] for one in three}
    found = three(preentered_prediction=given)
    assert anonymous(found) == expected
    assert three(preentered_prediction=list(given.values())) == found


def test_batched_functions(three: Benchmark, stand_in: Any, anonymous: Any) -> None:
    def batched(prompts: list[str], label_space: list[str]) -> list[list[float]]:
        return [stand_in(prompt, label_space) for prompt in prompts]

    assert anonymous(three(batched, batched_inference=True)) == anonymous(three(stand_in))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_change_nothing(three: Benchmark, workers: int) -> None:
    expected = three(by_length)
    with ThreadPoolExecutor(workers) as executor:
        assert three(by_length, executor=executor) == expected
        assert three(by_length, executor=executor, chunk_size=5) == expected
    with ProcessPoolExecutor(workers) as executor:
        assert three(by_length, executor=executor, chunk_size=17) == expected


def test_progress_tells_data_set_by_data_set(three: Benchmark) -> None:
    told: list[Progress] = []
    three(first_label, progress=told.append)
    assert [one.where for one in told if one.done == one.total and not one.phase] == [
        "Normal, one",
        "Normal, two",
        "Normal, mini",
    ]
    assert {(one.number, one.parts) for one in told} == {(0, 3), (1, 3), (2, 3)}


def test_nothing_goes_to_stdout(
    three: Benchmark, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The release prints its progress there (defect 18)."""
    with caplog.at_level(logging.DEBUG):
        three(first_label)
        StaICC.Suite(datasets=["mini"], limit=2)(by_length)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


# -- failures


def failing(prompt: str, label_space: list[str]) -> Any:
    return None if "column 1" in prompt and "text 3" in prompt else by_length(prompt, label_space)


def test_a_failure_names_its_data_set(three: Benchmark) -> None:
    with pytest.raises(
        OutputError, match=r"^Normal, two, query \d+: the inference function's answer cannot be scored: "
    ):
        three(failing)


def test_a_partial_result_says_so(three: Benchmark) -> None:
    result = three(failing, on_error="collect", return_outputs=True)
    failed = sum("text 3" in prompt for prompt in three["two"].prompt_set())
    assert 0 < failed < 24
    assert not result.complete
    assert three(by_length).complete
    assert [details.failed for details in result.details.values()] == [0, failed, 0]
    assert result.details["two"].scored == 24 - failed
    assert len(result.details["two"].failures) == failed
    assert "got None" in result.details["two"].failures[0].reason
    assert result.signature.fields["failed"] == str(failed)
    asked = sum(map(len, three))
    assert f"PARTIAL: {failed} of {asked} queries have no answer; no figure counts them." in str(result)
    assert result.outputs is not None
    assert sum(record["prediction"] is None for record in result.outputs["two"]) == failed
    scored = [record for record in result.outputs["two"] if record["prediction"] is not None]
    accuracy = sum(record["prediction"] == record["ground_truth"] for record in scored) / len(scored)
    assert result["Divided results"]["two"]["accuracy"] == accuracy


def test_a_mean_with_a_missing_part_is_missing(three: Benchmark) -> None:
    result = three([first_label, by_length, by_length])
    assert result["Divided results"]["one"]["averaged_truelabel_likelihood"] is None
    assert result["Averaged results"]["averaged_truelabel_likelihood"] is None
    assert result.details["one"].missing["averaged_truelabel_likelihood"].startswith("the predictions are bare labels")
    accuracies = [scores["accuracy"] for scores in result["Divided results"].values()]
    assert result["Averaged results"]["accuracy"] == math.fsum(accuracies) / 3


# -- what is returned


def test_averages_only(three: Benchmark, stand_in: Any) -> None:
    result = three(stand_in, return_divided_results=False)
    assert list(result) == ["Averaged results"]
    assert result == three(stand_in)
    assert list(result.divided) == ["one", "two", "mini"]


def test_outputs_are_kept_on_request(three: Benchmark, stand_in: Any) -> None:
    assert three(stand_in).outputs is None
    result = three(stand_in, return_outputs=True)
    assert result.outputs is not None
    for one in three:
        records = result.outputs[one.name]
        assert len(records) == len(one)
        for query, record in zip(one.all_queries(), records, strict=True):
            assert (record["row"], record["repeat"], record["ground_truth"]) == (query.row, query.repeat, query.label)
            row = stand_in(query.prompt, list(query.label_space))
            assert record["prediction"] == row.index(max(row))
            assert sum(record["predicted_probabilities"]) == pytest.approx(1)


def test_metrics_of_ones_own_by_name(stand_in: Any) -> None:
    functions = {"mine": lambda truth, rows: 0.5, "length": lambda truth, rows: float(len(truth))}
    benchmark = StaICC.Normal(datasets=["mini"], metrics=functions)
    result = benchmark(stand_in)
    assert result["Averaged results"] == {"mine": 0.5, "length": float(len(benchmark[0]))}
    assert result.signature.fields["metrics"] != "standard"


def test_counts_and_timing(three: Benchmark, stand_in: Any) -> None:
    result = three(stand_in)
    for one in three:
        details = result.details[one.name]
        assert (details.asked, details.scored, details.failed) == (len(one), len(one), 0)
        assert details.distinct == len(set(one.prompt_set()))
    assert result.timing["seconds"] > 0


# -- runs and signatures


def test_a_second_run_equals_the_first(three: Benchmark, stand_in: Any) -> None:
    """The release keeps predictions in the object (defect 7)."""
    first = three(stand_in)
    other = three(by_length)
    assert other != first
    assert three(stand_in) == first
    assert json.dumps(first.to_dict()["details"]) == json.dumps(three(stand_in).to_dict()["details"])


def test_the_signature_names_what_can_move_a_number() -> None:
    base = StaICC.Normal(datasets=["mini"]).signature()
    assert {"benchmark", "data", "sampler", "k", "repeats", "channel", "metrics", "prompts", "version"} <= set(
        base.fields
    )
    changed: dict[str, StaICC.Normal] = {
        "k": StaICC.Normal(k=3, datasets=["mini"]),
        "channel": StaICC.Normal(noisy_channel=True, datasets=["mini"]),
        "metrics": StaICC.Normal(metrics="0.1.1", datasets=["mini"]),
        "limit": StaICC.Normal(datasets=["mini"], limit=7),
        "outputs": StaICC.Normal(datasets=["mini"], outputs="logits"),
        "statistics": StaICC.Normal(datasets=["mini"], statistics=Statistics(level=0.77)),
    }
    for field, benchmark in changed.items():
        assert field in base.differences(benchmark.signature()), field
    assert changed["limit"].signature().fields["limit"] == "7"
    assert changed["metrics"].signature().fields["metrics"] == "0.1.1"


def test_modes_and_samplers_show_in_the_signature() -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    base = benchmark.signature()
    benchmark[0].set_in_domain_mode()
    assert benchmark.signature().fields["demonstrations"] == "in-domain"
    benchmark[0].set_out_of_domain_mode()
    assert benchmark.signature().fields["demonstrations"] == "out-of-domain"
    rows = len(benchmark[0].test_set())
    seen = set()
    for chosen in ([0, 1, 2, 3], [3, 2, 1, 0]):
        benchmark[0].set_demonstration_sampler([chosen] * rows)
        signature = benchmark.signature()
        assert signature.fields["repeats"] == "1"
        seen.add(signature.fields["demonstrations"])
    assert len(seen) == 2
    benchmark[0].reset_demonstration_sampler()
    assert benchmark.signature() == base


def test_the_signature_of_a_run_is_that_of_the_benchmark(three: Benchmark, stand_in: Any) -> None:
    differences = three(stand_in).signature.differences(three.signature())
    assert differences == {"scoring": ("function", None)}  # only the inference function says how it scores


def test_data_sets_that_differ_are_named_by_a_digest(three: Benchmark) -> None:
    three[0].set_k(2)
    assert str(three.signature().fields["k"]).startswith("mixed-")


def test_the_rows_are_part_of_the_signature() -> None:
    rows = [(f"text {row}", row % 2) for row in range(40)]
    one = Dataset.from_rows(rows, name="own", label_space=["a", "b"])
    other = Dataset.from_rows([*rows[:-1], ("another", 1)], name="own", label_space=["a", "b"])
    differences = StaICC.Normal(datasets=[one]).signature().differences(StaICC.Normal(datasets=[other]).signature())
    assert "data" in differences


# -- cheap to make


def test_making_a_benchmark_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import StaICC.benchmarks.experimentor as module

    def never(*given: Any) -> Any:
        raise AssertionError("drawn before it is needed")

    monkeypatch.setattr(module, "split_dataset", never)
    monkeypatch.setattr(module, "sample_demonstrations", never)
    StaICC.Suite(datasets=["mini"])


def test_templates_changed_in_one_data_set_leave_the_others(three: Benchmark, stand_in: Any) -> None:
    before = three(stand_in)
    with pytest.warns(TemplateWarning):
        three["two"].prompt_former.change_query_prefix("Now: ")
    after = three(stand_in)
    assert after["Divided results"]["one"] == before["Divided results"]["one"]
    assert after["Divided results"]["mini"] == before["Divided results"]["mini"]
    assert after["Divided results"]["two"] != before["Divided results"]["two"]
    assert str(after.signature.fields["template"]).startswith("mixed-")


def test_a_task_of_ones_own(stand_in: Any) -> None:
    class Mine(Benchmark):
        task_name = "Mine"

    assert (
        Mine(NormalTask(), datasets=["mini"])(stand_in)["Averaged results"]
        == (StaICC.Normal(datasets=["mini"])(stand_in)["Averaged results"])
    )


def own(name: str, label_space: list[str]) -> Dataset:
    return Dataset.from_rows([(("One text.",), 0), (("Another.",), 1)] * 30, name=name, label_space=label_space)


@pytest.mark.parametrize(
    ("one", "other"), [(["a+b"], ["a", "b"]), (["a%2Bb"], ["a+b"]), (["a|k:9"], ["a"]), (["a\nb"], ["a%0Ab"])]
)
def test_names_of_own_data_cannot_pass_for_other_settings(one, other):
    lines = [
        str(StaICC.Normal(datasets=[own(name, ["x", "y"]) for name in names], limit=2).signature())
        for names in (one, other)
    ]
    assert lines[0].split("|data:")[0] != lines[1].split("|data:")[0]
    assert all(line.count("|") == lines[0].count("|") and line.isprintable() for line in lines)


def test_without_demonstrations_the_signature_still_knows_the_labels():
    signatures = [
        StaICC.Normal(k=0, datasets=[own("same", labels)], limit=2).signature() for labels in (["x", "y"], ["y", "x"])
    ]
    assert list(signatures[0].differences(signatures[1])) == ["data"]


def test_other_names_of_parameters_get_a_hint():
    with pytest.raises(OutputError, match="it is called with arguments by name: call its parameters prompt and label_"):
        StaICC.Normal(datasets=["mini"], limit=1)(lambda p, labels: 0)


def test_a_result_is_not_saved_into_a_folder_that_is_not_there(tmp_path):
    result = StaICC.Normal(datasets=["mini"], limit=1)(lambda prompt, label_space: 0)
    with pytest.raises(ArgumentError, match=r"^the folder .*nowhere is not there; make it first"):
        result.save(tmp_path / "nowhere" / "result.json")
