"""Methods in one call: results, tables, groups, refusals and signatures."""

from __future__ import annotations

import functools
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from StaICC import Dataset, Normal
from StaICC.benchmarks import TripletBias
from StaICC.errors import ArgumentError, OutputError, StaICCError, UnknownNameError
from StaICC.inference.identity import identity_of
from StaICC.kernels.ppm import PPMKernel
from StaICC.kernels.protocol import Capability
from StaICC.methods import run as ms
from StaICC.methods.calibration import (
    CalibratedKernel,
    ContextualCalibration,
    DomainCalibration,
    HiddenCalibration,
    batch_calibration,
)
from StaICC.methods.calibration.base import calibration_method
from StaICC.methods.run import format_methods
from StaICC.methods.specification import fresh
from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL
from StaICC.results import Result, load
from tests.methods.fakes import Kernel, mini, rows_of

SIXTEEN_EACH = 14 + 15 + 16
"""Calibration rows of mini with which hidden calibration is trained: two labels have fewer than 16."""


def test_vanilla_is_the_benchmark_itself() -> None:
    assert ms.Method("vanilla", Kernel()).run(mini()) == mini()(Kernel())


@pytest.mark.parametrize("name", list(ms.METHODS))
@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_every_method_runs_and_leaves_the_benchmark_alone(name: str, variant: str) -> None:
    bench = mini()
    before, prompts = bench.signature(), bench[0].prompt_set()
    result = ms.Method(name, Kernel(), variant, calibration_number=20).run(bench)
    assert isinstance(result, Result)
    assert result.complete
    assert 0 <= result["Averaged results"]["accuracy"] <= 1
    assert (bench.signature(), bench[0].prompt_set()) == (before, prompts)
    assert ms.Method(name.replace("_", "-"), Kernel(), variant, calibration_number=20)(bench) == result
    assert (f"{name} {variant}" in str(result.signature)) is (name != "vanilla")


@pytest.mark.parametrize(
    ("name", "variant", "training", "test"),
    [
        ("vanilla", "paper", 0, 8),
        ("hidden_calibration", "paper", SIXTEEN_EACH, 8),
        ("hidden_calibration", "staicc", 20, 8),
        ("ppl_icl", "paper", 5 * 20, 8),
        ("contextual_calibration", "paper", 0, 8 * 4),  # the query and three texts after its demonstrations
        ("contextual_calibration", "staicc", 20, 8),
        ("domain_calibration", "paper", 0, 8 * 21),
        ("topk", "paper", 196, 4),  # 192 demonstrations and 4 queries are encoded
        ("sa_icl", "paper", 196, 4 * 10),
    ],
)
def test_cost(name: str, variant: str, training: int, test: int) -> None:
    timing = ms.Method(name, Kernel(), variant, calibration_number=20).run(mini()).timing
    assert (timing["training_prompts"], timing["test_prompts"], timing["reused_prompts"]) == (training, test, 0)
    assert (timing["training_seconds"] > 0) is (training > 0)


def test_calibration_is_what_its_class_computes() -> None:
    experimentor = mini()[0]
    made = DomainCalibration(experimentor.get_label_space())
    write = experimentor.prompt_former.write_prompt_from_dataline
    made.train(write, Kernel(), experimentor.calibration_set(), calibration_number=20, sample_length=7, k=2)
    plain = mini()(CalibratedKernel(Kernel(), made), return_outputs=True)
    method = ms.Method("domain_calibration", Kernel(), "staicc", calibration_number=20, sample_length=7)
    assert rows_of(method.run(mini(), return_outputs=True)) == rows_of(plain)


def test_batch_calibration_sees_whole_conditions() -> None:
    plain = mini()(Kernel(), return_outputs=True)
    result = ms.Method("batch_calibration", Kernel(), batch_size=4).run(mini(), return_outputs=True)
    assert rows_of(result) == batch_calibration(rows_of(plain), 4)


def test_noisy_channel_predicts_noisy_prompts() -> None:
    plain = mini(noisy_channel=True)(Kernel(), return_outputs=True)
    kernel = Kernel()
    result = ms.Method("noisy_channel", kernel, "0.1.1").run(mini(), return_outputs=True)
    assert rows_of(result) == rows_of(plain)
    assert kernel.calls["noisy 0.1.1"] == 8
    assert result.signature.fields["channel"] == "noisy"
    assert "template" not in result.signature.fields
    assert result.signature.fields["prompts"] == plain.signature.fields["prompts"]
    assert ms.Method("noisy_channel", PPMKernel()).run(mini()).complete
    with pytest.raises(ArgumentError, match="no method noisy_channel"):
        ms.Method("noisy_channel", PPMKernel(), "0.1.1").run(mini())


@pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")
def test_changed_templates_are_kept() -> None:
    bench = mini()
    bench[0].prompt_former.change_instruction("Look: ")
    bench[0].set_in_domain_mode()
    noisy = fresh(bench[0], noisy_channel=True)
    assert noisy.prompt_set()[0][0].startswith("Look: ")
    assert noisy.prompt_former.settings.noisy_channel
    assert not bench[0].prompt_former.settings.noisy_channel
    result = ms.Method("contextual_calibration", Kernel(), calibration_number=4).run(bench)
    assert result.signature.fields["template"].startswith("changed-")
    assert ms.Method("vanilla", Kernel()).run(bench) == bench(Kernel())


@pytest.mark.filterwarnings("error::StaICC.prompting.TemplateWarning")
def test_prepared_data_sets_have_the_prompts_of_the_method() -> None:
    result = ms.Method("ppl_icl", Kernel(), calibration_number=4).run(mini())
    assert result.signature.fields["template"].startswith("changed-")
    own = ms.Method("ppl_icl", Kernel(), calibration_number=4, instructions={"mini": ["Only one. "]})
    assert own.prepare(mini()[0]).prompt_set()[0].startswith("Only one. ")
    experimentor = mini(limit=None)[0]
    SA_ICL(Kernel(), None, experimentor).set_TopK_to_demonstration(2)
    prepared = ms.Method("topk", Kernel()).prepare(mini()[0])
    assert prepared.prompt_set() == experimentor.prompt_set()[:4]
    assert [query.label for query in prepared.all_queries()] == [query.label for query in experimentor.all_queries()][
        :4
    ]


def test_sa_icl_is_its_class() -> None:
    experimentor = mini(k=3)[0]
    expected = SA_ICL(Kernel(), None, experimentor).inference_interface(
        experimentor.prompt_set()[:4], experimentor.get_label_space(), 4, 3, 10
    )
    result = ms.Method("sa_icl", Kernel(), candidates=4).run(mini(k=3), return_outputs=True)
    assert rows_of(result) == expected


# -- all


def test_all_is_a_table(tmp_path: Path) -> None:
    kernel = Kernel()
    table = ms.run_all(kernel, mini(), calibration_number=20)
    assert tuple(table) == ms.TABLE_2
    assert not table.skipped
    text = str(table)
    for part in ("Vanilla", "Hidden calibration", "train prompts", "ECE-1", "computed for several runs together: "):
        assert part in text
    assert len(set(map(str, (result.signature for result in table.results())))) == 10
    table.save(tmp_path / "table.json")
    again = load(tmp_path / "table.json")
    assert dict(again) == dict(table)
    assert format_methods(again).splitlines()[2].startswith("vanilla")
    assert json.loads((tmp_path / "table.json").read_text())["skipped"] == {}


def test_options_are_signed_by_the_methods_that_read_them() -> None:
    methods = ["ppl_icl", "topk", "sa_icl", "batch_calibration"]
    options = {"instructions": ["Odd | even. ", "Sort. "], "orders": 3, "batch_size": 64}
    table = ms.run_all(Kernel(), mini(), methods=methods, options=options, calibration_number=4)
    plain = ms.run_all(Kernel(), mini(), methods=methods, calibration_number=4)
    signed = {name: result.signature.fields["method"] for name, result in table.items()}
    assert signed["topk"] == plain["topk"].signature.fields["method"]
    assert signed["sa_icl"].endswith("orders=3")
    assert signed["batch_calibration"].endswith("batch_size=64")
    assert re.search(r" instructions=[0-9a-f]{12}$", signed["ppl_icl"])


def test_methods_that_cannot_be_run_are_left_out_with_the_reason() -> None:
    table = ms.run_all(PPMKernel(), mini(), calibration_number=4)
    assert set(table.skipped) == {"ppl_icl", "topk", "sa_icl", "knn_prompt", "hidden_calibration"}
    assert set(table) == {*ms.TABLE_2} - {*table.skipped}
    assert "left out: Hidden calibration needs hidden states, which PPMKernel does not provide" in str(table)
    page = table._repr_html_()
    for part in ("<th>method</th>", "<td>Batch calibration</td>", "train prompts", "left out: TopK"):
        assert part in page
    with pytest.raises(ArgumentError, match="TopK needs hidden states"):
        ms.run_all(PPMKernel(), mini(), methods=["topk"])


def test_capabilities_are_checked_before_anything_is_evaluated() -> None:
    """One error that names method, capability and kernel; the data is not read and the kernel is not called."""

    class TextOnly:
        capabilities = frozenset({Capability.TEXT, Capability.BATCH})

        def __call__(self, prompt: Any, label_space: Any) -> Any:
            raise AssertionError("the kernel was called")

    def no_data() -> Any:
        raise AssertionError("the data was read")

    for name in set(ms.METHODS) - {"vanilla", "generate", "generation_calibration"}:
        with pytest.raises(ArgumentError, match="which TextOnly does not provide; it provides text, batch"):
            ms.run_method(name, TextOnly(), no_data)
    with pytest.raises(ArgumentError, match="ppl_icl, topk"):
        ms.run_all(TextOnly(), mini(), methods=["ppl_icl", "topk"])
    with pytest.raises(ArgumentError, match="expected a frozenset of Capability"):
        ms.MethodSpec("mine", "Mine", print, {"hidden states"})  # type: ignore[arg-type]


def test_two_data_sets_and_groups() -> None:
    rows = [((f"text {i}",), i % 2) for i in range(60)]
    two = Dataset.from_rows(rows, name="two", label_space=["even", "odd"])
    kernel = Kernel()
    table = ms.run_all(kernel, Normal(datasets=["mini", two], limit=3, k=1), methods=["vanilla", "ppl_icl", "topk"])
    assert "no candidate instructions for 'two'" in table.skipped["ppl_icl"]
    assert kernel.calls["losses"] == 0  # found out before the first query
    assert str(table).count("\n\n") == 1
    assert "two" in str(table).split("\n\n")[1]
    group = TripletBias(k=2, datasets=["mini"], limit=3)
    kernel = Kernel()
    result: Any = ms.Method("hidden_calibration", kernel, calibration_number=20).run(group)
    assert list(result) == ["contextual", "domain", "post"]
    assert kernel.calls["hidden"] == SIXTEEN_EACH + 3 * 6  # trained once
    assert format_methods(result).count(f"train prompts {SIXTEEN_EACH}") == 3
    table = ms.run_all(kernel, group, methods=["vanilla", "contextual_calibration"], calibration_number=4)
    assert "contextual\nmethod" in str(table)
    assert table._repr_html_().count("<table>") == 3


def test_run_method() -> None:
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return mini()

    assert list(ms.run_method("all", Kernel(), make, calibration_number=20)) == list(ms.TABLE_2)
    single = ms.run_method("Hidden-Calibration", Kernel(), make, calibration_number=20)
    assert format_methods(single).splitlines()[-1].startswith(f"train prompts {SIXTEEN_EACH}, train s 0.")
    with pytest.raises(UnknownNameError, match="did you mean 'hidden_calibration'"):
        ms.run_method("hidden_calibratoin", Kernel(), make)
    assert len(made) == 2


def test_named_functions_in_a_store(tmp_path: Path, anonymous: Any) -> None:
    """The name of a function that cannot be identified must not mix calibrated with plain predictions."""
    kernels = [Kernel()]

    def plain(prompt: str, label_space: list[str]) -> list[float]:
        return kernels[0](prompt, label_space)

    path = tmp_path / "store.sqlite"
    for name in ("vanilla", "contextual_calibration"):
        method = ms.Method(name, plain, calibration_number=8)
        stored = method.run(mini(), store=path, model_name="m")
        assert anonymous(stored) == anonymous(method.run(mini()))
    with pytest.raises(ArgumentError, match="model_name"):
        ms.Method("vanilla", plain).run(mini(), store=path)


@pytest.mark.parametrize("name", ["vanilla", "batch_calibration", "contextual_calibration"])
def test_queries_without_a_prediction(name: str) -> None:
    bad = mini()[0].prompt_set()[3]
    method = ms.Method(name, Kernel(fails=lambda _, prompt: OutputError("gone") if prompt == bad else None))
    with pytest.raises(OutputError, match="query 3"):
        method.run(mini())
    result: Any = method.run(mini(), on_error="collect", return_outputs=True)
    assert result.details["mini"].failed == 1
    rows = rows_of(result)
    assert rows[3] is None
    if name == "batch_calibration":
        plain = rows_of(mini()(Kernel(), return_outputs=True))
        assert [row for row in rows if row] == batch_calibration([row for i, row in enumerate(plain) if i != 3])


def test_sa_icl_goes_on_with_the_orders_that_have_a_prediction() -> None:
    kernel = Kernel()
    whole = rows_of(ms.Method("sa_icl", kernel).run(mini(), return_outputs=True))
    first = ms.Method("sa_icl", Kernel()).prepare(mini()[0]).prompt_set()[0]
    tried = [prompt for prompt in kernel.ran[196:] if prompt.split("\n")[-1] == first.split("\n")[-1]]
    lost = set(tried) - {first}
    assert len(lost) == 9
    losing = Kernel(fails=lambda _, prompt: OutputError("lost") if prompt in lost else None)
    result = rows_of(ms.Method("sa_icl", losing).run(mini(), on_error="collect", return_outputs=True))
    assert result[1:] == whole[1:]
    assert result[0] == Kernel()(first, mini()[0].get_label_space())


def test_refusals() -> None:
    for arguments, more, word in [
        (("nothing", Kernel()), {}, "'all' runs the ten"),
        (("vanilla", Kernel(), "0.1.2"), {}, "no variant"),
        (("vanilla", Kernel()), {"calibration_number": 0}, "at least 1, not 0"),
        (("knn_prompt", Kernel()), {"knn": 3}, "did you mean 'knn_k'"),
        (("vanilla", "smollm2"), {}, "got str, expected an inference function"),
    ]:
        with pytest.raises(StaICCError, match=word):
            ms.Method(*arguments, **more)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="got list, expected a Benchmark or BenchmarkGroup"):
        ms.Method("vanilla", Kernel()).run([])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a run has no setting 'stroe'"):
        ms.Method("vanilla", Kernel()).run(mini(), stroe="x")


def test_k_of_zero() -> None:
    table = ms.run_all(Kernel(), mini(k=0), calibration_number=20)
    assert set(table.skipped) == {"topk", "sa_icl"}
    assert all("got k = 0, expected at least 1" in reason for reason in table.skipped.values())
    assert all(result.complete for result in table.results())


@pytest.mark.parametrize("name", [name for name in ms.METHODS if name not in ("vanilla", "noisy_channel", "generate")])
def test_nan_is_named(name: str) -> None:
    class Nan(Kernel):
        def logits(self, prompt: str, *features: str) -> Any:
            return numpy.full(12, math.nan)

        patched = Kernel.patched  # uses the logits of this class

    with pytest.raises(StaICCError, match=r"(?i)nan|not finite"):
        ms.Method(name, Nan(), calibration_number=20).run(mini())


def test_a_method_of_the_user_is_signed_by_its_code() -> None:
    def now(data: Any) -> Any:
        data.experimentor.prompt_former.change_query_prefix("Now: ")
        rows = yield [data.queries()]
        return rows[0]

    with pytest.warns(UserWarning, match="no longer the benchmark's"):
        table = ms.run_all(Kernel(), mini(), methods=["vanilla", ms.MethodSpec("now", "Now", now)])
    assert list(table) == ["vanilla", "now"]
    assert re.fullmatch("now@[0-9a-f]{12} paper", table["now"].signature.fields["method"])
    assert table["now"].signature.fields["template"].startswith("changed-")


class Steep(HiddenCalibration):
    name = "steep"


class Flat(HiddenCalibration):
    name = "flat"


def test_methods_made_by_the_documented_functions_are_identified() -> None:
    made = [
        *(calibration_method(kind, "Mine", requires=frozenset({Capability.HIDDEN_STATES})) for kind in (Steep, Flat)),
        ms.MethodSpec("made", "Made", ms.calibrated(lambda data, labels: ContextualCalibration(labels)), trains=True),
        replace(ms.METHODS["topk"], name="other"),
    ]
    fields = [ms.Method(spec, Kernel(), calibration_number=20).run(mini()).signature.fields["method"] for spec in made]
    assert all(re.match(r"\w+@[0-9a-f]{12} paper", field) for field in fields)
    assert len({field.partition("@")[2].split()[0] for field in fields}) == 4


def test_partial_of_0_1_1_is_the_whole_model(make_model: Any, make_tokenizer: Any) -> None:
    pytest.importorskip("torch")
    from StaICC.kernels.huggingface import kernel as model_kernel

    model, tokenizer = make_model("GPT2", n_positions=2048, max_position_embeddings=2048), make_tokenizer()
    inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM, model=model, tokenizer=tokenizer, cache_empty=None
    )
    bench = mini(limit=2, k=1)
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
        table = ms.run_all(kernel, mini(limit=2, k=1), variant, calibration_number=9)
        assert (len(table), table.skipped) == (10, {})


def test_example_of_a_calibration_of_the_user(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import runpy

    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "adding_a_method.py"))
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
    assert identity_of(CalibratedKernel(Kernel(), made)).settings["calibration name"] == "grid_temperature"
    made.save(tmp_path / "made.json")
    assert example["TemperatureScaling"].load(tmp_path / "made.json").temperature == 2.0
