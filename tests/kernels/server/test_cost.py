"""What a served model will cost, and has cost, against what a provider with a prompt cache bills."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, LongICL, Normal
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
    """Return a benchmark with contexts of about 1,000, 2,000 and 3,000 words: 23 texts of 44 words in each round."""
    forty_words = " ".join(f"word{number}" for number in range(40))
    rows = []
    for number in range(16):
        for label in LABELS:
            rows.append((f"Text {number} of {label} {forty_words}", label))
    data = Dataset.from_rows(rows, label_space=LABELS, name="kinds", split=SplitSizes(20, 230, 115))
    return LongICL(datasets=[data], rounds=(1, 2, 3), limit=limit)


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to the server of the tests count as those that may cost money."""
    monkeypatch.setattr(endpoint, "is_local", lambda url: False)


def kernel_for(server: Server, options: str) -> Any:
    """Return a kernel for the server of a test that has texts written."""
    return load_kernel(f"openai:{server.url}#words;scoring=text;max_tokens=1;{options}", backoff=0.01)


def about(expected: float) -> Any:
    """Return what equals numbers within two percent of the expected one."""
    return pytest.approx(expected, rel=0.02)


every_interface = pytest.mark.parametrize(
    "options", ["api=completions", "api=chat", "api=chat;turns=true", "api=chat;concurrency=1"]
)


@every_interface
@pytest.mark.usefixtures("paid")
def test_the_forecast_is_what_the_provider_bills(server: Server, options: str) -> None:
    server.usual_answer = provider = Provider("OpenAI", LABELS[0])
    kernel = kernel_for(server, options)
    forecast = long_icl().forecast(kernel, tokenizer=count_tokens, prices=PRICES, currency="USD")
    assert server.requests == [], "a forecast sends nothing"

    long_icl()(kernel)

    assert forecast.tokens == about(provider.prompt_tokens)
    assert forecast.cached_tokens == about(provider.cached_tokens)
    assert forecast.output_tokens == about(provider.output_tokens)
    assert forecast.cost == about(provider.bill(*PRICES))


@every_interface
@pytest.mark.usefixtures("paid")
def test_the_usage_of_a_run_is_what_the_provider_bills(server: Server, options: str) -> None:
    server.usual_answer = provider = Provider("OpenAI", LABELS[0])
    kernel = kernel_for(server, options)
    long_icl()(kernel)

    assert provider.cached_tokens > provider.prompt_tokens / 3
    assert kernel.usage.cached_tokens == provider.cached_tokens
    assert kernel.usage.cost(PRICES) == pytest.approx(provider.bill(*PRICES))


@pytest.fixture
def silent_provider(server: Server, paid: None) -> Provider:
    """Return the provider behind the server, which says nothing of its cache."""
    server.usual_answer = provider = Provider("silent", LABELS[0])
    return provider


def test_without_a_price_of_cached_tokens_a_forecast_counts_them_in_full(
    server: Server, silent_provider: Provider
) -> None:
    kernel = kernel_for(server, "api=chat")
    forecast = long_icl().forecast(kernel, tokenizer=count_tokens, prices=PRICES[:2])
    long_icl()(kernel)

    full_price = silent_provider.bill(*PRICES[:2], cached=PRICES[0])
    assert forecast.tokens == about(silent_provider.prompt_tokens)
    assert forecast.cost == about(full_price)
    assert forecast.cost_without_cache is None


def test_a_forecast_without_a_price_of_cached_tokens_says_how_to_give_it(server: Server, paid: None) -> None:
    forecast = long_icl().forecast(kernel_for(server, "api=chat"), tokenizer=count_tokens, prices=PRICES[:2])
    shown = " ".join(str(forecast).split())
    assert "Nothing is known about the price of cached tokens" in shown
    assert "Give theirs as the third price (--cached-price)." in shown  # in both forms: a forecast is saved


def test_with_a_price_of_cached_tokens_a_forecast_has_the_cost_with_and_without_a_cache(
    server: Server, silent_provider: Provider
) -> None:
    kernel = kernel_for(server, "api=chat")
    forecast = long_icl().forecast(kernel, tokenizer=count_tokens, prices=PRICES)
    long_icl()(kernel)

    full_price = silent_provider.bill(*PRICES[:2], cached=PRICES[0])
    assert forecast.cost_without_cache == about(full_price)
    assert forecast.cost is not None
    assert forecast.cost < 0.8 * full_price
    assert "The cost assumes that the provider caches" in str(forecast)


def test_the_usage_counts_in_full_what_a_provider_does_not_state(server: Server, silent_provider: Provider) -> None:
    kernel = kernel_for(server, "api=chat")
    long_icl()(kernel)
    assert kernel.usage.cached_tokens is None
    assert kernel.usage.cost(PRICES) == pytest.approx(silent_provider.bill(*PRICES[:2], cached=PRICES[0]))


@pytest.mark.usefixtures("paid")
def test_the_forecast_of_replies_of_an_ordinary_benchmark_is_what_is_used(server: Server) -> None:
    server.usual_answer = Provider("OpenAI")
    benchmark, kernel = Normal(datasets=["mini"], k=30, limit=20), kernel_for(server, "api=chat")
    forecast = benchmark.forecast(kernel, tokenizer=count_tokens)
    benchmark(kernel, on_error="collect")
    assert forecast.tokens == about(kernel.usage.prompt_tokens)
    assert forecast.output_tokens == kernel.usage.completion_tokens


@pytest.mark.usefixtures("paid")
def test_the_forecast_of_scores_of_an_ordinary_benchmark_is_what_is_used(server: Server) -> None:
    """A forecast counts seven tokens for the template of a chat, which the server of the tests does not have."""
    benchmark = Normal(datasets=["mini"], k=30, limit=20)
    kernel = load_kernel(f"openai:{server.url}#words;scoring=top-logprobs;api=chat", backoff=0.01)
    forecast = benchmark.forecast(kernel, tokenizer=count_tokens)
    assert server.requests == [], "a forecast sends nothing"

    benchmark(kernel, on_error="collect")

    template_tokens = 7 * len(server.requests)
    assert forecast.tokens == about(kernel.usage.prompt_tokens + template_tokens)
    assert forecast.output_tokens == kernel.usage.completion_tokens


@pytest.mark.parametrize("on_error", ["raise", "collect"])
@pytest.mark.usefixtures("paid")
def test_one_request_reads_a_long_context_before_the_others(server: Server, on_error: str) -> None:
    """Eight at once would all miss the cache, and the context would be paid for eight times in each round."""
    server.usual_answer = provider = Provider("OpenAI", LABELS[0], seconds=0.3)
    kernel = kernel_for(server, "api=completions;concurrency=8")
    forecast = long_icl(8).forecast(kernel, tokenizer=count_tokens)
    long_icl(8)(kernel, on_error=on_error)
    assert forecast.cached_tokens == about(provider.cached_tokens)


@pytest.mark.parametrize("form", ["OpenAI", "DeepSeek", "Moonshot", "Anthropic's gateways"])
def test_cached_tokens_are_read_as_a_provider_states_them(form: str) -> None:
    body = {"usage": {"prompt_tokens": 2000, "completion_tokens": 3, **FORMS[form](1920)}}
    assert token_counts(body)["cached_tokens"] == 1920


def test_cached_tokens_have_a_price_of_their_own() -> None:
    usage = EndpointUsage(prompt_tokens=2000, cached_tokens=1920)
    price, price_of_cached = 1.0, 0.5  # of a million tokens
    assert usage.cost((price, 0.0, price_of_cached)) == pytest.approx((80 * 1.0 + 1920 * 0.5) / 1e6)


def test_tokens_that_may_be_cached_or_not_cost_the_full_price() -> None:
    usage = EndpointUsage(**token_counts({"usage": {"prompt_tokens": 2000, "completion_tokens": 3}}))
    assert usage.cached_tokens is None
    assert usage.cost((1.0, 0.0, 0.5)) == pytest.approx(2000 * 1.0 / 1e6)


@pytest.mark.parametrize("damaged", [-1, 1.5, True, "1920", 2001, None, [1]])
def test_damaged_numbers_of_cached_tokens_are_left_out(damaged: object) -> None:
    usage = {"prompt_tokens": 2000, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": damaged}}
    assert "cached_tokens" not in token_counts({"usage": usage})


# -- what a forecast sends


@pytest.mark.usefixtures("paid")
def test_a_forecast_sends_nothing_to_a_paid_server(server: Server) -> None:
    forecast = Normal(datasets=["mini"], limit=20).forecast(kernel_for(server, "api=chat"), prices=PRICES)
    assert server.requests == []
    assert forecast.seconds is None
    assert "Nothing was sent to the server" in str(forecast)


@pytest.mark.usefixtures("paid")
def test_without_a_tokenizer_and_a_request_tokens_are_estimated(server: Server) -> None:
    forecast = Normal(datasets=["mini"], limit=20).forecast(kernel_for(server, "api=chat"), prices=PRICES)
    assert forecast.tokenizer == "estimate of 4 bytes a token"
    assert not forecast.exact
    assert f"tokens          about {forecast.tokens:,}\n" in str(forecast)


@pytest.mark.usefixtures("paid")
def test_a_paid_server_is_probed_if_seconds_are_given(server: Server) -> None:
    server.usual_answer = Provider("OpenAI")
    forecast = Normal(datasets=["mini"], limit=20).forecast(kernel_for(server, "api=chat"), probe_seconds=0.2)
    assert len(server.requests) > 0
    assert forecast.seconds is not None
    assert "Nothing was sent" not in str(forecast)


def test_a_local_server_is_probed(server: Server) -> None:
    server.usual_answer = Provider("OpenAI")
    forecast = Normal(datasets=["mini"], limit=20).forecast(kernel_for(server, "api=chat"))
    assert len(server.requests) > 0
    assert forecast.seconds is not None
    assert forecast.tokenizer == "counted by the function in the probe"


def cost_of(shown: str, currency: str) -> float:
    """Return the amount in the line with the cost of a forecast."""
    (amount,) = re.findall(rf"^cost .* ([\d.,]+) {currency}$", shown, re.MULTILINE)
    return float(amount.replace(",", ""))


@pytest.fixture
def shown_by_dry_run(server: Server, capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that returns the output of a dry run with prices in euros, with more options."""

    def show(*options: str) -> str:
        model = f"openai:{server.url}#words;scoring=text;api=chat;max_tokens=5"
        benchmark = ["normal", "--datasets", "mini", "--limit", "5", "--model", model]
        prices = ["--prices", "0.25", "1", "--cached-price", "0.025", "--currency", "EUR"]
        assert main(["run", *benchmark, "--dry-run", *prices, *options]) == 0
        return capsys.readouterr().out

    return show


@pytest.mark.usefixtures("paid")
def test_a_dry_run_shows_the_cost_and_sends_nothing(server: Server, shown_by_dry_run: Any) -> None:
    shown = shown_by_dry_run()
    assert server.requests == []
    assert "tokenizer       estimate of 4 bytes a token" in shown
    assert "output tokens   at most 51\n" in shown  # ten replies of five, and a token for the edition
    assert cost_of(shown, currency="EUR") > 0


@pytest.mark.usefixtures("paid")
def test_a_dry_run_uses_a_given_tokenizer_and_sends_nothing(server: Server, shown_by_dry_run: Any) -> None:
    shown = shown_by_dry_run("--tokenizer", "tests.kernels.server.caching_provider:count_tokens")
    assert server.requests == []
    assert "tokenizer       tests.kernels.server.caching_provider:count_tokens" in shown


@pytest.mark.usefixtures("paid")
def test_a_dry_run_with_probe_seconds_sends_requests(server: Server, shown_by_dry_run: Any) -> None:
    server.usual_answer = Provider("OpenAI")
    shown_by_dry_run("--probe-seconds", "0.1")
    assert len(server.requests) > 0


MANY_LABELS = "--data many.csv --text text --label label --limit 2"


@pytest.fixture
def folder_with_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder of a test, with many.csv: 500 texts with 25 labels."""
    monkeypatch.chdir(tmp_path)
    rows = [f"message {number},kind {number % 25:02}" for number in range(500)]
    (tmp_path / "many.csv").write_text("\n".join(["text,label", *rows]) + "\n", "utf-8")
    return tmp_path


def dry_run(server: Server, arguments: str, scoring: str) -> int:
    """Forecast the cost of a command, and return its exit status."""
    prices = ["--prices", "0.25", "1", "--currency", "EUR"]
    model = f"openai:{server.url}#words;scoring={scoring}"
    return main(["run", *arguments.split(), "--dry-run", *prices, "--model", model])


FOR_ANY_KERNEL = [
    "normal --datasets mini --limit 2",
    "normal --datasets mini --limit 2 --k 0,2",
    "normal --datasets mini --limit 2 --store run.sqlite",
    "suite --datasets mini --limit 2",
    "generalisation --datasets mini --limit 2",
    "normal --datasets mini --limit 2 --method all --calibration-number 8",
    f"long-icl {MANY_LABELS} --experiment order --levels 2 --shots 2",
    f"long-icl {MANY_LABELS} --rounds 1",
]
FOR_LABEL_SCORES = [
    "normal --datasets mini --limit 2 --method contextual-calibration",
    "normal --datasets mini --limit 2 --method batch-calibration",
    "diagnosis --datasets mini --limit 2 --method domain-calibration",
]
"""Commands whose methods need label scores; ``--method all`` leaves them out."""


@pytest.mark.parametrize(
    ("arguments", "scoring"),
    [
        *((arguments, "text") for arguments in FOR_ANY_KERNEL),
        *((arguments, "top-logprobs") for arguments in [*FOR_ANY_KERNEL, *FOR_LABEL_SCORES]),
        *((arguments, "prompt-logprobs") for arguments in [*FOR_ANY_KERNEL, *FOR_LABEL_SCORES]),
    ],
)
@pytest.mark.usefixtures("paid")
def test_no_command_sends_a_request_to_forecast_its_cost(
    server: Server, arguments: str, scoring: str, capsys: pytest.CaptureFixture[str], folder_with_data: Path
) -> None:
    """No request, no key, no network: also for methods, groups, several k, a store and LongICL."""
    status = dry_run(server, arguments, scoring)

    shown = capsys.readouterr()
    assert status == 0, shown.err
    assert cost_of(shown.out, currency="EUR") > 0
    assert "tokenizer       estimate of 4 bytes a token" in shown.out
    assert server.requests == []
    assert not (folder_with_data / "run.sqlite").exists()


@pytest.mark.parametrize("arguments", FOR_LABEL_SCORES)
@pytest.mark.usefixtures("paid")
def test_a_method_that_needs_label_scores_is_refused_without_a_request(
    server: Server, arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dry_run(server, arguments, scoring="text") == 2
    assert "label scores" in capsys.readouterr().err
    assert server.requests == []


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "ppm"}, "ppm"),
        ({"tokenizer": "no_such_package:count"}, "cannot be imported"),
        ({"tokenizer": lambda text: 1.5}, "expected a number of tokens"),
        ({"currency": "EUR"}, "without prices"),
    ],
)
def test_a_forecast_with_a_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    kernel = load_kernel("openai:https://example.com/v1#m")
    with pytest.raises(ArgumentError, match=message):
        Normal(datasets=["mini"], limit=2).forecast(kernel, **options)


@pytest.mark.parametrize("option", ["--cached-price 0.1", "--currency EUR"])
@pytest.mark.parametrize("command", ["run normal --datasets mini --limit 1 --dry-run", "plan --half-width 0.05"])
def test_an_option_of_prices_needs_prices(command: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), *option.split()]) == 2
    assert "--prices INPUT OUTPUT" in capsys.readouterr().err


def test_prices_without_a_dry_run_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "normal", "--datasets", "mini", "--prices", "1", "2"]) == 2
    assert "--prices belongs to --dry-run" in capsys.readouterr().err


@pytest.mark.parametrize(("cost", "shown"), [(0.0053, "0.0053 USD"), (12.5, "12.50 USD"), (0.0, "0.00 USD")])
def test_costs_are_shown_with_their_digits(cost: float, shown: str) -> None:
    assert f"cost            {shown}" in str(Forecast(cost=cost, currency="USD", exact=True))


def test_estimates_are_not_compared_with_counted_tokens(server: Server) -> None:
    """A table of methods shows what each method alone would read, where that is counted exactly."""
    kernel = load_kernel(f"openai:{server.url}#words;scoring=prompt-logprobs", backoff=0.01)
    benchmark = Normal(datasets=["mini"], limit=1)
    table = run_all(kernel, benchmark, calibration_number=4, methods=["vanilla", "batch_calibration"])
    assert [result.timing.get("tokens_alone") for result in table.values()] == [None, None]
