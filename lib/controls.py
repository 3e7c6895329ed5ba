"""The controls of a chart as the page has them from the start: they hold the place of the live ones."""

import html

# How Vega writes a control, so that nothing moves when its own take the place.
_FRAME = '<div class="vega-bind"><label><span class="vega-bind-name">{name}</span>{control}</label></div>'


def placeholders(spec):
    """Return the controls that a specification declares as HTML that does nothing yet; empty if it has none.

    Parameters
    ----------
    spec : dict
        A Vega-Lite specification. A parameter that is bound to a range or a list is a control.

    Raises
    ------
    ValueError
        If a control is of another kind.
    """
    bound = [param for param in spec.get("params", []) if isinstance(param.get("bind"), dict)]
    return "".join(_placeholder(param) for param in bound)


def _placeholder(param):
    bind, value = param["bind"], param["value"]
    name = html.escape(bind.get("name", param["name"]))
    label = f'disabled aria-label="{name}"'
    if bind["input"] == "range":
        limits = " ".join(f'{limit}="{bind[limit]}"' for limit in ("min", "max", "step"))
        control = f'<input type="range" {label} {limits} value="{value}"><span>{value}</span>'
    elif bind["input"] == "select":
        options = "".join(
            f"<option{' selected' if option == value else ''}>{html.escape(str(option))}</option>"
            for option in bind["options"]
        )
        control = f"<select {label}>{options}</select>"
    else:
        raise ValueError(f"bind must be a range or a select, got {bind['input']!r}")
    return _FRAME.format(name=name, control=control)
