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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.findings import Contradicted, Finding, Results, Unchecked, Verification, compare_values, limited
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.race import RACE, first_rows
from StaICC.benchmarks.rebuilding import UNREADABLE, finding_of_error, rebuild
from StaICC.benchmarks.rerunning import Rerun, predict_again
from StaICC.benchmarks.rescoring import OTHER_SCHEMA, ScoredResult, reasons_for_unknown
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.datasets.source import data_file_digest
from StaICC.errors import ArgumentError
from StaICC.files.output import StrPath
from StaICC.results.files import DIGESTS, digest_problems, read_result_file
from StaICC.results.predictor import GIVEN
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
"""What a run records and nothing else in a result implies. It is compared within the file, but never computed again."""


def verify_file(
    path: StrPath,
    benchmark: BaseBenchmark[Any] | BenchmarkGroup | None = None,
    data_dir: StrPath | None = None,
    data_files: Sequence[StrPath] = (),
    rerun: Rerun | None = None,
) -> list[Verification]:
    """Verify a saved result with the digests of its file.

    Args:
        path: The file.
        benchmark: As for :func:`verify`.
        data_dir: As for :func:`verify`.
        data_files: As for :func:`verify`; the folder of the result and the current folder are searched too.
        rerun: As for :func:`verify`.

    Returns:
        The finding about the file, then those of :func:`verify`.

    Raises:
        SchemaError: The file is not a saved result, or is damaged.
        OSError: The file cannot be read.
    """
    data = read_result_file(path)
    result = result_from_dict(data, os.fspath(path))
    name = result.name if isinstance(result, ResultGroup) else result.benchmark
    problems = tuple(map(Contradicted, digest_problems(data)))
    about_file = Verification(name, None, f"the digests {'differ' if problems else 'are the same'}", problems)
    saved = {key: value for key, value in data.items() if key != DIGESTS}
    verifier = _Verifier(rerun, data_dir, matching_files([result], [*data_files, Path(path).parent, Path()])[0])
    return [about_file, *verifier.findings(result, saved, benchmark)]


def verify(
    result: Results,
    benchmark: BaseBenchmark[Any] | BenchmarkGroup | None = None,
    data_dir: StrPath | None = None,
    data_files: Sequence[StrPath] = (),
    rerun: Rerun | None = None,
) -> list[Verification]:
    """Compute a result again from its records, and compare.

    Args:
        result: A result or a group of results.
        benchmark: The benchmark, or the group, that computed it. Needed if the user changed its prompts or metrics, if
            it ran on the user's own data, and for benchmarks that are not of this library; otherwise it is rebuilt.
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, found by their SHA-256, and folders that contain them under the
            recorded name.
        rerun: Predict some queries again.

    Returns:
        For each benchmark one finding for each data set, then one for the fields that they share; for a group one more
        for its parts, and one for the queries that were predicted again. :func:`status_of` is the status of them all.

    Raises:
        ArgumentError: The benchmark does not fit the result, or a file is not the one of a data set of the result.
        DataMissingError: A file or folder is not there.
    """
    if not isinstance(result, (Result, ResultGroup)):
        raise ArgumentError(f"result: got {result!r:.80}, expected a result or group. For a file use verify_file")
    verifier = _Verifier(rerun, data_dir, matching_files([result], data_files)[0])
    return list(verifier.findings(result, result.to_dict(), benchmark))


def matching_files(results: Sequence[Results], data_files: Sequence[StrPath]) -> list[list[StrPath]]:
    """Return for each result the files of its own data sets, found by their SHA-256, and all folders.

    Args:
        results: The results to verify.
        data_files: Files and folders.

    Raises:
        ArgumentError: A file is not the one of a data set of these results.
        DataMissingError: A file or folder is not there.
    """
    digests = {file: None if Path(file).is_dir() else data_file_digest(file) for file in data_files}
    records = [[record for part in result.results() for record in part.files.values()] for result in results]
    recorded = [{str(record.get("sha256")): str(record.get("file")) for record in of_result} for of_result in records]
    expected = {digest: name for names in recorded for digest, name in names.items()}
    for file, digest in digests.items():
        if digest is not None and digest not in expected:
            listed = " or ".join(f"{key:.64} ({name:.80})" for key, name in expected.items())
            wanted = f"expected {listed}" if listed else "but no data set of the result is from a file"
            raise ArgumentError(f"{file} is not the data of the result: its SHA-256 is {digest}, {wanted}")
    return [[file for file, digest in digests.items() if digest is None or digest in names] for names in recorded]


@dataclass(slots=True)
class _Verifier:
    """Verifies a result, or a group with all its parts."""

    rerun: Rerun | None
    """Which queries to predict again."""
    data_dir: StrPath | None
    """Folder with the data of LongICL."""
    data_files: Sequence[StrPath]
    """Files and folders of the user's own data."""
    sources: list[tuple[ScoredResult, str]] = field(default_factory=list)
    """The queries that can be predicted again."""

    def findings(self, result: Results, saved: Mapping[str, Any], benchmark: Any) -> Iterator[Verification]:
        """Yield the findings about a result and its parts, then that about the queries that are predicted again."""
        yield from self._any(result, saved, benchmark, "")
        if self.rerun is not None:
            name = result.name if isinstance(result, ResultGroup) else result.benchmark
            yield predict_again(self.rerun, name, self.sources, result)

    def _any(
        self,
        result: Results,
        saved: Mapping[str, Any],
        benchmark: Any,
        where: str,
        raced: list[ScoredResult] | None = None,
    ) -> Iterator[Verification]:
        """Yield the findings about a result or a group; ``raced`` gets results of a race whose data sets are scored."""
        group = isinstance(result, ResultGroup)
        name = result.name if isinstance(result, ResultGroup) else result.benchmark
        sweep = find_sweep(name) if group else None
        fitting: Any = BaseBenchmark if not group or sweep is RACE else BenchmarkGroup if sweep is None else ()
        if benchmark is not None and not isinstance(benchmark, fitting):
            got = f"{where}benchmark: got {benchmark!r:.60} for results of {name!r:.60}"
            if not where:
                raise ArgumentError(f"{got}. Pass its own benchmark, or verify the parts of a group one by one")
            yield Verification(name, None, "nothing was computed again", (Contradicted(got),))
            return
        own: Sequence[str] = ()
        refused: list[Finding] = []
        try:
            if benchmark is None and sweep is None:
                benchmark = rebuild(result, self.data_dir, self.data_files)
                own = [str(own) for one in result.results() for own in one.arguments.get("metrics", {}).get("own", ())]
            if isinstance(benchmark, Benchmark) and isinstance(result, Result):
                if result.stopping is not None:
                    benchmark = first_rows(benchmark, result.stopping.rounds)
                outputs = result.setting("outputs")  # the kind of given scores is that of their file
                if outputs is not None and any(GIVEN in predictor.who for predictor in result.provenance.predictors):
                    benchmark = benchmark.copy_with(experimentor=[one.copy_with(outputs=outputs) for one in benchmark])
        except UNREADABLE as error:
            refused.append(finding_of_error(f"{where}benchmark", error))
        if isinstance(result, ResultGroup):
            yield from self._group(result, saved, benchmark, where, refused)
        elif refused:
            yield Verification(name, None, "nothing was computed again", tuple(refused))
        else:
            sources = None if self.rerun is None else self.sources
            scored = ScoredResult(result, saved, benchmark, where, reasons_for_unknown(result, own), sources)
            names = dict.fromkeys([*result.details, *benchmark.dataset_names, *benchmark.absent])
            for dataset in names:
                yield scored.dataset(dataset)
            lost = [dataset for dataset in names if dataset not in scored.runs]
            unscored = Unchecked(f"{where}means and signature: {', '.join(lost)} cannot be scored")
            findings = limited(f"{where}means", [unscored] if lost else scored.shared(raced is not None))
            yield Verification(name, None, "the means, the signature and the provenance", findings)
            if raced is not None and not lost:  # others would keep the prompts of all parts in memory
                raced.append(scored)

    def _group(
        self, group: ResultGroup, saved: Mapping[str, Any], benchmark: Any, where: str, findings: list[Finding]
    ) -> Iterator[Verification]:
        findings += [] if group else [Unchecked(f"{where}parts: the group has none")]
        name, sweep = group.name, find_sweep(group.name)
        members: Mapping[str, Any] = dict.fromkeys(group, benchmark)
        raced: list[ScoredResult] | None = [] if sweep is RACE else None
        if isinstance(benchmark, BenchmarkGroup):
            name, members = benchmark.name, benchmark.members
            left_out = saved.get("skipped")  # unchecked below
            named = {*group, *(left_out if isinstance(left_out, Mapping) else ())}
            findings += compare_values(f"{where}parts", sorted(named), sorted(members))
        for part_name, part in group.items():
            place = f"{where}parts / {part_name} / "
            yield from self._any(part, saved["parts"][part_name], members.get(part_name), place, raced)
        findings += _shared_by_parts(group, sweep, where)
        if raced is not None:
            findings += compare_values(f"{where}parts", sorted(group), ["first", "second"])
            models = sorted(raced, key=lambda scored: scored.where)  # the first, the second
            unscored = Unchecked(f"{where}stopping: the decision follows from predictions that cannot be scored")
            replayed = (finding for model in models for finding in model.replayed(models))
            findings += replayed if len(models) == 2 else [unscored]
        others = {"parts", *(sweep.recorded if sweep is not None else ())}
        entries = {key: value for key, value in saved.items() if key not in others}
        expected = {"schema": RESULT_SCHEMA, "kind": "group", "name": name}
        findings += compare_values(where.removesuffix(" / "), entries, expected, OTHER_SCHEMA)
        yield Verification(group.name, None, "the parts, their arguments and their models", limited(where, findings))


def _shared_by_parts(group: ResultGroup, sweep: Sweep | None, where: str) -> Iterator[Finding]:
    """Compare who predicted the parts of a group and, in a sweep, their settings but the one that differs."""
    parts = {name: dict(part) if isinstance(part, ResultGroup) else {"": part} for name, part in group.items()}
    for name, own in parts.items():
        place, (first_name, first) = f"{where}parts / {name}", next(iter(parts.items()))
        results, others = ([result for member in part.values() for result in member.results()] for part in (own, first))
        if sweep is not None and not all(sweep.describes(name, result) for result in results):
            yield Contradicted(f"{place}: the name is not that of its setting")
        if len(results) != len(others):  # a method leaves out members of a group that do not fit it
            text = f"{place}: saved {len(results)} results, {first_name} has {len(others)}"
            yield Contradicted(text) if sweep is None else Unchecked(text)
        compared = [(member.results(), first[key].results()) for key, member in own.items() if key in first]
        if sweep is None:  # members of a group have names of their own
            compared = [(results, others)]
        for mine, other in (pair for both in compared for pair in zip(*both, strict=False)):
            if sweep is not None:
                settings, shared = (
                    {key: result.signature.fields.get(key) for key in FIELDS if key not in sweep.varies}
                    for result in (mine, other)
                )
                yield from compare_values(f"{place} / signature", settings, shared)
            if sweep is not RACE and _who(mine, sweep) != _who(other, sweep):
                text = f"{place} / provenance: {mine.model} ({mine.method}), {first_name} has {other.model}"
                # The function of a method may be one of its own; the members of a benchmark group share one.
                yield Contradicted(text) if sweep is None else Unchecked(text)


def _who(result: Result, sweep: Sweep | None) -> list[object]:
    """Return who predicted a result, without the digest of given predictions; in a sweep, without the method."""
    without: dict[str, Any] = {"identity": ""} if sweep is None else {"identity": "", "how": {}}
    who = [{key: value for key, value in own.who.items() if key != GIVEN} for own in result.provenance.predictors]
    predictors = zip(result.provenance.predictors, who, strict=True)
    return [replace(own, who=facts, **without) for own, facts in predictors] + [result.method] * (sweep is None)
