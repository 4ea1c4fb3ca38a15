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
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


def check(text: str, markup: bool = False) -> None:
    """Refuse a text with a raw control, or with a line that data has made."""
    assert not RAW.search(text), f"{RAW.search(text)} in {text!r}"
    assert [line for line in text.splitlines() if line.startswith("WARNING: forged")] == []
    if markup:
        assert "<b>" not in text


def renamed(result: Any) -> Any:
    """Return a result with hostile names in all places where a saved file may hold them."""
    plain = copy.deepcopy(result.to_dict())
    plain["benchmark"] = HOSTILE
    for part in ("Divided results", "details"):
        plain[part] = {f"{HOSTILE} {name}": value for name, value in plain[part].items()}
    for scores in plain["Divided results"].values():
        scores[f"metric {HOSTILE}"] = 0.5
    plain["Averaged results"][f"metric {HOSTILE}"] = 0.5
    for details in plain["details"].values():
        details["labels"] = [f"{HOSTILE} {label}" for label in details["labels"]]
        details["notes"] = [HOSTILE]
        details["missing"] = {HOSTILE: HOSTILE}
    plain["signature"]["datasets"] = plain["signature"]["scoring"] = HOSTILE
    plain["warnings"] = [HOSTILE]
    plain["provenance"] = json.loads(json.dumps(plain["provenance"]).replace('"ppm"', json.dumps(HOSTILE)))
    return Result.from_dict(plain)


@pytest.fixture(scope="module")
def own() -> Dataset:
    rows = [(f"{WITHOUT_SURROGATE} {row}", row % 2) for row in range(60)]
    labels = [f"{WITHOUT_SURROGATE} {label}" for label in "ab"]
    return Dataset.from_rows(rows, name=f"name {WITHOUT_SURROGATE}", label_space=labels)


@pytest.fixture(scope="module")
def benchmark(own: Dataset) -> Benchmark:
    return StaICC.Normal(datasets=[own], limit=4)


@pytest.fixture(scope="module")
def results(own: Dataset, benchmark: Benchmark) -> dict[str, Any]:
    def failing(prompt: str, label_space: list[str]) -> Any:
        if len(prompt) % 2:
            raise ValueError(HOSTILE)
        return [0.6, 0.4]

    class Parrot:
        def generate(self, prompts: list[str], max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
            return [f"{HOSTILE} {number}" for number, _ in enumerate(prompts)]

    kernel = StaICC.load_kernel("ppm")
    file = StaICC.Normal(datasets=["mini"], limit=4)(kernel)
    metrics = {HOSTILE: lambda truth, prediction: float("nan")}
    return {
        "own": benchmark(kernel, model_name=HOSTILE),
        "failing": benchmark(failing, on_error="collect", model_name=HOSTILE),
        "replies": StaICC.Normal(datasets=[own], limit=4, unparsed="wrong")(text_inference(Parrot())),
        "metric": StaICC.Normal(datasets=[own], limit=4, metrics=metrics)(kernel),
        "group": StaICC.TripletBias(datasets=[own], limit=2)(kernel),
        "constant": StaICC.DemonstrationSensitivity(datasets=[own], limit=2)(lambda prompt, label_space: 0),
        "file": renamed(file),
        "methods": run_all(kernel, benchmark, methods=["vanilla", "contextual_calibration"], calibration_number=4),
    }


NAMES = ("own", "failing", "replies", "metric", "group", "constant", "file", "methods")


@pytest.mark.parametrize("name", NAMES)
def test_results_as_text_and_html(results: dict[str, Any], name: str) -> None:
    result = results[name]
    check(str(result))
    check(result._repr_html_(), markup=True)
    for part in result.results():
        check(str(part.signature))
        check(str(part))
        check(layout(display_published(compare_with_published(part))))
    assert "input" in str(result)


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
@pytest.mark.parametrize("name", ["own", "file"])
def test_comparisons(results: dict[str, Any], name: str, form: str) -> None:
    runs = {f"first {HOSTILE}": results[name], f"second {HOSTILE}": results[name], "third": results[name]}
    text = format_comparisons(compare_all(runs)[0], form)

    check(text)
    assert "input" in text, "the hostile name is shown"
    if form == "markdown":
        text_outside_code = re.sub(r"(`+) .* \1", "", text)  # Markdown shows code as it is
        assert "<b>" not in text_outside_code
    if form == "latex":
        check_latex(text)
        shown = {f"first {HOSTILE}": results[name], f"second {HOSTILE}": results["own"]}
        for text in (latex_scores(shown), paper_text(shown)):
            check(text)
            check_latex(text)


def check_latex(text: str) -> None:
    """Every special character of a name is escaped, outside of comments and in lines of their own."""
    assert "\\input" not in re.sub(r"^%.*$", "", text, flags=re.MULTILINE)
    assert "textbackslash{}input" in text
    for line in text.splitlines():
        bare = re.sub(r"\\[&%$#_{}]|\\text\w+\{\}", "", line)
        assert "<b>" not in bare or line.startswith("%")
        assert "etc/passwd}" not in bare or line.startswith("%")
        if "passwd" in bare and not line.startswith("%"):
            assert bare.count("{") == bare.count("}")
            assert "passwd$" not in bare
            assert "%" not in bare


def test_reports(results: dict[str, Any], tmp_path: Path) -> None:
    write_report({f"run {HOSTILE}": results["own"], "b": results["file"]}, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    shown = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)
    assert "<b>" not in shown


@pytest.mark.posix  # the characters of the file name
def test_representations(own: Dataset, benchmark: Benchmark, tmp_path: Path) -> None:
    experimentor = benchmark[0]
    check(repr(own))
    check(repr(benchmark))
    check(repr(experimentor))
    check(repr(experimentor.prompt_former))
    check(repr(experimentor.calibration_set()))
    check(repr(experimentor.test_set()))
    check(repr(StaICC.TripletBias(datasets=[own])))
    with PredictionStore(tmp_path / WITHOUT_SURROGATE.replace("/", " ")) as store:
        check(repr(store))


def test_the_message_about_a_data_set_that_is_not_there(benchmark: Benchmark) -> None:
    with pytest.raises(IndexError, match="there is no data set 7; this benchmark has 1: ") as caught:
        benchmark[7]
    check(str(caught.value))


# -- errors, warnings and log


def run_of(model: Any, **settings: Any) -> Any:
    """Return the result of a model on two queries."""
    return StaICC.Normal(datasets=["mini"], limit=2)(model, **settings)


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


PATH = f"/nowhere/{WITHOUT_SURROGATE}"
CALLS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "name of a data set": (UnknownNameError, lambda: StaICC.Normal(datasets=[HOSTILE])),
    "key of a result": (UnknownNameError, lambda: run_of(first_label)[HOSTILE]),
    "name of a model": (ArgumentError, lambda: StaICC.load_kernel(HOSTILE)),
    "prediction": (OutputError, lambda: run_of(lambda prompt, label_space: HOSTILE)),
    "message of an error of a model": (OutputError, lambda: run_of(lambda prompt, label_space: {}[HOSTILE])),
    "path of a result": ((SchemaError, OSError, ValueError), lambda: StaICC.load(PATH)),
    "path of a store": (ArgumentError, lambda: run_of(first_label, store=PATH)),
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
def test_messages_of_errors_are_escaped(error: Any, call: Callable[[], Any]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert not RAW.search(str(caught.value))


def every(kind: type) -> Iterator[type]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from every(subclass)


def test_every_error_escapes_its_message() -> None:
    kinds = [kind for kind in every(StaICCError) if kind.__module__.startswith("StaICC")]
    assert len(kinds) >= 20
    for kind in kinds:
        assert kind.__str__ is StaICCError.__str__, kind
    assert str(UnknownNameError("a\n\x1b\u202e")) == "a\n\\x1b\\u202e"


def test_warnings(own: Dataset) -> None:
    with pytest.warns(TemplateWarning) as caught:
        StaICC.Normal(datasets=[own])[0].prompt_former.change_instruction("Now: ")
    with warnings.catch_warnings(record=True) as more:
        warnings.simplefilter("always")
        experimentor = StaICC.Normal(datasets=["mini"], limit=2, metrics={HOSTILE: lambda truth, prediction: 0.0})[0]
        experimentor.add_metric(HOSTILE, lambda truth, prediction: 0.0)
    for warning in (*caught, *more):
        check(str(warning.message))


def test_log_records_of_a_run(benchmark: Benchmark, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG, "StaICC")
    benchmark(lambda prompt, label_space: 0, progress=False)
    assert caplog.records
    for record in caplog.records:
        assert not RAW.search(caplog.handler.format(record))


def test_log_records_with_a_traceback(caplog: Any) -> None:
    log = logger("StaICC.of_this_test")
    assert logger("StaICC.of_this_test") is log
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("%s failed", HOSTILE)
    (record,) = caplog.records
    assert not RAW.search(logging.Formatter().format(record))
    assert "\\x1b[2J" in record.getMessage()


# -- by construction


SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
NUMBERS_ONLY = (
    *("datasets/catalogue.py", "inference/contract.py", "inference/forecast.py", "kernels/server/transport.py"),
    "cli/interrupts.py",  # names of signals
    *("results/details.py", "results/predictor.py", "results/signature.py"),
)
ELSEWHERE = (
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
    methods = 0
    for path, node in nodes_of_the_package():
        if isinstance(node, ast.FunctionDef) and node.name in ("__str__", "__repr__"):
            methods += 1
            escapes = re.search(r"\b(one_line|visible|lines|format_\w+|layout|repr)\(|![r]", ast.unparse(node))
            assert escapes or path in (*NUMBERS_ONLY, *ELSEWHERE), f"{path}:{node.lineno}"
    assert methods > 20, "the search finds no methods"


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
    redacts_records_of_other_packages = "getLogger(name).addFilter"
    files = []
    for path, source in SOURCES.items():
        if "getLogger(" in source.replace(redacts_records_of_other_packages, ""):
            files.append(path)

    assert files == ["safe_text.py"]


# -- sanitisers: nothing that a terminal obeys or hides, nothing that a spreadsheet runs, and nothing else changed


NASTY = st.text(
    st.characters(categories=("Cc", "Cf", "Zl", "Zp", "Cs"))
    | st.sampled_from("\x1b\x07\x9b\r\n\t\x7f\u202e\u2066\u2069\u200e\u061c\u2028\ufeff\ud800\U000e0041\\'=+-@")
    | st.characters()
)
_SIGNS = "\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
VISIBLE_FORMAT = {*map(chr, range(0x600, 0x606)), *_SIGNS, *map(chr, range(0x13430, 0x13440))}
"""Format characters that have a glyph: Arabic and Kaithi number signs, joiners of hieroglyphs."""


def harmless(character: str) -> bool:
    """By the Unicode database, independent of the pattern that is tested."""
    if character in VISIBLE_FORMAT:
        return True
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
"""Letters and marks by their category which a terminal shows as nothing."""


def has_no_glyph(character: str) -> bool:
    """Whether a character is a filler, or in a block that Unicode reserves for characters without a glyph."""
    code = ord(character)
    is_reserved = 0x2060 <= code < 0x2070 or 0xFFF0 <= code < 0xFFFC or 0xE0000 <= code < 0xE1000
    return is_reserved or character in FILLERS


@given(NASTY)
@example("".join(map(chr, range(0x110000))))
def test_what_is_shown_is_harmless(text: str) -> None:
    assert [letter for letter in visible(text) if not (harmless(letter) or letter in "\n\t")] == []
    assert [letter for letter in one_line(text) if not harmless(letter)] == []


@given(NASTY)
def test_nothing_harmless_changes(text: str) -> None:
    """Characters without a glyph are no controls by their category, but are escaped as well."""
    kept = "".join(letter for letter in text if harmless(letter) and not has_no_glyph(letter))

    assert visible(kept) == kept
    assert one_line(kept) == kept


@given(NASTY)
def test_once_is_enough_and_parts_may_be_written_one_by_one(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert visible(text) == "".join(map(visible, text))
    bare = re.sub(r'["\\\n]', "", text)
    assert eval(f'"{visible(bare)}"') == bare


@given(st.recursive(NASTY, lambda inner: st.lists(inner) | st.dictionaries(NASTY, inner)), st.booleans())
def test_json_keeps_its_value(value: object, only_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    shown = json_escaped(text, only_ascii)
    assert json.loads(shown) == json.loads(json.dumps(value))
    assert [letter for letter in shown if not (harmless(letter) or letter == "\n")] == []
    assert not only_ascii or shown.isascii()


@given(st.lists(NASTY, min_size=1), st.sampled_from(["utf-8", "ascii", "cp1252", "utf-16"]), st.booleans())
def test_a_stream_never_fails_nor_obeys(texts: list[str], encoding: str, bars: bool) -> None:
    buffer = io.BytesIO()
    stream = TerminalStream(io.TextIOWrapper(buffer, encoding=encoding, newline=""), bars)
    for text in texts:
        assert stream.write(text) == len(text)
    stream.writelines(texts)
    stream.flush()
    shown = buffer.getvalue().decode(encoding)
    allowed = "\n\t\r" if bars else "\n\t"
    if bars:
        shown = shown.replace("\x1b[A", "")
    assert [letter for letter in shown if not (harmless(letter) or letter in allowed)] == []


def test_prints_warnings_and_log_messages_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with safe_streams():
        print("\x1b]0;title\x07")
        print("\u202e", file=sys.stderr)
        sys.stderr.write(warnings.formatwarning("\x9b31m", UserWarning, "x\x1b.py", 1))
        handler = logging.StreamHandler()
        handler.emit(logging.makeLogRecord({"msg": "label %s", "args": ("\x1b[2J",)}))
    assert (sys.stdout, sys.stderr) == before
    out, err = capsys.readouterr()
    assert out == "\\x1b]0;title\\x07\n"
    assert [letter for letter in err if not (harmless(letter) or letter == "\n")] == []
    for shown in ("\\u202e", "\\x9b31m", "label \\x1b[2J"):
        assert shown in err


# -- cells of CSV

FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@example("-1+1")  # begins as a number does
@given(NASTY | st.builds(lambda first, rest: first + rest, st.sampled_from([*FORMULA, "'", "''="]), NASTY))
def test_no_cell_is_a_formula(text: str) -> None:
    shown = csv_cell(text)
    if shown.startswith(FORMULA):
        float(shown)
        assert shown == text
    assert shown == (f"'{text}" if shown[:1] == "'" and shown.lstrip("'").startswith(FORMULA) else text)


@given(NUMBERS)
def test_numbers_stay_numbers(number: float) -> None:
    assert csv_cell(number) is number
    for text in (str(number), f"{number:+}", repr(number)):
        assert csv_cell(text) == text


@given(st.lists(st.tuples(NASTY, NUMBERS, st.lists(NASTY)), min_size=1))
@example([("a\rb", 1, []), ("\n", -0.5, ["\r"])])
def test_csv_files_hold_no_formula(drawn: list[tuple[str, float, list[str]]]) -> None:
    """A cell that begins as a formula is a number, which stays as it is; the numbers of the records are kept."""
    records = [{"=key": key, "value": value, "list": texts} for key, value, texts in drawn]

    text = "".join(csv_lines(iter(records)))

    assert text == visible(text)
    headings, *rows = csv.reader(io.StringIO(text, newline=""))
    assert headings == ["'=key", "value", "list"]
    for row, record in zip(rows, records, strict=True):
        key_cell, value_cell, _ = row
        type_of_value = type(record["value"])
        assert type_of_value(value_cell) == record["value"]
        if key_cell.startswith(FORMULA):
            assert key_cell == record["=key"]


def test_csv_files_hold_no_control_characters() -> None:
    records = [{"run": "a\x1b[2Jb", "note": "two\nlines", "low": -0.5}]
    assert "".join(csv_lines(iter(records))) == 'run,note,low\na\\x1b[2Jb,"two\nlines",-0.5\n'


def test_prompts_are_never_changed() -> None:
    records = [{"id": "a", "prompt": "plain"}, {"id": "b", "prompt": "=1"}]
    with pytest.raises(ArgumentError, match=r"record 1: its prompt begins with '=', .* write JSON Lines instead"):
        list(csv_lines(iter(records), verbatim=True))
    assert "".join(csv_lines(iter(records[:1]), verbatim=True)) == "id,prompt\na,plain\n"
