r"""Texts that are not trusted, in every output: escape sequences, direction controls, line ends, markup of LaTeX.

Names, labels, texts, replies, reasons of failures and file names hold :data:`HOSTILE`; no output may hold it raw.
"""

from __future__ import annotations

import ast
import copy
import csv
import io
import json
import logging
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import StaICC
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.exchange import csv_lines
from StaICC.cli.terminal import TerminalStream, safe_streams
from StaICC.comparing.comparison import compare_all
from StaICC.comparing.formats import format_comparisons
from StaICC.comparing.paper import paper_text
from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, OutputError, SchemaError, StaICCError, UnknownNameError
from StaICC.inference.store import PredictionStore
from StaICC.kernels.text_inference import text_inference
from StaICC.layout import layout
from StaICC.methods.run import run_all
from StaICC.prompting.prompt_writer import TemplateWarning
from StaICC.report.latex_tables import latex_scores
from StaICC.report.page import write_report
from StaICC.results.result import Result
from StaICC.safe_text import csv_cell, json_escaped, logger, one_line, visible

PACKAGE = Path(StaICC.__file__).parent
CONTROLS = "\x1b[2J\x07\x08\r\x7f\x9b31m\u202e\u2066\u2028\u200b\ud800"
HOSTILE = f"x{CONTROLS}\\input{{/etc/passwd}}$%&_^~#<b>|`\nWARNING: forged"
WITHOUT_SURROGATE = HOSTILE.replace("\ud800", "")
"""For names that must be valid Unicode."""
RAW_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


def assert_safe(text: str) -> None:
    """Check that a text has no control character, and no line that a name with a line end has forged."""
    assert not RAW_CONTROL.search(text), f"{RAW_CONTROL.search(text)} in {text!r}"
    assert [line for line in text.splitlines() if line.startswith("WARNING: forged")] == []


def with_hostile_names(result: Any) -> Any:
    """Return a result with hostile names in all places where a saved file may hold them."""
    saved = copy.deepcopy(result.to_dict())
    saved["benchmark"] = HOSTILE
    saved["Divided results"] = {f"{HOSTILE} {name}": scores for name, scores in saved["Divided results"].items()}
    saved["details"] = {f"{HOSTILE} {name}": details for name, details in saved["details"].items()}
    for scores in saved["Divided results"].values():
        scores[f"metric {HOSTILE}"] = 0.5
    saved["Averaged results"][f"metric {HOSTILE}"] = 0.5
    for details in saved["details"].values():
        details["labels"] = [f"{HOSTILE} {label}" for label in details["labels"]]
        details["notes"] = [HOSTILE]
        details["missing"] = {HOSTILE: HOSTILE}
    saved["signature"]["datasets"] = HOSTILE
    saved["signature"]["scoring"] = HOSTILE
    saved["warnings"] = [HOSTILE]
    provenance = json.dumps(saved["provenance"])
    with_hostile_model = provenance.replace('"ppm"', json.dumps(HOSTILE))
    saved["provenance"] = json.loads(with_hostile_model)
    return Result.from_dict(saved)


@pytest.fixture(scope="module")
def hostile_dataset() -> Dataset:
    """A data set whose name, texts and labels are hostile."""
    rows = [(f"{WITHOUT_SURROGATE} {row}", row % 2) for row in range(60)]
    labels = [f"{WITHOUT_SURROGATE} a", f"{WITHOUT_SURROGATE} b"]
    return Dataset.from_rows(rows, name=f"name {WITHOUT_SURROGATE}", label_space=labels)


@pytest.fixture(scope="module")
def hostile_benchmark(hostile_dataset: Dataset) -> Benchmark:
    return StaICC.Normal(datasets=[hostile_dataset], limit=4)


def fails_on_odd_lengths(prompt: str, label_space: list[str]) -> Any:
    """Predict with an error with a hostile message for about half of the prompts."""
    if len(prompt) % 2:
        raise ValueError(HOSTILE)
    return [0.6, 0.4]


class HostileGenerator:
    """A kernel whose replies are hostile."""

    def generate(self, prompts: list[str], max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
        return [f"{HOSTILE} {number}" for number, _ in enumerate(prompts)]


@pytest.fixture(scope="module")
def hostile_results(hostile_dataset: Dataset, hostile_benchmark: Benchmark) -> dict[str, Any]:
    """Results of every kind with hostile texts."""
    kernel = StaICC.load_kernel("ppm")
    replies = text_inference(HostileGenerator())
    metrics = {HOSTILE: lambda truth, prediction: float("nan")}
    methods = ["vanilla", "contextual_calibration"]
    datasets = [hostile_dataset]
    return {
        "own data": hostile_benchmark(kernel, model_name=HOSTILE),
        "failures": hostile_benchmark(fails_on_odd_lengths, on_error="collect", model_name=HOSTILE),
        "replies": StaICC.Normal(datasets=datasets, limit=4, unparsed="wrong")(replies),
        "metric": StaICC.Normal(datasets=datasets, limit=4, metrics=metrics)(kernel),
        "group": StaICC.TripletBias(datasets=datasets, limit=2)(kernel),
        "one label": StaICC.DemonstrationSensitivity(datasets=datasets, limit=2)(lambda prompt, label_space: 0),
        "saved file": with_hostile_names(StaICC.Normal(datasets=["mini"], limit=4)(kernel)),
        "methods": run_all(kernel, hostile_benchmark, methods=methods, calibration_number=4),
    }


KINDS_OF_RESULTS = ("own data", "failures", "replies", "metric", "group", "one label", "saved file", "methods")


@pytest.mark.parametrize("kind", KINDS_OF_RESULTS)
def test_the_text_of_a_result_is_safe(hostile_results: dict[str, Any], kind: str) -> None:
    result = hostile_results[kind]

    assert_safe(str(result))
    assert "input" in str(result), "the hostile names are shown"
    for part in result.results():
        assert_safe(str(part))
        assert_safe(str(part.signature))
        assert_safe(layout(display_published(compare_with_published(part))))


@pytest.mark.parametrize("kind", KINDS_OF_RESULTS)
def test_the_html_of_a_result_is_safe(hostile_results: dict[str, Any], kind: str) -> None:
    page = hostile_results[kind]._repr_html_()

    assert_safe(page)
    assert "<b>" not in page


def formatted_comparison(result: Result, format_name: str) -> str:
    """Return the comparison of a result with itself, under hostile names of runs."""
    comparisons, _ = compare_all({f"first {HOSTILE}": result, f"second {HOSTILE}": result, "third": result})
    return format_comparisons(comparisons, format_name)


@pytest.mark.parametrize("format_name", ["text", "markdown", "latex", "csv"])
@pytest.mark.parametrize("kind", ["own data", "saved file"])
def test_a_comparison_is_safe(hostile_results: dict[str, Any], kind: str, format_name: str) -> None:
    text = formatted_comparison(hostile_results[kind], format_name)

    assert_safe(text)
    assert "input" in text, "the hostile names are shown"


@pytest.mark.parametrize("kind", ["own data", "saved file"])
def test_a_comparison_in_markdown_has_no_markup_of_html(hostile_results: dict[str, Any], kind: str) -> None:
    text = formatted_comparison(hostile_results[kind], "markdown")

    text_outside_code = re.sub(r"(`+) .* \1", "", text)  # Markdown shows code verbatim
    assert "<b>" not in text_outside_code


@pytest.mark.parametrize("kind", ["own data", "saved file"])
def test_outputs_for_latex_have_no_commands_of_names(hostile_results: dict[str, Any], kind: str) -> None:
    results = {f"first {HOSTILE}": hostile_results[kind], f"second {HOSTILE}": hostile_results["own data"]}

    for text in (formatted_comparison(hostile_results[kind], "latex"), latex_scores(results), paper_text(results)):
        assert_safe(text)
        assert_latex_is_escaped(text)


def assert_latex_is_escaped(text: str) -> None:
    """Check that LaTeX reads no character of a hostile name as a command; comments of LaTeX are left out."""
    assert "textbackslash{}input" in text, "the hostile names are shown"
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    for line in lines:
        assert "\\input" not in line
        line_without_escapes = re.sub(r"\\[&%$#_{}]|\\text\w+\{\}", "", line)
        assert "<b>" not in line_without_escapes
        assert "etc/passwd}" not in line_without_escapes
        if "passwd" in line_without_escapes:
            assert line_without_escapes.count("{") == line_without_escapes.count("}")
            assert "passwd$" not in line_without_escapes
            assert "%" not in line_without_escapes


def test_a_report_is_safe(hostile_results: dict[str, Any], tmp_path: Path) -> None:
    runs = {f"run {HOSTILE}": hostile_results["own data"], "b": hostile_results["saved file"]}
    write_report(runs, tmp_path / "report.html")

    page = (tmp_path / "report.html").read_text("utf-8")
    visible_page = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    raw_controls = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    assert not re.search(raw_controls, visible_page)
    assert "<b>" not in visible_page


def test_representations_are_safe(hostile_dataset: Dataset, hostile_benchmark: Benchmark) -> None:
    experimentor = hostile_benchmark[0]

    assert_safe(repr(hostile_dataset))
    assert_safe(repr(hostile_benchmark))
    assert_safe(repr(experimentor))
    assert_safe(repr(experimentor.prompt_former))
    assert_safe(repr(experimentor.calibration_set()))
    assert_safe(repr(experimentor.test_set()))
    assert_safe(repr(StaICC.TripletBias(datasets=[hostile_dataset])))


@pytest.mark.posix  # the characters of the file name
def test_the_representation_of_a_store_is_safe(tmp_path: Path) -> None:
    with PredictionStore(tmp_path / WITHOUT_SURROGATE.replace("/", " ")) as store:
        assert_safe(repr(store))


def test_the_message_about_a_missing_data_set_is_safe(hostile_benchmark: Benchmark) -> None:
    with pytest.raises(IndexError, match="there is no data set 7; this benchmark has 1: ") as caught:
        hostile_benchmark[7]

    assert_safe(str(caught.value))


# -- errors, warnings and log


def run_on_mini(model: Any, **settings: Any) -> Any:
    """Return the result of a model on two rows."""
    return StaICC.Normal(datasets=["mini"], limit=2)(model, **settings)


def predict_first_label(prompt: str, label_space: list[str]) -> int:
    return 0


PATH = f"/nowhere/{WITHOUT_SURROGATE}"
CALLS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "name of a data set": (UnknownNameError, lambda: StaICC.Normal(datasets=[HOSTILE])),
    "key of a result": (UnknownNameError, lambda: run_on_mini(predict_first_label)[HOSTILE]),
    "name of a model": (ArgumentError, lambda: StaICC.load_kernel(HOSTILE)),
    "prediction": (OutputError, lambda: run_on_mini(lambda prompt, label_space: HOSTILE)),
    "message of an error of a model": (OutputError, lambda: run_on_mini(lambda prompt, label_space: {}[HOSTILE])),
    "path of a result": ((SchemaError, OSError, ValueError), lambda: StaICC.load(PATH)),
    "path of a store": (ArgumentError, lambda: run_on_mini(predict_first_label, store=PATH)),
    "path of a data file": (StaICCError, lambda: Dataset.from_file(f"{PATH}.csv", texts="a", label="b")),
    "label of a row": (
        ArgumentError,
        lambda: Dataset.from_rows([("a", HOSTILE)] * 9, name="a", label_space=["a", "b"]),
    ),
    "name of own data": (
        ArgumentError,
        lambda: Dataset.from_rows([("a", 0)], name=HOSTILE, label_space=["a", "a"]),
    ),
}
"""Errors and the calls that raise them, by what is hostile in the call."""


@pytest.mark.parametrize(("error", "call"), CALLS.values(), ids=CALLS)
def test_the_message_of_an_error_has_no_raw_control(error: Any, call: Callable[[], Any]) -> None:
    with pytest.raises(error) as caught:
        call()

    assert not RAW_CONTROL.search(str(caught.value))


def all_subclasses(error: type) -> Iterator[type]:
    """Yield the classes that are derived from a class, directly or not."""
    for subclass in error.__subclasses__():
        yield subclass
        yield from all_subclasses(subclass)


def test_every_error_of_the_package_escapes_its_message() -> None:
    errors = [error for error in all_subclasses(StaICCError) if error.__module__.startswith("StaICC")]

    assert len(errors) >= 19, "the search finds no errors"
    for error in errors:
        assert error.__str__ is StaICCError.__str__, f"{error} has a text of its own"


def test_the_message_of_an_error_is_escaped_but_for_line_ends() -> None:
    assert str(UnknownNameError("a\n\x1b\u202e")) == "a\n\\x1b\\u202e"


def test_the_warning_about_a_template_is_safe(hostile_dataset: Dataset) -> None:
    prompt_former = StaICC.Normal(datasets=[hostile_dataset])[0].prompt_former

    with pytest.warns(TemplateWarning) as caught:
        prompt_former.change_instruction("Now: ")

    for warning in caught:
        assert_safe(str(warning.message))


def test_the_warning_about_a_replaced_metric_is_safe() -> None:
    """The second metric has the name of the first one."""
    metrics = {HOSTILE: lambda truth, prediction: 0.0}
    experimentor = StaICC.Normal(datasets=["mini"], limit=2, metrics=metrics)[0]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        experimentor.add_metric(HOSTILE, lambda truth, prediction: 0.0)

    for warning in caught:
        assert_safe(str(warning.message))


def test_log_records_of_a_run_have_no_raw_control(hostile_benchmark: Benchmark, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG, "StaICC")

    hostile_benchmark(lambda prompt, label_space: 0, progress=False)

    assert caplog.records
    for record in caplog.records:
        assert not RAW_CONTROL.search(caplog.handler.format(record))


def test_a_log_record_with_a_traceback_has_no_raw_control(caplog: Any) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger("StaICC.of_this_test").exception("%s failed", HOSTILE)

    (record,) = caplog.records
    assert not RAW_CONTROL.search(logging.Formatter().format(record))
    assert "\\x1b[2J" in record.getMessage()


def test_a_name_has_one_logger() -> None:
    assert logger("StaICC.of_this_test") is logger("StaICC.of_this_test")


# -- by construction


SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
NUMBERS_ONLY = (
    *("datasets/catalogue.py", "inference/contract.py", "inference/forecast.py", "kernels/server/transport.py"),
    "cli/interrupts.py",  # names of signals
    *("results/details.py", "results/predictor.py", "results/signature.py"),
)
ESCAPED_ELSEWHERE = (
    "comparing/comparison_results.py",
    "comparing/verdicts.py",
    "datasets/table.py",
    "registry.py",
)


def nodes_of_the_package() -> Iterator[tuple[str, ast.AST]]:
    """Yield each node of the syntax trees of the package, with the path of its file."""
    for path, source in SOURCES.items():
        for node in ast.walk(ast.parse(source)):
            yield path, node


def test_every_str_and_repr_calls_a_function_that_escapes() -> None:
    """But for those of numbers, and those whose text another function has escaped."""
    methods_found = 0
    for path, node in nodes_of_the_package():
        if isinstance(node, ast.FunctionDef) and node.name in ("__str__", "__repr__"):
            methods_found += 1
            escapes = re.search(r"\b(one_line|visible|lines|format_\w+|layout|repr)\(|!r", ast.unparse(node))
            needs_none = path in NUMBERS_ONLY or path in ESCAPED_ELSEWHERE
            assert escapes or needs_none, f"{path}:{node.lineno}"
    assert methods_found > 20, "the search finds no methods"


def test_every_value_in_the_message_of_a_warning_is_escaped() -> None:
    """A message is an f-string; each of its values is written as ``{value!r}`` or ``{one_line(value)}``."""
    warnings_found = 0
    for path, node in nodes_of_the_package():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
            warnings_found += 1
            message = node.args[0]
            for value in ast.walk(message):
                if isinstance(value, ast.FormattedValue):
                    is_repr = value.conversion == ord("r")
                    is_one_line = ast.unparse(value.value).startswith("one_line(")
                    assert is_repr or is_one_line, f"{path}:{node.lineno}"
    assert warnings_found >= 4, "the search finds no warnings"


def test_loggers_are_made_by_the_function_that_escapes_their_records() -> None:
    """But a filter may be added to the loggers of other packages."""
    files_that_make_loggers = []
    for path, source in SOURCES.items():
        without_filters = source.replace("getLogger(name).addFilter", "")
        if "getLogger(" in without_filters:
            files_that_make_loggers.append(path)

    assert files_that_make_loggers == ["safe_text.py"]


# -- sanitisers: nothing that a terminal obeys or hides, nothing that a spreadsheet runs, and nothing else changed


NASTY = st.text(
    st.characters(categories=("Cc", "Cf", "Zl", "Zp", "Cs"))
    | st.sampled_from("\x1b\x07\x9b\r\n\t\x7f\u202e\u2066\u2069\u200e\u061c\u2028\ufeff\ud800\U000e0041\\'=+-@")
    | st.characters()
)
_SIGNS = "\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
VISIBLE_FORMAT = {*map(chr, range(0x600, 0x606)), *_SIGNS, *map(chr, range(0x13430, 0x13440))}
"""Format characters that have a glyph: Arabic and Kaithi number signs, joiners of hieroglyphs."""


def is_harmless(character: str) -> bool:
    """Whether a character is no control, format character, surrogate or separator of lines by the Unicode database.

    This is independent of the pattern that is tested.
    """
    if character in VISIBLE_FORMAT:
        return True
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def harmful_characters(text: str, allowed: str = "") -> list[str]:
    """Return the characters of a text that a terminal obeys or hides, but for those that are allowed."""
    return [character for character in text if not is_harmless(character) and character not in allowed]


FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
"""Letters and marks by their category which a terminal shows as nothing."""


def has_no_glyph(character: str) -> bool:
    """Whether a character is a filler, or in a block that Unicode reserves for characters without a glyph."""
    code = ord(character)
    is_invisible_operator = 0x2060 <= code < 0x2070
    is_special = 0xFFF0 <= code < 0xFFFC
    is_tag_or_variation_selector = 0xE0000 <= code < 0xE1000
    return is_invisible_operator or is_special or is_tag_or_variation_selector or character in FILLERS


@given(NASTY)
@example("".join(map(chr, range(0x110000))))
def test_visible_text_is_harmless(text: str) -> None:
    assert harmful_characters(visible(text), allowed="\n\t") == []


@given(NASTY)
@example("".join(map(chr, range(0x110000))))
def test_text_in_one_line_is_harmless(text: str) -> None:
    assert harmful_characters(one_line(text)) == []


@given(NASTY)
def test_harmless_characters_are_not_escaped(text: str) -> None:
    """Characters without a glyph are no controls by their category, but are escaped as well."""
    harmless_text = "".join(letter for letter in text if is_harmless(letter) and not has_no_glyph(letter))

    assert visible(harmless_text) == harmless_text
    assert one_line(harmless_text) == harmless_text


@given(NASTY)
def test_escaping_twice_is_escaping_once(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(NASTY)
def test_a_text_may_be_escaped_character_by_character(text: str) -> None:
    assert visible(text) == "".join(visible(character) for character in text)


@given(NASTY)
def test_escapes_are_those_of_python_literals(text: str) -> None:
    text_for_literal = re.sub(r'["\\\n]', "", text)  # quotes, backslashes and line ends are not escaped

    assert eval(f'"{visible(text_for_literal)}"') == text_for_literal


@given(st.recursive(NASTY, lambda inner: st.lists(inner) | st.dictionaries(NASTY, inner)), st.booleans())
def test_escaped_json_has_the_same_value(value: object, only_ascii: bool) -> None:
    document = json.dumps(value, ensure_ascii=False, indent=1)

    escaped = json_escaped(document, only_ascii)

    assert json.loads(escaped) == json.loads(json.dumps(value))
    assert harmful_characters(escaped, allowed="\n") == []
    if only_ascii:
        assert escaped.isascii()


CURSOR_UP = "\x1b[A"


@given(st.lists(NASTY, min_size=1), st.sampled_from(["utf-8", "ascii", "cp1252", "utf-16"]), st.booleans())
def test_a_terminal_stream_writes_any_text_without_controls(
    texts: list[str], encoding: str, has_progress_bars: bool
) -> None:
    """Only progress bars return to the beginning of their line, and move the cursor up."""
    written_bytes = io.BytesIO()
    stream = TerminalStream(io.TextIOWrapper(written_bytes, encoding=encoding, newline=""), has_progress_bars)

    for text in texts:
        assert stream.write(text) == len(text)
    stream.writelines(texts)
    stream.flush()

    written = written_bytes.getvalue().decode(encoding)
    if has_progress_bars:
        assert harmful_characters(written.replace(CURSOR_UP, ""), allowed="\n\t\r") == []
    else:
        assert harmful_characters(written, allowed="\n\t") == []


def test_printed_texts_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    with safe_streams():
        print("\x1b]0;title\x07")
        print("\u202e", file=sys.stderr)

    out, err = capsys.readouterr()
    assert out == "\\x1b]0;title\\x07\n"
    assert err == "\\u202e\n"


def test_warnings_and_log_messages_on_stderr_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    with safe_streams():
        sys.stderr.write(warnings.formatwarning("\x9b31m", UserWarning, "x\x1b.py", 1))
        handler = logging.StreamHandler()
        handler.emit(logging.makeLogRecord({"msg": "label %s", "args": ("\x1b[2J",)}))

    err = capsys.readouterr().err
    assert harmful_characters(err, allowed="\n") == []
    assert "\\x9b31m" in err
    assert "label \\x1b[2J" in err


def test_safe_streams_are_replaced_by_the_streams_before_them() -> None:
    stdout, stderr = sys.stdout, sys.stderr

    with safe_streams():
        assert sys.stdout is not stdout

    assert sys.stdout is stdout
    assert sys.stderr is stderr


# -- cells of CSV

FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@example("-1+1")  # begins as a number does
@given(NASTY | st.builds(lambda first, rest: first + rest, st.sampled_from([*FORMULA, "'", "''="]), NASTY))
def test_a_cell_that_begins_as_a_formula_is_a_number_or_gets_an_apostrophe(text: str) -> None:
    """An apostrophe is added to a text after apostrophes, too, so that the first one can be removed again."""
    cell = csv_cell(text)

    if cell.startswith(FORMULA):
        assert cell == text
        float(cell)  # or a ValueError
    elif text.lstrip("'").startswith(FORMULA):
        assert cell == f"'{text}"
    else:
        assert cell == text


@given(NUMBERS)
def test_a_number_is_its_own_cell(number: float) -> None:
    assert csv_cell(number) is number


@given(NUMBERS)
def test_the_text_of_a_number_is_its_own_cell(number: float) -> None:
    assert csv_cell(str(number)) == str(number)
    assert csv_cell(f"{number:+}") == f"{number:+}"


def record_with(text: str, number: float, texts: list[str]) -> dict[str, Any]:
    """Return a record, whose first column has a name that would be a formula, too."""
    return {"=key": text, "value": number, "list": texts}


RECORDS = st.lists(st.builds(record_with, NASTY, NUMBERS, st.lists(NASTY)), min_size=1)
RECORDS_WITH_LINE_ENDS = [record_with("a\rb", 1, []), record_with("\n", -0.5, ["\r"])]


def csv_rows(text: str) -> list[list[str]]:
    """Return the rows of a CSV file, with that of the headings."""
    return list(csv.reader(io.StringIO(text, newline="")))


@given(RECORDS)
@example(RECORDS_WITH_LINE_ENDS)
def test_csv_files_hold_no_formula(records: list[dict[str, Any]]) -> None:
    """A cell that begins as a formula does is a number, which stays as it is."""
    headings, *rows = csv_rows("".join(csv_lines(iter(records))))

    assert headings == ["'=key", "value", "list"]
    for row, record in zip(rows, records, strict=True):
        cell_of_text = row[0]
        if cell_of_text.startswith(FORMULA):
            assert cell_of_text == record["=key"]


@given(RECORDS)
@example(RECORDS_WITH_LINE_ENDS)
def test_csv_files_keep_the_numbers_of_the_records(records: list[dict[str, Any]]) -> None:
    _headings, *rows = csv_rows("".join(csv_lines(iter(records))))

    for row, record in zip(rows, records, strict=True):
        number = record["value"]
        cell_of_number = row[1]
        assert type(number)(cell_of_number) == number


@given(RECORDS)
@example(RECORDS_WITH_LINE_ENDS)
def test_csv_files_are_escaped(records: list[dict[str, Any]]) -> None:
    text = "".join(csv_lines(iter(records)))
    assert visible(text) == text


def test_csv_files_hold_no_control_characters() -> None:
    records = [{"run": "a\x1b[2Jb", "note": "two\nlines", "low": -0.5}]
    assert "".join(csv_lines(iter(records))) == 'run,note,low\na\\x1b[2Jb,"two\nlines",-0.5\n'


def test_a_prompt_that_is_no_formula_is_written_verbatim() -> None:
    records = [{"id": "a", "prompt": "plain"}]
    assert "".join(csv_lines(iter(records), verbatim=True)) == "id,prompt\na,plain\n"


def test_a_prompt_that_is_a_formula_is_refused_rather_than_changed() -> None:
    records = [{"id": "a", "prompt": "plain"}, {"id": "b", "prompt": "=1"}]
    with pytest.raises(ArgumentError, match=r"record 1: its prompt begins with '=', .* write JSON Lines instead"):
        list(csv_lines(iter(records), verbatim=True))
