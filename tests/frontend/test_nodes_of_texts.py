"""The nodes that reading a function looks at are those of Python's own walk, but for contexts."""

import ast
from pathlib import Path

from jaxwarp.frontend.text.definition import _defs
from jaxwarp.frontend.text.tree import children, walk

# Between them they have every kind of statement, names of their own in expressions, and patterns.
TEXTS = [
    Path(__file__).read_text(),
    """
@kernel(options={"a": 1})
def k(x: array[float], *rest: int, n: int = 3, **more) -> None:
    y: float = x[0].value if n > 0 else -x[1:2, ...]
    for i, _ in enumerate(range(n)):
        try:
            with open(f"{i!r:>{n}}") as f, g:
                total += static(lambda a, b=2: a @ b)(i, key=[*x], **{"v": ~i})
        except (ValueError, KeyError) as error:
            def inside(): yield (await_ := 1)
        else:
            del y.a, x[0]
            if x:
                pass
            else:
                def otherwise(): pass
        finally:
            assert not i, "no"
            def at_the_end(): pass
    else:
        class Inner(Base, metaclass=Meta):
            async def run(self):
                async for a in b: await a
                return {c: d for c in {e for e in x} if c < d <= 3 != e}
    match x:
        case {"a": [1, *tail], **others} if tail: global g1
        case Point(x=0, y=(None | True)) as point: raise error from None
        case _:
            def last(): import a.b as c
    while True: break
""",
]


def test_walks_see_the_nodes_of_pythons_own() -> None:
    for tree in map(ast.parse, TEXTS):
        expected = [n for n in ast.walk(tree) if not isinstance(n, ast.expr_context)]
        assert list(map(id, walk(tree))) == list(map(id, expected))
        for node in expected:
            below = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr_context)]
            assert list(map(id, children(node))) == list(map(id, below))


def test_every_definition_is_found_wherever_it_stands() -> None:
    for tree in map(ast.parse, TEXTS):
        expected = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        assert {id(n) for n in _defs(tree)} == {id(n) for n in expected}
