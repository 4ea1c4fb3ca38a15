"""Converted copies of GGUF files, which load in seconds.

A copy has the dequantised weights in float32 and the tokenizer, in the format of ``save_pretrained``. It is kept in the
data home under ``models``, in a folder that is named after the file, with a digest of the file's bytes and of the
versions of the packages that read it. So another file, or another version, never meets it.

A copy is written completely or not at all, and only if what is read back is bit for bit what was written. Before a copy
is used, every byte of it is compared with the digests in its record. ``python -m StaICC data list`` shows the copies,
``data remove`` removes them; the GGUF file itself stays, and is converted again when it is loaded.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from StaICC.datasets.pack import data_home
from StaICC.errors import StaICCError, unknown_name
from StaICC.files.json_reading import read_json, read_value
from StaICC.files.output import UNFINISHED, file_digest
from StaICC.kernels.huggingface import FEATURE, torch
from StaICC.optional import require
from StaICC.safe_text import logger

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    _locks: ModuleType | None = None
else:
    _locks = _fcntl

RECORD = "converted.json"
"""The record of a copy, a file of its folder."""
PACKAGES = ("gguf", "transformers", "tokenizers")
"""The packages whose versions can change what a GGUF file is read as."""
MEGABYTE = 1_000_000
LONGEST_STEM = 100
"""Characters of the GGUF file's name in the name of a copy."""
DIGITS_IN_NAME = 16
"""Hexadecimal digits of the digest in the name of a copy."""
SPARE = 64 * MEGABYTE
"""Bytes for tokenizer and configuration, and so that a conversion does not fill the disk to the last byte."""

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The record of a converted copy."""

    source: str
    """Name of the GGUF file."""
    sha256: str
    """Digest of the GGUF file."""
    versions: Mapping[str, str]
    """Versions of :data:`PACKAGES`."""
    files: Mapping[str, str]
    """The digests of the other files of the folder."""
    size: int
    """Bytes of these files."""


@dataclass(frozen=True, slots=True)
class ConvertedCopy:
    """A converted copy on this machine, as a listing shows it."""

    name: str
    """Name of its folder."""
    folder: str
    source: str
    """Name of the GGUF file."""
    size: int
    """Bytes."""


class OpenedCopy(NamedTuple):
    """A converted copy whose tokenizer was read."""

    folder: Path
    tokenizer: Any


def copies_folder() -> Path:
    """Return the folder of all copies; it need not exist."""
    return data_home() / "models"


def copy_folder(source: Path, sha256: str) -> Path:
    """Return the folder of the copy of a GGUF file; it need not exist.

    Args:
        source: The GGUF file.
        sha256: Its digest.
    """
    facts = json.dumps([sha256, _versions()], sort_keys=True)
    folder_name = hashlib.sha256(facts.encode()).hexdigest()[:DIGITS_IN_NAME]
    # Only characters that need no quotes in a shell. A name with a dot in front would be hidden.
    readable_name = re.sub(r"[^A-Za-z0-9_.-]", "_", source.stem)[:LONGEST_STEM].lstrip(".-")
    if readable_name:
        folder_name = f"{readable_name}-{folder_name}"
    return copies_folder() / folder_name


def find_copy(source: Path, sha256: str) -> Path | None:
    """Return the folder of the copy of a GGUF file, if there is an undamaged one; a damaged one is removed.

    One that this user may not read is left alone.

    Args:
        source: The GGUF file.
        sha256: Its digest.
    """
    folder = copy_folder(source, sha256)
    _remove_leftovers(folder)
    if not folder.is_dir():
        return None
    try:
        damage = _damage_of(folder, sha256)
    except PermissionError as error:  # it may be undamaged, and others may use it
        _log.warning("the converted copy %s cannot be read (%s); %s is read anew", folder, error.strerror, source.name)
        return None
    if damage is None:
        return folder
    _log.warning("the converted copy %s is damaged (%s); %s is converted again", folder, damage, source.name)
    if folder.is_symlink():
        with contextlib.suppress(OSError):
            folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def write_copy(source: Path, sha256: str, model: Any, tokenizer: Any) -> OpenedCopy | None:
    """Write the copy of a GGUF file, unless there is no space for it or it could not be read back as it was.

    Args:
        source: The GGUF file.
        sha256: Its digest.
        model: What was read of the file, in float32.
        tokenizer: The tokenizer that was read of it.

    Returns:
        The copy, with the tokenizer as it was read back of it; ``None`` with a warning if there is none.
    """
    folder = copy_folder(source, sha256)
    plain_model = _without_quantization(model)
    try:
        _check_space(folder.parent, plain_model)
        # All is written and checked in a folder with another name, which then gets the name of the copy.
        with _temporary_folder(folder) as temporary_folder:
            _save(plain_model, tokenizer, temporary_folder)
            tokenizer_of_copy = _read_back(plain_model, tokenizer, temporary_folder)
            size = _write_record(temporary_folder, source.name, sha256)
            os.replace(temporary_folder, folder)
    except OSError as error:
        if _is_complete(folder, sha256):  # another process wrote it first
            return OpenedCopy(folder, load_tokenizer(folder))
        reason = error.strerror or str(error)
        _log.warning("%s is read anew for each process: no converted copy in %s (%s)", source.name, folder, reason)
        return None
    remove = f"python -m StaICC data remove {folder.name}"
    _log.warning("%s was converted once (%d MB in %s); %s", source.name, size // MEGABYTE, folder, remove)
    return OpenedCopy(folder, tokenizer_of_copy)


def _check_space(parent: Path, model: Any) -> None:
    """Make the folder of all copies, and check that a copy of a model fits on its disk.

    Raises:
        OSError: The folder cannot be made, or there is no space.
    """
    parent.mkdir(parents=True, exist_ok=True)
    weight_bytes = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    needed_bytes = weight_bytes + SPARE
    free_bytes = shutil.disk_usage(parent).free
    if free_bytes < needed_bytes:
        raise OSError(f"{needed_bytes // MEGABYTE} MB are needed, {free_bytes // MEGABYTE} MB are free")


def _write_record(folder: Path, source_name: str, sha256: str) -> int:
    """Write the record of a copy whose other files are complete.

    Args:
        folder: The folder of the copy.
        source_name: Name of the GGUF file.
        sha256: Digest of the GGUF file.

    Returns:
        The bytes of the other files.
    """
    digests = _digests(folder)
    size = sum((folder / name).stat().st_size for name in digests)
    record = Conversion(source=source_name, sha256=sha256, versions=_versions(), files=digests, size=size)
    record_file = folder / RECORD
    record_file.write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
    # Safetensors writes files that their owner alone can read, but a data home may be shared.
    mode_of_new_files = stat.S_IMODE(record_file.stat().st_mode)
    for name in digests:
        (folder / name).chmod(mode_of_new_files)
    return size


def converted_copies() -> list[ConvertedCopy]:
    """Return the copies on this machine, by name. Their content is not checked."""
    copies = []
    not_hidden = "[!.]*"
    for record_file in sorted(copies_folder().glob(f"{not_hidden}/{RECORD}")):
        folder = record_file.parent
        with contextlib.suppress(StaICCError, OSError):
            record = _read_record(folder)
            copies.append(ConvertedCopy(folder.name, str(folder), record.source, record.size))
    return copies


def remove_copies(names: Sequence[str]) -> list[ConvertedCopy]:
    """Remove copies; the GGUF files stay.

    Args:
        names: Names of copies, as :func:`converted_copies` has them.

    Returns:
        The removed copies.

    Raises:
        UnknownNameError: There is no copy of one of the names; none is removed.
        OSError: One cannot be removed.
    """
    copy_by_name = {converted_copy.name: converted_copy for converted_copy in converted_copies()}
    for name in names:
        if name not in copy_by_name:
            raise unknown_name("converted copy", name, list(copy_by_name), "python -m StaICC data list shows them.")
    distinct_names = dict.fromkeys(names)
    removed = [copy_by_name[name] for name in distinct_names]
    for converted_copy in removed:
        shutil.rmtree(converted_copy.folder)
    return removed


def _versions() -> dict[str, str]:
    """Return the installed version of each package on which the contents of a converted copy depend."""
    return {package: importlib.metadata.version(package) for package in PACKAGES}


def _without_quantization(model: Any) -> Any:
    """Return a model with the same weights whose configuration says nothing of quantisation, so that it can be saved.

    Args:
        model: A model that transformers read of a GGUF file, with weights in float32.
    """
    config = copy.deepcopy(model.config)
    vars(config).pop("quantization_config", None)
    transformers = require("transformers", "hf", FEATURE)
    with torch.device("meta"):  # without memory for weights of its own
        plain = transformers.AutoModelForCausalLM.from_config(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = model.generation_config
    return plain


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write model and tokenizer.

    Raises:
        OSError: There is no space.
    """
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except require("safetensors", "hf", FEATURE).SafetensorError as error:  # no OSError, also on a full disk
        raise OSError(str(error)) from error


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a copy."""
    return require("transformers", "hf", FEATURE).AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def _read_back(model: Any, tokenizer: Any, folder: Path) -> Any:
    """Return the tokenizer of a copy that was just written.

    Raises:
        OSError: A weight or the tokenizer is not what was written.
    """
    transformers = require("transformers", "hf", FEATURE)
    dtype = {dtype_option(): torch.float32}
    read_model = transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False, **dtype)
    difference = _difference_of_weights(model, read_model)
    read_tokenizer = load_tokenizer(folder)
    if difference is None:
        difference = _difference_of_tokenizers(tokenizer, read_tokenizer)
    if difference is not None:
        raise OSError(f"{difference} could not be read back as it was written")
    return read_tokenizer


def _difference_of_weights(written: Any, read: Any) -> str | None:
    """Return what differs in the weights of two models; ``None`` if nothing does."""
    written_weights = written.state_dict()
    read_weights = read.state_dict()
    if written_weights.keys() != read_weights.keys():
        return "the names of the weights"
    for name, weight in written_weights.items():
        if not _has_same_numbers(weight, read_weights[name]):
            return f"the weight {name}"
    return None


def _has_same_numbers(written: Any, read: Any) -> bool:
    """Return whether two tensors are equal, where NaN equals NaN."""
    if torch.equal(written, read):
        return True
    return bool(torch.allclose(written, read, rtol=0, atol=0, equal_nan=True))


_FACTS_OF_TOKENIZER = ("special_tokens_map", "chat_template", "all_special_ids", "model_max_length", "padding_side")
"""Attributes of a tokenizer that its backend does not have."""


def _difference_of_tokenizers(written: Any, read: Any) -> str | None:
    """Return what differs between two tokenizers; ``None`` if nothing does.

    Tokenizers without a backend, whose text has the vocabulary, cannot be compared: they count as different.
    """
    for fact in _FACTS_OF_TOKENIZER:
        if getattr(written, fact) != getattr(read, fact):
            return f"the tokenizer's {fact}"
    written_backend = getattr(written, "backend_tokenizer", None)
    read_backend = getattr(read, "backend_tokenizer", None)
    if written_backend is None or read_backend is None:
        return "the tokenizer"
    if written_backend.to_str() != read_backend.to_str():
        return "the tokenizer"
    return None


def dtype_option() -> str:
    """Return the name of the argument of ``from_pretrained`` for the number type, which transformers 4.56 changed."""
    major, minor, *_ = importlib.metadata.version("transformers").split(".")
    if (int(major), int(minor)) >= (4, 56):
        return "dtype"
    return "torch_dtype"


@contextlib.contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder for the files of a copy that is being written, locked so that nobody removes it.

    The caller renames it when it is complete. Otherwise it is removed at the end.

    Args:
        folder: The folder that the copy will have, in the same parent folder.

    Raises:
        OSError: It cannot be made, or another process removed it before it was locked.
    """
    temporary_folder = folder.parent / f".{folder.name}.{os.urandom(6).hex()}{UNFINISHED}"
    temporary_folder.mkdir()
    try:
        with _locked(temporary_folder):
            if not temporary_folder.is_dir():
                raise FileNotFoundError(errno.ENOENT, "it was removed by another process", str(temporary_folder))
            yield temporary_folder
    finally:
        shutil.rmtree(temporary_folder, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary folders (:func:`_temporary_folder`) of a copy that killed processes left behind.

    Args:
        folder: The folder of the copy.
    """
    for temporary_folder in folder.parent.glob(f".{folder.name}.*{UNFINISHED}"):
        with contextlib.suppress(OSError), _locked(temporary_folder) as is_locked:
            if is_locked:
                shutil.rmtree(temporary_folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock a folder for the block, if it is free, and yield whether it is locked.

    The lock is one of the operating system: it ends with its process, and processes of other containers see it. Where
    there are no such locks (Windows, some file systems), nothing is ever locked.

    Args:
        folder: The folder.

    Raises:
        OSError: The folder cannot be opened.
    """
    if _locks is None:
        yield False
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
        except OSError:  # another process has locked it, or there are no locks here
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _read_record(folder: Path) -> Conversion:
    """Read the record of a copy.

    Raises:
        SchemaError: It is not one.
        OSError: It cannot be read.
    """
    record: Conversion = read_value(Conversion, read_json(folder / RECORD, "the record of a converted copy"), RECORD)
    return record


def _digests(folder: Path) -> dict[str, str]:
    """Return the digests of all files of a folder but the record, by name."""
    names = sorted(path.name for path in folder.iterdir() if path.name != RECORD)
    paths = [folder / name for name in names]
    thread_count = max(1, min(len(names), os.cpu_count() or 1))
    with ThreadPoolExecutor(thread_count) as pool:
        digests = pool.map(file_digest, paths)
        return dict(zip(names, digests, strict=True))


def _is_complete(folder: Path, sha256: str) -> bool:
    """Return whether there is a copy in a folder that can be used; the arguments are those of :func:`_damage_of`."""
    try:
        return folder.is_dir() and _damage_of(folder, sha256) is None
    except PermissionError:
        return False


def _damage_of(folder: Path, sha256: str) -> str | None:
    """Return what is wrong with a copy; ``None`` if its bytes are those that were written.

    Args:
        folder: The folder of the copy.
        sha256: Digest of the GGUF file of which it should be a copy.

    Raises:
        PermissionError: This user may not read it, so nobody knows.
    """
    try:
        record = _read_record(folder)
        digests = _digests(folder)
    except PermissionError:
        raise
    except (OSError, StaICCError) as error:
        return str(error)
    if record.sha256 != sha256:
        return "it is that of another file"
    # A file that is missing, or that was added, has no digest on one of the two sides.
    changed = []
    for name in {**record.files, **digests}:
        if record.files.get(name) != digests.get(name):
            changed.append(name)
    if changed:
        return f"{', '.join(changed)} changed"
    return None
