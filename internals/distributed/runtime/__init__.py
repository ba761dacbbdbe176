"""Graphs on many tasks: a client sends its graph to a master, which cuts it, and workers run the parts."""

from internals.distributed.runtime.cluster import ClusterSpec, Place
from internals.distributed.runtime.cut import Record, cut, place, prune, swap
from internals.distributed.runtime.local import InprocCluster, ProcessCluster
from internals.distributed.runtime.rendezvous import Rendezvous
from internals.distributed.runtime.server import Server
from internals.distributed.runtime.session import RemoteSession

__all__ = [
    "ClusterSpec",
    "InprocCluster",
    "Place",
    "ProcessCluster",
    "Record",
    "RemoteSession",
    "Rendezvous",
    "Server",
    "cut",
    "place",
    "prune",
    "swap",
]
