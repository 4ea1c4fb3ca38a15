"""A benchmark over data sets: choosing them, running in any way, aggregating, signing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from StaICC import Normal
from StaICC.benchmarks import Benchmark
from StaICC.datasets import Dataset
from StaICC.errors import OutputError
from StaICC.inference import Progress


@pytest.fixture
def three(make_own: Callable[..., Dataset]) -> Benchmark:
    return Normal(datasets=[make_own(1, "one"), make_own(2, "two"), "mini"])


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def by_length(prompt: str, label_space: list[str]) -> list[float]:
    """A function of a module, so that other processes can import it."""
    return [float(len(prompt) * (place + 1) % 11) for place in range(len(label_space))]


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


def test_queries_and_progress_are_in_order(three: Benchmark) -> None:
    prompts: list[str] = []
    reported: list[Progress] = []
    three(lambda prompt, label_space: prompts.append(prompt) or 0, progress=reported.append)
    assert prompts == [prompt for experimentor in three for prompt in dict.fromkeys(experimentor.prompt_set())]
    ends = [progress.where for progress in reported if progress.done == progress.total and not progress.phase]
    assert ends == ["Normal, one", "Normal, two", "Normal, mini"]
    assert {(progress.number, progress.parts) for progress in reported} == {(0, 3), (1, 3), (2, 3)}


def test_predictions_for_each_data_set(three: Benchmark, stand_in: Any, anonymous: Any) -> None:
    given = {
        experimentor.name: [stand_in(prompt, experimentor.get_label_space()) for prompt in experimentor.prompt_set()]
        for experimentor in three
    }
    result = three(preentered_prediction=given)
    assert anonymous(result) == anonymous(three(stand_in))
    assert three(preentered_prediction=list(given.values())) == result


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
    result = three([first_label, by_length, lambda prompt, label_space: [1 / len(label_space)] * len(label_space)])
    assert result["Divided results"]["one"]["averaged_truelabel_likelihood"] is None
    assert result["Divided results"]["mini"]["averaged_truelabel_likelihood"] is not None
    assert result["Averaged results"]["averaged_truelabel_likelihood"] is None
    assert "averaged_truelabel_likelihood" not in {**result.means.intervals, **result.means.missing}
    assert result.details["one"].missing["averaged_truelabel_likelihood"].startswith("the predictions are bare labels")
    accuracies = [scores["accuracy"] for scores in result["Divided results"].values()]
    assert result["Averaged results"]["accuracy"] == math.fsum(accuracies) / 3


# -- runs and signatures


def test_a_second_run_equals_the_first(three: Benchmark, stand_in: Any) -> None:
    """The release keeps predictions in the object (defect 7)."""
    first = three(stand_in)
    assert three(by_length) != first
    assert three(stand_in) == first
    assert json.dumps(first.to_dict()["details"]) == json.dumps(three(stand_in).to_dict()["details"])
    assert first.signature.differences(three.signature()) == {"scoring": ("function", None)}


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
