"""GGUF files: read once, converted once, the same weights, tokens and identity as those of transformers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC.cli import main
from StaICC.errors import StaICCError, UnknownNameError
from StaICC.kernels.huggingface import converted, source
from StaICC.kernels.huggingface.converted import RECORD, converted_copies, remove_copies
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.source import ModelSource
from tests.tiny_models import write_gguf

TEXTS = ["the inn", "", "An inn\nthen: <s> thin </s>", "é\t  ", "(a) <unk>"]


@pytest.fixture(autouse=True)
def packages(need: Any) -> None:
    need(("torch", "transformers", "gguf"), "a GGUF file")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    source._loaded.clear()
    yield write_gguf(tmp_path / "tiny.gguf")
    source._loaded.clear()


def by_transformers(path: Path, dtype: str = "float32") -> tuple[Any, Any]:
    """Model and tokenizer as transformers alone loads them."""
    import torch
    import transformers

    options: dict[str, Any] = {"dtype": getattr(torch, dtype), "gguf_file": path.name}
    if hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    return transformers.AutoModelForCausalLM.from_pretrained(path.parent, **options), tokenizer


def assert_equal(model: Any, tokenizer: Any, path: Path, dtype: str = "float32") -> None:
    import torch

    expected, expected_tokenizer = by_transformers(path, dtype)
    weights, expected_weights = model.state_dict(), expected.state_dict()
    assert weights.keys() == expected_weights.keys()
    for name, weight in expected_weights.items():
        assert weights[name].dtype == weight.dtype
        assert torch.equal(weights[name], weight), name
    for text in TEXTS:
        tokens = expected_tokenizer(text)["input_ids"]
        assert tokenizer(text)["input_ids"] == tokens
        assert tokenizer.decode(tokens) == expected_tokenizer.decode(tokens)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_and_tokens_are_those_of_transformers(file: Path, dtype: str) -> None:
    """Of the first load, which writes the copy, and of the second one, which reads it."""
    identities = []
    for _ in range(2):
        loaded = ModelSource(str(file), "cpu", dtype).load()
        assert_equal(loaded.model, loaded.tokenizer, file, dtype)
        identities.append(CausalLMKernel.from_spec(str(file), device="cpu", dtype=dtype).identity())
        source._loaded.clear()
    assert identities[0] == identities[1]
    (copy,) = converted_copies()
    assert copy.source == "tiny.gguf"
    assert copy.size == sum(path.stat().st_size for path in Path(copy.folder).iterdir() if path.name != RECORD)


def test_the_identity_does_not_depend_on_the_copy(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_copy = CausalLMKernel.from_spec(str(file), device="cpu")
    with_copy("a", ["b", "c"])
    source._loaded.clear()
    shutil.rmtree(converted.copies_folder())
    monkeypatch.setattr(source, "write_copy", lambda *given: None)
    without = CausalLMKernel.from_spec(str(file), device="cpu")
    without("a", ["b", "c"])
    assert with_copy.identity() == without.identity()
    assert not converted_copies()


def test_another_file_under_the_same_name_has_another_copy(file: Path) -> None:
    ModelSource(str(file), "cpu").load()
    write_gguf(file, seed=1)
    loaded = ModelSource(str(file), "cpu").load()
    assert_equal(loaded.model, loaded.tokenizer, file)
    assert len(converted_copies()) == 2


def test_the_file_is_read_once_and_nothing_stays_replaced(file: Path) -> None:
    import gguf
    import transformers.modeling_gguf_pytorch_utils as reading

    before = gguf.GGUFReader, gguf.get_tensor_name_map, reading.load_gguf_checkpoint, reading.tqdm
    readings = []
    original = gguf.GGUFReader.__init__

    def counted(self: Any, *given: Any, **named: Any) -> None:
        readings.append(given)
        original(self, *given, **named)

    gguf.GGUFReader.__init__ = counted
    try:
        ModelSource(str(file), "cpu").load()
    finally:
        gguf.GGUFReader.__init__ = original
    assert len(readings) <= 1
    assert (gguf.GGUFReader, gguf.get_tensor_name_map, reading.load_gguf_checkpoint, reading.tqdm) == before


def copy_of_another_file(folder: Path) -> None:
    text = (folder / RECORD).read_text()
    (folder / RECORD).write_text(text.replace('"sha256": "', '"sha256": "0'))


def change_a_weight(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def remove_a_file(folder: Path) -> None:
    (folder / "config.json").unlink()


def add_a_file(folder: Path) -> None:
    (folder / "added.json").write_text("{}")


def cut_the_record(folder: Path) -> None:
    (folder / RECORD).write_text("{")


def remove_the_record(folder: Path) -> None:
    (folder / RECORD).unlink()


def name_another_source(folder: Path) -> None:
    record = (folder / RECORD).read_text()
    (folder / RECORD).write_text(record.replace('"sha256": "', '"sha256": "0'))


@pytest.mark.parametrize(
    "damage",
    [change_a_weight, remove_a_file, add_a_file, cut_the_record, remove_the_record, name_another_source],
)
def test_a_damaged_copy_is_not_used(file: Path, damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    ModelSource(str(file), "cpu").load()
    source._loaded.clear()
    (copy,) = converted_copies()
    damage(Path(copy.folder))
    loaded = ModelSource(str(file), "cpu").load()
    assert "is damaged" in caplog.text, "the log does not say that the copy is damaged: it was used"
    assert_equal(loaded.model, loaded.tokenizer, file)
    assert converted_copies() == [copy]


@pytest.mark.posix
def test_a_damaged_copy_that_cannot_be_removed_is_not_used(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ModelSource(str(file), "cpu").load()
    (copy,) = converted_copies()
    change_a_weight(Path(copy.folder))
    monkeypatch.setattr(shutil, "rmtree", lambda *given, **named: None)  # as in a folder of another user
    for _ in range(2):
        source._loaded.clear()
        loaded = ModelSource(str(file), "cpu").load()
        assert_equal(loaded.model, loaded.tokenizer, file)
    assert caplog.text.count("is read anew for each process") == 2


@pytest.mark.posix
def test_a_damaged_copy_behind_a_link_is_replaced(file: Path, tmp_path: Path) -> None:
    ModelSource(str(file), "cpu").load()
    (copy,) = converted_copies()
    os.rename(copy.folder, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", copy.folder)
    change_a_weight(tmp_path / "elsewhere")
    source._loaded.clear()
    loaded = ModelSource(str(file), "cpu").load()
    assert_equal(loaded.model, loaded.tokenizer, file)
    assert not Path(copy.folder).is_symlink()


@pytest.mark.posix
@pytest.mark.parametrize("keep", [True, False])
def test_a_file_that_is_replaced_while_it_is_read_has_no_copy(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    """The name is given to another file when the reading begins; with ``keep=False`` only while it is read."""
    other = write_gguf(tmp_path / "other.gguf", seed=1)
    link, dequantise = tmp_path / "link.gguf", source._dequantise
    link.symlink_to(file)

    def point_to(target: Path) -> None:
        link.unlink()
        link.symlink_to(target)

    def replaced(*given: Any) -> Any:
        point_to(other)
        try:
            return dequantise(*given)
        finally:
            if not keep:
                point_to(file)

    monkeypatch.setattr(source, "_dequantise", replaced)
    with pytest.raises(StaICCError, match="was replaced while it was read"):
        ModelSource(str(link), "cpu").load()
    assert converted_copies() == []
    monkeypatch.setattr(source, "_dequantise", dequantise)
    point_to(file)
    loaded = ModelSource(str(link), "cpu").load()
    assert_equal(loaded.model, loaded.tokenizer, file)


@pytest.mark.posix
def test_a_disk_that_fills_up_leaves_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, allowed[1]))  # fewer bytes than the weights have
    try:
        loaded = ModelSource(str(file), "cpu").load()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert "is read anew for each process" in caplog.text
    assert_equal(loaded.model, loaded.tokenizer, file)
    assert list(converted.copies_folder().iterdir()) == []


@pytest.mark.parametrize("stem", ["a b [1]", "a**b", "-rf", ".hidden", "..", "漢" * 70, "x" * 240])
def test_a_copy_of_any_file_name_is_listed_and_removed(file: Path, stem: str, tmp_path: Path) -> None:
    odd = tmp_path / f"{stem}.gguf"
    file.rename(odd)
    ModelSource(str(odd), "cpu").load()
    (copy,) = converted_copies()
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9a-f]{16}", copy.name)
    assert copy.source == odd.name
    left = Path(copy.folder).parent / f".{copy.name}.999999999.part"
    left.mkdir()
    source._loaded.clear()
    ModelSource(str(odd), "cpu").load()
    assert not left.exists()
    assert main(["data", "remove", copy.name]) == 0


def test_what_could_not_be_read_back_is_not_kept(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(converted, "_difference_of_weights", lambda *given: "the weight x")
    loaded = ModelSource(str(file), "cpu").load()
    assert "the weight x could not be read back" in caplog.text
    assert_equal(loaded.model, loaded.tokenizer, file)
    assert list(converted.copies_folder().iterdir()) == []


def test_a_full_disk_leaves_nothing_and_the_model_is_loaded(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import transformers

    def full(*given: Any, **named: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(transformers.PreTrainedTokenizerBase, "save_pretrained", full)  # after the weights
    loaded = ModelSource(str(file), "cpu", "bfloat16").load()
    assert "is read anew for each process" in caplog.text
    assert os.strerror(28) in caplog.text
    assert_equal(loaded.model, loaded.tokenizer, file, "bfloat16")
    assert list(converted.copies_folder().iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    source._loaded.clear()
    ModelSource(str(file), "cpu").load()
    assert "MB are needed, 0 MB are free" in caplog.text


@pytest.mark.posix
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["save_pretrained", "_digests"])
def test_a_killed_conversion_leaves_nothing(file: Path, moment: str) -> None:
    """The process is killed after the weights are written, or before the copy gets its name."""
    code = f"""
import os, signal
import transformers
from StaICC.kernels.huggingface import converted, source
def kill(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)
if {moment!r} == "_digests":
    converted._digests = kill
else:
    transformers.PreTrainedTokenizerBase.save_pretrained = kill
source.ModelSource({str(file)!r}, "cpu").load()
"""
    root = str(Path(converted.__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": root}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == -signal.SIGKILL
    assert converted_copies() == []
    ModelSource(str(file), "cpu").load()
    (copy,) = converted_copies()
    assert [path.name for path in converted.copies_folder().iterdir()] == [copy.name]


def test_two_conversions_at_once(file: Path) -> None:
    """Threads of one process share the lock; a process that is slower finds the copy of the faster one."""
    threads = [threading.Thread(target=ModelSource(str(file), "cpu").load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (copy,) = converted_copies()
    loaded = ModelSource(str(file), "cpu").load()
    sha256 = json.loads((Path(copy.folder) / RECORD).read_text())["sha256"]
    os.rename(copy.folder, f"{copy.folder}-aside")
    folder, _ = converted.write_copy(file, sha256, loaded.model, loaded.tokenizer)
    assert converted.write_copy(file, sha256, loaded.model, loaded.tokenizer)[0] == folder


def test_copies_are_listed_and_removed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ModelSource(str(file), "cpu").load()
    (copy,) = converted_copies()
    capsys.readouterr()
    assert main(["data", "list"]) == 0
    assert copy.name in capsys.readouterr().out
    with pytest.raises(UnknownNameError, match=f"did you mean '{copy.name}'"):
        remove_copies([copy.name, copy.name[:-1]])
    assert main(["data", "remove", copy.name]) == 0
    assert capsys.readouterr().out == f"removed {copy.name} (0 MB)\n"
    assert converted_copies() == []
    assert file.exists()
    assert main(["data", "remove", copy.name]) == 2


def test_a_log_file_gets_no_progress_bars(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ModelSource(str(file), "cpu").load()
    assert "it/s" not in capfd.readouterr().err
