"""A small pack: three tables in a real wheel, with a catalogue that pins it, so that faults can be tried fast."""

from __future__ import annotations

import base64
import hashlib
import io
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import StaICC.datasets.catalogue as catalogue_module
import StaICC.datasets.pack as pack_module
from StaICC.datasets.catalogue import Card, Catalogue, Digests, Pack, SplitSizes, Template
from StaICC.datasets.source import ReleasedWheel
from StaICC.datasets.table import table_digest, write_table

WHEEL = "StaICC-0.1.1-py3-none-any.whl"
ROWS = {
    "first": [([f"first text {i} é"], i % 2) for i in range(40)],
    "second": [([f"second text {i} 漢字 🙂"], i % 3) for i in range(30)],
    "third": [(["", "x" * i][i % 2 :][:1], 0) for i in range(20)],
}
PREFIX = "StaICC/cached_dataset/"


def build_wheel(members: dict[str, bytes]) -> bytes:
    """A wheel that pip accepts, always the same bytes."""
    info = "StaICC-0.1.1.dist-info/"
    files = dict(members)
    files[info + "METADATA"] = b"Metadata-Version: 2.1\nName: StaICC\nVersion: 0.1.1\n"
    files[info + "WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


@dataclass(frozen=True)
class SmallPack:
    """The fake pack: where it lives and how to change what is pinned."""

    home: Path
    wheel: Path
    pin: Callable[[bytes], Path]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(ROWS)

    def pin_rows(self, **changes: bytes) -> Path:
        """Make a wheel the published one whose named tables hold these bytes instead of their rows."""
        members = {name: changes.get(name, pickle.dumps(rows, 4)) for name, rows in ROWS.items()}
        return self.pin(build_wheel({f"{PREFIX}{name}.dataset": data for name, data in members.items()}))

    def tables(self) -> list[Path]:
        return sorted((self.home / "tables").glob("*.table"))

    def leftovers(self) -> list[Path]:
        return [path for path in self.home.rglob("*") if ".part" in path.name]

    def bad_tables(self) -> list[Path]:
        """Files under a right name that are not the right file. There must never be one."""
        wanted = {pack_module.table_path(name): pack_module.expected_digest(name) for name in ROWS}
        return [
            path
            for path in (self.home / "tables").glob("[!.]*")
            if hashlib.sha256(path.read_bytes()).hexdigest() != wanted.get(path)
        ]


@pytest.fixture
def small_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_name: Callable[[str], str]) -> SmallPack:
    home = tmp_path / file_name("a home, größer")
    monkeypatch.setenv("STAICC_HOME", str(home))
    monkeypatch.delenv("STAICC_OFFLINE", raising=False)
    cards = {}
    for name, rows in ROWS.items():
        cards[name] = Card(
            name=name,
            title=name.upper(),
            task="",
            source="",
            licence="",
            citation="",
            label_space=("a", "b", "c"),
            full_label_space=("a", "b", "c"),
            template=Template("", ("x: ",), (" ",), "y: ", "\n"),
            alternatives=None,
            split=SplitSizes(2, 4, 2),
            rows=len(rows),
            digests=Digests(table_digest(rows), write_table(tmp_path / "measured", rows, 1)),
        )
    wheel = tmp_path / WHEEL
    pinned = Catalogue(
        benchmark=tuple(ROWS),
        cards=cards,
        folded={name: name for name in ROWS},
        sources={name: ReleasedWheel(f"{PREFIX}{name}.dataset") for name in ROWS},
        pack=Pack("StaICC==0.1.1", WHEEL, ""),
    )

    def pin(data: bytes) -> Path:
        """Make these bytes the published wheel."""
        wheel.write_bytes(data)
        current = replace(pinned, pack=replace(pinned.pack, sha256=hashlib.sha256(data).hexdigest()))
        monkeypatch.setattr(catalogue_module, "catalogue", lambda: current)
        monkeypatch.setattr(pack_module, "catalogue", lambda: current)
        return wheel

    small = SmallPack(home, wheel, pin)
    small.pin_rows()
    return small
