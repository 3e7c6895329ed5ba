"""Every way to change one term of a function."""

import ast
import copy
import hashlib
import types
import warnings
from typing import NamedTuple

SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
         ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.BitAnd: ast.BitOr,
         ast.BitOr: ast.BitAnd}  # fmt: skip
APART = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.arguments)


class Mutant(NamedTuple):
    """One changed term: `label` names it in `owner`, which is a function, ``Class.method`` or a constant.

    `lines` are those of its statement, `extent` those of its owner, and `code` is that of the changed owner.
    """

    module: str
    owner: str
    label: str
    lines: range
    extent: range
    code: types.CodeType

    @property
    def name(self):
        return f"{self.module}.{self.owner}: {self.label}"

    @property
    def rank(self):
        """A number that does not depend on the other mutants: the lowest are at any time a fair sample."""
        return hashlib.sha256(self.name.encode()).hexdigest()


def replacements(node):
    """Yield what `node` may be replaced with."""
    if isinstance(node, ast.BinOp):
        if type(node.op) in SWAPS:
            yield ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)):
            yield node.left
        if isinstance(node.op, (ast.Add, ast.Mult)):
            yield node.right
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield ast.Compare(node.left, [SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Invert)):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)
    elif isinstance(node, ast.Attribute) and node.attr in ("minimum", "maximum"):
        yield ast.Attribute(node.value, "maximum" if node.attr == "minimum" else "minimum", node.ctx)


def owners(tree):
    """Return what holds formulas, by name: functions, methods, and constants of the module."""
    found = {}
    for part in tree.body:
        if isinstance(part, ast.FunctionDef):
            found[part.name] = part
        elif isinstance(part, ast.ClassDef):
            found |= {f"{part.name}.{one.name}": one for one in part.body if isinstance(one, ast.FunctionDef)}
        elif isinstance(part, ast.Assign):
            found[ast.unparse(part.targets[0])] = part
    return found


def digest(part):
    """Return twelve digits that name what a function computes: not its comments, its layout or its docstring."""
    part = copy.deepcopy(part)
    if isinstance(part, ast.FunctionDef) and ast.get_docstring(part):
        part.body = part.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(part).encode()).hexdigest()[:12]


def _places(part):
    """Yield parent, field, index, node and statement of everything that computes."""
    stack = [(part, part)]
    while stack:
        parent, statement = stack.pop()
        if isinstance(parent, APART):
            continue
        if isinstance(parent, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)):
            statement = parent
        for field, value in ast.iter_fields(parent):
            for index, node in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(node, ast.AST):
                    yield parent, field, index if isinstance(value, list) else None, node, statement
                    stack.append((node, statement))


def _put(parent, field, index, node):
    """Set a child of `parent`, in a list or not."""
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _lines(part):
    return range(part.lineno, part.end_lineno + 1)


def _code(part):
    with warnings.catch_warnings(action="ignore"):  # of terms that make no sense
        return compile(ast.fix_missing_locations(ast.Module([part], [])), "mutant", "exec")


def mutants(module, source, *, compiled=True):
    """Return every mutant of a module, with its code unless only the names are asked for."""
    tree, found, seen = ast.parse(source), [], {}
    for owner, part in owners(tree).items():
        for parent, field, index, node, statement in _places(part):
            # A bare number says little: show the expression around it.
            shown = parent if isinstance(node, ast.Constant) and isinstance(parent, ast.expr) else node
            before = ast.unparse(shown)
            for changed in replacements(node):
                _put(parent, field, index, ast.copy_location(changed, node))
                label = f"{before} -> {ast.unparse(parent if shown is parent else changed)}"
                count = seen[owner, label] = seen.get((owner, label), 0) + 1
                label += f" ({count})" if count > 1 else ""
                code = _code(part) if compiled else None
                found.append(Mutant(module, owner, label, _lines(statement), _lines(part), code))
                _put(parent, field, index, node)
    return found
