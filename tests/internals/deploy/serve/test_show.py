"""Pictures of batches: what they say is what happened."""

from __future__ import annotations

import re

import numpy as np
import pytest

from internals.deploy.serve.batcher import Request
from internals.deploy.serve.show import Span, Watched, draw_batches


def test_what_was_taken_is_remembered_with_its_times():
    watched = Watched(size=2, wait=0.5)
    for at in (0.25, 0.375, 1.0):
        watched.submit(at, Request(rows=1))
    assert len(watched.take(0.375)) == 2
    assert watched.take(0.5) == []
    assert len(watched.take(1.5)) == 1
    spans = watched.spans([0.875, 2.0])
    assert spans == [Span(0.25, 0.375, 0.875, 0), Span(0.375, 0.375, 0.875, 0), Span(1.0, 1.5, 2.0, 1)]
    assert watched.spans([0.875]) == spans[:2]


@pytest.mark.parametrize("longest", [1e-5, 0.03, 0.5, 70.0])
def test_a_picture_has_a_bar_for_each_request_and_a_frame_for_each_batch(longest):
    draw = np.random.default_rng(5)
    arrived = np.sort(draw.uniform(0, longest / 2, 9))
    spans = [Span(float(at), longest * 0.6, longest, number // 4) for number, at in enumerate(arrived)]
    picture = draw_batches({"some": spans}, title="What ran")
    assert "some: 9 requests in 3 batches" in picture.description
    assert len(re.findall("<rect", picture.svg)) == 9 + 3
    lefts = [float(x) for x in re.findall(r' x1?="([-0-9.]+)"', picture.svg)]
    assert 0 <= min(lefts) <= max(lefts) <= 640


@pytest.mark.parametrize(
    ("runs", "said"),
    [({}, "at least one request"), ({"none": []}, "at least one request"), ({"many": [Span(0, 1, 2, 0)] * 201}, "201")],
)
def test_what_can_not_be_drawn_is_refused(runs, said):
    with pytest.raises(ValueError, match=said):
        draw_batches(runs, title="Nothing")


def test_requests_that_took_no_time_are_drawn():
    assert "1 requests in 1 batches, 0 ms" in draw_batches({"one": [Span(3.0, 3.0, 3.0, 0)]}, title="x").description
