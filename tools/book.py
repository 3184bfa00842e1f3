#!/usr/bin/env python3
"""Builds the documents as a book, below target/book: `make book`.

The contents are those of docs/README.md, and after them every other document that one of its pages leads to. Nothing that is
written here is committed. In the end each link of the book is followed: those to a file, and those to a heading.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "target" / "book"
CONTENTS = "docs/README.md"
FIRST = ["README.md", CONTENTS]
LINK = re.compile(r"\]\(([^)\s]+)\)")

CONFIGURATION = """\
[book]
title = "Leasehold"
language = "en"
src = "src"

[build]
build-dir = "html"
create-missing = false
use-default-preprocessors = false

[preprocessor.mermaid]
command = "{mermaid}"

[output.html]
no-section-label = true
additional-js = ["mermaid.min.js", "mermaid-init.js"]

[output.html.print]
enable = false
"""


def is_elsewhere(link):
    return "://" in link or link.startswith(("#", "mailto:"))


def target(page, link):
    """The file to which a link of a page leads, by its path from the root; of a directory its README, if it has one."""
    path = os.path.normpath(os.path.join(os.path.dirname(page), unquote(link.partition("#")[0])))
    if (ROOT / path).is_dir():
        path = os.path.join(path, "README.md")
    return path if (ROOT / path).is_file() else None


def links(text):
    return [link for link in LINK.findall(text) if not is_elsewhere(link)]


def place(path):
    """Where a file of the repository is in the book. A README is the first page of its directory."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def title(text):
    return next(line for line in text.splitlines() if line.startswith("# "))[2:]


def all_files():
    """Each document that can be reached from the contents, with its text, in order; and every other file that one shows."""
    pages, others = {}, set()
    due = list(FIRST)
    while due:
        path = due.pop(0)
        if path in pages:
            continue
        pages[path] = (ROOT / path).read_text(encoding="utf-8")
        reached = {target(path, link) for link in links(pages[path])} - {None}
        due += sorted(one for one in reached if one.endswith(".md"))
        others |= {one for one in reached if not one.endswith(".md")}
    return pages, others


def staged(page, text):
    """The text with its links as they are in the book. What is only a directory there is not linked."""

    def link(match):
        if is_elsewhere(match[1]):
            return match[0]
        to = target(page, match[1])
        if to is None:
            return "](" + os.path.relpath(place(page), os.path.dirname(page) or ".") + ")"
        anchor = match[1].partition("#")[1:]
        return "](" + os.path.relpath(place(to), os.path.dirname(page) or ".") + "".join(anchor) + ")"

    return LINK.sub(link, text)


def summary(pages):
    lines = ["# Summary", ""]
    lines += [f"[{title(pages[first])}]({place(first)})" for first in FIRST]
    listed = set(FIRST)

    def add(path):
        if path is not None and path in pages and path not in listed:
            listed.add(path)
            lines.append(f"- [{title(pages[path])}]({place(path)})")

    for line in pages[CONTENTS].splitlines():
        if line.startswith("## "):
            lines += ["", f"# {line[3:]}", ""]
        elif lines[-1] == "" or lines[-1].startswith("- "):
            for link in links(line):
                add(target(CONTENTS, link))
    lines += ["", "# In the repository", ""]
    for path in sorted(pages):
        add(path)
    return "\n".join(lines) + "\n"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs.get("id"), attrs.get("name")}
        self.links |= {attrs[name] for name in ("href", "src") if attrs.get(name)}


def broken(directory):
    """The links that lead nowhere, each with its page."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in directory.rglob("*.html")}
    for path, page in sorted(pages.items()):
        # A page that is not found is served anywhere, with links from the root.
        if path.name == "404.html":
            continue
        for link in sorted(page.links):
            if "://" in link or link.startswith(("mailto:", "data:", "javascript:")):
                continue
            file, _, anchor = unquote(link).partition("#")
            to = (path.parent / file).resolve() if file else path
            if not to.is_file() or anchor and to in pages and anchor not in pages[to].ids:
                yield f"{path.relative_to(directory)}: {link}"


def main(mdbook, mermaid):
    shutil.rmtree(BOOK, ignore_errors=True)
    pages, others = all_files()
    source = BOOK / "src"
    for page, text in pages.items():
        to = source / place(page)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(staged(page, text), encoding="utf-8")
    for path in others:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, source / path)
    (source / "SUMMARY.md").write_text(summary(pages), encoding="utf-8")
    (BOOK / "book.toml").write_text(CONFIGURATION.format(mermaid=mermaid), encoding="utf-8")
    subprocess.run([mermaid, "install", BOOK], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([mdbook, "build", BOOK], check=True)
    wrong = list(broken(BOOK / "html"))
    if wrong:
        sys.exit("links that lead nowhere:\n  " + "\n  ".join(wrong))
    print(f"{len(pages)} pages: target/book/html/index.html")


if __name__ == "__main__":
    main(*map(os.path.abspath, sys.argv[1:3]))
