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
from tests.methods.fakes import Kernel, benchmark_on_mini, predictions_of


@dataclass(frozen=True)
class Shift:
    """A learned state."""

    amount: float


def shifted(data: Any) -> Any:
    state = Shift(0.25)
    (rows,) = yield [data.ask()]
    return data.predictions([[value + state.amount for value in row] for row in rows])


def test_a_method_with_a_dataclass_is_identified() -> None:
    """Its generated methods have no source of their own; the class has."""
    mark = code_mark(shifted)
    assert "unidentified" not in mark
    result: Any = Method(MethodSpec("shifted", "Shifted", shifted), Kernel()).run(benchmark_on_mini())
    assert f"shifted@{mark} paper" in str(result.signature)


def class_from_text(amount: str) -> Any:
    names: dict[str, Any] = {"dataclass": dataclass, "__name__": __name__}
    exec(f"@dataclass(frozen=True)\nclass Made:\n    amount: float = {amount}\n", names)
    return names["Made"]


def test_a_dataclass_without_a_source_is_not_identified() -> None:
    made = class_from_text("1.0")

    def method(data: Any) -> Any:
        return made

    assert code_mark(method).endswith("-unidentified")


def test_a_class_within_a_function_has_its_source() -> None:
    """Its lines are indented, but for those of a text that are not."""

    class Inner:
        text = """first line
second line, without the indentation of the class"""

    def method(data: Any) -> Any:
        return Inner

    assert "unidentified" not in code_mark(method)


def test_generated_texts_become_prompts() -> None:
    """Each row of the second request belongs to the text of the first one."""
    kernel = Kernel()

    def invented(data: Any) -> Any:
        (texts,) = yield [data.ask(generated_text(4), [f"about {label}: " for label in data.label_space], role="train")]
        demonstrations = [([text], label) for label, text in enumerate(texts)]
        prompts = [data.write(demonstrations, row) for row in data.test_texts]
        (rows,) = yield [data.ask(prompts=prompts)]
        return data.on(demonstrations=[[] for _ in data.test_texts]).predictions(rows)

    result: Any = Method(MethodSpec("invented", "Invented", invented), kernel).run(
        benchmark_on_mini(), return_outputs=True
    )
    labels = benchmark_on_mini()[0].get_label_space()
    written = [prompt for prompt in kernel.ran if not prompt.startswith("about")]
    assert result.timing["training_prompts"] == len(labels)
    assert result.timing["test_prompts"] == len(written) == 4
    assert predictions_of(result) == [Kernel().batch([prompt], labels)[0] for prompt in written]


def test_texts_that_were_asked_without_labels_are_no_replies() -> None:
    prompts, labels = ["one", "two"], ("good", "bad")
    without_labels = [(prompt, ()) for prompt in prompts]
    with_labels = [(prompt, labels) for prompt in prompts]
    cut, complete, named = Text("A long", "length"), Text("Short.", "stop"), Text("good", "length")

    of_texts = ending_warnings("max_tokens=4", without_labels, [cut, complete])
    assert of_texts == ["1 of 2 texts stopped at max_tokens=4, so they may be incomplete; raise it"]
    of_replies = ending_warnings("max_tokens=4", with_labels, [cut, named])
    assert of_replies == ["1 of 2 replies stopped at max_tokens=4 without a label; raise it"]


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
    assert not kernel.ran


def test_a_single_text_and_an_array_of_positions_are_accepted() -> None:
    """What methods naturally have: one text of a row with one, and positions that NumPy sorted."""
    numpy = pytest.importorskip("numpy")
    views: list[Any] = []

    def method(data: Any) -> Any:
        views.append(data.on(demonstrations=numpy.array([[1, 0]] * 4), query_texts="N/A"))
        (rows,) = yield [data.ask()]
        return data.predictions(rows)

    Method(MethodSpec("mine", "Mine", method), Kernel()).run(benchmark_on_mini())
    assert views[0].demonstrations == [[1, 0]] * 4
    assert [query for query in views[0].queries if query.prompt.count("N/A") != 1] == []


def method_of(ending: Mistake, steps: Mistake | None = None) -> MethodSpec:
    def method(data: Any) -> Any:
        rows = yield [data.ask()] if steps is None else steps(data)
        return ending(data.on(demonstrations=data.demonstrations).predictions(rows[0]))

    return MethodSpec("mine", "Mine", method)


def test_mistakes_of_the_steps_are_said_with_what_to_write() -> None:
    without_brackets = method_of(lambda predictions: predictions, lambda data: data.ask())
    with pytest.raises(ArgumentError, match=r"Mine.* yielded a request, expected .* yield \[data\.ask\(\.\.\.\)\]"):
        Method(without_brackets, Kernel()).run(benchmark_on_mini())
    with pytest.raises(ArgumentError, match=r"Mine.* got None as predictions; .* return data\.predictions\(rows\)"):
        Method(method_of(lambda predictions: None), Kernel()).run(benchmark_on_mini())
    with pytest.raises(ArgumentError, match=r"got 8 predictions, expected 4, .* view\.predictions\(rows\)"):
        Method(method_of(lambda predictions: predictions), Kernel()).run(benchmark_on_mini())


def test_what_is_no_method_or_kernel_is_refused_with_what_to_write() -> None:
    with pytest.raises(ArgumentError, match=r"method: got <function shifted.*, expected .* MethodSpec\('my_method'"):
        Method(shifted, Kernel())  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"got the text 'ppm', expected .* load_kernel\('ppm'\)"):
        Method("vanilla", "ppm")  # type: ignore[arg-type]


def test_the_type_of_an_option_is_named_whether_or_not_annotations_are_postponed() -> None:
    as_types = make_dataclass("Options", [("weight", float, option(0.5, "A weight."))], frozen=True)
    as_texts = make_dataclass("Options", [("weight", "float", option(0.5, "A weight."))], frozen=True)
    for record in (as_types, as_texts):
        spec = MethodSpec("mine", "Mine", shifted, options=record)
        with pytest.raises(ArgumentError, match=r"mine, option 'weight': got 'heavy', expected float$"):
            Method(spec, Kernel(), weight="heavy")
    with pytest.raises(ArgumentError, match=r"mine has no options; got 'weight'"):
        Method(MethodSpec("mine", "Mine", shifted), Kernel(), weight=1.0)
