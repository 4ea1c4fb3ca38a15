"""A data set: rows in a file that is pinned by its digest."""

from __future__ import annotations

from pathlib import Path

from StaICC import Dataset, FileSource


def tickets() -> Dataset:
    """Return the data set; it is read when somebody uses it."""
    return Dataset.from_rows(
        FileSource(
            Path(__file__).parent / "tickets.jsonl",
            sha256="9251905b78c489b31a2ea85a7ff825382551475ab860db96c897ec8e02a05b9b",
        ),
        name="example_tickets",
        label_space=["bug", "wish", "praise"],
        task="ticket triage",
        source="written for this page",
        licence="Apache-2.0",
    )
