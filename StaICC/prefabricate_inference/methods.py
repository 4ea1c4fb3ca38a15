"""The ten inference methods of the paper's Table 2, each one call.

``Method("hidden_calibration", kernel).run(benchmark)`` trains on each data set's calibration set and evaluates;
:func:`run_all` does so for all ten, which is the row of a model. What a method cost beforehand (prompts, seconds)
stands in ``result.timing`` and beside the accuracy in the table.

A method is a record (:class:`MethodSpec`) with a function that prepares it for one data set; docs/adding_a_method.md
adds one. docs/methods.md explains the ten side by side.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from StaICC.benchmarks import Benchmark, BenchmarkGroup, Experimentor
from StaICC.benchmarks.running import Running
from StaICC.errors import ArgumentError, OutputError, StaICCError, unknown_name
from StaICC.inference import Inference, Part
from StaICC.prefabricate_inference.calibration_samples import check_variant, check_whole
from StaICC.prefabricate_inference.method_catalogue import METHODS, TABLE_2, MethodSpec, calibrated
from StaICC.prefabricate_inference.method_plan import MethodOptions, Prepared, RememberingKernel, Workbench, fresh
from StaICC.prefabricate_inference.method_table import MethodTable
from StaICC.results import Result, ResultGroup, Signature, short_digest

__all__ = ["METHODS", "TABLE_2", "Method", "MethodSpec", "calibrated", "run_all", "run_method"]

_log = logging.getLogger(__name__)


def _find(name: str | MethodSpec) -> MethodSpec:
    if isinstance(name, MethodSpec):
        return name
    folded = name.replace("-", "_").casefold() if isinstance(name, str) else None
    if folded not in METHODS:
        raise unknown_name("method", name, METHODS, "'all' runs the ten of Table 2.")
    return METHODS[folded]


_OF_A_KERNEL = {"model", "tokenizer", "cache_empty", "return_hidden_state", "return_full_vocab_prob"}


def _whole(kernel: Inference) -> Inference:
    """Make a kernel of the partial that 0.1.1 documents: it knows model and tokenizer, and so can do everything."""
    if isinstance(kernel, functools.partial) and {"model", "tokenizer"} <= set(kernel.keywords) <= _OF_A_KERNEL:
        from StaICC.prefabricate_inference import model_kernel
        from StaICC.prefabricate_inference.causal_lm import CausalLMKernel

        if kernel.func is model_kernel.standard_ICL_inference_with_torch_Causal_LM:
            return CausalLMKernel(kernel.keywords["model"], kernel.keywords["tokenizer"], label_mass=False)
    return kernel


class Method:
    """An inference method on a kernel.

    Args:
        name: A name of :data:`METHODS` (dashes will do), or a record of your own.
        kernel: Any inference function; docs/methods.md says what each method needs of it. A ``functools.partial`` of
            ``standard_ICL_inference_with_torch_Causal_LM`` counts as the whole model.
        variant: ``"paper"``: as the method's own paper defines it; ``"0.1.1"``: as the release computes it.
        calibration_number: How many prompts it may be trained on, for each data set.
        **options: See :class:`~StaICC.prefabricate_inference.method_plan.MethodOptions`.

    Raises:
        UnknownNameError: There is no such method or variant.
        ArgumentError: An option is unknown or unfit.

    Example:
        >>> from StaICC import Normal
        >>> from StaICC.prefabricate_inference.ppm_kernel import PPMKernel
        >>> method = Method("contextual-calibration", PPMKernel(), calibration_number=8)
        >>> result = method.run(Normal(datasets=["mini"], limit=4))
        >>> result.timing["training_prompts"]
        8.0
    """

    def __init__(
        self,
        name: str | MethodSpec,
        kernel: Inference,
        variant: str = "paper",
        calibration_number: int = 128,
        **options: Any,
    ) -> None:
        self.spec = _find(name)
        if not callable(kernel):
            raise ArgumentError(f"the kernel must be an inference function, not {type(kernel).__name__}")
        self.kernel = _whole(kernel)
        self.variant = check_variant(variant)
        self.calibration_number = check_whole("calibration_number", calibration_number, 1)
        known = [field.name for field in dataclasses.fields(MethodOptions)]
        unknown = [option for option in options if option not in known]
        if unknown:
            raise ArgumentError(f"a method has no option {unknown[0]!r}; there are: {', '.join(known)}")
        self.options = MethodOptions(**options)

    def __repr__(self) -> str:
        return f"<{self.spec.title} ({self.variant}) on {self.kernel!r}>"

    def workbench(self, kernel: RememberingKernel | None = None, shared: dict[str, Any] | None = None) -> Workbench:
        """Return what this method works with."""
        own = kernel or RememberingKernel(self.kernel)
        return Workbench(own, self.variant, self.calibration_number, self.options, {}, {} if shared is None else shared)

    def prepare(self, one: Experimentor, bench: Workbench | None = None) -> Prepared:
        """Make the method ready for one data set: train, choose, write.

        Args:
            one: The experimentor; it is not changed.
            bench: A workbench of this method; a new one by default.

        Returns:
            What is asked, through which function, and what is made of the answers. For a calibration, its
            ``inference`` is the whole method: an inference function for any use.

        Raises:
            ArgumentError: The kernel lacks something, or the data set does not do.
            OutputError: The model's answers cannot be used.
        """
        try:
            return self.spec.prepare(bench or self.workbench(), fresh(one))
        except ArgumentError as error:
            raise ArgumentError(f"{self.spec.title}, {one.name}: {error}") from error
        except OutputError as error:
            raise OutputError(f"{self.spec.title}, {one.name}: {error}") from error

    def run(
        self, benchmark: Benchmark | BenchmarkGroup, *, return_outputs: bool = False, **run: Any
    ) -> Result | ResultGroup:
        """Train on each data set's calibration set and evaluate.

        Args:
            benchmark: The benchmark, or a group; it is not changed.
            return_outputs: Keep the answers of each query in ``result.outputs``.
            **run: How to ask: store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The result, signed with the method. ``timing`` has, added up over the data sets, ``training_prompts`` and
            ``training_seconds``, ``test_prompts`` (different prompts) and ``seconds`` (of the evaluation alone).

        Raises:
            ArgumentError: The kernel lacks something, or a data set does not do.
            OutputError: The model's answers cannot be used.
        """
        bench = self.workbench(RememberingKernel(self.kernel, run.pop("model_name", None)))
        return self.run_on(bench, benchmark, return_outputs=return_outputs, **run)

    __call__ = run

    def run_on(
        self, bench: Workbench, benchmark: Benchmark | BenchmarkGroup, *, return_outputs: bool = False, **run: Any
    ) -> Result | ResultGroup:
        """As :meth:`run`, with a workbench that may know encodings and answers already."""
        if isinstance(benchmark, BenchmarkGroup):
            parts = {
                name: self.run_on(bench, member, return_outputs=return_outputs, **run)
                for name, member in benchmark.members.items()
            }
            return ResultGroup(benchmark.name, parts)
        if not isinstance(benchmark, Benchmark):
            raise ArgumentError(f"methods run on benchmarks of classification, not on {type(benchmark).__name__}")
        runs, views = {}, []
        timing = {"training_prompts": 0.0, "training_seconds": 0.0, "test_prompts": 0.0, "seconds": 0.0}
        with Running(False, **run) as running:
            for number, one in enumerate(benchmark):
                prepared = self.prepare(one, bench)
                part = Part(f"{self.spec.title}: {benchmark.task.name}, {one.name}", number, len(benchmark))
                began, spared = time.monotonic(), bench.kernel.spared
                runs[one.name], asked = prepared.run(running.options_for(prepared.inference), part)
                timing["seconds"] += time.monotonic() - began + bench.kernel.spared - spared
                timing["test_prompts"] += asked
                timing["training_prompts"] += prepared.training_prompts
                timing["training_seconds"] += prepared.training_seconds
                views.append(prepared.views[0])
        twin = copy.copy(benchmark)
        twin.experimentor = views
        result = twin.collect(runs, timing["seconds"], return_outputs)
        result.timing.update(timing)
        result.signature = self._signed(result.signature)
        return result

    def _signed(self, signature: Signature) -> Signature:
        """Name the method and everything of it that can move a number; vanilla inference needs no name."""
        if self.spec.name == "vanilla":
            return signature
        default = MethodOptions()
        parts = [self.spec.name, self.variant, *([f"n={self.calibration_number}"] if self.spec.trains else [])]
        for field in dataclasses.fields(MethodOptions):
            value = getattr(self.options, field.name)
            read = self.spec.reads is None or field.name in self.spec.reads
            if read and value != getattr(default, field.name):
                parts.append(f"{field.name}={value if isinstance(value, int) else short_digest(value)}")
        return Signature({**signature.fields, "method": " ".join(parts)})


def run_all(
    kernel: Inference,
    benchmark: Benchmark | BenchmarkGroup,
    variant: str = "paper",
    calibration_number: int = 128,
    *,
    methods: Sequence[str | MethodSpec] | None = None,
    options: Mapping[str, Any] | None = None,
    **run: Any,
) -> MethodTable:
    """Run all methods: a model's row of Table 2.

    Prompts that several methods ask are computed once, texts are encoded once; times are those of each method alone. A
    method that the kernel or a data set cannot do is left out, with the reason in ``skipped``.

    Args:
        kernel: Any inference function.
        benchmark: The benchmark, or a group; it is not changed.
        variant: ``"paper"`` or ``"0.1.1"`` (whose k-NN is the centroid form, as in the paper's table).
        calibration_number: How many prompts each method may be trained on, for each data set.
        methods: Names or records; the ten by default.
        options: See :class:`~StaICC.prefabricate_inference.method_plan.MethodOptions`.
        **run: How to ask, and ``return_outputs``; see :meth:`Method.run`.

    Returns:
        The results by method; it prints as a table.

    Raises:
        ArgumentError: Not one method could be run.
    """
    if methods is None:
        released = check_variant(variant) == "0.1.1"
        methods = [f"{name}_centroid" if released and name == "knn_prompt" else name for name in TABLE_2]
    made = [Method(name, kernel, variant, calibration_number, **(options or {})) for name in methods]
    remembering = RememberingKernel(_whole(kernel), run.pop("model_name", None))
    shared: dict[str, Any] = {}
    results: dict[str, Result | ResultGroup] = {}
    skipped: dict[str, str] = {}
    for method in made:
        try:
            results[method.spec.name] = method.run_on(method.workbench(remembering, shared), benchmark, **run)
        except StaICCError as error:
            reason = str(error)
            skipped[method.spec.name] = (
                reason if reason.startswith(method.spec.title) else f"{method.spec.title}: {reason}"
            )
            _log.warning("left out: %s", skipped[method.spec.name])
    if not results:
        raise ArgumentError(
            f"not one method could be run; {next(iter(skipped), 'none')}: {next(iter(skipped.values()), '')}"
        )
    return MethodTable("Methods", results, {method.spec.name: method.spec.title for method in made}, skipped)


def run_method(
    name: str,
    kernel: Inference,
    make_benchmark: Callable[[], Benchmark | BenchmarkGroup],
    variant: str = "paper",
    calibration_number: int = 128,
    **run: Any,
) -> Result | ResultGroup:
    """Run one method, or all: what the command line's ``--method`` does.

    Args:
        name: A method, or ``"all"`` for the ten of Table 2.
        kernel: Any inference function.
        make_benchmark: Makes the benchmark.
        variant: ``"paper"`` or ``"0.1.1"``.
        calibration_number: How many prompts a method may be trained on, for each data set.
        **run: How to ask; see :meth:`Method.run`.

    Returns:
        A result, or a table of them; :func:`~StaICC.prefabricate_inference.method_table.format_methods` prints either.

    Raises:
        UnknownNameError: There is no such method.
    """
    if name == "all":
        return run_all(kernel, make_benchmark(), variant, calibration_number, **run)
    method = Method(name, kernel, variant, calibration_number)  # before the data is read
    return method.run(make_benchmark(), **run)
