"""What is read of a result by the modules that it uses: its tables, its records, its verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from StaICC.results.details import DatasetDetails, EarlyStopping, LoggedSamples, MeanDetails, QueryScores
from StaICC.results.predictor import Provenance
from StaICC.results.signature import Signature


class ResultLike(Protocol):
    """A result, as the modules read it that a result itself uses."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""

    @property
    def model(self) -> str:
        """The models, in one line."""

    @property
    def method(self) -> str:
        """The inference method with variant and options."""

    @property
    def signature(self) -> Signature:
        """The settings of the run."""

    @property
    def provenance(self) -> Provenance:
        """Who predicted."""

    @property
    def divided(self) -> Mapping[str, Mapping[str, Any]]:
        """Scores by data set."""

    @property
    def averaged(self) -> Mapping[str, float | None]:
        """Means over the data sets."""

    @property
    def details(self) -> Mapping[str, DatasetDetails]:
        """Counts, intervals and notes by data set."""

    @property
    def means(self) -> MeanDetails:
        """Intervals and baselines of the means."""

    @property
    def timing(self) -> Mapping[str, float]:
        """Seconds and tokens by step."""

    @property
    def stopping(self) -> EarlyStopping | None:
        """Why the run stopped early."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the data, prompts and predictions warn of."""

    @property
    def query_scores(self) -> Mapping[str, QueryScores]:
        """The scores of the queries by metrics that are not of this library."""

    @property
    def samples(self) -> Mapping[str, LoggedSamples]:
        """The samples by data set, if another harness logged them."""

    @property
    def outputs(self) -> Mapping[str, Any] | None:
        """Records of each query by data set, if the run kept them."""

    def setting(self, name: str) -> Any:
        """Return an argument of the benchmark."""

    def counted_wrong(self, dataset: str) -> set[tuple[str, int]]:
        """Return condition and number of each query of a data set whose reply has no label and counts as wrong."""

    def left_out_of(self, metric: str, dataset: str | None = None) -> int:
        """Return the number of queries that a score leaves out."""

    def score_records(self) -> Iterator[Mapping[str, Any]]:
        """Yield one record for each score."""


class ResultsLike(Protocol):
    """A result, or a group of results."""

    def results(self) -> Iterator[ResultLike]:
        """Yield every single result."""
