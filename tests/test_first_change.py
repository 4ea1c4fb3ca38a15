"""The first test of a contributor (CONTRIBUTING.md): a benchmark, a function, an accuracy that is counted by hand."""

from __future__ import annotations

import pytest

from StaICC import Normal


def test_the_accuracy_of_always_the_first_label_is_its_share_of_the_queries() -> None:
    result = Normal(datasets=["mini"])(lambda prompt, label_space: 0)
    queries = list(result.queries())
    count = sum(query.ground_truth == 0 for query in queries)
    assert 0 < count < len(queries)
    assert result.divided["mini"]["accuracy"] == pytest.approx(count / len(queries))
