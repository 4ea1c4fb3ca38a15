"""The search of the site answers questions, and no question breaks it."""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SEARCH = ROOT / "docs" / "assets" / "search.js"
NODE = shutil.which("node")

PROGRAM = """
const [script, documents, questions] = JSON.parse(require("fs").readFileSync(0, "utf8"));
let answer, listen;
globalThis.addEventListener = (name, handler) => { listen = handler; };
globalThis.postMessage = (message) => { answer = message; };
(0, eval)(script);
listen({data: {type: 0, data: {docs: documents}}});
const answers = questions.map((question) => {
  listen({data: {type: 2, data: question}});
  return answer.data.items;
});
console.log(JSON.stringify(answers));
"""
"""Runs the script as a browser does, without a browser."""

PAGES = [
    {"location": "index.html", "title": "StaICC", "text": "<p>Evaluate a model.</p>", "tags": ["install"]},
    {"location": "runs.html", "title": "Durable runs", "text": "<p>A store keeps predictions.</p>", "tags": ["resume"]},
    {"location": "runs.html#gpus", "title": "Several GPUs", "text": "<p>One worker each, as Ray does &amp; Dask.</p>"},
    {"location": "runs.html#cost", "title": "Cost", "text": "<p>Tokens are counted.</p>"},
    {
        "location": "long.html",
        "title": "LongICL",
        "text": "<p>Many labels; LongICLBench.</p>",
        "tags": ["longiclbench"],
    },
    {
        "location": "time.html",
        "title": "Performance",
        "text": "<p>How long a run takes.</p>",
        "tags": ["duration", "long"],
    },
    {"location": "api/run.html", "title": "resume", "text": "<p>resume resume resume</p>", "boost": 0.0002},
]

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: install Node.js to test the site's search")


def answers(questions: list[str]) -> list[list[list[dict[str, object]]]]:
    """The results of each question: pages, each a list of itself and its sections."""
    given = json.dumps([SEARCH.read_text(encoding="utf-8"), PAGES, questions])
    done = subprocess.run(
        [str(NODE), "-e", PROGRAM], input=given, capture_output=True, text=True, check=True, timeout=120
    )
    found: list[list[list[dict[str, object]]]] = json.loads(done.stdout)
    return found


def words_of_the_site() -> ModuleType:
    """The module of the hook that has the keywords."""
    spec = importlib.util.spec_from_file_location("search_words", ROOT / "docs" / "hooks" / "search_words.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_node
@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("How do I resume?", "runs.html"),
        ("resuming", "runs.html"),  # another form of a keyword
        ("resu", "runs.html"),  # while the reader types
        ("How long does it take?", "time.html"),  # no page whose words only begin so
        ("Do tokens cost the same on several GPUs?", "runs.html"),  # words of two sections of a page
    ],
)
def test_the_page_that_answers_is_first(question: str, page: str) -> None:
    assert answers([question])[0][0][0]["location"] == page


@needs_node
def test_internals_are_after_guides() -> None:
    places = [pages[0]["location"] for pages in answers(["resume"])[0]]
    assert places == ["runs.html", "api/run.html"]


@needs_node
def test_words_of_the_question_are_marked_in_the_section_that_has_them() -> None:
    runs = answers(["ray workers"])[0][0]
    by_place = {section["location"]: section["text"] for section in runs}
    assert by_place["runs.html#gpus"] == "One <mark>worker</mark> each, as <mark>Ray</mark> does &amp; Dask."


@needs_node
def test_no_question_breaks_the_search() -> None:
    search_words = words_of_the_site()
    words = {word for page in search_words.KEYWORDS for word in search_words.keywords(page)}
    common = ["a", "the", "see", "how do I"]
    strange = ["", " ", "?", '"', "+", "-", "c++", "title:", "^2", "~1", "*", "(", "[a", "<b>", "...", "constructor"]
    questions = common + strange + sorted(words)
    assert len(answers(questions)) == len(questions)


def test_no_keyword_is_a_word_of_any_question() -> None:
    script = SEARCH.read_text(encoding="utf-8")
    listed = script.partition("new Set((")[2].partition(").split")[0]
    stop_words = set(re.findall("[a-z]+", listed))
    search_words = words_of_the_site()
    assert stop_words >= {"how", "the", "see"}
    for page in search_words.KEYWORDS:
        assert not stop_words & set(search_words.keywords(page)), page
