"""What a method costs is measured: labelled examples, texts that the model reads, further models with their tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

from StaICC import GLER, DemonstrationSensitivity, TemplateSensitivity, load
from StaICC.benchmarks.verify import verify
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.identity import Identity
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodSpec
from StaICC.methods.run import Method, run_all
from StaICC.prompting.prompt_text import extended
from StaICC.results.result import Result
from tests.methods.fakes import Kernel, benchmark_on_mini, predictions_of


def run(steps: Any, benchmark: Any = None, kernel: Any = None) -> Result:
    """Return the result of a method with the given steps, on four rows of mini and a made-up kernel by default."""
    method = Method(MethodSpec("mine", "Mine", steps), kernel or Kernel(), calibration_number=4)
    result = method.run(benchmark or benchmark_on_mini())
    assert isinstance(result, Result)
    return result


class Judge(Kernel):
    """Another model, which counts a token for each character."""

    name = "judge"

    def identity(self) -> Identity:
        return Identity({"model": "judge"})

    @property
    def tokens_used(self) -> tuple[int, int]:
        return sum(map(len, self.ran)), len(self.ran)


# -- labelled examples


def test_rows_whose_texts_are_read_need_no_label() -> None:
    def encodes_texts(data: Any) -> Any:
        calibration_texts = [data.calibration_set[position].texts for position in (0, 1, 2)]
        pool_texts = [row.texts for row in data.demonstration_set]
        prompts = [" ".join(columns) for columns in calibration_texts + pool_texts]
        yield [data.ask("hidden", prompts, role="train")]
        (rows,) = yield [data.ask()]
        return rows

    assert run(encodes_texts).timing["labelled_in_training"] == 0


def test_each_row_whose_label_is_read_counts_once() -> None:
    """Three rows: 0 and 1 of the calibration set, of which 1 is read twice, and one of the demonstration set."""

    def reads_labels(data: Any) -> Any:
        assert data.calibration_set[0].label in (0, 1, 2)
        label_index = data.calibration_set[1].label
        _texts, label_name = data.calibration_set[1]
        assert label_name == data.label_space[label_index]
        _texts, label_name = data.demonstration_set[5]
        assert label_name in data.label_space
        (rows,) = yield [data.ask()]
        return rows

    assert run(reads_labels).timing["labelled_in_training"] == 3


def test_demonstrations_of_a_training_prompt_count_as_labelled() -> None:
    """Two prompts with the calibration rows 1 and 9, and 2 and 9: three different rows."""

    def writes_prompts(data: Any) -> Any:
        rows = data.calibration_set
        query = rows[0].texts
        prompts = [data.write([rows[1], rows[9]], query), data.write([rows[2], rows[9]], query)]
        yield [data.ask("probabilities", prompts, role="train")]
        (predictions,) = yield [data.ask()]
        return predictions

    assert run(writes_prompts).timing["labelled_in_training"] == 3


@pytest.mark.parametrize("k", [0, 1, 3])
def test_a_query_with_one_prompt_uses_k_labelled_rows(k: int) -> None:
    result = Method("vanilla", Kernel()).run(benchmark_on_mini(k=k))

    assert result.timing["labelled_per_query"] == k


@pytest.mark.parametrize("k", [1, 3])
def test_a_query_uses_the_demonstrations_of_all_its_prompts(k: int) -> None:
    """The ensemble has three lists of demonstrations for each query; some lists have a row in common."""
    result = Method("ensemble", Kernel(), sets=3).run(benchmark_on_mini(k=k))

    assert 2 * k < result.timing["labelled_per_query"] <= 3 * k


@pytest.mark.parametrize("kind", [TemplateSensitivity, DemonstrationSensitivity, GLER])
def test_a_demonstration_is_one_row_whatever_its_template_and_label(kind: Any) -> None:
    assert Method("vanilla", Kernel()).run(benchmark_on_mini(k=2, kind=kind)).timing["labelled_per_query"] == 2


def test_a_demonstration_with_several_templates_is_one_row() -> None:
    several = Method("ensemble", Kernel(), sets=1, templates=3).run(benchmark_on_mini(k=2))
    assert several.timing["labelled_per_query"] == 2


def request_all_queries(view: Any) -> Any:
    return view.ask()


def request_queries_as_prompts(view: Any) -> Any:
    return view.ask(prompts=view.queries)


@pytest.mark.parametrize("request_of", [request_all_queries, request_queries_as_prompts])
def test_a_query_uses_the_demonstrations_of_two_views(request_of: Any) -> None:
    """The demonstrations 0 and 1 in one view, 7 and 8 in the other."""

    def predicts_with_two_views(data: Any) -> Any:
        first = data.on(demonstrations=[[0, 1], [0, 1], [0, 1], [0, 1]])
        second = data.on(demonstrations=[[7, 8], [7, 8], [7, 8], [7, 8]])
        rows, _ = yield [request_of(first), request_of(second)]
        return first.predictions(rows)

    assert run(predicts_with_two_views).timing["labelled_per_query"] == 4


def test_a_data_set_that_fails_has_the_costs_of_what_was_asked() -> None:
    """Signature and costs do not depend on whether the method could learn from the rows that it got."""
    failing_kernel = Kernel(fails=lambda feature, prompt: OutputError("gone"))

    complete = Method("temperature_scaling", Kernel(), calibration_number=4).run(benchmark_on_mini())
    method = Method("temperature_scaling", failing_kernel, calibration_number=4)
    failed = method.run(benchmark_on_mini(), on_error="collect")

    assert failed.details["mini"].failed == len(benchmark_on_mini()[0])
    assert failed.timing["training_prompts"] == complete.timing["training_prompts"] > 0
    assert failed.timing["labelled_in_training"] == complete.timing["labelled_in_training"] > 0
    assert complete.signature.fields["method"] == "temperature_scaling paper n=4"
    assert failed.signature.fields["method"] == "temperature_scaling paper n=4"


@pytest.mark.parametrize("reasoning", [False, True])
def test_generated_texts_follow_the_demonstrations_of_their_query(reasoning: bool) -> None:
    """The prompts differ from those of the benchmark: they end without a blank, or in the reasoning."""
    generated = Method("generate", Kernel(), reasoning=reasoning).run(benchmark_on_mini(k=3))
    assert generated.timing["labelled_per_query"] == 3


def test_a_longer_prompt_of_a_known_query_has_its_demonstrations() -> None:
    def extends_queries(data: Any) -> Any:
        longer = [query.with_prompt(extended(query.prompt, "it is ")) for query in data.queries]
        (rows,) = yield [data.ask(prompts=longer)]
        return rows

    assert run(extends_queries, benchmark_on_mini(k=3)).timing["labelled_per_query"] == 3


def test_a_longer_prompt_of_an_unknown_query_leaves_the_number_of_demonstrations_undefined() -> None:
    def extends_texts(data: Any) -> Any:
        longer = [extended(query.prompt, "it is ") for query in data.queries]
        (rows,) = yield [data.ask(prompts=longer)]
        return rows

    assert "labelled_per_query" not in run(extends_texts, benchmark_on_mini(k=3)).timing


def test_a_text_that_is_the_prompt_of_a_query_shows_its_demonstrations() -> None:
    def asks_texts(data: Any) -> Any:
        (rows,) = yield [data.ask(prompts=[query.prompt for query in data.queries])]
        return rows

    assert run(asks_texts, benchmark_on_mini(k=3)).timing["labelled_per_query"] == 3


def test_prompts_that_a_method_wrote_itself_are_not_those_of_the_benchmark() -> None:
    """The method sends the queries without their demonstrations, whatever the benchmark shows."""

    def without_demonstrations(data: Any) -> Any:
        prompts = [data.write([], texts) for texts in data.test_texts]
        (rows,) = yield [data.ask("probabilities", prompts)]
        return [rows[query.row] for query in data.queries]

    assert run(without_demonstrations, benchmark_on_mini(k=2)).timing["labelled_per_query"] == 0


# -- texts


def test_the_noisy_channel_counts_a_text_for_each_label() -> None:
    result = Method("noisy_channel", Kernel()).run(benchmark_on_mini())
    queries = len(benchmark_on_mini()[0])
    assert result.timing["test_prompts"] == queries * len(benchmark_on_mini()[0].get_label_space())


def test_encodings_of_test_texts_are_a_cost_of_the_test() -> None:
    def encodes(data: Any) -> Any:
        test_texts = [" ".join(texts) for texts in data.test_texts]
        yield [data.ask("hidden", ["one", "two"], role="train"), data.ask("hidden", test_texts, role="test")]
        return [0] * len(data.queries)

    timing = run(encodes).timing
    assert (timing["training_prompts"], timing["test_prompts"]) == (2, 4)


# -- further models


def mean_with(judge: Any) -> Any:
    """Return the steps of a method that predicts the mean probabilities of its kernel and of another model."""

    def steps(data: Any) -> Any:
        ours, theirs = yield [data.ask(), data.ask(kernel=judge)]
        return data.predictions(((numpy.array(ours) + numpy.array(theirs)) / 2).tolist())

    return steps


@pytest.fixture
def run_with_judge() -> Any:
    """A run on mini of a method that predicts the mean of two models."""
    method = Method(MethodSpec("mine", "Mine", mean_with(Judge())), Kernel())
    return method.run(benchmark_on_mini(), return_outputs=True)


def test_a_method_may_use_the_predictions_of_a_further_model(run_with_judge: Any) -> None:
    experimentor = benchmark_on_mini()[0]
    prompts, labels = experimentor.prompt_set(), experimentor.get_label_space()

    for predicted, prompt in zip(predictions_of(run_with_judge), prompts, strict=True):
        both = [Kernel()(prompt, labels), Judge()(prompt, labels)]
        assert predicted == pytest.approx(numpy.mean(both, axis=0).tolist())


def test_a_further_model_is_recorded_with_its_data_sets_and_tokens(run_with_judge: Any) -> None:
    """The further model counts a token for each character that it reads, and a generated one for each prompt."""
    prompts = set(benchmark_on_mini()[0].prompt_set())

    (model,) = run_with_judge.provenance.further_models

    assert model.who == {"model": "judge"}
    assert model.datasets == ("mini",)
    assert model.tokens_read == sum(map(len, prompts))
    assert model.tokens_generated == len(prompts)
    assert run_with_judge.timing["further_test_tokens_read"] == model.tokens_read
    assert run_with_judge.provenance.facts()["further model 1"] == model.label


def test_a_further_model_is_not_in_the_signature(run_with_judge: Any) -> None:
    assert "judge" not in str(run_with_judge.signature)


def test_a_saved_result_with_a_further_model_is_loaded_and_verified(run_with_judge: Any, tmp_path: Path) -> None:
    run_with_judge.save(tmp_path / "result.json")

    loaded: Any = load(tmp_path / "result.json")

    assert loaded.provenance == run_with_judge.provenance
    for finding in verify(loaded):
        assert finding.contradicted == ()


def test_the_kernel_of_the_method_is_no_further_model() -> None:
    kernel = Kernel()

    def asks_twice(data: Any) -> Any:
        rows, same_rows = yield [data.ask(), data.ask(kernel=kernel)]
        assert rows == same_rows
        return rows

    result = run(asks_twice, kernel=kernel)

    assert result.timing["test_prompts"] == len(kernel.ran)
    assert result.provenance.further_models == ()


def test_a_further_model_has_its_own_predictions_in_a_store(tmp_path: Path) -> None:
    store, second_judge = tmp_path / "store.sqlite", Judge()
    without_store = run(mean_with(Judge()))
    first_method = Method(MethodSpec("mine", "Mine", mean_with(Judge())), Kernel())
    second_method = Method(MethodSpec("mine", "Mine", mean_with(second_judge)), Kernel())

    first: Any = first_method.run(benchmark_on_mini(), store=store, recheck=False)
    second: Any = second_method.run(benchmark_on_mini(), store=store, recheck=False)

    assert dict(first) == dict(without_store)
    assert dict(second) == dict(without_store)
    assert second_judge.ran == []


# -- provenance


def digest_of_requests(prompt: str, feature: str = "probabilities", role: str = "train") -> Any:
    """Return the digest of requests in the provenance of a run whose method requests a feature of one prompt."""

    def requests_one_feature(data: Any) -> Any:
        yield [data.ask(feature, [prompt], role=role)]
        (rows,) = yield [data.ask()]
        return rows

    return run(requests_one_feature).provenance.asked


def test_equal_requests_have_the_same_digest_in_the_provenance() -> None:
    assert digest_of_requests("one") == digest_of_requests("one")


@pytest.mark.parametrize(
    "other_request",
    [{"prompt": "two"}, {"prompt": "one", "feature": "hidden"}, {"prompt": "one", "role": "test"}],
    ids=["another prompt", "another feature", "another role"],
)
def test_other_requests_have_another_digest_in_the_provenance(other_request: dict[str, str]) -> None:
    assert digest_of_requests(**other_request) != digest_of_requests("one")


def test_no_two_of_these_requests_have_the_same_digest() -> None:
    digests = {
        digest_of_requests("one"),
        digest_of_requests("two"),
        digest_of_requests("one", feature="hidden"),
        digest_of_requests("one", role="test"),
    }

    assert len(digests) == 4


def test_vanilla_inference_has_the_provenance_of_a_plain_run() -> None:
    assert Method("vanilla", Kernel()).run(benchmark_on_mini()).provenance == benchmark_on_mini()(Kernel()).provenance  # type: ignore[union-attr]


# -- composition


def test_a_method_may_run_a_built_in_one_on_other_demonstrations() -> None:
    """Here batch calibration with the demonstrations in reverse order."""

    def reversed_then_calibrated(data: Any) -> Any:
        view = data.on(demonstrations=[positions[::-1] for positions in data.demonstrations])
        return (yield from METHODS["batch_calibration"](view, batch_size=2))

    benchmark = benchmark_on_mini()
    test_rows = len(benchmark[0].test_set())
    reversed_lists = [list(reversed(positions)) for positions in benchmark[0].demonstration_lists()]
    benchmark[0].set_demonstration_sampler(reversed_lists[:test_rows])
    expected = Method("batch_calibration", Kernel(), batch_size=2).run(benchmark)
    assert dict(run(reversed_then_calibrated)) == dict(expected)


def method_that_runs(name: str) -> MethodSpec:
    """Return a method of the user that runs a built-in one."""

    def steps(data: Any) -> Any:
        return (yield from METHODS[name](data))

    return MethodSpec("mine", "Mine", steps)


def test_a_method_inside_another_has_the_same_variant() -> None:
    options = {"variant": "0.1.1", "calibration_number": 4}

    inside = Method(method_that_runs("contextual_calibration"), Kernel(), **options).run(benchmark_on_mini())
    alone = Method("contextual_calibration", Kernel(), **options).run(benchmark_on_mini())

    assert dict(inside) == dict(alone)


def test_a_method_inside_another_must_have_its_variant() -> None:
    with pytest.raises(ArgumentError, match="the release has no method 'dc_pmi'"):
        Method(method_that_runs("dc_pmi"), Kernel(), "0.1.1").run(benchmark_on_mini())


def test_labels_that_one_method_reads_are_no_cost_of_another_one_in_the_same_table() -> None:
    def reads_a_label(data: Any) -> Any:
        assert data.calibration_set[0].label in (0, 1, 2)
        (rows,) = yield [data.ask()]
        return rows

    def reads_no_label(data: Any) -> Any:
        (rows,) = yield [data.ask()]
        return rows

    methods = [MethodSpec("one", "One", reads_a_label), MethodSpec("two", "Two", reads_no_label)]
    first, second = run_all(Kernel(), benchmark_on_mini(), methods=methods).results()

    assert first.timing["labelled_in_training"] == 1
    assert second.timing["labelled_in_training"] == 0
