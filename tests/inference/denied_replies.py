"""Forms of replies in which a label is denied, retracted, doubted or given a value: no form names ``{label}``.

``{other}`` is another label of the same task. Each form is read on five label spaces, on each of their labels.
"""

LABEL_SPACES = {
    "sentiment": ["negative", "positive"],
    "hate": ["normal", "hate"],
    "topics": ["world", "sports", "business", "science"],
    "letters": ["A", "B", "C", "D"],
    "symbols": ["C#", "C++", "Java"],
}

GIVEN_A_VALUE = [
    '{{"{label}": false}}',
    '{{"{label}": 0.02}}',
    '{{"{label}": "no"}}',
    '{{"{label}": null}}',
    '{{"{label}": 0, "{other}": 0}}',
    "{label}: No.",
    "{label} - no",
    "{label}: 0%",
    "{label} (no)",
    "{label}: not detected",
    "{label}: false",
    "{label} = 0",
    "{label} 0.05",
    "{label}: 1/10",
    "{label}\nNo",
    "{label}\n0%",
    "Answer: {label} (10%), {other} (90%)",
    "{label} | {other}\n0.1 | 0.9",
    "| {label} | no |\n| {other} | yes |",
    "Probability of {label}: 0.03",
    "{label}? No.",
    "[ ] {label}",
]

DENIED = [
    "not {label}",
    "Not {label}.",
    "This is not {label}.",
    "It isn't {label}.",
    "The answer is not {label}.",
    "The label cannot be {label}.",
    "It would be wrong to say the answer is {label}.",
    "The wrong answer is {label}.",
    "{label} is wrong.",
    "{label} is not the right label.",
    "{label} can be ruled out.",
    "Anything but {label}.",
    "I don't think the answer is {label}.",
    "Nobody would say the label is {label}.",
    "There is nothing {label} about it.",
    "\u274c {label}",
    "{label} \u274c",
    "\u2717 {label}",
    "~~{label}~~",
    '{{"not_label": "{label}"}}',
    '{{"wrong_answer": "{label}"}}',
    "<wrong>{label}</wrong>",
    "These labels do not apply:\n- {label}",
    "Excluded:\n\n* {label}\n\n* {other}",
    "neither {label} nor {other}",
    "Far from {label}.",
]

RETRACTED = [
    "The answer is {label}. Wait, no: {other}.",
    "{label}. No, {other}.",
    "{label}\n\nActually, that is wrong.",
    "{label}... no, scratch that.",
    "{label}. Not really.",
    "{label}\nCorrection: {other}",
    "The label is {label}. I take that back.",
    "{label}. On second thought, {other}.",
    "{label}\n\nThe answer above is incorrect.",
    "{label}, just kidding",
]

DOUBTED = [
    "If it were sincere, the answer is {label}.",
    "The answer is {label} if it is meant literally.",
    "The answer is {label} unless it is ironic.",
    "Is it {label}?",
    "{label} or {other}",
    "{label}/{other}",
    "Some would say the answer is {label}.",
    "It could be {label}.",
    "Options: {label}, {other}",
    "Choose between:\n{label}\n{other}",
    "The first part is {label}, the second part is {other}.",
    "<think>The answer is {label}",
]

FORMS = [*GIVEN_A_VALUE, *DENIED, *RETRACTED, *DOUBTED]
