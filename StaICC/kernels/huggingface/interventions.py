"""States inside the layers of a model, read or changed while prompts are computed.

Layer ``l`` is a decoder layer, counted from 0; its state is what it adds up to: the input of the next layer, or of the
final normalisation. Prompts are computed in plain batches, in which no position depends on a later one or on another
prompt. Whatever changes a state is removed again before a function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface import text_config, torch
from StaICC.kernels.huggingface.batching import BatchRunner, Tokens
from StaICC.kernels.huggingface.token_trie import IndexesBySequence


def decoder_layers(model: Any) -> list[Any]:
    """Return the decoder layers of a model, the first one first.

    Raises:
        ArgumentError: They are not found.
    """
    number = getattr(text_config(model.config), "num_hidden_layers", None)
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == number:
            return list(module)
    raise ArgumentError(f"{type(model).__name__} has no list of {number} layers, so their states cannot be read")


@contextmanager
def _changed_outputs(modules: Sequence[Any], change: Callable[[int, Any], Any]) -> Iterator[None]:
    """Open a context in which a function may change what modules return.

    Args:
        modules: Modules that return a state, (rows, positions, width), or a tuple that begins with it.
        change: Gets the number of a module and the state that it returns. It returns another state, which takes the
            place of this one, or None, which leaves it.
    """

    def hook(number: int, module: Any, inputs: Any, output: Any) -> Any:
        """Return what takes the place of a module's output; None leaves it (a forward hook of torch)."""
        if not isinstance(output, tuple):
            return change(number, output)
        state, *further_outputs = output
        changed_state = change(number, state)
        if changed_state is None:
            return None
        return (changed_state, *further_outputs)

    handles = []
    for number, module in enumerate(modules):
        handles.append(module.register_forward_hook(partial(hook, number)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def layer_states(runner: BatchRunner, sequences: Sequence[Tokens]) -> Any:
    """Return the states of all layers at the last positions: a float32 tensor (sequences, layers, width).

    Args:
        runner: Runs the model.
        sequences: The token sequences, none empty.
    """
    forward = runner.forward
    layers = decoder_layers(forward.model)
    states_by_layer: dict[int, Any] = {}  # of the latest batch: the states at the end of each row, (rows, width)
    states_by_sequence: dict[int, Any] = {}  # by the index of a sequence: its states, (layers, width)

    def keep_last_positions(layer: int, state: Any) -> None:
        """Keep the state of a layer, (rows, positions, width), at the last position of each row of a batch."""
        states_by_layer[layer] = state[forward.last_positions].float().cpu()

    def assign_to_sequences(_: Any, indexes: IndexesBySequence) -> None:
        """Assign the states of all layers that were kept in the last batch to the sequences of the batch.

        Each sequence has a row of its own, and one wanted position. So the index of its state is that of its row.
        """
        states_by_row = torch.stack([states_by_layer[layer] for layer in range(len(layers))], 1)
        for sequence_index, (row,) in indexes.items():
            states_by_sequence[sequence_index] = states_by_row[row]

    last_positions = [len(sequence) - 1 for sequence in sequences]
    with _changed_outputs(layers, keep_last_positions):
        runner.run_unchecked(sequences, last_positions, assign_to_sequences, alone=True)
    return torch.stack([states_by_sequence[index] for index in range(len(sequences))])


def replaced_state(runner: BatchRunner, sequences: Sequence[Tokens], layer: int, vector: Sequence[float]) -> Any:
    """Return the hidden state at the last position of each sequence if a vector replaces the state of a layer there.

    Args:
        runner: Runs the model.
        sequences: The token sequences, none empty.
        layer: The number of the layer, from 0.
        vector: What replaces its state.

    Raises:
        ArgumentError: There is no such layer, or the vector has another width.
    """
    forward = runner.forward
    layers = decoder_layers(forward.model)
    if not 0 <= layer < len(layers):
        raise ArgumentError(f"layer: got {layer}, expected 0 to {len(layers) - 1}")

    def replace(_: int, state: Any) -> Any:
        """Return the state of a layer, (rows, positions, width), with the vector at the last position of each row."""
        if state.shape[-1] != len(vector):
            raise ArgumentError(f"state of layer {layer}: got {len(vector)} numbers, expected {state.shape[-1]}")
        state = state.clone()
        state[forward.last_positions] = state.new_tensor(vector)
        return state

    with _changed_outputs([layers[layer]], replace):
        return runner.last_states(sequences, partial(runner.run_unchecked, alone=True))


FEED_FORWARD_NAMES = ("mlp", "feed_forward", "ffn")
"""The names that transformers gives to the feed-forward network of a decoder layer."""


def feed_forward_networks(model: Any) -> list[Any]:
    """Return the feed-forward network of each decoder layer.

    Raises:
        ArgumentError: A layer has none that is a module of its own, as in OPT.
    """
    networks = []
    for number, layer in enumerate(decoder_layers(model)):
        children = dict(layer.named_children())
        names = [name for name in FEED_FORWARD_NAMES if name in children]
        if not names:
            raise ArgumentError(
                f"layer {number} of {type(model).__name__} has no module {' or '.join(FEED_FORWARD_NAMES)}, so the "
                "output of its feed-forward network cannot be changed. Use another model"
            )
        networks.append(children[names[0]])
    return networks


def steered(
    runner: BatchRunner, sequences: Sequence[Tokens], vectors: Sequence[Sequence[float]], strength: float
) -> Any:
    """Return the hidden state at the last position of each sequence while all positions of all layers are steered.

    In each layer, the output ``x`` of the feed-forward network is turned towards the vector ``v`` of the layer, and
    keeps its length (Liu et al. 2024, "In-context Vectors", as in the authors' code)::

        weight = strength * (1 + max(0, cos(x, -v)))
        x'     = |x| * unit(unit(x) + weight * unit(v))

    Args:
        runner: Runs the model.
        sequences: The token sequences, none empty.
        vectors: The vector of each layer.
        strength: How far the outputs are turned; 0 changes nothing.

    Raises:
        ArgumentError: The number of vectors is not that of the layers, or one has another width.
    """
    networks = feed_forward_networks(runner.forward.model)
    if len(vectors) != len(networks):
        raise ArgumentError(f"vectors: got {len(vectors)}, expected {len(networks)}, one for each layer")
    unit = partial(torch.nn.functional.normalize, dim=-1)

    def steer(layer: int, output: Any) -> Any:
        """Return the output of the feed-forward network of a layer, turned towards the vector of the layer."""
        width = output.shape[-1]
        if len(vectors[layer]) != width:
            raise ArgumentError(f"vector of layer {layer}: got {len(vectors[layer])} numbers, expected {width}")
        # The formula of the outer function, at each position.
        x = output.float()
        v = torch.tensor(vectors[layer], dtype=torch.float32, device=x.device)
        away_from_vector = torch.nn.functional.cosine_similarity(x, -v, dim=-1).clamp(min=0)
        weight = strength * (1 + away_from_vector)
        turned = unit(unit(x) + weight.unsqueeze(-1) * unit(v))
        length = x.norm(dim=-1, keepdim=True)
        return (length * turned).to(output.dtype)

    with _changed_outputs(networks, steer):
        return runner.last_states(sequences, partial(runner.run_unchecked, alone=True))
