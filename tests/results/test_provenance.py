"""Provenance: every result says who predicted, how, and when; two runs are shown with their differences first."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.exchange import identified_queries, score_predictions
from StaICC.inference.identity import Identity
from StaICC.results import Result, list_differences
from StaICC.results.provenance import GIVEN


@dataclasses.dataclass
class StandIn:
    """A kernel that states its identity."""

    weights: str = "w1"
    label_scoring: str = "last"
    answer: int = 0
    reasons: tuple[str, ...] = ()

    def identity(self) -> Identity:
        who = {"model": "stand-in", "weights": self.weights, "dtype": "float32"}
        return Identity(who, {"label_scoring": self.label_scoring}, self.reasons)

    def __call__(self, prompt: str, label_space: list[str]) -> Any:
        return [float(place == self.answer) for place in range(len(label_space))]


def mini(name: str = "Normal", **settings: Any) -> Any:
    return getattr(StaICC, name)(datasets=["mini"], limit=3, **settings)


# -- who, how and when


@pytest.mark.parametrize("name", ["Normal", "Suite"])
def test_every_result_says_who_predicted(name: str) -> None:
    for result in mini(name)(StandIn(), model_name="mine").results():
        (one,) = result.provenance.predictors
        assert one.name == "mine"
        assert one.identity == StandIn().identity().digest
        assert one.who == {"model": "stand-in", "weights": "w1", "dtype": "float32"}
        assert one.how == {"label_scoring": "last"}
        assert (one.datasets, one.unidentified) == (("mini",), ())
        assert one.started <= one.finished
        assert one.started.endswith("+00:00")
        assert result.provenance.label == result.model == f"mine [{one.identity[:12]}]"


def test_what_cannot_be_identified_is_marked_everywhere() -> None:
    result = mini()(StandIn(reasons=("a hook on layer 3",)))
    assert result.model.endswith("(unidentified)")
    for shown in (str(result), result._repr_html_()):
        assert "UNIDENTIFIED: a hook on layer 3" in shown
        assert "(unidentified)" in shown


# -- predictions that were given

ROW = [0.5, 0.3, 0.2]


def test_given_predictions_have_a_digest_in_any_order_and_form() -> None:
    result = mini()(preentered_prediction=[[ROW] * 6])
    (one,) = result.provenance.predictors
    assert list(one.who) == [GIVEN]
    assert len(one.who[GIVEN]) == 64
    assert result.model == f"{GIVEN} [{one.who[GIVEN][:12]}]"
    assert mini()(preentered_prediction={"mini": ((0.5, 0.3, 0.2),) * 6}) == result
    keys = [query.id for query in identified_queries(mini())]
    rows = {key: {"probabilities": ROW} for key in keys}
    assert score_predictions(mini(), rows) == score_predictions(mini(), dict(reversed(rows.items()))) == result
    other = score_predictions(mini(), {**rows, keys[0]: {"probabilities": [0.5, 0.2, 0.3]}})
    assert isinstance(other, Result)
    assert other.averaged["accuracy"] == result.averaged["accuracy"]
    assert other.provenance != result.provenance


def test_which_queries_failed_is_in_the_provenance() -> None:
    """Equal counts of other failed queries: one signature, two provenances."""
    keys = [one.id for one in identified_queries(mini())]
    row = {"probabilities": [0.5, 0.3, 0.2]}
    without = [
        score_predictions(mini(), {key: row for key in keys if key != left_out}, partial=True) for left_out in keys[:2]
    ]
    first, second = (one for one in without if isinstance(one, Result))
    assert first.signature == second.signature
    assert None is not first.provenance.failures != second.provenance.failures is not None
    assert first.provenance.predictors[0].failed == 1
    assert "failed queries" in {one.field for one in list_differences(first, second)}
    assert mini()(StandIn()).provenance.failures is None


# -- equality, and bytes


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"identity": "0" * 64},
        {"who": {"weights": "other"}},
        {"how": {"label_scoring": "full"}},
        {"unidentified": ("a hook",)},
        {"datasets": ("other",)},
    ],
)
def test_equality_looks_at_who_and_how(result: Result, change: dict[str, Any]) -> None:
    other = copy.deepcopy(result)
    changed = dataclasses.replace(result.provenance.predictors[0], **change)
    other.provenance = dataclasses.replace(result.provenance, predictors=(changed,))
    assert other != result
