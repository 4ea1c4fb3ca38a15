r"""Replies that name no label although a line, a tag or a JSON value of them is a label, by what they have in common.

``{label}`` is a label and ``{other}`` another one of the same task. Each form is read on five label spaces, as those of
:mod:`tests.inference.denied_replies`. The tables without label spaces of their own are read on all of them.
"""

LINE_BREAKS = ["\n", "\r\n", "\r", "\v", "\f", "\x1d", "\x85", "\u2028", "\u2029", "<br>", "\n\n", "\n- ", "\n* "]

DENIED_ACROSS_LINES = [
    "The answer is not{line}{label}.",
    "I would not call this{line}{label}",
    "It would be wrong to say{line}{label}",
    "Do not answer{line}{label}",
    "It is not{line}{label}",
    "Label: not{line}{label}",
    "- not{line}{label}",
    "This has nothing to do with{line}{label}",
    "Nobody would say it is{line}{label}",
    "It could be{line}{label}",
    "If it were sincere, it would be{line}{label}",
    "Everything except{line}{label}",
    "It is great. Not{line}{label}",
    "Nicht{line}{label}",
    "Ni{line}{label}",
    "tout sauf{line}{label}",
    "\u5e76\u4e0d{line}{label}",
]

IN_A_TAG = [
    "The answer is not <answer>{label}</answer>.",
    "I would not say <label>{label}</label>.",
    "<label>{label}</label> is wrong.",
    "<label>{label}</label> does not apply.",
    "Is it <label>{label}</label>?",
    "The answer is not\n<answer>{label}</answer>",
    "<label>{label}</label> (no)",
    "Not an example: <rejected>{label}</rejected>",
]

BESIDE_OTHER_JSON_VALUES = [
    '{{"category": "{label}", "flagged": false}}',
    '{{"label": "{label}", "present": false}}',
    '{{"label": "{label}", "score": 0.02}}',
    '{{"label": "{label}", "confidence": "2 %"}}',
    '{{"label": "{label}", "is_correct": false}}',
    '{{"label": "{label}", "negated": true}}',
    '{{"label": "{label}", "status": "rejected"}}',
    '["{label}", false]',
    '[["{label}", 0.02]]',
    '[{{"label": "{label}", "score": 0.02}}]',
    '{{"label": ["{label}", 0.02]}}',
    '{{"label": "{label}", "explanation": "Wait, that is wrong; it is {other}."}}',
    '{{"label": "{label}", "explanation": "The answer is {other}."}}',
    '{{"label": "{label}"}} is wrong',
    'Do not answer\n{{"label": "{label}"}}',
    '# Wrong answer\n{{"label": "{label}"}}',
    '**Bad example**\n{{"label": "{label}"}}',
    'The answer is not\n```json\n{{"label": "{label}"}}\n```',
]
