"""A page for each data set, from its card. Everything comes from the library; nothing is fetched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markup import code, link, plain, pre, shown, table

from StaICC.datasets.catalogue import Card, SplitSizes, get_card, names
from StaICC.datasets.dataset import Dataset, load_dataset
from StaICC.datasets.pack import status
from StaICC.errors import DataError
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.cards import cards as long_icl_cards
from StaICC.prompting.prompt_writer import PromptRenderer, PromptSettings
from StaICC.prompting.views import split_dataset

__all__ = ["Balance", "balance_of", "data_set_page", "long_icl_page", "long_icl_table", "pages", "ten_table"]

MINI = "mini"
OFFENSIVE = (
    '!!! warning "Offensive language"\n\n'
    "    The texts hold language that hurts. No example of them is shown here. Think of who reads your logs and "
    "reports.\n"
)


@dataclass(frozen=True)
class Balance:
    """How often each label occurs."""

    table: Sequence[int]
    """In the whole table."""
    test: Sequence[int]
    """Among the rows that the benchmark asks."""


def balance_of(name: str) -> Balance | None:
    """Count the labels of a data set, if its table is on this machine; nothing is fetched."""
    if name != MINI and not any(one.name == name and one.usable for one in status()):
        return None
    try:
        dataset = load_dataset(name)
        every = Counter(row.label for row in dataset.table)
        test = split_dataset(dataset).test
        asked = Counter(test.label(index) for index in range(len(test)))
    except DataError:  # gone or damaged in the meantime: the page does without
        return None
    labels = range(len(dataset.card.label_space))
    return Balance([every[label] for label in labels], [asked[label] for label in labels])


def layout(card: Card) -> str:
    """A prompt with two demonstrations, with names in the place of texts, as the library's own renderer writes it."""
    columns = card.columns

    def texts(which: str) -> tuple[str, ...]:
        return tuple(f"<{which} text{'' if columns == 1 else f' {column + 1}'}>" for column in range(columns))

    last = min(1, len(card.label_space) - 1)
    rows = [(texts("first"), 0), (texts("second"), last), (texts("query"), 0)]
    dataset = Dataset.from_rows(
        rows, name="layout", label_space=card.label_space, template=card.template, split=SplitSizes(0, 2, 1)
    )
    renderer = PromptRenderer(split_dataset(dataset), PromptSettings(card.template, card.label_space))
    shots = [renderer.demonstration(row, label) for row, label in rows[:2]]
    prompt = renderer.assemble(shots, rows[2][0])
    assert isinstance(prompt, str)
    return prompt


def _share(count: int, counts: Sequence[int]) -> str:
    return f"{count:,} ({100 * count / sum(counts):.1f} %)"


def _labels(card: Card, balance: Balance | None) -> str:
    head = ["index", "in prompts", "unshortened"]
    rows = [
        [str(index), code(label), plain(full)]
        for index, (label, full) in enumerate(zip(card.label_space, card.full_label_space, strict=True))
    ]
    if balance is None:
        note = (
            "How often each label occurs is not shown: the frozen tables were not installed where this page was "
            "built. `python -m StaICC data install` gets them."
        )
        return f"{table(head, rows)}\n\n{note}"
    head += ["rows of the table", "test rows"]
    for index, row in enumerate(rows):
        row += [_share(balance.table[index], balance.table), _share(balance.test[index], balance.test)]
    majority = max(balance.test) / sum(balance.test)
    note = (
        f"Always guessing the most frequent label of the test rows would be right for {100 * majority:.1f} % of them; "
        f"one uniform guesser is right for {100 / len(card.label_space):.1f} % on average."
    )
    return f"{table(head, rows)}\n\n{note}"


def _template(card: Card) -> str:
    template = card.template
    parts = [
        ["instruction", shown(template.instruction)],
        *(
            [f"before input text {column + 1}" if card.columns > 1 else "before the input text", shown(prefix)]
            for column, prefix in enumerate(template.input_text_prefixes)
        ),
        *(
            [f"after input text {column + 1}" if card.columns > 1 else "after the input text", shown(affix)]
            for column, affix in enumerate(template.input_text_affixes)
        ),
        ["before the label", shown(template.label_prefix)],
        ["after the label", shown(template.label_affix)],
        ["before the query", shown(template.query_prefix)],
    ]
    return table(["part", "text"], parts)


def _alternatives(card: Card) -> str:
    other = card.alternatives
    if other is None:
        return "None are given, so template sensitivity does not run on this data set."
    prefixes = [", ".join(shown(prefix) for prefix in level) for level in other.input_text_prefixes]
    rows = [
        ["instruction", *map(shown, other.instruction)],
        ["before the input text", *prefixes],
        ["before the label", *map(shown, other.label_prefix)],
        ["after the label", *map(shown, other.label_affix)],
    ]
    return table(["part", "level 0 (default)", "level 1", "level 2"], rows)


def data_set_page(card: Card, balance: Balance | None) -> str:
    """The page of a data set of the benchmark."""
    split = card.split
    sizes = f"{split.calibration:,} / {split.demonstration:,} / {split.test:,}"
    facts = [
        ["name", code(card.name)],
        ["task", plain(card.task)],
        ["source", link(card.source)],
        ["licence", plain(card.licence)],
        ["rows", f"{card.rows:,}"],
        ["calibration / demonstration / test rows", sizes],
        ["input texts of a row", str(card.columns)],
        ["labels", str(len(card.label_space))],
    ]
    digests = card.digests
    if digests is not None:
        facts.append(["SHA-256 of the rows", code(digests.table)])
    example = f'from StaICC import Normal, load_kernel\n\nprint(Normal(datasets=["{card.name}"])(load_kernel("ppm")))'
    sections = [
        f"# {plain(card.title)}",
        OFFENSIVE if card.offensive else "",
        plain(card.notes),
        table(["", "what the card says"], facts),
        "## Labels",
        _labels(card, balance),
        "## Template",
        "A prompt with two demonstrations. Names in angle brackets stand for texts of the data set. Where nothing can "
        "be seen between two parts, there is nothing, or a blank; the table below has every part in quotes.",
        pre(layout(card)),
        _template(card),
        "### Alternatives",
        "The levels that [template sensitivity](../benchmarks.md#template-sensitivity) combines:",
        _alternatives(card),
        "## Use",
        pre(example),
        "## Citation",
        pre(card.citation) if card.citation else "There is no paper to cite.",
    ]
    return "\n\n".join(part for part in sections if part) + "\n"


def _files(card: TaskCard) -> str:
    rows = []
    for split, spec in card.files.items():
        digests = "<br>".join(code(digest) for digest in spec.sha256) or "not known"
        rows.append([split, code(spec.names[0]), f"{spec.rows:,}", digests])
    return table(["split", "file", "rows", "SHA-256"], rows)


def long_icl_page(card: TaskCard) -> str:
    """The page of a LongICL data set."""
    metric = {"accuracy": "accuracy", "micro_f1": "micro F1"}[card.scoring.metric]
    facts = [
        ["name", code(card.name)],
        ["task", plain(card.task)],
        ["source", link(card.source)],
        ["licence", plain(card.licence)],
        ["terms", plain(card.terms)],
        ["labels", str(len(card.labels))],
        ["demonstrations in rounds 1 to 5", ", ".join(f"{number:,}" for number in card.demonstrations.expected)],
        ["score", metric],
    ]
    instruct = card.template.instruct
    parts = [
        ["instruction", shown(card.template.plain)],
        ["instruction with the label list", f"{shown(instruct[0])} labels {shown(instruct[1])}"],
        ["query", shown(card.template.query)],
        ["answer of a demonstration", shown(card.template.answer)],
    ]
    labels = ", ".join(code(label) for label in card.labels)
    others = ", ".join(code(label) for label in card.other_labels)
    restricted = (
        '!!! note "Terms of use"\n\n    Its licence asks something of you before you use it; see the terms below.\n'
    )
    sections = [
        f"# {plain(card.title)}",
        OFFENSIVE if card.offensive else "",
        restricted if card.restricted else "",
        "A data set of [LongICL](../long_icl.md). Its files are not in this library, and none is fetched unbidden.",
        table(["", "what the card says"], facts),
        "## How to get it",
        plain(card.obtain),
        "`python -m StaICC data install long-icl --from FOLDER` checks the files and installs them.",
        _files(card),
        "## Labels",
        "In the order of the prompt; an index counts in this order, from 0.",
        labels,
        f"In the files too, and left out by the benchmark: {others}." if others else "",
        "## Template",
        "Names in braces stand for fields of an item.",
        table(["part", "text"], parts),
        "## Citation",
        pre(card.citation),
    ]
    return "\n\n".join(part for part in sections if part) + "\n"


def pages() -> dict[str, tuple[str, str]]:
    """Every generated page: place -> title in the navigation and content."""
    found = {}
    for name in (*names(), MINI):
        card = get_card(name)
        found[f"data_sets/{name}.md"] = (card.title, data_set_page(card, balance_of(name)))
    for name, task in long_icl_cards().items():
        found[f"data_sets/long_icl_{name}.md"] = (f"LongICL: {task.title}", long_icl_page(task))
    return found


def ten_table() -> str:
    """The overview of the ten, and ``mini``."""
    rows = []
    for name in (*names(), MINI):
        card = get_card(name)
        labels = str(len(card.label_space))
        warning = "offensive" if card.offensive else ""
        title = f"[{plain(card.title)}](data_sets/{name}.md)"
        rows.append([title, code(name), plain(card.task), labels, f"{card.rows:,}", plain(card.licence), warning])
    return table(["data set", "name", "task", "labels", "rows", "licence", "texts"], rows)


def long_icl_table() -> str:
    """The overview of the six of LongICL."""
    rows = [
        [
            f"[{plain(card.title)}](data_sets/long_icl_{name}.md)",
            code(name),
            plain(card.task),
            str(len(card.labels)),
            plain(card.licence),
            "offensive" if card.offensive else "",
        ]
        for name, card in long_icl_cards().items()
    ]
    return table(["data set", "name", "task", "labels", "licence", "texts"], rows)
