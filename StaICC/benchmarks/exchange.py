"""Exchange with engines that this library does not call: prompts go out, predictions come back.

Every query has a constant id, to which predictions are matched, never by order. An id names benchmark, data set,
condition, test row and repeat, and ends with 48 bits of the digest of the prompt and its label space::

    Normal/TREC/normal/17/0/3f0c52a9d1be

The digest identifies the prompt: with another k, another template or another version of the data the ids differ, so
predictions of other prompts are not scored by mistake. Names are percent-encoded, so an id contains no blanks and can
be split at its slashes.

Files of prompts and of predictions are JSON Lines, or CSV where the name ends in ``.csv``. A prediction is a record
with the ``id`` of its query and exactly one of these fields:

* ``probabilities`` or ``logits``: a list with one number for each label, or a mapping from each label name to its
  number;
* ``index``: the index of the predicted label;
* ``label``: the name of the predicted label;
* ``reply``: a generated text, from which :mod:`StaICC.inference.reply_parser` reads the label.

Other fields are ignored, so an engine may add its prediction to the record of the prompt. In CSV, lists and mappings
are JSON within their cell, and an empty cell is a missing field.

Predictions may also be those that lm-evaluation-harness logged with ``lm_eval --log_samples`` for exported tasks
(:mod:`StaICC.benchmarks.harness_tasks`). Their prompts are checked: they must be the exported ones.

>>> from StaICC import Normal
>>> benchmark = Normal(datasets=["mini"], limit=2)
>>> next(prompt_records(benchmark))["id"]
'Normal/mini/normal/0/0/9055ecc97560'
>>> predictions = {query.id: {"label": "weather"} for query in identified_queries(benchmark)}
>>> score_predictions(benchmark, predictions)["Averaged results"]["accuracy"]
1.0
"""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

from StaICC.argument_syntax import argument
from StaICC.arguments import whole_number
from StaICC.benchmarks.base_experimentor import BaseExperimentor, strictest_policy
from StaICC.benchmarks.context import Predictions
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.group import BenchmarkGroup, members
from StaICC.benchmarks.logged_model_names import (
    LoggedPredictions,
    lm_eval_model_name,
    readable_name,
    stated_model_name,
)
from StaICC.benchmarks.logged_model_names import Prediction as Prediction
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.benchmarks.task import Condition
from StaICC.errors import ArgumentError, OutputError, SchemaError
from StaICC.files.json_reading import parse_json, refuse_device
from StaICC.files.output import StrPath
from StaICC.inference.contract import Answer, check_answer
from StaICC.inference.model_name import check_model_name
from StaICC.inference.replies import Failure, Unparsed, read_reply
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.metrics.classification import Kind
from StaICC.prompting.prompt_text import Prompt
from StaICC.prompting.prompt_writer import Query, as_argument
from StaICC.results.result import Result, ResultGroup
from StaICC.results.signature import short_digest
from StaICC.safe_text import csv_cell, logger, visible


@dataclass(frozen=True, slots=True)
class IdentifiedQuery:
    """A query with its id, benchmark, data set and condition."""

    id: str
    benchmark: str
    """Name of the benchmark in results."""
    dataset: str
    condition: str
    query: Query
    task_reads_replies: bool = False
    """Whether the task reads a generated reply itself; else its label is looked for when the reply is given."""


def query_id(benchmark: str, dataset: str, condition: str, query: Query) -> str:
    """Return the id of a query.

    Args:
        benchmark: Name of the benchmark in results.
        dataset: Name of the data set.
        condition: Name of the condition.
        query: The query.

    Returns:
        The id: the names of benchmark, data set and condition, test row, repeat, and a digest of the prompt.

    Example:
        >>> query_id("Normal", "my set", "normal", Query("a text", ("no", "yes"), 1, 17, 0))
        'Normal/my%20set/normal/17/0/4a9f6b7f4f08'
    """
    digest = short_digest([as_argument(query.prompt), list(query.label_space)])
    names = "/".join(quote(name, safe="") for name in (benchmark, dataset, condition))
    return f"{names}/{query.row}/{query.repeat}/{digest}"


def identified_queries(benchmark: BaseBenchmark[Any] | BenchmarkGroup) -> Iterator[IdentifiedQuery]:
    """Yield every query of a benchmark, data set by data set and condition by condition, in the order of a run.

    Args:
        benchmark: A benchmark or a group of benchmarks. Several members of a group may have the same prompt.
    """
    for member in members(benchmark).values():
        for experimentor in member:
            for condition in experimentor.conditions():
                yield from _queries_with_ids(member, experimentor, condition)


def _queries_with_ids(
    benchmark: BaseBenchmark[Any], experimentor: BaseExperimentor, condition: Condition
) -> Iterator[IdentifiedQuery]:
    """Yield the queries of a condition with their ids, one at a time: long prompts are written when they are read.

    Args:
        benchmark: The benchmark, whose name is in the ids.
        experimentor: The data set.
        condition: The condition.
    """
    benchmark_name = benchmark.benchmark_name
    for query in condition.queries:
        yield IdentifiedQuery(
            id=query_id(benchmark_name, experimentor.name, condition.name, query),
            benchmark=benchmark_name,
            dataset=experimentor.name,
            condition=condition.name,
            query=query,
            task_reads_replies=experimentor.task.free_text,
        )


@dataclass(frozen=True, slots=True)
class _IdentifiedDataset:
    """The conditions of one data set of a benchmark, and their queries with ids."""

    conditions: Sequence[Condition]
    queries: Sequence[IdentifiedQuery]
    """The queries of all conditions with their ids, in order."""


def _identify_dataset(benchmark: BaseBenchmark[Any], experimentor: BaseExperimentor) -> _IdentifiedDataset:
    """Return the queries of one data set with their ids, condition by condition.

    Args:
        benchmark: The benchmark, whose name is in the ids.
        experimentor: The data set, which makes the conditions and their queries.
    """
    conditions = experimentor.conditions()
    identified: list[IdentifiedQuery] = []
    for condition in conditions:
        identified.extend(_queries_with_ids(benchmark, experimentor, condition))
    return _IdentifiedDataset(conditions, identified)


def prompt_records(
    benchmark: BaseBenchmark[Any] | BenchmarkGroup, with_truth: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield one plain record for each query, for files and data frames.

    Args:
        benchmark: A benchmark or a group of benchmarks.
        with_truth: Add ``ground_truth``, the index of the true label.

    Yields:
        ``id``, ``benchmark``, ``dataset``, ``condition``, ``row``, ``repeat``, ``label_space`` (the label names) and
        ``prompt``: a text, or in the noisy channel a list with one text for each label.

    Example:
        >>> from StaICC import Normal
        >>> import pandas  # doctest: +SKIP
        >>> pandas.DataFrame(prompt_records(Normal(datasets=["mini"])))  # doctest: +SKIP
    """
    for identified in identified_queries(benchmark):
        query = identified.query
        record = {
            "id": identified.id,
            "benchmark": identified.benchmark,
            "dataset": identified.dataset,
            "condition": identified.condition,
            "row": query.row,
            "repeat": query.repeat,
            "label_space": list(query.label_space),
            # The prompt keeps its parts (instruction, demonstrations, question) for kernels that read them.
            "prompt": as_argument(query.prompt, with_parts=True),
        }
        if with_truth:
            record["ground_truth"] = query.label
        yield record


def batch_key(identified: IdentifiedQuery) -> str:
    """Return the ``custom_id`` of the request for a query in a provider's batch: the SHA-256 of the prompt."""
    prompt = "".join(identified.query.prompt)
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


def batch_prompts(benchmark: BaseBenchmark[Any] | BenchmarkGroup) -> Iterator[tuple[str, Prompt]]:
    """Yield the distinct prompts of a benchmark with their ``custom_id``, for :func:`StaICC.batch_requests`.

    One prompt is in memory at a time, where the benchmark writes its prompts when they are read.

    Args:
        benchmark: A benchmark or a group of benchmarks.
    """
    written_keys: set[str] = set()
    for identified in identified_queries(benchmark):
        key = batch_key(identified)
        if key not in written_keys:
            written_keys.add(key)
            yield key, identified.query.prompt


_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class _Field:
    """What a prediction must be under one field name, such as ``index``."""

    type: str
    """The type of its values: ``"numbers"``, ``"index"`` or ``"text"``."""
    expected: str
    """What a value must be, for messages."""


_NUMBERS = ("probabilities", "logits")
_KINDS_OF_NUMBERS = {"probabilities", "logits", "ambiguous"}
"""How a task may have read rows of numbers."""
_FIELDS = {
    "probabilities": _Field("numbers", "a list with one number a label"),
    "logits": _Field("numbers", "a list with one number a label"),
    "index": _Field("index", "an integer"),
    "label": _Field("text", "a label name"),
    "reply": _Field("text", "a text"),
}
"""The fields that hold a prediction; a record has exactly one of them."""


def json_lines(records: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    """Yield records as JSON Lines."""
    for record in records:
        yield json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


def csv_lines(records: Iterator[Mapping[str, Any]], verbatim: bool = False) -> Iterator[str]:
    """Yield records as CSV, with a header; lists and mappings are JSON within their cell.

    Control characters are escaped, and a text that a spreadsheet would run as a formula is prefixed with an apostrophe
    (:func:`StaICC.safe_text.csv_cell`).

    Args:
        records: The records, all with the keys of the first.
        verbatim: Keep texts as they are, because another program reads them; texts that would be prefixed are refused.

    Raises:
        ArgumentError: A text cannot be written verbatim, or a record has other keys than the first.
    """
    # csv.writer returns the value of its file's method write. Here that is str, so the writer returns the line itself.
    # With the line end "\r\n", it quotes a cell that has a carriage return.
    writer = csv.writer(SimpleNamespace(write=str), lineterminator="\r\n")
    columns: list[str] = []
    for number, record in enumerate(records):
        if number == 0:
            columns = list(record)
            yield _csv_line(writer, [csv_cell(visible(key)) for key in columns])
        elif list(record) != columns:
            different = ", ".join(sorted({*record}.symmetric_difference(columns))) or "another order"
            raise ArgumentError(
                f"CSV: record {number + 1} has other columns than the first ({different}). Write JSON Lines, or one "
                "table for each kind of record"
            )
        if verbatim:
            yield _csv_line(writer, _verbatim_cells(number, record))
        else:
            yield _csv_line(writer, [_escaped_cell(value) for value in record.values()])


def _csv_line(writer: Any, cells: Sequence[Any]) -> str:
    """Return a line of CSV with the given cells and a line feed at its end.

    Args:
        writer: A CSV writer whose ``writerow`` returns the line.
        cells: The cells.

    Raises:
        ArgumentError: A text has a null character, which Python before 3.11 cannot write.
    """
    try:
        line = str(writer.writerow(cells))
    except csv.Error as error:
        raise ArgumentError(f"a text cannot be written as CSV ({error}); write JSON Lines instead") from error
    return line.removesuffix("\r\n") + "\n"


def _cell_of(value: Any) -> Any:
    """Return the cell of a value in CSV: a list or a mapping as JSON, any other value unchanged."""
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    return value


def _escaped_cell(value: Any) -> Any:
    """Return the cell of a value without control characters, and not as a formula."""
    cell = _cell_of(value)
    if isinstance(cell, str):
        cell = visible(cell)
    return csv_cell(cell)


def _verbatim_cells(number: int, record: Mapping[str, Any]) -> list[Any]:
    """Return the cells of a record with unchanged texts.

    Args:
        number: The number of the record, for the message.
        record: The record.

    Raises:
        ArgumentError: A spreadsheet would run a cell as a formula, so it cannot be written unchanged.
    """
    cells = []
    for key, value in record.items():
        cell = _cell_of(value)
        if csv_cell(cell) != cell:
            raise ArgumentError(
                f"record {number}: its {key} begins with {value[:1]!r}, and a spreadsheet would "
                "run such a cell of CSV as a formula; write JSON Lines instead (a file name that does not end in .csv)"
            )
        cells.append(cell)
    return cells


def numbered_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a file with their line numbers: CSV if its name ends in ``.csv``, else JSON Lines.

    Args:
        path: The file.

    Raises:
        SchemaError: A line is not a JSON object, or not a row of the table.
        OSError: The file cannot be read.
    """
    refuse_device(path)
    with path.open(encoding="utf-8-sig", errors="surrogatepass", newline="") as lines:
        try:
            if _is_csv(path):
                yield from _csv_records(path, lines)
            else:
                yield from _json_records(path, lines)
        except UnicodeDecodeError as error:
            raise SchemaError(f"{path}: this is not UTF-8 text ({error}); save the predictions as UTF-8") from error


def _is_csv(path: Path) -> bool:
    """Return whether a file is a CSV table, by its name."""
    return path.suffix.lower() == ".csv"


def _json_records(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a file of JSON Lines with their line numbers; empty lines are skipped."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        record = parse_json(line, where, constants=True)
        if not isinstance(record, dict):
            raise SchemaError(f"{where}: expected a JSON object, found {type(record).__name__}")
        yield number, record


def _csv_records(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a CSV table, each with the number of its last line in the file; empty cells are left out."""
    reader = csv.DictReader(lines)
    try:
        columns = list(reader.fieldnames or ())
        for column in columns:
            if columns.count(column) > 1:
                raise SchemaError(f"{path}, line 1: the column {column!r} appears twice")
        for row in reader:
            has_unnamed_cells = None in row  # DictReader keeps them under the key None.
            if has_unnamed_cells:
                raise SchemaError(f"{path}, line {reader.line_num}: more cells than the header has")
            yield reader.line_num, {column: cell for column, cell in row.items() if cell}
    except csv.Error as error:
        raise SchemaError(f"{path}, line {reader.line_num}: {error}") from error


def prediction_files(path: StrPath) -> list[Path]:
    """Return the files that have predictions: a file itself, or all logged samples in a folder and its subfolders.

    Args:
        path: A file, or the folder that lm_eval got as ``--output_path``. Files with logged samples are named
            ``samples_*.jsonl``.

    Raises:
        ArgumentError: The folder has no logged samples.
    """
    path = Path(path)
    if not path.is_dir():
        return [path]
    files = sorted(path.rglob("samples_*.jsonl"))
    if not files:
        raise ArgumentError(f"{path} contains no samples_*.jsonl; run lm_eval with --log_samples and --output_path")
    return files


def read_predictions(
    path: StrPath, batch_reply: Callable[[str, Any, dict[str, str]], tuple[str, Prediction]] | None = None
) -> LoggedPredictions:
    """Return the predictions in a file or folder, by the id of their query.

    Args:
        path: A file of JSON Lines, or of CSV if its name ends in ``.csv`` (see the module); or what lm_eval logged, one
            file or the folder of ``--output_path``; or the results of a provider's batch.
        batch_reply: Reads a record of the results of a batch
            (:func:`StaICC.kernels.server.batch_files.batch_reply`); ``None`` if the file is no such file.

    Returns:
        The prediction for each id, with the name of its field, such as ``{"index": 2}``. A logged sample has
        ``{"logits": [...]}``, the log-probability of each label. The results of a batch are by :func:`batch_key`: the
        reply to each request, or a failure with the reason why there is none. The attribute ``model_name`` is the name
        that lm_eval or the provider states; ``None`` for other files.

    Raises:
        ArgumentError: The folder has no logged samples.
        SchemaError: A record is damaged, has no id, has the id of another record, or is a sample with another prompt
            than the exported one. The id of a failed request may appear twice, because it may have been sent again.
            Or the samples are of several models.
        OSError: A file cannot be read.
    """
    collected = _CollectedPredictions()
    models_of_replies: dict[str, str] = {}
    lm_eval_models: dict[str, Path] = {}
    for file in prediction_files(path):
        is_lm_eval_log = False
        for number, record in numbered_records(file):
            where = f"{file}, line {number}"
            if batch_reply is not None and "custom_id" in record:
                key, prediction = batch_reply(where, record, models_of_replies)
            elif _is_logged_sample(record):
                is_lm_eval_log = True
                key, prediction = _read_sample(where, record)
            else:
                key, prediction = _read_prediction(where, record, file)
            collected.add(key, prediction, where)
        if is_lm_eval_log:
            model = lm_eval_model_name(file)
            if model is not None and model not in lm_eval_models:
                lm_eval_models[model] = file
    return LoggedPredictions(collected.predictions, _only_model(lm_eval_models, models_of_replies))


class _CollectedPredictions:
    """The predictions of several files, each once.

    Attributes:
        predictions: The predictions by the id of their query.
    """

    def __init__(self) -> None:
        self.predictions: dict[str, Prediction] = {}
        self._places: dict[str, str] = {}

    def add(self, key: str, prediction: Prediction, where: str) -> None:
        """Add the prediction of a record.

        A request that failed may have been sent again. Its prediction counts, before or after the failure.

        Args:
            key: The id of its query.
            prediction: The prediction, or a failure.
            where: File and line of the record.

        Raises:
            SchemaError: The query has a prediction already.
        """
        earlier = self.predictions.get(key)
        has_prediction = earlier is not None and not isinstance(earlier, Failure)
        if has_prediction and isinstance(prediction, Failure):
            return
        if has_prediction:
            raise SchemaError(
                f"{where}: the id {key:.200} appears twice; it is in {self._places[key]} too. Give the folder of one "
                "run, or one file"
            )
        self.predictions[key] = prediction
        self._places[key] = where


def _only_model(lm_eval_models: Mapping[str, Path], models_of_replies: Mapping[str, str]) -> str | None:
    """Return the name of the model of all predictions, as their log states it; ``None`` if it states none.

    Args:
        lm_eval_models: The names in the logs of lm_eval, each with a file of its samples.
        models_of_replies: The names in the replies of a batch, at most one, with the line of the first reply. Replies
            without a name have the name ``"None"``.

    Raises:
        SchemaError: There are samples of several models.
    """
    if len(lm_eval_models) > 1:
        listed = " and ".join(f"{name:.80} ({file})" for name, file in lm_eval_models.items())
        raise SchemaError(f"samples of the models {listed}; expected those of one model. Give the folder of one run")
    if lm_eval_models:
        (only_name,) = lm_eval_models
        return only_name
    for name in models_of_replies:
        if name != str(None):
            return readable_name(name)
    return None


def _is_logged_sample(record: Mapping[str, Any]) -> bool:
    """Return whether a record is a sample that lm_eval logged: a document with the responses of the model."""
    return "doc" in record and ("resps" in record or "filtered_resps" in record)


def _read_prediction(where: str, record: Mapping[str, Any], file: Path) -> tuple[str, dict[str, Any]]:
    """Return the id of a record, and its prediction under the name of its field, such as ``{"index": 2}``.

    The prediction is not validated here: it may have several fields, or none. :func:`score_predictions` refuses it
    then.

    Args:
        where: File and line, for messages.
        record: The record.
        file: The file. All cells of CSV are texts, so numbers and lists are read from them as JSON.
    """
    key = record.get("id")
    if not isinstance(key, str):
        raise SchemaError(f"{where}: there is no id (a text); copy it from the record of the prompt")
    prediction: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = record.get(name)
        if value is None:
            continue
        if _is_csv(file) and field.type != "text":
            value = parse_json(value, f"{where}, {name} (expected such as [0.2, 0.8])", constants=True)
        prediction[name] = value
    return key, prediction


def _read_sample(where: str, record: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the id of a sample that lm_eval logged, and its prediction: the log-probability of each label.

    Args:
        where: File and line, for messages.
        record: The sample. Its ``doc`` is the record that was exported.
    """
    doc = record["doc"]
    if not isinstance(doc, dict):
        doc = {}
    key = doc.get("id")
    label_space = doc.get("label_space")
    if not isinstance(key, str) or not isinstance(label_space, list) or "prompt" not in doc:
        raise SchemaError(f"{where}: the sample is not of a task that StaICC exported")
    try:
        logits = _logged_scores(record)
        requests = _logged_requests(record["arguments"], len(label_space))
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise SchemaError(
            f"{where}: expected a log-probability and a prompt ('arguments') for each label of {key:.200}, got "
            f"{record.get('filtered_resps')!r:.200} and {record.get('arguments')!r:.200}"
        ) from error
    if len(logits) != len(label_space):
        raise SchemaError(f"{where}: {len(logits)} answers for the {len(label_space)} labels of {key:.200}")
    if requests != [[doc["prompt"], label] for label in label_space]:
        raise SchemaError(
            f"{where}: lm_eval used another prompt than the exported one of {key:.200}; run it without "
            "--num_fewshot, --apply_chat_template, --system_instruction and --fewshot_as_multiturn"
        )
    return key, {"logits": logits}


def _logged_scores(record: Mapping[str, Any]) -> list[float]:
    """Return the log-probability of each label, as lm_eval logged it.

    lm_eval logs one response for each label. The first value of a response is the log-probability: the responses
    ``[["-0.5", "True"], ["-2.0", "False"]]`` have the log-probabilities -0.5 and -2.
    """
    responses = record.get("filtered_resps")
    if not responses:
        # Without filters, each request has a list of responses. Here it has a single one.
        responses = []
        for responses_of_request in record["resps"]:
            (response,) = responses_of_request
            responses.append(response)
    return [float(response[0]) for response in responses]


def _logged_requests(arguments: Any, n_labels: int) -> list[list[Any]]:
    """Return the prompt and the label of each request of a sample, as lists of two items.

    lm_eval makes one request for each label. For example, the labels ``no`` and ``yes`` have
    ``[["a prompt", "no"], ["a prompt", "yes"]]``. Of a request, further arguments are left out.

    Args:
        arguments: The arguments as lm_eval logged them: lists, or mappings in newer versions of lm_eval.
        n_labels: The number of labels. Further requests after those of the labels are left out.
    """
    if isinstance(arguments, dict):
        arguments = list(arguments.values())
    requests = []
    for request in arguments[:n_labels]:
        values = list(request.values()) if isinstance(request, dict) else list(request)
        prompt_and_label = values[:2]
        requests.append(prompt_and_label)
    return requests


def score_predictions(
    benchmark: BaseBenchmark[Any] | BenchmarkGroup,
    predictions: Mapping[str, Prediction],
    *,
    partial: bool = False,
    return_outputs: bool = False,
    model_name: str | None = None,
) -> Result | ResultGroup:
    """Return the result of predictions that were computed elsewhere.

    Args:
        benchmark: The benchmark, or group of benchmarks, of the predictions.
        predictions: For each query, under its id or :func:`batch_key`, the prediction with the name of its field, such
            as ``{"index": 2}``. This is what :func:`~StaICC.benchmarks.exchange.read_predictions` returns. A
            ``Failure`` is in the place of a missing prediction.
        partial: Allow queries without a prediction; they count as failed, as do unparsed replies, unless the
            benchmark has ``unparsed="wrong"`` or ``"excluded"``.
        return_outputs: Keep the prediction of each query in ``result.outputs``.
        model_name: The name of the model that made the predictions; by default the name in their log. Tables,
            comparisons and reports show it. Nothing checks it, so the result also says that predictions were given.

    Returns:
        The result; for a group, a group of results.

    Raises:
        ArgumentError: A prediction is missing, or belongs to no query of this benchmark. Or the name is no text.
        OutputError: A prediction is invalid (the message names its id), a reply has no label, or predictions are of
            different kinds.
    """
    started = time.monotonic()
    check_model_name(model_name)
    stated_name = stated_model_name(predictions, model_name)
    benchmarks = members(benchmark)
    datasets_by_member: dict[str, list[_IdentifiedDataset]] = {}
    experimentors: list[BaseExperimentor] = []
    queries: list[IdentifiedQuery] = []
    for name, member in benchmarks.items():
        datasets_by_member[name] = []
        for experimentor in member:
            dataset = _identify_dataset(member, experimentor)
            datasets_by_member[name].append(dataset)
            experimentors.append(experimentor)
            queries += dataset.queries
    prediction_by_id = _match_queries(queries, predictions, partial)
    given = _read_answers(queries, prediction_by_id, strictest_policy(experimentors), stated_name)
    if not partial:
        _refuse_unparsed(given)

    results: dict[str, Result] = {}
    for name, member in benchmarks.items():
        results[name] = _score_member(member, datasets_by_member[name], given, started, return_outputs)
    warnings: list[str] = []
    for result in results.values():
        warnings += result.warnings
    for warning in dict.fromkeys(warnings):
        _log.warning("%s", warning)
    if isinstance(benchmark, BenchmarkGroup):
        return ResultGroup(benchmark.name, results)
    return results[benchmark.benchmark_name]


def _match_queries(
    queries: Sequence[IdentifiedQuery], predictions: Mapping[str, Prediction], partial: bool
) -> dict[str, Prediction]:
    """Return the prediction of each query, by the id of the query. A query without a prediction has a failure.

    A prediction is found under the id of its query, or under the :func:`batch_key` of its prompt.

    Args:
        queries: The queries.
        predictions: As for :func:`score_predictions`.
        partial: Allow queries without a prediction.

    Raises:
        ArgumentError: A prediction belongs to no query. Or a query has no prediction, and the result may not be
            partial.
    """
    if not predictions and not partial:
        raise ArgumentError(f"got no prediction, expected one of each of the {len(queries)} queries")
    matched: dict[str, Prediction] = {}
    used_keys: set[str] = set()
    for query in queries:
        key = query.id if query.id in predictions else batch_key(query)
        matched[query.id] = predictions.get(key, Failure("no prediction was given"))
        used_keys.add(key)

    unknown = predictions.keys() - used_keys
    if unknown:
        raise ArgumentError(
            f"{len(unknown)} of {len(predictions)} ids belong to no query of this benchmark: got {min(unknown)!r:.200},"
            f" expected ids such as {queries[0].id} (in the results of a batch {batch_key(queries[0])}). "
            "Was the benchmark, data set, k, limit or template another one?"
        )
    reason_by_id = {}
    for id_of_query, prediction in matched.items():
        if isinstance(prediction, Failure):
            reason_by_id[id_of_query] = prediction.reason
    if reason_by_id and not partial:
        first_id = next(iter(reason_by_id))
        raise ArgumentError(
            f"{len(reason_by_id)} of {len(matched)} queries have no prediction, the first is {first_id} "
            f"({reason_by_id[first_id]}); predict all of them, or allow a partial result: {argument('partial', True)}"
        )
    return matched


@dataclass(frozen=True, slots=True)
class _GivenPredictions:
    """The predictions of all queries after validation, in the form in which an inference function returns them."""

    answers: Mapping[str, Answer | Failure]
    """The prediction or failure of each query, by its id."""
    kind: str
    """The kind of all predictions: ``"probabilities"``, ``"logits"``, or ``"labels"`` (indexes, names, replies)."""
    n_given: int
    """How many queries have a prediction."""
    replies: frozenset[str]
    """The ids of the queries whose prediction is a reply that was read here, also of those without a label."""
    unparsed: Mapping[str, Failure]
    """The failures of the replies without a label, by the id of their query."""
    cut_off: frozenset[str]
    """The ids of the queries whose reply has no label and stopped at the maximum number of tokens."""
    model_name: str | None
    """The name of their model, as the user or a log states it."""

    @property
    def scoring(self) -> str:
        """The field ``scoring`` of the signature."""
        if self.replies:
            return f"given;parser={PARSER_VERSION}"
        return "given"


def _read_answers(
    queries: Sequence[IdentifiedQuery],
    predictions: Mapping[str, Prediction],
    unparsed: Unparsed,
    model_name: str | None,
) -> _GivenPredictions:
    """Return the predictions of all queries, after checks.

    Of a generated reply, the label that is found in it is the prediction. Tasks that read replies themselves get the
    reply as it is.

    Args:
        queries: The queries.
        predictions: The prediction or failure of each query, by its id.
        unparsed: How replies without a label count.
        model_name: The name of their model, as the user or a log states it; ``None`` if neither does.

    Raises:
        ArgumentError: No query has a prediction.
        OutputError: A prediction is invalid, or predictions are of different kinds.
    """
    answers: dict[str, Answer | Failure] = {}
    given: dict[str, Mapping[str, Any]] = {}  # the predictions that are no failures, by the id of their query
    replies: dict[str, Any] = {}  # of these, the replies in which a label is looked for here
    for query in queries:
        if query.id in answers:
            continue  # Two data sets with the same name and rows have the same ids.
        prediction = predictions[query.id]
        if isinstance(prediction, Failure):
            answers[query.id] = prediction
            continue
        answers[query.id] = _answer(query, prediction, unparsed)
        given[query.id] = prediction
        if "reply" in prediction and not query.task_reads_replies:
            replies[query.id] = prediction["reply"]

    replies_without_label: dict[str, Failure] = {}
    for query_id in replies:
        answer = answers[query_id]
        if isinstance(answer, Failure):
            replies_without_label[query_id] = answer

    cut_off: set[str] = set()
    for query_id in replies_without_label:
        # Replies of models and of logs have a finish reason. A plain text that the user passes has none.
        finish_reason = getattr(replies[query_id], "finish_reason", None)
        if finish_reason == "length":
            cut_off.add(query_id)

    return _GivenPredictions(
        answers,
        kind=_kind_of(given),
        n_given=len(given),
        replies=frozenset(replies),
        unparsed=replies_without_label,
        cut_off=frozenset(cut_off),
        model_name=model_name,
    )


def _kind_of(given: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the kind of predictions: ``"probabilities"``, ``"logits"``, or ``"labels"`` for all other fields.

    Args:
        given: The fields of each prediction, by the id of its query.

    Raises:
        ArgumentError: There are no predictions.
        OutputError: The predictions are of different kinds.
    """
    # For each field, and then for each kind, the id of a query that has it, for the message.
    example_by_field: dict[str, str] = {}
    for query_id, prediction in given.items():
        for field in prediction:
            example_by_field[field] = query_id
    example_by_kind: dict[str, str] = {}
    for field, query_id in example_by_field.items():
        kind = field if field in _NUMBERS else "labels"
        example_by_kind[kind] = query_id
    if not example_by_kind:
        raise ArgumentError("there are no predictions to score")
    if len(example_by_kind) > 1:
        listed = ", ".join(f"{kind} ({query_id})" for kind, query_id in example_by_kind.items())
        raise OutputError(f"the predictions are of different kinds: {listed}; use one kind for all queries")
    (kind,) = example_by_kind
    return kind


def _refuse_unparsed(given: _GivenPredictions) -> None:
    """Raise an error if replies without a label count as failed queries.

    They count as failed unless the benchmark has ``unparsed="wrong"`` or ``"excluded"``.

    Raises:
        OutputError: A reply without a label counts as a failed query.
    """
    failed_ids = []
    for key, failure in given.unparsed.items():
        counts_as_failed = failure.reply is None
        if counts_as_failed:
            failed_ids.append(key)
    if failed_ids:
        first_id = failed_ids[0]
        raise OutputError(
            f"{len(failed_ids)} of {given.n_given} replies are unparsed, the first: {first_id}: "
            f"{given.unparsed[first_id].reason}. Partial results omit them"
        )


def _score_member(
    member: BaseBenchmark[Any],
    datasets: Sequence[_IdentifiedDataset],
    given: _GivenPredictions,
    started: float,
    return_outputs: bool,
) -> Result:
    """Return the result of one benchmark from predictions that were computed elsewhere.

    Args:
        member: The benchmark: a member of a group, or a single one.
        datasets: The queries of its data sets, in order.
        given: The predictions of all queries.
        started: When the scoring began, by the monotonic clock.
        return_outputs: Keep the prediction of each query.
    """
    runs = _assemble_runs(member, datasets, given)
    # Logits from 0 to 1 look like probabilities. The field of the predictions says what they are, so if they were read
    # as another kind, they are scored again as the kind of their field.
    if given.kind != "labels" and _are_read_as_other_kind(runs.values(), given.kind):
        outputs = cast("Kind", given.kind)
        experimentors = [experimentor.copy_with(outputs=outputs) for experimentor in member]
        member = member.copy_with(experimentor=experimentors)
        runs = _assemble_runs(member, datasets, given)
    predictions = Predictions(given=given.scoring, given_name=given.model_name, seconds=time.monotonic() - started)
    return member.collect(runs, predictions, return_outputs)


def _are_read_as_other_kind(runs: Iterable[DatasetRun], kind: str) -> bool:
    """Return whether a condition has rows of numbers that were read as another kind. Tasks of texts read no numbers."""
    for run in runs:
        for record in run.details.conditions:
            if record.output in _KINDS_OF_NUMBERS and record.output != kind:
                return True
    return False


def _assemble_runs(
    member: BaseBenchmark[Any], datasets: Sequence[_IdentifiedDataset], given: _GivenPredictions
) -> dict[str, DatasetRun]:
    """Return the scored run over each data set of a benchmark, by the name of the data set.

    If replies were cut off at the maximum number of tokens and have no label, the run has a warning.

    Args:
        member: The benchmark.
        datasets: The queries of its data sets, in order.
        given: The predictions of all queries.
    """
    runs: dict[str, DatasetRun] = {}
    for experimentor, dataset in zip(member, datasets, strict=True):
        ids = [query.id for query in dataset.queries]
        answers = [given.answers[id_of_query] for id_of_query in ids]
        run = experimentor.assemble(dataset.conditions, answers, f"{member.benchmark_name}, {experimentor.name}")
        replies = [id_of_query for id_of_query in ids if id_of_query in given.replies]
        n_cut_off = len(given.cut_off.intersection(replies))
        if n_cut_off > 0:
            warning = f"{n_cut_off} of {len(replies)} replies stopped at max_tokens without a label; raise it"
            run = replace(run, model_warnings=(warning,))
        runs[experimentor.name] = run
    return runs


def _answer(query: IdentifiedQuery, prediction: Mapping[str, Any], unparsed: Unparsed) -> Answer | Failure:
    """Return a prediction after validation, in the form in which an inference function returns it.

    A reply is replaced by its label, or by a failure if it has no label, unless the task reads it itself.

    Args:
        query: The query.
        prediction: The prediction under its field.
        unparsed: How replies without a label count.

    Raises:
        OutputError: The prediction is invalid; the message names the id of its query.
    """
    try:
        name = _only_field(prediction)
        value = prediction[name]
        expected = _FIELDS[name]
        if _type_of(value) != expected.type:
            raise OutputError(f"{name} must be {expected.expected}, not {value!r}")
        label_space = query.query.label_space
        if name == "reply" and query.task_reads_replies:
            return value  # type: ignore[no-any-return]  # a text
        if name == "reply":
            return read_reply(value, label_space, unparsed, query.query.prompt)
        return check_answer(value, label_space)
    except OutputError as error:
        raise OutputError(f"{query.id}: {error}") from error


def _only_field(prediction: object) -> str:
    """Return the name of the one field of a prediction, such as ``index`` for ``{"index": 2}``.

    Raises:
        OutputError: The prediction is not a mapping. Or it has no field, several fields, or an unknown field.
    """
    if isinstance(prediction, Mapping):
        names = list(prediction)
        if len(names) == 1 and names[0] in _FIELDS:
            return str(names[0])
        got = ", ".join(map(str, names)) or "none"
    else:
        got = f"{prediction!r:.60}"  # At most 60 characters, because it may be a long list.
    raise OutputError(f"expected exactly one of {', '.join(_FIELDS)}, got {got}")


def _type_of(value: object) -> str:
    """Return the type of the value of a prediction.

    Returns:
        ``"index"`` for a whole number, ``"text"`` for a text, and ``"numbers"`` for anything else, such as a list.
    """
    if whole_number(value) is not None:
        return "index"
    if isinstance(value, str):
        return "text"
    return "numbers"
