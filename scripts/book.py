#!/usr/bin/env python3
"""Makes the documentation a book with search: scripts/book.py MDBOOK, which `make book` calls.

The pages are those of docs/, the README and the pages beside it, in the places they have in the repository, so that their
links stay as they are. The order is that of docs/README.md. Fails on a page that is not in that index, and on a link or
an anchor of the book that leads nowhere.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SOURCE, BOOK = ROOT / "target/book/source", ROOT / "target/book/html"
INDEX = "docs/README.md"
PROJECT = ["ARCHITECTURE.md", "SAFETY.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
# The index's section about the index itself.
ASIDE = "Writing a page"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def stop(message):
    sys.exit(f"book: {message}")


def tracked():
    """Returns the files of the repository, with new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


def target(page, link):
    """Returns the path in the repository that a page's link leads to; None where it leads elsewhere."""
    if re.match(r"[a-z]+:", link):
        return None
    parts = []
    for part in (PurePosixPath(page).parent / link).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def links(page):
    """Returns where the links of a page lead."""
    text = (ROOT / page).read_text()
    return [to for link, _ in LINK.findall(text) if (to := target(page, link))]


def title(page):
    return (ROOT / page).read_text().split("\n", 1)[0].removeprefix("# ").strip()


def chapter(page, above="", depth=0):
    """Returns a line of the summary. A title that begins with the heading it stands under goes without that."""
    name = title(page).replace("[", "").replace("]", "").removeprefix(f"{above}: ")
    name = name if name.startswith("tare") else name[0].upper() + name[1:]
    return f"{'    ' * depth}- [{name}]({page})"


def summary(files):
    """Returns the book's summary, and the pages in it."""
    lines = ["# Summary", "", "[tare](README.md)", f"[{title(INDEX)}]({INDEX})"]
    seen = {"README.md", INDEX}
    for section in re.split(r"^## ", (ROOT / INDEX).read_text(), flags=re.M)[1:]:
        heading, text = section.split("\n", 1)
        if heading == ASIDE:
            continue
        heading = heading.split(":")[0]
        lines += ["", f"# {heading}", ""]
        for page in (to for link, _ in LINK.findall(text) if (to := target(INDEX, link))):
            if page in files and page.endswith(".md") and page not in seen:
                seen.add(page)
                lines.append(chapter(page, heading))
                # Pages in a folder of that name are parts of it.
                parts = [it for it in links(page) if it.startswith(page.removesuffix(".md") + "/") and it.endswith(".md")]
                for part in dict.fromkeys(parts):
                    seen.add(part)
                    lines.append(chapter(part, title(page), 1))
    lines += ["", "# The project", ""] + [chapter(page) for page in PROJECT]
    seen.update(PROJECT)
    lost = sorted(name for name in files if re.fullmatch(r"docs/.*\.md", name) and name not in seen)
    if lost:
        stop(f"{INDEX} does not name {', '.join(lost)}: add a link there")
    return "\n".join(lines) + "\n", seen


def gather(files):
    """Lays out the book's source."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    text, pages = summary(files)
    others = {name for name in files if name.startswith("docs/") and not name.endswith(".md")}
    linked = {to for page in pages for to in links(page) if to in files}
    for name in pages | others | linked:
        place = SOURCE / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, place)
    (SOURCE / "SUMMARY.md").write_text(text)
    return pages


class Anchors(HTMLParser):
    """The ids of a page, and what it refers to."""

    def __init__(self):
        super().__init__()
        self.ids, self.links = set(), []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            elif name in ("href", "src", "srcset") and value:
                self.links.append(value)


def check(pages):
    """Returns what the book's pages refer to and is not there."""
    read = {}
    for page in pages:
        place = BOOK / (page.removesuffix(".md") + ".html")
        read[place] = Anchors()
        read[place].feed(place.read_text())
    dead = []
    for place, anchors in read.items():
        for link in anchors.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (place.parent / unquote(parts.path)).resolve() if parts.path else place
            known = read.get(to)
            if not to.is_file() or (parts.fragment and known and unquote(parts.fragment) not in known.ids):
                dead.append(f"{place.relative_to(BOOK)}: {link}")
    return dead


def main():
    if len(sys.argv) != 2:
        stop("give the path of mdbook, or call make book")
    pages = gather(tracked())
    shutil.rmtree(BOOK, ignore_errors=True)
    if subprocess.run([sys.argv[1], "build", str(ROOT)]).returncode:
        stop("mdBook failed; what it says is above")
    if dead := check(pages):
        stop("links that lead nowhere:\n  " + "\n  ".join(dead))
    print(f"book: {len(pages)} pages, to be opened in a browser: {(BOOK / 'index.html').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
