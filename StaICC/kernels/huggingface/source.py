"""Where a model comes from: a name, a folder, a GGUF file or a live object; and what identifies it.

A model that is named by a string is loaded when it is first needed, so that a kernel can be pickled to worker processes
as the string. It is identified by the content of its files, never by their path, and loaded once per process *and
content*: a folder that was overwritten is another model. What was changed in memory after loading is not shared.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from StaICC.errors import ArgumentError, StaICCError, unknown_name
from StaICC.kernels.huggingface.file_digests import digest_of_file, digest_of_files
from StaICC.kernels.huggingface.live_state import LiveState, live_state, versions
from StaICC.kernels.huggingface.smollm2 import smollm2_file
from StaICC.optional import require

Quantization = Literal["8bit", "4bit"]
FEATURE = "the causal language model kernel"
LOADED = 2
"""Models that are kept in memory for further kernels of the same content."""
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory with its tokenizer.

    Attributes:
        model: The model.
        tokenizer: The tokenizer.
        content: What it was loaded from; None for a model that the user made.
        state: What it was right after loading; None for a model that the user made.
    """

    model: Any
    tokenizer: Any
    content: dict[str, str] | None = None
    state: LiveState | None = None


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
    """Number type, such as ``"bfloat16"``. By default float32 on the CPU, else the checkpoint's own."""

    revision: str | None = None
    """Branch, tag or commit of a model of the hub; ``NAME@REVISION`` is the same."""

    device_map: str | None = None
    """How accelerate distributes the weights over devices, such as ``"auto"``; instead of ``device``."""

    quantization: Quantization | None = None
    """Quantise the weights while they are loaded, with bitsandbytes. GPTQ and AWQ checkpoints need no option."""

    attn_implementation: str | None = None
    """Attention function of transformers, such as ``"eager"``, ``"sdpa"`` or ``"flash_attention_2"``."""

    trust_remote_code: bool = False
    """Run Python code that the checkpoint contains. The identity records it."""

    adapter: str | None = None
    """Adapter of peft to add to the model: a folder or the name of a model of the hub."""

    def __post_init__(self) -> None:
        if not isinstance(self.spec, str) or not self.spec:
            raise ArgumentError(f"a model must be named by a non-empty string, not {self.spec!r}")
        for name in ("device", "dtype", "revision", "device_map", "attn_implementation", "adapter"):
            if (value := getattr(self, name)) is not None and (not isinstance(value, str) or not value):
                raise ArgumentError(f"{name} of the model {self.spec!r}: got {value!r}, expected a non-empty text")
        if not isinstance(self.trust_remote_code, bool):
            raise ArgumentError(f"trust_remote_code must be True or False, not {self.trust_remote_code!r}")
        if self.quantization not in (None, *get_args(Quantization)):
            raise unknown_name("quantization", self.quantization, get_args(Quantization))
        if self.device is not None and self.device_map is not None:
            raise ArgumentError(f"got device={self.device!r} and device_map={self.device_map!r}. Give one of the two")
        kind = self.where()[0]
        if self.revision is not None and (kind != "hub" or "@" in self.spec):
            raise ArgumentError(
                f"revision={self.revision!r} is for a model of the hub without @REVISION: got the model {self.spec!r}"
            )
        if self.quantization is not None and kind in ("smollm2", "gguf"):
            raise ArgumentError(f"quantization={self.quantization!r}: the model {self.spec!r} is quantised already")

    def where(self) -> tuple[str, str, str | None]:
        """What the string means: kind (``smollm2``, ``gguf``, ``folder``, ``hub``), name or path, and revision.

        Raises:
            ArgumentError: It means nothing.
        """
        if self.spec == "smollm2":
            return "smollm2", "smollm2", None
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
        if named[:1] in ("/", ".", "~"):
            raise ArgumentError(f"there is no folder {named!r}; give the folder that save_pretrained wrote, or hf:NAME")
        hub = f" For a model of the hub write {f'hf:{named}'!r}." if named and named[0] not in "./~\\" else ""
        raise ArgumentError(
            f"cannot make out the model {self.spec!r}; give 'smollm2', 'hf:NAME' for a model of the hub, "
            f"the path of a folder written by save_pretrained, or the path of a .gguf file.{hub}"
        )

    def resolved_device(self) -> str:
        """The device on which it will run."""
        torch = require("torch", "hf", FEATURE)
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def resolved_dtype(self) -> str:
        """Name of the number type, ``"auto"`` for the checkpoint's own."""
        return self.dtype or ("float32" if self.resolved_device() == "cpu" else "auto")

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
        if kind in ("smollm2", "gguf"):
            path = smollm2_file() if kind == "smollm2" else Path(name)
            require("gguf", "hf", "reading a GGUF file")
            facts["gguf"] = importlib.metadata.version("gguf")
            return {"model": "GGUF", "files": digest_of_file(path), **facts}
        folder = self._folder()
        if kind == "hub":
            if not _weight_files(folder):
                _read(self)
            facts["commit"] = folder.name
        return {"model": name if kind == "hub" else _architecture(folder), "files": _folder_digest(folder), **facts}

    def is_complete(self) -> bool:
        """Whether the files alone say what the model is: they name no others and need no further packages."""
        if self.where()[0] not in ("folder", "hub"):
            return True
        folder = self._folder()
        config = _config(folder)
        elsewhere = "--" in str(config.get("auto_map", ""))  # code of another repository
        return not ((folder / "adapter_config.json").exists() or "quantization_config" in config or elsewhere)

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
            if not _weight_files(folder):
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
        with _lock:
            known = _loaded.get(key)
            if known is not None and live_state(known.model, known.tokenizer) == known.state:
                return known
            model, tokenizer = _read(self)
            if self.content() != content:
                raise StaICCError(f"the files of the model {self.spec!r} changed while it was loaded; load it again")
            made = Loaded(model, tokenizer, content, live_state(model, tokenizer))
            _loaded.pop(key, None)
            _loaded[key] = made
            while len(_loaded) > LOADED:
                del _loaded[next(iter(_loaded))]
            return made


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


_loaded: dict[str, Loaded] = {}
_lock = threading.RLock()


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _architecture(folder: Path) -> str:
    names = _config(folder).get("architectures")
    return str(names[0]) if isinstance(names, list) and names else "folder"


def _weight_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in WEIGHTS and path.name != "training_args.bin"]


def _folder_digest(folder: Path) -> str:
    """Digest of all files in a folder and its subfolders, hidden ones left out."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return digest_of_files([path for path in files if not _is_hidden(path.relative_to(folder))], folder)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _read(source: ModelSource) -> tuple[Any, Any]:
    torch = require("torch", "hf", FEATURE)
    transformers = require("transformers", "hf", FEATURE)
    kind, name, revision = source.where()
    arguments: dict[str, Any] = {"revision": revision} if revision else {}
    if kind in ("smollm2", "gguf"):
        require("gguf", "hf", "reading a GGUF file")
        path = smollm2_file() if kind == "smollm2" else Path(name)
        name, arguments = str(path.parent), {"gguf_file": path.name}
    wanted = source.resolved_dtype()
    dtype = wanted if wanted == "auto" else getattr(torch, wanted, None)
    if dtype is None or not (dtype == "auto" or isinstance(dtype, torch.dtype)):
        raise ArgumentError(f"there is no number type {wanted!r}; give 'float32', 'bfloat16' or 'float16'")
    release = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    if source.trust_remote_code:
        arguments["trust_remote_code"] = True
    options: dict[str, Any] = {"dtype" if release >= (4, 56) else "torch_dtype": dtype}
    for option in ("device_map", "attn_implementation"):
        if value := getattr(source, option):
            options[option] = value
    if source.device_map is not None:
        require("accelerate", "hf", "device_map")
    if source.quantization is not None:
        options["quantization_config"] = transformers.BitsAndBytesConfig(**{f"load_in_{source.quantization}": True})
        options.setdefault("device_map", {"": source.resolved_device()})
    bars = transformers.utils.logging
    hidden = bars.is_progress_bar_enabled() and not sys.stderr.isatty()
    if hidden:  # a log file is not filled with progress bars
        bars.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **arguments)
        model = transformers.AutoModelForCausalLM.from_pretrained(name, **arguments, **options)
        if source.adapter is not None:
            model = require("peft", "adapters", "an adapter").PeftModel.from_pretrained(model, source._adapter_folder())
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        if isinstance(error, StaICCError):
            raise
        raise StaICCError(f"the model {source.spec!r} could not be loaded: {error}") from error
    finally:
        if hidden:
            bars.enable_progress_bar()
    if "device_map" not in options:
        model.to(source.resolved_device())
    model.eval()
    if source.quantization is not None:  # bitsandbytes packs its weights in the first call
        with torch.inference_mode():
            model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device))
    return model, tokenizer
