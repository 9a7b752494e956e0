"""An extension of griffe, which reads the docstrings of docs/api.md: signatures list the keywords of Shared by name."""

from typing import Any

from griffe import Extension, Function, Parameter, ParameterKind

SHARED = "class_uncertainty.runs.settings.Shared"


class SharedKeywords(Extension):
    def on_function(self, *, func: Function, **_: Any) -> None:
        """Put the keywords in the place of `**settings: Unpack[Shared]`."""
        settings = next((row for row in func.parameters if str(row.annotation) == "Unpack[Shared]"), None)
        if settings is None:
            return
        del func.parameters[settings.name]
        for name, keyword in func.modules_collection[SHARED].attributes.items():
            func.parameters.add(
                Parameter(name, annotation=keyword.annotation, kind=ParameterKind.keyword_only, default="None")
            )
