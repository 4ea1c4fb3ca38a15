from __future__ import annotations

from StaICC.benchmarks.long_icl import card, cards

OVERVIEW = {
    "banking77": (77, [77, 154, 231, 308, 385], "accuracy"),
    "goemotions": (28, [28, 56, 84, 112, 140], "accuracy"),
    "discovery": (174, [174, 348, 522, 696, 870], "accuracy"),
    "tacred": (41, [41, 82, 123, 164, 205], "micro_f1"),
    "few_nerd": (66, [57, 114, 170, 224, 281], "micro_f1"),
    "dialogre": (34, [34, 67, 99, 131, 163], "micro_f1"),
}
"""Labels, demonstrations of the rounds, metric."""


def test_cards_are_those_of_the_protocol() -> None:
    found = {
        own.name: (len(set(own.labels)), [*own.demonstrations.expected], own.scoring.metric) for own in cards().values()
    }
    assert found == OVERVIEW
    assert list(found) == list(OVERVIEW)
    assert [name for name, own in cards().items() if own.restricted] == ["discovery", "tacred", "dialogre"]
    kinds = ["text", "text", "pair", "relation", "entities", "dialogue"]
    assert [own.kind for own in cards().values()] == kinds


HELMET = {"banking77": (77, 5900), "trec_coarse": (6, 6600), "trec_fine": (50, 6400), "nlu": (68, 8296)}
HELMET["clinc150"] = (151, 7050)
"""HELMET's data sets: labels, and demonstrations for 128K tokens, as in its configs/icl.yaml."""


def test_cards_of_helmet() -> None:
    found = {own.name: (len(set(own.labels)), own.shots[-1]) for own in cards("HELMET").values()}
    assert found == {f"helmet_{name}": numbers for name, numbers in HELMET.items()}
    assert {own.suite for own in cards(None).values()} == {"LongICLBench", "HELMET"}
    assert list(cards(None)) == [*cards(), *cards("HELMET")]
    assert all(len(own.shots) == 6 and sorted(own.shots) == [*own.shots] for own in cards("HELMET").values())
    assert all(own.shots[0] >= len(own.labels) for own in cards("HELMET").values())  # every label is shown
    for own in cards("HELMET").values():
        assert len({own.answers.normal(label) for label in own.labels}) == len(own.labels)


def test_discovery_labels_are_compared_without_punctuation() -> None:
    normal = card("discovery").answers.normal
    assert [normal(text) for text in ("as_a_result,", "[no-conn]", ' “Yet,". ')] == ["as_a_result", "[no-conn]", "yet"]
