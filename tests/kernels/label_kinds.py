"""Label names that could confuse whoever splits a prompt, and texts that contain them."""

from __future__ import annotations

from StaICC.datasets.dataset import Dataset

LABEL_KINDS: dict[str, list[str]] = {
    "words": ["positive", "negative"],
    "one a prefix of the other": ["good", "goodness"],
    "one within the other": ["bad", "not bad at all"],
    "the label word of the template": ["label", "text"],
    "the label prefix itself": ["label: ", "text: "],
    "a whole demonstration": ["text: a label: b", "text: b label: a"],
    "with the separator within": ["a\nb", "a"],
    "ending with a line feed": ["yes\n", "no"],
    "beginning with blanks": ["  yes", " no"],
    "ending with a blank": ["yes ", "no "],
    "several words": ["not at all", "very much so"],
    "numbers": ["1", "0"],
    "numbers, one a prefix": ["1", "10"],
    "negative and decimal numbers": ["-1.5", "1.5"],
    "letters of a choice": ["A", "B"],
    "letters in brackets": ["(A)", "(B)"],
    "signs": ["+", "-"],
    "punctuation": [".", "..."],
    "brackets and markup": ["<user>", "{{ x }}"],
    "a template's statement": ["{% if x %}", "{% endif %}"],
    "end tokens": ["</s>", "<|im_end|>"],
    "the role names": ["assistant", "user"],
    "JSON": ['{"label": 1}', '["a"]'],
    "quotes": ['"', "'"],
    "backslashes": ["\\n", "\\"],
    "tabs": ["a\tb", "a"],
    "a carriage return": ["a\r\nb", "a"],
    "another script": ["да", "нет"],
    "without blanks between words": ["正面", "负面"],
    "emoji": ["😀", "😡"],
    "combining characters": ["e\u0301", "é"],
    "upper and lower case": ["Yes", "yes"],
    "right to left": ["نعم", "لا"],
    "regular expression": [".*", "[a-z]+$"],
    "long": ["x" * 300, "y" * 300],
}


def own_data(labels: list[str]) -> Dataset:
    """Return texts that contain the words of the template, the labels, and line feeds."""
    rows = [(f"row {n}\ntext: x label: {labels[n % 2]}\n{'label: ' * (n % 3)}", labels[n % 2]) for n in range(60)]
    return Dataset.from_rows(rows, name="hostile", label_space=labels)
