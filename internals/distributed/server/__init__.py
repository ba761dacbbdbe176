"""A parameter server: servers hold the parameters, trainers push gradients and pull values."""

from internals.distributed.server.checkpoint import Checkpoints
from internals.distributed.server.client import Client
from internals.distributed.server.compression import EightBit, TopK
from internals.distributed.server.consistency import Asynchronous, BoundedStaleness, Consistency, Synchronous
from internals.distributed.server.job import connect, role, serve
from internals.distributed.server.links import RolledBack, ShardsMoved
from internals.distributed.server.placement import Layout, Piece, place, server_of_rows
from internals.distributed.server.row_index import RowIndex
from internals.distributed.server.server import Server
from internals.distributed.server.table import SparseTable, TableSpec
from internals.distributed.server.trainer import Gradients, Span, Trainer

__all__ = [
    "Asynchronous",
    "BoundedStaleness",
    "Checkpoints",
    "Client",
    "Consistency",
    "EightBit",
    "Gradients",
    "Layout",
    "Piece",
    "RolledBack",
    "RowIndex",
    "Server",
    "ShardsMoved",
    "Span",
    "SparseTable",
    "Synchronous",
    "TableSpec",
    "TopK",
    "Trainer",
    "connect",
    "place",
    "role",
    "serve",
    "server_of_rows",
]
