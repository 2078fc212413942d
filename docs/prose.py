#!/usr/bin/env python3
"""Finds prose that a reader has to read twice.

    docs/prose.py [--list] [PATH...]

Reads Markdown, comments and string literals of Rust and Python, and comments and texts of TOML: the files of git
under PATH, or all. Prints `file:line: pattern: text` for each finding and ends with 1 if there is one. `--list`
prints the patterns with what to write instead. CONTRIBUTING.md has the style and twelve pairs.
"""

import re
import subprocess
import sys

# Name, regular expression (case ignored), what to write instead.
PATTERNS = [
    ("is-none", r"(?<!there )\b(?:is|are|was|were|be) none\b(?! given)", "say what it lacks: `has no noise`, `is invalid`"),
    ("of-none", r"\bof none\b", "name the opposite: `losses not caused by congestion`"),
    ("is-no-of", r"(?<!there )\b(?:is|are|was|were) no \w+ of\b", "negate the verb: `is not an interface of the host`"),
    ("is-no", r"[`}»\"] (?:is|are) no (?!longer|more|less)\w+", "`is not a table`, `is not a number`"),
    ("what-none", r"\b(?:(?:what|who) (?:is|are|was|were|has|have|had) (?:none|no|not(?= \w))|(?:that|which) (?:is|are|was|were) no)\b"
     r"(?! (?:longer|more|less|fewer|better|worse|\w+er)\b)", "name the thing: `an invalid window`, `a link without losses`"),
    ("of-what", r"\bof (?:what|all that|those who) (?!if\b|follows\b)\w+", "name the thing: `of the packets in flight`"),
    ("whoever", r"\bwho(?:so)?ever\b", "name the actor: `the caller`, `a program that`"),
    ("no-time", r"\bthan no (?:time|bytes?|packets?)\b", "`greater than zero`"),
    ("what-is", r"\bwhat (?:is|was) (?:(?!what\b)[\w'-]+ ){1,3}(?:is|are|was|were)\b", "name the thing: `the data in flight has left`"),
    ("inverted", r"\b(?:(?:Between|Before|Beyond|Behind|Beside|Above|Among|In|On|At|Under|Over|Inside)(?: (?!it |they )(?:[a-z-]+|`_+`)){1,3} "
     r"(?:is|are|was|were|(?:may )?stand|stands|lies|comes) (?:an?|one|the|no)|Then comes?|So (?:is|are|was|were))\b(?!,)",
     "subject first: `One connection joins both`"),
    ("each-once", r", (?:each|all) (?:once|twice)\b", "`without repetition`"),
    ("s-own", r"\b(?:than|beyond|as|of|not|from) (?:an? |the )?[\w-]+'s own(?=[,.;:)]|$)", "repeat the noun: `than the delay of the link`"),
    ("what-first", r"^(?:What|Who|Whom)\b(?! if\b)(?![^.]*\?)", "begin with the noun: `Packets that ...`, `The settings that ...`"),
]
# Only the first line of a doc comment, and only a heading of Markdown.
DOC = ("doc-first", r"^(?:What|Who|Whom|Whose|Which|(?:Is|Are|Was|Were|Does|Do|Did|Has|Have|Can|May) .*\?|Of|From what)\b",
       "a noun phrase or a verb in the third person: `Receiver window, in packets.`, `True if ...`")
HEADING = ("heading", r"^#+ (?:What|Who|Whom|Whose|Which|Whether|Of)\b", "name the subject: `Behaviour under AQM`")
WIDTH = 100  # Columns of a comment in Rust, as rustfmt's.
GENERATED = re.compile(r"<!-- generated: (\w+).*?<!-- end(?:: \w+)? -->", re.S)
SKIPPED = re.compile(r"docs/prose\.py|fuzz/(?:corpus|artifacts)/")
QUOTED = ("paper", "quote", "source")  # Keys of TOML whose texts are others' words.

RUST = re.compile(r'\br(#*)".*?"\1|b?"(?:[^"\\]|\\.)*"|\'(?:[^\'\\\n]|\\[^\n]*?)\'|//[^\n]*|/\*.*?\*/', re.S)
PYTHON = re.compile(r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*', re.S)
TOML = re.compile(r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*', re.S)
COMMENT = re.compile(r"(?:///|//!|//|#) ?")


def code(text, tokens):
    """Blocks (line, text, is it a doc comment) of a source file: a comment of several lines is one."""
    comment, begin, last, kind = [], 0, -1, ""
    for token in tokens.finditer(text):
        word, line = token.group(), text.count("\n", 0, token.start()) + 1
        mark = COMMENT.match(word)
        if mark:
            if (line, mark.group().strip()) != (last + 1, kind) or word[mark.end():].lstrip("!/ ") == "":
                yield begin, "\n".join(comment), kind in ("///", "//!")
                comment, begin = [], line
            comment.append(word[mark.end():])
            last, kind = line, mark.group().strip()
        elif word.count(" ") >= 2:
            key = re.search(r"(\w+) = \W*$", text[max(0, token.start() - 60):token.start()])
            if not (tokens is TOML and key and key[1] in QUOTED):
                yield line, word.strip("rb#\"'"), False
    yield begin, "\n".join(comment), kind in ("///", "//!")


def markdown(text):
    """Blocks of a Markdown file without code and without generated parts, whose words come from elsewhere."""
    blank = lambda found: "\n" * found.group().count("\n")
    text = GENERATED.sub(blank, text)
    text = re.sub(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", blank, text, flags=re.S | re.M)
    block, begin = [], 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        line = re.sub(r"^ *>.*", "", line)  # A quotation.
        if re.match(r" *(?:[-*|#]|\d+\.) ?|\s*$", line):
            yield begin, "\n".join(block), False
            block, begin = [], number
        block.append(re.sub(r"^ *(?:[-*|]|\d+\.) ", "", line))
    yield begin, "\n".join(block), False


def findings(path):
    text = open(path, encoding="utf-8").read()
    source = {"rs": RUST, "py": PYTHON, "pyi": PYTHON, "toml": TOML}.get(path.rsplit(".", 1)[-1])
    for begin, block, doc in code(text, source) if source else markdown(text):
        flat = re.sub(r"“[^”]*”|(?<!\w)\"[^\"]{20,}\"", lambda m: "_" * len(m.group()), block.replace("\n", " "))
        flat = re.sub(r"`[^`]*`", lambda m: "`" + "_" * (len(m.group()) - 2) + "`", flat)
        some = PATTERNS[:-1 if doc else None] + ([DOC] if doc else []) + ([HEADING] if block.startswith("#") and not source else [])
        for name, pattern, _ in some:
            flags = 0 if name in ("what-first", "inverted", "doc-first", "heading") else re.I
            for found in re.finditer(pattern, flat, flags):
                around = block[max(0, found.start() - 30):found.end() + 30].replace("\n", " ")
                yield begin + block.count("\n", 0, found.start()), name, around
    if path == "CHANGELOG.md":
        for entry in re.finditer(r"^- .*\n(?:  .*\n){3,}", text, re.M):
            yield text.count("\n", 0, entry.start()) + 1, "entry", "more than three lines"
    if source is RUST:
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > WIDTH and re.match(r"\s*//", line) and "http" not in line and "|" not in line:
                yield number, "width", f"{len(line)} columns"


def main():
    names = sys.argv[1:]
    if "--list" in names:
        for name, pattern, instead in [*PATTERNS, DOC, HEADING]:
            print(f"{name:12} {instead}\n{'':12} {pattern}")
        print(f"{'entry':12} an entry of CHANGELOG.md has at most three lines")
        print(f"{'width':12} a comment in Rust has at most {WIDTH} columns")
        return 0
    files = subprocess.run(["git", "ls-files", "-z", "--", *names], capture_output=True, text=True, check=True).stdout
    count = 0
    for path in filter(re.compile(r".*\.(md|rs|py|pyi|toml)$").match, files.split("\0")):
        for line, name, text in [] if SKIPPED.match(path) else sorted(set(findings(path))):
            print(f"{path}:{line}: {name}: {text.strip()}")
            count += 1
    print(f"{count} findings", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
