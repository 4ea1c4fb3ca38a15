"""README.md and docs/ promise only what runs: every fenced code block of every page is run or checked here.

The rules for who writes a page. A block says its language behind the fence.

``python``
    A block is a whole program. It runs in a fresh process, in an empty folder, without the network, and must end well.
    An invisible comment ``<!-- test: continues -->`` with a blank line behind it, before the fence, joins a block to
    the blocks of the page above it, up to the last one without the comment. ``<!-- test: excerpt of PATH -->`` is for
    a piece of a program of this repository: each of its lines must stand there, but for comments and arguments' types.

    A first line ``# needs: PACKAGE`` names packages of :data:`OPTIONAL` that the block does not import itself. Where
    one is missing the block is skipped, with a warning. A need that is no package (``# needs: a Slurm cluster``) cannot
    be had here: such a block is compiled, and what it takes from StaICC must be there. A block that names the folder
    ``my_model`` finds a tiny random model in it, one that names ``my_data`` made-up files of LongICL.
``console``
    Each line is a command. Commands of StaICC are parsed by the real parser. Those that can do without a network, a
    model and the ten data sets are run too, in the order of the page, in one folder, so that later ones find the files
    of earlier ones. After ``cd examples/FOLDER`` they find a copy of its files. Other commands must match
    :data:`OTHER_COMMANDS`;
    a benchmark under ``tests/performance/`` must be there and have the options.
``json``, ``toml``, ``yaml``, ``bash``
    Must parse. Commands of StaICC in ``bash`` are parsed as in ``console``.
``text``
    Is not checked, except behind ``<!-- test: output -->``: then it is the output of the command above it. A first line
    ``...`` leaves out the beginning, a last one the rest. Behind ``<!-- test: output of the ten data sets -->`` it is
    an output of the embedded model, which ``tests/test_docs_figures.py`` computes again where the data sets are there.
    Behind ``<!-- test: example of DATE -->`` it is an output of models that no test loads. Other languages are refused.

Commands and programs that name the folder ``out`` find two runs of lm_eval in it (``tests/logs/two_runs.zip``).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import http.server
import importlib
import importlib.util
import io
import itertools
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

import StaICC
import StaICC.cli
from StaICC.benchmarks.context import RunSettings
from tests.long_icl.conftest import write_small
from tests.pictures import chromium, skip_without_chromium

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:^<!-- test: (?P<rule>.+?) -->\n\n)?^(?P<indent> *)```(?P<language>[\w-]*)[^\n`]*\n(?P<code>.*?)"
    r"^(?P=indent)```$",
    flags=re.MULTILINE | re.DOTALL,
)
OTHER_COMMANDS = (
    r"pip install (\.|'\.\[[a-z,]+\]')( dask-jobqueue)?",  # never from the index: 0.1.1 is there
    r"git clone \S+",
    r"cd [\w./-]+",
    r"python -m pytest( [\w./-]+)*",
    r"python examples/[\w/]+\.py",
    r"(NO_MKDOCS_2_WARNING=1 )?mkdocs (serve|build --strict)",
    r"lm_eval --include_path \. --tasks staicc_\w+( --[a-z_]+( [\w=.]+)?)*",
    r'eval "\$\(register-python-argcomplete staicc\)"',
)
"""What a page may tell the reader to type in addition to StaICC's own commands."""

TRACKERS = {"mlflow", "sqlalchemy", "wandb", "trackio", "inspect_ai"}
"""Packages of the extra ``trackers``, which need other versions of packages than the tests of the kernels."""

OPTIONAL = {
    *TRACKERS,
    "torch",
    "transformers",
    "openai",
    "distributed",
    "dask",
    "numpy",
    "pandas",
    "polars",
    "statsmodels",
    "sklearn",
}
"""Packages that a block may need; a missing one skips the block. Any other name that is missing is a mistake."""

INPUTS = ("data", "results", "result", "answers", "path", "others")
"""Arguments of commands that name files which must be there."""


@dataclass(frozen=True)
class Block:
    """A fenced code block."""

    page: Path
    line: int
    language: str
    rule: str
    code: str

    @property
    def needs(self) -> list[str]:
        line = re.match(r"# needs: (.*)", self.code)
        return line[1].split(", ") if line else []

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the fenced code blocks of a page, each with the line of its fence."""
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("language")) + 1
        yield Block(page, line, fence["language"], fence["rule"] or "", textwrap.dedent(fence["code"]))


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
PYTHON = [block for block in BLOCKS if block.language == "python"]


def needs_only_packages(block: Block) -> bool:
    """Whether the needs of a block are packages, and not a cluster."""
    return all(need.isidentifier() for need in block.needs)


def commands_of(block: Block) -> list[str]:
    """Return the commands of a block of the shell, without comments."""
    code_in_long_lines = re.sub(r" *\\\n *", " ", block.code)
    commands = []
    for line in code_in_long_lines.splitlines():
        line_without_comment = re.sub(r"^#.*|  #.*", "", line.strip())
        commands += line_without_comment.split(" && ")
    return [command.strip() for command in commands if command.strip()]


def words_of(command: str) -> list[str] | None:
    """Return the arguments of a command of StaICC, or ``None`` for another command."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = list(lexer)
    for word in words:
        assert set(word) != {";"}, f"a shell ends the command at ';': quote the name of the model in {command!r}"
    while words and re.match(r"[A-Z_]+=", words[0]):  # a variable of the environment
        del words[0]
    if words[:3] == ["python", "-m", "StaICC"]:
        return words[3:]
    if words[:1] == ["staicc"]:
        return words[1:]
    return None


def program_of(block: Block) -> str:
    """Return the code of a block of Python, after the code of the blocks that it continues."""
    codes = [block.code]
    blocks_above = [other for other in PYTHON if other.page == block.page and other.line < block.line]
    while block.rule == "continues":
        block = blocks_above.pop()
        codes.insert(0, block.code)
    return "\n".join(codes)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of this process without settings and keys of the user, and without a network."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("STAICC_", "OPENAI_"))}
    variables |= {"STAICC_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "WANDB_SILENT": "true"}
    variables |= {"STAICC_HOME": str(folder / "home"), "TRACKIO_DIR": str(folder / "trackio")}
    variables |= {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    return variables


def run_python(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a folder, and return what it prints."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)


def packages_imported_by(code: str) -> set[str]:
    """Return the packages that a program imports itself, but for StaICC and the standard library."""
    packages = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add(str(node.module).split(".")[0])
    return packages - {"StaICC"} - sys.stdlib_module_names


@pytest.fixture(scope="session")
def my_model(tmp_path_factory: pytest.TempPathFactory, make_model: Any, make_tokenizer: Any) -> Path:
    """A folder with a tiny random model and its tokenizer, as ``save_pretrained`` writes them."""
    folder = tmp_path_factory.mktemp("my_model")
    make_tokenizer().save_pretrained(folder)
    make_model("Llama", max_position_embeddings=16384).save_pretrained(folder)
    return folder


def write_files_named_in(code: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Write the model, the data and the logs that a program names into its folder."""
    if re.search(r"\bmy_model\"", code):
        shutil.copytree(request.getfixturevalue("my_model"), folder / "my_model")
    if '"my_data"' in code:
        (folder / "my_data").mkdir()
        write_small(folder / "my_data")
    if '"out/' in code:
        unpack_runs(folder)


def unpack_runs(folder: Path) -> None:
    """Put two runs of lm_eval into the folder ``out`` of a folder."""
    with zipfile.ZipFile(ROOT / "tests" / "logs" / "two_runs.zip") as archive:
        archive.extractall(folder)


BLOCKS_TO_RUN = [block for block in PYTHON if needs_only_packages(block) and not block.rule.startswith("excerpt")]


def is_slow(block: Block) -> bool:
    """Whether a program imports an optional package: torch alone takes seconds."""
    return bool(block.needs or packages_imported_by(program_of(block)))


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=pytest.mark.slow if is_slow(block) else (), id=str(block)) for block in BLOCKS_TO_RUN],
)
def test_a_program_of_a_page_runs(
    block: Block, tmp_path: Path, request: pytest.FixtureRequest, need: Callable[[set[str], str], None]
) -> None:
    code = program_of(block)
    packages = {*block.needs, *packages_imported_by(code)}
    missing = {name for name in packages if importlib.util.find_spec(name) is None}
    assert missing <= OPTIONAL, f"{block} imports {', '.join(sorted(missing - OPTIONAL))}"
    if missing & TRACKERS and os.environ.get("STAICC_REQUIRE_TRACKERS") != "1":
        pytest.skip(f"{block} needs {', '.join(sorted(missing))}; .ci/run has an environment of its own for it")
    need(missing, str(block))  # skips this test if a package is missing

    write_files_named_in(code, tmp_path, request)
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    done = run_python(["-W", "ignore", "program.py"], tmp_path)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", [block for block in PYTHON if not needs_only_packages(block)], ids=str)
def test_a_program_that_needs_a_cluster_imports_existing_names_and_passes_existing_settings(block: Block) -> None:
    """The program cannot run here."""
    tree = ast.parse(program_of(block))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("StaICC"):
            module = importlib.import_module(node.module)
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Call):  # Benchmark(...)(kernel, setting=...)
            assert {keyword.arg for keyword in node.keywords} <= set(RunSettings.__annotations__)


def lines_of_code(code: str) -> list[str]:
    """Return the lines of a program without comments, empty lines, and the types of arguments."""
    lines = []
    for line in code.splitlines():
        line_without_comment = re.sub(r" *#.*", "", line).strip()
        line_without_types = re.sub(r"^(def \w+)\(.*", r"\1(", line_without_comment)
        if line_without_types not in ("", "...", ")"):
            lines.append(line_without_types)
    return lines


@pytest.mark.parametrize("block", [block for block in PYTHON if block.rule.startswith("excerpt")], ids=str)
def test_the_lines_of_an_excerpt_are_those_of_its_program(block: Block) -> None:
    """A line that ends with ``= ...`` has a value that the page leaves out."""
    path = block.rule.removeprefix("excerpt of ")
    lines_of_program = lines_of_code((ROOT / path).read_text(encoding="utf-8"))

    lines_of_excerpt = [line for line in lines_of_code(block.code) if not line.endswith("= ...")]

    assert [line for line in lines_of_excerpt if line not in lines_of_program] == []


def forbid_abbreviations(parser: argparse.ArgumentParser) -> None:
    """Make a parser, and those of its commands, refuse shortened options: a page spells them out."""
    parser.allow_abbrev = False
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for parser_of_command in action.choices.values():
                forbid_abbreviations(parser_of_command)


def parse(words: list[str]) -> argparse.Namespace | None:
    """Return the arguments as the real parser reads them, or ``None`` for a call for help or the version.

    It fails for arguments that the parser refuses.
    """
    parser = StaICC.cli._parser(words[0])
    forbid_abbreviations(parser)
    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        try:
            return parser.parse_args(words)
        except SystemExit as stop:
            status = stop.code
    assert status == 0, output.getvalue()
    return None


def as_list(value: Any) -> list[Any]:
    """Return the values of an argument that may be given once, several times, or not at all."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    return [value]


def needs_a_model(args: argparse.Namespace) -> bool:
    """Whether a command loads another model than the built-in ``ppm``."""
    names = {model.partition(";")[0] for model in as_list(getattr(args, "model", None))}  # without options
    return args.command in ("run", "race", "prompts") and not names <= {"ppm"}


def needs_the_ten_data_sets(args: argparse.Namespace) -> bool:
    """Whether a command reads the benchmark's data sets, neither ``mini`` nor a file of the reader."""
    reads_data_sets = args.command in ("run", "prompts", "score") or getattr(args, "action", "") == "lm-eval"
    return reads_data_sets and args.datasets != ["mini"] and args.data is None


def missing_files(args: argparse.Namespace, folder: Path) -> list[str]:
    """Return the files that a command reads and a folder lacks; ``-`` is the standard input."""
    if args.command == "store" and args.action == "merge":
        names: tuple[str, ...] = ("others",)  # its other file is written
    else:
        names = INPUTS
    missing = []
    for name in names:
        for file in as_list(getattr(args, name, None)):
            if str(file) != "-" and not (folder / str(file)).exists():
                missing.append(str(file))
    return missing


def can_run(args: argparse.Namespace, folder: Path) -> bool:
    """Whether a command has here what it needs: no network, no model, no ten data sets, no files of the reader."""
    if args.command == "data" and args.action in ("install", "verify"):
        return False
    if getattr(args, "benchmark", None) == "long-icl":
        return False
    if needs_a_model(args) or needs_the_ten_data_sets(args):
        return False
    return missing_files(args, folder) == []


def console_commands_of(page: Path) -> list[str]:
    """Return the commands of the console blocks of a page."""
    commands = []
    for block in BLOCKS:
        if block.page == page and block.language == "console":
            commands += commands_of(block)
    return commands


def outputs_of(page: Path) -> dict[str, str]:
    """Return the outputs that a page shows, each by the last command of the block above it."""
    outputs = {}
    blocks_of_page = [block for block in BLOCKS if block.page == page]
    for block_above, block in itertools.pairwise(blocks_of_page):
        if block.rule == "output":
            last_command = commands_of(block_above)[-1]
            outputs[last_command] = block.code
    return outputs


def output_of(words: list[str], command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must end with status 0, and return what it prints.

    It runs in a process of its own where it needs one, as for its worker processes, and in this process otherwise.
    """
    needs_a_process = {"--workers", "--help", "--version"} & set(words)
    if needs_a_process:
        done = run_python(["-m", "StaICC", *words], folder)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        return done.stdout
    capsys.readouterr()  # forget what was printed before
    status = StaICC.cli.main(words)
    out, err = capsys.readouterr()
    assert status == 0, f"{command}\n{err}"
    return out


PAGES_WITH_COMMANDS = [page for page in PAGES if console_commands_of(page)]


@pytest.fixture
def folder_of_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that pages name: a table ``nli.csv`` and two runs of lm_eval."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    lines = ["premise,hypothesis,label"]
    for row in range(30):
        label = "no" if row % 2 == 0 else "yes"
        lines.append(f'premise {row},"hypothesis {row}",{label}')
    (tmp_path / "nli.csv").write_text("\n".join(lines), encoding="utf-8")
    unpack_runs(tmp_path)
    return tmp_path


def check_other_command(command: str, folder: Path) -> None:
    """Check a command that is not one of StaICC; after ``cd examples/FOLDER``, the files of that folder are there."""
    measurement = re.fullmatch(r"python (tests/performance/\w+\.py)((?: [\w.,-]+)*)", command)
    change_of_folder = re.fullmatch(r"cd (examples/[\w./-]+)", command)
    if measurement is not None:
        path, arguments = measurement.groups()
        code = (ROOT / path).read_text(encoding="utf-8")
        unknown = [word for word in arguments.split() if word.startswith("--") and f'"{word}"' not in code]
        assert not unknown, f"{path} has no option {unknown}"
    elif change_of_folder is not None:
        shutil.copytree(ROOT / change_of_folder[1], folder, dirs_exist_ok=True)
    else:
        assert any(re.fullmatch(pattern, command) for pattern in OTHER_COMMANDS), f"unknown command: {command}"


def assert_output_is_that_of_the_page(printed: str, output_of_page: str, command: str) -> None:
    """Compare what was printed with an output of a page, of which ``...`` leaves out the beginning or the rest."""
    expected = output_of_page.removesuffix("...\n").removeprefix("...\n")
    if output_of_page.startswith("...\n"):
        assert expected in printed, f"{command}: the output is\n{printed}"
    elif output_of_page.endswith("...\n"):
        assert printed[: len(expected)].rstrip() == expected.rstrip(), command
    else:
        assert printed.rstrip() == expected.rstrip(), command


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_and_print_its_outputs(
    page: Path, folder_of_a_reader: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands run in the order of the page, but for those that need a model, a network or the ten data sets."""
    outputs_to_check = outputs_of(page)
    for command in console_commands_of(page):
        words = words_of(command)
        if words is None:
            check_other_command(command, folder_of_a_reader)
            continue
        args = parse(words)
        is_call_for_help = args is None
        if is_call_for_help or can_run(args, folder_of_a_reader):
            printed = output_of(words, command, folder_of_a_reader, capsys)
            if command in outputs_to_check:
                assert_output_is_that_of_the_page(printed, outputs_to_check.pop(command), command)
    assert not outputs_to_check, "the page shows outputs of commands that were not run"


def blocks_in(language: str) -> pytest.MarkDecorator:
    """Return the parameters of a test of all blocks in a language."""
    return pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == language], ids=str)


@blocks_in("json")
def test_json_can_be_parsed(block: Block) -> None:
    json.loads(block.code)


@blocks_in("toml")
def test_toml_can_be_parsed(block: Block) -> None:
    pytest.importorskip("tomllib", reason="Python 3.11 brings it").loads(block.code)


@blocks_in("yaml")
def test_yaml_can_be_parsed(block: Block) -> None:
    pytest.importorskip("yaml").safe_load(block.code)


@blocks_in("bash")
def test_a_script_of_bash_can_be_parsed(block: Block) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash, which parses the script, is not installed")
    done = subprocess.run(["bash", "-n"], input=block.code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@blocks_in("bash")
def test_the_commands_of_staicc_in_a_script_can_be_parsed(block: Block) -> None:
    for command in commands_of(block):
        words = words_of(command) if "StaICC" in command or command.startswith("staicc") else None
        if words is not None:
            parse(words)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_is_in_a_language_that_is_tested(block: Block) -> None:
    tested_languages = ("python", "console", "json", "toml", "yaml", "bash")
    assert block.language in (*tested_languages, "text"), f"{block}: name its language behind the fence"


def anchors_of(page: Path) -> set[str]:
    """Anchors of a page's heads, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+?)(?: \{#([\w-]+)\})?$", text_of(page), flags=re.MULTILINE)
    anchors = set()
    for heading, given_anchor in headings:
        words = re.sub(r"[^\w\- ]", "", heading).strip().lower()
        anchors.add(given_anchor or words.replace(" ", "-"))
    return anchors


def text_of(page: Path) -> str:
    """Return a page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_text_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text_of(page)):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} has a link to {target}: there is no such file"
        if anchor and file.suffix == ".md":
            assert anchor in anchors_of(file), f"{page.name} has a link to {target}: {file.name} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_extras_that_a_page_installs_are_declared(page: Path) -> None:
    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    for extras in re.findall(r"(?:staicc|'\.|\s\.)\[([\w,]+)\]", page.read_text(encoding="utf-8")):
        for extra in extras.split(","):
            is_declared = re.search(rf"^{extra} = \[", declared, re.MULTILINE)
            assert is_declared, f"{page.name} names the extra {extra!r}, which pyproject.toml does not have"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_within_sentences_can_be_parsed(page: Path) -> None:
    """A command that ends with ``...`` is not complete, so that only its words are read."""
    for command in re.findall(r"`((?:python -m StaICC|staicc) [^`]+)`", text_of(page)):
        words = words_of(" ".join(command.split()).removesuffix(" ..."))
        assert words is not None, f"{page.name} has a command that cannot be read: {command}"
        if words and not command.endswith("..."):
            parse(words)


# -- the site


PUBLIC_MODULES = [
    path
    for path in sorted((ROOT / "StaICC").rglob("*.py"))
    if not any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(ROOT).parts)
]


def public_names(path: Path) -> list[str]:
    """Return the names in ``__all__`` of a module, or without it its public classes and functions."""
    statements = ast.parse(path.read_text("utf-8")).body
    for statement in statements:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            is_literal = isinstance(statement.value, ast.List)
            return ast.literal_eval(statement.value) if is_literal else StaICC.__all__
    names = [statement.name for statement in statements if isinstance(statement, (ast.ClassDef, ast.FunctionDef))]
    return [name for name in names if not name.startswith("_")]


class Page(HTMLParser):
    """A page of the built site: its anchors, the addresses that a browser would fetch, its tags and its text."""

    ATTRIBUTE_THAT_IS_FETCHED: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed"), "src"),
        **{"object": "data", "use": "href", "image": "href", "form": "action"},
    }
    """The attribute with an address, by the name of the element."""
    RELATIONS_THAT_ARE_FETCHED: ClassVar[set[str]] = {
        *("stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload")
    }

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.source = path.read_text("utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the anchor and the addresses of an element."""
        attributes = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.anchors.add(attributes.get("id", ""))
        if tag in self.ATTRIBUTE_THAT_IS_FETCHED:
            self.fetched.append(attributes.get(self.ATTRIBUTE_THAT_IS_FETCHED[tag], ""))
        relations = set(attributes.get("rel", "").split())
        if tag == "link" and relations & self.RELATIONS_THAT_ARE_FETCHED:
            self.fetched.append(attributes.get("href", ""))
        for candidate in attributes.get("srcset", "").split(","):
            if candidate.strip():
                address = candidate.split()[0]  # behind it, a width or a density
                self.fetched.append(address)
        self.fetched += re.findall(r"url\(([^)]*)\)", attributes.get("style", ""))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. It is built without the frozen data, as on a machine that never had them."""
    for package in ("mkdocs", "material", "mkdocstrings_handlers", "latex2mathml"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("site")
    home = tmp_path_factory.mktemp("home")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml"), "-d", str(folder)]
    variables = {**os.environ, "STAICC_OFFLINE": "1", "STAICC_HOME": str(home), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert list(home.iterdir()) == []  # nothing was fetched
    return folder


@pytest.fixture(scope="session")
def built_pages(site: Path) -> dict[str, Page]:
    """The pages of the built site, by their path."""
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_every_public_name_is_on_the_api_page_of_its_module(built_pages: dict[str, Page]) -> None:
    missing = []
    for path in PUBLIC_MODULES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        page = built_pages.get(f"api/{module}.html")
        if page is None:
            missing.append(module)
            continue
        assert module in page.anchors
        for name in public_names(path):
            has_page_of_its_own = path.with_name(f"{name}.py").is_file()  # it is a module
            is_described = f"{module}.{name}" in page.anchors
            is_linked = re.search(rf'href="[^"]*#[\w.]+"[^>]*><code>{name}</code>', page.source) is not None
            if not (has_page_of_its_own or is_described or is_linked):
                missing.append(f"{module}.{name}")
    assert missing == []


@pytest.mark.slow
def test_every_name_of_the_package_is_linked_from_the_first_api_page(built_pages: dict[str, Page]) -> None:
    linked = set(re.findall(r'href="[^"]+#[^"]+"[^>]*><code>(\w+)</code>', built_pages["api/index.html"].source))
    assert {*StaICC.__all__} <= linked


@pytest.mark.slow
def test_no_page_fetches_anything_from_another_host(built_pages: dict[str, Page]) -> None:
    for name, page in built_pages.items():
        for address in page.fetched:
            names_a_host = re.match(r"\s*[\"']?(\w+:)?//", address) and not address.startswith("data:")
            assert not names_a_host, f"{name}: {address}"


@pytest.mark.slow
def test_no_style_sheet_fetches_anything_from_another_host(site: Path) -> None:
    for path in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text("utf-8")):
            assert not re.match(r"(\w+:)?//", address), f"{path.name}: {address}"


@pytest.mark.slow
def test_no_script_of_a_page_may_fetch_anything_from_another_host(built_pages: dict[str, Page]) -> None:
    """Without the policy, the theme's script would fetch a renderer of diagrams, and the stars of a repository."""
    policy = "<head>\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'self' "
    for name, page in built_pages.items():
        assert policy in page.source, name
        assert 'class="mermaid"' not in page.source, name
        assert 'data-md-component="source"' not in page.source, name


# -- the search, in a browser: users' words lead to guides, names of internals to the API


SEARCHES = (
    *("p-value", "confidence interval", "accuracy below random", "batch size", "device", "GPU", "chat template"),
    *("vllm", "openai server", "few-shot", "number of demonstrations", "calibration", "contextual calibration", "ECE"),
    *("expected calibration error", "macro F1", "likelihood", "significance test", "compare two models", "leaderboard"),
    *("own data", "csv", "hugging face dataset", "install", "offline", "resume interrupted run", "cache predictions"),
    *("cost of a run", "retry rate limit", "label words", "template", "signature", "reproduce paper", "data frame"),
    *("export to lm-evaluation-harness", "verify result"),
)
QUESTIONS = {  # each with the pages that answer it
    "Is a difference of two runs significant?": ("comparing.html", "faq.html"),
    "What does it cost before I run?": ("durable_runs.html", "faq.html"),
    "How do I use several GPUs?": ("durable_runs.html", "faq.html"),
    "How do I run my own model?": ("kernels.html", "faq.html"),
    "How do I evaluate a LoRA adapter?": ("kernels.html", "faq.html"),
    "Why does my accuracy differ from the paper?": ("faq.html", "published_figures.html"),
    "Which runs can be compared with each other?": ("comparing.html",),
    "What do I write in the paper?": ("comparing.html",),
    "Why is a comparison untested?": ("comparing.html",),
    "Can I stop early when one model is clearly better?": ("early_stopping.html",),
    "How do I read the logs of inspect or HELM?": ("logs.html",),
    "How do I move from version 0.1.1 to 1.0?": ("migration.html",),
    "How do I write my own benchmark?": ("adding_a_benchmark.html",),
    "What is the difference between Normal and GLER?": ("benchmarks.html",),
    "license": ("index.html", "data_sets.html"),  # the page writes "licence"
    "irt": ("mixed_models.html",),
    "speed": ("performance.html",),
}
NAMES = ("values_equal", "PPMKernel", "split_runs", "EndpointKernel")
INTERNALS = ("api/", "changelog.html", "contributing.html", "architecture.html")


def test_every_guide_has_keywords_for_the_search() -> None:
    keywords = runpy.run_path(str(ROOT / "docs" / "hooks" / "search_words.py"))["KEYWORDS"]
    guides = {path.name for path in (ROOT / "docs").glob("*.md")} | {"index.md"}
    assert {*keywords} == guides - {"architecture.md"}  # internals are found by their names


LONGEST_SEARCH = 600
"""Seconds; it only ends a search that never shows a result, whatever else the machine does."""


class _HandlerWithoutLog(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


def wait_for_first_hit(browser: Any) -> str:
    """Wait until a page shows results of its search, on an idle machine two seconds, and return the first address."""
    address_of_first_hit = "return document.querySelector('.md-search-result__item > a')?.href"
    end = time.monotonic() + LONGEST_SEARCH
    while time.monotonic() < end:
        hit = browser.execute_script(address_of_first_hit)
        if hit is not None:
            return str(hit)
        time.sleep(0.1)
    pytest.fail(f"{browser.current_url} shows no result of its search after {LONGEST_SEARCH} s")


def search_built_site(site: Path, searches: tuple[str, ...]) -> dict[str, str]:
    """Return the page that the search of the built site lists first, for each search."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_HandlerWithoutLog, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    browser = chromium()
    first_hits = {}
    try:
        for words in searches:
            browser.get(f"{address}index.html?q={words.replace(' ', '+')}")
            hit = wait_for_first_hit(browser)
            first_hits[words] = hit.removeprefix(address).partition("?")[0]
    finally:
        browser.quit()
        server.shutdown()
        server.server_close()
    return first_hits


@pytest.fixture(scope="module")
def first_hit_of(site: Path) -> dict[str, str]:
    """The page that the search of the built site lists first, by what is searched."""
    skip_without_chromium()
    return search_built_site(site, (*SEARCHES, *NAMES, *QUESTIONS))


@pytest.mark.slow
def test_32_searches_of_users_find_a_guide_first(first_hit_of: dict[str, str]) -> None:
    """The others find pages about internals."""
    searches_with_a_guide = []
    for words in SEARCHES:
        hit = first_hit_of[words]
        if hit.endswith(".html") and not hit.startswith(INTERNALS):
            searches_with_a_guide.append(words)

    assert len(searches_with_a_guide) >= 32, f"no guide for {set(SEARCHES) - set(searches_with_a_guide)}"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_search_for_a_name_finds_the_api_first(name: str, first_hit_of: dict[str, str]) -> None:
    assert first_hit_of[name].startswith("api/")


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_the_page_that_answers_it(question: str, first_hit_of: dict[str, str]) -> None:
    page, _, _ = first_hit_of[question].partition("#")

    assert page in QUESTIONS[question]


@pytest.mark.slow
def test_the_search_works_in_a_folder_without_a_server(site: Path) -> None:
    skip_without_chromium()
    browser = chromium()
    try:
        browser.get(f"{(site / 'index.html').as_uri()}?q=significance+test")
        assert wait_for_first_hit(browser).startswith(site.as_uri())
    finally:
        browser.quit()
