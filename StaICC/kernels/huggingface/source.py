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
from typing import Any

from StaICC.errors import ArgumentError, StaICCError
from StaICC.kernels.huggingface.file_digests import digest_of_file, digest_of_files
from StaICC.kernels.huggingface.live_state import LiveState, live_state, versions
from StaICC.kernels.huggingface.smollm2 import smollm2_file
from StaICC.optional import require

__all__ = ["Loaded", "ModelSource"]

FEATURE = "the causal language model kernel"
LOADED = 2
"""Models that are kept in memory for further kernels of the same content."""
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
SMALL = (".json", ".txt", ".model", ".jinja", ".py", ".tiktoken")
"""Suffixes of the files, other than weights, that transformers may read from a folder."""
UNREAD = frozenset({"trainer_state.json", "all_results.json", "train_results.json", "eval_results.json"})
"""Files of training runs that nothing reads when a model is loaded."""


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
    """A model named by a string.

    Attributes:
        spec: ``"smollm2"``, ``"hf:NAME_OR_PATH"`` (with ``@REVISION`` if wanted), a folder, or a ``.gguf`` file.
        device: Where it shall run, such as ``"cpu"`` or ``"cuda:0"``; None takes a CUDA device if there is one.
        dtype: Name of its number type, such as ``"float32"``; None takes float32 on the CPU, else the checkpoint's
            own.
    """

    spec: str
    device: str | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.spec, str) or not self.spec:
            raise ArgumentError(f"a model must be named by a non-empty string, not {self.spec!r}")
        self.where()

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
            return "hub", name, revision or None
        raise ArgumentError(
            f"cannot make out the model {self.spec!r}; give 'smollm2', 'hf:NAME' for a model of the hub, "
            "the path of a folder written by save_pretrained, or the path of a .gguf file"
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
        return not (folder / "adapter_config.json").exists() and "quantization_config" not in _config(folder)

    def _folder(self) -> Path:
        """The folder of the files; for a model of the hub the snapshot of its commit."""
        kind, name, revision = self.where()
        if kind == "folder":
            return Path(name)
        cached = require("transformers", "hf", FEATURE).utils.cached_file
        try:
            return Path(cached(name, "config.json", revision=revision)).parent
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise StaICCError(
                f"the model {name!r} could not be found: it is no folder, not in the cache, and the hub gave: {reason} "
                "Give the path of a folder, or download the model once"
            ) from error

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
    """All files of weights in a folder, and those in its subfolders that an index names."""
    files = {path for path in folder.iterdir() if path.is_file()}
    found = {path for path in files if path.suffix in WEIGHTS and path.name != "training_args.bin"}
    for index in (path for path in files if path.name.endswith(".index.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            named = {str(name) for name in json.loads(index.read_text("utf-8"))["weight_map"].values()}
            found |= {path for path in (folder / name for name in named) if path.is_file()}
    return sorted(found)


def _folder_digest(folder: Path) -> str:
    """Digest of the files that transformers may read, or of all where it knows none of the weights."""
    files = [path for path in folder.iterdir() if path.is_file()]
    weights = _weight_files(folder)
    if weights:
        files = [path for path in files if path.suffix in SMALL and path.name not in UNREAD] + weights
    return digest_of_files(files, folder)


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
    bars = transformers.utils.logging
    hidden = bars.is_progress_bar_enabled() and not sys.stderr.isatty()
    if hidden:  # a log file is not filled with progress bars
        bars.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **arguments)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            name, **arguments, **{"dtype" if release >= (4, 56) else "torch_dtype": dtype}
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise StaICCError(f"the model {source.spec!r} could not be loaded: {error}") from error
    finally:
        if hidden:
            bars.enable_progress_bar()
    model.to(source.resolved_device())
    model.eval()
    return model, tokenizer
