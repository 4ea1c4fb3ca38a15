"""The rules against direct transcriptions of the protocol's text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl.prompts import at_most, by_pairs, by_passes, by_turns, covering

rows = st.lists(st.sampled_from("abcde"), max_size=30)
turns = st.integers(0, 6)


def turns_as_written(labels: list[str], number: int) -> list[int]:
    order = list(dict.fromkeys(labels))
    groups = {label: [i for i, own in enumerate(labels) if own == label] for label in order}
    used = dict.fromkeys(order, 0)
    taken = []
    for _ in range(number):
        for place, label in enumerate(order):
            if used[label] < len(groups[label]):
                taken.append(groups[label][used[label]])
                used[label] += 1
            else:
                for later in order[place + 1 :]:
                    if used[later] < len(groups[later]):
                        taken.append(groups[later][used[later]])
                        used[later] += 1
                        break
    return taken


def passes_as_written(labels: list[str], number: int) -> list[list[int]]:
    taken: set[int] = set()
    passes = []
    for _ in range(number):
        seen: set[str] = set()
        passes.append([])
        for i, label in enumerate(labels):
            if i not in taken and label not in seen:
                seen.add(label)
                taken.add(i)
                passes[-1].append(i)
    return passes


def cover_as_written(labels: list[str], wanted: set[str], number: int) -> list[int]:
    taken: list[int] = []
    seen: set[str] = set()
    complete = 0
    for i, label in enumerate(labels):
        if label not in wanted or label in seen:
            continue
        taken.append(i)
        seen.add(label)
        if seen == wanted:
            complete += 1
            if complete == number:
                return taken
            seen = set()
    return taken


@given(rows, turns)
def test_by_turns(labels: list[str], number: int) -> None:
    assert by_turns(labels, number) == turns_as_written(labels, number)


@given(rows, turns)
def test_strict_turns_are_even(labels: list[str], number: int) -> None:
    chosen = [labels[i] for i in by_turns(labels, number, strict=True)]
    for label in set(labels):
        assert chosen.count(label) == min(number, labels.count(label))


@given(rows, turns)
def test_by_passes(labels: list[str], number: int) -> None:
    assert by_passes(labels, number) == passes_as_written(labels, number)


@given(rows, st.integers(1, 6))
def test_covering_of_single_labels(labels: list[str], number: int) -> None:
    wanted = set("abd")
    chosen = covering(([label] for label in labels), wanted, number)
    assert [i for turn in chosen for i in turn] == cover_as_written(labels, wanted, number)


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=3), max_size=30), turns)
def test_covering_of_sets(labels: list[list[str]], number: int) -> None:
    wanted = set("abcd")
    chosen = covering(labels, wanted, number)
    assert len(chosen) <= number
    for turn in chosen:
        seen: set[str] = set()
        for i in turn:
            assert (set(labels[i]) & wanted) - seen  # each brings something new
            seen |= set(labels[i]) & wanted
        assert seen == wanted or turn is chosen[-1]
    flat = [i for turn in chosen for i in turn]
    assert flat == sorted(set(flat))


@given(rows, st.integers(0, 4))
def test_at_most(labels: list[str], size: int) -> None:
    chosen = at_most(labels, {"a", "b"}, size)
    assert chosen == sorted(chosen)
    for label in "abcde":
        own = [i for i in chosen if labels[i] == label]
        assert own == [i for i, given in enumerate(labels) if given == label][: size if label in "ab" else 0]


@given(st.lists(st.integers(0, 5)), st.integers(1, 20))
def test_by_pairs(counts: list[int], size: int) -> None:
    chosen = by_pairs(counts, size)
    pairs = [(i, pair) for i, count in enumerate(counts) for pair in range(count)]
    assert [(i, pair) for i, count in chosen for pair in range(count)] == pairs[:size]
    assert by_pairs(counts, None) == by_pairs(counts, sum(counts) + 1)
