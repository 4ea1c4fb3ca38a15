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

For lm-evaluation-harness (Gao et al., https://github.com/EleutherAI/lm-evaluation-harness), :func:`export_tasks` writes
one task for each data set and condition, of type ``multiple_choice`` with the labels as choices. The prompts are the
benchmark's, byte for byte. :func:`read_predictions` also reads what ``lm_eval --log_samples`` logged, after checking
that its prompts are the exported ones. The harness scores a label by the log-probability of all its tokens, as a kernel
with ``label_scoring="full"`` does.

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
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

from StaICC import benchmark_names
from StaICC.arguments import whole_number
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.context import Predictions
from StaICC.benchmarks.experimentor import Experimentor, strictest_policy
from StaICC.benchmarks.group import BenchmarkGroup, members
from StaICC.benchmarks.task import Condition
from StaICC.errors import ArgumentError, OutputError, SchemaError
from StaICC.files.json_reading import parse_json, refuse_device
from StaICC.files.output import StrPath, write_output
from StaICC.inference.contract import Answer, check_answer
from StaICC.inference.replies import Failure, Unparsed, read_reply
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.metrics.classification import Kind
from StaICC.prompting.prompt_writer import Query, as_argument
from StaICC.results.result import Result, ResultGroup
from StaICC.results.signature import short_digest
from StaICC.safe_text import csv_cell, logger, utf8, visible
from StaICC.version import __version__


@dataclass(frozen=True, slots=True)
class IdentifiedQuery:
    """A query with its id, benchmark, data set and condition."""

    id: str
    benchmark: str
    """Name of the benchmark in results."""
    dataset: str
    condition: str
    query: Query


def query_id(benchmark: str, dataset: str, condition: str, query: Query) -> str:
    """Return the id of a query.

    Args:
        benchmark: Name of the benchmark in results.
        dataset: Name of the data set.
        condition: Name of the condition.
        query: The query.

    Returns:
        The id; it depends on the place and the prompt only.

    Example:
        >>> query_id("Normal", "my set", "normal", Query("a text", ("no", "yes"), 1, 17, 0))
        'Normal/my%20set/normal/17/0/4a9f6b7f4f08'
    """
    digest = short_digest([as_argument(query.prompt), list(query.label_space)])
    place = "/".join(quote(name, safe="") for name in (benchmark, dataset, condition))
    return f"{place}/{query.row}/{query.repeat}/{digest}"


def identified_queries(benchmark: Benchmark | BenchmarkGroup) -> Iterator[IdentifiedQuery]:
    """Yield every query of a benchmark, data set by data set and condition by condition, in the order of a run.

    Args:
        benchmark: A benchmark, or a group of benchmarks (the same prompt may appear in several members).
    """
    for member in members(benchmark).values():
        for own in member:
            yield from _identified(member, own)[1]


def _identified(member: Benchmark, own: Experimentor) -> tuple[Sequence[Condition], list[IdentifiedQuery]]:
    """Return the conditions of a data set, and their queries."""
    conditions, place = own.conditions(), (member.task.name, own.name)
    return conditions, [
        IdentifiedQuery(query_id(*place, condition.name, query), *place, condition.name, query)
        for condition in conditions
        for query in condition.queries
    ]


def prompt_records(benchmark: Benchmark | BenchmarkGroup, with_truth: bool = False) -> Iterator[dict[str, Any]]:
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
        query, record = identified.query, asdict(identified)
        del record["query"]
        record |= {"row": query.row, "repeat": query.repeat, "label_space": list(query.label_space)}
        record["prompt"] = as_argument(query.prompt, with_parts=True)  # for kernels that show what they read
        yield record | {"ground_truth": query.label} if with_truth else record


def batch_key(identified: IdentifiedQuery) -> str:
    """Return the ``custom_id`` of a provider's request for the prompt of a query: a digest."""
    return hashlib.sha256("".join(identified.query.prompt).encode("utf-8", "surrogatepass")).hexdigest()


_log = logger(__name__)

_NUMBERS = ("probabilities", "logits")
_FIELDS = {
    **dict.fromkeys(_NUMBERS, ("numbers", "a list with one number a label")),
    "index": ("index", "an integer"),
    "label": ("text", "a label name"),
    "reply": ("text", "a text"),
}
"""The fields that hold a prediction, each with the kind of its values, and what they must be."""

Prediction = Mapping[str, Any] | Failure
"""A prediction under its field, or why there is none."""

_CSV = ".csv"


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
        ArgumentError: A text cannot be written verbatim.
    """
    lines = SimpleNamespace(write=str)  # writing a row returns its line
    writer = csv.writer(lines, lineterminator="\r\n")  # so that a cell with a carriage return is quoted

    def line(cells: Iterable[Any]) -> str:
        try:
            return str(writer.writerow(cells)).removesuffix("\r\n") + "\n"
        except csv.Error as error:  # of a null character, before Python 3.11
            raise ArgumentError(f"a text cannot be written as CSV ({error}); write JSON Lines instead") from error

    for number, record in enumerate(records):
        if number == 0:
            yield line(csv_cell(visible(key)) for key in record)
        cells = {key: _cell(value) for key, value in record.items()}
        if not verbatim:
            cells = {key: visible(cell) if isinstance(cell, str) else cell for key, cell in cells.items()}
        if verbatim and (changed := [key for key, cell in cells.items() if csv_cell(cell) != cell]):
            raise ArgumentError(
                f"record {number}: its {changed[0]} begins with {record[changed[0]][:1]!r}, and a spreadsheet would "
                "run such a cell of CSV as a formula; write JSON Lines instead (a file name that does not end in .csv)"
            )
        yield line(map(csv_cell, cells.values()))


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) if isinstance(value, (list, dict)) else value


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
            if path.suffix.lower() == _CSV:
                yield from _csv_records(path, lines)
                return
            for number, line in enumerate(lines, 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    record = parse_json(line, where, constants=True)
                    if not isinstance(record, dict):
                        raise SchemaError(f"{where}: expected a JSON object, found {type(record).__name__}")
                    yield number, record
        except UnicodeDecodeError as error:
            raise SchemaError(f"{path}: this is not UTF-8 text ({error}); save the predictions as UTF-8") from error


def _csv_records(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(lines)
    try:
        names = list(reader.fieldnames or ())
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise SchemaError(f"{path}, line 1: the column {twice[0]!r} appears twice")
        for record in reader:
            if None in record:
                raise SchemaError(f"{path}, line {reader.line_num}: more cells than the header has")
            yield reader.line_num, {key: value for key, value in record.items() if value}
    except csv.Error as error:
        raise SchemaError(f"{path}, line {reader.line_num}: {error}") from error


def prediction_files(path: StrPath) -> list[Path]:
    """Return the files with predictions: one file, or those to which lm_eval logged samples.

    Args:
        path: A file, or the folder of ``--output_path``.

    Raises:
        ArgumentError: The folder has none.
    """
    path = Path(path)
    files = sorted(path.rglob("samples_*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise ArgumentError(f"{path} contains no samples_*.jsonl; run lm_eval with --log_samples and --output_path")
    return files


def read_predictions(
    path: StrPath, batch_reply: Callable[[str, Any, dict[str, str]], tuple[str, Prediction]] | None = None
) -> dict[str, Prediction]:
    """Read predictions.

    Args:
        path: A file of JSON Lines, or of CSV if its name ends in ``.csv`` (see the module); or what lm_eval logged, one
            file or the folder of ``--output_path``; or the results of a provider's batch.
        batch_reply: :func:`StaICC.kernels.server.batch_files.batch_reply`, for the results of a batch.

    Returns:
        For each id, the prediction under its field, such as ``{"index": 2}``; of a logged sample
        ``{"logits": [...]}``, the log-probability of each label. For each request of a batch, by :func:`batch_key`, the
        reply, or the reason why there is none.

    Raises:
        ArgumentError: The folder has no logged samples.
        SchemaError: A record is damaged, has no id, has that of another one, or is a sample with another prompt than
            the exported one. A request that failed may appear again.
        OSError: A file cannot be read.
    """
    predictions: dict[str, Prediction] = {}
    places: dict[str, str] = {}
    models: dict[str, str] = {}
    for file in prediction_files(path):
        for number, record in numbered_records(file):
            where = f"{file}, line {number}"
            if batch_reply is not None and "custom_id" in record:
                key, prediction = batch_reply(where, record, models)
            elif "doc" in record and not record.keys().isdisjoint({"resps", "filtered_resps"}):
                key, prediction = _read_sample(where, record)
            else:
                key, prediction = _read_prediction(where, record, file)
            predicted = not isinstance(predictions.get(key, Failure("")), Failure)
            if predicted and isinstance(prediction, Failure):
                continue
            if predicted:
                raise SchemaError(
                    f"{where}: the id {key:.200} appears twice; it is in {places[key]} too. Give the folder of one "
                    "run, or one file"
                )
            predictions[key], places[key] = prediction, where
    return predictions


def _read_prediction(where: str, record: Mapping[str, Any], file: Path) -> tuple[str, dict[str, Any]]:
    key = record.get("id")
    if not isinstance(key, str):
        raise SchemaError(f"{where}: there is no id (a text); copy it from the record of the prompt")
    fields = {field: record[field] for field in _FIELDS if record.get(field) is not None}
    for field in fields.keys() - {"label", "reply"} if file.suffix.lower() == _CSV else ():
        fields[field] = parse_json(fields[field], f"{where}, {field} (expected such as [0.2, 0.8])", constants=True)
    return key, fields


def _read_sample(where: str, record: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    doc = record["doc"]
    key, space = (doc.get("id"), doc.get("label_space")) if isinstance(doc, dict) else (None, None)
    if not isinstance(key, str) or not isinstance(space, list) or "prompt" not in doc:
        raise SchemaError(f"{where}: the sample is not of a task that StaICC exported")
    try:
        answers = record.get("filtered_resps") or [answer for (answer,) in record["resps"]]
        logits = [float(answer[0]) for answer in answers]
        given = record["arguments"]
        pairs = [*given.values()] if isinstance(given, dict) else given[: len(space)]
        used = [[*(pair.values() if isinstance(pair, dict) else pair)][:2] for pair in pairs[: len(space)]]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise SchemaError(
            f"{where}: expected a log-probability and a prompt ('arguments') for each label of {key:.200}, got "
            f"{record.get('filtered_resps')!r:.200} and {record.get('arguments')!r:.200}"
        ) from error
    if len(logits) != len(space):
        raise SchemaError(f"{where}: {len(logits)} answers for the {len(space)} labels of {key:.200}")
    if used != [[doc["prompt"], label] for label in space]:
        raise SchemaError(
            f"{where}: lm_eval used another prompt than the exported one of {key:.200}; run it without "
            "--num_fewshot, --apply_chat_template, --system_instruction and --fewshot_as_multiturn"
        )
    return key, {"logits": logits}


def score_predictions(
    benchmark: Benchmark | BenchmarkGroup,
    predictions: Mapping[str, Prediction],
    *,
    partial: bool = False,
    return_outputs: bool = False,
) -> Result | ResultGroup:
    """Score predictions.

    Args:
        benchmark: The benchmark, or group of benchmarks, of the predictions.
        predictions: For each id (or :func:`batch_key`) the prediction under its field, as returned by
            :func:`~StaICC.benchmarks.exchange.read_predictions`; a ``Failure`` is a missing one.
        partial: Allow queries without a prediction; they count as failed, as do unparsed replies, unless the
            benchmark has ``unparsed="wrong"`` or ``"excluded"``.
        return_outputs: Keep the prediction of each query in ``result.outputs``.

    Returns:
        The result; for a group, a group of results.

    Raises:
        ArgumentError: A prediction is missing, or belongs to no query of this benchmark.
        OutputError: A prediction is invalid (the message names its id), a reply has no label, or predictions are of
            different kinds.
    """
    started = time.monotonic()
    single = members(benchmark)
    written = {part: [_identified(member, own) for own in member] for part, member in single.items()}
    queries = [query for of_part in written.values() for _, of_dataset in of_part for query in of_dataset]
    keys = {query.id: query.id if query.id in predictions else batch_key(query) for query in queries}
    values = {query: predictions.get(key, Failure("no prediction was given")) for query, key in keys.items()}
    missing = {query: value for query, value in values.items() if isinstance(value, Failure)}
    given = {query: value for query, value in values.items() if not isinstance(value, Failure)}
    if unknown := predictions.keys() - keys.values():
        raise ArgumentError(
            f"{len(unknown)} of {len(predictions)} ids belong to no query of this benchmark: got {min(unknown)!r:.200},"
            f" expected ids such as {queries[0].id} (in the results of a batch {batch_key(queries[0])}). "
            "Was the benchmark, data set, k, limit or template another one?"
        )
    if missing and not partial:
        first, failure = next(iter(missing.items()))
        raise ArgumentError(
            f"{len(missing)} of {len(keys)} queries have no prediction, the first is {first} ({failure.reason}); "
            "predict all of them, or allow a partial result"
        )
    unparsed = strictest_policy(own for member in single.values() for own in member)
    answers = {query.id: missing.get(query.id) or _answer(query, given[query.id], unparsed) for query in queries}
    fields = {field: key for key, prediction in given.items() for field in prediction}
    kinds = {field if field in _NUMBERS else "labels": key for field, key in fields.items()}
    if not kinds:
        raise ArgumentError("there are no predictions to score")
    if len(kinds) > 1:
        listed = ", ".join(f"{field} ({key})" for field, key in kinds.items())
        raise OutputError(f"the predictions are of different kinds: {listed}; use one kind for all queries")
    lost = [(query, answer) for query in given if isinstance(answer := answers[query], Failure)]
    failed = [f"{query}: {answer.reason}" for query, answer in lost if answer.reply is None]
    if failed and not partial:
        raise OutputError(
            f"{len(failed)} of {len(given)} replies are unparsed, the first: {failed[0]}. Partial results omit them"
        )
    (kind,) = kinds
    cut = {query for query, _ in lost if getattr(given[query]["reply"], "finish_reason", None) == "length"}

    def scored(part: str, outputs: Kind | None = None) -> Result:
        member, runs = single[part], {}
        if outputs is not None:
            member = member.copy_with(experimentor=[own.copy_with(outputs=outputs) for own in member])
        for own, (conditions, of_dataset) in zip(member, written[part], strict=True):
            where = f"{member.task.name}, {own.name}"
            run = own.assemble(conditions, [answers[query.id] for query in of_dataset], where)
            replies = [query.id for query in of_dataset if "reply" in given.get(query.id, ())]
            short = len(cut.intersection(replies))
            if short:
                text = f"{short} of {len(replies)} replies stopped at max_tokens without a label; raise it"
                run = replace(run, model_warnings=(text,))
            runs[own.name] = run
        scoring = f"given;parser={PARSER_VERSION}" if "reply" in fields else "given"
        predicted = Predictions(given=scoring, seconds=time.monotonic() - started)
        read = {record.output for run in runs.values() for record in run.details.conditions}
        if outputs is None and kind != "labels" and read - {kind, "none"}:
            return scored(part, cast("Kind", kind))
        return member.collect(runs, predicted, return_outputs)

    parts = {part: scored(part) for part in single}
    for warning in dict.fromkeys(warning for result in parts.values() for warning in result.warnings):
        _log.warning("%s", warning)
    return ResultGroup(benchmark.name, parts) if isinstance(benchmark, BenchmarkGroup) else parts[benchmark.task.name]


def _answer(query: IdentifiedQuery, prediction: Mapping[str, Any], unparsed: Unparsed) -> Answer | Failure:
    """Validate a prediction; return its numbers in the order of the labels, or a failure for an unparsed reply."""
    fields = list(prediction) if isinstance(prediction, Mapping) else [f"{prediction!r:.60}"]
    try:
        if len(fields) != 1 or fields[0] not in _FIELDS:
            got = ", ".join(map(str, fields)) or "none"
            raise OutputError(f"expected exactly one of {', '.join(_FIELDS)}, got {got}")
        (field,), space = fields, query.query.label_space
        value, (kind, expected) = prediction[field], _FIELDS[field]
        if kind != ("index" if whole_number(value) is not None else "text" if isinstance(value, str) else "numbers"):
            raise OutputError(f"{field} must be {expected}, not {value!r}")
        prompt = query.query.prompt
        return read_reply(value, space, unparsed, prompt) if field == "reply" else check_answer(value, space)
    except OutputError as error:
        raise OutputError(f"{query.id}: {error}") from error


def _task_name(*parts: str) -> str:
    return "_".join(["staicc", *(re.sub(r"[^0-9a-z]+", "_", part.casefold()).strip("_") or "x" for part in parts)])


def _yaml(values: Mapping[str, Any]) -> str:
    """Write a flat mapping as YAML; JSON values are valid YAML."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())


def _task(name: str, file: str, alias: str) -> dict[str, Any]:
    return {
        "task": name,
        "task_alias": alias,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": file}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "prompt",
        "doc_to_choice": "label_space",
        "doc_to_target": "ground_truth",
        "target_delimiter": "",
        "num_fewshot": 0,
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": __version__},
    }


def export_tasks(
    benchmark: Benchmark | BenchmarkGroup, folder: StrPath, command: str = "score normal logged"
) -> tuple[str, ...]:
    """Write a benchmark as tasks of lm-evaluation-harness.

    Args:
        benchmark: A benchmark, or a group of benchmarks, in the direct channel.
        folder: The folder of the files. It is created if necessary; files of the same names are replaced.
        command: The arguments of ``python -m StaICC`` that score the samples in ``logged``, for the instructions.

    Returns:
        The names of the groups of tasks, one for each benchmark.

    Raises:
        ArgumentError: The benchmark uses the noisy channel, which scores texts instead of labels, or two tasks would
            have the same name.
        OSError: The folder cannot be written.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{folder} is a file; the tasks are several files, so give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    by_task: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in prompt_records(benchmark, with_truth=True):
        if not isinstance(record["prompt"], str):
            raise ArgumentError(
                "the noisy channel scores the text after each label, not a choice of labels; export the direct channel"
            )
        by_task.setdefault((record["benchmark"], record["dataset"], record["condition"]), []).append(record)
    several = Counter((name, dataset) for name, dataset, _ in by_task)
    groups: dict[str, list[str]] = {}
    for place, records in by_task.items():
        parts = place if several[place[:2]] > 1 else place[:2]
        name = _task_name(*parts)
        tasks = groups.setdefault(place[0], [])
        if any(name in of_group for of_group in groups.values()):
            raise ArgumentError(f"two data sets or conditions have the task name {name}; rename one of them")
        tasks.append(name)
        _write(folder / f"{name}.jsonl", "".join(json_lines(iter(records))))
        _write(folder / f"{name}.yaml", _yaml(_task(name, f"{name}.jsonl", ", ".join(parts[1:]))))
    for benchmark_name, tasks in groups.items():
        group = {
            "group": _task_name(benchmark_name),
            "task": tasks,
            "aggregate_metric_list": [{"metric": "acc", "aggregation": "mean", "weight_by_size": False}],
            "metadata": {"version": __version__},
        }
        _write(folder / f"{_task_name(benchmark_name)}.yaml", _yaml(group))
    names = tuple(map(_task_name, groups))
    meaning = {benchmark_names.NORMAL: "the benchmark's accuracy"}
    other = "not a score of this benchmark: score the logged samples"
    meanings = "\n".join(f"| {_task_name(name)} | {meaning.get(name, other)} |" for name in groups)
    settings = "\n".join(f"    {member.signature()}" for member in members(benchmark).values())
    readme = (resources.files(__package__) / "harness_readme.md").read_text("utf-8")
    facts = {"groups": ",".join(names), "command": command, "meanings": meanings, "settings": settings}
    _write(folder / "README.md", readme.format(version=__version__, **facts))
    return names


def _write(path: Path, text: str) -> None:
    write_output(path, [utf8(text)])
