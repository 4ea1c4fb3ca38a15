"""A benchmark over data sets: choosing them, running in any way, aggregating, signing."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import StaICC
from StaICC import Normal
from StaICC.benchmarks import Benchmark, Statistics
from StaICC.datasets import Dataset, names
from StaICC.errors import ArgumentError, OutputError, StaICCError, UnknownNameError
from StaICC.inference import Progress
from StaICC.prompting import TemplateWarning


@pytest.fixture
def three(make_own: Callable[..., Dataset]) -> Benchmark:
    return Normal(datasets=[make_own(1, "one"), make_own(2, "two"), "mini"])


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def by_length(prompt: str, label_space: list[str]) -> list[float]:
    """A function of a module, so that other processes can import it."""
    return [float(len(prompt) * (place + 1) % 11) for place in range(len(label_space))]


def test_experimentors_by_position_and_name(three: Benchmark, make_own: Callable[..., Dataset]) -> None:
    assert [experimentor.name for experimentor in three] == three.dataset_names == ["one", "two", "mini"]
    assert three[0] is three.experimentor[0] is three["one"] is three["ONE"]
    assert (len(three), three[-1].name, repr(three)) == (3, "mini", "<Normal over one, two, mini>")
    assert three.get_experimentors() == three.experimentor
    assert three.get_label_spaces_for_experimentors() == [["no", "yes"]] * 2 + [["food", "travel", "weather"]]
    assert [len(split.test) for split in three.get_experiment_data()[:2]] == [12, 12]
    with pytest.raises(UnknownNameError, match=r"no data set in this benchmark 'tow'; did you mean 'two'\?"):
        three["tow"]
    assert len(Normal(datasets="mini")) == len(Normal(datasets=make_own(1))) == 1


@pytest.mark.pack
def test_the_ten_are_the_default() -> None:
    benchmark = Normal()
    assert tuple(benchmark.dataset_names) == names()
    assert "datasets" not in benchmark.signature().fields
    assert Normal(datasets=["TREC", "AGNews"]).signature().fields["datasets"] == "TREC+AGNews"


@pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")
def test_re_initialize(three: Benchmark) -> None:
    default = three[0].prompt_set()
    three[0].prompt_former.change_instruction("Decide. ")
    three[0].set_k(1)
    three.re_initialize()
    assert three[0].prompt_set() == default
    three.re_initialize(noisy_channel=True)
    assert isinstance(three[0].prompt_set()[0], list)
    three.re_initialize()
    three[1].prompt_former.change_instruction("Decide. ")
    writers = [experimentor.prompt_former for experimentor in three]
    three.re_initialize(k=2, keep_prompter=True)  # an IndexError in the release (defect 12)
    assert [experimentor.get_k() for experimentor in three] == [2] * 3
    assert [experimentor.prompt_former for experimentor in three] == writers
    assert all(prompt.startswith("Decide. ") for prompt in three[1].prompt_set())
    assert not three[0].prompt_set()[0].startswith("Decide. ")


# -- functions and bad arguments


def test_a_list_has_one_function_for_each_data_set(three: Benchmark, stand_in: Any) -> None:
    functions = [first_label, stand_in, by_length]
    result = three(functions)
    for experimentor, function in zip(three, functions, strict=True):
        alone = Normal(datasets=[experimentor.dataset])(function)
        assert result["Divided results"][experimentor.name] == alone["Averaged results"]


def test_queries_and_progress_are_in_order(three: Benchmark) -> None:
    prompts: list[str] = []
    reported: list[Progress] = []
    three(lambda prompt, label_space: prompts.append(prompt) or 0, progress=reported.append)
    assert prompts == [prompt for experimentor in three for prompt in dict.fromkeys(experimentor.prompt_set())]
    ends = [progress.where for progress in reported if progress.done == progress.total and not progress.phase]
    assert ends == ["Normal, one", "Normal, two", "Normal, mini"]
    assert {(progress.number, progress.parts) for progress in reported} == {(0, 3), (1, 3), (2, 3)}


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


BAD_SETTINGS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"datasets": []}, ArgumentError, "no data set was chosen"),
    ({"datasets": ["mini", "MINI"]}, ArgumentError, "the data set 'mini' was given twice"),
    ({"datasets": "nosuch"}, UnknownNameError, "there is no data set 'nosuch'"),
    ({"datasets": 5}, ArgumentError, "datasets must be names or data sets in a list, not 5"),
    ({"datasets": ["mini", 5]}, ArgumentError, "a data set is given by its name or as a Dataset, not 5"),
    ({"datasets": "mini", "limits": 1}, TypeError, "no argument of Normal 'limits'; did you mean 'limit'"),
]


@pytest.mark.parametrize(("settings", "error", "message"), BAD_SETTINGS)
def test_bad_arguments(settings: dict[str, Any], error: type[StaICCError], message: str) -> None:
    with pytest.raises(error, match=message):
        Normal(**settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [("intervals", 1), ("tried", 0), *(("level", value) for value in (0.4, "0.9", 95, 1.0, True))],
)
def test_bad_statistics(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} must be .* not {re.escape(repr(value))}$"):
        Statistics(**{name: value})


def test_predictions_for_each_data_set(three: Benchmark, stand_in: Any, anonymous: Any) -> None:
    given = {
        experimentor.name: [stand_in(prompt, experimentor.get_label_space()) for prompt in experimentor.prompt_set()]
        for experimentor in three
    }
    result = three(preentered_prediction=given)
    assert anonymous(result) == anonymous(three(stand_in))
    assert three(preentered_prediction=list(given.values())) == result


def test_nothing_goes_to_stdout(
    three: Benchmark, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The release prints its progress there (defect 18)."""
    with caplog.at_level(logging.DEBUG):
        three(first_label)
        StaICC.Suite(datasets=["mini"], limit=2)(by_length)
    assert tuple(capsys.readouterr()) == ("", "")


# -- failures


def failing(prompt: str, label_space: list[str]) -> Any:
    return None if "column 1" in prompt and "text 3" in prompt else by_length(prompt, label_space)


def test_a_partial_result_says_so(three: Benchmark) -> None:
    with pytest.raises(OutputError, match=r"^Normal, two, query \d+: .*cannot be scored: "):
        three(failing)
    result = three(failing, on_error="collect", return_outputs=True)
    failed = sum("text 3" in prompt for prompt in three["two"].prompt_set())
    assert 0 < failed < 24
    assert not result.complete
    assert three(by_length).complete
    assert [details.failed for details in result.details.values()] == [0, failed, 0]
    assert (result.details["two"].scored, len(result.details["two"].failures)) == (24 - failed, failed)
    assert "got None" in result.details["two"].failures[0].reason
    assert result.signature.fields["failed"] == str(failed)
    assert f"PARTIAL: {failed} of {sum(map(len, three))} queries" in str(result)
    assert result.outputs is not None
    scored = [record for record in result.outputs["two"] if record["prediction"] is not None]
    accuracy = sum(record["prediction"] == record["ground_truth"] for record in scored) / (24 - failed)
    assert result["Divided results"]["two"]["accuracy"] == accuracy


def test_a_mean_with_a_missing_part_is_missing(three: Benchmark) -> None:
    result = three([first_label, by_length, by_length])
    assert result["Divided results"]["one"]["averaged_truelabel_likelihood"] is None
    assert result["Averaged results"]["averaged_truelabel_likelihood"] is None
    assert result.details["one"].missing["averaged_truelabel_likelihood"].startswith("the predictions are bare labels")
    accuracies = [scores["accuracy"] for scores in result["Divided results"].values()]
    assert result["Averaged results"]["accuracy"] == math.fsum(accuracies) / 3


def test_outputs_are_kept_on_request(three: Benchmark, stand_in: Any) -> None:
    assert three(stand_in).outputs is None
    result = three(stand_in, return_outputs=True)
    assert result.outputs is not None
    for experimentor in three:
        for query, record in zip(experimentor.all_queries(), result.outputs[experimentor.name], strict=True):
            assert (record["row"], record["repeat"], record["ground_truth"]) == (query.row, query.repeat, query.label)
            row = stand_in(query.prompt, list(query.label_space))
            assert record["prediction"] == row.index(max(row))
            assert record["predicted_probabilities"] == list(row)
            assert sum(record["normalised_probabilities"]) == pytest.approx(1)


# -- runs and signatures


def test_a_second_run_equals_the_first(three: Benchmark, stand_in: Any) -> None:
    """The release keeps predictions in the object (defect 7)."""
    first = three(stand_in)
    assert three(by_length) != first
    assert three(stand_in) == first
    assert json.dumps(first.to_dict()["details"]) == json.dumps(three(stand_in).to_dict()["details"])
    assert first.signature.differences(three.signature()) == {"scoring": ("function", None)}


def test_templates_and_k_changed_in_one_data_set(three: Benchmark, stand_in: Any) -> None:
    before = three(stand_in)
    with pytest.warns(TemplateWarning):
        three["two"].prompt_former.change_query_prefix("Now: ")
    three["two"].set_k(2)
    after = three(stand_in)
    same = {name: after["Divided results"][name] == scores for name, scores in before["Divided results"].items()}
    assert same == {"one": True, "two": False, "mini": True}
    assert all(str(after.signature.fields[field]).startswith("mixed-") for field in ("template", "k"))


def own(name: str, label_space: list[str], last: str = "Another.") -> Dataset:
    return Dataset.from_rows(
        [("One text.", 0), ("Another.", 1)] * 29 + [("One text.", 0), (last, 1)], name=name, label_space=label_space
    )


@pytest.mark.parametrize(
    ("one", "other"), [(["a+b"], ["a", "b"]), (["a%2Bb"], ["a+b"]), (["a|k:9"], ["a"]), (["a\nb"], ["a%0Ab"])]
)
def test_names_of_own_data_cannot_pass_for_other_settings(one, other):
    lines = [
        str(Normal(datasets=[own(name, ["x", "y"]) for name in dataset_names], limit=2).signature())
        for dataset_names in (one, other)
    ]
    assert lines[0].split("|data:")[0] != lines[1].split("|data:")[0]
    assert all(line.count("|") == lines[0].count("|") and line.isprintable() for line in lines)


def test_rows_and_labels_are_in_the_signature_without_demonstrations_too():
    datasets = (own("same", ["x", "y"]), own("same", ["y", "x"]), own("same", ["x", "y"], "Other."))
    first, *others = (Normal(k=0, datasets=[dataset], limit=2).signature() for dataset in datasets)
    assert all("data" in first.differences(other) for other in others)
