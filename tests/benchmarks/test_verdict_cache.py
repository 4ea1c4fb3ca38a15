"""A kept verdict holds only as long as all that the verification read is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from StaICC import Dataset, Normal
from StaICC.benchmarks import verdict_cache
from StaICC.benchmarks.verdict_cache import VerdictCache, digest_of_inputs

LINES = ["text,label", *(f"text {row},{'yes' if row % 2 else 'no'}" for row in range(60))]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_a_verdict_holds_until_the_data_file_changes_or_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_cache, "data_home", lambda: tmp_path / "home")
    data = write(tmp_path / "tickets.csv", LINES)
    result = Normal(datasets=[Dataset.from_file(data, ["text"], "label")], limit=4)(lambda prompt, label_space: 0)

    def is_kept() -> bool:
        return VerdictCache().has("digest of the result", digest_of_inputs("digest of the result", result, [tmp_path]))

    assert not is_kept()
    verdicts = VerdictCache()
    verdicts.add("digest of the result", digest_of_inputs("digest of the result", result, [tmp_path]))
    verdicts.save()
    assert is_kept()
    write(data, [*LINES, "text 60,no"])
    assert not is_kept()
    data.unlink()
    assert not is_kept()
    write(data, LINES)
    assert is_kept()
