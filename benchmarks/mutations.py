"""Possible changes of a module: one operator, comparison, sign, constant or extremum at a time."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
_PAIRS = ("min", "max"), ("minimum", "maximum"), ("nanmin", "nanmax"), ("argmin", "argmax"), ("nanargmin", "nanargmax")
_PAIRS += ("floor", "ceil"), ("any", "all")
NAMES = {first: second for pair in _PAIRS for first, second in (pair, pair[::-1])}
UNTOUCHED = "annotation", "returns", "decorator_list"  # fields that say nothing about results


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes:
        name: where and what, the same as long as the code around it is: `scope: before -> after`, numbered where a
            scope has several of that kind.
        line: of the change, in the original.
        source: the whole changed module.
    """

    name: str
    line: int
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module's source.

    Arithmetic operators, comparisons (their edge and their direction), and/or, signs and negations are changed; whole
    numbers go up by one, others double, 0 becomes 1, truth values flip (default arguments are among them); minimum and
    maximum, floor and ceil, any and all change places. Annotations, decorators, overloads, texts, errors raised and the
    `strict` of a zip, which raises one, are left alone.
    """
    return [
        Mutant(name, line, f"{start}{ast.unparse(changed)}\n{end}") for name, line, start, changed, end in _each(source)
    ]


def names_of_mutants(source: str) -> list[str]:
    """Their names, without the changed modules."""
    return [name for name, *_ in _each(source)]


def _each(source: str) -> Iterator[tuple[str, int, str, ast.stmt, str]]:
    """(name, line, text before, statement, text after); the statement is changed until the next one is asked for."""
    lines = source.splitlines(keepends=True)
    counts = Counter()
    for statement in ast.parse(source).body:
        first = min(node.lineno for node in (statement, *getattr(statement, "decorator_list", ())))
        start, end = "".join(lines[: first - 1]), "".join(lines[statement.end_lineno :])
        for node, parent, scope in _nodes(statement, statement, "module"):
            for attribute, value in _changes(node):
                old, before = getattr(node, attribute), _shown(node, parent)
                setattr(node, attribute, value)
                name = f"{scope}: {before} -> {_shown(node, parent)}"
                counts[name] += 1
                number = f" ({counts[name]})" if counts[name] > 1 else ""
                yield name + number, node.lineno, start, statement, end
                setattr(node, attribute, old)


def _shown(node: ast.AST, parent: Any) -> str:
    """A node in words: names and constants with what they stand in, defaults with their argument."""
    if isinstance(parent, ast.arguments):
        positional = [*parent.posonlyargs, *parent.args]
        pairs = [*zip(positional[::-1], parent.defaults[::-1]), *zip(parent.kwonlyargs, parent.kw_defaults)]
        return next(f"{argument.arg}={ast.unparse(node)}" for argument, default in pairs if default is node)
    return ast.unparse(parent if isinstance(node, ast.Constant | ast.Name | ast.Attribute) else node)


def _nodes(node: ast.AST, parent: ast.AST, scope: str) -> Iterator[tuple[Any, ast.AST, str]]:
    """Nodes that may be changed, each with its parent and the name of the function or class around it."""
    if isinstance(node, ast.Raise | ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return
    if isinstance(node, ast.FunctionDef) and "overload" in map(ast.unparse, node.decorator_list):
        return
    yield node, parent, scope
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        scope = node.name if scope == "module" else f"{scope}.{node.name}"
    for field, value in ast.iter_fields(node):
        if field not in UNTOUCHED:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _nodes(child, node, scope)


def _changes(node: Any) -> Iterator[tuple[str, Any]]:
    """(attribute, new value) for every change of one node."""
    match node:
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            yield from (("op", other()) for other in OPERATORS.get(type(node.op), ()))
        case ast.Compare():
            for i, op in enumerate(node.ops):
                for other in OPERATORS[type(op)]:
                    yield "ops", [*node.ops[:i], other(), *node.ops[i + 1 :]]
        case ast.UnaryOp(op=ast.USub()):
            yield "op", ast.UAdd()
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            yield "operand", ast.UnaryOp(node.op, node.operand)
        case ast.Constant(value=bool(value)):
            yield "value", not value
        case ast.Constant(value=int(value)):
            yield "value", value + 1
        case ast.Constant(value=(float() | complex()) as value):
            yield "value", 2 * value or 1.0
        case ast.Name() if node.id in NAMES:
            yield "id", NAMES[node.id]
        case ast.Attribute() if node.attr in NAMES:
            yield "attr", NAMES[node.attr]
