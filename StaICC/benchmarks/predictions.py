"""The provenance of a run's predictions, for the signature and the provenance of its result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from StaICC.benchmarks.running import RunContext
from StaICC.inference import Failure, Inference
from StaICC.inference.run_record import RunRecord
from StaICC.results import DatasetDetails
from StaICC.results.provenance import Provenance, digest_failures, given_predictor, predictors_of, utc_now
from StaICC.results.signature import common, scoring_field


@dataclass(frozen=True, slots=True)
class Predictions:
    """The provenance of the predictions of a run.

    Args:
        records: The record of each data set's inference function; data sets without one have given predictions.
        batched: Whether the functions were called with the list of all prompts.
        started: When the run began, in UTC.
        given: The signature's field ``scoring`` for given predictions.
    """

    records: Mapping[str, RunRecord] = field(default_factory=dict)
    batched: bool = False
    started: str = field(default_factory=utc_now)
    given: str = "given"
    warnings: tuple[str, ...] = ()
    """What the run warned of."""

    @classmethod
    def of_run(
        cls, context: RunContext, functions: Mapping[str, Inference | None], batched: bool, started: str
    ) -> Predictions:
        """Return the predictions of a run that has ended.

        Args:
            context: The context of the run.
            functions: The inference function of each data set, in the order of the run; ``None`` for given
                predictions.
            batched: Whether the functions were called with the list of all prompts.
            started: When the run began, in UTC.
        """
        records = {name: context.record_of(function) for name, function in functions.items() if function is not None}
        return cls(records, batched, started, warnings=tuple(context.warnings))

    def scoring(self, datasets: Sequence[str]) -> str | None:
        """Return the signature's field ``scoring``: how the label scores of all data sets are computed."""
        parser = ""
        if any(one.replies for one in self.records.values()):
            from StaICC.inference.reply_parser import PARSER_VERSION

            parser = f";parser={PARSER_VERSION}"
        return f"{common([self._scoring(name) for name in datasets])}{parser}" if datasets else None

    def _scoring(self, dataset: str) -> str:
        if dataset not in self.records:
            return self.given
        settings = self.records[dataset].identity.settings
        return scoring_field(settings) + (";batched" if self.batched else "")

    def provenance(self, answers: Mapping[str, Sequence[Any]], details: Mapping[str, DatasetDetails]) -> Provenance:
        """Return the provenance.

        Args:
            answers: The predictions by data set; a digest of given predictions is kept.
            details: The details of each data set.
        """
        predictors = predictors_of(((record, name) for name, record in self.records.items()), details)
        given = {
            name: [_plain(answer) for answer in of_dataset]
            for name, of_dataset in answers.items()
            if name not in self.records
        }
        if given:
            served = {name: details[name] for name in given}
            predictors += (given_predictor(given, self.started, served),)
        return Provenance(predictors, failures=digest_failures(details))


def _plain(answer: Any) -> Any:
    """Return a checked prediction as a JSON value; ``None`` for a failed query, ``"-inf"`` for minus infinity."""
    if isinstance(answer, Failure):
        return None
    if hasattr(answer, "tolist"):
        return answer.tolist()
    if isinstance(answer, (str, int, float)):
        return answer
    return [number if number > -math.inf else "-inf" for number in map(float, answer)]
