"""Methods in one call: on made-up kernels whose answers are known, and on a tiny random model."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, Normal
from StaICC.benchmarks import GLER, ContextualBias, DemonstrationSensitivity, TemplateSensitivity, TripletBias
from StaICC.errors import ArgumentError, OutputError, StaICCError, UnknownNameError
from StaICC.inference.identity import Identity, identity_of
from StaICC.kernels.ppm import PPMKernel
from StaICC.kernels.protocol import Capability
from StaICC.methods import run as ms
from StaICC.methods.calibration import batch_calibration
from StaICC.methods.run import format_methods
from StaICC.methods.specification import Prepared, Workbench, fresh
from StaICC.results import Result, load

numpy = pytest.importorskip("numpy")


def numbers(text: str, count: int) -> list[float]:
    """Numbers in (0, 1) that depend on a text only."""
    data = hashlib.sha256(text.encode()).digest()
    return [(data[place] + 0.5) / 256 for place in range(count)]


class Kernel:
    """Has everything that a local model has; counts what it is asked."""

    def identity(self) -> Identity:
        return Identity({"model": "made up"})

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def _count(self, what: str, number: int) -> None:
        self.calls[what] = self.calls.get(what, 0) + number

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        self._count("batch", len(prompts))
        rows = [numbers("".join(prompt), len(label_space)) for prompt in prompts]
        return [[value / sum(row) for value in row] for row in rows]

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> list[float]:
        return self.batch([prompt], label_space)[0]

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        self._count("hidden", len(prompts))
        return numpy.array([numbers(prompt, 4) for prompt in prompts])

    def full_vocabulary_logits(self, prompts: Sequence[str]) -> Any:
        self._count("vocabulary", len(prompts))
        return numpy.array([[10 * value for value in numbers(prompt, 12)] for prompt in prompts])

    def losses(self, texts: Sequence[str]) -> list[float]:
        self._count("losses", len(texts))
        return [numbers(text, 1)[0] for text in texts]

    def noisy_channel(self, prompts: Any, label_space: Sequence[str], variant: str) -> list[list[float]]:
        self._count(f"noisy {variant}", len(prompts))
        return self.batch(prompts, label_space)

    def generate(self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str]) -> list[str]:
        labels = benchmark()[0].get_label_space()
        return [labels[int(100 * numbers(prompt, 1)[0]) % len(labels)] for prompt in prompts]


SIXTEEN_EACH = 14 + 15 + 16
"""Calibration rows of mini with which hidden calibration is trained: two labels have fewer than 16."""


def benchmark(limit: int | None = 5, k: int = 2, **more: Any) -> Any:
    return Normal(k=k, datasets=["mini"], limit=limit, **more)


def probabilities(result: Any) -> list[list[float]]:
    return [record["predicted_probabilities"] for record in result.outputs["mini"]]


# -- one method


def test_vanilla_is_the_benchmark_itself() -> None:
    assert ms.Method("vanilla", Kernel()).run(benchmark()) == benchmark()(Kernel())


@pytest.mark.parametrize("name", list(ms.METHODS))
@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_every_method_runs_and_leaves_the_benchmark_alone(name: str, variant: str) -> None:
    bench = benchmark()
    before = bench.signature()
    prompts = bench[0].prompt_set()
    result = ms.Method(name, Kernel(), variant, calibration_number=20).run(bench)
    assert isinstance(result, Result)
    assert result.complete
    assert 0 <= result["Averaged results"]["accuracy"] <= 1
    assert bench.signature() == before
    assert bench[0].prompt_set() == prompts
    again = ms.Method(name.replace("_", "-"), Kernel(), variant, calibration_number=20)(bench)
    assert again == result
    if name != "vanilla":
        assert f"{name} {variant}" in str(result.signature)


def test_cost() -> None:
    """Training prompts and test prompts are counted; those of TopK are the texts that it encodes."""
    asked = {
        ("vanilla", "paper"): (0, 10),
        ("hidden_calibration", "paper"): (SIXTEEN_EACH, 10),
        ("hidden_calibration", "staicc"): (20, 10),
        ("ppl_icl", "paper"): (5 * 20, 10),
        ("contextual_calibration", "paper"): (0, 10 * 4),  # the query and three texts after its demonstrations
        ("contextual_calibration", "staicc"): (20, 10),
        ("domain_calibration", "paper"): (0, 10 * 21),
    }
    for (name, variant), expected in asked.items():
        timing = ms.Method(name, Kernel(), variant, calibration_number=20).run(benchmark()).timing
        assert (timing["training_prompts"], timing["test_prompts"]) == expected
        assert timing["reused_prompts"] == 0
    for name, test in (("topk", 5), ("sa_icl", 5 * 10)):
        kernel = Kernel()
        timing = ms.Method(name, kernel).run(benchmark()).timing
        texts = {row[0][0] for row in benchmark()[0].demonstration_set()}
        texts |= {benchmark()[0].test_set()[row][0][0] for row in range(5)}
        assert timing["training_prompts"] == kernel.calls["hidden"] == len(texts)
        assert timing["test_prompts"] == kernel.calls["batch"] == test


def test_calibration_is_what_its_class_computes() -> None:
    from StaICC.prefabricate_inference.standard_calibration import CalibratedKernel, DomainCalibration

    one = benchmark()[0]
    made = DomainCalibration(one.get_label_space())
    write = one.prompt_former.write_prompt_from_dataline
    made.train(write, Kernel(), one.calibration_set(), calibration_number=20, sample_length=7, k=2)
    plain = benchmark()(CalibratedKernel(Kernel(), made), return_outputs=True)
    method = ms.Method("domain_calibration", Kernel(), "staicc", calibration_number=20, sample_length=7)
    assert probabilities(method.run(benchmark(), return_outputs=True)) == probabilities(plain)


def test_prepared_function_works_anywhere() -> None:
    """For a calibration, what is prepared is an inference function with batch and identity."""
    one = benchmark()[0]
    method = ms.Method("hidden_calibration", Kernel(), calibration_number=20)
    inference = method.prepare(one).inference
    identity = identity_of(inference)
    assert identity.who["model"] == "made up"
    assert identity.settings["calibration name"] == "hidden_calibration"
    scores, _ = one.auto_run(inference)
    assert scores == method.run(benchmark())["Divided results"]["mini"]


def test_batch_calibration_sees_whole_conditions() -> None:
    plain = benchmark()(Kernel(), return_outputs=True)
    result = ms.Method("batch_calibration", Kernel(), batch_size=4).run(benchmark(), return_outputs=True)
    assert probabilities(result) == batch_calibration(probabilities(plain), 4)


def test_noisy_channel_asks_noisy_prompts() -> None:
    plain = benchmark(noisy_channel=True)(Kernel(), return_outputs=True)
    kernel = Kernel()
    result = ms.Method("noisy_channel", kernel, "0.1.1").run(benchmark(), return_outputs=True)
    assert probabilities(result) == probabilities(plain)
    assert kernel.calls["noisy 0.1.1"] == 10
    assert result.signature.fields["channel"] == "noisy"
    assert "template" not in result.signature.fields
    assert result.signature.fields["prompts"] == plain.signature.fields["prompts"]
    assert ms.Method("noisy_channel", PPMKernel()).run(benchmark()).complete
    with pytest.raises(ArgumentError, match="PPMKernel has no method noisy_channel"):
        ms.Method("noisy_channel", PPMKernel(), "0.1.1").run(benchmark())


@pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")
def test_changed_templates_are_kept() -> None:
    bench = benchmark()
    bench[0].prompt_former.change_instruction("Look: ")
    bench[0].set_in_domain_mode()
    noisy = fresh(bench[0], noisy_channel=True)
    assert noisy.prompt_set()[0][0].startswith("Look: ")
    assert noisy.prompt_former.settings.noisy_channel
    assert not bench[0].prompt_former.settings.noisy_channel
    assert "in-domain" in repr(noisy)
    result = ms.Method("contextual_calibration", Kernel(), calibration_number=4).run(bench)
    assert result.signature.fields["template"].startswith("changed-")


@pytest.mark.filterwarnings("error::StaICC.prompting.TemplateWarning")
def test_ppl_icl_signs_the_changed_template_without_a_warning() -> None:
    result = ms.Method("ppl_icl", Kernel(), calibration_number=4).run(benchmark())
    assert result.signature.fields["template"].startswith("changed-")
    own = ms.Method("ppl_icl", Kernel(), calibration_number=4, instructions={"mini": ["Only one. "]})
    one = own.prepare(benchmark()[0]).views[0]
    assert one.prompt_set()[0].startswith("Only one. ")


def test_topk_gives_each_query_its_nearest() -> None:
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL

    one = benchmark(limit=None)[0]
    SA_ICL(Kernel(), None, one).set_TopK_to_demonstration(2)
    expected = one.prompt_set()[:5]
    assert ms.Method("topk", Kernel()).prepare(benchmark()[0]).views[0].prompt_set() == expected


def test_sa_icl_is_its_class() -> None:
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL

    one = benchmark(k=3)[0]
    expected = SA_ICL(Kernel(), None, one).inference_interface(one.prompt_set()[:5], one.get_label_space(), 4, 3, 10)
    result = ms.Method("sa_icl", Kernel(), candidates=4).run(benchmark(k=3), return_outputs=True)
    assert probabilities(result) == expected


# -- all


def test_all_is_a_table(tmp_path: Path) -> None:
    kernel = Kernel()
    table = ms.run_all(kernel, benchmark(), calibration_number=20)
    assert tuple(table) == ms.TABLE_2
    assert not table.skipped
    text = str(table)
    for title in ("Vanilla", "Hidden calibration", "train prompts", "ECE-1"):
        assert title in text
    assert len(set(map(str, (result.signature for result in table.results())))) == 10
    # Vanilla, contextual, domain and batch calibration ask the same 10 prompts: computed once.
    vanilla, noisy, contextual, domain, instruction, nearest, orders = 10, 10, 30, 200, 10, 5, 5 * 10
    assert kernel.calls["batch"] == vanilla + noisy + contextual + domain + instruction + nearest + orders
    encoded = len({row[0][0] for row in benchmark()[0].demonstration_set()}) + 5
    anchors = 3 * (20 // 3)  # k-NN has equally many of each label
    assert kernel.calls["hidden"] == encoded + vanilla + SIXTEEN_EACH
    assert kernel.calls["vocabulary"] == vanilla + anchors
    assert vanilla + contextual + domain + SIXTEEN_EACH <= table.shared["prompts"] <= 240 + SIXTEEN_EACH + anchors
    assert "computed for several runs together: " in text
    table.save(tmp_path / "table.json")
    again = load(tmp_path / "table.json")
    assert dict(again) == dict(table)
    assert format_methods(again).splitlines()[2].startswith("vanilla")
    assert json.loads((tmp_path / "table.json").read_text())["skipped"] == {}


def test_options_are_signed_by_the_methods_that_read_them() -> None:
    methods = ["ppl_icl", "topk", "sa_icl", "batch_calibration"]
    options = {"instructions": ["Odd | even. ", "Sort. "], "orders": 3, "batch_size": 64}
    table = ms.run_all(Kernel(), benchmark(), methods=methods, options=options, calibration_number=4)
    plain = ms.run_all(Kernel(), benchmark(), methods=methods, calibration_number=4)
    signed = {name: result.signature.fields["method"] for name, result in table.items()}
    assert signed["topk"] == plain["topk"].signature.fields["method"]
    assert signed["sa_icl"].endswith("orders=3")
    assert signed["batch_calibration"].endswith("batch_size=64")
    assert re.search(r" instructions=[0-9a-f]{12}$", signed["ppl_icl"])


def test_a_table_of_methods_shows_as_one_in_a_notebook() -> None:
    table = ms.run_all(PPMKernel(), benchmark(), methods=["vanilla", "batch_calibration", "topk"])
    page = table._repr_html_()
    for part in ("<caption>Methods</caption>", "<td>Batch calibration</td>", "train prompts", "left out: TopK"):
        assert part in page
    assert page.count("<table>") == 1
    group = ms.run_all(PPMKernel(), TripletBias(k=2, datasets=["mini"], limit=3), methods=["vanilla"])
    assert group._repr_html_().count("<table>") == 3


def test_methods_that_cannot_be_run_are_left_out_with_the_reason() -> None:
    table = ms.run_all(PPMKernel(), benchmark(), calibration_number=4)
    assert list(table) == [
        "vanilla",
        "noisy_channel",
        "contextual_calibration",
        "domain_calibration",
        "batch_calibration",
    ]
    assert set(table.skipped) == {"ppl_icl", "topk", "sa_icl", "knn_prompt", "hidden_calibration"}
    assert "left out: Hidden calibration needs hidden states, which PPMKernel does not provide" in str(table)
    with pytest.raises(ArgumentError, match="none of the methods topk could be run: TopK needs hidden states"):
        ms.run_all(PPMKernel(), benchmark(), methods=["topk"])


def test_capabilities_are_checked_before_anything_is_evaluated() -> None:
    """One error that names method, capability and kernel; the data is not read and the kernel is not called."""

    class TextOnly:
        capabilities = frozenset({Capability.TEXT, Capability.BATCH})

        def __call__(self, prompt: Any, label_space: Any) -> Any:
            raise AssertionError("the kernel was called")

    def no_data() -> Any:
        raise AssertionError("the data was read")

    for name in set(ms.METHODS) - {"vanilla", "generate"}:
        with pytest.raises(ArgumentError, match="which TextOnly does not provide; it provides text, batch"):
            ms.run_method(name, TextOnly(), no_data)
    with pytest.raises(ArgumentError, match=r"^SA-ICL needs label scores and hidden states, which TextOnly does not"):
        ms.Method("sa_icl", TextOnly())
    with pytest.raises(ArgumentError, match="none of the methods ppl_icl, topk could be run"):
        ms.run_all(TextOnly(), benchmark(), methods=["ppl_icl", "topk"])
    with pytest.raises(ArgumentError, match="expected a frozenset of Capability"):
        ms.MethodSpec("mine", "Mine", print, {"hidden states"})  # type: ignore[arg-type]


def test_two_data_sets_and_their_accuracies() -> None:
    rows = [((f"text {i}",), i % 2) for i in range(60)]
    two = Dataset.from_rows(rows, name="two", label_space=["even", "odd"])
    table = ms.run_all(Kernel(), Normal(datasets=["mini", two], limit=3, k=1), methods=["vanilla", "ppl_icl", "topk"])
    assert "no candidate instructions for 'two'" in table.skipped["ppl_icl"]
    assert str(table).count("\n\n") == 1
    assert "accuracy" in str(table).split("\n\n")[1]
    assert "two" in str(table).split("\n\n")[1]


def test_groups() -> None:
    group = TripletBias(k=2, datasets=["mini"], limit=3)
    kernel = Kernel()
    found = ms.Method("hidden_calibration", kernel, calibration_number=20).run(group)
    assert list(found) == ["contextual", "domain", "post"]
    assert kernel.calls["hidden"] == SIXTEEN_EACH + 3 * 6  # trained once
    table = ms.run_all(kernel, group, methods=["vanilla", "contextual_calibration"], calibration_number=4)
    assert "contextual\nmethod" in str(table)
    assert format_methods(found).count(f"train prompts {SIXTEEN_EACH}") == 3


@pytest.mark.parametrize("kind", [ContextualBias, GLER])
@pytest.mark.parametrize("name", ["batch_calibration", "sa_icl", "topk", "hidden_calibration"])
def test_other_benchmarks(kind: Any, name: str) -> None:
    bench = kind(k=3, datasets=["mini"], limit=3)
    result = ms.Method(name, Kernel(), calibration_number=20).run(bench)
    assert result.complete
    assert result.details["mini"].asked == sum(len(c.truth) for c in result.details["mini"].conditions)


def test_benchmarks_that_set_what_the_method_chooses() -> None:
    """A figure that the method had no part in, or that can only be 1, is no figure."""
    for name in ("topk", "sa_icl"):
        with pytest.raises(ArgumentError, match="Demo_sens needs several demonstration lists"):
            ms.Method(name, Kernel()).run(DemonstrationSensitivity(k=2, datasets=["mini"], limit=2))
    with pytest.raises(ArgumentError, match="Template_sens sets the instruction itself"):
        ms.Method("ppl_icl", Kernel(), calibration_number=4).run(TemplateSensitivity(k=2, datasets=["mini"], limit=2))


def test_run_method() -> None:
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return benchmark()

    assert list(ms.run_method("all", Kernel(), make, calibration_number=20)) == list(ms.TABLE_2)
    single = ms.run_method("Hidden-Calibration", Kernel(), make, calibration_number=20)
    assert format_methods(single).splitlines()[-1].startswith(f"train prompts {SIXTEEN_EACH}, train s 0.")
    with pytest.raises(UnknownNameError, match=r"no method 'hidden_calibratoin'; did you mean 'hidden_calibration'"):
        ms.run_method("hidden_calibratoin", Kernel(), make)
    assert len(made) == 2


# -- how it asks


def test_store_keeps_methods_apart(tmp_path: Path) -> None:
    """The same store, the same model: no method may take another's answers; a second run asks nothing."""
    path = tmp_path / "store.sqlite"
    plain = {name: ms.Method(name, Kernel(), calibration_number=20).run(benchmark()) for name in ms.METHODS}
    for name in ms.METHODS:
        assert ms.Method(name, Kernel(), calibration_number=20).run(benchmark(), store=path) == plain[name]
    kernel = Kernel()
    assert ms.Method("vanilla", kernel).run(benchmark(), store=path, recheck=False) == plain["vanilla"]
    assert ms.Method("sa_icl", kernel).run(benchmark(), store=path, recheck=False) == plain["sa_icl"]
    assert "batch" not in kernel.calls


def test_named_functions_in_a_store(tmp_path: Path, anonymous: Any) -> None:
    """The name of a function that cannot be identified must not mix calibrated with plain answers."""
    kernels = [Kernel()]

    def plain(prompt: str, label_space: list[str]) -> list[float]:
        return kernels[0](prompt, label_space)

    path = tmp_path / "store.sqlite"
    for name in ("vanilla", "contextual_calibration"):
        method = ms.Method(name, plain, calibration_number=8)
        stored = method.run(benchmark(), store=path, model_name="m")
        assert anonymous(stored) == anonymous(method.run(benchmark()))
    with pytest.raises(ArgumentError, match="model_name"):
        ms.Method("vanilla", plain).run(benchmark(), store=path)


def test_prepared_functions_travel_to_processes() -> None:
    import pickle

    inference: Any = (
        ms.Method("contextual_calibration", PPMKernel(), calibration_number=4).prepare(benchmark()[0]).inference
    )
    there = pickle.loads(pickle.dumps(inference))
    prompts, labels = benchmark()[0].prompt_set(), benchmark()[0].get_label_space()
    assert there.identity() == inference.identity()
    assert there.batch(prompts, labels) == inference.batch(prompts, labels)


class Failing(Kernel):
    """Has no answer to some prompts."""

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
        found: list[Any] = super().batch(prompts, label_space)
        return [
            OutputError("no label") if "".join(p).startswith(BAD) else row
            for p, row in zip(prompts, found, strict=True)
        ]


BAD = "".join(benchmark()[0].prompt_set()[3])


@pytest.mark.parametrize("name", ["vanilla", "batch_calibration", "contextual_calibration"])
def test_queries_without_an_answer(name: str) -> None:
    method = ms.Method(name, Failing(), calibration_number=4)
    with pytest.raises(OutputError, match="query 3"):
        method.run(benchmark())
    result = method.run(benchmark(), on_error="collect", return_outputs=True)
    assert result.details["mini"].failed == 1
    rows = probabilities(result)
    assert rows[3] is None
    if name == "batch_calibration":
        assert [row for row in rows if row] == batch_calibration(
            [row for i, row in enumerate(probabilities(benchmark()(Kernel(), return_outputs=True))) if i != 3]
        )


def test_sa_icl_goes_on_with_the_orders_that_have_an_answer() -> None:
    whole = ms.Method("sa_icl", Kernel()).run(benchmark(), return_outputs=True)
    views = ms.Method("sa_icl", Kernel()).prepare(benchmark()[0]).views
    lost = {view.prompt_set()[0] for view in views[1:]}

    class Losing(Kernel):
        def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
            return [
                OutputError("lost") if prompt in lost else row
                for prompt, row in zip(prompts, super().batch(prompts, label_space), strict=True)
            ]

    found = probabilities(ms.Method("sa_icl", Losing()).run(benchmark(), on_error="collect", return_outputs=True))
    assert found[1:] == probabilities(whole)[1:]
    assert found[0] == Kernel()(views[0].prompt_set()[0], benchmark()[0].get_label_space())


# -- refusals


def test_refusals() -> None:
    with pytest.raises(UnknownNameError, match="'all' runs the ten"):
        ms.Method("nothing", Kernel())
    with pytest.raises(UnknownNameError, match="no variant"):
        ms.Method("vanilla", Kernel(), "0.1.2")
    with pytest.raises(ArgumentError, match="calibration_number must be an integer of at least 1, not 0"):
        ms.Method("vanilla", Kernel(), calibration_number=0)
    with pytest.raises(ArgumentError, match=r"no option of knn_prompt 'knn'; did you mean 'knn_k'\?"):
        ms.Method("knn_prompt", Kernel(), knn=3)
    with pytest.raises(ArgumentError, match="got str, expected an inference function"):
        ms.Method("vanilla", "smollm2")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="got list, expected a Benchmark or BenchmarkGroup"):
        ms.Method("vanilla", Kernel()).run([])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a run has no setting 'stroe'"):
        ms.Method("vanilla", Kernel()).run(benchmark(), stroe="x")


def test_k_of_zero() -> None:
    for name in ("topk", "sa_icl"):
        with pytest.raises(ArgumentError, match="got k = 0, expected at least 1"):
            ms.Method(name, Kernel()).run(benchmark(k=0))
    table = ms.run_all(Kernel(), benchmark(k=0), calibration_number=20)
    assert set(table.skipped) == {"topk", "sa_icl"}
    assert all(result.complete for result in table.results())


@pytest.mark.parametrize("name", [name for name in ms.METHODS if name not in ("vanilla", "noisy_channel", "generate")])
def test_nan_is_named(name: str) -> None:
    class Nan(Kernel):
        def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
            return [[math.nan] * len(label_space) for _ in prompts]

        def hidden_states(self, prompts: Sequence[str]) -> Any:
            return numpy.full((len(prompts), 3), math.nan)

        full_vocabulary_logits = hidden_states

        def losses(self, texts: Sequence[str]) -> list[float]:
            return [math.nan for _ in texts]

    with pytest.raises(StaICCError, match=r"(?i)nan|not finite"):
        ms.Method(name, Nan(), calibration_number=20).run(benchmark())


# -- one's own


def test_a_method_of_ones_own() -> None:
    def shuffle(bench: Workbench, one: Any) -> Prepared:
        one.prompt_former.change_query_prefix("Now: ")
        return Prepared([one], bench.kernel)

    spec = ms.MethodSpec("now", "Now", shuffle)
    with pytest.warns(UserWarning, match="no longer the benchmark's"):
        table = ms.run_all(Kernel(), benchmark(), methods=["vanilla", spec])
    assert list(table) == ["vanilla", "now"]
    assert re.fullmatch("now@[0-9a-f]{12} paper", table["now"].signature.fields["method"])
    assert "Now" in str(table)


def test_partial_of_0_1_1_is_the_whole_model(make_model: Any, make_tokenizer: Any) -> None:
    pytest.importorskip("torch")
    import functools

    from StaICC.kernels.huggingface import functions as model_kernel

    model, tokenizer = make_model("GPT2", n_positions=2048, max_position_embeddings=2048), make_tokenizer()
    inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM, model=model, tokenizer=tokenizer, cache_empty=None
    )
    bench = benchmark(limit=2, k=1)
    by_method, direct = ms.Method("vanilla", inference).run(bench), bench(inference)
    assert dict(by_method) == dict(direct)
    assert by_method.details == direct.details  # only the recorded identity differs: it names the function
    assert ms.Method("hidden_calibration", inference, calibration_number=9).run(bench).complete


@pytest.mark.slow
def test_all_ten_on_a_tiny_model(make_model: Any, make_tokenizer: Any) -> None:
    pytest.importorskip("torch")
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=2048), make_tokenizer())
    for variant in ("paper", "0.1.1"):
        table = ms.run_all(kernel, benchmark(limit=2, k=1), variant, calibration_number=9)
        assert not table.skipped
        assert len(table) == 10


# -- documentation

ROOT = Path(__file__).parents[2]


def test_example_of_a_method_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import runpy

    example = runpy.run_path(str(ROOT / "examples" / "adding_a_method.py"))
    example["main"]()
    table = capsys.readouterr().out.splitlines()
    figures = {line[:22].strip(): re.sub(r"\[[^]]*\]", "", line[22:]).split() for line in table[2:6]}
    assert set(figures) == {"Vanilla", "Contextual calibration", "Batch calibration", "Temperature scaling"}
    assert figures["Vanilla"][0] == figures["Temperature scaling"][0]  # the order of labels stays
    assert figures["Temperature scaling"][4] == "48"
    assert float(figures["Temperature scaling"][3]) < 0.5 * float(figures["Vanilla"][3])  # calibration error
    made = example["TemperatureScaling"](["a", "b"])
    made.temperature, made.trained = 2.0, True
    assert made.inference([0.8, 0.2]) == pytest.approx([2 / 3, 1 / 3])  # sqrt(4) : 1
    made.save(tmp_path / "made.json")
    assert example["TemperatureScaling"].load(tmp_path / "made.json").temperature == 2.0
