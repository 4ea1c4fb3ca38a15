"""Methods that a user writes: identified with what they learn; their texts are no replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from StaICC import Method, MethodSpec, generated_text
from StaICC.inference.contract import Text
from StaICC.inference.identity import code_mark
from StaICC.inference.model_warnings import ending_warnings
from tests.methods.fakes import Kernel, mini, rows_of


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
    result: Any = Method(MethodSpec("shifted", "Shifted", shifted), Kernel()).run(mini())
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


def test_generated_texts_become_prompts() -> None:
    """Each row of the second request belongs to the text of the first one."""
    kernel = Kernel()

    def invented(data: Any) -> Any:
        (texts,) = yield [data.ask(generated_text(4), [f"about {label}: " for label in data.label_space], role="train")]
        demonstrations = [([text], label) for label, text in enumerate(texts)]
        prompts = [data.write(demonstrations, row) for row in data.test_texts]
        (rows,) = yield [data.ask(prompts=prompts)]
        return data.on(demonstrations=[[] for _ in data.test_texts]).predictions(rows)

    result: Any = Method(MethodSpec("invented", "Invented", invented), kernel).run(mini(), return_outputs=True)
    labels = mini()[0].get_label_space()
    written = [prompt for prompt in kernel.ran if not prompt.startswith("about")]
    assert result.timing["training_prompts"] == len(labels)
    assert result.timing["test_prompts"] == len(written) == 4
    assert rows_of(result) == [Kernel().batch([prompt], labels)[0] for prompt in written]


def test_texts_that_were_asked_without_labels_are_no_replies() -> None:
    prompts, labels = ["one", "two"], ("good", "bad")
    without_labels = [(prompt, ()) for prompt in prompts]
    with_labels = [(prompt, labels) for prompt in prompts]
    cut, complete, named = Text("A long", "length"), Text("Short.", "stop"), Text("good", "length")

    of_texts = ending_warnings("max_tokens=4", without_labels, [cut, complete])
    assert of_texts == ["1 of 2 texts stopped at max_tokens=4, so they may be incomplete; raise it"]
    of_replies = ending_warnings("max_tokens=4", with_labels, [cut, named])
    assert of_replies == ["1 of 2 replies stopped at max_tokens=4 without a label; raise it"]
