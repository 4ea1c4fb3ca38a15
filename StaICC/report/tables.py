"""Tables of the page, which sort. The reasons of missing cells are listed below them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from StaICC.layout import Block, TextTable
from StaICC.report.html import Markup, Missing, breakable, element, fold, items, join


class _Reasons:
    """The reasons of missing cells, numbered in the order of the cells."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.of_columns: list[str] = []
        """The reasons of columns that are left out."""

    def cell(self, missing: Missing) -> Markup:
        """Return ``-`` with the number of the reason, which gets the next number if it is new."""
        number = self.numbers.setdefault(missing.reason, len(self.numbers) + 1)
        return join(["-", element("sup", f"[{number}]")])

    def listed(self) -> Markup:
        """Return the list of the reasons, folded; nothing without any."""
        if not self.numbers and not self.of_columns:
            return Markup("")
        notes = [element("li", f"{reason.rstrip('.')}.") for reason in self.of_columns]
        for reason, number in self.numbers.items():
            notes.append(element("li", f"[{number}] {reason.rstrip('.')}."))
        return fold("No value: reasons", element("ul", *notes), class_="reasons")


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    foot: Sequence[Sequence[str]] = (),
    words: Collection[int] = (),
    classes: str = "sortable",
) -> Markup:
    """Return a sortable table; the reasons of missing cells are listed below it.

    A column in which no cell has a value is left out, and listed with the reasons.

    Args:
        caption: The caption.
        head: Column heads.
        rows: Cells; the first of a row is its header. Numbers are sorted as numbers. A cell that is markup is a ``td``
            element, or the content of one.
        foot: Rows that stay at the bottom, such as a mean.
        words: Indices of the columns that contain text, which is aligned left; the first always does.
        classes: Style classes of the table.
    """
    reasons = _Reasons()
    shown_columns = _columns_with_values(head, [*rows, *foot], reasons)
    shown_head = [head[column] for column in shown_columns]
    shown_rows = [[row[column] for column in shown_columns] for row in rows]
    shown_foot = [[row[column] for column in shown_columns] for row in foot]
    text_columns = set()  # numbers of columns among those that are shown
    for number, column in enumerate(shown_columns):
        if column == 0 or column in words:
            text_columns.add(number)

    parts = [
        element("thead", _head_row(shown_head, text_columns)),
        element("tbody", *[_row(cells, text_columns, reasons) for cells in shown_rows]),
    ]
    if shown_foot:
        parts.append(element("tfoot", *[_row(cells, text_columns, reasons) for cells in shown_foot]))
    body = element("table", element("caption", caption), *parts, class_=classes)
    # It scrolls, and can be focused with the keyboard.
    scrolling = element("div", body, class_="scroll", tabindex="0", role="group", aria_label=caption)
    return join([scrolling, reasons.listed()])


def _columns_with_values(head: Sequence[str], rows: Sequence[Sequence[str]], reasons: _Reasons) -> list[int]:
    """Return the numbers of the columns in which a cell has a value, and record why the others have none.

    Args:
        head: Column heads.
        rows: All rows.
        reasons: The reasons of missing cells. Those of the columns without a value are added to it.
    """
    columns_with_values = []
    for column, title in enumerate(head):
        cells = [row[column] for row in rows]
        reasons_of_cells = [cell.reason for cell in cells if isinstance(cell, Missing)]
        all_are_missing = len(cells) > 0 and len(reasons_of_cells) == len(cells)
        if all_are_missing:
            listed = "; ".join(dict.fromkeys(reasons_of_cells))
            reasons.of_columns.append(f"No column {title}: {listed}")
        else:
            columns_with_values.append(column)
    return columns_with_values


def _head_row(head: Sequence[str], text_columns: set[int]) -> Markup:
    """Return the row of the column heads."""
    cells = []
    for column, title in enumerate(head):
        content = title if isinstance(title, Markup) else breakable(title)
        style = "w" if column in text_columns else None
        cells.append(element("th", content, scope="col", class_=style))
    return element("tr", *cells)


def _row(cells: Sequence[str], text_columns: set[int], reasons: _Reasons) -> Markup:
    """Return a row of a table as an HTML element; the first cell is the header of the row.

    Args:
        cells: The cells. One that is a ``td`` element already is used as it is.
        text_columns: The numbers of the columns with texts, which are aligned left.
        reasons: Numbers the reasons of missing cells.
    """
    elements = []
    for column, cell in enumerate(cells):
        is_element = isinstance(cell, Markup) and cell.startswith("<td")
        if is_element:
            elements.append(cell)
            continue
        content = cell
        if isinstance(cell, Missing):
            content = reasons.cell(cell)
        is_text = column in text_columns
        if is_text and not isinstance(content, Markup):
            content = element("bdi", breakable(content))
        if column == 0:
            elements.append(element("th", content, scope="row"))
        else:
            elements.append(element("td", content, class_="w" if is_text else None))
    return element("tr", *elements)


def printed(blocks: Iterable[Block], caption: str) -> Markup:
    """Return what an object prints: its tables, and a list of its lines.

    Args:
        blocks: See :class:`~StaICC.layout.Displayed`.
        caption: The caption of its tables.
    """
    tables = []
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, TextTable):
            tables.append(_printed_table(block, caption))
        elif block.kind == "code":
            lines.append(element("code", breakable(block.text)))
        elif block.kind != "title" and block.text:
            lines.append(block.text)
    return join([*tables, items(lines)])


def _printed_table(block: TextTable, caption: str) -> Markup:
    """Return a table that an object prints. A last row with a mean stays at the bottom."""
    missing = Missing("undefined: see the lines below")
    rows = [[missing if cell == "-" else cell for cell in row] for row in block.rows]
    foot: list[list[str]] = []
    if rows and rows[-1][0].startswith("mean"):
        foot.append(rows.pop())
    return table(caption, block.head, rows, foot, words=block.texts)
