"""The states of all layers at the end of prompts, and label logits after one of them was replaced.

Layer ``l`` is a decoder layer, counted from 0; its state is what it adds up to: the input of the next layer, or of the
final normalisation. Prompts are computed in plain batches, in which no position depends on a later one or on another
prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface import text_config
from StaICC.kernels.huggingface.batching import BatchRunner, RunReport, Tokens
from StaICC.kernels.huggingface.forward import Hidden
from StaICC.kernels.huggingface.prefix_plan import Row


def decoder_layers(runner: BatchRunner) -> list[Any]:
    """Return the decoder layers of the model, the first one first.

    Raises:
        ArgumentError: They are not found.
    """
    model, modules = runner.forward.model, runner.forward.torch.nn
    number = getattr(text_config(model.config), "num_hidden_layers", None)
    for module in model.modules():
        if isinstance(module, modules.ModuleList) and len(module) == number:
            return list(module)
    raise ArgumentError(f"{type(model).__name__} has no list of {number} layers, so their states cannot be read")


@contextmanager
def _changed(layers: Sequence[Any], change: Callable[[Any], Any]) -> Iterator[None]:
    """Let the layers return what a function makes of their state within the block; ``None`` for no change."""

    def hook(layer: Any, inputs: Any, output: Any) -> Any:
        state = change(output[0] if isinstance(output, tuple) else output)
        return (state, *output[1:]) if state is not None and isinstance(output, tuple) else state

    handles = [layer.register_forward_hook(hook) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _run(
    runner: BatchRunner,
    sequences: Sequence[Tokens],
    layers: Sequence[Any],
    change: Callable[[Any, Any], Any],
    read: Callable[[Sequence[int], Hidden], None],
) -> None:
    """Run sequences with changed layers.

    Args:
        runner: The batch runner.
        sequences: The sequences, none empty.
        layers: The layers.
        change: Called with the places of the last positions and the state of each layer.
        read: Called with the numbers of the sequences of a batch, and their last positions.
    """
    torch = runner.forward.torch

    def attempt(todo: list[int]) -> Iterator[int]:
        rows = [Row(sequences[number], (), ((number, 0),), 0) for number in todo]
        for batch in ([row.ends[0][0] for row in rows] for rows in runner.batches(rows, flat=False)):
            ends = torch.arange(len(batch)), torch.tensor([len(sequences[number]) - 1 for number in batch])
            with torch.inference_mode(), _changed(layers, partial(change, ends)):
                read(batch, runner.forward.chains([sequences[number] for number in batch])[ends])
            yield from batch

    runner.persist(len(sequences), attempt, RunReport())


def layer_states(runner: BatchRunner, sequences: Sequence[Tokens]) -> Any:
    """Return the states of all layers at the last positions: a float32 tensor (sequences, layers, width)."""
    torch, layers = runner.forward.torch, decoder_layers(runner)
    states: list[Any] = [None] * len(sequences)
    seen: list[Any] = []

    def read(batch: Sequence[int], _: Hidden) -> None:
        for place, number in enumerate(batch):
            states[number] = torch.stack([state[place] for state in seen[-len(layers) :]])
        seen.clear()

    _run(runner, sequences, layers, lambda ends, state: seen.append(state[ends].float().cpu()), read)
    return torch.stack(states)


def patched_logits(
    runner: BatchRunner, sequences: Sequence[Tokens], tokens: Sequence[int], layer: int, vector: Sequence[float]
) -> list[list[float]]:
    """Return the logits of tokens after each sequence, with a vector as the state of a layer at the last position."""
    layers = decoder_layers(runner)
    if not 0 <= layer < len(layers):
        raise ArgumentError(f"layer: got {layer}, expected 0 to {len(layers) - 1}")
    rows: list[list[float]] = [[] for _ in sequences]

    def change(ends: Any, state: Any) -> Any:
        if state.shape[-1] != len(vector):
            raise ArgumentError(f"state of layer {layer}: got {len(vector)} numbers, expected {state.shape[-1]}")
        state = state.clone()
        state[ends] = state.new_tensor(vector)
        return state

    def read(batch: Sequence[int], hidden: Hidden) -> None:
        for number, row in zip(batch, runner.forward.logits(hidden, tokens).double().tolist(), strict=True):
            rows[number] = row

    _run(runner, sequences, [layers[layer]], change, read)
    return rows
