"""The site's hook for MkDocs: pages that are generated, and pages that are written for a code host.

Generated pages stand in no folder; they are made anew for every build. Where a page holds the comment
``<!-- generated: WHAT -->``, the table of that name is put in its place, so that a reader on a code host misses a table
and nothing else. In the navigation, ``FOLDER/*`` selects the generated pages of a folder.
"""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the site describes this source, whatever else is installed

import api_pages  # noqa: E402  (from this folder: MkDocs lets hooks import their neighbours)
import data_set_pages  # noqa: E402
import logged_metric_tables  # noqa: E402
import repository  # noqa: E402
import result_file_tables  # noqa: E402
import search_words  # noqa: E402

__all__ = ["on_config", "on_files", "on_page_content", "on_page_markdown", "on_post_page", "on_post_template"]

MARK = re.compile(r"<!-- generated: (?P<what>[\w -]+) -->")
LINKS = repository.RepositoryLinks()
POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; "
    "form-action 'none'\">"
)
"""A browser that heeds it asks no other host, whatever the theme's scripts would do."""


def _names() -> str:
    known = api_pages.modules()
    return api_pages.names_table(known["StaICC"], known)


TABLES: dict[str, Callable[[], str]] = {
    "the ten data sets": data_set_pages.ten_table,
    "the LongICL data sets": data_set_pages.long_icl_table,
    "the fields of a result": lambda: result_file_tables.fields_table("result"),
    "the details of a data set": lambda: result_file_tables.fields_table("DatasetDetails"),
    "the record of a condition": lambda: result_file_tables.fields_table("ConditionRecord"),
    "the record of a model": lambda: result_file_tables.fields_table("Predictor"),
    "known metrics": logged_metric_tables.known_metrics_table,
    "names": _names,
    "modules": lambda: api_pages.modules_table(api_pages.modules()),
}


EXAMPLES = (
    *("quickstart", "batched_inference", "compare_two_models", "two_real_models", "calibration"),
    *("demonstration_selection", "adding_a_method", "noisy_channel", "long_icl", "leaderboard", "three_models"),
    "tiny_model",
)
"""The examples in the order of learning."""


def _place_in_order(place: str) -> int:
    """Return the position of an example in the navigation; one that is not listed comes last."""
    name = Path(place).stem
    return EXAMPLES.index(name) if name in EXAMPLES else len(EXAMPLES)


def _title_of_example(path: Path) -> str:
    """Return the title of an example: its first heading, or the first sentence of its docstring."""
    source = path.read_text(encoding="utf-8")
    heading = re.search(r"^# # (.+)$", source, flags=re.MULTILINE)
    if heading:
        return heading[1]
    docstring = ast.get_docstring(ast.parse(source)) or path.stem
    return docstring.split("\n")[0].rstrip(".")


def _fenced(source: str, language: str = "python") -> str:
    fence = "`" * (3 + max((len(run) for run in re.findall("`+", source)), default=0))
    return f"{fence}{language}\n{source.strip()}\n{fence}\n"


def _example(path: Path) -> str:
    """A program as a page, with its output; one with cells (``# %%``) as text and code in turn."""
    source = path.read_text(encoding="utf-8")
    where = f"The file `{path.relative_to(ROOT).as_posix()}` of the repository."
    output = path.parent / "outputs" / f"{path.stem}.txt"
    if output.exists():
        where += f"\n\n## Output\n\n{_fenced(output.read_text(encoding='utf-8'), 'text')}"
    if "# %%" not in source:
        return f"# {_title_of_example(path)}\n\n{_fenced(source)}\n\n{where}"
    parts = []
    for cell in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:  # before the first is the notebook's header
        kind, _, body = cell.partition("\n")
        if "[markdown]" in kind:
            parts.append(re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE))
        elif body.strip():
            parts.append(_fenced(body))
    return "\n\n".join([*parts, where]) + "\n"


def _generated() -> dict[str, tuple[str, str]]:
    examples = {
        path.relative_to(ROOT).with_suffix(".md").as_posix(): (_title_of_example(path), _example(path))
        for path in sorted((ROOT / "examples").rglob("*.py"))
    }
    top = {}
    for file, place in repository.TOP.items():
        content = (ROOT / file).read_text(encoding="utf-8")
        top[place] = (content.split("\n")[0].removeprefix("# "), content)
    pages = {**data_set_pages.pages(), **api_pages.pages(), **examples, **top}
    in_order = sorted((place for place in pages if place.startswith("examples/")), key=_place_in_order)
    return {place: pages[place] for place in [*in_order, *pages]}


PAGES: dict[str, tuple[str, str]] = {}


def _expand(nav: Any, rooms: dict[str, list[Any]]) -> Any:
    """The navigation with the generated pages in the place of ``FOLDER/*``."""
    if isinstance(nav, list):
        found: list[Any] = []
        for item in nav:
            is_place = isinstance(item, str) and item.endswith("/*")
            found += rooms.get(item.removesuffix("/*"), []) if is_place else [_expand(item, rooms)]
        return found
    if isinstance(nav, dict):
        return {title: _expand(inner, rooms) for title, inner in nav.items()}
    return nav


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Called by MkDocs first: makes the pages, and fills the navigation."""
    PAGES.clear()
    PAGES.update(_generated())
    known = api_pages.modules()
    by_room = {
        room: [{title: module.page} for module in known.values() if module.room == room for title in [_short(module)]]
        for room in api_pages.ROOMS
    }
    rooms: dict[str, list[Any]] = {"api": [{room: inner} for room, inner in by_room.items()]}
    for place, (title, _) in PAGES.items():
        folder = place.rpartition("/")[0]
        if folder and folder != "api":
            rooms.setdefault(folder.partition("/")[0], []).append({title: place})
    config.nav = _expand(config.nav, rooms)
    if LINKS not in config.markdown_extensions:
        config.markdown_extensions.append(LINKS)  # Markdown takes objects too
    return config


def _short(module: api_pages.Module) -> str:
    return module.name.removeprefix(f"{module.room}.")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by MkDocs with the files of the docs folder: adds the generated ones."""
    for place, (_, content) in PAGES.items():
        files.append(File.generated(config, place, content=content))
    return files


def _folder_of_links(place: str) -> str:
    """Return the folder of the repository that the links of a page start from.

    Args:
        place: Place of the page in the docs folder.
    """
    for file, place_of_file in repository.TOP.items():
        if place_of_file == place:
            return posixpath.dirname(file)
    folder = posixpath.dirname(place)
    return folder if place.startswith("examples/") else posixpath.join("docs", folder)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Called by MkDocs before a page is read: puts tables in, and weighs the page for the search."""
    page.meta["search"] = {"boost": search_words.boost(page.file.src_uri)}
    page.meta["tags"] = search_words.keywords(page.file.src_uri)
    LINKS.page = page.file.src_uri
    LINKS.folder = _folder_of_links(page.file.src_uri)

    def filled(found: re.Match[str]) -> str:
        if found["what"] not in TABLES:
            raise PluginError(f"{page.file.src_uri}: no table is named {found['what']!r}; there are {list(TABLES)}")
        return TABLES[found["what"]]()

    return MARK.sub(filled, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Called by MkDocs when a page has become HTML: puts formulas and drawings in."""
    html = repository.formulas(page.file.src_uri, html)
    html = repository.draw(page.file.src_uri, html)
    return repository.enlarge(html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Called by MkDocs with a whole page: forbids requests to other hosts."""
    return output.replace("<head>", f"<head>\n{POLICY}", 1)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """Called by MkDocs with what is no page, such as 404.html."""
    return output.replace("<head>", f"<head>\n{POLICY}", 1) if template_name.endswith(".html") else output
