"""Who holds what: bytes of parameters, gradients, optimizer states and activations on each rank, drawn as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from internals.observe import Picture, picture
from internals.observe.picture import CHARACTER, text

WIDTH, LEFT, RIGHT, LANE, GAP = 660.0, 150.0, 70.0, 15.0, 3.0
STYLES = (
    (picture.LEAF, picture.FILL_LEAF),
    (picture.OP, picture.FILL_OP),
    (picture.MUTED, picture.FILL_FREED),
    (picture.LINE, "none"),
)

Share = Mapping[str, float]
"""Bytes by what they are for; up to four kinds, the same for all."""


def draw_shares(held: Mapping[str, Sequence[Share]], *, title: str) -> Picture:
    """Draw what each rank holds, one bar for each, for several ways to train, on one scale.

    Parameters
    ----------
    held : mapping of name to shares by rank

    Raises
    ------
    ValueError
        Nothing to draw, or more kinds than can be told apart.
    """
    kinds = list(dict.fromkeys(kind for shares in held.values() for share in shares for kind in share))
    if not 1 <= len(kinds) <= len(STYLES):
        raise ValueError(f"draw_shares: expected 1 to {len(STYLES)} kinds of bytes, got {kinds}")
    most = max(sum(share.values()) for shares in held.values() for share in shares)
    scale = (WIDTH - LEFT - RIGHT) / (most or 1.0)
    body, at = [], LEFT
    for kind, (stroke, fill) in zip(kinds, STYLES, strict=False):
        body.append(f'<rect x="{at:.1f}" y="4" width="14" height="12" fill="{fill}" stroke="{stroke}"/>')
        body.append(text(at + 20, 14, kind, anchor="start"))
        at += 34 + len(kind) * CHARACTER
    down = 28.0
    for name, shares in held.items():
        middle = down + len(shares) * (LANE + GAP) / 2
        body.append(text(LEFT - 10, middle + 2, name, anchor="end", weight="bold"))
        for rank, share in enumerate(shares):
            x = LEFT
            for kind, (stroke, fill) in zip(kinds, STYLES, strict=False):
                width = share.get(kind, 0.0) * scale
                told = f"<title>{name}, rank {rank}, {kind}: {share.get(kind, 0.0) / 2**10:.1f} KiB</title>"
                place = f'x="{x:.2f}" y="{down:.1f}" width="{width:.2f}" height="{LANE}"'
                body.append(f'<rect {place} fill="{fill}" stroke="{stroke}" stroke-width="0.8">{told}</rect>')
                x += width
            total = f"{sum(share.values()) / 2**20:.2f} MiB"
            body.append(text(x + 6, down + 12, total, anchor="start", fill=picture.MUTED))
            down += LANE + GAP
        down += 12
    told = "; ".join(
        f"{name}: up to {max(sum(share.values()) for share in shares) / 2**20:.2f} MiB on a rank"
        for name, shares in held.items()
    )
    return Picture("".join(body), WIDTH, down, title=title, description=f"{told}.")
