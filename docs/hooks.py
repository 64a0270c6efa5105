"""What building the site does beyond its plugins: links that leave docs/, and names in the reference.

The same link works in the repository and on the site. What it leads to outside docs/ comes along if it is a Markdown
file or a picture, under its path in the repository; anything else, such as a folder or a program, is named as code.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs/"
TAKEN_ALONG = (".md", ".png", ".svg")
LINK = re.compile(r"\[([^\]\n]*(?:\n[^\]\n]+)?)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the pages link to, and what that links to."""
    waiting = [DOCS + file.src_uri for file in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for _, target, _ in LINK.findall((ROOT / page).read_text()):
            path = _in_repository(page, target)
            if path in seen or not _is_taken_along(path):
                continue
            seen.add(path)
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
            if path.endswith(".md"):
                waiting.append(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where the files are on the site."""
    here = page.file.src_uri
    source = here if page.file.generated_by else DOCS + here

    def lead(found: re.Match[str]) -> str:
        text, target, anchor = found.groups()
        path = _in_repository(source, target)
        if path.startswith(DOCS) and source.startswith(DOCS):
            return found[0]
        if path.startswith(DOCS) or _is_taken_along(path):
            return f"[{text}]({posixpath.relpath(path.removeprefix(DOCS), posixpath.dirname(here))}{anchor or ''})"
        return f"`{path}`" if (ROOT / path).exists() else found[0]

    return LINK.sub(lead, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Name modules in full in the table of contents of a page of the reference."""
    for section in (section for title in page.toc for section in title.children):
        if section.id.startswith("agrlearn."):
            section.title = section.id


def _in_repository(page: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def _is_taken_along(path: str) -> bool:
    outside = not path.startswith((DOCS, "../"))
    return outside and path.endswith(TAKEN_ALONG) and (ROOT / path).is_file()
