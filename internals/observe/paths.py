"""Walks over a bowl: where an optimizer went in two dimensions, over the lines of equal height."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from internals.observe import picture
from internals.observe.chart import STYLES
from internals.observe.picture import CHARACTER, Picture, text

WIDTH, MARGIN, TOP = 620.0, 16.0, 30.0
DOT = 2.2
LEVELS = 7


def draw_paths(paths: Mapping[str, Any], hessian: Any, *, title: str) -> Picture:
    """Draw walks over the height ``x @ hessian @ x / 2``, with ellipses where it is 1, 1/4, 1/16, ... of the highest.

    Parameters
    ----------
    paths : mapping of name to array, shape (points, 2)
        One to three; told apart by dashes as well as by colour.
    hessian : array, shape (2, 2)
        Symmetric, with positive eigenvalues; the lowest point is at (0, 0), marked by a cross.
    title : str

    Raises
    ------
    ValueError
        There is nothing to draw, more than can be told apart, a point that is not finite, or no bowl.
    """
    walks = {name: np.asarray(path, np.float64) for name, path in paths.items()}
    shapes = [walk.shape for walk in walks.values()]
    if not 1 <= len(walks) <= len(STYLES) or any(len(s) != 2 or s[1] != 2 or not s[0] for s in shapes):
        raise ValueError(f"draw_paths: expected 1 to {len(STYLES)} walks of shape (points, 2), got shapes {shapes}.")
    lost = [name for name, walk in walks.items() if not np.isfinite(walk).all()]
    if lost:
        raise ValueError(f"draw_paths: {lost[0]} has a point that is not finite; draw fewer steps.")
    bowl = np.asarray(hessian, np.float64)
    if bowl.shape != (2, 2) or not np.allclose(bowl, bowl.T) or np.linalg.eigvalsh(bowl).min() <= 0:
        raise ValueError(f"draw_paths: the hessian must be symmetric, 2 by 2, with positive eigenvalues, got {bowl}.")
    points = np.concatenate([*walks.values(), np.zeros((1, 2))])
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.06 * max(*(high - low), 1e-12)
    low, high = low - room, high + room
    scale = (WIDTH - 2 * MARGIN) / (high - low)[0]
    height = float((high - low)[1] * scale)

    def place(point: np.ndarray) -> tuple[float, float]:
        return MARGIN + (point[0] - low[0]) * scale, TOP + (high[1] - point[1]) * scale

    top = max(_height(bowl, walk).max() for walk in walks.values())
    body = [_frame(height), _ellipses(bowl, top, scale, place(np.zeros(2)))]
    legend = MARGIN
    for (name, walk), (colour, dashes) in zip(walks.items(), STYLES, strict=False):
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, walk))
        body.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{DOT}" fill="{colour}"/>' for x, y in map(place, walk)]
        body.append(
            f'<line x1="{legend:.1f}" x2="{legend + 26:.1f}" y1="14" y2="14" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        body.append(text(legend + 32, 18, name, anchor="start"))
        legend += 32 + (len(name) + 3) * CHARACTER
    told = "; ".join(
        f"{name}: {len(walk)} points, from height {_height(bowl, walk)[0]:.3g} to {_height(bowl, walk)[-1]:.3g}"
        for name, walk in walks.items()
    )
    return Picture("".join(body), WIDTH, TOP + height + MARGIN, title=title, description=f"Walks over a bowl. {told}.")


def _height(bowl: np.ndarray, walk: np.ndarray) -> np.ndarray:
    return np.einsum("ni,ij,nj->n", walk, bowl, walk) / 2


def _frame(height: float) -> str:
    """The edge of the picture, and the same as what the ellipses are cut to."""
    box = f'x="{MARGIN}" y="{TOP}" width="{WIDTH - 2 * MARGIN}" height="{height:.1f}"'
    cut = f'<clipPath id="{{name}}-frame"><rect {box}/></clipPath>'
    return f'{cut}<rect {box} fill="none" stroke="{picture.LINE}" stroke-width="0.6"/>'


def _ellipses(bowl: np.ndarray, top: float, scale: float, centre: tuple[float, float]) -> str:
    curvatures, axes = np.linalg.eigh(bowl)
    turn = -math.degrees(math.atan2(axes[1, 0], axes[0, 0]))  # the page's y goes down
    x, y = centre
    drawn = [f'<g clip-path="url(#{{name}}-frame)" fill="none" stroke="{picture.LINE}" stroke-width="0.6">']
    for level in range(LEVELS):
        first, second = scale * np.sqrt(2 * top / 4**level / curvatures)
        drawn.append(
            f'<ellipse rx="{first:.1f}" ry="{second:.1f}" transform="translate({x:.1f} {y:.1f}) rotate({turn:.2f})"/>'
        )
    cross = "".join(f"M{x - a:.1f},{y - b:.1f} L{x + a:.1f},{y + b:.1f} " for a, b in ((5, 5), (5, -5)))
    return "".join([*drawn, f'<path d="{cross}" stroke-width="1.5" stroke="{picture.TEXT}"/></g>'])
