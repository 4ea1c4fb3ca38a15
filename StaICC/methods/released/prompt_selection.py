"""Selection of instructions or demonstrations with the call shapes of 0.1.1.

::

    PPL_ICL(model, tokenizer, None, experimentor)  # sets the instruction; then run the experimentor

    method = SA_ICL(model, tokenizer, experimentor)
    method.set_TopK_to_demonstration(4)  # TopK: then run the experimentor, or
    experimentor.auto_run(method.inference_interface, batched_inference=True)  # SA-ICL
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity, identity_of
from StaICC.kernels.protocol import Capability, capabilities_of
from StaICC.methods import ppl_icl
from StaICC.methods.capabilities import check_capabilities
from StaICC.methods.computed_features import features_of
from StaICC.methods.contract import MethodData, Variant, check_variant
from StaICC.methods.demonstration_orders import Order, first_orders, random_orders
from StaICC.methods.kernel_functions import KernelFunction
from StaICC.methods.nearest_demonstrations import SelectionOptions, nearest_demonstrations
from StaICC.methods.options import NoOptions
from StaICC.methods.present_rows import check_answered
from StaICC.methods.prompt_views import clean_copy
from StaICC.methods.released import selection
from StaICC.methods.sa_icl import probabilities_of_orders, surest_predictions
from StaICC.metrics import released as released_metrics
from StaICC.prompting.prompt_text import question_only

CacheEmpty = Callable[[], Any] | None
"""Called without arguments when the model was run."""


def _kernel_of(model: Any, tokenizer: Any) -> Any:
    """Return the kernel of a model and its tokenizer; a kernel is returned unchanged."""
    if tokenizer is None or Capability.HIDDEN_STATES in capabilities_of(model):
        return model
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel(model, tokenizer, label_mass=False)


def _with_k(experimentor: Experimentor, k: int) -> Experimentor:
    """Return an experimentor after setting its number of demonstrations.

    Setting the number draws other demonstrations. So nothing is set if the experimentor has this number.
    """
    if experimentor.get_k() != k:
        experimentor.set_k(k)
    return experimentor


def PPL_ICL(
    model: Any,
    tokenizer: Any,
    instruction_set: Sequence[str] | None = None,
    experimentor: Experimentor | None = None,
    cache_empty: CacheEmpty = None,
    *,
    variant: str = "paper",
    calibration_number: int = 128,
) -> str:
    """Set the instruction with the lowest perplexity as the experimentor's.

    ``variant="paper"``: the perplexity of the full prompt (instruction and input, without demonstrations and label),
    averaged over ``calibration_number`` rows of the calibration set, one prompt each per instruction.
    ``variant="0.1.1"``: the perplexity of the instruction alone; budget: one text for each.

    Args:
        model: A causal language model of ``transformers``, or a kernel with ``losses``.
        tokenizer: Its tokenizer (``None`` for a kernel).
        instruction_set: The candidates; those of the release for the experimentor's data set by default.
        experimentor: Gets the instruction. Without one (``"0.1.1"``) it is only returned.
        cache_empty: Called without arguments when the model was run.
        variant: ``"paper"`` or ``"0.1.1"``.
        calibration_number: How many rows of the calibration set.

    Returns:
        The instruction.

    Raises:
        ArgumentError: There are no candidates, or the model gives no losses.
        OutputError: A loss is not finite.
    """
    if instruction_set is None:
        if experimentor is None:
            raise ArgumentError("PPL-ICL: got neither instruction_set nor experimentor, expected one of them")
        instruction_set = ppl_icl.instructions_for(experimentor.name)
    kernel = _kernel_of(model, tokenizer)
    candidates = ppl_icl.check_instructions(instruction_set)
    check_capabilities("PPL-ICL", kernel, frozenset({Capability.LOSSES}))
    texts = _texts_of_instructions(candidates, experimentor, check_variant(variant), calibration_number)
    losses = kernel.losses(texts)
    chosen = candidates[ppl_icl.least_perplexity(losses, len(candidates))]
    if cache_empty is not None:
        cache_empty()
    if experimentor is not None:
        experimentor.prompt_former.change_instruction(chosen)
    return chosen


def _texts_of_instructions(
    candidates: Sequence[str], experimentor: Experimentor | None, variant: Variant, calibration_number: int
) -> list[str]:
    """Return the texts whose perplexity decides between instructions, candidate by candidate, equally many for each.

    Args:
        candidates: The instructions.
        experimentor: The data set. It may be missing in variant ``"0.1.1"``, which compares the instructions alone.
        variant: The variant.
        calibration_number: How many prompts each instruction has in other variants.
    """
    if variant == "0.1.1":
        return list(candidates)
    if experimentor is None:
        raise ArgumentError("PPL-ICL: experimentor is missing; its prompts are needed to compare instructions")
    data = MethodData(experimentor.without_labels(), variant, calibration_number, NoOptions())
    texts: list[str] = []
    for instruction in candidates:
        texts += ppl_icl.prompts_with_instruction(data, instruction)
    return texts


@dataclass(eq=False)
class _CalibratedInDetail(KernelFunction):
    """A kernel whose predictions are what a function makes of label probabilities, logits and hidden state."""

    kernel: Any
    calibrate: Callable[..., list[float]]

    def added_identity(self) -> tuple[str, Identity]:
        """Return the identity of the function."""
        return "calibration", identity_of(self.calibrate)

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        """Return those of the kernel."""
        return self.kernel.hidden_states(prompts)

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        """Return the calibrated prediction for each prompt."""
        probabilities, logits, hidden_states = self.kernel.score_in_detail(prompts, label_space)
        calibrated = []
        for detail in zip(probabilities, logits, hidden_states, strict=True):
            calibrated.append(self.calibrate(*detail))
        return calibrated


@dataclass(frozen=True)
class _SomeRows(MethodData):
    """The data of some test rows, for which demonstrations are chosen."""

    rows: Sequence[int] = ()
    """Positions of the test set."""

    @property
    def test_texts(self) -> list[list[str]]:
        """The input texts of the rows."""
        test_set = self._experimentor.test_set()
        return [list(test_set.texts(row)) for row in self.rows]


@dataclass(frozen=True)
class _OrderSettings:
    """How SA-ICL tries orders."""

    k: int
    """Demonstrations of a prompt."""
    nearest_k: int
    """Near demonstrations that are considered."""
    orders: int
    """Orders that are tried."""


class SA_ICL:
    """TopK (Liu et al. 2022) and SA-ICL (Wu et al. 2023, "Self-Adaptive In-Context Learning").

    TopK gives each query the demonstrations whose encodings are nearest, nearest first. SA-ICL tries several orders of
    them and keeps the prediction of the lowest entropy (its minimum description length). Encodings and predictions are
    computed once, when they are needed; make a new object after a change of the model or of the experimentor.

    ``variant="paper"``: all demonstrations; orders at random. ``variant="0.1.1"``: the first 512 demonstrations; the
    first ten orders in lexicographic order, its own entropy (:func:`~StaICC.metrics.released.entropy`).

    Args:
        model: A causal language model of ``transformers``, or a kernel with ``hidden_states`` and ``batch``.
        tokenizer: Its tokenizer (``None`` for a kernel).
        experimentor: Whose queries get demonstrations.
        cache_empty: Called without arguments once after each call that ran the model.
        calibrate_function: Called with (label probabilities, logits, hidden state) of each prediction.
        demonstration_set_cut: Choose from this many first demonstrations only.
        variant: ``"paper"`` or ``"0.1.1"``.

    Raises:
        ArgumentError: There is no experimentor, or the kernel has no hidden states.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        experimentor: Experimentor | None = None,
        cache_empty: CacheEmpty = None,
        calibrate_function: Callable[..., list[float]] | None = None,
        demonstration_set_cut: int | None = None,
        *,
        variant: str = "paper",
    ) -> None:
        """Check the arguments, which the description of the class explains; nothing is computed yet."""
        if experimentor is None:
            raise ArgumentError("experimentor is missing: its queries get the demonstrations")
        self.model = model
        self.tokenizer = tokenizer
        self.experimentor = experimentor
        self.cache_empty = cache_empty or (lambda: None)
        self.calibrate_function = calibrate_function
        self.demonstration_set_cut = demonstration_set_cut
        self.variant: Variant = check_variant(variant)
        self.kernel = _kernel_of(model, tokenizer)
        check_capabilities("TopK", self.kernel, frozenset({Capability.HIDDEN_STATES}))
        if calibrate_function is not None:
            self.kernel = _CalibratedInDetail(self.kernel, calibrate_function)
        self._encodings: dict[Any, Any] = {}
        """The encodings that were computed, by text."""
        self._predicted: dict[tuple[_OrderSettings, int], Any] = {}
        """The predictions that were computed, by how orders are tried and by the test row."""
        self._orders: dict[_OrderSettings, list[list[Order]]] = {}
        """For each test row its orders of near demonstrations, by how orders are tried."""
        self._rows: dict[Any, int] = {}
        """The test row of each prompt of the experimentor; empty until a prompt is looked up."""

    # -- attributes of 0.1.1

    @property
    def label_space(self) -> list[str]:
        """The labels of the experimentor."""
        return self.experimentor.get_label_space()

    @property
    def test_set(self) -> Any:
        """The test set of the experimentor."""
        return self.experimentor.test_set()

    @property
    def demonstration_set(self) -> list[Any]:
        """The rows that demonstrations are chosen from, each its input texts and its label.

        These are the first ``demonstration_set_cut`` rows of the experimentor's demonstration set. Without that
        argument, these are the first 512 rows in variant ``"0.1.1"``, as in the release, and otherwise all rows.
        """
        rows = list(self.experimentor.demonstration_set())
        if self.demonstration_set_cut is not None:
            return rows[: self.demonstration_set_cut]
        if self.variant == "0.1.1":
            return rows[: selection.CUT]
        return rows

    @property
    def TopK_anchors(self) -> list[Any]:
        """The encoding of each demonstration that has a text."""
        texts = [" ".join(row[0]) for row in self.demonstration_set]
        return self._encoded([question_only(text) for text in texts if text])

    # -- nearest demonstrations

    def neighbours(self, rows: Sequence[int], count: int) -> list[list[int]]:
        """Return the demonstrations nearest to test rows.

        Args:
            rows: Positions of the test set.
            count: How many.

        Returns:
            For each row, positions of the demonstration set, nearest first.
        """
        near = self._nearest_demonstrations(rows, count)
        self.cache_empty()
        return near

    def _nearest_demonstrations(self, rows: Sequence[int], count: int) -> list[list[int]]:
        """Return the demonstrations nearest to test rows; arguments and result as for :meth:`neighbours`."""
        copied = _with_k(clean_copy(self.experimentor), count)
        options = SelectionOptions(self.demonstration_set_cut)
        data = _SomeRows(copied, self.variant, 1, options, rows=rows)
        if self.variant == "0.1.1":
            selecting = selection.nearest_demonstrations(data, count, options)
        else:
            selecting = nearest_demonstrations(data, count, options)

        # The selection is a generator. It yields requests for encodings of texts, and is sent the encodings.
        encodings_of_requests: Any = None  # to start a generator, it is sent None
        while True:
            try:
                requests = selecting.send(encodings_of_requests)
            except StopIteration as end:
                near: list[list[int]] = end.value
                return near
            encodings_of_requests = []
            for request in requests:
                texts = [text for text, _ in request.keys]
                encodings_of_requests.append(self._encoded(texts))

    def _encoded(self, texts: Sequence[Any]) -> list[Any]:
        """Return the encoding of each text: the model's last hidden state, computed once for equal texts."""
        new_texts = [text for text in dict.fromkeys(texts) if text not in self._encodings]
        if new_texts:
            states = features_of(self.kernel, new_texts, (), "hidden")
            self._encodings.update(zip(new_texts, states, strict=True))
        return [self._encodings[text] for text in texts]

    def set_TopK_to_demonstration(self, k: int) -> None:
        """Give each query of the experimentor its ``k`` nearest demonstrations; each is used once then.

        Args:
            k: How many; the experimentor's ``k`` becomes this.

        Raises:
            ArgumentError: ``k`` is no whole number of at least 1, or there are fewer demonstrations.
        """
        k = validate_integer("k, the number of nearest demonstrations,", k, 1)
        query_count = self.experimentor.row_count  # the test rows within the limit
        nearest_of_queries = self.neighbours(range(query_count), k)
        # The sampler needs a list for every test row. Rows beyond the limit are not queries, so any demonstrations do.
        unused_count = len(self.test_set) - query_count
        unused_lists = [list(range(k)) for _ in range(unused_count)]
        _with_k(self.experimentor, k).set_demonstration_sampler([*nearest_of_queries, *unused_lists])

    # -- orders

    def inference_interface(
        self,
        prompt: Sequence[str] | str,
        label_space: Sequence[str],
        nearest_k: int = 5,
        inference_demos_number: int = 4,
        return_length: int = 10,
    ) -> Any:
        """SA-ICL as an inference function for the experimentor's own prompts, batched or one by one.

        A prompt only says which query it is; its demonstrations are replaced.

        Args:
            prompt: Prompts of the experimentor (``batched_inference=True``), or one.
            label_space: The labels of the experimentor.
            nearest_k: How many near demonstrations are considered.
            inference_demos_number: How many of them a prompt has.
            return_length: How many orders are tried.

        Returns:
            A list of probabilities for each prompt, or for the one.

        Raises:
            ArgumentError: A number is unfit, or a prompt is not one of the experimentor's.
        """
        k = validate_integer("inference_demos_number", inference_demos_number, 1)
        nearest_k = validate_integer("nearest_k", nearest_k, k)
        settings = _OrderSettings(k, nearest_k, validate_integer("return_length", return_length, 1))
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        rows = self._rows_of(prompts)

        new_rows = [row for row in dict.fromkeys(rows) if (settings, row) not in self._predicted]
        if new_rows:
            for row, prediction in zip(new_rows, self._predict(new_rows, settings), strict=True):
                self._predicted[settings, row] = prediction
            self.cache_empty()
        predictions = [self._predicted[settings, row] for row in rows]
        return predictions[0] if isinstance(prompt, str) else predictions

    def _rows_of(self, prompts: Sequence[Any]) -> list[int]:
        """Return the test row that each prompt is about.

        Raises:
            ArgumentError: A prompt is not one of the experimentor's.
        """
        all_are_known = all(prompt in self._rows for prompt in prompts)
        if not all_are_known:  # the prompts are written only then, because it takes long
            for query in self.experimentor.all_queries():
                self._rows[query.prompt] = query.row
        for number, prompt in enumerate(prompts):
            if prompt not in self._rows:
                raise ArgumentError(
                    f"prompt {number} is none of the experimentor's: got {prompt!r:.80}, expected one of its "
                    "prompt_set()"
                )
        return [self._rows[prompt] for prompt in prompts]

    def _predict(self, rows: Sequence[int], settings: _OrderSettings) -> list[Any]:
        """Return for each test row, of the predictions with several orders of near demonstrations, the surest one.

        Args:
            rows: Positions of the test set.
            settings: How many orders of how many demonstrations.
        """
        near = self._nearest_demonstrations(rows, settings.nearest_k)
        orders_of_rows = self._orders_of_rows(settings)
        writer = _with_k(clean_copy(self.experimentor), settings.k).prompt_former
        prompts = []  # row by row, of each row one for each order
        for row, near_positions in zip(rows, near, strict=True):
            for order in orders_of_rows[row]:  # an order has numbers of near demonstrations, from 0
                demonstrations = [near_positions[number] for number in order]
                prompts.append(writer.write_prompt(demonstrations, row))
        predictions = features_of(self.kernel, prompts, self.label_space, "probabilities")
        predictions = check_answered(predictions, "SA-ICL: prompt")

        # Each row has as many orders. The predictions have the order of the prompts, so those with the first order of
        # each row are at 0, n_orders, 2 * n_orders, and so on.
        n_orders = len(orders_of_rows[0])
        predictions_by_order = [predictions[number::n_orders] for number in range(n_orders)]
        if self.variant == "0.1.1":
            return surest_predictions(predictions_by_order, released_metrics.entropy)
        return surest_predictions(probabilities_of_orders(predictions_by_order, len(self.label_space)))

    def _orders_of_rows(self, settings: _OrderSettings) -> list[list[Order]]:
        """Return for each test row the orders of its near demonstrations.

        They are drawn for all test rows at once, so that a row has the same orders whichever rows are predicted.
        """
        if settings not in self._orders:
            row_count = self.experimentor.row_count
            if self.variant == "0.1.1":
                orders = [first_orders(settings.nearest_k, settings.k, settings.orders)] * row_count
            else:
                nearest_last = self.variant == "paper"
                orders = random_orders(row_count, settings.nearest_k, settings.k, settings.orders, nearest_last)
            self._orders[settings] = orders
        return self._orders[settings]
