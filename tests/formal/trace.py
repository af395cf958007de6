"""Traces of failed proofs, as text."""

__all__ = ["table"]


def table(vcd, *, top="top"):
    """Return the signals of module ``top`` of a VCD file, a line each, a column per step.

    Steps are those smtbmc writes: ten units apart, the last one closing the trace.
    """
    names, scopes, values, rows = {}, [], {}, []
    step = None
    for line in vcd.splitlines():
        word, *rest = line.split() or [""]
        if word == "$scope":
            scopes.append(rest[1])
        elif word == "$upscope":
            scopes.pop()
        elif word == "$var" and scopes[-1:] == [top]:
            name = rest[3].removeprefix("\\")
            if "$" not in name:  # a second signal of the same name belongs to the bench
                names[rest[2]] = name
        elif word.startswith("#"):
            if step is not None and step % 10 == 0:
                rows.append(dict(values))
            step = int(word[1:])
        elif word.startswith("b") and rest:
            values[rest[0]] = word[1:]
        elif word[:1] in ("0", "1", "x") and word[1:]:
            values[word[1:]] = word[0]
    lines = []
    for key, name in sorted(names.items(), key=lambda item: item[1]):
        cells = [show(row.get(key, "x")) for row in rows]
        width = max((len(cell) for cell in cells), default=0)
        lines.append(f"{name:<28}" + " ".join(cell.rjust(width) for cell in cells))
    return "\n".join(lines)


def show(bits):
    return f"{int(bits, 2):x}" if set(bits) <= {"0", "1"} else "x"
