"""Training that goes on while ranks die and others join (Elastic Horovod; torchelastic)."""

from internals.distributed.scale.elastic.member import Finished, Member
from internals.distributed.scale.elastic.run import Regroup, Run, average_gradients, run
from internals.distributed.scale.elastic.shards import Shards
from internals.distributed.scale.elastic.state import State

__all__ = ["Finished", "Member", "Regroup", "Run", "Shards", "State", "average_gradients", "run"]
