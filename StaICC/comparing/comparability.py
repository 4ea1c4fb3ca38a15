"""Whether the records of two runs are about the same test rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from StaICC.comparing.run_records import Queries, RecordedQuery, RunRecords
from StaICC.results.details import LoggedSamples


def in_label_order(records: RunRecords, labels: tuple[str, ...], predictions_are_scores: bool = False) -> RunRecords:
    """Return the records of a run with the label indexes that belong to another order of its label names.

    If the first run has the labels "positive, negative" and this run has "negative, positive", its index 0 becomes 1.
    Records are unchanged if the names are other ones, or if two labels have the same name.

    Args:
        records: The records of the run.
        labels: The label names in the wanted order.
        predictions_are_scores: Whether predictions are scores of a metric of the user's own, which do not depend on the
            order of the labels.
    """
    has_other_names = sorted(records.labels) != sorted(labels)
    has_duplicates = len(set(labels)) < len(labels)
    if records.labels == labels or has_other_names or has_duplicates:
        return records
    new_index = [labels.index(name) for name in records.labels]
    old_index = [records.labels.index(name) for name in labels]

    def reordered(query: RecordedQuery) -> RecordedQuery:
        """Return a query with its true label, and its predicted label or probabilities, in the wanted order."""
        truth = query.truth
        if truth is not None:
            truth = new_index[truth]
        prediction = query.prediction
        if isinstance(prediction, (list, tuple)):  # the probability of each label
            prediction = [prediction[index] for index in old_index]
        elif prediction is not None and not predictions_are_scores:
            prediction = new_index[prediction]
        return RecordedQuery(truth, prediction)

    conditions: dict[str, Queries] = {}
    for condition, queries in records.conditions.items():
        conditions[condition] = {position: reordered(query) for position, query in queries.items()}
    return replace(records, conditions=conditions, labels=labels)


def why_not_the_same_rows(reference: RunRecords, records: RunRecords) -> str | None:
    """Return the first difference of two runs that makes them incomparable; ``None`` if there is no such difference.

    Comparable runs have the same conditions, number of labels, true labels of shared test rows, and test texts (known
    by their digest).
    """
    if reference.samples is not None and records.samples is not None:
        return _why_not_the_same_documents(reference.samples, records.samples)
    if list(reference.conditions) != list(records.conditions):
        return f"other conditions: {', '.join(reference.conditions)} and {', '.join(records.conditions)}"
    label_names_known = bool(reference.labels) and bool(records.labels)
    if label_names_known and len(reference.labels) != len(records.labels):
        return f"other labels: {len(reference.labels)} and {len(records.labels)}"
    for condition, truth_by_row in reference.truth_by_row.items():
        other_truth = _other_true_label(truth_by_row, records.truth_by_row[condition])
        if other_truth is not None:
            return other_truth
    both_have_clusters = reference.clusters is not None and records.clusters is not None
    if both_have_clusters and reference.clusters != records.clusters:
        return "other clusters of the test rows"
    # Without digests, it is not known that the texts are the same.
    if reference.data_digest != records.data_digest or records.data_digest is None:
        return f"other data under this name (digests {reference.data_digest!s:.12} and {records.data_digest!s:.12})"
    return None


def _other_true_label(first: Mapping[int, int | None], second: Mapping[int, int | None]) -> str | None:
    """Return a sentence about the first test row whose true label differs between two runs; ``None`` if none does.

    Runs with other true labels of the same row have other versions of the data, and cannot be compared. Rows that only
    one run has, or whose true label is not known in both, are left out.

    Args:
        first: The true label of each test row in the first run; ``None`` if it is not known. LongICL does not save the
            true labels of an item whose query failed.
        second: As ``first``, in the second run.
    """
    if first == second:  # the usual case, without a loop over the rows
        return None
    shared_rows = first.keys() & second.keys()
    for row in sorted(shared_rows):
        both_are_known = first[row] is not None and second[row] is not None
        if both_are_known and first[row] != second[row]:
            return f"other true labels (test row {row}: label {first[row]} and {second[row]})"
    return None


def _why_not_the_same_documents(reference: LoggedSamples, samples: LoggedSamples) -> str | None:
    """Return why logged samples of two runs are of different tasks; ``None`` if there is no such reason.

    Comparable runs have the same version of the task, and the same document and target (known by their digest) wherever
    they have the same id of a document. A sample without a score, such as one that is missing in the log, may lack the
    digest. If no sample has one, as in a plain table of scores, the ids alone say that the documents are the same.

    Args:
        reference: The samples of the first run.
        samples: The samples of the other run.
    """
    if reference.task_version != samples.task_version:
        return f"other versions of the task: {_shown(reference.task_version)} and {_shown(samples.task_version)}"
    reference_digests = _digests_of_documents(reference)
    digests = _digests_of_documents(samples)
    if bool(reference_digests) != bool(digests):
        return "no common record of the documents: only one of the logs has their digests"
    for document, digests_of_document in digests.items():
        # Every repeat of a document in either log must have the same digest.
        all_digests = sorted(digests_of_document | reference_digests.get(document, set()))
        if len(all_digests) > 1:
            return (
                f"other documents or targets under the same id (document {document:.60}: "
                f"digests {all_digests[0]:.12} and {all_digests[1]:.12})"
            )
    return None


def _digests_of_documents(samples: LoggedSamples) -> dict[str, set[str]]:
    """Return the digests of each document over its repeats; without documents of which no sample has a digest.

    A document has one digest, unless its id was used for several documents. Samples that are missing in the log have
    none.
    """
    digests: dict[str, set[str]] = {}
    for document, digest in zip(samples.documents, samples.digests, strict=True):
        if digest is not None:
            digests.setdefault(document, set()).add(digest)
    return digests


def _shown(version: str | None) -> str:
    """Return the version of a task for a message; "not stated" if it is not known."""
    if version is None:
        return "not stated"
    return version[:60]
