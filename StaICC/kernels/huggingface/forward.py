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
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
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
"""Most logits that are held at once where only sums over the vocabulary are wanted: 32 MiB in float32."""
PAIR_COST = 2.0
"""How much slower attention handles a floating-point operation than a matrix product does. Used for planning only."""
ADAPTERS = ("_active_adapter", "_disable_adapters", "merged_adapters")
"""Attributes of modules with adapters of peft that say which of them are used."""
TRANSFORMS: dict[str, Callable[[Any, float], Any]] = {
    "final_logit_softcapping": lambda logits, cap: (logits / cap).tanh() * cap,
    "logit_scale": lambda logits, scale: logits * scale,
    "logits_scaling": lambda logits, divisor: logits / divisor,
}
"""What models are known to do to their logits after the product with the output matrix, by the name of the setting in
the configuration that says how much."""
STRETCHED_ROPES = ("dynamic", "longrope", "su")
"""Kinds of rotary positions whose frequencies depend on the length of the input."""


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
    """Return whether an exception says that memory ran out, on any device.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("mask"))
        (True, False)
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if not isinstance(error, RuntimeError):
        return False
    message = str(error).lower()
    return "out of memory" in message or "can't allocate memory" in message


@dataclass(slots=True)
class Capabilities:
    """In which ways a model may be run; shared by all kernels of the model, and found again when the model changed.

    The default is what every model can do: one plain call for each prompt.
    """

    fingerprint: int
    """The number of :func:`fingerprint` when this was found."""
    vocabulary: int
    """Number of rows of the output matrix."""
    reason: str = ""
    """Why each prompt is run alone, through the complete model; empty if prompts are batched."""
    head: Literal["rows", "module", "model"] = "model"
    """How logits are computed. ``"rows"``: the hidden state times rows of a matrix, then ``transform``; ``"module"``:
    the head is called for the whole vocabulary; ``"model"``: the whole model is run."""
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
    checked_sequences: int = 0
    """The number of sequences of the largest run that was compared with plain calls of the model, since
    :meth:`forget_checks`; 2 means two or more."""

    def needs_check(self, sequence_count: int) -> bool:
        """Return whether a run of this number of sequences must be compared with a plain call of the model.

        The first run since :meth:`forget_checks` must. If it had one sequence, which is no batch, the first run with
        several must, too.
        """
        return self.checked_sequences < min(sequence_count, 2)

    def note_check(self, sequence_count: int) -> None:
        """Note that one of this number of sequences was compared with a plain call."""
        self.checked_sequences = min(sequence_count, 2)

    def forget_checks(self) -> None:
        """Let the next sequences be compared again."""
        self.checked_sequences = 0

    @property
    def runs_alone(self) -> bool:
        """Whether each prompt is run alone, and read in full."""
        return self.reason != ""

    def run_alone(self, reason: str) -> None:
        """Run each prompt alone from now on."""
        self.reason = reason
        self.head = "model"
        self.transform = ""
        self.sharing = False
        self.flat = False
        self.onednn = False


class Forward:
    """Calls a model in the ways that return the numbers of a plain call. The caller finds out which ones do.

    These are its ``capabilities``. A call computes the last hidden state at each position. Where the whole model is
    called (``capabilities.head`` is ``"model"``), each state is followed by the logits of its position.
    """

    def __init__(self, model: Any) -> None:
        """Read from a model what its calls need: device, number type, length limits, names of arguments.

        Nothing is computed. Until the caller has tried which ways of computing are right, none of them is allowed
        (:class:`Capabilities`).

        Args:
            model: A causal language model of ``transformers``.
        """
        self.model = model
        first_parameter = next(model.parameters())
        self.device = first_parameter.device
        self.dtype = first_parameter.dtype
        self.is_exact = self.dtype in (torch.float32, torch.float64)
        self.body: Any = _body(model)
        self.compiled: list[tuple[Any, Any]] | None = None
        """The layers with their compiled code."""
        called = model if self.body is None else self.body
        accepted_arguments = inspect.signature(called.forward).parameters
        # transformers 5.24 has a new name, and warns of the old one.
        self._cache_name = "cache" if "cache" in accepted_arguments else "past_key_values"
        self.limits = length_limits(model)
        text = text_config(model.config)
        self.transforms = [name for name in TRANSFORMS if getattr(text, name, None)]
        """The transformations of logits that the configuration names."""
        self._stretching_modules: list[Any] = []
        """The modules whose positions are stretched to a long input, and remember that."""
        for module in model.modules():
            if getattr(module, "rope_type", None) == "dynamic":
                self._stretching_modules.append(module)
        self.last_positions: tuple[Sequence[int], Sequence[int]] = ((), ())
        """The last position of each row of the batch that is computed: the indexes of the rows and of the positions."""
        # Where the configuration states no size, the size is found in the first call; this one is a usual one.
        vocabulary = int(getattr(text, "vocab_size", 0) or 50_000)
        self.capabilities = Capabilities(fingerprint=0, vocabulary=vocabulary)
        self.capabilities.onednn = self.device.type == "cpu" and self.dtype is torch.float32 and uses_onednn()

    # Rows in, hidden states out

    def padded(self, rows: Sequence[TrieRow], cache: Any = None) -> Any:
        """Return the hidden states of rows that are computed one below the other, with padding up to the longest one.

        Args:
            rows: Rows without a prefix, all of them plain sequences or all with branches; or one row that continues a
                cached prefix.
            cache: The key-value cache of the prefix, to which the positions of the row are added.

        Returns:
            States of shape (rows, longest row, width), meaningless at padding.
        """
        self.last_positions = (range(len(rows)), [len(row.tokens) - 1 for row in rows])
        longest = max(len(row.tokens) for row in rows)
        padding = [0] * longest
        ids = [_with_padding(row.tokens, padding) for row in rows]
        is_plain_batch = cache is None and rows[0].is_unbranched
        if is_plain_batch:
            # Each position attends to all before it, as in every causal model, so no mask is needed.
            return self.call(ids)

        position_numbers = [_with_padding(row.depths, padding) for row in rows]
        return self.call(ids, self._mask_of_padded(rows, longest), position_numbers, cache)

    def _mask_of_padded(self, rows: Sequence[TrieRow], longest: int) -> Any:
        """Return the mask of attention of rows one below the other: what is added to the attention scores.

        Args:
            rows: The rows. If they continue a cached prefix, it is the same one for all.
            longest: The number of positions of each row with its padding.

        Returns:
            The mask, of shape (rows, 1, longest, prefix + longest): the dimension of the heads is 1, since all heads
            have the same mask.
        """
        # A position of padding attends to itself only: it is a subtree of its own, which ends right after it.
        subtree_ends_of_padding = range(1, longest + 1)
        subtree_ends = [_with_padding(row.subtree_ends(), subtree_ends_of_padding) for row in rows]
        may_attend_in_row = self.tree_mask(subtree_ends)  # (rows, attending position, attended position)
        # The positions of the prefix come first, and each position attends to all of them.
        prefix_length = len(rows[0].prefix)
        may_attend = torch.nn.functional.pad(may_attend_in_row, (prefix_length, 0), value=True)
        return self.additive(may_attend[:, None])

    def flat(self, rows: Sequence[TrieRow]) -> Any:
        """Return the hidden states of rows that are computed one after the other in one sequence, without padding.

        A row has several prompts, and what they share at their beginning is in it once. Attention is computed for each
        row alone (:func:`segmented_attention`).

        Args:
            rows: Rows without a prefix.

        Returns:
            States of shape (1, positions, width), the positions of the rows one after the other.
        """
        ids: list[int] = []
        position_numbers: list[int] = []
        segments: list[Segment] = []
        for row in rows:
            segments += self._segments(row, row_start=len(ids))
            ids += row.tokens
            position_numbers += row.depths

        mask = self._mask_of_segments(position_count=len(ids))
        with segmented_attention(mask, segments), self._compiled_layers():
            return self.call([ids], mask, [position_numbers])

    def _segments(self, row: TrieRow, row_start: int) -> list[Segment]:
        """Divide the positions of a row into one or two segments, which differ in their mask of attention.

        The prompts of a row are a tree, laid out depth first. Until a second branch begins, they are one plain
        sequence, in which a position attends to all before it: no mask is needed. From there on, a position attends to
        its ancestors in the tree only, which are the positions of its own prompts.

        Args:
            row: The row.
            row_start: The number of positions before it in the sequence of all rows.
        """
        branches_start = row_start + row.unbranched_length
        row_end = row_start + len(row.tokens)
        unbranched = Segment(row_start, start=row_start, end=branches_start, mask=None)
        if branches_start == row_end:
            return [unbranched]
        may_attend = self.tree_mask(row.subtree_ends())  # (attending position, attended position)
        may_attend_in_branches = may_attend[row.unbranched_length :]
        mask = self.additive(may_attend_in_branches[None, None])
        return [unbranched, Segment(row_start, start=branches_start, end=row_end, mask=mask)]

    def _mask_of_segments(self, position_count: int) -> Any:
        """Return the mask with which the model is called where attention is computed by segments.

        Its values are not used, because each segment has a mask of its own. It is how :func:`segmented_attention`
        recognises the calls of attention of this model. Its values are NaN, so a model that computes attention in
        another way returns NaN, and no wrong numbers.

        Args:
            position_count: The number of positions of all segments.

        Returns:
            The mask, of shape (1, 1, positions, positions).
        """
        value = torch.nan
        if position_count == 1:
            # Where several heads share keys, transformers passes another tensor than this mask for one position. That
            # position attends to itself only, so an ordinary mask of 0 is right.
            value = 0.0
        one_value = torch.full((1, 1, 1, 1), value, dtype=self.dtype, device=self.device)
        return one_value.expand(1, 1, position_count, position_count)  # needs the memory of one value

    @contextlib.contextmanager
    def _compiled_layers(self) -> Iterator[None]:
        """Open a context in which the layers run their compiled code, if they are compiled."""
        if not self.compiled:
            yield
            return
        with contextlib.ExitStack() as stack:
            for layer, code in self.compiled:
                # Torch calls this attribute of a module in place of its method forward. It is restored at the end.
                stack.callback(setattr, layer, "_compiled_call_impl", layer._compiled_call_impl)
                layer._compiled_call_impl = code
            stack.enter_context(torch._dynamo.config.patch(recompile_limit=MOST_COMPILED))
            yield

    def tree_mask(self, ends: Sequence[Any]) -> Any:
        """Return which positions of a row may attend to which: each to itself and to its ancestors in the tree.

        Position ``i`` attends to position ``j`` where ``j <= i < end of the subtree of j``.

        Args:
            ends: For each position the end of its subtree (:meth:`TrieRow.subtree_ends`), of shape (..., positions).

        Returns:
            A boolean tensor of shape (..., positions, positions), by attending and attended position.
        """
        subtree_ends = torch.tensor(ends, device=self.device)
        positions = torch.arange(subtree_ends.shape[-1], device=self.device)
        attending = positions[:, None]  # i: the rows of the mask
        attended = positions  # j: its columns
        is_not_later = attended <= attending
        is_in_subtree = attending < subtree_ends[..., None, :]
        return is_not_later & is_in_subtree

    def additive(self, allowed: Any) -> Any:
        """Return a boolean mask as what is added to the attention scores: 0, or the lowest number of the type."""
        mask = torch.zeros(allowed.shape, dtype=self.dtype, device=self.device)
        return mask.masked_fill_(~allowed.to(self.device), torch.finfo(self.dtype).min)

    def call(
        self, ids: Sequence[Sequence[int]], mask: Any = None, positions: Sequence[Any] | None = None, cache: Any = None
    ) -> Any:
        """Return what the model computes at the positions of rows, (rows, positions, width); see :meth:`_run`.

        Args:
            ids: The tokens, (rows, positions).
            mask: What is added to the attention scores; None for causal attention.
            positions: For each token its position number, if there is a mask. Without one, they count from 0.
            cache: The keys and values of what the tokens continue; it grows by theirs.

        Raises:
            RunEndingError: The model does not know a token.
        """
        embedding = None
        if hasattr(self.model, "get_input_embeddings"):
            embedding = self.model.get_input_embeddings()
        if embedding is not None and hasattr(embedding, "weight"):
            check_range([max(row) for row in ids], len(embedding.weight))
        arguments: dict[str, Any] = {
            "input_ids": torch.tensor(ids, device=self.device),
            "use_cache": cache is not None,
        }
        if mask is not None:
            arguments["attention_mask"] = mask
            arguments["position_ids"] = torch.tensor(positions, device=self.device)
        if cache is not None:
            arguments[self._cache_name] = cache
        with torch.inference_mode(), self.fast():
            hidden = self._run(arguments)
        # Virtual tokens (prompt tuning of peft) precede the input in the output.
        return hidden[:, -len(ids[0]) :]

    def _run(self, arguments: dict[str, Any]) -> Any:
        """Call the model without its output matrix, or the whole model if there is no other way.

        Args:
            arguments: The arguments of the call, by name.

        Returns:
            The last hidden states, (rows, positions, width). If the whole model is called, each is followed by the
            logits of its position: (rows, positions, width + vocabulary).
        """
        self._forget_length()
        calls_whole_model = self.capabilities.head == "model"
        if not calls_whole_model:
            return self.body(**arguments).last_hidden_state
        with self._inputs_of_head() as head_inputs:
            output = self.model(**arguments, output_hidden_states=True)
        logits = output.logits
        self.capabilities.vocabulary = logits.shape[-1]
        # The state is what the output matrix reads, since hooks may change what the model returns as its last state. If
        # there is no output matrix, or it reads some positions only, the state that the model returns is used.
        head_read_all_positions = bool(head_inputs) and head_inputs[-1].shape[:2] == logits.shape[:2]
        if head_read_all_positions:
            states = head_inputs[-1]
        else:
            states = output.hidden_states[-1]
        return torch.cat([states.to(logits.device), logits], -1)

    @contextlib.contextmanager
    def _inputs_of_head(self) -> Iterator[list[Any]]:
        """Yield a list to which the input of the model's output matrix is added whenever it is called in the context.

        The list remains empty if the model has no output matrix.
        """
        inputs: list[Any] = []
        head = None
        if hasattr(self.model, "get_output_embeddings"):
            head = self.model.get_output_embeddings()
        if head is None:
            yield inputs
            return

        def keep_input(_: Any, arguments: tuple[Any, ...]) -> None:
            """Keep the input of a call of the output matrix (a forward hook of torch)."""
            inputs.append(arguments[0])

        handle = head.register_forward_pre_hook(keep_input)
        try:
            yield inputs
        finally:
            handle.remove()

    def _forget_length(self) -> None:
        """Undo what long inputs changed in modules that stretch their positions, so that the next input starts anew.

        Such a module stretches its positions to the longest input so far, also for shorter inputs that follow.
        """
        for module in self._stretching_modules:
            module.inv_freq = module.original_inv_freq
            module.max_seq_len_cached = module.original_max_seq_len

    def hidden_states(self, hidden: Any) -> Any:
        """Return hidden states as a float32 tensor (positions, width) on the CPU.

        Args:
            hidden: What :meth:`call` returned at some positions. If all of the model was called, the logits of a
                position follow its state, and are cut off here.
        """
        if self.capabilities.head == "model":
            hidden = hidden[..., : -self.capabilities.vocabulary]
        return hidden.float().cpu()

    def plain_logits(self, tokens: Sequence[int]) -> Any:
        """Return the logits of one plain call of the model, ``model(input_ids)``, which are right by definition.

        Args:
            tokens: The tokens of one sequence.

        Returns:
            A float32 tensor (positions, vocabulary).
        """
        self._forget_length()
        with torch.inference_mode():
            ids = torch.tensor([list(tokens)], device=self.device)
            logits = self.model(input_ids=ids, use_cache=False).logits[0]
            # Virtual tokens (prompt tuning of peft) precede the input in the output.
            return logits[-len(tokens) :].float()

    def fast(self) -> AbstractContextManager[Any]:
        """Return a context in which matrix products use the library that suits the processor."""
        is_compiled = self.compiled is not None  # compiled code has products of its own
        if self.capabilities.onednn and not is_compiled:
            context: AbstractContextManager[Any] = fast_products()
            return context
        return nullcontext()

    def logits(self, hidden: Any, tokens: Sequence[int] | None = None) -> Any:
        """Return the logits after some positions, a float32 tensor (positions, tokens).

        Args:
            hidden: What :meth:`call` returned at the positions, (positions, width).
            tokens: The tokens whose logits are wanted; None for the whole vocabulary.
        """
        with torch.inference_mode(), self.fast():
            if self.capabilities.head == "rows" and tokens is not None:
                return self._logits_by_rows(hidden, tokens)
            if self.capabilities.head == "model":
                # All of the model was called, and the logits of a position follow its state.
                vocabulary_logits = hidden[..., -self.capabilities.vocabulary :]
            else:
                output_matrix = self.model.get_output_embeddings()
                vocabulary_logits = output_matrix(hidden)
            vocabulary_logits = self.transformed(vocabulary_logits.float())
            if tokens is None:
                return vocabulary_logits
            check_range(tokens, vocabulary_logits.shape[-1])
            return vocabulary_logits[:, list(tokens)]

    def _logits_by_rows(self, hidden: Any, tokens: Sequence[int]) -> Any:
        """Return the logits of some tokens, computed with their rows of the output matrix only."""
        head = self.model.get_output_embeddings()
        check_range(tokens, len(head.weight))
        rows = torch.tensor(list(tokens), device=head.weight.device)
        logits = hidden.float() @ head.weight[rows].float().t()
        if head.bias is not None:
            logits = logits + head.bias[rows].float()
        return self.transformed(logits)

    def logits_in_chunks(self, hidden: Any) -> Iterator[tuple[int, Any]]:
        """Yield the logits of the whole vocabulary after some positions at a time, so that they fit into memory.

        Args:
            hidden: The hidden states at the positions, (positions, width).

        Yields:
            The first position of a chunk, and the logits after its positions, (positions of the chunk, vocabulary).
        """
        positions_at_once = max(1, CHUNK // self.capabilities.vocabulary)
        for start in range(0, len(hidden), positions_at_once):
            yield start, self.logits(hidden[start : start + positions_at_once])

    def all_logits(self, hidden: Any) -> Any:
        """Return the logits of the whole vocabulary, a float32 tensor (positions, vocabulary) on the CPU."""
        with torch.inference_mode():
            return torch.cat([logits.cpu() for _, logits in self.logits_in_chunks(hidden)])

    def token_logits(self, hidden: Any, tokens: Sequence[int], totals: bool) -> TokenLogits:
        """Return the logits of some tokens after each position.

        Args:
            hidden: The hidden states at the positions, (positions, width).
            tokens: The tokens.
            totals: Whether the result has ``log(sum of exp(logit))`` over the vocabulary for each position, too.
        """
        with torch.inference_mode():
            rows = self.logits(hidden, tokens).double().tolist()
            if not totals:
                return TokenLogits(rows, log_totals=None)
            log_totals = []
            for _, logits in self.logits_in_chunks(hidden):
                log_totals.append(logits.logsumexp(-1).double())
            return TokenLogits(rows, log_totals=torch.cat(log_totals).tolist())

    def transformed(self, logits: Any) -> Any:
        """Return the final logits for products of hidden states with the output matrix.

        Some models scale or cap these products (:data:`TRANSFORMS`). Those of other models are returned unchanged.
        """
        name_of_setting = self.capabilities.transform  # such as "logit_scale": the setting that says by how much
        if not name_of_setting:
            return logits
        amount = getattr(text_config(self.model.config), name_of_setting)
        transform = TRANSFORMS[name_of_setting]
        return transform(logits, amount)

    def attention_weight(self) -> float:
        """Return the cost of an attended pair of positions, relative to the cost of a position outside attention.

        Both are estimated from the sizes of the model. An attended pair costs ``4 * width`` floating-point operations
        in each layer: a multiplication and an addition for each number of the key, and the same for the value. A
        position costs two operations for each weight outside the embedding. Operations of attention are slower, by the
        factor :data:`PAIR_COST`::

            PAIR_COST * 4 * width * layers / (2 * weights)
        """
        config = _layer_configs(self.model.config)[0]
        # Where the configuration has no such entry, the numbers are guesses: this is used for planning only.
        width = getattr(config, "hidden_size", None) or 1024
        layers = getattr(config, "num_hidden_layers", None) or 1
        weights = sum(weight.numel() for weight in self.body.parameters())
        weights -= self.body.get_input_embeddings().weight.numel()
        return float(PAIR_COST * 4.0 * width * layers / max(2.0 * weights, 1.0))

    def compile(self) -> None:
        """Compile the layers. The first batch of a run compares them with plain calls of the model.

        Raises:
            RunEndingError: They cannot be compiled.
        """
        try:
            self.compiled = []
            for layer in self._layers_to_compile():
                self.compiled.append((layer, torch.compile(layer.forward, dynamic=True, fullgraph=True)))
            # Faults show in the first call, so it is made now: of four tokens, the last two of which are branches.
            self.flat([TrieRow(tokens=(5, 6, 8, 9), depths=(0, 1, 2, 2), wanted_positions={})])
        except Exception as error:
            self.compiled = None
            if is_out_of_memory(error):
                raise
            name = type(self.model).__name__
            reason = str(error).strip().partition("\n")[0]
            raise RunEndingError(
                f"got compile=True, but {name} cannot be compiled here ({reason}). Leave the option out"
            ) from error

    def _layers_to_compile(self) -> list[Any]:
        """Return the layers of the model, all of which can be compiled.

        Raises:
            RuntimeError: They cannot be compiled. The message is the reason.
        """
        if self.capabilities.runs_alone:
            raise RuntimeError(self.capabilities.reason)
        # The classes of layers, by name, as transformers lists them for the distribution over devices.
        layer_classes = set(getattr(self.model, "_no_split_modules", None) or ())
        layers = [module for module in self.model.modules() if type(module).__name__ in layer_classes]
        if not self.capabilities.flat or not layers:
            attention = getattr(self.model.config, "_attn_implementation", None)
            raise RuntimeError(
                f"needs layers on a CPU with 'sdpa': got {len(layers)} on {self.device} with {attention!r}"
            )
        return layers


def _with_padding(values: Sequence[int], padding: Sequence[int]) -> list[int]:
    """Return the values of a row, and from the position where they end those of the padding."""
    return [*values, *padding[len(values) :]]


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
    """Return the module of a model that computes the hidden states, without the output head; None if there is none."""
    if callable(getattr(model, "get_base_model", None)):
        model = model.get_base_model()  # of peft: the model into which adapters were put
    body = getattr(model, "base_model", None)
    if body is not None and body is not model:
        return body
    decoder = None
    if callable(getattr(model, "get_decoder", None)):
        decoder = model.get_decoder()
    if decoder is model:  # the model has no part of its own for this
        return None
    return decoder


def fingerprint(model: Any) -> int:
    """Return a number that changes when a model's modules, hooks, adapters or weights are changed.

    It is computed faster than a digest of the weights. Changes of weights that bypass torch's version counters (through
    ``.data``) do not change it. The identity, which is computed for every run, shows those, and cached prefixes are
    protected by a checksum of the weights.
    """
    facts: list[Any] = [getattr(model.config, "_attn_implementation", None), length_limits(model)]
    # Some models copy the settings of transformations from the configuration.
    for settings_holder in (text_config(model.config), model):
        for name in TRANSFORMS:
            facts.append(getattr(settings_holder, name, None))
    for module in model.modules():
        facts += _facts_of_module(module)
    return hash(tuple(facts))


def _facts_of_module(module: Any) -> list[Any]:
    """Return facts about a module of which at least one changes with its code, its hooks, adapters or tensors."""
    attributes = module.__dict__
    has_own_forward = "forward" in attributes
    facts: list[Any] = [id(module), has_own_forward]
    for name in ADAPTERS:
        facts.append(str(attributes.get(name)))
    for kind in HOOKS:
        for key, hook in attributes[kind].items():
            if not is_library_code(hook):
                facts.append((kind, key))
    for tensor in (*attributes["_parameters"].values(), *attributes["_buffers"].values()):
        if tensor is None:
            continue
        if tensor.is_inference():
            version = True  # tensors of the inference mode have no version counter
        else:
            version = tensor._version  # grows with each change of the tensor that torch notices
        facts.append((id(tensor), version, tensor.dtype, tensor.device))
    return facts


def _layer_configs(config: Any) -> list[Any]:
    """Return the configuration of each layer where they differ (Gemma 4); otherwise the one of all layers."""
    text = text_config(config)
    if getattr(text, "is_heterogeneous", False):
        return list(text.per_layer_config)
    return [text]


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """Up to which length of a sequence the ways of running a model are exact; infinite where nothing limits them.

    Attributes:
        sharing: For rows that share positions: no window of attention is shorter, and positions are not stretched.
        batching: For batches of sequences of different lengths: positions are not stretched to the longest one.
    """

    sharing: float
    batching: float


def length_limits(model: Any) -> LengthLimits:
    """Return up to which length of a sequence the ways of running a model are exact."""
    window = _shortest_window(model.config)
    unstretched = _unstretched_length(text_config(model.config))
    return LengthLimits(sharing=min(window, unstretched), batching=unstretched)


def _shortest_window(config: Any) -> float:
    """Return the length up to which no window of attention matters: that of the shortest one, or infinity.

    In a row that sequences share, a window counts positions of other sequences, too. So only sequences that are not
    longer than the shortest window may share a row.

    Args:
        config: The configuration of the model.
    """
    text = text_config(config)
    # GPT-Neo counts its windows, and Llama 4 scales its queries, by the index in the row, not the position number. No
    # sequence may share a row there.
    windows_ignore_position_numbers = "local" in getattr(text, "attention_layers", ())
    scaling_ignores_position_numbers = bool(getattr(text, "attn_temperature_tuning", False))
    if windows_ignore_position_numbers or scaling_ignores_position_numbers:
        return 0
    shortest = math.inf
    for layer in _layer_configs(config):
        if not getattr(layer, "use_sliding_window", True):
            continue
        for name in ("sliding_window", "attention_chunk_size", "window_size"):
            size = getattr(layer, name, None)
            if isinstance(size, int) and size > 0:
                shortest = min(shortest, size)
    return shortest


def _unstretched_length(text: Any) -> float:
    """Return the length of the longest input whose rotary positions are not stretched to its length; infinity for any.

    Args:
        text: The configuration of the model's text part.
    """
    shortest = math.inf
    for name in ("rope_scaling", "rope_parameters"):
        rope = getattr(text, name, None)
        if not isinstance(rope, dict):
            continue
        kind = rope.get("rope_type", rope.get("type"))
        if kind not in STRETCHED_ROPES:
            continue
        stated_lengths = [
            rope.get("original_max_position_embeddings"),
            getattr(text, "original_max_position_embeddings", None),
            getattr(text, "max_position_embeddings", None),
        ]
        known_lengths = [length for length in stated_lengths if length]
        if not known_lengths:  # any input may be stretched
            return 0
        shortest = min(shortest, known_lengths[0])
    return shortest
