r"""Replies that name no label although a line, a tag or a JSON value of them is a label, by what they have in common.

``{label}`` is a label and ``{other}`` another one of the same task. Each form is read on five label spaces, as those of
:mod:`tests.inference.denied_replies`.
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

VALUES_IN_THE_NEXT_STATEMENT = [
    "Category: {label}\nDetected: no",
    "Category: {label}\nFlagged: false",
    "Label: {label}. Value: no.",
    "Label: {label}\nProbability: 0.02",
    "Label: {label}\nConfidence: 2 %",
    "Label: {label}\nProbability: < 0.6",
    "Label: {label}\nScore: 1/10",
    "{label}\nScore: 0.02",
    "{label}\nstatus: rejected",
    "{label}\nRelevant: No",
    "{label}\nNot observed",
    "{label}\nNot flagged.",
    "{label}\n\u00d7",
    "{label}\n\u2610",
    "Kategorie: {label}\nZutreffend: nein",
    "{label}\n\u6982\u7387\uff1a0.02",
]

BELOW_HEADINGS_OF_DOUBT = [
    "These do not apply\n- {label}",
    "Excluded labels\n- {label}",
    "Rejected\n\n{label}",
    "**Wrong answers**\n- {label}",
    "Options\n{label}",
    "Possible topics\n- {label}",
    "Wrong answers:\nLabel: {label}",
    "The following is incorrect:\nAnswer: {label}",
    "## Incorrect\nAnswer: {label}",
    "Example:\nLabel: {label}",
    "If the tweet attacked a group:\nlabel: {label}",
    "Draft:\nlabel: {label}",
    "\u9519\u8bef\u7b54\u6848\uff1a\n\u7b54\u6848\uff1a{label}",
    "Example output: {label}",
    'Example response: {{"label": "{label}"}}',
]

AFTER_QUESTIONS_AND_REFUSALS = [
    "Which label is wrong?\n{label}",
    "What is it not? {label}.",
    "Which one is excluded? {label}.",
    "I don't know.\n{label}",
    "I refuse to answer\n\nlabel: {label}",
    "I'm not sure. {label}",
]

TAKEN_BACK_LATER = [
    "The label is {label}. It isn't.",
    "The label is {label}. It is not.",
    "The label is {label}. I disagree.",
    "The label is {label}. No label fits.",
    "The label is {label}. None of the labels apply.",
    "The label is {label}. My answer above is wrong.",
    "The label is {label}. This is the wrong label.",
    "The label is {label}. It does not match.",
    "The label is {label}. This label doesn't match.",
    "The label is {label}. I stand corrected.",
    "{label}. There's no mention of {label}.",
    "{label}. The sentence never mentions {label}.",
    "{label}. It has nothing to do with {label}.",
    "{label}. Trifft nicht zu.",
    "{label}\u3002\u624d\u602a",
]

AFTER_ANOTHER_ANSWER = [
    "politics\nlabel: {label}",
    "politics\n{label}",
    "label: unknown word\nlabel: {label}",
    "politics\nInput: soup\nOutput: {label}",
    "cooking\n\nQ: soup\nA: {label}",
    'politics\n{{"label": "{label}"}}',
]

ABOUT_THE_WORD = [
    "The author deserves {label}.",
    "The user wants {label}.",
    "The film got {label}.",
    "This review should get {label}.",
    "The text refers to {label}.",
    "The customer receives {label}.",
]

UNREAD = [
    *ABOUT_THE_WORD,
    *IN_A_TAG,
    *BESIDE_OTHER_JSON_VALUES,
    *VALUES_IN_THE_NEXT_STATEMENT,
    *BELOW_HEADINGS_OF_DOUBT,
    *AFTER_QUESTIONS_AND_REFUSALS,
    *TAKEN_BACK_LATER,
    *AFTER_ANOTHER_ANSWER,
]
