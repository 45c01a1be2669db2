"""The docstrings below the settings of a section, which are their documentation. They are read from the source when
somebody asks for them: pydantic can do that too (`use_attribute_docstrings`), but does it whenever a model is made.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent


@cache
def docstrings(model: type) -> dict[str, str]:
    """By setting."""
    (definition,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for statement, below in pairwise(definition.body):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                found[name] = inspect.cleandoc(text)
    return found
