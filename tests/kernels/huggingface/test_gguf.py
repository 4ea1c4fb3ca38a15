"""GGUF files: read once, converted once, the same weights, tokens and identity as those of transformers."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from StaICC.cli import main
from StaICC.errors import StaICCError, UnknownNameError
from StaICC.files.output import file_digest
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
    """Return a GGUF file with a tiny model; no model is loaded, and no file has a converted copy yet."""
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    forget_loaded_models()
    yield write_gguf(tmp_path / "tiny.gguf")
    forget_loaded_models()


def forget_loaded_models() -> None:
    """Let the next load read files, as a new process does."""
    source._loaded.clear()


def load(path: Path, dtype: str | None = None) -> Any:
    """Load the model of a file, which writes a converted copy or reads it: return the model and its tokenizer."""
    return ModelSource(str(path), "cpu", dtype).load()


def folder_of_copy() -> Path:
    """Return the folder of the only converted copy."""
    (copy,) = converted_copies()
    return Path(copy.folder)


def by_transformers(path: Path, dtype: str = "float32") -> tuple[Any, Any]:
    """Return model and tokenizer as transformers alone loads them."""
    import torch
    import transformers

    options: dict[str, Any] = {"dtype": getattr(torch, dtype), "gguf_file": path.name}
    if hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    return transformers.AutoModelForCausalLM.from_pretrained(path.parent, **options), tokenizer


def assert_as_by_transformers(loaded: Any, path: Path, dtype: str = "float32") -> None:
    """Check that weights and tokens of a loaded model are those that transformers alone reads from a file."""
    import torch

    expected, expected_tokenizer = by_transformers(path, dtype)
    weights, expected_weights = loaded.model.state_dict(), expected.state_dict()
    assert weights.keys() == expected_weights.keys()
    for name, weight in expected_weights.items():
        assert weights[name].dtype == weight.dtype
        assert torch.equal(weights[name], weight), name
    for text in TEXTS:
        tokens = expected_tokenizer(text)["input_ids"]
        assert loaded.tokenizer(text)["input_ids"] == tokens
        assert loaded.tokenizer.decode(tokens) == expected_tokenizer.decode(tokens)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_and_tokens_are_those_of_transformers(file: Path, dtype: str) -> None:
    written_with_a_copy = load(file, dtype)
    assert_as_by_transformers(written_with_a_copy, file, dtype)
    forget_loaded_models()
    read_from_the_copy = load(file, dtype)
    assert_as_by_transformers(read_from_the_copy, file, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_identity_is_the_same_when_the_copy_is_written_and_read(file: Path, dtype: str) -> None:
    load(file, dtype)
    when_written = CausalLMKernel.from_spec(str(file), device="cpu", dtype=dtype).identity()
    forget_loaded_models()
    load(file, dtype)
    when_read = CausalLMKernel.from_spec(str(file), device="cpu", dtype=dtype).identity()
    assert when_written == when_read


def test_a_copy_has_the_name_of_its_file_and_its_size_in_bytes(file: Path) -> None:
    load(file)
    (copy,) = converted_copies()
    assert copy.source == "tiny.gguf"
    assert copy.size == sum(path.stat().st_size for path in Path(copy.folder).iterdir() if path.name != RECORD)


def test_the_identity_does_not_depend_on_the_copy(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_copy = CausalLMKernel.from_spec(str(file), device="cpu")
    with_copy("a", ["b", "c"])
    forget_loaded_models()
    shutil.rmtree(converted.copies_folder())
    monkeypatch.setattr(source, "write_copy", Mock(return_value=None))  # as if no copy could be written
    without_copy = CausalLMKernel.from_spec(str(file), device="cpu")
    without_copy("a", ["b", "c"])
    assert converted_copies() == []
    assert with_copy.identity() == without_copy.identity()


def test_another_file_under_the_same_name_has_another_copy(file: Path) -> None:
    load(file)
    write_gguf(file, seed=1)
    loaded = load(file)
    assert_as_by_transformers(loaded, file)
    assert len(converted_copies()) == 2


def test_the_file_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gguf

    readings = []
    read = gguf.GGUFReader.__init__

    def count_and_read(self: Any, *given: Any, **named: Any) -> None:
        readings.append(given)
        read(self, *given, **named)

    monkeypatch.setattr(gguf.GGUFReader, "__init__", count_and_read)
    load(file)
    assert len(readings) <= 1


def test_functions_of_transformers_and_gguf_do_not_stay_replaced(file: Path) -> None:
    import gguf
    import transformers.modeling_gguf_pytorch_utils as reading

    before = gguf.GGUFReader, gguf.get_tensor_name_map, reading.load_gguf_checkpoint, reading.tqdm
    load(file)
    after = gguf.GGUFReader, gguf.get_tensor_name_map, reading.load_gguf_checkpoint, reading.tqdm
    assert after == before


def change_a_weight(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    last_byte_changed = bytes([content[-1] ^ 1])
    path.write_bytes(content[:-1] + last_byte_changed)


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
def test_a_damaged_copy_is_replaced(file: Path, damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    load(file)
    copies = converted_copies()
    damage(folder_of_copy())
    forget_loaded_models()
    loaded = load(file)
    assert "is damaged" in caplog.text, "the log does not say that the copy is damaged: it was used"
    assert_as_by_transformers(loaded, file)
    assert converted_copies() == copies


@pytest.mark.posix
def test_a_damaged_copy_that_cannot_be_removed_is_not_used(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load(file)
    change_a_weight(folder_of_copy())
    monkeypatch.setattr(shutil, "rmtree", Mock())  # removes nothing, as in a folder of another user
    for loads in (1, 2):
        forget_loaded_models()
        loaded = load(file)
        assert_as_by_transformers(loaded, file)
        assert caplog.text.count("is read anew for each process") == loads


@pytest.mark.posix
def test_a_damaged_copy_behind_a_link_is_replaced(file: Path, tmp_path: Path) -> None:
    load(file)
    folder = folder_of_copy()
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    change_a_weight(tmp_path / "elsewhere")
    forget_loaded_models()
    loaded = load(file)
    assert_as_by_transformers(loaded, file)
    assert not folder.is_symlink()


def point_link_to(link: Path, target: Path) -> None:
    """Let a symbolic link lead to another file."""
    link.unlink()
    link.symlink_to(target)


@contextmanager
def link_that_changes_while_it_is_read(link: Path, during: Path, after: Path) -> Iterator[None]:
    """Let a link lead to the file ``during`` when its weights are read within the block, and then to ``after``."""
    read_weights = source._dequantise

    def change_link_and_read_weights(*arguments: Any) -> Any:
        point_link_to(link, during)
        weights = read_weights(*arguments)
        point_link_to(link, after)
        return weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_dequantise", change_link_and_read_weights)
        yield


file_after_reading = pytest.mark.parametrize(
    "file_after_reading",
    [pytest.param("other.gguf", id="the link stays changed"), pytest.param("tiny.gguf", id="the link is restored")],
)


@pytest.mark.posix
@file_after_reading
def test_a_file_that_is_replaced_while_it_is_read_is_refused_and_has_no_copy(
    file: Path, file_after_reading: str
) -> None:
    other = write_gguf(file.with_name("other.gguf"), seed=1)
    link = file.with_name("link.gguf")
    link.symlink_to(file)

    replaced_while_read = link_that_changes_while_it_is_read(link, other, file.with_name(file_after_reading))
    with replaced_while_read, pytest.raises(StaICCError, match="was replaced while it was read"):
        load(link)

    assert converted_copies() == []


@pytest.mark.posix
@file_after_reading
def test_a_file_that_was_replaced_while_it_was_read_can_be_loaded_again(file: Path, file_after_reading: str) -> None:
    other = write_gguf(file.with_name("other.gguf"), seed=1)
    link = file.with_name("link.gguf")
    link.symlink_to(file)
    replaced_while_read = link_that_changes_while_it_is_read(link, other, file.with_name(file_after_reading))
    with replaced_while_read, pytest.raises(StaICCError):
        load(link)

    point_link_to(link, file)
    loaded = load(link)

    assert_as_by_transformers(loaded, file)


@pytest.mark.posix
def test_a_disk_that_fills_up_leaves_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    import resource

    less_than_the_weights = 20_000
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (less_than_the_weights, hard_limit))
    try:
        loaded = load(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft_limit, hard_limit))
    assert "is read anew for each process" in caplog.text
    assert_as_by_transformers(loaded, file)
    assert list(converted.copies_folder().iterdir()) == []


ODD_NAMES = ["a b [1]", "a**b", "-rf", ".hidden", "..", "漢" * 70, "x" * 240]


@pytest.mark.parametrize("stem", ODD_NAMES)
def test_a_copy_of_any_file_name_has_a_plain_name_and_can_be_removed(file: Path, stem: str) -> None:
    odd = file.rename(file.with_name(f"{stem}.gguf"))
    load(odd)
    (copy,) = converted_copies()
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9a-f]{16}", copy.name)
    assert copy.source == odd.name
    assert main(["data", "remove", copy.name]) == 0


def make_unfinished_folder() -> Path:
    """Make a folder as a process makes one that writes the copy of the loaded file."""
    folder = folder_of_copy()
    unfinished = folder.with_name(f".{folder.name}.0123456789ab.part")
    unfinished.mkdir()
    return unfinished


@pytest.mark.posix
@pytest.mark.parametrize("stem", ODD_NAMES)
def test_what_an_interrupted_conversion_left_is_removed_by_the_next_load(file: Path, stem: str) -> None:
    odd = file.rename(file.with_name(f"{stem}.gguf"))
    load(odd)
    unfinished = make_unfinished_folder()
    forget_loaded_models()
    load(odd)
    assert not unfinished.exists()


@pytest.mark.posix
def test_a_copy_that_another_process_writes_is_left_alone(file: Path) -> None:
    load(file)
    unfinished = make_unfinished_folder()
    lock_it_until_the_end = (
        "import fcntl, os, sys\n"
        "fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", lock_it_until_the_end, str(unfinished)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "locked\n"
        forget_loaded_models()
        load(file)
        is_left = unfinished.exists()
        writer.communicate()
    assert is_left


@pytest.mark.posix
def test_the_folder_of_a_copy_that_is_being_written_is_locked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that loads the file meanwhile does not remove it."""
    unfinished_folders: list[Path] = []
    save = converted._save

    def save_while_another_process_loads(model: Any, tokenizer: Any, folder: Path) -> None:
        converted.find_copy(file, file_digest(file))
        unfinished_folders.extend(converted.copies_folder().glob(".*.part"))
        save(model, tokenizer, folder)

    monkeypatch.setattr(converted, "_save", save_while_another_process_loads)
    load(file)
    assert len(unfinished_folders) == 1
    assert len(converted_copies()) == 1


@pytest.mark.posix
def test_all_files_of_a_copy_can_be_read_by_the_same_users(file: Path) -> None:
    load(file)
    modes = {path.name: oct(path.stat().st_mode) for path in folder_of_copy().iterdir()}
    assert set(modes.values()) == {modes[RECORD]}, modes


def test_a_copy_that_this_user_may_not_read_is_neither_used_nor_removed(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load(file)
    names = sorted(path.name for path in folder_of_copy().iterdir())
    not_permitted = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    monkeypatch.setattr(converted, "file_digest", Mock(side_effect=not_permitted))
    forget_loaded_models()

    loaded = load(file)

    assert "cannot be read (Permission denied)" in caplog.text
    assert "damaged" not in caplog.text
    assert_as_by_transformers(loaded, file)
    assert sorted(path.name for path in folder_of_copy().iterdir()) == names


def test_a_copy_whose_weights_could_not_be_read_back_is_not_kept(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(converted, "_difference_of_weights", Mock(return_value="the weight x"))
    loaded = load(file)
    assert "the weight x could not be read back" in caplog.text
    assert_as_by_transformers(loaded, file)
    assert list(converted.copies_folder().iterdir()) == []


def test_a_full_disk_leaves_nothing_and_the_model_is_loaded(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full when the tokenizer is saved, which is after the weights."""
    import transformers

    disk_is_full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(transformers.PreTrainedTokenizerBase, "save_pretrained", Mock(side_effect=disk_is_full))
    loaded = load(file, "bfloat16")
    assert "is read anew for each process" in caplog.text
    assert os.strerror(errno.ENOSPC) in caplog.text
    assert_as_by_transformers(loaded, file, "bfloat16")
    assert list(converted.copies_folder().iterdir()) == []


def test_a_disk_that_is_too_small_is_named_with_the_bytes_that_are_needed(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(total=10, used=9, free=1))
    load(file)
    assert "MB are needed, 0 MB are free" in caplog.text


@pytest.mark.posix
@pytest.mark.slow
@pytest.mark.parametrize(
    "function_that_kills",
    [
        pytest.param("transformers.PreTrainedTokenizerBase.save_pretrained", id="before the tokenizer is saved"),
        pytest.param("converted._digests", id="before the copy gets its name"),
    ],
)
def test_a_killed_conversion_leaves_nothing(file: Path, function_that_kills: str) -> None:
    program = f"""
import os, signal, transformers
from StaICC.kernels.huggingface import converted, source

def kill_this_process(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

{function_that_kills} = kill_this_process
source.ModelSource({str(file)!r}, "cpu").load()
"""
    repository = Path(converted.__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    process = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert process.returncode == -signal.SIGKILL
    assert converted_copies() == []

    load(file)
    assert list(converted.copies_folder().iterdir()) == [folder_of_copy()]


def test_threads_that_load_a_file_at_once_write_one_copy(file: Path) -> None:
    threads = [threading.Thread(target=load, args=(file,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(converted_copies()) == 1


def test_a_process_that_is_slower_finds_the_copy_of_the_faster_one(file: Path) -> None:
    """Both convert the file; the second one gets the folder that the first one has written."""
    loaded = load(file)
    folder = folder_of_copy()
    sha256 = json.loads((folder / RECORD).read_text())["sha256"]
    folder.rename(f"{folder}-aside")
    of_the_faster, _ = converted.write_copy(file, sha256, loaded.model, loaded.tokenizer)
    of_the_slower, _ = converted.write_copy(file, sha256, loaded.model, loaded.tokenizer)
    assert of_the_slower == of_the_faster


def test_copies_are_listed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(file)
    capsys.readouterr()
    assert main(["data", "list"]) == 0
    assert folder_of_copy().name in capsys.readouterr().out


def test_an_unknown_copy_is_refused_before_any_is_removed(file: Path) -> None:
    load(file)
    name = folder_of_copy().name
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        remove_copies([name, name[:-1]])
    assert folder_of_copy().exists()


def test_a_removed_copy_is_gone_and_its_file_is_kept(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(file)
    name = folder_of_copy().name
    capsys.readouterr()
    assert main(["data", "remove", name]) == 0
    assert capsys.readouterr().out == f"removed {name} (0 MB)\n"
    assert converted_copies() == []
    assert file.exists()
    assert main(["data", "remove", name]) == 2  # it is unknown now


def test_a_log_file_gets_no_progress_bars(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load(file)
    assert "it/s" not in capfd.readouterr().err
