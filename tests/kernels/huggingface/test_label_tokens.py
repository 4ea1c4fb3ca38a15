"""What stands for a label, and what is reported about it."""

from __future__ import annotations

import pytest

from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface.prompts import audit_labels, continuations, deciding_tokens


class Words:
    """Tokens are words with the space before them; a space alone is a token; ``</s>`` may be added at the end."""

    bos_token_id = None

    def __init__(self, ends=False):
        self.words = {"</s>": 0, "<unk>": 1}
        self.ends = ends
        self.eos_token_id = 0
        self.all_special_ids = [0, 1]

    def split(self, text):
        pieces, start = [], 0
        for i in range(1, len(text) + 1):
            if i == len(text) or (text[i] == " " and i > start) or (text[i].isdigit() and i > start):
                pieces.append(text[start:i])
                start = i
        return pieces if text else []

    def __call__(self, texts, add_special_tokens=True):
        rows = [
            [1 if piece == "?" else self.words.setdefault(piece, len(self.words)) for piece in self.split(text)]
            + ([0] if self.ends and add_special_tokens else [])
            for text in texts
        ]
        return {"input_ids": rows}

    def convert_ids_to_tokens(self, ids):
        names = {v: k for k, v in self.words.items()}
        return [names[i] for i in ids]


def kinds(issues):
    return {(issue.kind, issue.labels, issue.fatal) for issue in issues}


def test_last_and_first():
    tokenizer = Words()
    labels = ["very good", "bad"]
    names = tokenizer.convert_ids_to_tokens
    assert names(deciding_tokens(tokenizer, labels, "last")) == [" good", "bad"]
    assert names(deciding_tokens(tokenizer, labels, "first")) == ["very", "bad"]


def test_the_release_took_the_special_token_at_the_end_and_so_does_last():
    assert deciding_tokens(Words(ends=True), ["good", "bad"], "last") == [0, 0]
    assert 0 not in deciding_tokens(Words(ends=True), ["good", "bad"], "first")


def test_labels_without_findings():
    assert audit_labels(Words(), ["good", "bad"]) == ()


def test_shared_deciding_token():
    labels = ["very good", "not good", "bad"]
    (issue,) = audit_labels(Words(), labels, "last")
    assert (issue.kind, issue.labels, issue.tokens, issue.fatal) == (
        "shared-token",
        ("very good", "not good"),
        (" good",),
        True,
    )
    assert (
        issue.message
        == "the labels 'very good', 'not good' are scored by the same token  good and cannot be told apart"
    )
    assert audit_labels(Words(), labels, "first") == ()
    assert audit_labels(Words(), labels, "full") == ()
    assert kinds(audit_labels(Words(), ["good", "good"], "full")) == {("shared-token", ("good", "good"), True)}


def test_special_tokens():
    assert kinds(audit_labels(Words(ends=True), ["good", "bad"], "last")) == {
        ("special-token", ("good",), True),
        ("special-token", ("bad",), True),
        ("shared-token", ("good", "bad"), True),
    }
    assert audit_labels(Words(ends=True), ["good", "bad"], "first") == ()
    (issue,) = audit_labels(Words(), ["good", "?"], "full")
    assert "'?' is scored by the special token <unk>" in issue.message


def test_a_label_without_tokens():
    assert kinds(audit_labels(Words(), ["good", ""])) == {("no-token", ("",), True)}
    with pytest.raises(ArgumentError, match="the label '' has no token"):
        deciding_tokens(Words(), ["good", ""])


def test_a_space_that_moves():
    found = audit_labels(Words(), ["good", "1"], "last", "it is ")
    assert kinds(found) == {("boundary", ("good",), False), ("space", ("good",), False)}
    assert audit_labels(Words(), [" good", " bad"], "last", "it is") == ()


def test_continuations_start_at_a_border_of_tokens():
    tokenizer = Words()
    ((given, rows),) = continuations(tokenizer, ["it is "], ["good", "very bad"])
    names = [tokenizer.convert_ids_to_tokens(row) for row in rows]
    assert given == 2  # the space at the end goes with the label
    assert names == [["it", " is", " good"], ["it", " is", " very", " bad"]]


def test_continuations_leave_out_the_token_at_the_end():
    ((given, rows),) = continuations(Words(ends=True), ["it is"], [" good", " bad"])
    assert given == 2
    assert [len(row) for row in rows] == [3, 3]


@pytest.mark.parametrize(
    ("labels", "scoring", "message"),
    [
        ("good", "last", "label_space must be a non-empty list of strings"),
        ([], "last", "label_space must be a non-empty list of strings"),
        (["a", 1], "last", "label_space must be a non-empty list of strings"),
        (["a", "b"], "middle", "label_scoring must be one of last, first, full, not 'middle'"),
    ],
)
def test_bad_arguments(labels, scoring, message):
    with pytest.raises(ArgumentError, match=message):
        audit_labels(Words(), labels, scoring)
