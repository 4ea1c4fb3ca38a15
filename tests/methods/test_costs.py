"""What a method costs is measured: labelled examples, texts that the model reads, further models with their tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from StaICC import GLER, DemonstrationSensitivity, Normal, TemplateSensitivity, load
from StaICC.benchmarks.verify import verify
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.identity import Identity
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodSpec
from StaICC.methods.run import Method, run_all
from StaICC.prompting.prompt_text import extended
from StaICC.results.result import Result
from tests.methods.fakes import Kernel, benchmark_on_mini


def run(steps: Any, benchmark: Any = None, kernel: Any = None) -> Result:
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
    def by_texts(data: Any) -> Any:
        texts = [data.calibration_set[position].texts for position in range(3)]
        texts += [row.texts for row in data.demonstration_set]
        yield [data.ask("hidden", [" ".join(columns) for columns in texts], role="train")]
        (rows,) = yield [data.ask()]
        return rows

    assert run(by_texts).timing["labelled_in_training"] == 0


def test_each_row_whose_label_is_read_counts_once() -> None:
    def by_labels(data: Any) -> Any:
        for _ in range(2):
            labels = [data.calibration_set[position].label for position in (0, 1)]
        _texts, label = data.calibration_set[1]  # the pair of texts and label
        assert label == data.label_space[labels[1]]
        assert data.demonstration_set[5][1] in data.label_space
        (rows,) = yield [data.ask()]
        return rows

    assert run(by_labels).timing["labelled_in_training"] == 3  # calibration rows 0 and 1, demonstration row 5


def test_demonstrations_of_a_training_prompt_count_as_labelled() -> None:
    def writes(data: Any) -> Any:
        rows = data.calibration_set
        prompts = [data.write([rows[position], rows[9]], rows[0].texts) for position in (1, 2)]
        yield [data.ask("probabilities", prompts, role="train")]
        (rows,) = yield [data.ask()]
        return rows

    assert run(writes).timing["labelled_in_training"] == 3  # rows 1, 2 and 9


@pytest.mark.parametrize("k", [0, 1, 3])
def test_a_query_uses_the_demonstrations_of_all_its_prompts(k: int) -> None:
    plain = Method("vanilla", Kernel()).run(benchmark_on_mini(k=k))
    assert plain.timing["labelled_per_query"] == k
    if k:
        ensemble = Method("ensemble", Kernel(), sets=3).run(benchmark_on_mini(k=k))
        lists = ensemble.timing["labelled_per_query"]
        assert 2 * k < lists <= 3 * k  # three lists for each query, which may share a row


@pytest.mark.parametrize("kind", [TemplateSensitivity, DemonstrationSensitivity, GLER])
def test_a_demonstration_is_one_row_whatever_its_template_and_label(kind: Any) -> None:
    assert Method("vanilla", Kernel()).run(benchmark_on_mini(k=2, kind=kind)).timing["labelled_per_query"] == 2


def test_a_demonstration_with_several_templates_is_one_row() -> None:
    several = Method("ensemble", Kernel(), sets=1, templates=3).run(benchmark_on_mini(k=2))
    assert several.timing["labelled_per_query"] == 2


@pytest.mark.parametrize("by_queries", [False, True])
def test_the_queries_of_a_view_are_shown_its_demonstrations(by_queries: bool) -> None:
    def two_views(data: Any) -> Any:
        lists = ([[0, 1]] * len(data.test_texts), [[7, 8]] * len(data.test_texts))
        views = [data.on(demonstrations=shown) for shown in lists]
        rows, _ = yield [view.ask(prompts=view.queries if by_queries else None) for view in views]
        return views[0].predictions(rows)

    assert run(two_views).timing["labelled_per_query"] == 4


def test_a_data_set_that_fails_has_the_costs_of_what_was_asked() -> None:
    """Signature and costs do not depend on whether the method could learn from the rows that it got."""
    complete = Method("temperature_scaling", Kernel(), calibration_number=4).run(benchmark_on_mini())
    broken = Kernel(fails=lambda feature, prompt: OutputError("gone"))
    failed = Method("temperature_scaling", broken, calibration_number=4).run(benchmark_on_mini(), on_error="collect")
    for name in ("training_prompts", "labelled_in_training"):
        assert failed.timing[name] == complete.timing[name] > 0
    assert failed.signature.fields["method"] == complete.signature.fields["method"] == "temperature_scaling paper n=4"
    assert failed.details["mini"].failed == len(benchmark_on_mini()[0])


@pytest.mark.parametrize("reasoning", [False, True])
def test_generated_texts_follow_the_demonstrations_of_their_query(reasoning: bool) -> None:
    """The prompts differ from those of the benchmark: they end without a blank, or in the reasoning."""
    generated = Method("generate", Kernel(), reasoning=reasoning).run(benchmark_on_mini(k=3))
    assert generated.timing["labelled_per_query"] == 3


def test_prompts_with_demonstrations_of_unknown_queries_leave_the_number_undefined() -> None:
    def asks(with_query: bool) -> Any:
        def extends(data: Any) -> Any:
            longer = [extended(query.prompt, "it is ") for query in data.queries]
            asked = zip(data.queries, longer, strict=True)
            (rows,) = yield [
                data.ask(prompts=[query.with_prompt(text) if with_query else text for query, text in asked])
            ]
            return rows

        return run(extends, benchmark_on_mini(k=3)).timing

    assert asks(with_query=True)["labelled_per_query"] == 3
    assert "labelled_per_query" not in asks(with_query=False)


def test_a_text_that_is_the_prompt_of_a_query_shows_its_demonstrations() -> None:
    def asks_texts(data: Any) -> Any:
        (rows,) = yield [data.ask(prompts=[query.prompt for query in data.queries])]
        return rows

    assert run(asks_texts, benchmark_on_mini(k=3)).timing["labelled_per_query"] == 3


def test_prompts_that_a_method_wrote_itself_are_not_those_of_the_benchmark() -> None:
    """It answers the queries without their demonstrations, whatever the benchmark shows."""

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


def halves(judge: Any) -> Any:
    """A method that takes the mean of two models."""

    def mean_of_models(data: Any) -> Any:
        ours, theirs = yield [data.ask(), data.ask(kernel=judge)]
        means = []
        for our_row, their_row in zip(ours, theirs, strict=True):
            means.append([(first + second) / 2 for first, second in zip(our_row, their_row, strict=True)])
        return data.predictions(means)

    return mean_of_models


def test_a_further_model_is_asked_and_recorded(tmp_path: Path) -> None:
    judge, kernel = Judge(), Kernel()
    benchmark = benchmark_on_mini()
    method = Method(MethodSpec("mine", "Mine", halves(judge)), kernel)
    result: Any = method.run(benchmark, return_outputs=True)
    prompts = benchmark[0].prompt_set()
    labels = benchmark[0].get_label_space()
    for record, prompt in zip(result.outputs["mini"], prompts, strict=True):
        both = zip(kernel(prompt, labels), judge(prompt, labels), strict=True)
        assert record["predicted_probabilities"] == pytest.approx([(first + second) / 2 for first, second in both])
    (model,) = result.provenance.further_models
    assert model.who == {"model": "judge"}
    assert model.datasets == ("mini",)
    assert (model.tokens_read, model.tokens_generated) == (sum(map(len, set(prompts))), len(set(prompts)))
    assert result.timing["further_test_tokens_read"] == model.tokens_read
    assert result.provenance.facts()["further model 1"] == model.label
    assert "judge" not in str(result.signature)
    result.save(tmp_path / "result.json")
    read: Any = load(tmp_path / "result.json")
    assert read.provenance == result.provenance
    assert not [line for finding in verify(read) for line in finding.contradicted]


def test_the_kernel_of_the_method_is_no_further_model() -> None:
    kernel = Kernel()

    def asks_twice(data: Any) -> Any:
        rows, again = yield [data.ask(), data.ask(kernel=kernel)]
        assert rows == again
        return rows

    result = run(asks_twice, kernel=kernel)
    assert result.timing["test_prompts"] == len(kernel.ran)
    assert not result.provenance.further_models


def test_a_further_model_has_its_own_predictions_in_a_store(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    judges = [Judge(), Judge()]
    results = [run(halves(judge), Normal(2, datasets=["mini"], limit=4), Kernel()) for judge in judges[:1]]
    for judge in judges:
        method = Method(MethodSpec("mine", "Mine", halves(judge)), Kernel())
        results.append(method.run(Normal(2, datasets=["mini"], limit=4), store=store, recheck=False))  # type: ignore[arg-type]
    assert dict(results[0]) == dict(results[1]) == dict(results[2])
    assert len(judges[1].ran) == 0  # all of the second run came from the store


# -- provenance


def test_the_provenance_has_the_digest_of_all_that_was_asked() -> None:
    def asks(extra: str, feature: str = "probabilities", role: str = "train") -> Any:
        def method(data: Any) -> Any:
            yield [data.ask(feature, [extra], role=role)]
            (rows,) = yield [data.ask()]
            return rows

        return run(method).provenance.asked

    digests = [asks("one"), asks("two"), asks("one", feature="hidden"), asks("one", role="test")]
    assert len(set(digests)) == len(digests)
    assert asks("one") == digests[0]


def test_vanilla_inference_has_the_provenance_of_a_plain_run() -> None:
    assert Method("vanilla", Kernel()).run(benchmark_on_mini()).provenance == benchmark_on_mini()(Kernel()).provenance  # type: ignore[union-attr]


# -- composition


def test_methods_compose_by_their_records() -> None:
    calibrate = METHODS["batch_calibration"]

    def last_first(data: Any) -> Any:
        turned = [list(reversed(positions)) for positions in data.demonstrations]
        return (yield from calibrate(data.on(demonstrations=turned), batch_size=2))

    composed = run(last_first)
    benchmark = benchmark_on_mini()
    lists = [list(reversed(positions)) for positions in benchmark[0].demonstration_lists()]
    benchmark[0].set_demonstration_sampler(lists[: len(benchmark[0].test_set())])
    alone = Method("batch_calibration", Kernel(), batch_size=2).run(benchmark)
    assert dict(composed) == dict(alone)


def test_a_method_inside_another_has_the_same_variant() -> None:
    def inside(data: Any) -> Any:
        return (yield from METHODS["contextual_calibration"](data))

    spec = MethodSpec("inside", "Inside", inside)
    alone = Method("contextual_calibration", Kernel(), "0.1.1", calibration_number=4).run(benchmark_on_mini())
    assert dict(Method(spec, Kernel(), "0.1.1", calibration_number=4).run(benchmark_on_mini())) == dict(alone)

    def not_in_the_release(data: Any) -> Any:
        return (yield from METHODS["dc_pmi"](data))

    with pytest.raises(ArgumentError, match="the release has no method 'dc_pmi'"):
        Method(MethodSpec("inside", "Inside", not_in_the_release), Kernel(), "0.1.1").run(benchmark_on_mini())


def test_a_row_is_not_changed_by_what_other_methods_read() -> None:
    """Labels that one method reads are no cost of another one in the same run."""

    def reads(data: Any) -> Any:
        assert data.calibration_set[0].label in range(len(data.label_space))
        (rows,) = yield [data.ask()]
        return rows

    def reads_not(data: Any) -> Any:
        (rows,) = yield [data.ask()]
        return rows

    methods = [MethodSpec("one", "One", reads), MethodSpec("two", "Two", reads_not)]
    table = run_all(Kernel(), benchmark_on_mini(), methods=methods)
    assert [result.timing["labelled_in_training"] for result in table.results()] == [1, 0]
