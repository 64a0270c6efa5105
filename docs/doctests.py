"""For the reference: the examples of a docstring are code, where Markdown would see quotations in `>>>`."""

import re

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n(?!>>> )|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
