"""One forward call of a causal language model of ``transformers``, checked against its own numbers.

Only this module calls the model. There are three kinds of calls:

- **plain batch**: sequences padded on the right. With causal attention (or a recurrence) no later position can change
  an earlier one, so no mask is needed, whatever the family and the kind of positions;
- **packed batch**: tree-shaped rows (see ``batching``), each with its mask and its position numbers; one below the
  other with padding, or one after the other without;
- **over a prefix**: one packed row that continues a cached prefix.

The last two need a model that takes a four-dimensional mask, position numbers and a key-value cache, and label scores
can be read off a few rows of the output matrix only if the logits are a plain product. Families and releases of
``transformers`` differ in this. Therefore the same short sequences are computed in both ways, and a way that raises or
returns other numbers is not used. The trial is repeated whenever the model changed, and the first batch of every run is
compared with plain calls of the model on a prompt of that run (``batching``).

A model with hooks or replaced methods of its user is run plainly, one prompt at a time: what they do may depend on what
else is in the batch.

**Compiled layers.** Normalisation, rotary positions, activation functions and additions read and write every number
once per operator, and in bfloat16 on a CPU they take as long as the matrix products. ``torch.compile`` fuses them. The
code is made for one layer and for sequences of any length; all layers of its class share it. It is used in packed
batches only, so the model remains as it is.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from StaICC.errors import RunEndingError
from StaICC.kernels.huggingface import text_config, torch
from StaICC.kernels.huggingface.live_state import HOOKS, is_library_code
from StaICC.kernels.huggingface.token_trie import TrieRow
from StaICC.kernels.huggingface.torch_replacements import Segment, fast_products, segmented_attention, uses_onednn

MOST_COMPILED = 256
"""Maximum number of variants of one layer's code in a process: for number types, sizes, and settings of models."""
CHUNK = 1 << 23
"""Most logits that are held at once where only sums over the vocabulary are wanted."""

PAIR_COST = 2.0
"""How much slower attention handles a floating-point operation than a matrix product does, for planning only."""
ADAPTERS = ("_active_adapter", "_disable_adapters", "merged_adapters")
"""Attributes of modules with adapters of peft that say which of them are used."""
TRANSFORMS: dict[str, Callable[[Any, float], Any]] = {
    "final_logit_softcapping": lambda logits, cap: (logits / cap).tanh() * cap,
    "logit_scale": lambda logits, scale: logits * scale,
    "logits_scaling": lambda logits, divisor: logits / divisor,
}
"""What models are known to do to their logits after the product, by the setting that says how much."""


@dataclass(frozen=True, slots=True)
class TokenLogits:
    """Logits of some tokens at several positions.

    Attributes:
        rows: For each position, the logit of each token.
        log_totals: For each position, the log of the sum of the exponentials of all logits of the vocabulary; None
            where it was not computed.
    """

    rows: list[list[float]]
    log_totals: list[float] | None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on any device.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("mask"))
        (True, False)
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in said or "can't allocate memory" in said)


@dataclass(slots=True)
class Capabilities:
    """What a model does right; shared by all kernels of the model, and found again when the model changed.

    The default is what every model can do: one plain call for each prompt.
    """

    guard: int
    """What the model looked like when this was found."""
    vocabulary: int
    """Number of rows of the output matrix."""
    reason: str = ""
    """Why each prompt is run alone, through the complete model; empty if prompts are batched."""
    head: Literal["rows", "module", "model"] = "model"
    """``"rows"``: logits are hidden state times rows of a matrix, then ``transform``; ``"module"``: the head has to be
    called whole; ``"model"``: the whole model has to be run for its logits."""
    transform: str = ""
    """Name of what is done to the logits after the product, in :data:`TRANSFORMS`; empty for nothing."""
    sharing: bool = False
    """Tree-shaped rows, and rows that continue a cached prefix, have the same hidden states as plain ones."""
    flat: bool = False
    """Packed rows can follow each other in one sequence, and attention computes each row alone."""
    onednn: bool = False
    """Products of float32 matrices are computed by oneDNN."""
    attention_weight: float = 0.0
    """Cost of an attended pair in units of a position outside attention."""
    checked: int = 0
    """What was compared with a plain call on a prompt of this run: 1 for a prompt alone, 2 for a batch."""

    def run_alone(self, reason: str) -> None:
        """Run each prompt alone from now on."""
        self.reason, self.head, self.transform = reason, "model", ""
        self.sharing = self.flat = self.onednn = False


class Forward:
    """Runs a model in the ways that return its own numbers, which are found out first.

    What it computes at a position is the last hidden state; where the head is ``"model"``, followed by the logits.

    Args:
        model: A causal language model of ``transformers``.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        first = next(model.parameters())
        self.device = first.device
        self.dtype = first.dtype
        self.is_exact = first.dtype in (torch.float32, torch.float64)
        self.body: Any = _body(model)
        self.compiled: list[tuple[Any, Any]] | None = None
        """The layers with their compiled code."""
        accepted = inspect.signature((model if self.body is None else self.body).forward).parameters
        # transformers 5.24 has a new name, and warns of the old one.
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self.exact_to, self.same_to = limits(model)
        text = text_config(model.config)
        self.transforms = [name for name in TRANSFORMS if getattr(text, name, None)]
        self.stretching = [module for module in model.modules() if getattr(module, "rope_type", None) == "dynamic"]
        self.can = Capabilities(0, int(getattr(text, "vocab_size", 0) or 50_000))
        self.can.onednn = self.device.type == "cpu" and self.dtype is torch.float32 and uses_onednn()

    # Rows in, hidden states out

    def padded(self, rows: Sequence[TrieRow], cache: Any = None) -> Any:
        """Plain or packed batch; states of shape (rows, longest row, width), meaningless at padding.

        Args:
            rows: Rows without a prefix, all of them plain sequences or none; or one row that continues a cached prefix.
            cache: The cache of the prefix, which grows by the row's positions.
        """
        self.ends = range(len(rows)), [len(row.tokens) - 1 for row in rows]
        longest = max(len(row.tokens) for row in rows)

        def filled(lists: Iterable[Sequence[int]], padding: Sequence[int]) -> list[list[int]]:
            return [[*values, *padding[len(values) :]] for values in lists]

        ids = filled((row.tokens for row in rows), [0] * longest)
        if cache is None and rows[0].is_chain:  # no mask is needed
            return self.call(ids)
        # Padding attends to itself.
        allowed = self.tree_mask(filled((row.subtree_ends() for row in rows), range(1, longest + 1)))
        allowed = torch.nn.functional.pad(allowed, (len(rows[0].prefix), 0), value=True)
        depths = filled((row.depths for row in rows), [0] * longest)
        return self.call(ids, self.additive(allowed[:, None]), depths, cache)

    def flat(self, rows: Sequence[TrieRow]) -> Any:
        """Rows without a prefix, one after the other in one sequence; states of shape (1, positions, width)."""
        segments: list[Segment] = []
        total = sum(len(row.tokens) for row in rows)
        start = 0
        for row in rows:
            end, chain = start + len(row.tokens), start + row.chain
            segments.append((start, start, chain, None))
            if chain < end:
                allowed = self.tree_mask(row.subtree_ends())[None, None, row.chain :]
                segments.append((start, chain, end, self.additive(allowed)))
            start = end
        ids = [token for row in rows for token in row.tokens]
        positions = [depth for row in rows for depth in row.depths]
        # One position alone needs no segments, and transformers takes the heads of a group for positions there.
        value = torch.nan if total > 1 else 0.0
        every = torch.full((1, 1, 1, 1), value, dtype=self.dtype, device=self.device).expand(1, 1, total, total)
        with segmented_attention(every, segments), contextlib.ExitStack() as stack:
            for layer, code in self.compiled or []:
                stack.callback(setattr, layer, "_compiled_call_impl", layer._compiled_call_impl)
                layer._compiled_call_impl = code
            if self.compiled:
                stack.enter_context(torch._dynamo.config.patch(recompile_limit=MOST_COMPILED))
            return self.call([ids], every, [positions])

    def tree_mask(self, ends: Sequence[Any]) -> Any:
        """Which position of a row may attend to which, from the ends of their subtrees (..., positions)."""
        places = torch.tensor(ends, device=self.device)
        index = torch.arange(places.shape[-1], device=self.device)
        return (index <= index[:, None]) & (index[:, None] < places[..., None, :])

    def additive(self, allowed: Any) -> Any:
        """A boolean mask as what is added to the attention scores."""
        mask = torch.zeros(allowed.shape, dtype=self.dtype, device=self.device)
        return mask.masked_fill_(~allowed.to(self.device), torch.finfo(self.dtype).min)

    def call(
        self, ids: Sequence[Sequence[int]], mask: Any = None, positions: Sequence[Any] | None = None, cache: Any = None
    ) -> Any:
        """Run the body of the model, or all of it where its head cannot be separated.

        Args:
            ids: The tokens, (rows, positions).
            mask: What is added to the attention scores.
            positions: The position numbers, with a mask.
            cache: What the tokens continue; it grows by them.
        """
        embedding = getattr(self.model, "get_input_embeddings", lambda: None)()
        if embedding is not None and hasattr(embedding, "weight"):
            check_range([max(row) for row in ids], len(embedding.weight))
        tensor = functools.partial(torch.tensor, device=self.device)
        arguments: dict[str, Any] = {"input_ids": tensor(ids), "use_cache": cache is not None}
        if mask is not None:
            arguments |= {"attention_mask": mask, "position_ids": tensor(positions)}
        if cache is not None:
            arguments[self._cache_name] = cache
        with torch.inference_mode(), self.fast():
            hidden = self._run(arguments)
        # Virtual tokens (prompt tuning of peft) precede the input in the output.
        return hidden[:, -len(ids[0]) :]

    def _run(self, arguments: dict[str, Any]) -> Any:
        self._forget_length()
        if self.can.head != "model":
            return self.body(**arguments).last_hidden_state
        # The last hidden states are the input of the output matrix, whatever hooks do.
        inputs: list[Any] = []
        head = getattr(self.model, "get_output_embeddings", lambda: None)()
        handle = head and head.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        try:
            output = self.model(**arguments, output_hidden_states=True)
        finally:
            if handle:
                handle.remove()
        logits = output.logits
        fits = inputs and inputs[-1].shape[:2] == logits.shape[:2]
        states = inputs[-1] if fits else output.hidden_states[-1]  # a model's own class may return none
        self.can.vocabulary = logits.shape[-1]
        return torch.cat([states.to(logits.device), logits], -1)

    def _forget_length(self) -> None:
        """Stretch positions for the next input alone; such models remember the longest one since a short one."""
        for module in self.stretching:
            module.inv_freq, module.max_seq_len_cached = module.original_inv_freq, module.original_max_seq_len

    def states(self, hidden: Any) -> Any:
        """Return the hidden states at the given positions, a float32 tensor (positions, width) on the CPU."""
        return (hidden[..., : -self.can.vocabulary] if self.can.head == "model" else hidden).float().cpu()

    def plain_logits(self, tokens: Sequence[int]) -> Any:
        """Logits of one plain call, ``model(input_ids)``: a float32 tensor (positions, vocabulary)."""
        self._forget_length()
        with torch.inference_mode():
            ids = torch.tensor([list(tokens)], device=self.device)
            return self.model(input_ids=ids, use_cache=False).logits[0, -len(tokens) :].float()

    def fast(self) -> AbstractContextManager[Any]:
        """Return a context in which matrix products use the library that suits the processor."""
        # Compiled code has its own.
        return fast_products() if self.can.onednn and self.compiled is None else nullcontext()

    def logits(self, hidden: Any, tokens: Sequence[int] | None = None) -> Any:
        """Logits at the given positions, in float32.

        Args:
            hidden: What was computed at the positions, (positions, width).
            tokens: The tokens whose logits are wanted; None for the whole vocabulary.

        Returns:
            Tensor (positions, tokens).
        """
        with torch.inference_mode(), self.fast():
            head = None if self.can.head == "model" else self.model.get_output_embeddings()
            if head is None or self.can.head == "module" or tokens is None:
                whole = hidden[..., -self.can.vocabulary :] if head is None else head(hidden)
                whole = self.transformed(whole.float())
                if tokens is None:
                    return whole
                check_range(tokens, whole.shape[-1])
                return whole[:, list(tokens)]
            check_range(tokens, len(head.weight))
            rows = torch.tensor(list(tokens), device=head.weight.device)
            product = hidden.float() @ head.weight[rows].float().t()
            return self.transformed(product if head.bias is None else product + head.bias[rows].float())

    def pieces(self, hidden: Any) -> Iterator[tuple[int, Any]]:
        """Logits of the whole vocabulary in pieces that fit into memory, with the index where each begins."""
        step = max(1, CHUNK // self.can.vocabulary)
        for start in range(0, len(hidden), step):
            yield start, self.logits(hidden[start : start + step])

    def whole(self, hidden: Any) -> Any:
        """Logits of the whole vocabulary, a float32 tensor (positions, vocabulary) on the CPU."""
        with torch.inference_mode():
            return torch.cat([logits.cpu() for _, logits in self.pieces(hidden)])

    def rows(self, hidden: Any, tokens: Sequence[int], totals: bool) -> TokenLogits:
        """Return the logits of some tokens at each position, with the vocabulary's total if ``totals``."""
        with torch.inference_mode():
            rows = self.logits(hidden, tokens).double().tolist()
            if not totals:
                return TokenLogits(rows, None)
            log_totals = [logits.logsumexp(-1).double() for _, logits in self.pieces(hidden)]
            return TokenLogits(rows, torch.cat(log_totals).tolist())

    def transformed(self, logits: Any) -> Any:
        """Do to the product what the model does."""
        name = self.can.transform
        return TRANSFORMS[name](logits, getattr(text_config(self.model.config), name)) if name else logits

    def attention_weight(self) -> float:
        """Cost of an attended pair over that of a position, from the sizes of the model."""
        text = _layer_configs(self.model.config)[0]
        sizes = {"hidden_size": 1024, "num_hidden_layers": 1}
        width, layers = (getattr(text, name, None) or usual for name, usual in sizes.items())
        inside = sum(weight.numel() for weight in self.body.parameters())
        inside -= self.body.get_input_embeddings().weight.numel()
        return float(PAIR_COST * 4.0 * width * layers / max(2.0 * inside, 1.0))

    def compile(self) -> None:
        """Compile the layers. The first batch of a run compares them with plain calls of the model.

        Raises:
            RunEndingError: They cannot be compiled.
        """
        kinds = set(getattr(self.model, "_no_split_modules", None) or ())
        layers = [module for module in self.model.modules() if type(module).__name__ in kinds]
        try:
            if self.can.reason or not (self.can.flat and layers):
                attention = getattr(self.model.config, "_attn_implementation", None)
                needed = f"needs layers on a CPU with 'sdpa': got {len(layers)} on {self.device} with {attention!r}"
                raise RuntimeError(self.can.reason or needed)
            self.compiled = [(layer, torch.compile(layer.forward, dynamic=True, fullgraph=True)) for layer in layers]
            self.flat([TrieRow((5, 6, 8, 9), (0, 1, 2, 2), {})])
        except Exception as error:
            self.compiled = None
            if is_out_of_memory(error):
                raise
            name, reason = type(self.model).__name__, str(error).strip().partition("\n")[0]
            raise RunEndingError(
                f"got compile=True, but {name} cannot be compiled here ({reason}). Leave the option out"
            ) from error


def check_range(tokens: Sequence[int], size: int) -> None:
    """Refuse tokens that an embedding or an output matrix of this size has no row for.

    Raises:
        RunEndingError: The tokenizer has more tokens than the model.
    """
    largest = max(tokens, default=0)
    if largest >= size:
        raise RunEndingError(
            f"the tokenizer has a token with the number {largest}, but the model knows {size} tokens only. Load the "
            "tokenizer that belongs to the model, or train it after model.resize_token_embeddings(len(tokenizer))"
        )


def _body(model: Any) -> Any:
    """Return the part of a model below its output head, or None."""
    unwrap = getattr(model, "get_base_model", None)  # of peft: the model into which adapters were put
    if callable(unwrap):
        model = unwrap()
    body = getattr(model, "base_model", None)
    if body is None or body is model:
        get = getattr(model, "get_decoder", None)
        body = get() if callable(get) else None
    return None if body is model else body


def guard(model: Any) -> int:
    """A cheap number that changes with what a model is made of, its hooks, adapters, and recorded changes of weights.

    It does not show changes of weights that bypass torch's version counters (through ``.data``). The identity, which is
    computed for every run, shows them, and cached prefixes are protected by a checksum of the weights.
    """
    parts: list[Any] = [getattr(model.config, "_attn_implementation", None), limits(model)]
    for holder in (text_config(model.config), model):  # some models copy them from the configuration
        parts += [getattr(holder, name, None) for name in TRANSFORMS]
    for module in model.modules():
        state = module.__dict__
        parts += [id(module), "forward" in state, *(str(state.get(name)) for name in ADAPTERS)]
        parts += [(kind, key) for kind in HOOKS for key, hook in state[kind].items() if not is_library_code(hook)]
        for tensor in (*state["_parameters"].values(), *state["_buffers"].values()):
            if tensor is not None:
                version = tensor.is_inference() or tensor._version
                parts.append((id(tensor), version, tensor.dtype, tensor.device))
    return hash(tuple(parts))


def _layer_configs(config: Any) -> list[Any]:
    """The configuration of each layer where they differ (Gemma 4); otherwise the one of all layers."""
    text = text_config(config)
    return list(text.per_layer_config) if getattr(text, "is_heterogeneous", False) else [text]


def limits(model: Any) -> tuple[float, float]:
    """Lengths up to which sharing is exact (windows) and up to which batching is (positions that are stretched)."""
    text = text_config(model.config)
    window = math.inf
    for layer in _layer_configs(model.config):
        for name in ("sliding_window", "attention_chunk_size", "window_size"):
            value = getattr(layer, name, None)
            if isinstance(value, int) and value > 0 and getattr(layer, "use_sliding_window", True):
                window = min(window, value)
    # GPT-Neo counts its windows, and Llama 4 scales its queries, by places in the row instead of position numbers.
    if "local" in getattr(text, "attention_layers", ()) or getattr(text, "attn_temperature_tuning", False):
        window = 0
    stretched = math.inf
    for rope in (getattr(text, "rope_scaling", None), getattr(text, "rope_parameters", None)):
        if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope", "su"):
            original = rope.get("original_max_position_embeddings") or getattr(
                text, "original_max_position_embeddings", None
            )
            stretched = min(stretched, original or getattr(text, "max_position_embeddings", 0) or 0)
    return min(window, stretched), stretched
