"""A caching memory pool: segments are asked of the device once, cut into blocks, and the blocks used again.

Asking a device for memory is slow, and giving it back makes the host wait for the device. So a framework asks for
large *segments*, cuts *blocks* from them, and keeps freed blocks for the next request. Handles that free their block
when the last one who holds them lets go are PaddlePaddle's.

The pool knows nothing of devices. It asks a `Source` for segments: NumPy buffers for the simulated accelerator,
``cudaMalloc`` for a GPU.
"""

from internals.memory.blocks import Block, Segment, best_fit, merge, split, swap
from internals.memory.host import keep_freed_memory
from internals.memory.pool import BlockShown, Figures, Handle, OutOfMemory, Pool, SegmentShown
from internals.memory.sizes import GIB, GRANULE, KIB, MIB, SMALL, bytes_as_text, round_up, segment_size
from internals.memory.source import HostSource, Source

__all__ = [
    "GIB",
    "GRANULE",
    "KIB",
    "MIB",
    "SMALL",
    "Block",
    "BlockShown",
    "Figures",
    "Handle",
    "HostSource",
    "OutOfMemory",
    "Pool",
    "Segment",
    "SegmentShown",
    "Source",
    "best_fit",
    "bytes_as_text",
    "keep_freed_memory",
    "merge",
    "round_up",
    "segment_size",
    "split",
    "swap",
]
