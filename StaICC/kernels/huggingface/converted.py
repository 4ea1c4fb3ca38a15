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
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from StaICC.datasets.pack import data_home
from StaICC.errors import StaICCError, unknown_name
from StaICC.files.json_reading import read_json, read_value
from StaICC.files.output import PASSING, file_digest
from StaICC.kernels.huggingface import FEATURE, torch
from StaICC.optional import require
from StaICC.safe_text import logger

RECORD = "converted.json"
"""The record of a copy, a file of its folder."""
PACKAGES = ("gguf", "transformers", "tokenizers")
"""The packages whose versions can change what a GGUF file is read as."""
MEGABYTE = 1_000_000
LONGEST_STEM = 100
"""Characters of the GGUF file's name in the name of a copy."""
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
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", source.stem)[:LONGEST_STEM].lstrip(".-")  # as a shell takes it
    digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return copies_folder() / (f"{name}-{digest}" if name else digest)


def find_copy(source: Path, sha256: str) -> Path | None:
    """Return the folder of the copy of a GGUF file, if there is an undamaged one; a damaged one is removed.

    Args:
        source: The GGUF file.
        sha256: Its digest.
    """
    folder = copy_folder(source, sha256)
    _remove_leftovers(folder)
    if not folder.is_dir():
        return None
    problem = _damage(folder, sha256)
    if problem is None:
        return folder
    _log.warning("the converted copy %s is damaged (%s); %s is converted again", folder, problem, source.name)
    if folder.is_symlink():
        with contextlib.suppress(OSError):
            folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def write_copy(source: Path, sha256: str, model: Any, tokenizer: Any) -> tuple[Path, Any] | None:
    """Write the copy of a GGUF file, unless there is no space for it or it could not be read back as it was.

    Args:
        source: The GGUF file.
        sha256: Its digest.
        model: What was read of the file, in float32.
        tokenizer: The tokenizer that was read of it.

    Returns:
        The folder, and the tokenizer as it was read back of it; ``None`` with a warning if there is no copy.
    """
    folder = copy_folder(source, sha256)
    plain = _without_quantization(model)
    needed = sum(weight.numel() * weight.element_size() for weight in plain.parameters()) + SPARE
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
        if free < needed:
            raise OSError(f"{needed // MEGABYTE} MB are needed, {free // MEGABYTE} MB are free")
        with _passing_folder(folder) as passing:
            _save(plain, tokenizer, passing)
            tokens = _read_back(plain, tokenizer, passing)
            digests = _digests(passing)
            size = sum((passing / name).stat().st_size for name in digests)
            record = Conversion(source.name, sha256, _versions(), digests, size)
            (passing / RECORD).write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
            os.replace(passing, folder)
    except OSError as error:
        if folder.is_dir() and _damage(folder, sha256) is None:  # another process was faster
            return folder, load_tokenizer(folder)
        reason = error.strerror or str(error)
        _log.warning("%s is read anew for each process: no converted copy in %s (%s)", source.name, folder, reason)
        return None
    remove = f"python -m StaICC data remove {folder.name}"
    _log.warning("%s was converted once (%d MB in %s); %s", source.name, size // MEGABYTE, folder, remove)
    return folder, tokens


def converted_copies() -> list[ConvertedCopy]:
    """Return the copies on this machine, by name. Their content is not checked."""
    copies = []
    for path in sorted(copies_folder().glob(f"[!.]*/{RECORD}")):
        with contextlib.suppress(StaICCError, OSError):
            record = _read_record(path.parent)
            copies.append(ConvertedCopy(path.parent.name, str(path.parent), record.source, record.size))
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
    copies = {copy.name: copy for copy in converted_copies()}
    for name in names:
        if name not in copies:
            raise unknown_name("converted copy", name, list(copies), "python -m StaICC data list shows them.")
    removed = [copies[name] for name in dict.fromkeys(names)]
    for own in removed:
        shutil.rmtree(own.folder)
    return removed


def _versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in PACKAGES}


def _without_quantization(model: Any) -> Any:
    """Return the model as one that was never quantised; it shares the weights."""
    config = copy.deepcopy(model.config)
    vars(config).pop("quantization_config", None)
    transformers = require("transformers", "hf", FEATURE)
    with torch.device("meta"):
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
    again = transformers.AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=False, **{dtype_option(): torch.float32}
    )
    tokens = load_tokenizer(folder)
    difference = _difference_of_weights(model, again) or _difference_of_tokenizers(tokenizer, tokens)
    if difference is not None:
        raise OSError(f"{difference} could not be read back as it was written")
    return tokens


def _difference_of_weights(written: Any, read: Any) -> str | None:
    """Return what differs in the weights of two models, if anything does."""
    expected, got = written.state_dict(), read.state_dict()
    if expected.keys() != got.keys():
        return "the names of the weights"
    return next((f"the weight {name}" for name in expected if not _same_numbers(expected[name], got[name])), None)


def _same_numbers(one: Any, other: Any) -> bool:
    return bool(torch.equal(one, other) or torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))


def _difference_of_tokenizers(written: Any, read: Any) -> str | None:
    """Return what differs between two tokenizers, if anything does."""
    for fact in ("special_tokens_map", "chat_template", "all_special_ids", "model_max_length", "padding_side"):
        if getattr(written, fact) != getattr(read, fact):
            return f"the tokenizer's {fact}"
    backends: list[Any] = [getattr(each, "backend_tokenizer", None) for each in (written, read)]
    if None in backends or backends[0].to_str() != backends[1].to_str():
        return "the tokenizer"
    return None


def dtype_option() -> str:
    """Return the name of the argument of ``from_pretrained`` for the number type."""
    release = tuple(map(int, importlib.metadata.version("transformers").split(".")[:2]))
    return "dtype" if release >= (4, 56) else "torch_dtype"


@contextlib.contextmanager
def _passing_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder next to a copy's, which is removed at the end if it was not renamed."""
    shutil.rmtree(folder.parent / f".{folder.name}.{os.getpid()}{PASSING}", ignore_errors=True)
    passing = folder.parent / f".{folder.name}.{os.getpid()}{PASSING}"
    passing.mkdir()
    try:
        yield passing
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the passing folders of a copy that killed processes left behind."""
    for left in folder.parent.glob(f".{folder.name}.*{PASSING}"):
        number = left.name.removesuffix(PASSING).rpartition(".")[2]
        if not (number.isdecimal() and _is_running(int(number))):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Return whether a process of this machine runs; on Windows always, where ``os.kill`` would end it."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def _read_record(folder: Path) -> Conversion:
    """Read the record of a copy.

    Raises:
        SchemaError: It is not one.
        OSError: It cannot be read.
    """
    record: Conversion = read_value(Conversion, read_json(folder / RECORD, "the record of a converted copy"), RECORD)
    return record


def _digests(folder: Path) -> dict[str, str]:
    """Return the digests of all files of a folder but the record."""
    names = sorted(path.name for path in folder.iterdir() if path.name != RECORD)
    with ThreadPoolExecutor(max(1, min(len(names), os.cpu_count() or 1))) as pool:
        return dict(zip(names, pool.map(file_digest, (folder / name for name in names)), strict=True))


def _damage(folder: Path, sha256: str) -> str | None:
    """Return what is wrong with a copy; ``None`` if its bytes are those that were written."""
    try:
        record = _read_record(folder)
        digests = _digests(folder)
    except (OSError, StaICCError) as error:
        return str(error)
    if record.sha256 != sha256:
        return "it is that of another file"
    changed = [name for name in {**record.files, **digests} if record.files.get(name) != digests.get(name)]
    return f"{', '.join(changed)} changed" if changed else None
