"""A quantised model in a GGUF file, computed as it is by llama.cpp (package ``llama-cpp-python``, extra ``llama``).

``hf:`` converts such a file to floating-point numbers; here the weights keep their few bits, so that the memory is a
fraction of that. llama.cpp also rounds the activations to eight bits where the weights are quantised, so probabilities
differ from those of the converted weights.

Prompts are computed in the order of their prefixes. A prefix that the next prompt shares is not computed again.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from StaICC.errors import ArgumentError, StaICCError
from StaICC.inference.contract import Text
from StaICC.inference.identity import Identity
from StaICC.kernels.engine import EngineKernel
from StaICC.kernels.huggingface.batching import Ending
from StaICC.kernels.huggingface.forward import TokenLogits
from StaICC.kernels.huggingface.prompts import KernelOptions
from StaICC.kernels.huggingface.source import digest_of_file, smollm2_file
from StaICC.kernels.huggingface.token_kernel import Logs, PromptReader, TokenKernel
from StaICC.kernels.huggingface.token_trie import shared_length
from StaICC.kernels.protocol import stable_seed
from StaICC.optional import require

AT_ONCE = 256
"""Positions in one call of the engine."""
SMALLEST = 512
"""Positions of the smallest context; a larger one is made for longer prompts."""
TAKEN = frozenset({"n_gpu_layers", "split_mode", "main_gpu", "tensor_split", "offload_kqv", "op_offload", "flash_attn"})
TAKEN |= {"type_k", "type_v", "kv_overrides", "lora_path", "lora_base", "lora_scale", "rope_scaling_type"}
TAKEN |= {"rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor", "yarn_orig_ctx"}
NO_NUMBER = frozenset({"n_threads", "n_threads_batch", "use_mmap", "use_mlock", "numa"})
"""Arguments of ``llama_cpp.Llama`` that may be given; those of the second set change no number."""
_SHARD = re.compile(r"-\d{5}(-of-\d{5}\.gguf)$")
Tokens = tuple[int, ...]


def _library() -> Any:
    return require("llama_cpp", "llama", "the llama.cpp kernel")


class Vocabulary:
    """The vocabulary and chat template of a model, as a tokenizer of ``transformers``."""

    def __init__(self, model: Any) -> None:
        library = _library()
        self._model = model
        self._vocabulary = library.llama_model_get_vocab(model.model)
        numbers = range(model.n_vocab())
        self.all_special_ids = [n for n in numbers if library.llama_vocab_is_control(self._vocabulary, n)]
        self.end_tokens = [n for n in numbers if library.llama_vocab_is_eog(self._vocabulary, n)]
        known = (None if token < 0 else token for token in (model.token_bos(), model.token_eos()))
        self.bos_token_id, self.eos_token_id = known
        self.chat_template = model.metadata.get("tokenizer.chat_template")

    def __call__(self, texts: Sequence[str], add_special_tokens: bool = True) -> dict[str, list[list[int]]]:
        """Return the tokens of texts; names of special tokens in them are these tokens."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        return {"input_ids": [self._model.tokenize(text, add_bos=add_special_tokens, special=True) for text in encoded]}

    def convert_ids_to_tokens(self, tokens: Sequence[int]) -> list[str]:
        """Return the names of tokens."""
        get_text = _library().llama_vocab_get_text
        return [get_text(self._vocabulary, token).decode("utf-8", "replace") for token in tokens]

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of tokens."""
        size, ids = -64, (ctypes.c_int32 * len(tokens))(*tokens)
        while size < 0:  # minus the size that is needed
            buffer = ctypes.create_string_buffer(-size)
            arguments = self._vocabulary, ids, len(tokens), buffer, -size, False, not skip_special_tokens
            size = _library().llama_detokenize(*arguments)
        return buffer.raw[:size].decode("utf-8", "replace")

    def apply_chat_template(
        self, messages: Sequence[Any], add_generation_prompt: bool, chat_template: str | None = None, **arguments: Any
    ) -> str:
        """Return messages as the template writes them."""
        names = {f"{name}_token": token for name, token in (("bos", self.bos_token_id), ("eos", self.eos_token_id))}
        words = {name: "" if token is None else self.convert_ids_to_tokens([token])[0] for name, token in names.items()}
        formatter = require("llama_cpp.llama_chat_format", "llama", "a chat template").Jinja2ChatFormatter
        template = formatter(chat_template or self.chat_template, add_generation_prompt=add_generation_prompt, **words)
        return str(template(messages=messages, **arguments).prompt)


class LlamaKernel(EngineKernel):
    """A model in a GGUF file on llama.cpp; it is loaded when it is first needed.

    Args:
        spec: The file, or ``"smollm2"``. Of a model in several files, the first one.
        **options: The options of :class:`~StaICC.kernels.huggingface.prompts.KernelOptions` that concern scoring and
            length; all others are arguments of ``llama_cpp.Llama`` (``n_gpu_layers``, ``n_threads``, ``flash_attn``,
            ``type_k``, ...).

    Raises:
        ArgumentError: There is no such file, or an option has an illegal value.
        UnknownNameError: Neither the kernel nor llama.cpp has an option of this name.

    Example:
        >>> kernel = LlamaKernel("smollm2")  # doctest: +SKIP
        >>> kernel("I like it. sentiment: ", ["positive", "negative"])  # doctest: +SKIP
        [0.83, 0.17]
    """

    kind = "llama"
    option_record = KernelOptions
    _held: Tokens = ()  # the tokens whose states the engine keeps
    no_number = NO_NUMBER

    def __init__(self, spec: str, **options: Any) -> None:
        super().__init__(spec, **options)
        if self._source.where()[0] != "gguf":
            raise ArgumentError(f"llama: got the model {spec!r}, expected a .gguf file or smollm2. Use hf:{spec}")

    def _known_arguments(self) -> set[str]:
        return {*TAKEN, *NO_NUMBER}

    def identity(self) -> Identity:
        """Return the digest of the file, the engine with its arguments, and the scoring options."""
        library = _library()
        device = "gpu" if library.llama_supports_gpu_offload() else "cpu"
        return self._identity({"llama-cpp-python": str(library.__version__), "device": device})

    @property
    def recheck_tolerance(self) -> float:
        """How much a probability may differ when it is computed again in another order."""
        return 5e-2

    def _path(self) -> Path:
        return smollm2_file() if self._source.spec == "smollm2" else Path(self._source.where()[1])

    def _read_content(self) -> dict[str, str]:
        path = self._path()
        shards = sorted(path.parent.glob(_SHARD.sub(r"-*\1", path.name))) if _SHARD.search(path.name) else [path]
        return {"model": "GGUF", "files": " ".join(map(digest_of_file, shards))}

    def engine(self, positions: int = SMALLEST) -> tuple[Any, Vocabulary]:
        """Return the ``llama_cpp.Llama`` with a context of at least some positions, and its vocabulary; loads it."""
        with self._lock:
            if self._engine is None or self._engine[0].n_ctx() < positions:
                library, content = _library(), self._read_content()
                self.release()
                size = max(SMALLEST, 1 << (positions - 1).bit_length())
                threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)  # as torch
                arguments = {"n_threads": threads, "n_threads_batch": threads, "n_gpu_layers": -1, "n_ctx": size}
                arguments |= {"n_batch": AT_ONCE, "verbose": False, **self.engine_arguments}
                try:
                    model = library.Llama(str(self._path()), **arguments)
                except (TypeError, ValueError, RuntimeError, ctypes.ArgumentError) as error:
                    raise StaICCError(f"llama.cpp cannot load {self._path().name!r}: {error}") from error
                if self._read_content() != content:
                    raise StaICCError("the file of the model changed while it was loaded; load it again")
                self._engine, self._content, self._held = (model, Vocabulary(model)), content, ()
            engine: tuple[Any, Vocabulary] = self._engine
            return engine

    @property
    def tokenizer(self) -> Vocabulary:
        """The model's tokenizer; loads the model."""
        return self.engine()[1]

    def _limit(self) -> int:
        return self.options.max_length or int(_library().llama_model_n_ctx_train(self.engine()[0].model))

    def _reader(self) -> TokenKernel:
        if self._engine is not None:
            return self
        model = _library().Llama(str(self._path()), vocab_only=True, verbose=False)
        architecture = model.metadata.get("general.architecture")
        trained = model.metadata.get(f"{architecture}.context_length")
        config = SimpleNamespace(max_position_embeddings=None if trained is None else int(trained))
        return PromptReader(Vocabulary(model), config, self.options)

    def _logits(self, ids: Tokens, start: int) -> Iterator[Any]:
        """Yield the logits after each position from ``start`` on, each valid until the next one."""
        library, (model, _) = _library(), self.engine(len(ids) + 1)
        numpy, memory = require("numpy", "llama", "the llama.cpp kernel"), library.llama_get_memory(model.ctx)
        kept, self._held = min(shared_length(self._held, ids), start), ()
        if not library.llama_memory_seq_rm(memory, 0, kept, -1):  # recurrent states cannot be cut
            library.llama_memory_clear(memory, True)
            kept = 0
        for begin in range(kept, len(ids), AT_ONCE):
            part = ids[begin : begin + AT_ONCE]
            tokens = (ctypes.c_int32 * len(part))(*part)  # the batch points to it
            batch = library.llama_batch_get_one(tokens, len(part))
            wanted = range(max(start - begin, 0), len(part))
            batch.logits = (ctypes.c_int8 * len(part))(*(place in wanted for place in range(len(part))))
            if status := library.llama_decode(model.ctx, batch):
                raise StaICCError(f"llama.cpp failed with status {status} on a prompt of {len(ids)} tokens")
            for place in wanted:
                yield numpy.ctypeslib.as_array(library.llama_get_logits_ith(model.ctx, place), (model.n_vocab(),))
        self._held = ids

    def _in_order(self, sequences: Sequence[Tokens]) -> list[int]:
        """Return the numbers of the sequences in the order of their prefixes, after counting their tokens."""
        self._count(sequences)
        return sorted(range(len(sequences)), key=sequences.__getitem__)

    def _label_logits(self, sequences: Sequence[Tokens], tokens: Sequence[int], totals: bool) -> TokenLogits:
        rows: list[list[float]] = [[]] * len(sequences)
        sums = [0.0] * len(sequences)
        for number in self._in_order(sequences):
            (logits,) = self._logits(sequences[number], len(sequences[number]) - 1)
            rows[number], sums[number] = logits[list(tokens)].tolist(), _log_sum(logits)
        return TokenLogits(rows, sums if totals else None)

    def _log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Logs:
        computed = self._computed(sequences, starts, labels)
        logs: list[list[float]] = [[]] * len(sequences)
        for number in self._in_order(computed):
            following = sequences[number][starts[number] + 1 :]
            rows = self._logits(computed[number], starts[number])
            logs[number] = [float(row[token]) - _log_sum(row) for token, row in zip(following, rows, strict=True)]
        return logs

    def _continued(
        self,
        sequences: Sequence[Tokens],
        max_new_tokens: int,
        stop: Sequence[str],
        sampling: dict[str, Any],
        choices: Sequence[str],
    ) -> list[str]:
        vocabulary = self.tokenizer
        end = Ending(vocabulary, vocabulary.end_tokens, stop)
        texts = [""] * len(sequences)
        for number in self._in_order(sequences):
            self.engine(len(sequences[number]) + max_new_tokens)
            made: list[int] = []
            while len(made) < max_new_tokens and not (made and end.complete(made)):
                row = sequences[number] + tuple(made)
                (logits,) = self._logits(row, len(row) - 1)
                made.append(_chosen(logits, row, **sampling))
            self._count([], [made])
            texts[number] = Text(end.text(made), "stop" if end.complete(made) else "length")
        return texts


def _log_sum(logits: Any) -> float:
    """Return the logarithm of the sum of exponentials."""
    numpy = require("numpy", "llama", "the llama.cpp kernel")
    values = logits.astype(numpy.float64)
    top = values.max()
    return float(top + numpy.log(numpy.exp(values - top).sum()))


def _chosen(logits: Any, row: Tokens, temperature: float, seed: int) -> int:
    """Return the most probable token, or a sample that depends on the seed and the tokens before only."""
    if temperature:
        numpy = require("numpy", "llama", "the llama.cpp kernel")
        noise = numpy.random.default_rng(stable_seed(seed, row)).gumbel(size=len(logits))
        logits = logits / temperature + noise
    return int(logits.argmax())
