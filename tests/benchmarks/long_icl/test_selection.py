"""The rules against direct transcriptions of the protocol's text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl.protocol import at_most, by_pairs, by_passes, by_turns, covering

rows = st.lists(st.sampled_from("abcde"), max_size=30)
turns = st.integers(0, 6)


def turns_as_written(labels: list[str], number: int) -> list[int]:
    order = list(dict.fromkeys(labels))
    groups = {label: [i for i, own in enumerate(labels) if own == label] for label in order}
    used = dict.fromkeys(order, 0)
    taken = []
    for _ in range(number):
        for place in range(len(order)):
            for label in order[place:]:
                if used[label] < len(groups[label]):
                    taken.append(groups[label][used[label]])
                    used[label] += 1
                    break
    return taken


def passes_as_written(labels: list[str], number: int) -> list[int]:
    taken: list[int] = []
    for _ in range(number):
        seen: set[str] = set()
        for i, label in enumerate(labels):
            if i not in taken and label not in seen:
                seen.add(label)
                taken.append(i)
    return taken


@given(rows, turns)
def test_turns_and_passes(labels: list[str], number: int) -> None:
    assert by_turns(labels, number) == turns_as_written(labels, number)
    assert by_passes(labels, number) == passes_as_written(labels, number)
    strict = [labels[i] for i in by_turns(labels, number, strict=True)]
    assert sorted(strict) == sorted(labels[i] for i in at_most(labels, number))
    for label in set(labels):
        assert strict.count(label) == min(number, labels.count(label))


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=3), max_size=30), turns)
def test_covering(labels: list[list[str]], number: int) -> None:
    wanted = set("abcd")
    chosen = covering(labels, wanted, number)
    as_written: list[list[int]] = []
    missing: set[str] = set()
    for place, own in enumerate(labels):  # a turn ends with the row that completes it
        if not missing and set(own) & wanted:
            missing = set(wanted)
            as_written.append([])
        if set(own) & missing:
            as_written[-1].append(place)
            missing -= set(own)
    assert chosen == as_written[:number]


@given(rows, st.integers(0, 4))
def test_at_most(labels: list[str], size: int) -> None:
    chosen = at_most([label if label in "ab" else None for label in labels], size)
    assert chosen == sorted(chosen)
    for label in "abcde":
        own = [i for i in chosen if labels[i] == label]
        assert own == [i for i, given in enumerate(labels) if given == label][: size if label in "ab" else 0]


@given(st.lists(st.integers(0, 5)), st.integers(1, 20))
def test_by_pairs(counts: list[int], size: int) -> None:
    pairs = [(i, pair) for i, count in enumerate(counts) for pair in range(count)]
    assert [(i, pair) for i, count in by_pairs(counts, size) for pair in range(count)] == pairs[:size]
    assert by_pairs(counts, None) == by_pairs(counts, sum(counts) + 1)
