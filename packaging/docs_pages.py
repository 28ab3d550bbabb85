"""Collects the pages of the site that docs.sh makes.

Usage:  python3 docs_pages.py ROOT WORK

Writes WORK/mkdocs.yml and WORK/pages: the Markdown files of the source tree, a page with the config's fields, and the
files that pages link to. A browser shows a source file only if its name ends in a known way, so its copy is FILE.txt,
and the links follow. Exits with 1 if a link leads nowhere; mkdocs checks the headings.
"""
import pathlib
import re
import shutil
import sys

LEFT_OUT = {".github", ".git"}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
SETTINGS = """\
site_name: Hawser
docs_dir: pages
use_directory_urls: false
theme:
  name: material
  font: false
  palette:
    - {media: "(prefers-color-scheme: light)", scheme: default}
    - {media: "(prefers-color-scheme: dark)", scheme: slate}
  features: [navigation.indexes, content.code.copy]
plugins: [search, offline]
extra:
  polyfills: [scripts/iframe-worker.js]  # else the plugin `offline` adds an address
markdown_extensions: [tables, attr_list, toc: {permalink: true}, pymdownx.superfences]
validation:
  omitted_files: ignore
  absolute_links: warn
  unrecognized_links: warn
  anchors: warn
nav:
"""
NAVIGATION = [
    ("Hawser", ["README.md", "CHANGELOG.md"]),
    ("Use it", ["bindings/cli/README.md", "capi/README.md", "bindings/README.md", "bindings/python/README.md",
                "bindings/java/README.md", "bindings/java/hawser-spark/README.md", "bindings/rust/hawser/README.md",
                "bindings/rust/hawser-sys/README.md", "examples/README.md", "examples/trust.md", "packaging/README.md"]),
    ("Look it up", ["capi/schema.md", "capi/errors.md", "engine/numbers.md"]),
    ("How it works", ["engine/", "kernels/"]),
    ("Work on it", ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "tests/"]),
]


def pages_of(root):
    files = (p.relative_to(root) for p in sorted(root.rglob("*.md")))
    return [p for p in files if not LEFT_OUT & set(p.parts) and not p.parts[0].startswith("build")]


class Site:
    def __init__(self, root, work):
        self.root, self.pages = root, work / "pages"
        self.wrong = []

    def add(self, page, text):
        """Writes a page; its links to files of the source tree lead to their copies."""
        parts = re.split(r"(^ *```.*?^ *```\n)", text, flags=re.S | re.M)
        linked = [part if n % 2 else LINK.sub(lambda m: self.link(page, m), part) for n, part in enumerate(parts)]
        self.write(page, "".join(linked))

    def write(self, path, text):
        target = self.pages / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def link(self, page, match):
        words, address = match[1], match[2]
        path, _, heading = address.partition("#")
        if "://" in address or address.startswith("mailto:") or not path:
            return match[0]
        target = (self.root / page.parent / path).resolve()
        if not target.is_relative_to(self.root) or not target.exists():
            self.wrong.append(f"{page}: {address} leads nowhere")
            return match[0]
        if target.is_dir():
            if not (target / "README.md").exists():
                return words  # a folder has no page of its own
            return f"[{words}]({path.rstrip('/')}/README.md)"
        if target.suffix == ".md":
            return match[0]
        copy = self.pages / target.relative_to(self.root)
        copy = copy.with_name(copy.name + ".txt")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, copy)
        return f"[{words}]({path}.txt{'#' + heading if heading else ''})"


def title_of(text, page):
    match = re.search(r"^# (.+)$", text, flags=re.M)
    return match[1].replace("`", "") if match else str(page)


def schema_page(folder):
    """Returns a page of the schema's tables and enums, with the docs of every field."""
    lines = ["# The config's fields", "",
             "A config is the table `Config`. A field that is not set has its default. `hawser explain /pointer` says "
             "where a value comes from.", ""]
    for file in sorted(folder.glob("*.fbs")):
        for kind, name, body, docs in declarations(file.read_text()):
            lines += [f"## {name}", "", docs, ""] if docs else [f"## {name}", ""]
            columns = ["field", "type", "default"] if kind == "table" else ["value"]
            lines += ["| " + " | ".join(columns + ["meaning"]) + " |", "|" + "---|" * (len(columns) + 1)]
            for cells in (fields_of(body) if kind == "table" else values_of(body)):
                lines.append("| " + " | ".join(cells) + " |")
            lines.append("")
    return "\n".join(lines)


def declarations(text):
    """Yields (kind, name, body, docs) of each table and enum."""
    pattern = r"((?:^///[^\n]*\n)*)^(table|enum) (\w+)[^{]*\{([^\n}]*\}|.*?^\})"
    for match in re.finditer(pattern, text, flags=re.S | re.M):
        yield match[2], match[3], match[4], joined(match[1])


def joined(comment):
    docs = " ".join(line.strip().removeprefix("///").strip() for line in comment.strip().splitlines())
    return docs.replace("|", "\\|").replace("<", "&lt;")


def fields_of(body):
    for match in re.finditer(r"((?:^ *///[^\n]*\n)*)^ *(\w+): *([^;=(]+?)(?: *= *\w+)? *\(([^;]*)\);", body, flags=re.M):
        if "deprecated" in match[4]:
            continue
        default = re.search(r'default: "([^"]*)"', match[4])
        yield f"`{match[2]}`", f"`{match[3].strip()}`", f"`{default[1]}`" if default else "", joined(match[1])


def values_of(body):
    for match in re.finditer(r"((?:^ *///[^\n]*\n)*) *(\w+) = \d+", body, flags=re.M):
        yield f"`{match[2]}`", joined(match[1])


def main():
    root, work = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    site = Site(root, work)
    texts = {page: (root / page).read_text() for page in pages_of(root)}
    texts[pathlib.Path("capi/schema.md")] = schema_page(root / "capi/schema")
    for page, text in texts.items():
        site.add(page, text)
    if site.wrong:
        sys.exit("\n".join(site.wrong))
    settings, left = SETTINGS, dict.fromkeys(sorted(texts))
    for section, names in NAVIGATION:
        settings += f"  - {section}:\n"
        for name in names:
            for page in [p for p in left if str(p) == name or name.endswith("/") and str(p).startswith(name)]:
                del left[page]
                settings += f"    - \"{title_of(texts[page], page)}\": {page}\n"
    if left:
        sys.exit(f"docs_pages.py: NAVIGATION has no place for {', '.join(map(str, left))}")
    (work / "mkdocs.yml").write_text(settings)


if __name__ == "__main__":
    main()
