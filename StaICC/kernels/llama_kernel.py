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
from typing import Any, NamedTuple

from StaICC.errors import ArgumentError, StaICCError
from StaICC.inference.contract import Text
from StaICC.inference.identity import Identity
from StaICC.kernels.engine import EngineKernel
from StaICC.kernels.huggingface.forward import TokenLogits
from StaICC.kernels.huggingface.generation import StoppingCriterion
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
TAKEN = frozenset(
    {
        # Where the model is computed.
        *("n_gpu_layers", "split_mode", "main_gpu", "tensor_split", "offload_kqv", "op_offload", "flash_attn"),
        # The type of the cache, changes of the file's entries, and adapters.
        *("type_k", "type_v", "kv_overrides", "lora_path", "lora_base", "lora_scale"),
        # Positions.
        *("rope_scaling_type", "rope_freq_base", "rope_freq_scale"),
        *("yarn_ext_factor", "yarn_attn_factor", "yarn_orig_ctx"),
    }
)
"""Arguments of ``llama_cpp.Llama`` that may be given and may change a number."""
NO_NUMBER = frozenset({"n_threads", "n_threads_batch", "use_mmap", "use_mlock", "numa"})
"""Arguments of ``llama_cpp.Llama`` that may be given and change no number."""
_SHARD = re.compile(r"-\d{5}(-of-\d{5}\.gguf)$")
"""The end of the name of a file with a part of a model, such as ``-00001-of-00003.gguf``."""
Tokens = tuple[int, ...]


def _without_number(name: str) -> str | None:
    """Return the name of a file with a part of a model without the number of the part; ``None`` for other files."""
    if _SHARD.search(name) is None:
        return None
    return _SHARD.sub(r"\1", name)


def _library() -> Any:
    """Return the package llama_cpp."""
    return require("llama_cpp", "llama", "the llama.cpp kernel")


class Vocabulary:
    """The vocabulary and chat template of a model, as a tokenizer of ``transformers``."""

    def __init__(self, model: Any) -> None:
        """Read the special tokens and the chat template of a model, a ``llama_cpp.Llama``."""
        library = _library()
        self._model = model
        self._vocabulary = library.llama_model_get_vocab(model.model)
        self.all_special_ids: list[int] = []
        self.end_tokens: list[int] = []
        for token in range(model.n_vocab()):
            if library.llama_vocab_is_control(self._vocabulary, token):
                self.all_special_ids.append(token)
            if library.llama_vocab_is_eog(self._vocabulary, token):
                self.end_tokens.append(token)
        self.bos_token_id = _token_or_none(model.token_bos())
        self.eos_token_id = _token_or_none(model.token_eos())
        self.chat_template = model.metadata.get("tokenizer.chat_template")

    def __call__(self, texts: Sequence[str], add_special_tokens: bool = True) -> dict[str, list[list[int]]]:
        """Return the tokens of texts, as a tokenizer of transformers does.

        A name of a special token that is in a text, such as ``<|im_start|>``, becomes that token.

        Args:
            texts: The texts.
            add_special_tokens: Whether the token that begins a text is added.
        """
        rows = []
        for text in texts:
            encoded = text.encode("utf-8", "surrogatepass")
            rows.append(self._model.tokenize(encoded, add_bos=add_special_tokens, special=True))
        return {"input_ids": rows}

    def convert_ids_to_tokens(self, tokens: Sequence[int]) -> list[str]:
        """Return the names of tokens."""
        get_text = _library().llama_vocab_get_text
        return [get_text(self._vocabulary, token).decode("utf-8", "replace") for token in tokens]

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of tokens."""
        library = _library()
        token_array = (ctypes.c_int32 * len(tokens))(*tokens)
        buffer_size = 64
        while True:
            buffer = ctypes.create_string_buffer(buffer_size)
            text_size = library.llama_detokenize(
                self._vocabulary, token_array, len(tokens), buffer, buffer_size, False, not skip_special_tokens
            )
            if text_size >= 0:
                return buffer.raw[:text_size].decode("utf-8", "replace")
            buffer_size = -text_size  # the buffer was too small: llama.cpp returns minus the size that it needs

    def apply_chat_template(
        self, messages: Sequence[Any], add_generation_prompt: bool, chat_template: str | None = None, **arguments: Any
    ) -> str:
        """Return messages as the template writes them."""
        formatter = require("llama_cpp.llama_chat_format", "llama", "a chat template").Jinja2ChatFormatter
        template = formatter(
            chat_template or self.chat_template,
            bos_token=self._token_text(self.bos_token_id),
            eos_token=self._token_text(self.eos_token_id),
            add_generation_prompt=add_generation_prompt,
        )
        return str(template(messages=messages, **arguments).prompt)

    def _token_text(self, token: int | None) -> str:
        """Return the name of a special token; an empty text if the model has no such token."""
        if token is None:
            return ""
        (name,) = self.convert_ids_to_tokens([token])
        return name


def _token_or_none(token: int) -> int | None:
    """Return a special token; None if the model has none, for which llama.cpp has a negative number."""
    if token < 0:
        return None
    return token


class LlamaEngine(NamedTuple):
    """A model in memory."""

    model: Any
    """The ``llama_cpp.Llama``."""
    vocabulary: Vocabulary


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
    _tokens_in_memory: Tokens = ()
    """The tokens whose states the engine has in its memory."""
    no_number = NO_NUMBER

    def __init__(self, spec: str, **options: Any) -> None:
        super().__init__(spec, **options)
        if self._source.location().kind != "gguf":
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
        """Return the file of the model; of several files the first one."""
        if self._source.spec == "smollm2":
            return smollm2_file()
        return Path(self._source.location().name)

    def _read_content(self) -> dict[str, str]:
        """Return the digest of the file; of a model in several files, the digests of all in order."""
        path = self._path()
        files = [path]
        if _SHARD.search(path.name):
            name_of_model = _without_number(path.name)
            files = sorted(file for file in path.parent.iterdir() if _without_number(file.name) == name_of_model)
        return {"model": "GGUF", "files": " ".join(digest_of_file(file) for file in files)}

    def engine(self, positions: int = SMALLEST) -> LlamaEngine:
        """Return the engine with a context of at least some positions.

        It is loaded when it is first needed, and once more if its context is smaller.

        Args:
            positions: The number of positions.

        Raises:
            StaICCError: llama.cpp cannot load the model, or its file changed while it was loaded.
        """
        with self._lock:
            if self._engine is None or self._engine.model.n_ctx() < positions:
                content = self._read_content()
                self.release()
                model = self._load(positions)
                if self._read_content() != content:
                    raise StaICCError("the file of the model changed while it was loaded; load it again")
                self._engine = LlamaEngine(model, Vocabulary(model))
                self._content = content  # what was loaded, for the identity
                self._tokens_in_memory = ()  # the new engine has computed no tokens
            engine: LlamaEngine = self._engine
            return engine

    def _load(self, positions: int) -> Any:
        """Return the ``llama_cpp.Llama`` with a context of at least some positions, rounded up to a power of two.

        Raises:
            StaICCError: llama.cpp cannot load it.
        """
        power_of_two = 1 << (positions - 1).bit_length()
        context_size = max(SMALLEST, power_of_two)
        # As many threads as torch uses.
        threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        arguments = {
            "n_threads": threads,
            "n_threads_batch": threads,
            "n_gpu_layers": -1,  # all
            "n_ctx": context_size,
            "n_batch": AT_ONCE,
            "verbose": False,
            **self.engine_arguments,
        }
        path = self._path()
        try:
            return _library().Llama(str(path), **arguments)
        except (TypeError, ValueError, RuntimeError, ctypes.ArgumentError) as error:
            raise StaICCError(f"llama.cpp cannot load {path.name!r}: {error}") from error

    @property
    def tokenizer(self) -> Vocabulary:
        """The model's tokenizer; loads the model."""
        return self.engine().vocabulary

    def _limit(self) -> int:
        """Return the maximum number of tokens of a prompt: the given ``max_length``, or the model's own context."""
        if self.options.max_length:
            return self.options.max_length
        llama = self.engine().model
        return int(_library().llama_model_n_ctx_train(llama.model))  # the pointer to the model in C

    def _reader(self) -> TokenKernel:
        """Return what reads prompts: this kernel, or if it is not loaded a reader of the vocabulary alone."""
        if self._engine is not None:
            return self
        model = _library().Llama(str(self._path()), vocab_only=True, verbose=False)
        architecture = model.metadata.get("general.architecture")
        context_length = model.metadata.get(f"{architecture}.context_length")
        if context_length is not None:
            context_length = int(context_length)
        config = SimpleNamespace(max_position_embeddings=context_length)
        return PromptReader(Vocabulary(model), config, self.options)

    def _logits(self, sequence: Tokens, first_wanted: int) -> Iterator[Any]:
        """Yield the logits of the vocabulary after each wanted position of a sequence, as an array.

        An array is valid until the next one is yielded. All arrays must be taken, since the last positions are computed
        only then.

        Args:
            sequence: The token sequence.
            first_wanted: The first wanted position; all positions after it are wanted, too.

        Raises:
            StaICCError: llama.cpp failed.
        """
        library = _library()
        numpy = require("numpy", "llama", "the llama.cpp kernel")
        model = self.engine(len(sequence) + 1).model
        positions_in_memory = self._keep_shared_states(model, sequence, first_wanted)
        for chunk_start in range(positions_in_memory, len(sequence), AT_ONCE):
            chunk = sequence[chunk_start : chunk_start + AT_ONCE]
            first_wanted_in_chunk = max(first_wanted - chunk_start, 0)
            is_wanted = [index >= first_wanted_in_chunk for index in range(len(chunk))]
            # The batch points to these arrays, so they must live as long.
            token_array = (ctypes.c_int32 * len(chunk))(*chunk)
            wanted_array = (ctypes.c_int8 * len(chunk))(*is_wanted)
            batch = library.llama_batch_get_one(token_array, len(chunk))
            batch.logits = wanted_array
            status = library.llama_decode(model.ctx, batch)
            if status:
                raise StaICCError(f"llama.cpp failed with status {status} on a prompt of {len(sequence)} tokens")
            for index in range(first_wanted_in_chunk, len(chunk)):
                logits = library.llama_get_logits_ith(model.ctx, index)
                yield numpy.ctypeslib.as_array(logits, (model.n_vocab(),))
        self._tokens_in_memory = sequence

    def _keep_shared_states(self, model: Any, sequence: Tokens, first_wanted: int) -> int:
        """Cut the states in the engine's memory to those of the beginning that a sequence shares with the one before.

        Args:
            model: The ``llama_cpp.Llama``.
            sequence: The token sequence.
            first_wanted: The first position whose logits are wanted, which must be computed again.

        Returns:
            The number of positions of the sequence whose states are in the memory.
        """
        library = _library()
        memory = library.llama_get_memory(model.ctx)
        kept_positions = min(shared_length(self._tokens_in_memory, sequence), first_wanted)
        # The computation of the sequence may fail. Until it is complete, no state in the memory is relied upon.
        self._tokens_in_memory = ()
        is_cut = library.llama_memory_seq_rm(memory, 0, kept_positions, -1)
        if not is_cut:  # recurrent states cannot be cut
            library.llama_memory_clear(memory, True)
            return 0
        return kept_positions

    def _in_order_of_prefixes(self, sequences: Sequence[Tokens]) -> list[int]:
        """Return the indexes of sequences in the order in which they are computed; their tokens are counted as read.

        In sorted order, a sequence follows the one with which it shares its longest prefix.
        """
        self._count(sequences)
        return sorted(range(len(sequences)), key=lambda index: sequences[index])

    def _label_logits(self, sequences: Sequence[Tokens], tokens: Sequence[int], totals: bool) -> TokenLogits:
        """Return the logits of tokens after each sequence, and if ``totals`` those of the vocabulary added up.

        Args:
            sequences: The token sequences.
            tokens: The tokens whose logits are wanted.
            totals: Whether the log of the sum of the exponentials of all logits is wanted, too.
        """
        rows: list[list[float]] = [[] for _ in sequences]
        log_totals = [0.0] * len(sequences)
        for index in self._in_order_of_prefixes(sequences):
            sequence = sequences[index]
            (logits,) = self._logits(sequence, first_wanted=len(sequence) - 1)
            rows[index] = logits[list(tokens)].tolist()
            log_totals[index] = _log_sum(logits)
        if not totals:
            return TokenLogits(rows, log_totals=None)
        return TokenLogits(rows, log_totals)

    def _log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Logs:
        """Return the log-probabilities of the tokens of each sequence after a position.

        Args:
            sequences: The token sequences.
            starts: For each sequence, the position before its first scored token.
            labels: Whether the scored tokens are labels after a prompt; not used here.
        """
        read_sequences = self._tokens_to_read(sequences, starts, labels)
        log_probabilities: list[list[float]] = [[] for _ in sequences]
        for index in self._in_order_of_prefixes(read_sequences):
            start = starts[index]
            scored_tokens = sequences[index][start + 1 :]
            # The logits after a position predict the token at the next position.
            logits_before_tokens = self._logits(read_sequences[index], first_wanted=start)
            for token, logits in zip(scored_tokens, logits_before_tokens, strict=True):
                log_probabilities[index].append(float(logits[token]) - _log_sum(logits))
        return log_probabilities

    def _continued(
        self,
        sequences: Sequence[Tokens],
        max_new_tokens: int,
        stop: Sequence[str],
        sampling: dict[str, Any],
        choices: Sequence[str],
    ) -> list[str]:
        """Return the texts that continue token sequences, computed one sequence after the other.

        Args:
            sequences: The tokens of each prompt.
            max_new_tokens: Maximum number of tokens of a continuation.
            stop: Texts before which a continuation ends.
            sampling: The temperature and the seed, by name.
            choices: Empty: llama.cpp is used without guided texts.
        """
        vocabulary = self.tokenizer
        stopping = StoppingCriterion(vocabulary, vocabulary.end_tokens, stop)
        texts = [""] * len(sequences)
        for index in self._in_order_of_prefixes(sequences):
            new_tokens = self._continuation(sequences[index], max_new_tokens, stopping, sampling)
            finish_reason = "stop" if stopping.is_complete(new_tokens) else "length"
            texts[index] = Text(stopping.text(new_tokens), finish_reason)
        return texts

    def _continuation(
        self, sequence: Tokens, max_new_tokens: int, stopping: StoppingCriterion, sampling: dict[str, Any]
    ) -> list[int]:
        """Return the new tokens that continue a sequence.

        Args:
            sequence: The token sequence.
            max_new_tokens: Maximum number of new tokens, at least 1.
            stopping: When the continuation is complete.
            sampling: The temperature and the seed, by name.
        """
        # One context for the whole text, so that it is not made again while the text grows.
        self.engine(len(sequence) + max_new_tokens)
        new_tokens: list[int] = []
        while len(new_tokens) < max_new_tokens:
            tokens_before = sequence + tuple(new_tokens)
            (logits,) = self._logits(tokens_before, first_wanted=len(tokens_before) - 1)
            new_tokens.append(_next_token(logits, tokens_before, **sampling))
            if stopping.is_complete(new_tokens):
                break
        self._count([], [new_tokens])
        return new_tokens


def _log_sum(logits: Any) -> float:
    """Return the logarithm of the sum of the exponentials of logits."""
    numpy = require("numpy", "llama", "the llama.cpp kernel")
    values = logits.astype(numpy.float64)
    largest = values.max()  # subtracted, so that no exponential overflows
    return float(largest + numpy.log(numpy.exp(values - largest).sum()))


def _next_token(logits: Any, tokens_before: Tokens, temperature: float, seed: int) -> int:
    """Return the most probable token, or a sample that depends on the seed and the tokens before only.

    The sample is drawn with the Gumbel-max trick: ``argmax(logit / temperature + g)``, with Gumbel noise ``g``, has the
    probabilities ``softmax(logits / temperature)``.
    """
    if temperature:
        numpy = require("numpy", "llama", "the llama.cpp kernel")
        random = numpy.random.default_rng(stable_seed(seed, tokens_before))
        logits = logits / temperature + random.gumbel(size=len(logits))
    return int(logits.argmax())
