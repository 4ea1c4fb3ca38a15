"""Verification: does a saved result follow from its own records, do its prompts follow from the frozen data?

A result stores the true label, the prediction and the label scores of each query, the digest of all prompts and 32 bits
of the digest of each prompt. Verification makes the benchmark of the result again (:func:`rebuild`), writes its prompts
without a model, scores the stored predictions with the code of a run, and so computes the complete result a second
time. Then it compares the two, value by value (fractions to 9 digits, since platforms round logarithms and exponentials
differently).

A value that differs is :class:`Contradicted`. A value of the saved result that the second one does not have is
:class:`Unchecked`, and so is all that needs data or code that is not there, or that another version of this library
computed in another way. Only a result in which neither remains is :class:`Recomputed`. A group of results is one
object: its class says which parts it has, and with which arguments.

What the run alone can know is copied into the second result (``RECORDED``): times, counts, versions, who predicted, and
why queries failed. Verification does not prove that a model computed the label scores: a file with invented label
scores, and everything else computed from them, is recomputed. To predict some queries again, pass a
:class:`~StaICC.benchmarks.rerunning.Rerun`.

A file may hold any value. Numbers are compared with bounds and with the counts of the file before prompts are written.
So a file costs at most as much time and memory as the prompts of a run with 4,096 demonstrations each.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.findings import Contradicted, Finding, Results, Unchecked, Verification, compare_values, limited
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.logged_verification import verify_logged
from StaICC.benchmarks.race import RACE, first_rows
from StaICC.benchmarks.rebuilding import UNREADABLE, finding_of_error, rebuild
from StaICC.benchmarks.rerunning import Rerun, predict_again
from StaICC.benchmarks.rescoring import OTHER_SCHEMA, RerunSource, ScoredResult, reasons_for_unknown
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.datasets.table_files import data_file_digest
from StaICC.errors import ArgumentError
from StaICC.files.output import StrPath
from StaICC.results.files import DIGESTS, digest_problems, read_result_file
from StaICC.results.predictor import GIVEN, Predictor
from StaICC.results.result import Result, ResultGroup, result_from_dict
from StaICC.results.runs import Sweep, find_sweep
from StaICC.results.signature import FIELDS
from StaICC.version import RESULT_SCHEMA

RECORDED = (
    "times, counts of computed and repeated predictions, label mass and dropped demonstrations, versions of packages, "
    "warnings that need the model or are of the run itself, reasons of failed queries and beginnings of unparsed "
    "replies, the name of a data file and the texts of its card, and who predicted: model, method and how its scores "
    "are computed"
)
"""What only the run can know, so that verification cannot compute it again. If the file states it twice, the two are
compared."""


def verify_file(
    path: StrPath,
    benchmark: BaseBenchmark[Any] | BenchmarkGroup | None = None,
    data_dir: StrPath | None = None,
    data_files: Sequence[StrPath] = (),
    rerun: Rerun | None = None,
) -> list[Verification]:
    """Return the findings about a saved result that is computed a second time, and about the digests of its file.

    Args:
        path: The file.
        benchmark: The benchmark or group that computed the result, if it cannot be rebuilt (:func:`verify`).
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, and folders that contain them. The folder of the result and the
            current folder are searched, too.
        rerun: Predict some queries again.

    Returns:
        The finding about the digests of the file, then the findings of :func:`verify`.

    Raises:
        SchemaError: The file is not a saved result, or is damaged.
        OSError: The file cannot be read.
    """
    data = read_result_file(path)
    result = result_from_dict(data, os.fspath(path))
    problems = tuple(Contradicted(problem) for problem in digest_problems(data))
    message = "the digests differ" if problems else "the digests are the same"
    about_file = Verification(_name_of(result), None, message, problems)

    saved = {key: value for key, value in data.items() if key != DIGESTS}
    searched_files = [*data_files, Path(path).parent, Path()]
    (files,) = matching_files([result], searched_files)
    verifier = _Verifier(rerun, data_dir, files)
    return [about_file, *verifier.findings(result, saved, benchmark)]


def verify(
    result: Results,
    benchmark: BaseBenchmark[Any] | BenchmarkGroup | None = None,
    data_dir: StrPath | None = None,
    data_files: Sequence[StrPath] = (),
    rerun: Rerun | None = None,
) -> list[Verification]:
    """Return the findings about a result that is computed a second time from its own records: the values that differ.

    Args:
        result: A result or a group of results.
        benchmark: The benchmark, or the group, that computed it. Needed if the user changed its prompts or metrics, if
            it ran on the user's own data, and for benchmarks that are not of this library; otherwise it is rebuilt.
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, found by their SHA-256, and folders that contain them under the
            recorded name.
        rerun: Predict some queries again.

    Returns:
        For each benchmark, one finding about each data set and one about the fields that they share. A group has one
        more, about its parts, and a rerun one more, about the queries that were predicted again. :func:`status_of`
        gives the status of them all.

    Raises:
        ArgumentError: The benchmark does not fit the result, or a file is not the one of a data set of the result.
        DataMissingError: A file or folder is not there.
    """
    if not isinstance(result, (Result, ResultGroup)):
        raise ArgumentError(f"result: got {result!r:.80}, expected a result or group. For a file use verify_file")
    (files,) = matching_files([result], data_files)
    verifier = _Verifier(rerun, data_dir, files)
    return list(verifier.findings(result, result.to_dict(), benchmark))


def matching_files(results: Sequence[Results], data_files: Sequence[StrPath]) -> list[list[StrPath]]:
    """Return for each result those of the given files that are its data, and all given folders.

    A file is the data of a result if the result records its SHA-256. So a file may have another name than in the run.
    Folders are not opened here: later, a file with the recorded name is searched in them.

    Args:
        results: The results to verify.
        data_files: Files of the user's own data, and folders that contain them.

    Raises:
        ArgumentError: A file is the data of none of these results.
        DataMissingError: A file or folder does not exist.
    """
    folders: set[StrPath] = set()
    digest_by_file: dict[StrPath, str] = {}
    for file in data_files:
        if Path(file).is_dir():
            folders.add(file)
        else:
            digest_by_file[file] = data_file_digest(file)

    recorded_by_result = [_recorded_files(result) for result in results]
    _refuse_other_files(digest_by_file, recorded_by_result)
    files_by_result = []
    for recorded_files in recorded_by_result:
        files = []
        for file in dict.fromkeys(data_files):
            if file in folders or digest_by_file[file] in recorded_files:
                files.append(file)
        files_by_result.append(files)
    return files_by_result


def _refuse_other_files(digest_by_file: Mapping[StrPath, str], recorded_by_result: Sequence[dict[str, str]]) -> None:
    """Raise an error if a given file is the data of none of the results.

    Args:
        digest_by_file: The SHA-256 of each file.
        recorded_by_result: For each result, the names of its data files by their SHA-256.

    Raises:
        ArgumentError: A file is the data of none of them.
    """
    expected: dict[str, str] = {}
    for recorded_files in recorded_by_result:
        expected |= recorded_files
    if expected:
        listed = " or ".join(f"{digest:.64} ({name:.80})" for digest, name in expected.items())
        wanted = f"expected {listed}"
    else:
        wanted = "but no data set of the result is from a file"
    for file, digest in digest_by_file.items():
        if digest not in expected:
            raise ArgumentError(f"{file} is not the data of the result: its SHA-256 is {digest}, {wanted}")


def _recorded_files(result: Results) -> dict[str, str]:
    """Return the names of the data files of a result, by their SHA-256."""
    names = {}
    for part in result.results():
        for record in part.files.values():
            names[str(record.get("sha256"))] = str(record.get("file"))
    return names


@dataclass(slots=True)
class _Verifier:
    """Verifies a result, or a group with all its parts."""

    rerun: Rerun | None
    """Which queries to predict again."""
    data_dir: StrPath | None
    """Folder with the data of LongICL."""
    data_files: Sequence[StrPath]
    """Files and folders of the user's own data."""
    sources: list[RerunSource] = field(default_factory=list)
    """The data sets whose queries can be predicted again; filled while they are verified."""

    def findings(self, result: Results, saved: Mapping[str, Any], benchmark: Any) -> Iterator[Verification]:
        """Yield the findings about a result and its parts, then the one about the queries that are predicted again.

        Args:
            result: The result.
            saved: Its JSON values.
            benchmark: Its benchmark; ``None`` rebuilds it from the result.
        """
        yield from self._verify(result, saved, benchmark, where="")
        if self.rerun is not None:
            yield predict_again(self.rerun, _name_of(result), self.sources, result)

    def _verify(
        self,
        result: Results,
        saved: Mapping[str, Any],
        benchmark: Any,
        where: str,
        raced: list[ScoredResult] | None = None,
    ) -> Iterator[Verification]:
        """Yield the findings about a result or a group, which is a complete file or a part of one.

        Args:
            result: The result.
            saved: Its JSON values.
            benchmark: Its benchmark; ``None`` rebuilds it from the result.
            where: Its path within the file; empty for the whole file.
            raced: In a race of two models, the list of their results. The result is added to it when all of its data
                sets are scored, because the decision to stop follows from both results. ``None`` for other results.
        """
        if isinstance(result, ResultGroup):
            yield from self._verify_group(result, saved, benchmark, where)
        else:
            yield from self._verify_result(result, saved, benchmark, where, raced)

    def _verify_result(
        self,
        result: Result,
        saved: Mapping[str, Any],
        benchmark: Any,
        where: str,
        raced: list[ScoredResult] | None,
    ) -> Iterator[Verification]:
        """Yield a verification of each data set of a result, then one of the means, the signature and the provenance.

        Args:
            result: The result.
            saved: The content of its file.
            benchmark: The benchmark of the run; ``None`` if it must be rebuilt from the result.
            where: The place of the result in a group, for messages; empty for a single result.
            raced: For a part of a race, the scored parts so far, to which this one is added; ``None`` for others.
        """
        if benchmark is not None and not isinstance(benchmark, BaseBenchmark):
            yield _wrong_benchmark(benchmark, result, where)
            return
        if result.samples:
            yield from verify_logged(result, where)
            return
        own_metrics: list[str] = []  # those that a rebuilt benchmark lacks
        try:
            if benchmark is None:
                benchmark = rebuild(result, self.data_dir, self.data_files)
                own_metrics = _own_metrics(result)
            if isinstance(benchmark, Benchmark):
                benchmark = _as_in_the_run(benchmark, result)
        except UNREADABLE as error:
            yield _not_computed(result, finding_of_error(f"{where}benchmark", error))
            return

        scored = ScoredResult(
            result,
            saved,
            benchmark,
            where,
            unknown=reasons_for_unknown(result, own_metrics),
            sources=None if self.rerun is None else self.sources,
        )
        datasets = dict.fromkeys([*result.details, *benchmark.dataset_names, *benchmark.absent])
        for dataset in datasets:
            yield scored.dataset(dataset)

        unscored = [dataset for dataset in datasets if dataset not in scored.runs]
        findings: Iterable[Finding]
        if unscored:
            findings = [Unchecked(f"{where}means and signature: {', '.join(unscored)} cannot be scored")]
        else:
            findings = scored.shared(race=raced is not None)
        message = "the means, the signature and the provenance"
        yield Verification(result.benchmark, None, message, limited(f"{where}means", findings))
        # Only the results of a race are kept: those of other groups would keep the prompts of all parts in memory.
        if raced is not None and not unscored:
            raced.append(scored)

    def _verify_group(
        self, group: ResultGroup, saved: Mapping[str, Any], benchmark: Any, where: str
    ) -> Iterator[Verification]:
        """Yield the verifications of each part of a group, then one of the names, arguments and models of the parts.

        Args:
            group: The group.
            saved: The content of its file.
            benchmark: The benchmark, or group of benchmarks, of the run; ``None`` if it must be rebuilt from the group.
            where: The place of the group in a larger one, for messages; empty if there is none.
        """
        sweep = find_sweep(group.name)
        if benchmark is not None and not _fits_group(benchmark, sweep):
            yield _wrong_benchmark(benchmark, group, where)
            return
        findings: list[Finding] = []
        if benchmark is None and sweep is None:
            try:
                benchmark = rebuild(group, self.data_dir, self.data_files)
            except UNREADABLE as error:
                findings.append(finding_of_error(f"{where}benchmark", error))
        if not group:
            findings.append(Unchecked(f"{where}parts: the group has none"))

        expected_name = group.name
        benchmark_of_part: Mapping[str, Any]
        if isinstance(benchmark, BenchmarkGroup):
            expected_name = benchmark.name
            benchmark_of_part = benchmark.members
            findings += compare_values(f"{where}parts", _part_names(group, saved), sorted(benchmark.members))
        else:
            # Both parts of a race have the given benchmark. Without one, the benchmark of each part is rebuilt.
            benchmark_of_part = dict.fromkeys(group, benchmark)

        # The parts of a race are kept when they are scored, because its decision to stop follows from both.
        raced: list[ScoredResult] | None = [] if sweep is RACE else None
        for part_name, part in group.items():
            part_where = f"{where}parts / {part_name} / "
            part_benchmark = benchmark_of_part.get(part_name)
            yield from self._verify(part, saved["parts"][part_name], part_benchmark, part_where, raced)
        findings += _compare_parts(group, sweep, where)
        if raced is not None:
            findings += compare_values(f"{where}parts", sorted(group), ["first", "second"])
            findings += _decision_findings(raced, where)
        findings += _compare_other_entries(saved, expected_name, sweep, where)
        message = "the parts, their arguments and their models"
        yield Verification(group.name, None, message, limited(where, findings))


def _name_of(result: Results) -> str:
    """Return the name of a group of results, or that of the benchmark of a single result."""
    if isinstance(result, ResultGroup):
        return result.name
    return result.benchmark


def _own_metrics(result: Result) -> list[str]:
    """Return the names of the user's own metrics, which the file of a result has without their functions."""
    recorded = result.arguments.get("metrics", {})
    return [str(name) for name in recorded.get("own", ())]


def _compare_other_entries(
    saved: Mapping[str, Any], expected_name: str, sweep: Sweep | None, where: str
) -> Iterator[Finding]:
    """Yield the findings about the entries of a group next to its parts: schema, kind and name.

    What only the run can know of a sweep is not compared.

    Args:
        saved: The JSON values of the group.
        expected_name: The name that it must have.
        sweep: The setting in which its parts differ; ``None`` if they are different benchmarks.
        where: Its path within the file.
    """
    not_compared = {"parts"}
    if sweep is not None:
        not_compared.update(sweep.recorded)
    entries = {key: value for key, value in saved.items() if key not in not_compared}
    expected = {"schema": RESULT_SCHEMA, "kind": "group", "name": expected_name}
    yield from compare_values(where.removesuffix(" / "), entries, expected, OTHER_SCHEMA)


def _not_computed(result: Results, finding: Finding) -> Verification:
    """Return the finding that nothing of a result can be computed again, because its benchmark cannot be made."""
    return Verification(_name_of(result), None, "nothing was computed again", (finding,))


def _wrong_benchmark(benchmark: object, result: Results, where: str) -> Verification:
    """Return the finding that a result cannot be of the benchmark with which it was to be verified.

    For a part of a file, this contradicts the file: a part has another kind than its benchmark. For a whole file, it is
    an error of the caller, who gave a wrong benchmark.

    Args:
        benchmark: The benchmark.
        result: The result.
        where: Its path within the file; empty if it is the whole file.

    Raises:
        ArgumentError: It is the whole file.
    """
    text = f"{where}benchmark: got {benchmark!r:.60} for results of {_name_of(result)!r:.60}"
    if not where:
        raise ArgumentError(f"{text}. Pass its own benchmark, or verify the parts of a group one by one")
    return _not_computed(result, Contradicted(text))


def _fits_group(benchmark: object, sweep: Sweep | None) -> bool:
    """Return whether a benchmark that the caller gave may have computed a group of results.

    A sweep is a group of results of one benchmark, or of one group of benchmarks, that differ in a setting such as
    ``k``.

    Args:
        benchmark: The benchmark.
        sweep: The setting in which the parts of the group differ; ``None`` if they are the members of a group of
            benchmarks.
    """
    if sweep is None:
        return isinstance(benchmark, BenchmarkGroup)
    if sweep is RACE:
        return isinstance(benchmark, BaseBenchmark)  # Both results of a race are of one benchmark.
    return False  # In any other sweep, each part has a benchmark with other settings.


def _as_in_the_run(benchmark: Benchmark, result: Result) -> Benchmark:
    """Return a benchmark with the test rows that the run evaluated, and with the reading of numbers of the run.

    A run that stopped early has only the first test rows. Numbers are read as probabilities or as logits.

    Args:
        benchmark: The benchmark.
        result: The result of the run.
    """
    if result.stopping is not None:
        benchmark = first_rows(benchmark, result.stopping.rounds)
    # The fields of given predictions state whether numbers are probabilities or logits. The result records which.
    outputs = result.setting("outputs")
    if outputs is not None and any(GIVEN in predictor.who for predictor in result.provenance.predictors):
        experimentors = [experimentor.copy_with(outputs=outputs) for experimentor in benchmark]
        benchmark = benchmark.copy_with(experimentor=experimentors)
    return benchmark


def _part_names(group: ResultGroup, saved: Mapping[str, Any]) -> list[str]:
    """Return the sorted names of the parts of a group, including the parts that the run left out with a reason.

    Args:
        group: The group.
        saved: Its JSON values.
    """
    names = set(group)
    skipped = saved.get("skipped")
    if isinstance(skipped, Mapping):  # Nothing computes these entries again, so they are unchecked.
        names.update(skipped)
    return sorted(names)


def _decision_findings(raced: Sequence[ScoredResult], where: str) -> Iterator[Finding]:
    """Yield the findings about the decision of a race to stop, which follows from the predictions of both models.

    Args:
        raced: The results of the race whose data sets are all scored.
        where: The path of the group.
    """
    if len(raced) != 2:
        yield Unchecked(f"{where}stopping: the decision follows from predictions that cannot be scored")
        return
    models = sorted(raced, key=lambda scored: scored.where)  # Sorted by name, "first" is before "second".
    for model in models:
        yield from model.replayed(models)


def _compare_parts(group: ResultGroup, sweep: Sweep | None, where: str) -> Iterator[Finding]:
    """Yield the findings of comparing each part of a group with the first part.

    The parts must have the same model. In a sweep, they must also have the same settings, except for the varied one.

    Args:
        group: The group.
        sweep: The setting in which the parts differ; ``None`` if they are different benchmarks.
        where: The path of the group.
    """
    if not group:
        return
    first_name = next(iter(group))
    first_part = group[first_name]
    first_count = len(list(first_part.results()))
    for name, part in group.items():
        place = f"{where}parts / {name}"
        results = list(part.results())
        if sweep is not None and not all(sweep.describes(name, result) for result in results):
            yield Contradicted(f"{place}: the name is not that of its setting")
        if len(results) != first_count:
            text = f"{place}: saved {len(results)} results, {first_name} has {first_count}"
            yield _finding_about_difference(sweep, text)
        for result, first_result in _pairs_to_compare(part, first_part, sweep):
            yield from _compare_results(result, first_result, sweep, place, first_name)


def _compare_results(
    result: Result, first_result: Result, sweep: Sweep | None, place: str, first_name: str
) -> Iterator[Finding]:
    """Yield the findings of comparing a result of a part of a group with the one of the first part.

    Args:
        result: The result.
        first_result: The result of the first part.
        sweep: The setting in which the parts differ; ``None`` if they are different benchmarks.
        place: The path of the part.
        first_name: The name of the first part.
    """
    if sweep is not None:
        settings = _settings_without(result, sweep.varies)
        first_settings = _settings_without(first_result, sweep.varies)
        yield from compare_values(f"{place} / signature", settings, first_settings)
    if sweep is RACE:
        return  # Its parts are two models.
    if _who_predicted(result, sweep) != _who_predicted(first_result, sweep):
        text = f"{place} / provenance: {result.model} ({result.method}), {first_name} has {first_result.model}"
        yield _finding_about_difference(sweep, text)


def _finding_about_difference(sweep: Sweep | None, text: str) -> Finding:
    """Return the finding that two parts of a group differ in their number of results, or in their model.

    The members of a benchmark group share one function and its settings, so a difference contradicts them. In a sweep
    of methods, a method may leave out members that do not fit it, and predict with a function of its own.

    Args:
        sweep: The setting in which the parts differ; ``None`` if they are the members of a benchmark group.
        text: The difference.
    """
    if sweep is None:
        return Contradicted(text)
    return Unchecked(text)


def _pairs_to_compare(part: Results, first_part: Results, sweep: Sweep | None) -> list[tuple[Result, Result]]:
    """Return the pairs of results that are compared: one result of a part, and one of the first part.

    In a sweep over a group of benchmarks, the pairs are results of the same benchmark.

    Args:
        part: The part.
        first_part: The first part of the group.
        sweep: The setting in which the parts differ; ``None`` if they are different benchmarks.
    """
    if sweep is None:
        # The parts are different benchmarks, so their names differ. Their results are paired in order.
        return list(zip(part.results(), first_part.results(), strict=False))
    members = _members_of(part)
    first_members = _members_of(first_part)
    pairs: list[tuple[Result, Result]] = []
    for name, member in members.items():
        if name in first_members:
            pairs += zip(member.results(), first_members[name].results(), strict=False)
    return pairs


def _members_of(part: Results) -> dict[str, Results]:
    """Return the members of a part by name. A single result is its own only member, under an empty name."""
    if isinstance(part, ResultGroup):
        return dict(part)
    return {"": part}


def _settings_without(result: Result, varied: Sequence[str]) -> dict[str, str | None]:
    """Return the settings in the signature of a result, without those in which the parts of a sweep differ.

    Args:
        result: The result.
        varied: The names of the fields that are left out.
    """
    return {name: result.signature.fields.get(name) for name in FIELDS if name not in varied}


@dataclass(frozen=True, slots=True)
class _ModelsAndMethod:
    """The models and the method that predicted a result."""

    predictors: Sequence[Predictor]
    """The models."""
    method: str | None
    """The method; ``None`` if it is not compared."""


def _who_predicted(result: Result, sweep: Sweep | None) -> _ModelsAndMethod:
    """Return the models and the method of a result, without what may differ between the parts of a group.

    The digest of given predictions differs from part to part, so it is left out. In a sweep, the method and the
    settings of the models may be what is varied, so they are left out, too.

    Args:
        result: The result.
        sweep: The setting in which the parts differ; ``None`` if they are different benchmarks.
    """
    predictors = []
    for predictor in result.provenance.predictors:
        facts = {name: fact for name, fact in predictor.who.items() if name != GIVEN}
        predictors.append(replace(predictor, identity="", who=facts))
    if sweep is None:
        return _ModelsAndMethod(predictors, result.method)
    without_settings = [replace(predictor, how={}) for predictor in predictors]
    return _ModelsAndMethod(without_settings, method=None)
