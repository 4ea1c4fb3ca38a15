"""Where a model comes from: a name, a folder, a GGUF file or a live object; and what identifies it.

A model that is named by a string is loaded when it is first needed, once per process, so that a kernel can be pickled
to worker processes as the string. Its *fingerprint* is the key under which predictions are stored: it must be the same
in every process and differ wherever the numbers may differ.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.errors import ArgumentError, StaICCError
from StaICC.optional import require
from StaICC.prefabricate_inference.smollm2 import GGUF_SHA256, smollm2_file

__all__ = ["Loaded", "ModelSource", "live_digest"]

FEATURE = "the causal language model kernel"
SAMPLE = 1 << 16
"""Bytes read at the beginning and at the end of a file of weights."""
SAMPLED_WEIGHTS = 257
"""Numbers read from each parameter of a live model."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory with its tokenizer."""

    model: Any
    tokenizer: Any


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

    def load(self) -> Loaded:
        """The model and its tokenizer, loaded once per process.

        Raises:
            MissingDependencyError: ``torch`` or ``transformers`` is not installed.
            StaICCError: It cannot be loaded; the message gives the reason.
        """
        return _load(self)

    def identity(self) -> str:
        """What stands for the weights in a fingerprint: a revision or a digest."""
        kind, name, revision = self.where()
        if kind == "smollm2":
            return f"smollm2@{GGUF_SHA256[:16]}"
        if kind == "gguf":
            return f"{Path(name).name}@{_files_digest([Path(name)])}"
        if kind == "folder":
            return f"{Path(name).name}@{_files_digest(sorted(p for p in Path(name).iterdir() if p.is_file()))}"
        transformers = require("transformers", "hf", FEATURE)
        config = transformers.AutoConfig.from_pretrained(name, revision=revision)
        found = getattr(config, "_commit_hash", None) or revision
        return f"{name}@{found or live_digest(self.load().model)}"


def _files_digest(files: list[Path]) -> str:
    """Digest of names, sizes, and the beginning and end of each file."""
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as stream:
            digest.update(stream.read(SAMPLE))
            if size > SAMPLE:
                stream.seek(max(SAMPLE, size - SAMPLE))
                digest.update(stream.read(SAMPLE))
    return digest.hexdigest()[:16]


def live_digest(model: Any) -> str:
    """Digest of a model in memory: its configuration and a sample of every parameter.

    Args:
        model: A model of ``transformers``.

    Returns:
        16 hexadecimal digits, the same in every process for the same weights and number type.
    """
    torch = require("torch", "hf", FEATURE)
    config = model.config.to_dict() if hasattr(model.config, "to_dict") else vars(model.config)
    # Paths and versions say where a model was, not what it is.
    plain = {k: v for k, v in config.items() if k not in ("_name_or_path", "transformers_version", "_commit_hash")}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode())
    with torch.inference_mode():
        for name, weight in model.named_parameters():
            digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}\n".encode())
            flat = weight.detach().reshape(-1)
            if flat.numel() and flat.device.type != "meta":
                step = max(1, flat.numel() // SAMPLED_WEIGHTS)
                digest.update(flat[::step][:SAMPLED_WEIGHTS].float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


@functools.lru_cache(maxsize=2)
def _load(source: ModelSource) -> Loaded:
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
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **arguments)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            name, **arguments, **{"dtype" if release >= (4, 56) else "torch_dtype": dtype}
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise StaICCError(f"the model {source.spec!r} could not be loaded: {error}") from error
    model.to(source.resolved_device())
    model.eval()
    return Loaded(model, tokenizer)
