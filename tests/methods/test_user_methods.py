"""Methods that a user writes: their identity with what they learn, messages about mistakes, generated texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest

from StaICC import Method, MethodSpec, generated_text, option
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Text
from StaICC.inference.identity import code_mark
from StaICC.inference.model_warnings import ending_warnings
from tests.methods.fakes import Kernel, benchmark_on_mini, data_for_a_method, predictions_of


@dataclass(frozen=True)
class Shift:
    """What the method ``shifted`` learns: a number that it adds to all probabilities."""

    amount: float


def shifted(data: Any) -> Any:
    """A method of the user that adds 0.25 to all probabilities."""
    state = Shift(0.25)
    (rows,) = yield [data.ask()]
    return data.predictions([[probability + state.amount for probability in row] for row in rows])


def test_a_method_that_uses_a_dataclass_is_identified() -> None:
    """The methods that ``dataclass`` generates have no source of their own; the class has."""
    mark = code_mark(shifted)
    assert "unidentified" not in mark

    result: Any = Method(MethodSpec("shifted", "Shifted", shifted), Kernel()).run(benchmark_on_mini())

    assert f"shifted@{mark} paper" in str(result.signature)


def test_a_method_that_uses_a_dataclass_without_a_source_is_not_identified() -> None:
    names: dict[str, Any] = {"dataclass": dataclass, "__name__": __name__}
    exec("@dataclass(frozen=True)\nclass WithoutSource:\n    amount: float = 1.0\n", names)
    class_without_source = names["WithoutSource"]

    def method(data: Any) -> Any:
        return class_without_source

    assert code_mark(method).endswith("-unidentified")


def test_a_method_that_uses_a_class_within_a_function_is_identified() -> None:
    """The source of the class is indented, but for a line of its text."""

    class Inner:
        text = """first line
second line, without the indentation of the class"""

    def method(data: Any) -> Any:
        return Inner

    assert "unidentified" not in code_mark(method)


def test_generated_texts_become_demonstrations_of_the_next_request() -> None:
    """A method that generates one demonstration for each label, and then predicts four test rows with these."""
    kernel = Kernel()

    def with_generated_demonstrations(data: Any) -> Any:
        beginnings = [f"about {label}: " for label in data.label_space]
        (texts,) = yield [data.ask(generated_text(4), beginnings, role="train")]
        demonstrations = [([text], label) for label, text in enumerate(texts)]
        prompts = [data.write(demonstrations, row) for row in data.test_texts]
        (rows,) = yield [data.ask(prompts=prompts)]
        return data.on(demonstrations=[[] for _ in data.test_texts]).predictions(rows)

    method = Method(MethodSpec("generated", "Generated", with_generated_demonstrations), kernel)
    result: Any = method.run(benchmark_on_mini(limit=4), return_outputs=True)

    labels = benchmark_on_mini()[0].get_label_space()
    prompts_of_rows = [prompt for prompt in kernel.ran if not prompt.startswith("about ")]
    assert result.timing["training_prompts"] == len(labels)
    assert result.timing["test_prompts"] == 4
    assert len(prompts_of_rows) == 4
    assert predictions_of(result) == Kernel().batch(prompts_of_rows, labels)


def test_texts_that_are_cut_off_have_a_warning_of_their_own() -> None:
    """Texts are requested without labels."""
    requests: list[Any] = [("one", ()), ("two", ())]

    warnings = ending_warnings("max_tokens=4", requests, [Text("A long", "length"), Text("Short.", "stop")])

    assert warnings == ["1 of 2 texts stopped at max_tokens=4, so they may be incomplete; raise it"]


def test_replies_that_are_cut_off_before_a_label_have_a_warning() -> None:
    """A reply that is cut off after its label has none."""
    labels = ("good", "bad")
    requests: list[Any] = [("one", labels), ("two", labels)]

    warnings = ending_warnings("max_tokens=4", requests, [Text("A long", "length"), Text("good", "length")])

    assert warnings == ["1 of 2 replies stopped at max_tokens=4 without a label; raise it"]


Mistake = Callable[[Any], Any]
"""What a method does wrong with its data before its first request."""

MISTAKES: list[tuple[Mistake, str]] = [
    (lambda data: data.on(demonstrations=[[0]] * 3), "demonstrations: got 3 lists, expected one for each of the 4"),
    (lambda data: data.on(demonstrations=[[0]] * 97), "demonstrations: got 97 lists, expected one for each of the 4"),
    (lambda data: data.on(demonstrations=[[0, 1]] * 3 + [[0]]), r"row 3 of .* has 1 positions, expected 2, as row 0"),
    (lambda data: data.on(demonstrations=[[0], [999], [0], [0]]), r"row 1 of .* must be an integer from 0 .*, not 999"),
    (lambda data: data.on(demonstrations=3), "demonstrations must be a list of lists of positions, not 3"),
    (lambda data: data.on(query_texts=["one", "two"]), r"expected 1 input texts, as a row of mini has, not"),
    (lambda data: data.on(template="{text} is {label}"), r"template: got .*, expected a template, or 4 digits"),
    (lambda data: data.ask([query.prompt for query in data.queries]), r"feature: got .* data\.ask\(prompts=\.\.\.\)"),
    (lambda data: data.predictions(None), r"got None as predictions; .* return data\.predictions\(rows\)"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_mistakes_of_a_method_are_refused_before_anything_is_computed(mistake: Mistake, message: str) -> None:
    kernel = Kernel()

    def method(data: Any) -> Any:
        mistake(data)
        (rows,) = yield [data.ask()]
        return data.predictions(rows)

    with pytest.raises(ArgumentError, match=message):
        Method(MethodSpec("mine", "Mine", method), kernel).run(benchmark_on_mini())
    assert kernel.ran == []


def test_a_single_text_and_an_array_of_positions_are_accepted() -> None:
    """What methods naturally have: the text of a row with one column, and positions that NumPy sorted."""
    numpy = pytest.importorskip("numpy")
    data = data_for_a_method(benchmark_on_mini(limit=4))

    view = data.on(demonstrations=numpy.array([[1, 0], [1, 0], [1, 0], [1, 0]]), query_texts="N/A")

    assert view.demonstrations == [[1, 0], [1, 0], [1, 0], [1, 0]]
    for query in view.queries:
        assert query.prompt.count("N/A") == 1


def run_method(steps: Callable[[Any], Any]) -> None:
    """Run a method "Mine" on four test rows of mini, each in two repeats."""
    Method(MethodSpec("mine", "Mine", steps), Kernel()).run(benchmark_on_mini(limit=4))


def test_a_method_that_yields_a_request_without_brackets_is_refused_with_what_to_write() -> None:
    def without_brackets(data: Any) -> Any:
        rows = yield data.ask()
        return data.predictions(rows)

    with pytest.raises(ArgumentError, match=r"Mine.* yielded a request, expected .* yield \[data\.ask\(\.\.\.\)\]"):
        run_method(without_brackets)


def test_a_method_that_returns_nothing_is_refused_with_what_to_write() -> None:
    def without_return(data: Any) -> Any:
        yield [data.ask()]

    with pytest.raises(ArgumentError, match=r"Mine.* got None as predictions; .* return data\.predictions\(rows\)"):
        run_method(without_return)


def test_a_method_that_predicts_with_the_wrong_object_is_refused_with_what_to_write() -> None:
    """With demonstrations of its own, each of four rows is predicted once; all data has two repeats of each."""

    def predicts_for_all_data(data: Any) -> Any:
        view = data.on(demonstrations=data.demonstrations)
        (rows,) = yield [data.ask()]
        return view.predictions(rows)

    with pytest.raises(ArgumentError, match=r"got 8 predictions, expected 4, .* view\.predictions\(rows\)"):
        run_method(predicts_for_all_data)


def test_a_function_in_the_place_of_a_method_is_refused_with_what_to_write() -> None:
    with pytest.raises(ArgumentError, match=r"method: got <function shifted.*, expected .* MethodSpec\('my_method'"):
        Method(shifted, Kernel())  # type: ignore[arg-type]


def test_a_text_in_the_place_of_a_kernel_is_refused_with_what_to_write() -> None:
    with pytest.raises(ArgumentError, match=r"kernel must be callable, not str\. .* load_kernel\('ppm'\)"):
        Method("vanilla", "ppm")  # type: ignore[arg-type]


@pytest.mark.parametrize("annotation", [float, "float"], ids=["a type", "a text, as postponed annotations are"])
def test_a_wrong_value_of_an_option_is_refused_with_the_type_that_is_expected(annotation: Any) -> None:
    options = make_dataclass("Options", [("weight", annotation, option(0.5, "A weight."))], frozen=True)
    spec = MethodSpec("mine", "Mine", shifted, options=options)

    with pytest.raises(ArgumentError, match=r"mine, option 'weight': got 'heavy', expected float$"):
        Method(spec, Kernel(), weight="heavy")


def test_an_option_of_a_method_without_options_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"mine has no options; got 'weight'"):
        Method(MethodSpec("mine", "Mine", shifted), Kernel(), weight=1.0)
