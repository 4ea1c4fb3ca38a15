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
from StaICC.benchmarks import Benchmark, Statistics
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


# -- functions


def test_a_list_has_one_function_for_each_data_set(three: Benchmark, stand_in: Any) -> None:
    functions = [first_label, stand_in, by_length]
    result = three(functions)
    for place, function in enumerate(functions):
        alone = StaICC.Normal(datasets=[three[place].dataset])(function)
        assert result["Divided results"][three[place].name] == alone["Averaged results"]


def test_one_function_for_all_is_asked_in_order(three: Benchmark) -> None:
    asked = []

    def function(prompt: str, label_space: list[str]) -> int:
        asked.append(prompt)
        return 0

    three(function)
    assert asked == [prompt for one in three for prompt in dict.fromkeys(one.prompt_set())]


BAD_CALLS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((), {}, "give an inference function"),
    (("model",), {}, "must be callable, not str"),
    ((5,), {}, "must be callable, not int"),
    (([first_label] * 2,), {}, "2 inference functions given for 3 data sets"),
    (([],), {}, "0 inference functions given for 3 data sets"),
    ((first_label,), {"forward_inference": first_label}, "list_of_forward_inference and forward_inference"),
    (([first_label, None, first_label],), {}, "inference function 1 must be callable, not NoneType"),
    ((first_label,), {"on_error": "ignore"}, "on_error must be 'raise' or 'collect', not 'ignore'"),
    ((first_label,), {"batched_inference": True, "executor": ThreadPoolExecutor}, "batched_inference=True"),
    ((first_label,), {"chunk_size": 0}, "chunk_size must be an integer of at least 1, not 0"),
    ((first_label,), {"on_eror": "collect"}, "no setting 'on_eror'"),
    ((first_label,), {"batched": True}, "no setting 'batched'; there are: batched_inference, "),
    ((), {"preentered_prediction": [[0]]}, "preentered_prediction needs one list .* 3 data sets"),
    ((), {"preentered_prediction": "abc"}, "preentered_prediction needs one list .* 3 data sets"),
    ((), {"preentered_prediction": {"one": []}}, "preentered_prediction needs exactly the data sets"),
    ((), {"preentered_prediction": [[0] * 24, [0] * 23, []]}, "Normal, two: .*has 23 predictions, .* 24 prompts"),
]


@pytest.mark.parametrize(("arguments", "settings", "message"), BAD_CALLS)
def test_bad_calls(three: Benchmark, arguments: tuple[Any, ...], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
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
    ("name", "value"),
    [("intervals", 1), ("tried", 0), *(("level", value) for value in (0.4, "0.9", 95, 1.0, True))],
)
def test_bad_statistics(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} must be .* not {re.escape(repr(value))}$"):
        Statistics(**{name: value})


def test_a_data_set_can_be_given_alone(make_own: Callable[..., Dataset]) -> None:
    assert len(StaICC.Normal(datasets="mini")) == 1
    assert len(StaICC.Normal(datasets=make_own(1))) == 1


def test_predictions_for_each_data_set(three: Benchmark, stand_in: Any, anonymous: Any) -> None:
    expected = anonymous(three(stand_in))
    given = {one.name: [stand_in(prompt, one.get_label_space()) for prompt in one.prompt_set()] for one in three}
    found = three(preentered_prediction=given)
    assert anonymous(found) == expected
    assert three(preentered_prediction=list(given.values())) == found


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
            assert record["predicted_probabilities"] == list(row)
            assert sum(record["normalised_probabilities"]) == pytest.approx(1)


# -- runs and signatures


def test_a_second_run_equals_the_first(three: Benchmark, stand_in: Any) -> None:
    """The release keeps predictions in the object (defect 7)."""
    first = three(stand_in)
    other = three(by_length)
    assert other != first
    assert three(stand_in) == first
    assert json.dumps(first.to_dict()["details"]) == json.dumps(three(stand_in).to_dict()["details"])


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
