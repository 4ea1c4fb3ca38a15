"""A model with the ways of running it that were found to give its own numbers.

:class:`Forward` combines the calls of a model (``model_calls``) with what was found out about it (``capabilities``).
Where the logits are the product of the last hidden state with a plain matrix, perhaps scaled or soft-capped, only the
rows that are needed are computed; otherwise the complete model is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from StaICC.errors import RunEndingError
from StaICC.kernels.huggingface.capabilities import (
    Capabilities,
    ModelRecord,
    is_out_of_memory,
    limits,
    logit_transforms,
    same,
)
from StaICC.kernels.huggingface.compilation import CompiledLayers
from StaICC.kernels.huggingface.fast_linear import fast_linear
from StaICC.kernels.huggingface.model_calls import Hidden, ModelCalls
from StaICC.kernels.huggingface.prefix_plan import Row


class Forward(ModelCalls):
    """Runs a model in the ways that its record allows.

    Args:
        calls: The calls of the model.
        record: What is known about the model (:func:`~StaICC.kernels.huggingface.capabilities.examine`); its
            capabilities may be reduced later.
    """

    def __init__(self, calls: ModelCalls, record: ModelRecord) -> None:
        super().__init__(calls.model, record.can.head != "model")
        self.record = record
        self.exact_to, self.same_to = limits(self.model)

    def compile(self) -> None:
        """Compile the layers, and compare them on short sequences with the layers as they are.

        Raises:
            RunEndingError: They cannot be compiled, or return other numbers.
        """
        rows = [Row((5, 6, 7), (-1, 0, 1), ((0, 2),), 0), Row((5, 6, 8, 9), (-1, 0, 1, 1), ((1, 2), (2, 3)), 0)]
        attention = getattr(self.model.config, "_attn_implementation", None)
        if self.device.type != "cpu":
            problem = f"the model is on {self.device}, expected the CPU"
        elif attention != "sdpa":
            problem = f"only torch's attention can be compiled: got attn_implementation={attention!r}, expected 'sdpa'"
        elif self.can.head == "model":
            problem = "its logits are not known to be the product of hidden states and a matrix"
        else:
            problem = (
                f"in {self.dtype_name}, prompts that follow each other in one sequence have other numbers than alone"
            )
        problem = next(iter(self.record.reasons.values()), problem)
        if self.can.flat and self.can.head != "model":
            expected = self.flat(rows).states
            self.compiled = CompiledLayers(self.model)
            try:
                with self.fast():
                    if self.compiled.layers and same(self.torch, self.flat(rows).states, expected):
                        return
                problem = "the compiled layers return other numbers" if self.compiled.layers else "no layers were found"
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                problem = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        self.compiled = None
        name = type(self.model).__name__
        raise RunEndingError(f"got compile=True, but {name} cannot be compiled here ({problem}). Leave the option out")

    @property
    def can(self) -> Capabilities:
        """The capabilities of the model, as far as they are known now."""
        return self.record.can

    def _run(self, arguments: dict[str, Any], logits: bool) -> Hidden:
        if self.body is not None and (self.can.head != "model" or not logits):
            return self._run_body(arguments)
        return self._run_plainly(arguments) if self.can.plain else self._run_whole(arguments)

    def _run_plainly(self, arguments: dict[str, Any]) -> Hidden:
        """Call the complete model; its last hidden states are the input of its output matrix."""
        head = getattr(self.model, "get_output_embeddings", lambda: None)()
        if head is None:
            return self._run_whole(arguments)
        given: list[Any] = []
        handle = head.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
        try:
            output = self.model(**arguments)
        finally:
            handle.remove()
        if not given or given[-1].shape[:2] != output.logits.shape[:2]:
            return self._run_whole(arguments)
        return Hidden(given[-1], output.logits)

    def plain_logits(self, tokens: Sequence[int]) -> Any:
        """Logits of one plain call, ``model(input_ids)``: a float32 tensor (positions, vocabulary)."""
        with self.torch.inference_mode():
            ids = self.torch.tensor([list(tokens)], device=self.device)
            return self.model(input_ids=ids, use_cache=False).logits[0, -len(tokens) :].float()

    def fast(self) -> AbstractContextManager[Any]:
        """Return a context in which matrix products use the library that suits the processor."""
        return fast_linear(self.can.onednn)

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
