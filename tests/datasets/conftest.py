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
"""The name of the published wheel."""
ROWS = {
    "first": [([f"first text {i} é"], i % 2) for i in range(40)],
    "second": [([f"second text {i} 漢字 🙂"], i % 3) for i in range(30)],
    "third": [([""], 0), (["x"], 0)] * 10,
}
"""The rows of each table of the small pack."""
PREFIX = "StaICC/cached_dataset/"


def build_wheel(members: dict[str, bytes]) -> bytes:
    """Return a wheel with these files that pip accepts, always the same bytes."""
    info = "StaICC-0.1.1.dist-info/"
    files = dict(members)
    files[info + "METADATA"] = b"Metadata-Version: 2.1\nName: StaICC\nVersion: 0.1.1\n"
    files[info + "WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record_lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record_lines.append(f"{name},sha256={digest},{len(data)}\n")
    files[info + "RECORD"] = ("".join(record_lines) + info + "RECORD,,\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            same_time_always = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            archive.writestr(same_time_always, data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


@dataclass(frozen=True)
class SmallPack:
    """A pack of three small tables: where it is installed, and how to change which wheel is the published one."""

    home: Path
    wheel: Path
    publish: Callable[[bytes], Path]
    """Make these bytes the published wheel, and return its path."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the three tables."""
        return tuple(ROWS)

    def publish_tables(self, **pickles: bytes) -> Path:
        """Publish a wheel whose named tables are these pickles instead of their rows, and return its path."""
        members = {}
        for name, rows in ROWS.items():
            members[f"{PREFIX}{name}.dataset"] = pickles.get(name, pickle.dumps(rows, 4))
        return self.publish(build_wheel(members))

    def tables(self) -> list[Path]:
        """Return the files of tables that are installed."""
        return sorted((self.home / "tables").glob("*.table"))

    def leftovers(self) -> list[Path]:
        """Return files that an installation has not completed."""
        return [path for path in self.home.rglob("*") if ".part" in path.name]

    def bad_tables(self) -> list[Path]:
        """Return files that have the name of a table and not its content. There must never be one."""
        digest_of_path = {pack_module.table_path(name): pack_module.expected_digest(name) for name in ROWS}
        bad = []
        for path in (self.home / "tables").glob("[!.]*"):
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest_of_path.get(path):
                bad.append(path)
        return bad


@pytest.fixture
def small_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_name: Callable[[str], str]) -> SmallPack:
    """A pack of three small tables, which the catalogue has in place of the benchmark's."""
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
    small_catalogue = Catalogue(
        benchmark=tuple(ROWS),
        cards=cards,
        folded={name: name for name in ROWS},
        sources={name: ReleasedWheel(f"{PREFIX}{name}.dataset") for name in ROWS},
        pack=Pack("StaICC==0.1.1", WHEEL, ""),
    )

    def publish(data: bytes) -> Path:
        wheel.write_bytes(data)
        pack = replace(small_catalogue.pack, sha256=hashlib.sha256(data).hexdigest())
        current = replace(small_catalogue, pack=pack)
        monkeypatch.setattr(catalogue_module, "catalogue", lambda: current)
        monkeypatch.setattr(pack_module, "catalogue", lambda: current)
        return wheel

    small = SmallPack(home, wheel, publish)
    small.publish_tables()
    return small
