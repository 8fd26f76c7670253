"""Assertions match ids, values, options and exit codes: a sentence may be rewritten at any time."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROSE = re.compile(r"[A-Za-z]+(?: [A-Za-z]+){3,}")
COMPARING = re.compile(r"startswith|endswith|index|count|search|(full)?match|escape|any|all|[A-Z]\w*")
PLANTED = """
assert "one two three four" in f("input of another call"), "not the message"  # found
with raises(Error, match=rf"{name} one two three four"): pass  # found
for text, says in (("input of a loop", "five six seven eight"),): assert says in text  # found
expect(page).to_have_text("six seven eight nine")  # found
says = "nine ten eleven twelve"  # found
assert any(says in one for one in notes) and "one two three: four" in notes and table["key of four words"] == 1
@mark.parametrize("text, says", [("input of a parameter", "five six seven nine")])  # found
def test(text, says): assert f(text).startswith(says)
assert f("held as an input")["text"] == "held as an input"
"""


def called(node: ast.Call) -> str:
    """The name of what is called, without what it belongs to."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def compared(node: ast.AST) -> Iterator[ast.AST]:
    """Constants and names that are compared with; keys and arguments of other calls are input."""
    below = [node.value] if isinstance(node, ast.Subscript) else list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call) and not COMPARING.fullmatch(called(node)):
        below = [node.func]
    yield node
    for one in below:
        yield from compared(one)


def bound(scope: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names with their values, in assignments, loops and the columns of `parametrize`."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            yield ast.unparse(node.targets[0]), node.value
        table = [node.target, node.iter] if isinstance(node, ast.For) else []
        if isinstance(node, ast.Call) and called(node) == "parametrize":
            table = node.args[:2]
        for row in getattr(table[-1], "elts", []) if table else []:
            names = re.findall(r"\w+", ast.unparse(table[0]))
            cells = [row] if len(names) == 1 else getattr(row, "elts", None) or getattr(row, "args", [])
            yield from zip(names, cells, strict=False)


def sentences(source: str) -> dict[int, str]:
    nodes = list(ast.walk(tree := ast.parse(source)))
    places = [node.test for node in nodes if isinstance(node, ast.Assert)]
    places += [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "match"]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    places += [one for node in calls if getattr(node.func, "attr", "").startswith("to_") for one in node.args]
    found = {id(one) for place in places for one in compared(place)}
    for scope in (tree, *(node for node in nodes if isinstance(node, ast.FunctionDef))):
        loads = [one for one in ast.walk(scope) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        only = {one.id for one in loads} - {one.id for one in loads if id(one) not in found}
        found |= {id(one) for name, value in bound(scope) if name in only for one in compared(value)}
    texts = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    held = "\n".join(str(node.value) for node in texts if id(node) not in found)
    runs = [(node.lineno, run) for node in texts if id(node) in found for run in PROSE.findall(str(node.value))]
    return {line: run for line, run in runs if run not in held}


def test_assertions_match_no_sentences() -> None:
    assert sorted(sentences(PLANTED)) == [n for n, line in enumerate(PLANTED.split("\n"), 1) if "# found" in line]
    assert not [(file, found) for file in Path(__file__).parent.rglob("*.py") if (found := sentences(file.read_text()))]
