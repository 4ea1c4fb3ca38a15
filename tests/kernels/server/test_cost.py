"""What a served model will cost, and has cost, against what a provider with a prompt cache bills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, LongICL, Normal
from StaICC.benchmarks.forecast import PROBE_SECONDS
from StaICC.cli import main
from StaICC.datasets.catalogue import SplitSizes
from StaICC.errors import ArgumentError
from StaICC.inference.forecast import Forecast
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.server import endpoint
from StaICC.kernels.server.transport import EndpointUsage, token_counts
from StaICC.methods.run import run_all
from tests.kernels.server.caching_provider import FORMS, Provider, count_tokens
from tests.kernels.server.endpoint_server import Server

pytest.importorskip("openai")

PRICES = (2.0, 8.0, 0.5)
LABELS = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]


def long_icl(limit: int = 12) -> LongICL:
    """Rounds with contexts of about 1,000, 2,000 and 3,000 words."""
    words = " ".join(f"word{number}" for number in range(40))
    rows = [(f"Text {turn} of {label} {words}", label) for turn in range(16) for label in LABELS]
    data = Dataset.from_rows(rows, label_space=LABELS, name="kinds", split=SplitSizes(20, 230, 115))
    return LongICL(datasets=[data], rounds=(1, 2, 3), limit=limit)


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to the server of the tests count as those that may cost money."""
    monkeypatch.setattr(endpoint, "is_local", lambda url: False)


def kernel_for(server: Server, options: str) -> Any:
    return load_kernel(f"openai:{server.url}#words;scoring=text;max_tokens=1;{options}", backoff=0.01)


def within_two_percent(forecast: float | None, spent: float) -> bool:
    assert forecast is not None
    return abs(forecast - spent) <= 0.02 * spent


@pytest.mark.parametrize("options", ["api=completions", "api=chat", "api=chat;turns=true", "api=chat;concurrency=1"])
@pytest.mark.usefixtures("paid")
def test_the_forecast_is_what_the_provider_bills(server: Server, options: str) -> None:
    server.always = provider = Provider("OpenAI", LABELS[0])
    kernel = kernel_for(server, options)
    forecast = long_icl().forecast(kernel, tokenizer=count_tokens, prices=PRICES, currency="USD")
    assert server.requests == []

    long_icl()(kernel)
    assert within_two_percent(forecast.tokens, provider.prompt_tokens)
    assert within_two_percent(forecast.cached_tokens, provider.cached_tokens)
    assert provider.cached_tokens > provider.prompt_tokens / 3
    assert within_two_percent(forecast.output_tokens, provider.output_tokens)
    assert within_two_percent(forecast.cost, provider.bill(*PRICES))
    assert kernel.usage.cached_tokens == provider.cached_tokens
    assert kernel.usage.cost(PRICES) == pytest.approx(provider.bill(*PRICES))


@pytest.mark.usefixtures("paid")
def test_a_provider_that_says_nothing_of_its_cache(server: Server) -> None:
    server.always = provider = Provider("silent", LABELS[0])
    kernel = kernel_for(server, "api=chat")
    forecast = long_icl().forecast(kernel, tokenizer=count_tokens, prices=PRICES[:2])
    long_icl()(kernel)
    assert within_two_percent(forecast.tokens, provider.prompt_tokens)
    full_price = provider.bill(*PRICES[:2], cached=PRICES[0])
    assert within_two_percent(forecast.cost, full_price)
    assert forecast.cost_without_cache is None
    shown = " ".join(str(forecast).split())
    assert "Nothing is known about the price of cached tokens" in shown
    assert "Give theirs as the third price (--cached-price)." in shown  # in both forms: a forecast is saved
    assert kernel.usage.cached_tokens is None
    assert kernel.usage.cost(PRICES) == pytest.approx(full_price)

    with_price = long_icl().forecast(kernel, tokenizer=count_tokens, prices=PRICES)
    assert within_two_percent(with_price.cost_without_cache, full_price)
    assert with_price.cost is not None
    assert with_price.cost < 0.8 * full_price
    assert "The cost assumes that the provider caches" in str(with_price)


@pytest.mark.parametrize(("scoring", "limit"), [("text;max_tokens=1", 1), ("top-logprobs", 1)])
@pytest.mark.usefixtures("paid")
def test_an_ordinary_benchmark(server: Server, scoring: str, limit: int) -> None:
    benchmark = Normal(datasets=["mini"], k=30, limit=20)
    kernel = load_kernel(f"openai:{server.url}#words;scoring={scoring};api=chat", backoff=0.01)
    if scoring != "top-logprobs":
        server.always = Provider("OpenAI")
    forecast = benchmark.forecast(kernel, tokenizer=count_tokens)
    assert server.requests == []
    benchmark(kernel, on_error="collect")
    if scoring == "top-logprobs":
        template_tokens = 7 * len(server.requests)  # this server's model has no template
        assert within_two_percent(forecast.tokens, kernel.usage.prompt_tokens + template_tokens)
    else:
        assert within_two_percent(forecast.tokens, kernel.usage.prompt_tokens)
    assert forecast.output_tokens == kernel.usage.completion_tokens * limit


@pytest.mark.parametrize("on_error", ["raise", "collect"])
@pytest.mark.usefixtures("paid")
def test_one_request_reads_a_long_context_before_the_others(server: Server, on_error: str) -> None:
    """Eight at once would all miss the cache, and the context would be paid for eight times in each round."""
    server.always = provider = Provider("OpenAI", LABELS[0], seconds=0.3)
    kernel = kernel_for(server, "api=completions;concurrency=8")
    forecast = long_icl(8).forecast(kernel, tokenizer=count_tokens)
    long_icl(8)(kernel, on_error=on_error)
    assert within_two_percent(forecast.cached_tokens, provider.cached_tokens)


@pytest.mark.parametrize("form", FORMS)
def test_how_providers_state_cached_tokens(form: str) -> None:
    body = {"usage": {"prompt_tokens": 2000, "completion_tokens": 3, **FORMS[form](1920)}}
    usage = EndpointUsage(**token_counts(body))
    assert usage.cached_tokens == (None if form == "silent" else 1920)
    assert usage.cost((1.0, 0.0, 0.5)) == pytest.approx(0.002 if form == "silent" else 0.00104)


@pytest.mark.parametrize("damaged", [-1, 1.5, True, "1920", 2001, None, [1]])
def test_damaged_numbers_of_cached_tokens_are_left_out(damaged: object) -> None:
    usage = {"prompt_tokens": 2000, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": damaged}}
    assert "cached_tokens" not in token_counts({"usage": usage})


# -- what a forecast sends


@pytest.mark.usefixtures("paid")
def test_a_forecast_sends_nothing_to_a_paid_server_unless_it_is_told_to(server: Server) -> None:
    server.always = Provider("OpenAI")
    benchmark = Normal(datasets=["mini"], limit=20)
    kernel = kernel_for(server, "api=chat")
    forecast = benchmark.forecast(kernel, prices=PRICES)
    assert server.requests == []
    assert forecast.seconds is None
    assert forecast.tokenizer == "estimate of 4 bytes a token"
    assert not forecast.exact
    assert "Nothing was sent to the server" in str(forecast)
    assert f"tokens          about {forecast.tokens:,}\n" in str(forecast)

    probed = benchmark.forecast(kernel, probe_seconds=0.2)
    assert len(server.requests) > 0
    assert probed.seconds is not None
    assert "Nothing was sent" not in str(probed)


def test_a_local_server_is_probed_as_before(server: Server) -> None:
    server.always = Provider("OpenAI")
    kernel = kernel_for(server, "api=chat")
    forecast = Normal(datasets=["mini"], limit=20).forecast(kernel)
    assert len(server.requests) > 0
    assert forecast.seconds is not None
    assert forecast.seconds < PROBE_SECONDS
    assert forecast.tokenizer == "counted by the function in the probe"


@pytest.mark.usefixtures("paid")
def test_the_command_sends_nothing(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.always = Provider("OpenAI")
    words = ["run", "normal", "--datasets", "mini", "--limit", "5", "--dry-run", "--prices", "0.25", "1"]
    words += [
        "--cached-price",
        "0.025",
        "--currency",
        "EUR",
        "--model",
        f"openai:{server.url}#words;scoring=text;api=chat;max_tokens=5",
    ]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert server.requests == []
    assert "tokenizer       estimate of 4 bytes a token" in shown
    assert "output tokens   at most 51\n" in shown  # ten replies, and a token for the edition
    cost_line = next(line for line in shown.splitlines() if line.startswith("cost "))
    assert cost_line.endswith(" EUR")
    assert "0.00 " not in cost_line

    assert main([*words, "--tokenizer", "tests.kernels.server.caching_provider:count_tokens"]) == 0
    assert "tokenizer       tests.kernels.server.caching_provider:count_tokens" in capsys.readouterr().out
    assert server.requests == []
    assert main([*words, "--probe-seconds", "0.1"]) == 0
    assert len(server.requests) > 0


MANY_LABELS = "--data many.csv --text text --label label --limit 2"


@pytest.mark.parametrize(
    "words",
    [
        "normal --datasets mini --limit 2",
        "normal --datasets mini --limit 2 --k 0,2",
        "normal --datasets mini --limit 2 --store run.sqlite",
        "normal --datasets mini --limit 2 --method contextual-calibration",
        "normal --datasets mini --limit 2 --method batch-calibration",
        "normal --datasets mini --limit 2 --method all --calibration-number 8",
        "suite --datasets mini --limit 2",
        "diagnosis --datasets mini --limit 2 --method domain-calibration",
        "generalisation --datasets mini --limit 2",
        f"long-icl {MANY_LABELS} --experiment order --levels 2 --shots 2",
        f"long-icl {MANY_LABELS} --rounds 1",
    ],
)
@pytest.mark.parametrize("scoring", ["text", "top-logprobs", "prompt-logprobs"])
@pytest.mark.usefixtures("paid")
def test_no_command_sends_a_request_to_forecast_its_cost(
    server: Server,
    words: str,
    scoring: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No request, no key, no network: also for methods, groups, several k, a store and LongICL."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    rows = [f"message {number},kind {number % 25:02}" for number in range(500)]
    (tmp_path / "many.csv").write_text("\n".join(["text,label", *rows]) + "\n", "utf-8")
    model = f"openai:{server.url}#words;scoring={scoring}"
    status = main(["run", *words.split(), "--dry-run", "--prices", "0.25", "1", "--currency", "EUR", "--model", model])
    shown = capsys.readouterr()
    assert server.requests == []
    assert not (tmp_path / "run.sqlite").exists()
    if status == 2 and scoring == "text":
        assert "--method" in words  # a method needs label scores
        return
    assert status == 0, shown.err
    cost = next(line for line in shown.out.splitlines() if line.startswith("cost "))
    assert cost.endswith(" EUR")
    amount = float(cost.split()[-2].replace(",", ""))
    assert amount > 0
    assert "tokenizer       estimate of 4 bytes a token" in shown.out


def test_a_function_of_the_user_that_declares_its_requests_paid() -> None:
    prompts: list[str] = []

    def function(prompt: str, label_space: Sequence[str]) -> int:
        prompts.append(prompt)
        return 0

    function.may_cost_money = True  # type: ignore[attr-defined]
    forecast = Normal(datasets=["mini"], limit=5).forecast(function)
    assert prompts == []
    assert forecast.tokens is not None
    assert forecast.output_tokens is None


def test_a_tokenizer_that_is_not_used_is_named_in_a_remark() -> None:
    class Counting:
        def forecast_prompts(self, prompts: Sequence[str], label_space: Sequence[str], **more: object) -> Forecast:
            return Forecast(tokens=7, positions=7)

        def __call__(self, prompt: str, label_space: Sequence[str]) -> int:
            return 0

    forecast = Normal(datasets=["mini"], limit=2).forecast(Counting(), probe_seconds=0, tokenizer=len)
    assert forecast.tokens == 7 * forecast.distinct
    assert forecast.tokenizer is None
    assert "the given tokenizer was not used" in str(forecast)


def test_refusals_of_forecasts() -> None:
    benchmark = Normal(datasets=["mini"], limit=2)
    for options, message in {
        "ppm": {"tokenizer": "ppm"},
        "cannot be imported": {"tokenizer": "no_such_package:count"},
        "expected a number of tokens": {"tokenizer": lambda text: 1.5},
        "without prices": {"currency": "EUR"},
    }.items():
        with pytest.raises(ArgumentError, match=options):
            benchmark.forecast(load_kernel("openai:https://example.com/v1#m"), **message)


@pytest.mark.parametrize("option", [["--cached-price", "0.1"], ["--currency", "EUR"]])
def test_options_of_prices_need_prices(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "normal", "--datasets", "mini", "--limit", "1", "--dry-run", *option]) == 2
    assert "Add --prices INPUT OUTPUT" in capsys.readouterr().err
    assert main(["plan", "--half-width", "0.05", *option]) == 2
    assert main(["run", "normal", "--datasets", "mini", "--prices", "1", "2"]) == 2
    assert "--prices belongs to --dry-run" in capsys.readouterr().err


def test_costs_are_shown_with_their_digits() -> None:
    shown = {cost: str(Forecast(cost=cost, currency="USD", exact=True)) for cost in (0.0053, 12.5, 0.0)}
    assert "cost            0.0053 USD" in shown[0.0053]
    assert "cost            12.50 USD" in shown[12.5]
    assert "cost            0.00 USD" in shown[0.0]


def test_estimates_are_not_compared_with_counted_tokens(server: Server) -> None:
    """A table of methods shows what each method alone would read, where that is counted exactly."""
    kernel = load_kernel(f"openai:{server.url}#words;scoring=prompt-logprobs", backoff=0.01)
    benchmark = Normal(datasets=["mini"], limit=1)
    table = run_all(kernel, benchmark, calibration_number=4, methods=["vanilla", "batch_calibration"])
    assert [result.timing.get("tokens_alone") for result in table.values()] == [None, None]
