"""A lite model as a table, and its arena as a drawing."""

from __future__ import annotations

from html import escape

from internals.deploy.lite.runtime import Interpreter
from internals.deploy.lite.runtime.arena import lower_bound
from internals.observe.picture import CHARACTER, FILL_LEAF, LEAF, LINE, MUTED, Picture, text

COLUMNS = 64


def table(model: Interpreter) -> str:
    """Operators, and tensors with their bytes and offsets."""
    lines = [f"{'step':>4}  {'operation':<17} inputs -> result"]
    names = [tensor.name for tensor in model.model.tensors]
    for step, (operator, kernel) in enumerate(zip(model.model.operators, model.kernels, strict=True)):
        read = ", ".join(names[i] for i in operator.inputs)
        told = f" {list(operator.parameters)}" if operator.parameters else ""
        title = f"{type(kernel).__name__}.{operator.version}"
        lines.append(f"{step:>4}  {title:<17} {read} -> {names[operator.outputs[0]]}{told}")
    lines += ["", f"{'tensor':<24} {'dtype':<8} {'shape':<18} {'bytes':>10}  where"]
    for i, value in enumerate(model.values):
        if value.data is not None:
            where = "file"
        elif i in model.of_value:
            where = f"arena {model.of_value[i].offset:,}"
        else:
            where = "nowhere"
        size = value.size * value.dtype.itemsize
        lines.append(f"{value.name:<24.24} {value.dtype!s:<8} {list(value.shape)!s:<18} {size:>10,}  {where}")
    weights = sum(value.data.nbytes for value in model.values if value.data is not None)
    lines += [
        "",
        f"constants {weights:,} bytes, read where they lie in the file; arena {len(model.arena):,} bytes for a batch "
        f"of {model.batch}; {lower_bound(model.blocks):,} are in use at one time, and no plan has less; behind "
        f"it {len(model.room):,} bytes in which kernels work",
    ]
    return "\n".join(lines)


def arena_text(model: Interpreter) -> str:
    """The arena as it is planned: one line a block, its bytes from left to right, its steps in front."""
    whole = max(1, len(model.arena))
    lines = [f"steps    0 {'bytes of the arena':^{COLUMNS - 4}} {whole:,}"]
    for block in sorted(model.blocks, key=lambda one: (one.first, one.offset)):
        left = block.offset * COLUMNS // whole
        right = max(left + 1, -(-(block.offset + block.size) * COLUMNS // whole))
        bar = "." * left + "#" * (right - left) + "." * (COLUMNS - right)
        lines.append(f"{block.first:>3}-{block.last:<3}  {bar}  {block.name[:40]}")
    return "\n".join(lines)


def draw_arena(model: Interpreter, *, title: str = "The arena") -> Picture:
    """The plan as a picture: a box for each block, as wide as it is alive and as high as it is large."""
    width, height, left, top = 720, 340, 76, 12
    whole = max(1, len(model.arena))
    across, up, base = (width - left - 10) / (len(model.kernels) + 2), (height - top - 46) / whole, height - 46
    parts = []
    for number in range(5):
        at = base - number * (base - top) / 4
        parts.append(f'<line x1="{left}" x2="{width - 10}" y1="{at:.1f}" y2="{at:.1f}" stroke="{LINE}"/>')
        parts.append(text(left - 6, at + 4, f"{whole * number // 4:,}", anchor="end", fill=MUTED))
    for block in model.blocks:
        x, wide = left + (block.first + 1) * across, (block.last - block.first + 1) * across
        high = block.size * up
        y = base - block.offset * up - high
        name = block.name.split(", ")[-1]
        steps = f"steps {block.first} to {block.last}"
        told = f"{block.name}: {block.size:,} bytes at {block.offset:,}, {steps}"
        box = f'x="{x + 1:.1f}" y="{y:.1f}" width="{wide - 2:.1f}" height="{max(high, 1):.1f}"'
        parts.append(f'<g><title>{escape(told)}</title><rect {box} fill="{FILL_LEAF}" stroke="{LEAF}"/>')
        if high > 14 and wide > 5 * CHARACTER:
            fits = int((wide - 8) / CHARACTER)
            shown = name if len(name) <= fits else name[: fits - 1] + "…"
            parts.append(text(x + wide / 2, y + high / 2 + 4, shown))
        parts.append("</g>")
    for step in range(-1, len(model.kernels)):
        parts.append(text(left + (step + 1.5) * across, base + 18, "in" if step < 0 else str(step), fill=MUTED))
    parts.append(text((left + width) / 2, height - 8, "step; bytes upwards", fill=MUTED))
    description = f"{len(model.blocks)} blocks in {whole:,} bytes over {len(model.kernels)} steps: " + "; ".join(
        f"{block.name} at {block.offset:,}, {block.size:,} bytes" for block in model.blocks
    )
    return Picture("".join(parts), width, height, title=title, description=description)
