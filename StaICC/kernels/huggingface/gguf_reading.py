"""Reading a GGUF file once, although transformers asks for it several times.

While transformers loads a GGUF file, it reads the metadata for the tokenizer, for the configuration, and with the
tensors, and it builds the map of tensor names for each module of the model. :func:`read_once` makes it remember these
within a block. The results are the same objects that a second reading would make equal.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from StaICC.kernels.huggingface import FEATURE
from StaICC.optional import require


def _plain_reader(gguf: Any, contents: list[Any]) -> Any:
    """Return a faster class of readers of GGUF files than the one of the package gguf.

    A reader of the package assigns ``self.data = numpy.memmap(file)``, and then reads the file in thousands of slices
    of ``self.data``. A slice of a memory map is an object of the class ``memmap`` again, and making such objects takes
    most of the time. A slice of a plain array is made much faster. So the returned class has a property ``data``, which
    replaces the memory map that is assigned by a plain array with the same bytes.

    Args:
        gguf: The package.
        contents: A list to which the reader adds the bytes of each file that it reads, as an array.
    """
    numpy = require("numpy", "hf", FEATURE)

    class PlainReader(gguf.GGUFReader):  # type: ignore[misc]
        """A reader of GGUF files whose attribute ``data`` is a plain array."""

        @property
        def data(self) -> Any:
            """The bytes of the file, an array."""
            return self._array

        @data.setter
        def data(self, memory_map: Any) -> None:
            """Keep a memory map that the reader assigns as a plain array: a view of the same bytes, not a copy."""
            self._array = memory_map.view(numpy.ndarray)
            contents.append(self._array)

    return PlainReader


def _remembering(load_checkpoint: Any) -> Any:
    """Return a function that reads a checkpoint as transformers does, and remembers the metadata of the last file.

    Args:
        load_checkpoint: The function of transformers. Called with a path alone, it reads the metadata only.
    """
    read_metadata = functools.lru_cache(maxsize=1)(load_checkpoint)

    @functools.wraps(load_checkpoint)
    def load(path: Any, return_tensors: bool = False, *further: Any, **options: Any) -> Any:
        """Return what ``load_checkpoint`` returns; the metadata of the last file are not read again."""
        reads_only_metadata = not (return_tensors or further or options)
        if not reads_only_metadata:
            return load_checkpoint(path, return_tensors, *further, **options)
        metadata = read_metadata(str(path))
        # A copy, since transformers adds entries to the configuration.
        return {**metadata, "config": copy.deepcopy(metadata["config"])}

    return load


@contextlib.contextmanager
def read_once() -> Iterator[list[Any]]:
    """Let transformers and gguf remember, within the block, what they read of a GGUF file.

    Functions of both packages are replaced for the time of the block, for all threads.

    Yields:
        The bytes of the files that were read so far, as arrays: what was read, also if the name of a file has meanwhile
        been given to another one.
    """
    contents: list[Any] = []
    gguf = require("gguf", "hf", "reading a GGUF file")
    reading = require("transformers.modeling_gguf_pytorch_utils", "hf", FEATURE)
    replacements: list[tuple[Any, str, Any]] = [
        (gguf, "GGUFReader", functools.lru_cache(maxsize=1)(_plain_reader(gguf, contents))),
        (gguf, "get_tensor_name_map", functools.lru_cache(maxsize=8)(gguf.get_tensor_name_map)),
        (reading, "load_gguf_checkpoint", _remembering(reading.load_gguf_checkpoint)),
    ]
    with _replaced(replacements):
        yield contents


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Let transformers show no progress bars: they would fill a log file, and break the progress line of a terminal."""
    bars = require("transformers", "hf", FEATURE).utils.logging
    reading = require("transformers.modeling_gguf_pytorch_utils", "hf", FEATURE)
    replacements: list[tuple[Any, str, Any]] = []
    if hasattr(reading, "tqdm"):
        replacements.append((reading, "tqdm", _without_bar))
    were_shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        with _replaced(replacements):
            yield
    finally:
        if were_shown:
            bars.enable_progress_bar()


def _without_bar(items: Iterable[Any], **_: Any) -> Iterable[Any]:
    """Return the items that ``tqdm`` would show the progress of."""
    return items


@contextlib.contextmanager
def _replaced(replacements: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace attributes of modules for the time of the block: (module, name, value)."""
    with contextlib.ExitStack() as restoring:
        for module, name, value in replacements:
            restoring.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        yield
