"""Running a causal language model of Hugging Face ``transformers`` on rows of token positions.

This is the only module that calls the model. It knows three ways:

- **plain batch**: sequences padded on the right. With causal attention (or a recurrence) nothing that stands behind a
  position can change it, so no mask is needed, whatever the family and the kind of positions. With ``padding="left"``
  the padding comes first, with a mask and position numbers, as other software does it;
- **packed batch**: tree-shaped rows (see ``prefix_plan``), each with its mask and its position numbers;
- **over a prefix**: one packed row that continues a cached prefix.

The last two need a model that takes a four-dimensional mask, position numbers and a key-value cache. Whether it does
is not guessed from its name: it is asked once, by computing the same short sequences in both ways (``examination``).
The same is done for the output head: where the logits are the product of the last hidden state with a plain matrix,
perhaps scaled or soft-capped, only the rows that are needed are computed later; where not, the whole model is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from StaICC.errors import ArgumentError
from StaICC.optional import require
from StaICC.prefabricate_inference.examination import examine, limits, logit_transforms
from StaICC.prefabricate_inference.fast_linear import fast_linear
from StaICC.prefabricate_inference.prefix_plan import Row

__all__ = ["Forward", "Hidden", "torch_module"]

FEATURE = "the causal language model kernel"


def torch_module() -> Any:
    """The package ``torch``, or the error that says what to install."""
    return require("torch", "hf", FEATURE)


@dataclass(frozen=True, slots=True)
class Hidden:
    """Hidden states at selected positions.

    Attributes:
        states: Tensor (positions, width), the last hidden states.
        logits: Tensor (positions, vocabulary), only where the head is ``"model"``.
    """

    states: Any
    logits: Any = None


class Forward:
    """A model with the ways of running it.

    Args:
        model: A causal language model of ``transformers``.
        padding: On which side plain batches are padded.
    """

    def __init__(self, model: Any, padding: Literal["right", "left"] = "right") -> None:
        if padding not in ("right", "left"):
            raise ArgumentError(f"padding must be 'right' or 'left', not {padding!r}")
        self.model = model
        self.padding = padding
        self.torch = torch_module()
        first = next(model.parameters())
        self.device = first.device
        self.dtype = first.dtype
        self.dtype_name = str(first.dtype).removeprefix("torch.")
        self.exact_to, self.same_to = limits(model)
        self.body = self._find_body()
        self.can = examine(self)

    def _find_body(self) -> Any:
        """The part of the model below the output head, or None."""
        body = getattr(self.model, "base_model", None)
        if body is None or body is self.model:
            get = getattr(self.model, "get_decoder", None)
            body = get() if callable(get) else None
        return None if body is self.model else body

    # Rows in, hidden states out

    def chains(self, rows: Sequence[Sequence[int]]) -> Hidden:
        """Plain batch.

        Args:
            rows: Token sequences, none empty.

        Returns:
            States of shape (rows, longest row, width). What stands at padding means nothing; with padding on the left
            the rows are shifted back, so that position ``i`` of a row is at ``i`` for either side.
        """
        torch = self.torch
        longest = max(len(row) for row in rows)
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        can = getattr(self, "can", None)  # not there yet while it is being found out
        right = self.padding == "right" or (can is not None and not can.left_padding)
        if right or all(len(row) == longest for row in rows):
            for index, row in enumerate(rows):
                ids[index, : len(row)] = torch.tensor(row)
            return self._call(ids)
        mask = torch.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, longest - len(row) :] = torch.tensor(row)
            mask[index, longest - len(row) :] = 1
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        hidden = self._call(ids, mask=mask, positions=positions)
        shift = torch.tensor([longest - len(row) for row in rows], device=self.device)
        where = (torch.arange(longest, device=self.device)[None, :] + shift[:, None]).clamp(max=longest - 1)
        pick = torch.arange(len(rows), device=self.device)[:, None]
        return Hidden(hidden.states[pick, where], None if hidden.logits is None else hidden.logits[pick, where])

    def trees(self, rows: Sequence[Row]) -> Hidden:
        """Packed batch of rows without a prefix; states of shape (rows, longest row, width)."""
        torch = self.torch
        longest = max(len(row.tokens) for row in rows)
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        positions = torch.zeros((len(rows), longest), dtype=torch.long)
        allowed = torch.eye(longest, dtype=torch.bool).repeat(len(rows), 1, 1)
        for index, row in enumerate(rows):
            size = len(row.tokens)
            ids[index, :size] = torch.tensor(row.tokens)
            positions[index, :size] = torch.tensor(row.depths())
            allowed[index, :size, :size] = self.tree_mask(row)
        return self._call(ids, mask=self.additive(allowed[:, None]), positions=positions)

    def over(self, row: Row, cache: Any) -> Hidden:
        """One packed row that continues a cached prefix; the cache grows by the row's positions."""
        torch = self.torch
        size = len(row.tokens)
        allowed = torch.ones((size, row.base + size), dtype=torch.bool)
        allowed[:, row.base :] = self.tree_mask(row)
        ids = torch.tensor([row.tokens])
        positions = torch.tensor([row.depths()])
        return self._call(ids, mask=self.additive(allowed[None, None]), positions=positions, cache=cache)

    def step(self, tokens: Sequence[int], positions: Sequence[int], mask: Any, cache: Any) -> Hidden:
        """New positions side by side, one for each sequence that a cache holds; states of shape (tokens, width)."""
        torch = self.torch
        hidden = self._call(
            torch.tensor([list(tokens)]), mask=mask, positions=torch.tensor([list(positions)]), cache=cache
        )
        return Hidden(hidden.states[0])

    def extend(self, tokens: Sequence[int], cache: Any) -> None:
        """Let a cache grow by tokens that follow it."""
        self._call(self.torch.tensor([list(tokens)]), cache=cache, logits=False)

    def cut(self, cache: Any, count: int) -> None:
        """Take the last positions off a cache."""
        if count > 0:
            cache.crop(-count)

    def length(self, cache: Any) -> int:
        """How many positions a cache holds."""
        return int(cache.get_seq_length())

    def new_cache(self) -> Any:
        """An empty key-value cache without windows."""
        return require("transformers", "hf", FEATURE).DynamicCache()

    # Parts

    def tree_mask(self, row: Row) -> Any:
        """Boolean tensor (positions, positions): which position may attend to which of the same row."""
        torch = self.torch
        index = torch.arange(len(row.tokens))
        ends = torch.tensor(row.subtree_ends())
        return (index[None, :] <= index[:, None]) & (index[:, None] < ends[None, :])

    def additive(self, allowed: Any) -> Any:
        """A boolean mask as what is added to the attention scores."""
        torch = self.torch
        mask = torch.zeros(allowed.shape, dtype=self.dtype)
        return mask.masked_fill_(~allowed, torch.finfo(self.dtype).min)

    def _call(
        self, ids: Any, *, mask: Any = None, positions: Any = None, cache: Any = None, logits: bool = True
    ) -> Hidden:
        """Run the body of the model (or all of it, where its head cannot be separated)."""
        arguments: dict[str, Any] = {"input_ids": ids.to(self.device), "use_cache": cache is not None}
        if mask is not None:
            arguments["attention_mask"] = mask.to(self.device)
        if positions is not None:
            arguments["position_ids"] = positions.to(self.device)
        if cache is not None:
            arguments["past_key_values"] = cache
        with self.torch.inference_mode():
            if self.body is not None and (not logits or getattr(self, "can", None) is None or self.can.head != "model"):
                return Hidden(self.body(**arguments).last_hidden_state)
            output = self.model(**arguments, output_hidden_states=True)
            return Hidden(output.hidden_states[-1], output.logits)

    def fast(self) -> AbstractContextManager[Any]:
        """Context in which matrix products take the faster of the libraries at hand."""
        return fast_linear(self.device.type, self.dtype_name)

    # The output head

    def logits(self, hidden: Hidden, tokens: Sequence[int] | None = None) -> Any:
        """Logits at the given positions, in float32.

        Args:
            hidden: States of shape (positions, width).
            tokens: The tokens whose logits are wanted; None for the whole vocabulary.

        Returns:
            Tensor (positions, tokens).
        """
        torch = self.torch
        with torch.inference_mode():
            if hidden.logits is not None:
                whole = hidden.logits.float()
                return whole if tokens is None else whole[:, list(tokens)]
            head = self.model.get_output_embeddings()
            transform = logit_transforms(self.model.config)[self.can.transform]
            if self.can.head == "module" or tokens is None:
                whole = transform(head(hidden.states).float())
                return whole if tokens is None else whole[:, list(tokens)]
            rows = torch.tensor(list(tokens), device=head.weight.device)
            product = hidden.states.float() @ head.weight[rows].float().t()
            if head.bias is not None:
                product = product + head.bias[rows].float()
            return transform(product)
